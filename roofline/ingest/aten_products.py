"""Matrix products: of a parameter (`gemm`), of two activations (`batched_gemm`), scaled and grouped ones."""

from __future__ import annotations

from math import prod

from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles, number_format

QUANTISED = ("fp8_e4m3", "fp8_e5m2", "int8", "fp4")


def product_of(a: Tensor, b: Tensor, *, m: int, n: int, k: int, **fields: Scalar) -> tuple[Mapped, ...]:
    """A[m, k] B[k, n], where B may be a parameter; nothing where a dimension is empty.

    Without knowledge of B it is taken to be a weight: a layer's product, the frequent case. The bytes are the same; only the
    parameters of a workload depend on it.
    """
    if not m * n * k:
        return ()
    extra: dict[str, Scalar] = {name: value for name, value in fields.items() if value}
    if a.dtype != b.dtype and b.dtype not in QUANTISED:
        raise Unrecognised(f"a product of {a.dtype} and {b.dtype}")
    if b.parameter is False:
        extra.pop("bias", None)
        return (Mapped("batched_gemm", {"batch": 1, "m": m, "n": n, "k": k, "dtype": a.dtype, **extra}),)
    return (Mapped("gemm", {"m": m, "n": n, "k": k, "dtype": a.dtype, **extra}),)


def _matrices(a: Tensor, b: Tensor) -> tuple[int, int, int]:
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        raise Unrecognised(f"a product of shapes {list(a.shape)} and {list(b.shape)}")
    return a.shape[0], b.shape[1], a.shape[1]


@handles("mm", "_int_mm")
def mm(call: Call) -> tuple[Mapped, ...]:
    """``mm(A, B)``."""
    a, b = call.tensor(0), call.tensor(1)
    m, n, k = _matrices(a, b)
    return product_of(a, b, m=m, n=n, k=k)


@handles("addmm", "_addmm_activation")
def addmm(call: Call) -> tuple[Mapped, ...]:
    """``addmm(C, A, B)``: C is a bias vector, or a matrix that is added to."""
    c, a, b = call.tensor(0), call.tensor(1), call.tensor(2)
    m, n, k = _matrices(a, b)
    vector = len(c.shape) < 2 or c.shape[0] == 1
    if b.parameter is False and vector:  # the bias is an operand of the product all the same
        return (Mapped("gemm", {"m": m, "n": n, "k": k, "dtype": a.dtype, "bias": True}),) if m * n * k else ()
    return product_of(a, b, m=m, n=n, k=k, bias=vector, **({} if vector or b.parameter is False else {"accumulate": True}))


@handles("linear")
def linear(call: Call) -> tuple[Mapped, ...]:
    """``linear(x[..., k], W[n, k], bias)``."""
    x, w = call.tensor(0), call.tensor(1)
    if not x.shape or len(w.shape) != 2 or w.shape[1] != x.shape[-1]:
        raise Unrecognised(f"a linear layer of shapes {list(x.shape)} and {list(w.shape)}")
    return product_of(x, w, m=prod(x.shape[:-1]), n=w.shape[0], k=w.shape[1], bias=isinstance(call.argument(2), Tensor))


def _batched(a: Tensor, b: Tensor) -> tuple[Mapped, ...]:
    """Equal batches of products, of which each has its own B."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = prod(a.shape[:-2])
    if b.shape[-2] != k or prod(b.shape[:-2]) != batch or a.dtype != b.dtype:
        raise Unrecognised(f"a product of {a.dtype} {list(a.shape)} and {b.dtype} {list(b.shape)}")
    if not batch * m * n * k:
        return ()
    return (Mapped("batched_gemm", {"batch": batch, "m": m, "n": n, "k": k, "dtype": a.dtype}),)


@handles("bmm")
def bmm(call: Call) -> tuple[Mapped, ...]:
    """``bmm(A[b, m, k], B[b, k, n])``."""
    a, b = call.tensor(0), call.tensor(1)
    if len(a.shape) != 3 or len(b.shape) != 3:
        raise Unrecognised("a batch of products whose operands have not three dimensions")
    return _batched(a, b)


@handles("baddbmm")
def baddbmm(call: Call) -> tuple[Mapped, ...]:
    """``baddbmm(C, A, B)``; C is taken not to be read, as where beta is 0: its bytes are left out, which keeps a bound."""
    return _batched(call.tensor(1), call.tensor(2))


@handles("matmul")
def matmul(call: Call) -> tuple[Mapped, ...]:
    """``matmul``: a layer's product where B is a matrix, else a batch. Vectors are matrices of one row or column."""
    a, b = call.tensor(0), call.tensor(1)
    if not a.shape or not b.shape:
        raise Unrecognised("a product of scalars")
    if len(b.shape) == 1:
        return product_of(a, b, m=prod(a.shape[:-1]), n=1, k=b.shape[0])
    if len(b.shape) == 2:
        return product_of(a, b, m=prod(a.shape[:-1]), n=b.shape[1], k=b.shape[0])
    if len(a.shape) < 2:
        a = Tensor((1, *a.shape), a.dtype, a.parameter)
    lead = _broadcast(a.shape[:-2], b.shape[:-2])
    return _batched(Tensor((*lead, *a.shape[-2:]), a.dtype), Tensor((*lead, *b.shape[-2:]), b.dtype))


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    width = max(len(a), len(b))
    left, right = ((1,) * (width - len(s)) + s for s in (a, b))
    return tuple(max(x, y) if x and y else 0 for x, y in zip(left, right, strict=True))


@handles("mv", "addmv")
def mv(call: Call) -> tuple[Mapped, ...]:
    """``mv(A, x)`` and ``addmv(y, A, x)``: one column."""
    first = int(call.base.startswith("add"))
    a, x = call.tensor(first), call.tensor(first + 1)
    return product_of(x, a, m=1, n=a.shape[0], k=a.shape[1])


@handles("dot", "vdot")
def dot(call: Call) -> tuple[Mapped, ...]:
    """Two vectors to a number, on vector lanes."""
    a, b = call.tensor(0), call.tensor(1)
    fields: dict[str, Scalar] = {
        "dtype": a.dtype,
        "vector_flop": 2 * a.elements,
        "read": a.bytes + b.bytes,
        "write": a.bytes // max(a.elements, 1),
    }
    return (Mapped("custom", fields),) if a.elements else ()


@handles("_scaled_mm")
def scaled_mm(call: Call) -> tuple[Mapped, ...]:
    """``_scaled_mm(A, B, scale_a, scale_b, bias, scale_result, out_dtype)``; the scales themselves are left out."""
    a, b = call.tensor(0), call.tensor(1)
    m, n, k = _matrices(a, b)
    out = call.out[0].dtype if call.out else _named_format(call.argument(6)) or "bf16"
    return product_of(a, b, m=m, n=n, k=k, out_dtype=out, bias=isinstance(call.argument(4), Tensor))


def _named_format(word: object) -> str | None:
    """The format in an argument that names one; profilers write numbers of torch's own list, which differ by release."""
    found = number_format(word) if isinstance(word, str) else None
    return found if found in ("bf16", "fp16", "fp32") else None


@handles("_grouped_mm", "_scaled_grouped_mm")
def grouped_mm(call: Call) -> tuple[Mapped, ...]:
    """``_grouped_mm(x[rows, k], W[experts, k, n])``: each row has one expert, taken to be chosen evenly."""
    x, w = call.tensor(0), call.tensor(1)
    if len(x.shape) != 2 or len(w.shape) != 3:
        raise Unrecognised(f"a grouped product of shapes {list(x.shape)} and {list(w.shape)}")
    (tokens, k), (experts, _, n) = x.shape, w.shape
    if not tokens * k * n:
        return ()
    return (Mapped("grouped_gemm", {"tokens": tokens, "experts": experts, "active": 1, "n": n, "k": k, "dtype": x.dtype}),)
