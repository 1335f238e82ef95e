"""From values to places on an axis, and which values the axis names."""

from __future__ import annotations

import math
from collections.abc import Callable

from roofline.units import Dimension, format_quantity

Place = Callable[[float], float]


def log_scale(low: float, high: float, start: float, end: float) -> Place:
    """Places of values between ``low`` and ``high``, equal quotients equally far apart.

    >>> log_scale(1, 100, 0, 200)(10)
    100.0
    """
    first, span = math.log(low), math.log(high) - math.log(low)  # of quotients they could overflow
    return lambda value: start + (end - start) * (math.log(value) - first) / span


def linear_scale(low: float, high: float, start: float, end: float) -> Place:
    """Places of values between ``low`` and ``high``, equal differences equally far apart."""
    return lambda value: start + (end - start) * (value - low) / (high - low)


def log_ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Values that a logarithmic axis names: powers of ten, fewer where there are many, with 2 and 5 between where there are few.

    >>> log_ticks(0.5, 300), log_ticks(30, 300)
    ([1.0, 10.0, 100.0], [50.0, 100.0, 200.0])
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first + 1 >= 3:
        step = math.ceil((last - first + 1) / most)
        return [10.0**e for e in range(first, last + 1) if e % step == 0]
    return [f * 10.0**e for e in range(first - 1, last + 1) for f in (1, 2, 5) if low <= f * 10.0**e <= high]


def round_ticks(high: float, most: int = 6) -> list[float]:
    """Values from 0 that an axis to ``high`` names: steps of 1, 2 or 5 times a power of ten.

    >>> round_ticks(10)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    if not high > 0:
        return [0.0]
    power = math.floor(math.log10(high / most))
    step = next(f * 10.0**power for f in (1, 2, 5, 10, 20) if f * 10.0**power * most >= high * (1 - 1e-12))
    return [step * i for i in range(math.floor(high / step + 1e-9) + 1)]


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def tick_label(value: float) -> str:
    """A value of `log_ticks` as an axis names it.

    >>> tick_label(0.01), tick_label(5000), tick_label(1e7)
    ('0.01', '5000', '10⁷')
    """
    exponent = math.floor(math.log10(value) + 1e-9)
    if -3 <= exponent <= 4:
        return f"{value:g}"
    first = round(value / 10.0**exponent)
    return f"{'' if first == 1 else f'{first}·'}10{str(exponent).translate(_SUPERSCRIPT)}"


def quantity(value: float, dimension: Dimension, digits: int = 3) -> str:
    """A quantity without zeros that say nothing, as axes write it.

    >>> quantity(0.005, Dimension.SECONDS), quantity(200.0, Dimension.BYTES)
    ('5 ms', '200 B')
    """
    number, _, unit = format_quantity(value, dimension, digits=digits).partition(" ")
    if "." in number and "e" not in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number} {unit}"
