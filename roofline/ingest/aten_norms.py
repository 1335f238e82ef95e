"""Norms and softmax of rows, forward and backward."""

from __future__ import annotations

from math import prod

from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles


def _rows(x: Tensor, cols: int) -> dict[str, Scalar] | None:
    """Rows of so many columns; None where there is nothing."""
    if not x.elements or not cols:
        return None
    return {"rows": x.elements // cols, "cols": cols, "dtype": x.dtype}


def _norm(name: str, x: Tensor, shape: object, **fields: Scalar) -> tuple[Mapped, ...]:
    """A norm over the trailing dimensions of ``shape``."""
    if not isinstance(shape, (tuple, list)) or not all(isinstance(n, int) for n in shape):
        raise Unrecognised("the normalised shape is not recorded")
    rows = _rows(x, prod(shape))
    return (Mapped(name, {**rows, **fields}),) if rows else ()


@handles("layer_norm", "native_layer_norm")
def layer_norm(call: Call) -> tuple[Mapped, ...]:
    """``layer_norm(x, normalized_shape, weight, bias, eps)``."""
    bias = isinstance(call.argument(3), Tensor)
    return _norm("layernorm", call.tensor(0), call.argument(1), **({} if bias else {"bias": False}))


@handles("native_layer_norm_backward")
def layer_norm_backward(call: Call) -> tuple[Mapped, ...]:
    """``native_layer_norm_backward(dy, x, normalized_shape, mean, rstd, weight, bias, output_mask)``."""
    bias = isinstance(call.argument(6), Tensor)
    found = _norm("layernorm", call.tensor(1), call.argument(2), **({} if bias else {"bias": False}))
    return tuple(each.backward() for each in found)


@handles("rms_norm", "_fused_rms_norm")
def rms_norm(call: Call) -> tuple[Mapped, ...]:
    """``rms_norm(x, normalized_shape, weight, eps)``."""
    return _norm("rmsnorm", call.tensor(0), call.argument(1))


@handles("_fused_rms_norm_backward")
def rms_norm_backward(call: Call) -> tuple[Mapped, ...]:
    """``_fused_rms_norm_backward(dy, x, normalized_shape, rstd, weight, output_mask)``."""
    return tuple(each.backward() for each in _norm("rmsnorm", call.tensor(1), call.argument(2)))


def _along(x: Tensor, dimension: object) -> dict[str, Scalar] | None:
    if not isinstance(dimension, int) or isinstance(dimension, bool):
        raise Unrecognised("the dimension is not recorded")
    if not x.shape:
        return _rows(x, 1)
    if not -len(x.shape) <= dimension < len(x.shape):
        raise Unrecognised(f"dimension {dimension} of shape {list(x.shape)}")
    return _rows(x, x.shape[dimension])


@handles("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax")
def softmax(call: Call) -> tuple[Mapped, ...]:
    """``softmax(x, dim)``; the logarithm of a log-softmax is one operation a row and left out."""
    rows = _along(call.tensor(0), call.argument(1))
    return (Mapped("softmax", rows),) if rows else ()


@handles("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_backward(call: Call) -> tuple[Mapped, ...]:
    """``_softmax_backward_data(dy, y, dim, dtype)``."""
    rows = _along(call.tensor(1), call.argument(2))
    return (Mapped("softmax", rows, "backward"),) if rows else ()


BATCH_NORM_FLOP, BATCH_NORM_BACKWARD_FLOP = 7, 11
"""An element in training: mean 1, squared distance 3, shift, scale and offset 3; backward two sums 4, the gradient 7."""


def _streamed(call: Call, x: Tensor, sweeps: int, flop: int) -> tuple[Mapped, ...]:
    """A norm that no operator of ours describes: each element read ``sweeps`` times as given, written once."""
    if not x.elements:
        return ()
    weights = sum(t.bytes for t in call.tensors() if t.elements < x.elements and len(t.shape) <= 1)
    fields: dict[str, Scalar] = {"dtype": x.dtype, "vector_flop": flop * x.elements, "read": sweeps * x.bytes + weights, "write": x.bytes}
    return (Mapped("custom", fields),)


@handles("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update", "batch_norm")
def batch_norm(call: Call) -> tuple[Mapped, ...]:
    """Compulsory bytes: x once, though statistics of a whole batch need a second sweep where it does not stay on chip."""
    return _streamed(call, call.tensor(0), 1, BATCH_NORM_FLOP)


@handles("native_group_norm", "group_norm")
def group_norm(call: Call) -> tuple[Mapped, ...]:
    """``group_norm(x, ...)``: as a layer norm of groups."""
    return _streamed(call, call.tensor(0), 1, BATCH_NORM_FLOP)


@handles("native_group_norm_backward", "native_batch_norm_backward", "cudnn_batch_norm_backward", "miopen_batch_norm_backward")
def other_norm_backward(call: Call) -> tuple[Mapped, ...]:
    """Reads x and dy, writes dx."""
    at = 0 if call.base.startswith(("cudnn", "miopen")) else 1
    return _streamed(call, call.tensor(at), 2, BATCH_NORM_BACKWARD_FLOP)
