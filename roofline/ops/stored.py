"""Operators from the plain values that a report keeps of them, which somebody may have changed since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from roofline.dtypes import DTYPES
from roofline.errors import UsageError, did_you_mean
from roofline.ops.base import Op
from roofline.ops.registry import OPERATORS

MOST = 2**63
"""Of a count, as in a workload file."""
LARGEST = 1e30
"""Of an amount of bytes or FLOP, as in a workload file."""


class StoredError(UsageError):
    """A value that is none of the operator's; ``field`` is the one at fault, empty for the operator's name or all of them together."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def stored(name: str, values: Mapping[str, Any]) -> Op:
    """The operator ``name`` with the fields that a report or a trace's report kept.

    Raises:
        StoredError: no such operator, a field that it does not have or lacks, a value of another sort, or values that contradict.
    """
    if name not in OPERATORS:
        raise StoredError("", f"unknown operator '{name}'; {did_you_mean(name, list(OPERATORS))}")
    known = {f.name: f for f in fields(OPERATORS[name])}  # type: ignore[arg-type]
    for key, value in values.items():
        if key not in known:
            raise StoredError(key, f"{name} has no such field; {did_you_mean(key, list(known))}")
        if wanted := _wanted(known[key], value):
            raise StoredError(key, f"{value!r} is not {wanted}")
    lacking = [f.name for f in known.values() if f.default is MISSING and f.default_factory is MISSING and f.name not in values]
    if lacking:
        raise StoredError("", f"{name} lacks {', '.join(lacking)}")
    op: Op = OPERATORS[name](**values)
    if wrong := op.check():
        raise StoredError("", wrong)
    return op


def _wanted(field: Field[Any], value: Any) -> str | None:
    """What the field has to be, where the value is not of that sort."""
    declared = field.metadata
    if value is None and field.default is None:
        return None
    number = value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    match declared["kind"]:
        case "dim":
            least = declared["minimum"]
            held, what = number is not None and number == int(number) and least <= number < MOST, f"a whole number from {least}"
        case "amount":
            held, what = number is not None and 0 <= number <= LARGEST, f"a number of {declared['unit']} from 0 to {LARGEST:g}"
        case "probability":
            held, what = number is not None and 0 <= number <= 1, "a number from 0 to 1"
        case "flag":
            held, what = isinstance(value, bool), "true or false"
        case "choice":
            held, what = value in declared["options"], f"one of {', '.join(declared['options'])}"
        case "dtype":
            held, what = value in DTYPES, "a number format that is known"
        case _:
            held, what = isinstance(value, str), "text"
    return None if held else what
