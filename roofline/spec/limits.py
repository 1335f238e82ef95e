"""A limit as it is written beside the path of a figure: ``5 ms``, ``40 %``, ``1.5``; what assertions and gates compare with."""

from __future__ import annotations

import re
from math import isinf

from roofline.units import Dimension, QuantityError, parse_quantity

_LEADING = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DIMENSIONS = (
    ("flop_per_byte", Dimension.FLOP_PER_BYTE),
    ("_s", Dimension.SECONDS),
    ("bytes", Dimension.BYTES),
    ("flop", Dimension.FLOP),
)


def limit(path: str, text: str) -> float | None:
    """A limit written beside a path, as a number: ``5 ms``, ``40 %``, ``1.5``; None where it is a word, or no float holds it."""
    bare = text.strip()
    if bare.endswith("%"):
        inner = _number(bare[:-1])
        return None if inner is None else inner / 100
    plain = _number(bare)
    if plain is not None:
        return plain
    dimension = next((d for ending, d in _DIMENSIONS if path.endswith(ending) or ending in path.split(".")), None)
    if dimension is None:
        return None
    try:
        return parse_quantity(bare, dimension, allow_zero=True)
    except QuantityError:
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value == value and abs(value) != float("inf") else None


def overflows(text: str) -> bool:
    """Whether a text begins with a number that no float holds."""
    number = _LEADING.match(text.strip())
    return number is not None and isinf(float(number[0]))


def not_ordered(text: str, comparison: str) -> str:
    """Why a text has no order, and what has."""
    return f"'{text}' cannot be compared with '{comparison}'; write a number with its unit, such as '5 ms'"
