"""Element-by-element kernels as eager torch launches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors, torch_dtype
from roofline.measure.constants import CONSTANT
from roofline.measure.kernels.autograd import backward_of
from roofline.ops.elementwise import Dropout, Elementwise, Rotary, Swiglu
from roofline.ops.functions import FUNCTIONS

aten = torch.ops.aten
Function = Callable[..., torch.Tensor]


def _either(plain: Function, writing: Function) -> Function:
    """One function where torch has two: with and without a given result."""
    return lambda x, out=None: plain(x) if out is None else writing(x, out=out)


def _copy(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    return x.clone() if out is None else out.copy_(x)


TORCH: dict[str, Function] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fma": lambda a, b, c, out=None: torch.addcmul(c, a, b, out=out),
    "scale": lambda x, out=None: torch.mul(x, CONSTANT, out=out),
    "neg": torch.neg,
    "abs": torch.abs,
    "relu": _either(torch.relu, lambda x, out: torch.clamp_min(x, 0, out=out)),
    "square": torch.square,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": _either(functional.silu, aten.silu.out),
    "gelu": _either(functional.gelu, aten.gelu.out),
    "gelu_tanh": _either(
        lambda x: functional.gelu(x, approximate="tanh"),
        lambda x, out: aten.gelu.out(x, approximate="tanh", out=out),
    ),
    "copy": _copy,
}
"""Functions of the inputs alone; with ``out`` they write there. Those with a mask or without inputs are in `run`."""


def rows_of(op: Elementwise, tensors: Tensors) -> list[torch.Tensor]:
    """The inputs; one that the operator does not read in full is a single number, spread over all elements."""
    wanted = FUNCTIONS[op.function].inputs
    if not wanted:
        return []
    given = list(tensors["x"].unbind(0))
    if len(given) > wanted:
        raise UsageError(f"{op.function} has {wanted} inputs, not {len(given)}")
    return [*given, *[given[0][:1]] * (wanted - len(given))]


def run(op: Elementwise, tensors: Tensors, rows: list[torch.Tensor], out: torch.Tensor | None) -> torch.Tensor:
    """y, in one kernel."""
    if op.function == "fill":
        return torch.full_like(tensors["y"], CONSTANT) if out is None else out.fill_(CONSTANT)
    if op.function == "where":
        mask, (a, b) = tensors["mask"], rows
        return torch.where(mask, a, b) if out is None else torch.where(mask, a, b, out=out)
    if op.function == "cast":
        return rows[0].to(torch_dtype(str(op.out_dtype))) if out is None else out.copy_(rows[0])
    return TORCH[op.function](*rows) if out is None else TORCH[op.function](*rows, out=out)


def elementwise(op: Elementwise, tensors: Tensors) -> Callable[[], Any]:
    """y of x; a masked fill is a selection, since torch's own copies x first, in a kernel more."""
    y, rows = tensors["y"], rows_of(op, tensors)
    if op.function == "masked_fill":
        constant = torch.full((), CONSTANT, dtype=y.dtype, device=y.device)
        return lambda: torch.where(tensors["mask"], constant, rows[0], out=y)
    return lambda: run(op, tensors, rows, y)


def elementwise_of(op: Elementwise, tensors: Tensors) -> tuple[torch.Tensor]:
    """The same as an expression, for autograd and torch.compile."""
    rows = rows_of(op, tensors)
    if op.function == "masked_fill":
        return (torch.where(tensors["mask"], CONSTANT, rows[0]),)
    return (run(op, tensors, rows, None),)


def elementwise_backward(op: Elementwise, tensors: Tensors) -> Callable[[], Any]:
    """dx, for all inputs together: the gradients of single inputs are copied into one tensor, which costs a kernel more."""
    return backward_of(op, tensors, elementwise_of)


def swiglu(op: Swiglu, tensors: Tensors) -> Callable[[], Any]:
    """silu(gate), then the product."""
    gate, up, y = tensors["gate"], tensors["up"], tensors["y"]
    return lambda: torch.mul(functional.silu(gate), up, out=y)


def swiglu_of(op: Swiglu, tensors: Tensors) -> tuple[torch.Tensor]:
    """The same as an expression."""
    return (functional.silu(tensors["gate"]) * tensors["up"],)


def swiglu_backward(op: Swiglu, tensors: Tensors) -> Callable[[], Any]:
    """dgate and dup."""
    return backward_of(op, tensors, swiglu_of)


def dropout(op: Dropout, tensors: Tensors) -> Callable[[], Any]:
    """The mask and y."""
    x = tensors["x"]

    def both() -> tuple[torch.Tensor, torch.Tensor]:
        y, mask = torch.native_dropout(x, op.p, True)
        return mask, y

    return both


def dropout_backward(op: Dropout, tensors: Tensors) -> Callable[[], Any]:
    """dx, with a mask drawn now."""
    tensors["mask"].copy_(dropout(op, tensors)()[0])
    dy, mask = tensors["dy"], tensors["mask"]
    scale = 1 / (1 - op.p) if op.p < 1 else 0.0
    return lambda: torch.ops.aten.native_dropout_backward(dy, mask, scale)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Pairs are an element of the first half of a head and its counterpart of the second: 7 kernels."""
    a, b = x.chunk(2, -1)
    parts = (a * cos - b * sin, a * sin + b * cos)
    return torch.cat(parts, -1, out=out) if out is not None else torch.cat(parts, -1)


def tables(op: Rotary, tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of each token's position, spread over its heads; positions repeat, as in a batch of sequences."""
    table = tensors["cos_sin"]
    if op.tokens % len(table):
        raise UsageError(f"kernel 'rotary' needs positions ({len(table)}) to divide tokens ({op.tokens})")
    cos, sin = table[:, None, :].chunk(2, -1)
    return cos, sin


def _sequences(op: Rotary, tensors: Tensors, name: str) -> torch.Tensor:
    """q or k as [sequences, positions, heads, width]."""
    return tensors[name].view(-1, len(tensors["cos_sin"]), *tensors[name].shape[1:])


def rotary_of(op: Rotary, tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """q and k rotated."""
    cos, sin = tables(op, tensors)
    q, k = (rotated(_sequences(op, tensors, name), cos, sin).flatten(0, 1) for name in ("q", "k"))
    return q, k


def rotary(op: Rotary, tensors: Tensors) -> Callable[[], Any]:
    """q and k rotated, into q_out and k_out or over themselves."""
    targets = ("q", "k") if op.in_place else ("q_out", "k_out")
    cos, sin = tables(op, tensors)
    pairs = [(_sequences(op, tensors, x), _sequences(op, tensors, y)) for x, y in zip(("q", "k"), targets, strict=True)]

    def both() -> tuple[torch.Tensor, ...]:
        for x, y in pairs:
            rotated(x, cos, sin, out=y)
        return tuple(tensors[name] for name in targets)

    return both


def rotary_backward(op: Rotary, tensors: Tensors) -> Callable[[], Any]:
    """dq and dk."""
    if op.in_place:
        raise UsageError("kernel 'rotary' runs the backward pass of a rotation that is not in place")
    return backward_of(op, tensors, rotary_of)
