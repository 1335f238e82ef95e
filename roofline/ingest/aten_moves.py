"""Copies, joins, look-ups, constants and random numbers: operators that move bytes."""

from __future__ import annotations

from math import prod

from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles
from roofline.ingest.aten_elementwise import streamed


def copied(source: Tensor, target: Tensor) -> tuple[Mapped, ...]:
    """Elements from one tensor to another, converted where their formats differ; a source that is spread out is read once."""
    if not target.elements:
        return ()
    if source.elements != target.elements:
        return streamed((source,), (target,))
    fields: dict[str, Scalar] = {"function": "copy", "elements": target.elements, "dtype": source.dtype}
    if source.dtype != target.dtype:
        fields |= {"function": "cast", "out_dtype": target.dtype}
    return (Mapped("elementwise", fields),)


@handles("copy")
def copy(call: Call) -> tuple[Mapped, ...]:
    """``copy_(target, source)``."""
    return copied(call.tensor(1), call.tensor(0))


@handles("clone", "contiguous", "_conj_physical")
def clone(call: Call) -> tuple[Mapped, ...]:
    """A copy of the same shape and format."""
    return copied(call.tensor(0), call.out[0] if call.out else call.tensor(0))


@handles("_to_copy")
def to_copy(call: Call) -> tuple[Mapped, ...]:
    """``_to_copy(x, dtype, ...)``, whose format only the result tells."""
    if not call.out:
        raise Unrecognised("the format copied to is not recorded")
    return copied(call.tensor(0), call.out[0])


@handles("cat", "concat", "concatenate", "stack", "hstack", "vstack")
def joined(call: Call) -> tuple[Mapped, ...]:
    """Every part is read and written once."""
    parts = call.argument(0)
    if not isinstance(parts, tuple) or not parts or not all(isinstance(t, Tensor) for t in parts):
        raise Unrecognised("no shapes are recorded")
    parts = tuple(t for t in parts if t.elements)
    if not parts:
        return ()
    if len({t.dtype for t in parts}) > 1:
        return streamed(parts, (Tensor((sum(t.elements for t in parts),), parts[0].dtype),))
    return (Mapped("copy", {"elements": sum(t.elements for t in parts), "dtype": parts[0].dtype}),)


@handles("_chunk_cat")
def chunks_joined(call: Call) -> tuple[Mapped, ...]:
    """``_chunk_cat(tensors, dim, chunks, *, out)``: each tensor in equal chunks, padded, and chunk by chunk joined."""
    parts, out = call.argument(0), call.out[0] if call.out else call.tensor(3)
    if not isinstance(parts, tuple) or not parts or not all(isinstance(t, Tensor) for t in parts):
        raise Unrecognised("no shapes are recorded")
    return streamed(parts, (out,)) if out.elements else ()


@handles("split_with_sizes_copy")
def split_copied(call: Call) -> tuple[Mapped, ...]:
    """``split_with_sizes_copy(x, sizes, dim, *, out)``: all of x is read, and written in parts of its format."""
    x = call.tensor(0)
    return copied(x, x)


@handles("repeat", "roll", "flip", "tril", "triu", "repeat_interleave", "constant_pad_nd", "pixel_shuffle", "slice_scatter")
def rearranged(call: Call) -> tuple[Mapped, ...]:
    """Reads what it is given and writes its result."""
    same = call.base.rstrip("_") in ("roll", "flip", "tril", "triu", "pixel_shuffle")
    if not call.out and not same:
        raise Unrecognised("the result's shape is not recorded")
    x = call.tensor(0)
    return streamed((x,), (call.out[0] if call.out else x,)) if x.elements else ()


@handles("slice_backward", "select_backward", "diagonal_backward", "unfold_backward")
def view_backward(call: Call) -> tuple[Mapped, ...]:
    """``slice_backward(dy, sizes of x, ...)``: zeros for all of x, and dy in its part of it."""
    dy, sizes = call.tensor(0), call.argument(1)
    if not isinstance(sizes, tuple) or not all(isinstance(n, int) for n in sizes):
        raise Unrecognised("the sizes of what was viewed are not recorded")
    return streamed((dy,), (Tensor(sizes, dy.dtype),))


# --------------------------------------------------------------------------- look-ups
@handles("embedding")
def embedding(call: Call) -> tuple[Mapped, ...]:
    """``embedding(table, ids, ...)``."""
    return _embedding(call.tensor(0), call.tensor(1))


def _embedding(table: Tensor, ids: Tensor) -> tuple[Mapped, ...]:
    if len(table.shape) != 2:
        raise Unrecognised(f"a table of shape {list(table.shape)}")
    if not table.elements * ids.elements:
        return ()
    fields: dict[str, Scalar] = {"tokens": ids.elements, "vocab": table.shape[0], "hidden": table.shape[1], "dtype": table.dtype}
    return (Mapped("embedding", {**fields, **({"id_dtype": ids.dtype} if ids.dtype != "int64" else {})}),)


@handles("embedding_dense_backward")
def embedding_backward(call: Call) -> tuple[Mapped, ...]:
    """``embedding_dense_backward(dy, ids, rows of the table, ...)``."""
    dy, ids, rows = call.tensor(0), call.tensor(1), call.argument(2)
    if not isinstance(rows, int) or not dy.shape:
        raise Unrecognised("the size of the table is not recorded")
    return tuple(each.backward() for each in _embedding(Tensor((rows, dy.shape[-1]), dy.dtype), ids))


def _picked(ids: Tensor, out: Tensor) -> tuple[Mapped, ...]:
    """As many elements read as written, by ids."""
    return streamed((ids, out), (out,)) if out.elements else ()


@handles("index_select", "gather", "take", "index", "take_along_dim")
def looked_up(call: Call) -> tuple[Mapped, ...]:
    """``gather`` has the shape of its ids, ``index_select`` that of the source along one dimension."""
    x = call.tensor(0)
    if call.base == "index":
        indices = call.argument(1)
        found = [t for t in indices if isinstance(t, Tensor)] if isinstance(indices, tuple) else []
        if not found or any(t.dtype == "bool" for t in found):
            raise Unrecognised("how many elements a mask selects is not in the shapes")
        ids = max(found, key=lambda t: t.elements)
        first = isinstance(indices[0], Tensor) and len(indices) == 1
        if not call.out and not first:
            raise Unrecognised("the result's shape is not recorded")
        return _picked(ids, call.out[0] if call.out else Tensor((*ids.shape, *x.shape[1:]), x.dtype))
    if call.base == "index_select":
        ids, dimension = call.tensor(2), call.argument(1)
        if not isinstance(dimension, int) or not x.shape or not -len(x.shape) <= dimension < len(x.shape):
            raise Unrecognised("the dimension is not recorded")
        rest = x.elements // max(x.shape[dimension], 1)
        return _picked(ids, Tensor((ids.elements, rest), x.dtype))
    ids = call.tensor(1 if call.base in ("take", "take_along_dim") else 2)
    return _picked(ids, Tensor(ids.shape, x.dtype))


@handles("index_put", "_index_put_impl")
def index_put(call: Call) -> tuple[Mapped, ...]:
    """``index_put(x, ids, values, accumulate)``: in place only the values move, and what they are added to."""
    x, values = call.tensor(0), call.tensor(2)
    ids = tuple(t for t in call.argument(1, ()) if isinstance(t, Tensor))
    if any(t.dtype == "bool" for t in ids):
        raise Unrecognised("how many elements a mask selects is not in the shapes")
    written = Tensor(values.shape, x.dtype)
    whole = () if call.base.endswith("_") else (x,)
    again = (written,) if call.argument(3) is True else ()
    return streamed((*ids, values, *again, *whole), (written, *whole), values.elements if again else 0)


@handles("scatter", "scatter_add", "index_add", "index_copy", "scatter_reduce")
def scattered(call: Call) -> tuple[Mapped, ...]:
    """``scatter(x, dim, ids, source)``; out of place all of x is copied as well."""
    x, ids = call.tensor(0), call.tensor(2)
    source = call.argument(3)
    given = (source,) if isinstance(source, Tensor) else ()
    count = ids.elements if call.base.startswith("scatter") else (given[0].elements if given else ids.elements)
    adds = "add" in call.base or "reduce" in call.base
    written = Tensor((count,), x.dtype)
    read = tuple(Tensor((min(count, t.elements),), t.dtype) for t in given)
    whole = () if call.base.endswith("_") else (x,)
    return streamed((ids, *read, *((written,) if adds else ()), *whole), (written, *whole), count if adds else 0)


# --------------------------------------------------------------------------- constants and random numbers
def _filled(out: Tensor) -> tuple[Mapped, ...]:
    return (Mapped("elementwise", {"function": "fill", "elements": out.elements, "dtype": out.dtype}),) if out.elements else ()


@handles("fill", "zero", "zeros_like", "ones_like", "full_like")
def filled(call: Call) -> tuple[Mapped, ...]:
    """A constant in a tensor of the given shape."""
    return _filled(call.out[0] if call.out else call.tensor(0))


@handles("zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "scalar_tensor", "arange", "eye", "linspace")
def created(call: Call) -> tuple[Mapped, ...]:
    """A constant, or numbers in order, in a new tensor."""
    if call.out:
        return _filled(call.out[0])
    if call.base.startswith("new_") and isinstance(call.argument(1), tuple):
        return _filled(Tensor((prod(call.argument(1)),), call.tensor(0).dtype))
    raise Unrecognised("the result's shape is not recorded")


@handles("rand", "randn", "randint", "rand_like", "randn_like", "bernoulli", "uniform", "normal", "exponential", "random", "multinomial")
def drawn(call: Call) -> tuple[Mapped, ...]:
    """Random numbers are whole-number work, which is no FLOP; their bytes are written."""
    out = call.out[0] if call.out else call.tensor(0)
    return streamed((), (out,))
