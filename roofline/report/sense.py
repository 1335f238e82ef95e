"""What a stored file must hold beyond the types of its values, so that everything made from it can be worked out.

Whoever reads a file has checked its shape and its numbers already; each function gives what is wrong as a text that begins with the
place, such as ``report.rows[3].flop: ...``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from roofline.ops.registry import OPERATORS
from roofline.ops.stored import StoredError, stored
from roofline.report.model import Report
from roofline.report.search import SearchReport
from roofline.report.sweep import SweepReport
from roofline.report.trace import TraceReport
from roofline.workload.workload import DIRECTIONS

FLOP = ("tensor", "vector", "sfu")
MEMORY = ("hbm",)
MEASURED = ("ok", "throttled")


def of_report(report: Report) -> Iterator[str]:
    """A report of analyze or measure."""
    if report.hardware is not None and not isinstance(report.hardware.get("name"), str):
        yield "report.hardware lacks 'name'"
    for i, row in enumerate(report.rows):
        place = f"report.rows[{i}]"
        if row.direction not in DIRECTIONS:
            yield f"{place}.direction: '{row.direction}' is not one of {', '.join(DIRECTIONS)}"
        if row.repeat < 1:
            yield f"{place}.repeat: a step runs once at least"
        yield from _keys(f"{place}.flop", row.flop, FLOP)
        for name in ("bytes", "intensity_flop_per_byte", "ridge_flop_per_byte"):
            yield from _keys(f"{place}.{name}", getattr(row, name), MEMORY)
        if row.measured is not None and row.measured.status in MEASURED:
            yield from _time(f"{place}.measured.time_s", row.measured.time_s)
    yield from _keys("report.totals.flop", report.totals.flop, FLOP)
    for name in ("bytes", "intensity_flop_per_byte"):
        yield from _keys(f"report.totals.{name}", getattr(report.totals, name), MEMORY)
    twice = sorted(i for i, n in Counter(r.id for r in report.rows).items() if n > 1)
    if twice:
        yield f"report.rows: rows share an id: {', '.join(twice)}"


def of_sweep(report: SweepReport) -> Iterator[str]:
    """A sweep."""
    for i, point in enumerate(report.points):
        yield from _keys(f"report.points[{i}].params", point.params, report.axes)
        yield from _time(f"report.points[{i}].bound_s", point.bound_s)
        yield from _time(f"report.points[{i}].estimate_s", point.estimate_s)


def of_search(report: SearchReport) -> Iterator[str]:
    """A search."""
    yield from _keys("report.job", report.job, ("phase",))
    for name in ("best", "pareto"):
        for i, plan in enumerate(getattr(report, name)):
            yield from _time(f"report.{name}[{i}].step_s", plan.step_s)


def of_trace(report: TraceReport) -> Iterator[str]:
    """What ``roofline ingest trace`` wrote."""
    for i, row in enumerate(report.rows):
        place = f"report.rows[{i}]"
        if row.flop is not None:
            yield from _keys(f"{place}.flop", row.flop, FLOP)
        if row.calls < 1:
            yield f"{place}.calls: a row is of one call at least"
        for j, work in enumerate(row.work):
            if work.direction not in DIRECTIONS:
                yield f"{place}.work[{j}].direction: '{work.direction}' is not one of {', '.join(DIRECTIONS)}"
            try:
                stored(work.op, work.fields)
            except StoredError as err:
                at = f"fields.{err.field}" if err.field else "fields" if work.op in OPERATORS else "op"
                yield f"{place}.work[{j}].{at}: {err}"
    yield from _keys("report.idle.causes", report.idle.causes, report.idle.by_cause_s)
    if report.idle.time_s and not report.idle.longest:
        yield "report.idle.longest: there is idle time and no longest of it"


def _keys(place: str, found: Mapping[str, Any], wanted: Iterable[str]) -> Iterator[str]:
    lacking = [k for k in wanted if k not in found]
    if lacking:
        yield f"{place} lacks {', '.join(repr(k) for k in lacking)}"


def _time(place: str, value: float | None) -> Iterator[str]:
    if value is not None and not value > 0:
        yield f"{place}: a time is above 0"
