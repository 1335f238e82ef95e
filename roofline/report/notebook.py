"""Reports in a notebook: the columns and sentences of the other views as one HTML table each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline.notebook import html_table
from roofline.report.columns import Column

if TYPE_CHECKING:
    from roofline.report.advice import AdviceReport
    from roofline.report.diff import Diff
    from roofline.report.memory import MemoryReport
    from roofline.report.model import Report
    from roofline.report.sweep import SweepReport
    from roofline.report.whatif import Change


def _html(caption: str, found: Sequence[Column], notes: Sequence[str]) -> str:
    shown = [c for c in found if c.cells]
    return html_table(caption, [c.heading for c in shown], list(zip(*(c.cells for c in shown), strict=True)), notes)


def report_html(report: Report) -> str:
    """Steps, totals, and what matters; measured columns where something was measured."""
    from roofline.report import measured_view
    from roofline.report.columns import columns
    from roofline.report.sentences import closing
    from roofline.report.text import title

    if any(r.measured for r in report.rows):
        said = [*measured_view.notes(report), *measured_view.closing(report)]
        return _html(measured_view.title(report), measured_view.measured_columns(report), said)
    return _html(title(report), columns(report), closing(report))


def diff_html(found: Diff) -> str:
    """What changed, why, and the verdict first."""
    from roofline.report.diff_view import changed_columns, head_lines, total_lines, why_lines

    first, *rest = head_lines(found)
    return _html(first, changed_columns(found), [*rest, *why_lines(found), *total_lines(found)])


def change_html(change: Change) -> str:
    """Steps before and after, and what the whole gains."""
    from roofline.report.columns import seconds
    from roofline.report.sentences import percent
    from roofline.report.whatif import change_lines

    lines = change_lines(change)
    rows = [
        (
            s.id,
            seconds(s.before_s),
            seconds(s.after_s),
            "free" if s.local_speedup is None else f"{s.local_speedup:.4g}x",
            percent(s.share_before),
            percent(s.share_after),
        )
        for s in change.steps
    ]
    heads = ("step", "before", "after", "local speedup", "share before", "share after") if rows else ()
    return html_table(lines[0], heads, rows, lines[1 + len(rows) :])


def advice_html(found: AdviceReport) -> str:
    """The changes with their gains, and the path."""
    from roofline.report.advice_view import answer, closing_lines, columns, path_lines

    return _html(answer(found), columns(found, found.advice) if found.advice else (), [*path_lines(found), *closing_lines(found)])


def memory_html(found: MemoryReport) -> str:
    """What one device holds, and whether it fits."""
    from roofline.report.memory_view import answer, lines, table

    return _html(answer(found), table(found), lines(found))


def sweep_html(found: SweepReport) -> str:
    """The points, and at which value the limiter changes."""
    from roofline.report.sweep_lines import MOST_ROWS, columns, sentences

    first, *rest = [*sentences(found), f"{found.workload} on {', '.join(found.hardware)}: {len(found.points)} points"]
    if len(found.points) > MOST_ROWS:
        rest.append(f"(the first {MOST_ROWS} points)")
    return _html(first, columns(found), rest)
