"""``roofline plot``: reports, sweeps, searches and traces as figures: SVG, PNG, one HTML file, or dots in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, deliver_bytes, render, reported

if TYPE_CHECKING:
    from roofline.report.load import Drawable
    from roofline.report.model import Report
    from roofline.report.plot.svg import Drawing

FORMATS = ("text", "svg", "html", "png")
SUFFIXES = {".svg": "svg", ".html": "html", ".htm": "html", ".png": "png", ".txt": "text"}
FIGURES = ("roofline", "waterfall")


@reported
def command(
    file: Annotated[str, typer.Argument(help="JSON of analyze, measure, sweep, search or ingest trace; - is stdin.")],
    head: Annotated[str | None, typer.Argument(help="A later report of the same workload: what changed since FILE.")] = None,
    figure: Annotated[str, typer.Option("--figure", help="Of a report: roofline or waterfall.")] = "roofline",
    step: Annotated[str | None, typer.Option("--step", help="Waterfall of this step; of the whole without.")] = None,
    theme: Annotated[str, typer.Option("--theme", help="auto (the reader's), light or dark; PNG: light or dark.")] = "auto",
    width: Annotated[int, typer.Option("--width", min=360, max=2000, help="Of the figure, in pixels; letters keep their size.")] = 640,
    allow_context_change: Annotated[
        bool, typer.Option("--allow-context-change", help="Compare two reports that are not comparable.")
    ] = False,
    format_: Annotated[str | None, typer.Option("--format", help="text, svg, html or png.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file; its ending picks the format.")] = None,
) -> None:
    """Draw a report: the hierarchical roofline or a waterfall; a sweep's curves, a search's front, a trace's timeline.

    Without -o the roofline is drawn in the terminal. HTML is one file that loads nothing. PNG needs pip install
    'roofline[plot-png]'.

    Examples:

      roofline plot report.json

      roofline plot report.json -o report.html

      roofline plot base.json head.json -o change.html
    """
    from roofline.errors import UsageError, did_you_mean
    from roofline.report.plot.theme import THEMES

    chosen = chosen_format(format_ or SUFFIXES.get(Path(output or "").suffix.lower()), output, FORMATS)
    for name, given, known in (("--figure", figure, FIGURES), ("--theme", theme, THEMES)):
        if given not in known:
            raise UsageError(f"{name}: unknown '{given}'; {did_you_mean(given, known)}")
    if step is not None and figure != "waterfall":
        raise UsageError("--step names the step of a waterfall; add --figure waterfall")
    if file == head == "-":
        raise UsageError("standard input can be given once")
    found = _load(file)
    later = _later(found, head)
    if chosen == "html":
        deliver(_page(found, later, (file, head or ""), allow_context_change), output)
    elif chosen == "text":
        _show(found, later, figure, step, output)
    else:
        fixed = "light" if chosen == "png" and theme == "auto" else theme
        page = _figure(found, later, figure, step, fixed, float(width))
        if chosen == "svg":
            deliver(page.svg(), output)
        else:
            from roofline.report.plot.png import png

            deliver_bytes(png(page), output)


def _load(path: str) -> Drawable:
    from roofline.errors import InputError, Problem
    from roofline.report.load import load

    if path != "-" and not Path(path).exists():
        raise InputError([Problem(path, 0, 0, "no such file")])
    return load(path)


def _later(found: Drawable, head: str | None) -> Report | None:
    """The second report, which must be one, as the first."""
    from roofline.errors import UsageError
    from roofline.report.model import Report

    if head is None:
        return None
    later = _load(head)
    if not (isinstance(found, Report) and isinstance(later, Report)):
        raise UsageError("two files are compared where both are reports of analyze or measure")
    return later


def _figure(found: Drawable, later: Report | None, figure: str, step: str | None, theme: str, width: float) -> Drawing:
    from roofline.report.model import Report
    from roofline.report.search import SearchReport
    from roofline.report.sweep import SweepReport

    if isinstance(found, Report):
        if figure == "waterfall":
            from roofline.report.plot.stages import stages_of
            from roofline.report.plot.waterfall import waterfall

            return waterfall(stages_of(later or found, step), width=width, theme=theme)
        from roofline.report.plot.roofline import roofline

        return roofline(later or found, found if later else None, width=width, theme=theme)
    if isinstance(found, SweepReport):
        from roofline.report.plot.curves import curves

        return curves(found, width=width, theme=theme)
    if isinstance(found, SearchReport):
        from roofline.report.plot.front import front

        return front(found, width=width, theme=theme)
    from roofline.report.plot.timeline import timeline

    return timeline(found, width=width, theme=theme)


def _page(found: Drawable, later: Report | None, names: tuple[str, str], allow_context_change: bool) -> str:
    from roofline.report.html.diff_page import diff_page
    from roofline.report.html.other_pages import other_page
    from roofline.report.html.report_page import report_page
    from roofline.report.model import Report

    if not isinstance(found, Report):
        return other_page(found)
    if later is None:
        return report_page(found)
    return diff_page(found, later, *names, allow_context_change=allow_context_change)


def _show(found: Drawable, later: Report | None, figure: str, step: str | None, output: str | None) -> None:
    from roofline.errors import UsageError
    from roofline.report.model import Report
    from roofline.report.plot.stages import stages_of
    from roofline.report.plot.terminal import print_roofline, print_waterfall

    if not isinstance(found, Report) or later is not None:
        raise UsageError("in the terminal there is the roofline and the waterfall of one report; write a file: -o FILE.svg or -o FILE.html")
    if figure == "waterfall":
        stages = stages_of(found, step)
        render(lambda console: print_waterfall(stages, console), output)
    else:
        render(lambda console: print_roofline(found, console), output)
