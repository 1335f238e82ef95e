"""End-to-end effect of making parts faster: Amdahl's law, its inverse, and Gustafson's form.

Fractions are shares of the time before. Parts are taken to run one after the other: where they overlap, the critical
path decides, and `roofline.predict.compose` gives the answer by scheduling the changed workload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from roofline.errors import UsageError

SMALLEST_SPEEDUP, LARGEST_SPEEDUP = 1e-100, 1e100
"""Beyond, times and their ratios would leave the range of a float."""
SUM_TOLERANCE = 1e-9
"""How far rounded fractions may exceed 1 together."""


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the time, and how much faster it becomes (``inf`` for the limit)."""

    fraction: float
    speedup: float


@dataclass(frozen=True, slots=True)
class Effect:
    """``time`` is the new time with the old as 1; ``limit`` the speedup were the parts free."""

    parts: tuple[Part, ...]
    time: float
    speedup: float
    limit: float
    unchanged: float
    new_shares: tuple[float, ...]
    unchanged_new_share: float

    def _repr_html_(self) -> str:
        """In a notebook: each part before and after."""
        from roofline.notebook import html_table

        def times(value: float) -> str:
            return "without limit" if math.isinf(value) else f"{value:.4g}x"

        rows = [
            (f"part {i}", f"{p.fraction:.1%}", "free" if math.isinf(p.speedup) else times(p.speedup), f"{new:.1%}")
            for i, (p, new) in enumerate(zip(self.parts, self.new_shares, strict=True), 1)
        ]
        rows.append(("unchanged", f"{self.unchanged:.1%}", "1x", f"{self.unchanged_new_share:.1%}"))
        caption = f"end to end {times(self.speedup)}, limit {times(self.limit)}"
        return html_table(caption, ("", "share before", "speedup", "share after"), rows)


def check_fraction(fraction: float) -> None:
    """A share of the time lies in [0, 1].

    Raises:
        UsageError: it does not.
    """
    if not 0 <= fraction <= 1:
        raise UsageError(f"fraction {fraction:g} is out of range: a share of the time lies between 0 and 1")


def check_speedup(speedup: float) -> None:
    """A speedup is above 0; ``inf`` asks for the limit.

    Raises:
        UsageError: it is zero, negative or not a number.
    """
    if not speedup > 0:
        raise UsageError(f"speedup {speedup:g} is out of range: above 0 (below 1 is slower, inf is the limit)")
    if math.isfinite(speedup) and not SMALLEST_SPEEDUP <= speedup <= LARGEST_SPEEDUP:
        raise UsageError(f"speedup {speedup:g} is out of range: from {SMALLEST_SPEEDUP:g} to {LARGEST_SPEEDUP:g}, or inf for the limit")


def amdahl(parts: Sequence[Part]) -> Effect:
    """Effect of all parts together: 1 / (sum of f / s + the rest).

    Raises:
        UsageError: a fraction or speedup out of its domain, or fractions that exceed 1 together.

    >>> round(amdahl([Part(0.2, 2)]).speedup, 4)
    1.1111
    """
    for part in parts:
        check_fraction(part.fraction)
        check_speedup(part.speedup)
    covered = math.fsum(p.fraction for p in parts)
    if covered > 1 + SUM_TOLERANCE:
        raise UsageError(f"the fractions add up to {covered:g}; shares of one whole cannot exceed 1")
    unchanged = max(0.0, 1 - covered)
    new_times = [p.fraction / p.speedup for p in parts]
    time = math.fsum([*new_times, unchanged])
    shares = tuple(t / time if time else 0.0 for t in new_times)
    return Effect(
        parts=tuple(parts),
        time=time,
        speedup=1 / time if time else math.inf,
        limit=1 / unchanged if unchanged else math.inf,
        unchanged=unchanged,
        new_shares=shares,
        unchanged_new_share=unchanged / time if time else 0.0,
    )


def required_speedup(fraction: float, target: float) -> float | None:
    """How much faster a part of this share must become for ``target`` end to end; None when out of reach.

    From target = 1 / (1 - f + f / s): s = f / (1 / target - (1 - f)).

    Raises:
        UsageError: fraction or target out of its domain.
    """
    check_fraction(fraction)
    check_speedup(target)
    room = 1 / target - (1 - fraction)
    if fraction == 0:
        return 1.0 if target == 1 else None
    if room <= 0:
        return math.inf if math.isclose(room, 0, abs_tol=1e-15) and math.isinf(target) else None
    return fraction / room


def gustafson(parallel_fraction: float, processors: float) -> float:
    """Scaled speedup when the problem grows with the machine: (1 - p) + p n (Gustafson 1988).

    Raises:
        UsageError: a fraction outside [0, 1] or fewer than one processor.
    """
    check_fraction(parallel_fraction)
    if not (processors >= 1 and math.isfinite(processors)):
        raise UsageError(f"processors {processors:g} is out of range: at least 1 and finite")
    return (1 - parallel_fraction) + parallel_fraction * processors
