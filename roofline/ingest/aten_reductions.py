"""Sums, means, extremes and running sums."""

from __future__ import annotations

from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles
from roofline.ingest.aten_elementwise import Cost, each_element, floating, result_of, streamed

NAMED = {"sum": "sum", "mean": "mean", "amax": "max", "max": "max", "amin": "max", "min": "max", "nansum": "sum"}
"""Reductions of ours by those of torch; a minimum costs what a maximum does."""

FLOP_AN_ELEMENT = {"var": 4, "std": 4, "var_mean": 4, "std_mean": 4, "linalg_vector_norm": 2, "norm": 2, "prod": 1, "logsumexp": 3}
"""Distance to the mean, its square and two sums for a variance; a product and a sum for a norm."""
SPECIAL = {"logsumexp"}


def reduced_to(call: Call, x: Tensor) -> int:
    """Elements of the result, by the dimensions given: a number, some numbers, or all of them."""
    if call.out:
        return call.out[0].elements
    dims = call.argument(1)
    if dims is None or dims == ():
        return 1
    dims = (dims,) if isinstance(dims, int) else dims
    if not isinstance(dims, tuple) or not all(isinstance(d, int) and -len(x.shape) <= d < len(x.shape) for d in dims):
        raise Unrecognised("the dimensions are not recorded")
    count = x.elements
    for d in {d % len(x.shape) for d in dims}:
        count //= x.shape[d]
    return count


@handles(*NAMED)
def named(call: Call) -> tuple[Mapped, ...]:
    """``sum(x, dims)``; ``max(x, y)`` of two tensors is a function of each element."""
    x = call.tensor(0)
    other = call.argument(1)
    if isinstance(other, Tensor):
        return each_element((x, other), result_of(call, (x, other)), Cost("maximum", 1))
    if not x.elements:
        return ()
    rows = reduced_to(call, x)
    if not floating(x.dtype):
        return streamed((x,), (Tensor((rows,), "int64"),))
    fields: dict[str, Scalar] = {"rows": rows, "cols": x.elements // rows, "dtype": x.dtype, "function": NAMED[call.base]}
    if call.out and call.out[0].dtype != x.dtype:
        fields["out_dtype"] = call.out[0].dtype
    return (Mapped("reduction", fields),)


@handles("argmax", "argmin", "any", "all", "count_nonzero")
def positions(call: Call) -> tuple[Mapped, ...]:
    """A comparison an element, and whole numbers written."""
    x = call.tensor(0)
    if not x.elements:
        return ()
    out = Tensor((reduced_to(call, x),), "bool" if call.base in ("any", "all") else "int64")
    return streamed((x,), (out,), x.elements if floating(x.dtype) else 0)


@handles(*FLOP_AN_ELEMENT)
def of_squares(call: Call) -> tuple[Mapped, ...]:
    """Variances and norms, of everything or along dimensions; the norm's are its third argument, behind the order."""
    x = call.tensor(0)
    if not x.elements:
        return ()
    shifted = Call(call.name, (x, call.argument(2)), call.out) if call.base in ("linalg_vector_norm", "norm") else call
    out = Tensor((reduced_to(shifted, x),), x.dtype)
    return streamed((x,), (out,), FLOP_AN_ELEMENT[call.base] * x.elements, x.elements if call.base in SPECIAL else 0)


@handles("cumsum", "cumprod")
def running(call: Call) -> tuple[Mapped, ...]:
    """One addition an element."""
    x = call.tensor(0)
    return streamed((x,), (result_of(call, (x,)),), x.elements if floating(x.dtype) else 0)


@handles("topk")
def topk(call: Call) -> tuple[Mapped, ...]:
    """``topk(x, k, dim)``: at least one comparison an element; values and their positions are written."""
    x, k, dimension = call.tensor(0), call.argument(1), call.argument(2, -1)
    if not isinstance(k, int) or not isinstance(dimension, int) or not x.shape or not -len(x.shape) <= dimension < len(x.shape):
        raise Unrecognised("how many are chosen is not recorded")
    chosen = x.elements // max(x.shape[dimension], 1) * k
    return streamed((x,), (Tensor((chosen,), x.dtype), Tensor((chosen,), "int64")), x.elements) if x.elements else ()
