"""Optimiser steps: fused ones, and those over lists of tensors (``_foreach_add_``)."""

from __future__ import annotations

from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles
from roofline.ingest.aten_elementwise import FORWARD, Cost, each_element, floating, streamed
from roofline.ingest.aten_moves import copied

FOREACH = ("add", "sub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "reciprocal", "addcmul", "maximum")


def _list(call: Call, position: int) -> tuple[Tensor, ...]:
    found = call.argument(position)
    if not isinstance(found, tuple) or not found or not all(isinstance(t, Tensor) for t in found):
        raise Unrecognised("no shapes are recorded")
    return found


def _joined(tensors: tuple[Tensor, ...]) -> Tensor:
    """A list of tensors as one."""
    if len({t.dtype for t in tensors}) > 1:
        raise Unrecognised("a list of tensors of several formats")
    return Tensor((sum(t.elements for t in tensors),), tensors[0].dtype)


@handles("_fused_adamw", "_fused_adam")
def fused_adam(call: Call) -> tuple[Mapped, ...]:
    """``_fused_adamw_(parameters, gradients, means, squares, ...)``; Adam differs in how weights decay, not in its bytes."""
    p, g, m = _joined(_list(call, 0)), _joined(_list(call, 1)), _joined(_list(call, 2))
    fields: dict[str, Scalar] = {"parameters": p.elements, "dtype": p.dtype}
    if m.dtype != p.dtype:
        fields["state_dtype"] = m.dtype
    if g.dtype != p.dtype:
        fields["grad_dtype"] = g.dtype
    return (Mapped("adamw", fields),) if p.elements else ()


@handles("_fused_sgd")
def fused_sgd(call: Call) -> tuple[Mapped, ...]:
    """``_fused_sgd_(parameters, gradients, momenta, ...)``: p, g and a momentum where there is one; 2 FLOP each at least."""
    p, g = _joined(_list(call, 0)), _joined(_list(call, 1))
    momenta = call.argument(2)
    moving = (_joined(momenta),) if isinstance(momenta, tuple) and momenta and isinstance(momenta[0], Tensor) else ()
    return streamed((p, g, *moving), (p, *moving), (2 + 2 * len(moving)) * p.elements)


@handles(*(f"_foreach_{name}" for name in FOREACH), "_foreach_lerp", "_foreach_addcdiv")
def foreach(call: Call) -> tuple[Mapped, ...]:
    """One function of each element over a whole list, as one kernel."""
    name = call.base.rstrip("_").removeprefix("_foreach_")
    lists = tuple(a for a in call.args if isinstance(a, tuple) and a and isinstance(a[0], Tensor))
    if not lists:
        raise Unrecognised("no shapes are recorded")
    cost = Cost("scale", 1) if name == "mul" and len(lists) == 1 else FORWARD[name]
    operands = tuple(_joined(each) for each in lists)
    return each_element(operands, operands[0], cost)


@handles("_foreach_copy")
def foreach_copy(call: Call) -> tuple[Mapped, ...]:
    """``_foreach_copy_(targets, sources)``."""
    return copied(_joined(_list(call, 1)), _joined(_list(call, 0)))


@handles("_foreach_zero")
def foreach_zero(call: Call) -> tuple[Mapped, ...]:
    """Zeros into every tensor of the list."""
    return streamed((), (_joined(_list(call, 0)),))


@handles("_foreach_norm")
def foreach_norm(call: Call) -> tuple[Mapped, ...]:
    """A product and a sum an element, one number a tensor."""
    tensors = _list(call, 0)
    x = _joined(tensors)
    return streamed((x,), (Tensor((len(tensors),), x.dtype),), 2 * x.elements if floating(x.dtype) else 0)
