"""The pages of sweeps, searches and traces: the answer, the figure, the table."""

from __future__ import annotations

from roofline.report.html.page import document, folded, lines, pairs, section
from roofline.report.html.table import table
from roofline.report.plot.curves import curves
from roofline.report.plot.front import front
from roofline.report.plot.timeline import timeline
from roofline.report.search import SearchReport
from roofline.report.search_view import answer
from roofline.report.search_view import lines as search_lines
from roofline.report.search_view import table as search_table
from roofline.report.sweep import SweepReport
from roofline.report.sweep_lines import MOST_ROWS, columns, sentences
from roofline.report.trace import TraceReport
from roofline.report.trace_view import closing_lines, coverage_line, row_columns, summary_lines

WIDTH = 760.0


def other_page(found: SweepReport | SearchReport | TraceReport) -> str:
    """The file of any of them."""
    if isinstance(found, SweepReport):
        return sweep_page(found)
    return search_page(found) if isinstance(found, SearchReport) else trace_page(found)


def sweep_page(found: SweepReport) -> str:
    """A sweep: what changes where, the curves, the points."""
    first, *rest = [*sentences(found)]
    figure = curves(found, width=WIDTH)
    left = len(found.points) - MOST_ROWS
    more = [f"{left} more points are in the JSON and in --format csv"] if left > 0 else []
    return document(
        f"{found.workload} on {', '.join(found.hardware)}: a sweep",
        first,
        [
            section("figure", "Curves", figure.inline("f-")),
            section("sentences", "In words", lines(rest)),
            section("rows", "Points", table("points", "Points", columns(found), sortable=False) + lines(more)),
            folded("conventions", "What is missing", pairs(found.unavailable)),
            folded("environment", "Inputs", pairs({f"{i.role} {i.path}": f"sha256 {i.sha256}" for i in found.inputs})),
        ],
    )


def search_page(found: SearchReport) -> str:
    """A search: the best plan, the front of time and memory, the ranking, why."""
    return document(
        f"{found.model} on {found.cluster}: plans",
        answer(found),
        [
            section("figure", "Time and memory", front(found, width=WIDTH).inline("f-")),
            section("rows", "Best plans", table("best", "Best plans", search_table(found, found.best), sortable=False)),
            section(
                "front", "What no other beats", table("pareto", "What no other beats", search_table(found, found.pareto), sortable=False)
            ),
            section("sentences", "In words", lines(search_lines(found))),
            *([section("warnings", "Warnings", lines(f"{w.code}: {w.message}" for w in found.warnings))] if found.warnings else []),
            folded("conventions", "Job", pairs({**found.job, "objective": found.objective, "costs": found.label, "MFU": found.mfu_rule})),
        ],
    )


def trace_page(found: TraceReport) -> str:
    """A trace: the coverage, the timeline, the operators, what is worth doing."""
    return document(
        "Where the GPU time of a trace went",
        coverage_line(found),
        [
            section("figure", "Timeline", timeline(found, width=WIDTH).inline("f-")),
            section("sentences", "In words", lines([*summary_lines(found), *closing_lines(found)])),
            section("rows", "Operators", table("operators", "Operators by time", row_columns(found), sortable=False)),
            *([section("warnings", "Warnings", lines(f"{w.code}: {w.message}" for w in found.warnings))] if found.warnings else []),
            folded("conventions", "Causes of idle time", pairs(found.idle.causes)),
        ],
    )
