"""Operators of torch by name and arguments, as operators of ours: one table for traces and for modules.

A `Call` is one aten operator as both a profiler and a dispatch mode see it: its name and its arguments in the order of its
schema. `recognise` gives the operators of ours that do the same work, none where it does no work on a device (a view), and
raises `Unrecognised` with the reason where nobody here can say. A handler is one function in one of the ``aten_*`` files,
registered by ``@handles``; nothing else has to change for a new one. torch is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from math import prod
from typing import Any

from roofline.dtypes import DTYPES
from roofline.ops.base import Op
from roofline.ops.registry import OPERATORS

Scalar = str | int | float | bool

FAMILIES = ("products", "attention", "norms", "elementwise", "moves", "reductions", "losses", "conv", "optimizers")
"""The files of handlers, ``roofline.ingest.aten_<name>``."""


class Unrecognised(Exception):
    """Nobody here can say what work a call is; ``str()`` is the reason."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument: its shape, a number format (of ours, see `number_format`), and whether it is a parameter, where that is known."""

    shape: tuple[int, ...]
    dtype: str
    parameter: bool | None = None

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    @property
    def bytes(self) -> float:
        """Bytes of all its numbers.

        Raises:
            Unrecognised: its format is none of ours.
        """
        if self.dtype not in DTYPES:
            raise Unrecognised(f"numbers of format {self.dtype}")
        return self.elements * DTYPES[self.dtype].bytes


Argument = Any
"""A `Tensor`, a tuple of arguments, a number, a flag, a text, or None for what was not given."""


@dataclass(frozen=True, slots=True)
class Call:
    """One aten operator: its name (with or without namespace and overload), arguments by schema order, results if known.

    ``zeroed``: an operator inside it, counted by itself, wrote zeros to the result before.
    """

    name: str
    args: tuple[Argument, ...]
    out: tuple[Tensor, ...] = ()
    zeroed: bool = False

    @property
    def base(self) -> str:
        """The name without the ``aten`` namespace and the overload; other namespaces stay.

        >>> Call("aten::add.Tensor", ()).base
        'add'
        """
        return base_name(self.name)

    def argument(self, position: int, default: Argument = None) -> Argument:
        """The argument at a position, ``default`` where it was not given."""
        found = self.args[position] if position < len(self.args) else None
        return default if found is None else found

    def tensor(self, position: int) -> Tensor:
        """The tensor at a position.

        Raises:
            Unrecognised: there is none, as in a trace without shapes.
        """
        found = self.argument(position)
        if not isinstance(found, Tensor):
            raise Unrecognised("no shapes are recorded" if not self.args else f"argument {position} is no tensor")
        return found

    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors among its arguments, those of lists included."""
        return tuple(t for a in self.args for t in (a if isinstance(a, tuple) else (a,)) if isinstance(t, Tensor))


@dataclass(frozen=True, slots=True)
class Mapped:
    """One operator of ours: its YAML name, its fields and the direction, as in a step of a workload."""

    op: str
    fields: Mapping[str, Scalar]
    direction: str = "forward"

    def build(self) -> Op:
        """The operator itself.

        Raises:
            Unrecognised: the fields contradict each other, or numbers have a format that is none of ours.
        """
        for name, value in self.fields.items():
            if name.endswith("dtype") and value not in DTYPES:
                raise Unrecognised(f"numbers of format {value}")
        found: Op = OPERATORS[self.op](**self.fields)
        problem = found.check()
        if problem:
            raise Unrecognised(problem)
        return found

    def backward(self) -> Mapped:
        """The same, backward."""
        return replace(self, direction="backward")


Handler = Callable[[Call], tuple[Mapped, ...]]
HANDLERS: dict[str, Handler] = {}
"""By base name; in-place forms (``add_``) and those of lists fall back to the plain name."""


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler under the base names of operators."""

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise ValueError(f"two handlers for {name}")
            HANDLERS[name] = handler
        return handler

    return register


def base_name(name: str) -> str:
    """A name without ``aten::`` and without overload; other namespaces stay.

    >>> base_name("aten::add_.Tensor"), base_name("flash_attn::_flash_attn_forward"), base_name("aten.mm.default")
    ('add_', 'flash_attn::_flash_attn_forward', 'mm')
    """
    for prefix in ("aten::", "aten."):
        name = name.removeprefix(prefix)
    return name.split(".")[0]


def handler_of(name: str) -> Handler | None:
    """The handler of an operator by any spelling of its name, None where there is none."""
    for family in FAMILIES:
        import_module(f"roofline.ingest.aten_{family}")
    base = base_name(name)
    plain = base[:-1] if base.endswith("_") and not base.endswith("__") else base
    return HANDLERS.get(base) or HANDLERS.get(plain)


def known(name: str) -> bool:
    """Whether an operator of this name can be recognised at all, given its shapes, or is known to do no work."""
    from roofline.ingest.aten_views import is_view

    return is_view(name) or handler_of(name) is not None


def recognise(call: Call) -> tuple[Mapped, ...]:
    """The operators of ours that do the work of a call; empty where it does none on a device.

    Raises:
        Unrecognised: no handler has this name, shapes are not recorded, or a format is none of ours.
    """
    from roofline.ingest.aten_views import is_view

    if is_view(call.name):
        return ()
    handler = handler_of(call.name)
    if handler is None:
        raise Unrecognised(f"no handler for {call.base}")
    mapped = handler(call)
    for each in mapped:
        each.build()
    return mapped


# --------------------------------------------------------------------------- formats
_FORMATS = {
    "fp64": ("float64", "double"),
    "fp32": ("float32", "float"),
    "bf16": ("bfloat16", "c10::BFloat16"),
    "fp16": ("float16", "half", "c10::Half"),
    "fp8_e4m3": ("float8_e4m3fn", "float8_e4m3fnuz", "c10::Float8_e4m3fn", "c10::Float8_e4m3fnuz"),
    "fp8_e5m2": ("float8_e5m2", "float8_e5m2fnuz", "c10::Float8_e5m2", "c10::Float8_e5m2fnuz"),
    "fp4": ("float4_e2m1fn_x2", "c10::Float4_e2m1fn_x2"),
    "int64": ("int64", "long", "long int", "long long"),
    "int32": ("int32", "int", "uint32", "unsigned int"),
    "int8": ("int8", "signed char", "uint8", "unsigned char", "char"),
    "bool": ("bool",),
}
FORMATS = {spelling: name for name, spellings in _FORMATS.items() for spelling in spellings}
"""Our number formats by the words of torch (``torch.bfloat16``) and of its profiler (``c10::BFloat16``)."""


def number_format(text: str) -> str:
    """Our number format for a word of torch or of its profiler; the word itself where it is none of ours (complex numbers).

    What depends on such a tensor is unrecognised later; a seed or a scale among the arguments does no harm.

    >>> number_format("torch.bfloat16"), number_format("long int"), number_format("c10::complex<float>")
    ('bf16', 'int64', 'c10::complex<float>')
    """
    return FORMATS.get(text.removeprefix("torch."), text)
