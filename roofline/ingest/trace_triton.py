"""Kernels that a compiler fused, as far as their names and arguments state what they do.

Inductor names a kernel after the functions fused in it: ``triton_poi_fused_add_mul_0``. Where all of those touch each of their
elements, the arguments' shapes give the bytes: each tensor once. Each function counts once an element of the largest tensor; it
may stand in the kernel several times, so that the FLOP are a lower bound, as bytes are. A gather, a slice or a template says less
than it does, and stays unknown.
"""

from __future__ import annotations

import re

from roofline.ingest.aten import Call, Mapped, Unrecognised
from roofline.ops.functions import FUNCTIONS

_NAME = re.compile(r"triton_(?:poi|red|per)_fused_?(.*?)_?\d*$")
_SFU = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sin", "cos", "erf", "reciprocal"}
_PLAIN = {
    "where": 1,
    "sum": 1,
    "mean": 1,
    "amax": 1,
    "amin": 1,
    "max": 1,
    "min": 1,
    "pow": 1,
    "sigmoid": 3,
    "silu": 4,
    "gelu": 8,
    "relu": 1,
    "le": 1,
    "lt": 1,
    "ge": 1,
    "gt": 1,
    "eq": 1,
    "ne": 1,
    "bitwise_and": 0,
    "bitwise_or": 0,
    "bitwise_not": 0,
    "bitwise_xor": 0,
    "logical_and": 0,
    "logical_not": 0,
    "logical_or": 0,
    "_to_copy": 0,
    "convert_element_type": 0,
    "clone": 0,
    "copy": 0,
    "copy_": 0,
    "native_layer_norm": 8,
    "_softmax": 4,
    "_log_softmax": 4,
    "clamp": 2,
    "clamp_min": 1,
    "clamp_max": 1,
    "threshold_backward": 1,
    "silu_backward": 8,
    "addcmul": 2,
    "rsub": 1,
    "var_mean": 3,
    "masked_fill": 1,
    "fill": 0,
    "view": 0,
    "unsqueeze": 0,
    "squeeze": 0,
    "permute": 0,
    "transpose": 0,
    "t": 0,
    "_unsafe_view": 0,
}
"""FLOP an element of functions that read and write all of their elements."""


def functions_of(kernel: str) -> tuple[str, ...]:
    """The functions that a kernel's name lists.

    >>> functions_of("triton_poi_fused__to_copy_add_bitwise_and_mul_3")
    ('_to_copy', 'add', 'bitwise_and', 'mul')

    Raises:
        Unrecognised: no name of Inductor's, or one with a function of which too little is known.
    """
    found = _NAME.fullmatch(kernel)
    if not found:
        raise Unrecognised("a kernel in Triton whose name lists no functions")
    rest, names = found.group(1), []
    known = sorted({*_PLAIN, *_SFU, *FUNCTIONS}, key=len, reverse=True)
    while rest:
        name = next((k for k in known if rest == k or rest.startswith(f"{k}_")), None)
        if name is None:
            raise Unrecognised("a fused kernel of functions that may touch parts of their operands only")
        names.append(name)
        rest = rest[len(name) + 1 :]
    if not names:
        raise Unrecognised("a fused kernel whose name lists no functions")
    return tuple(names)


def fused(call: Call) -> Mapped:
    """The work of a fused kernel with its arguments.

    Raises:
        Unrecognised: the name or the arguments say too little.
    """
    names = functions_of(call.name)
    tensors = call.tensors()
    if not tensors:
        raise Unrecognised("no shapes are recorded")
    elements = max(t.elements for t in tensors)
    floats = [t.dtype for t in tensors if t.dtype.startswith(("fp", "bf"))]
    return Mapped(
        "custom",
        {
            "dtype": floats[0] if floats else tensors[0].dtype,
            "vector_flop": elements * sum(_flop(n) for n in names),
            "sfu_ops": elements * sum(_sfu(n) for n in names),
            # Which of the arguments are written is not recorded; the sum of both is all that bytes depend on.
            "read": sum(t.bytes for t in tensors),
        },
    )


def _flop(name: str) -> int:
    if name in _PLAIN:
        return _PLAIN[name]
    return int(FUNCTIONS[name].cost.vector) if name in FUNCTIONS else 0


def _sfu(name: str) -> int:
    if name in FUNCTIONS:
        return int(FUNCTIONS[name].cost.sfu)
    return int(name in _SFU or name in ("_softmax", "_log_softmax"))
