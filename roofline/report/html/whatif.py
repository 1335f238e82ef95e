"""What a step's speedup does to the whole: shares of one kind, where Amdahl's law holds for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from roofline.report.model import Report
from roofline.report.plot.marks import TRUSTED, times

KINDS = ("measured", "estimate", "bound")
ROUNDING = 1e-6
"""How far shares of one whole may exceed 1 together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """By kind the seconds of the whole and the share of each row, all repetitions; ``why`` says why a kind is left out."""

    whole_s: dict[str, float] = field(default_factory=dict)
    shares: dict[str, tuple[float, ...]] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)


def shares_of(report: Report) -> Shares:
    """The kinds for which the steps are shares of the whole, the most believed first."""
    found = Shares()
    for kind in KINDS:
        whole, why = _whole(report, kind)
        parts = [times(row).get(kind, 0.0) * row.repeat for row in report.rows]
        if why is None and whole and math.fsum(parts) > whole * (1 + ROUNDING):
            why = "the steps one by one take longer than the whole, so that they are no shares of it"
        if why is None and whole:
            found.whole_s[kind] = whole
            found.shares[kind] = tuple(part / whole for part in parts)
        else:
            found.why[kind] = why or "there is none"
    return found


def _whole(report: Report, kind: str) -> tuple[float | None, str | None]:
    """Seconds of the whole, or why they cannot be divided into steps."""
    totals = report.totals
    if totals.bound and totals.bound.overlapped:
        return None, "steps overlap: the schedule decides, not a sum (roofline amdahl WORKLOAD --step answers it)"
    if kind == "bound":
        return (totals.bound.time_s, None) if totals.bound else (None, "there is none")
    if kind == "estimate":
        if not totals.estimate:
            return None, totals.unavailable.get("estimate", "there is none")
        if totals.estimate.by_limiter_s.get("host"):
            return None, "the host's launches take part of the time, which a faster step leaves as it is"
        return totals.estimate.time_s, None
    found = totals.measured
    if not found or found.status not in TRUSTED or not found.time_s > 0:
        return None, totals.unavailable.get("measured", "not measured")
    missing = [row.id for row in report.rows if "measured" not in times(row)]
    return (None, f"not measured: {', '.join(missing[:3])}") if missing else (found.time_s, None)
