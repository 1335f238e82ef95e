"""Functions of each element: those that `elementwise` knows by name, and others by their bytes and arithmetic.

An operand that is broadcast is left out where it has less than a hundredth of the result's bytes, else the operator is given by
exact bytes as `custom`, as are mixed formats. Arithmetic on whole numbers is no FLOP, a comparison of floating-point numbers is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.dtypes import DTYPES
from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles
from roofline.ops.functions import FUNCTIONS

SMALL = 0.01
"""A broadcast operand below this part of the result's bytes is left out."""


@dataclass(frozen=True, slots=True)
class Cost:
    """FLOP and special-function operations of an element, and the function of ours with this cost, if there is one."""

    name: str | None
    flop: int
    sfu: int = 0
    to: str | None = None


def _ours(name: str) -> Cost:
    cost = FUNCTIONS[name].cost
    return Cost(name, int(cost.vector), int(cost.sfu))


SAME_NAME = (
    "sub", "div", "maximum", "minimum", "neg", "abs", "relu", "square", "exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "silu", "gelu",
)  # fmt: skip
FORWARD: dict[str, Cost] = {
    "add": _ours("add"),
    **{name: _ours(name) for name in SAME_NAME},
    "mul": _ours("mul"),
    "rsub": _ours("sub"),
    "addcmul": _ours("fma"),
    "where": _ours("where"),
    **dict.fromkeys(("sin", "cos", "erf", "expm1", "log1p", "log2", "exp2", "log10", "sinh", "atan"), Cost(None, 0, 1)),
    **dict.fromkeys(("reciprocal", "sign", "clamp_min", "clamp_max", "leaky_relu", "threshold", "floor", "ceil", "round"), Cost(None, 1)),
    **dict.fromkeys(("remainder", "fmod", "floor_divide", "trunc"), Cost(None, 1)),
    **dict.fromkeys(("clamp", "hardtanh", "lerp", "addcdiv"), Cost(None, 2)),
    "softplus": Cost(None, 1, 2),
    "elu": Cost(None, 2, 1),
    "mish": Cost(None, 2, 3),
    "hardswish": Cost(None, 5),
    "hardsigmoid": Cost(None, 4),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "signbit"), Cost(None, 1, to="bool")),
    **dict.fromkeys(("logical_and", "logical_or", "logical_not", "logical_xor"), Cost(None, 0, to="bool")),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_not", "bitwise_xor", "__and__", "__or__"), Cost(None, 0)),
}
"""By the names of torch."""

OF_TWO = (
    "add", "sub", "rsub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "remainder", "fmod", "floor_divide", "eq", "ne",
    "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__",
)  # fmt: skip
OPERANDS = {**dict.fromkeys(OF_TWO, 2), **dict.fromkeys(("where", "addcmul", "addcdiv", "clamp", "lerp"), 3)}
"""How many operands a function has at most, one if not here; a tensor after them is where the result goes."""

BACKWARD = {
    "gelu_backward": "gelu", "silu_backward": "silu", "sigmoid_backward": "sigmoid", "tanh_backward": "tanh", "threshold_backward": "relu",
}  # fmt: skip
"""Gradients of one input: ``f_backward(dy, x or y, ...)``."""


def result_of(call: Call, tensors: tuple[Tensor, ...]) -> Tensor:
    """The result: as recorded, else the broadcast shape in the widest format of the operands that have dimensions."""
    if call.out:
        return call.out[0]
    shape: tuple[int, ...] = ()
    for t in tensors:
        width = max(len(shape), len(t.shape))
        pairs = zip((1,) * (width - len(shape)) + shape, (1,) * (width - len(t.shape)) + t.shape, strict=True)
        shape = tuple(max(a, b) if a and b else 0 for a, b in pairs)
    formats = [t.dtype for t in tensors if t.shape] or [t.dtype for t in tensors]
    return Tensor(shape, max(formats, key=_rank))


def _rank(name: str) -> tuple[int, int]:
    """Floating-point numbers over whole ones over truth values, then by width."""
    kind = 0 if name == "bool" else 1 if name.startswith("int") else 2
    return kind, DTYPES[name].bits if name in DTYPES else 0


def floating(name: str) -> bool:
    """Whether arithmetic in a format is FLOP."""
    return _rank(name)[0] == 2


def each_element(operands: tuple[Tensor, ...], out: Tensor, cost: Cost, *, mask: Tensor | None = None) -> tuple[Mapped, ...]:
    """One function over ``operands`` to ``out``; nothing where it is empty."""
    if not out.elements:
        return ()
    full = [t for t in operands if t.shape == out.shape]
    small = [t for t in operands if t.shape != out.shape]
    plain = all(t.bytes <= SMALL * out.bytes or t.elements == 1 for t in small) and len({t.dtype for t in full}) == 1
    masked = mask is None or (mask.shape == out.shape and mask.dtype == "bool")
    if cost.name and plain and masked and floating(out.dtype):
        fields: dict[str, Scalar] = {"function": cost.name, "elements": out.elements, "dtype": full[0].dtype}
        if out.dtype != full[0].dtype:
            fields["out_dtype"] = out.dtype
        if len(full) != FUNCTIONS[cost.name].inputs:
            fields["inputs"] = len(full)
        return (Mapped("elementwise", fields),)
    counted = floating(out.dtype) or any(floating(t.dtype) for t in operands)
    return streamed((*operands, *((mask,) if mask else ())), (out,), cost.flop * counted * out.elements, cost.sfu * out.elements)


def streamed(reads: tuple[Tensor, ...], writes: tuple[Tensor, ...], flop: int = 0, sfu: int = 0) -> tuple[Mapped, ...]:
    """Work that has no name here: exact bytes and arithmetic; nothing where nothing moves."""
    fields: dict[str, Scalar] = {"dtype": max((t.dtype for t in (*writes, *reads)), key=_rank)}
    parts = {
        "vector_flop": flop,
        "sfu_ops": sfu,
        "read": _whole(sum(t.bytes for t in reads)),
        "write": _whole(sum(t.bytes for t in writes)),
    }
    fields.update({name: value for name, value in parts.items() if value})
    return (Mapped("custom", fields),) if parts["read"] or parts["write"] else ()


def _whole(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


@handles(*FORWARD)
def forward(call: Call) -> tuple[Mapped, ...]:
    """Any of `FORWARD`; a product with a plain number is a ``scale``, a condition is a mask."""
    name = call.base.rstrip("_") if call.base not in FORWARD else call.base
    call = _without_out(call, OPERANDS.get(name, 1))
    cost, tensors = FORWARD[name], call.tensors()
    if not tensors:
        call.tensor(0)
    if name == "where":
        condition, operands = call.tensor(0), tuple(t for t in call.tensors()[1:])
        return each_element(operands, result_of(call, operands or (condition,)), cost, mask=condition)
    if name == "gelu" and call.argument(1) == "tanh":
        cost = _ours("gelu_tanh")
    if name == "mul" and len(tensors) == 1:
        cost = _ours("scale")
    out = result_of(call, tensors)
    if cost.to and not call.out:
        out = Tensor(out.shape, cost.to)
    return each_element(tensors, out, cost)


def _without_out(call: Call, operands: int) -> Call:
    """The call with a result that it was given as an argument as its result: ``mul(a, b, out=c)`` reads two tensors, not three."""
    given = tuple(a for a in call.args[operands:] if isinstance(a, Tensor))
    kept = tuple(None if i >= operands and isinstance(a, Tensor) else a for i, a in enumerate(call.args))
    return replace(call, args=kept, out=call.out or given[-1:])


@handles("pow", "float_power")
def power(call: Call) -> tuple[Mapped, ...]:
    """Squares and roots by name; other powers are an exponential of a logarithm, and a product."""
    tensors = call.tensors()
    exponent = call.argument(1)
    names = {2: "square", 0.5: "sqrt", -0.5: "rsqrt"}
    if len(tensors) == 1 and isinstance(exponent, (int, float)) and exponent in names:
        return each_element(tensors, result_of(call, tensors), _ours(names[exponent]))
    cost = Cost(None, int(exponent) - 1) if isinstance(exponent, int) and 2 < exponent < 5 else Cost(None, 1, 2)
    return each_element(tensors or (call.tensor(0),), result_of(call, tensors), cost)


@handles(*BACKWARD)
def backward(call: Call) -> tuple[Mapped, ...]:
    """Any of `BACKWARD`."""
    x = call.tensor(1)
    name = BACKWARD[call.base]
    if name == "gelu" and call.argument(2) == "tanh":
        name = "gelu_tanh"
    return (Mapped("elementwise", {"function": name, "elements": x.elements, "dtype": x.dtype}, "backward"),) if x.elements else ()


@handles("masked_fill", "_masked_scale")
def masked(call: Call) -> tuple[Mapped, ...]:
    """``masked_fill(x, mask, value)``; ``_masked_scale`` is dropout's gradient, a product with a mask of a byte."""
    x, mask = call.tensor(0), call.tensor(1)
    if call.base == "_masked_scale":
        return (Mapped("dropout", {"elements": x.elements, "dtype": x.dtype}, "backward"),) if x.elements else ()
    out = result_of(call, (x, mask))
    return each_element((x,), Tensor(out.shape, x.dtype), _ours("masked_fill"), mask=mask)


@handles("dropout", "native_dropout", "_fused_dropout")
def dropout(call: Call) -> tuple[Mapped, ...]:
    """``dropout(x, p, train)``: nothing outside training."""
    x, p, train = call.tensor(0), call.argument(1), call.argument(2, True)
    if train is False or p == 0:
        return ()
    if not isinstance(p, (int, float)):
        raise Unrecognised("the probability is not recorded")
    return (Mapped("dropout", {"elements": x.elements, "dtype": x.dtype, "p": float(p)}),) if x.elements else ()


@handles("native_dropout_backward")
def dropout_backward(call: Call) -> tuple[Mapped, ...]:
    """``native_dropout_backward(dy, mask, scale)``."""
    dy = call.tensor(0)
    return (Mapped("dropout", {"elements": dy.elements, "dtype": dy.dtype}, "backward"),) if dy.elements else ()
