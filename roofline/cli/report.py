"""``roofline report``: a stored report as a table, Markdown or CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported, warn
from roofline.report.formats.exchange import REPORT_FORMATS

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.report.model import Report

FORMATS = ("table", "json", "csv", "markdown", *REPORT_FORMATS)


@reported
def command(
    file: Annotated[str, typer.Argument(help="Report written by analyze or measure.")],
    explain: Annotated[bool, typer.Option("--explain", help="State every convention and show the arithmetic.")] = False,
    format_: Annotated[str | None, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file; its ending picks the format.")] = None,
) -> None:
    """Show a report that was written earlier: predictions, and measurements where it has some.

    github-benchmark, bencher, junit and openmetrics are formats of other tools (see docs/ci.md).

    Example: roofline report measured.json
    """
    from roofline.errors import InputError, Problem
    from roofline.report.store import load_report

    chosen = chosen_format(format_, output, FORMATS)
    try:
        found = load_report(file)
    except FileNotFoundError:
        raise InputError([Problem(file, 0, 0, "no such file")]) from None
    warn(found.warnings)
    show(found, chosen, output, explain=explain)


def show(report: Report, chosen: str, output: str | None, *, explain: bool = False) -> None:
    """The report in the chosen format, to stdout or a file: as a sweep, a measurement or an analysis, by what it holds."""
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(report), output)
    elif chosen == "csv":
        from roofline.report.csv_view import to_csv

        deliver(to_csv(report), output)
    elif chosen in REPORT_FORMATS:
        from roofline.report.formats.exchange import report_as

        deliver(report_as(report, chosen), output)
    elif chosen == "markdown":
        from roofline.report import markdown, measured_view

        view = measured_view if _kind(report) == "measured" else markdown
        deliver(view.to_markdown(report), output)
    else:
        render(lambda console: _draw(report, console, explain), output)


def _kind(report: Report) -> str:
    from roofline.ops.registry import OPERATORS

    if not report.environment:
        return "analysis"
    families = {OPERATORS[r.op].family for r in report.rows if r.op in OPERATORS}
    return "sweep" if families == {"collective"} else "measured"


def _draw(report: Report, console: Console, explain: bool) -> None:
    from roofline.report import measured_view, sweep_view, text

    kind = _kind(report)
    if kind == "sweep":
        sweep_view.print_collectives(report, console)
    elif kind == "measured":
        measured_view.print_measured(report, console)
    else:
        text.print_report(report, console, explained=explain)
