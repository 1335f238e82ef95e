"""The times of a report as named numbers with ends, for tools that keep a history of them.

Bound, estimate and measurement are three series and never one: a step that is measured for the first time must not look like
one that became slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from roofline.report.model import EstimateResult, MeasuredResult, Report, Row

KINDS = ("bound", "estimate", "measured")
TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Point:
    """One time: seconds of all repetitions of a step, or of the whole (``step`` is None).

    ``low_s`` and ``high_s`` are the ends of the 90 % band of an estimate or of the 95 % interval of a measurement; None for a bound,
    which has none, and where there are no samples.
    """

    step: str | None
    kind: str
    time_s: float
    low_s: float | None = None
    high_s: float | None = None

    @property
    def subject(self) -> str:
        """The step's id, or ``total``."""
        return TOTAL if self.step is None else self.step


def points(report: Report) -> Iterator[Point]:
    """Every time of the report that has a value: rows in order, then the total."""
    for row in report.rows:
        yield from _of_row(row)
    totals = report.totals
    if totals.bound:
        yield Point(None, "bound", totals.bound.time_s)
    yield from _estimate(None, totals.estimate, 1)
    yield from _measured(None, totals.measured, 1)


def _of_row(row: Row) -> Iterator[Point]:
    if row.bound:
        yield Point(row.id, "bound", row.bound.time_s * row.repeat)
    yield from _estimate(row.id, row.estimate, row.repeat)
    yield from _measured(row.id, row.measured, row.repeat)


def _estimate(step: str | None, found: EstimateResult | None, repeat: int) -> Iterator[Point]:
    if found:
        yield Point(step, "estimate", found.time_s * repeat, found.low_s * repeat, found.high_s * repeat)


def _measured(step: str | None, found: MeasuredResult | None, repeat: int) -> Iterator[Point]:
    """Only measurements that may be used: one that failed has no time, and an invalid one must enter no history."""
    from roofline.report.measured import USABLE

    if found and found.status in USABLE and found.time_s > 0:
        ends = found.interval_s or ()
        low, high = (ends[0] * repeat, ends[1] * repeat) if len(ends) == 2 else (None, None)
        yield Point(step, "measured", found.time_s * repeat, low, high)


def device(report: Report) -> str | None:
    """The name of the device, or None."""
    return str(report.hardware["name"]) if report.hardware else None
