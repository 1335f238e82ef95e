"""Times, token counts, prices and powers as a person gives them on a command line: ``3 h``, ``15.6T``, ``2.5 USD/h``, ``700 W``."""

from __future__ import annotations

import re

from roofline.errors import UsageError
from roofline.units import Dimension, QuantityError, parse_quantity, read_number, to_float

DURATIONS = {
    "us": (1, 10**6), "\u00b5s": (1, 10**6), "\u03bcs": (1, 10**6), "ms": (1, 1000), "s": (1, 1), "min": (60, 1), "h": (3600, 1),
    "d": (86400, 1), "days": (86400, 1), "years": (31557600, 1),
}  # fmt: skip
"""Units of time as a ratio to the second, micro with either of its signs; a year has 365.25 days."""
NAMED = ("us", "ms", "s", "min", "h", "d", "days", "years")
"""Those of them that a message names."""
COUNTS = {"": 1, "k": 10**3, "M": 10**6, "B": 10**9, "G": 10**9, "T": 10**12}
_WRITTEN = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z\u00b5\u03bc/]*)\s*")


def duration_s(text: str, option: str, *, zero: bool = False) -> float:
    """A time in s.

    Raises:
        UsageError: no unit, an unknown one, or a time that is not above 0 (with ``zero``: that is below 0).
    """
    number, unit = _split(text, option, "3 h, 90 s or 50000 h")
    if unit not in DURATIONS:
        raise UsageError(f"{option} '{text}': write a unit of time, one of {', '.join(NAMED)}, such as '3 h'")
    scale = DURATIONS[unit]
    return _above(number * scale[0] / scale[1], text, option, zero=zero)


def count(text: str, option: str) -> float:
    """A number of tokens or parameters; k, M, B, T are powers of 1000.

    Raises:
        UsageError: another suffix, or a number that is not above 0.
    """
    number, suffix = _split(text, option, "15.6T or 2e12")
    if suffix not in COUNTS:
        raise UsageError(f"{option} '{text}': '{suffix}' is none of {', '.join(s for s in COUNTS if s)}")
    return _above(number * COUNTS[suffix], text, option)


def quantity(text: str, dimension: Dimension, option: str) -> float:
    """A quantity with its unit; a price may be written without its currency, ``2.5/h``.

    Raises:
        UsageError: no such quantity.
    """
    written = re.sub(r"(?<=[0-9.\s])/h\s*$", " USD/h", text) if dimension is Dimension.USD_PER_HOUR else text
    try:
        return float(parse_quantity(written, dimension))
    except QuantityError as err:
        raise UsageError(f"{option}: {err}") from None


def _split(text: str, option: str, example: str) -> tuple[float, str]:
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise UsageError(f"{option} '{text[:40]}' cannot be read; write one such as {example}")
    try:
        return to_float(read_number(match[1]), match[1]), match[2]
    except QuantityError as err:
        raise UsageError(f"{option}: {err}") from None


def _above(value: float, text: str, option: str, *, zero: bool = False) -> float:
    if value > 0 or (zero and value == 0):
        return value
    raise UsageError(f"{option} '{text}' must be {'0 or more' if zero else 'above 0'}")
