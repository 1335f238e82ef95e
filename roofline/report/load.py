"""Any JSON of ours that has a figure or takes advice: a report, a sweep, a search or a trace's report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from roofline.errors import InputError, Problem
from roofline.report import sense
from roofline.report.model import Report
from roofline.report.search import SCHEMA as SEARCH_SCHEMA
from roofline.report.search import SearchReport
from roofline.report.shape import ShapeError, decode
from roofline.report.store import check_numbers, read_json, refusal_at, report_from
from roofline.report.sweep import SWEEP_SCHEMA, SweepReport
from roofline.report.trace import TRACE_SCHEMA, TraceReport

Drawable = Report | SweepReport | SearchReport | TraceReport
_Form = TypeVar("_Form", SweepReport, SearchReport, TraceReport)
TRACE_NUMBERS = ("rows", "idle", "streams", "critical_path", "busy_s", "window_s", "ranking", "overlap")


def load(path: str) -> Drawable:
    """What is in the file, by what it says that it is.

    Raises:
        InputError: no such file, not JSON, nothing that is known here, or figures that cannot be.
    """
    found = read_json(path)
    if isinstance(found, dict):
        kind = found.get("kind")
        if kind == "sweep" and "points" in found:
            return _decoded(SweepReport, found, path, SWEEP_SCHEMA, sense.of_sweep, ("points",), frozenset({"params"}))
        if kind == "trace":
            return _decoded(TraceReport, found, path, TRACE_SCHEMA, sense.of_trace, TRACE_NUMBERS, frozenset({"fields"}))
        if "pareto" in found and "looked_at" in found:
            return _decoded(SearchReport, found, path, SEARCH_SCHEMA, sense.of_search, ("pareto", "best"))
    report = report_from(found, path)
    if not report.rows:  # two such reports may be compared, with the answer that nothing was; there is nothing to draw or to better
        raise refusal_at(path, "report.rows: a workload has a step at least")
    return report


def _decoded(
    form: type[_Form],
    found: dict[str, Any],
    path: str,
    schema: int,
    sensible: Callable[[_Form], Iterator[str]],
    checked: tuple[str, ...],
    free: frozenset[str] = frozenset(),
) -> _Form:
    """The value of the class, its numbers within what arithmetic bears; those below ``free`` keys may be anything."""
    version = found.get("schema")
    if version != schema or isinstance(version, bool):
        raise InputError([Problem(path, 0, 0, f"schema {version!r} is not the one this tool reads ({schema}); write the file again")])
    try:
        value: _Form = decode(form, found, "report")
    except ShapeError as err:
        raise refusal_at(path, str(err)) from None
    check_numbers({key: _without(found[key], free) for key in checked}, "report", path)
    if wrong := next(sensible(value), None):
        raise refusal_at(path, wrong)
    return value


def _without(value: Any, free: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(inner, free) for key, inner in value.items() if key not in free}
    return [_without(inner, free) for inner in value] if isinstance(value, list) else value
