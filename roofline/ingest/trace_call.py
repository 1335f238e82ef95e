"""What the profiler recorded of an operator's arguments, as a `Call` of the table of operators."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

from roofline.ingest.aten import FORMATS, Call, Tensor, Unrecognised
from roofline.ingest.trace_events import Signature
from roofline.ingest.trace_lists import MOST_UNSURE, Launched

TOO_LONG = "a list of tensors that the profiler found too long to record"
NO_SHAPES = "no shapes are recorded"
MOST_ELEMENTS = 2**48
"""No tensor that fits any device has more."""

MOST_DIMS = 64
_ELEMENT = re.compile(r"<\s*(c10::\w+|unsigned char|signed char|long long|long|double|float|int|bool|__nv_bfloat16|__half)\b")
_OPAQUE = re.compile(r"OpaqueType<(\d+)")
_OTHER_WORDS = {"__nv_bfloat16": "bf16", "__half": "fp16"}
_CHUNKS = re.compile(r"chunk_cat_cuda_kernel<[\w:]+, (?!char>)([\w:]+)>")
_LIKE = {"aten::split_with_sizes_copy": 0, "aten::_chunk_cat": 3}
"""Operators whose lists have the format of the tensor at a position, unless a kernel that converts says another."""
_OPAQUE_FORMATS = {1: "int8", 2: "bf16", 4: "fp32", 8: "int64"}
"""A kernel that only moves elements knows their size alone; any format of that size moves the same bytes."""


def call_of(name: str, signature: Signature, kernels: Sequence[str] = (), grids: Launched | None = None) -> Call:
    """The call with its arguments in the order of the operator's schema.

    Formats of tensors in a list are not recorded; they are those that the kernels' own names state. Lists that were too long to
    record are joined to one tensor of as many numbers as ``grids`` say; beside lists that were recorded an empty one is empty.

    Raises:
        Unrecognised: no shapes were recorded, or arguments that cannot be told apart.
    """
    dims, types, values = signature.parsed()
    if not dims or len(dims) != len(types):
        raise Unrecognised(NO_SHAPES)
    values = values if len(values) == len(dims) else [""] * len(dims)
    lists = _Lists(name, dims, types, kernels, grids if too_long(signature) else None)
    return Call(name, tuple(_argument(*each, lists) for each in zip(dims, types, values, strict=True)))


def too_long(signature: Signature) -> bool:
    """Whether there are lists of tensors of which none was recorded: the profiler leaves out those of more than 30."""
    dims, types, _ = signature.parsed()
    lists = [d for d, kind in zip(dims, types, strict=False) if kind == "TensorList"]
    return bool(lists) and not any(lists)


class _Lists:
    """The lists of tensors among the arguments of one call, in their order."""

    def __init__(self, name: str, dims: list[Any], types: list[Any], kernels: Sequence[str], grids: Launched | None) -> None:
        self._kernels, self._grids = kernels, grids
        self._others = any(d for d, kind in zip(dims, types, strict=True) if kind == "TensorList")
        self._left = grids.lists if grids else 0
        at = _LIKE.get(name, len(types))
        self._like = FORMATS.get(types[at]) if at < len(types) and isinstance(types[at], str) else None

    def tensors(self, dims: list[Any], kind: str) -> tuple[Tensor, ...]:
        """The tensors of the next list."""
        if dims:
            element = self._format()
            return tuple(Tensor(_shape(d), element) for d in dims)
        if kind == "TensorList" and self._others:
            return ()
        if kind != "TensorList" or self._grids is None:
            raise Unrecognised(TOO_LONG)
        if self._grids.unsure > MOST_UNSURE:
            raise Unrecognised(f"{TOO_LONG}, and of tensors too small to be counted from its launches")
        self._left -= 1  # lists after those that the kernels know are empty, or of numbers on the host
        return (Tensor((self._grids.most,), self._format()),) if self._left >= 0 else ()

    def _format(self) -> str:
        if self._like is None:
            return listed_format(self._kernels)
        other = next((found.group(1) for name in self._kernels if (found := _CHUNKS.search(name))), None)
        return self._like if other is None else _named(other)


def _argument(dims: Any, kind: Any, value: Any, lists: _Lists) -> Any:
    if kind in ("TensorList", "GenericList") and isinstance(dims, list):
        return lists.tensors(dims, kind)
    if kind in FORMATS:
        return Tensor(_shape(dims), FORMATS[kind])
    if isinstance(kind, str) and kind.startswith("c10::"):
        raise Unrecognised(f"numbers of format {kind}")
    return _value(value)


def _shape(dims: Any) -> tuple[int, ...]:
    whole = isinstance(dims, list) and all(isinstance(d, int) and not isinstance(d, bool) and 0 <= d <= MOST_ELEMENTS for d in dims)
    if not whole or len(dims) > MOST_DIMS or prod(max(d, 1) for d in dims) > MOST_ELEMENTS:
        raise Unrecognised("a shape that is none")
    return tuple(dims)


def _value(text: Any) -> Any:
    """A scalar from its text: ``0.5``, ``True``, ``[1, 2]``; other texts as they are, None for an empty one.

    >>> _value("[1, 2]"), _value("0."), _value("True"), _value("")
    ((1, 2), 0.0, True, None)
    """
    if not isinstance(text, str) or len(text) > 4096:
        return None
    if text.startswith("[") and text.endswith("]"):
        return tuple(_value(part.strip()) for part in text[1:-1].split(",") if part.strip())
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text or None


def listed_format(kernels: Sequence[str]) -> str:
    """The format of a list's tensors from the first template argument of the kernels that worked on it.

    >>> listed_format(["void multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor<float, 2, 1, 1> >()"])
    'fp32'

    Raises:
        Unrecognised: no kernel states it.
    """
    for name in kernels:
        if found := _OPAQUE.search(name):
            size = _OPAQUE_FORMATS.get(int(found.group(1)[:3]))
            if size:
                return size
        for word in _ELEMENT.findall(name):
            element = _OTHER_WORDS.get(word) or FORMATS.get(word)
            if element:
                return element
    raise Unrecognised("the format of a list's tensors is not recorded")


def _named(word: str) -> str:
    """The format by its word in a kernel's name.

    Raises:
        Unrecognised: it is none of ours.
    """
    found = _OTHER_WORDS.get(word) or FORMATS.get(word)
    if found is None:
        raise Unrecognised(f"numbers of format {word}")
    return found
