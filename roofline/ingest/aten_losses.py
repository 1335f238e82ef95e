"""Losses: cross entropy in one piece, or the pick of a log-probability behind a log-softmax, and losses of each element."""

from __future__ import annotations

from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles
from roofline.ingest.aten_elementwise import streamed

PER_ELEMENT = {"mse_loss": (3, 0), "l1_loss": (3, 0), "smooth_l1_loss": (5, 0), "huber_loss": (5, 0), "binary_cross_entropy": (5, 2)}
"""FLOP and special functions of an element, its part in the sum included."""


@handles("cross_entropy_loss")
def cross_entropy(call: Call) -> tuple[Mapped, ...]:
    """``cross_entropy_loss(logits[tokens, classes], targets, weight, reduction, ...)`` with class numbers as targets."""
    logits, targets = call.tensor(0), call.tensor(1)
    if len(logits.shape) != 2 or targets.dtype not in ("int64", "int32"):
        raise Unrecognised("targets that are no class numbers, or logits that are no matrix")
    tokens, vocab = logits.shape
    fields: dict[str, Scalar] = {"tokens": tokens, "vocab": vocab, "dtype": logits.dtype, "scratch_dtype": logits.dtype}
    return (Mapped("cross_entropy", {**fields, "mean": call.argument(3, 1) == 1}),) if logits.elements else ()


@handles("nll_loss_forward", "nll_loss", "nll_loss_nd", "nll_loss2d_forward", "nll_loss2d")
def nll(call: Call) -> tuple[Mapped, ...]:
    """One value picked and added for each target."""
    x, targets = call.tensor(0), call.tensor(1)
    picked = Tensor((targets.elements,), x.dtype)
    out = Tensor((1 if call.argument(3, 1) else targets.elements,), x.dtype)
    return streamed((picked, targets), (out,), targets.elements) if targets.elements else ()


@handles("nll_loss_backward", "nll_loss2d_backward")
def nll_backward(call: Call) -> tuple[Mapped, ...]:
    """``nll_loss_backward(dy, x, targets, ...)``: zeros everywhere, and one value at each target."""
    x, targets = call.tensor(1), call.tensor(2)
    return streamed((targets,), (Tensor((targets.elements,), x.dtype) if call.zeroed else x,)) if x.elements else ()


@handles(*PER_ELEMENT)
def per_element(call: Call) -> tuple[Mapped, ...]:
    """``mse_loss(x, target, reduction)`` and its like: a sum or a mean unless the reduction is 0, none."""
    x, target = call.tensor(0), call.tensor(1)
    at = 3 if call.base == "binary_cross_entropy" else 2
    flop, sfu = PER_ELEMENT[call.base]
    out = x if call.argument(at, 1) == 0 else Tensor((1,), x.dtype)
    return streamed((x, target), (out,), flop * x.elements, sfu * x.elements) if x.elements else ()


@handles("mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward")
def per_element_backward(call: Call) -> tuple[Mapped, ...]:
    """``mse_loss_backward(dy, x, target, ...)``: a difference and a product an element."""
    x, target = call.tensor(1), call.tensor(2)
    return streamed((x, target), (x,), 2 * x.elements) if x.elements else ()
