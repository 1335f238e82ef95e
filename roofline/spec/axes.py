"""``--set`` of a sweep: what stays, and the axes with their values.

``batch=16`` stays, ``batch=1,8,64`` is a list, ``batch=1..512:x2`` goes from 1 to 512 by doubling and ``batch=100..1000:+50`` by
adding. Numbers may end in k, M, G (powers of 1000) or Ki, Mi, Gi (powers of 1024). What is no number is text, such as the names of
number formats.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from roofline.errors import InputError, Problem, UsageError
from roofline.spec.source import Mark, Source
from roofline.units import QuantityError, read_number

MOST_POINTS = 4_000_000
"""Points of one sweep: what its results take in memory stays below a gigabyte."""
PREFIXES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SCALED = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)")
_RANGE = re.compile(r"(?P<first>[^:]*?)\.\.(?P<last>[^:]*?)(?::(?P<kind>[x+*])(?P<step>.*))?")

Value: TypeAlias = int | float | str


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that is varied: ``key`` as in an override, and its values in the order given."""

    key: str
    values: tuple[Value, ...]

    @property
    def numeric(self) -> bool:
        """Whether all values are numbers."""
        return not any(isinstance(v, str) for v in self.values)


def read_axes(settings: Sequence[str], lone: Collection[str] = ()) -> tuple[list[str], list[Axis]]:
    """What stays, as overrides, and the axes of the sweep, in the order given; without any, one of the ``lone`` keys may have one value.

    Raises:
        UsageError: no axis, a text that is not ``key=value``, a key given twice, or more points than are evaluated.
        InputError: values that cannot be read, all of them, each at its place.
    """
    fixed: list[str] = []
    axes: list[Axis] = []
    problems: list[Problem] = []
    for text in settings:
        key, equals, written = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise UsageError(f"--set {text}: write key=values, such as batch=1..512:x2 or dtype=bf16,fp8_e4m3")
        if key in [a.key for a in axes] or key in [f.partition("=")[0] for f in fixed]:
            raise UsageError(f"--set {key} is given twice; write its values as one list, such as {key}=1,2,4")
        try:
            values = _values(written)
        except _Unreadable as found:
            source = Source(f"--set {key}", f"{key}={written}")
            problems.append(source.problem(Mark(1, len(key) + 2 + found.offset), str(found)))
            continue
        if len(values) == 1 and ".." not in written:
            fixed.append(f"{key}={spelt(values[0])}")
        else:
            axes.append(Axis(key, values))
    if problems:
        raise InputError(problems)
    if not axes and (alone := next((text for text in fixed if text.partition("=")[0] in lone), None)) is not None:
        fixed.remove(alone)
        key, _, written = alone.partition("=")
        axes.append(Axis(key, _values(written)))
    if not axes:
        raise UsageError("nothing is varied: give --set with several values, such as --set batch=1..512:x2")
    points = prod(len(a.values) for a in axes)
    if points > MOST_POINTS:
        raise UsageError(f"{points:,} points; at most {MOST_POINTS:,} are evaluated")
    return fixed, axes


def spelt(value: Value) -> str:
    """A value as an override takes it."""
    return repr(value) if isinstance(value, float) else str(value)


class _Unreadable(Exception):
    """Values that cannot be read; ``offset`` is the character they begin at."""

    def __init__(self, message: str, offset: int = 0) -> None:
        self.offset = offset
        super().__init__(message)


def _values(written: str) -> tuple[Value, ...]:
    """All values of one text; each once."""
    found: list[Value] = []
    offset = 0
    for item in written.split(","):
        at = offset + len(item) - len(item.lstrip())
        found += _range(item.strip(), at) if ".." in item else [_one(item.strip(), at)]
        offset += len(item) + 1
        if len(found) > MOST_POINTS:
            raise _Unreadable(f"more than {MOST_POINTS:,} values", at)
    if len(set(found)) < len(found):
        twice = next(v for v in found if found.count(v) > 1)
        raise _Unreadable(f"the value {twice} stands twice; every point is evaluated once")
    return tuple(found)


def _one(text: str, at: int) -> Value:
    """A number with its prefix worked out, or text."""
    if not text:
        raise _Unreadable("a value is missing; write values with commas between them, such as 1,8,64", at)
    match = _SCALED.fullmatch(text)
    return _number(text, at) if match is not None and match[2] in PREFIXES else text


def _number(text: str, at: int) -> int | float:
    match = _SCALED.fullmatch(text)
    if match is None:
        raise _Unreadable(f"'{text}' is not a number; write one such as 64 or 4Ki", at)
    if match[2] not in PREFIXES:
        raise _Unreadable(f"'{text}' ends in '{match[2]}', which is none of {', '.join(p for p in PREFIXES if p)}", at)
    try:
        numerator, denominator = read_number(match[1])
    except QuantityError as err:
        raise _Unreadable(str(err), at) from None
    numerator *= PREFIXES[match[2]]
    return numerator // denominator if numerator % denominator == 0 else numerator / denominator


def _range(text: str, at: int) -> list[int | float]:
    """From the first to the last value, the last one included where a step meets it."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise _Unreadable(f"'{text}' is not a range; write 1..512:x2 or 100..1000:+50", at)
    first, last = _number(match["first"].strip(), at), _number(match["last"].strip(), at + match.start("last"))
    step = _number(match["step"].strip(), at + match.start("step")) if match["kind"] else 1
    by_factor = match["kind"] in ("x", "*")
    if last < first:
        raise _Unreadable(f"the range ends at {last:g}, below its first value {first:g}", at)
    if step <= (1 if by_factor else 0) or (by_factor and first <= 0):
        wanted = "a factor above 1 from a first value above 0" if by_factor else "a step above 0"
        raise _Unreadable(f"'{text}' never ends; give {wanted}", at)
    found: list[int | float] = []
    while (value := first * step ** len(found) if by_factor else first + step * len(found)) <= last:
        found.append(int(value) if isinstance(value, float) and value.is_integer() else value)
        if len(found) > MOST_POINTS:
            raise _Unreadable(f"more than {MOST_POINTS:,} values", at)
    return found
