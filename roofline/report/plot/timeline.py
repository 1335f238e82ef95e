"""What a trace's time went to: busy and idle by cause, the longest gaps where they are, streams, and the critical path."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.errors import UsageError
from roofline.report.plot.legend import Entry, legend, legend_height
from roofline.report.plot.scale import Place, linear_scale, quantity, round_ticks
from roofline.report.plot.svg import Drawing, shortened, text_width
from roofline.report.plot.theme import HUES, style_sheet
from roofline.report.sentences import percent
from roofline.report.trace import TraceReport
from roofline.report.trace_view import coverage_line, summary_lines
from roofline.units import Dimension, format_quantity

SIZE = 14.0
ROW, LEFT, RIGHT, TOP = 34.0, 118.0, 18.0, 44.0
MOST_STREAMS = 8
WAITING = tuple(name for name in HUES if name not in ("hbm", "none"))

Part = tuple[str, float, str]
"""What, seconds, colour."""


def timeline(report: TraceReport, *, width: float = 640.0, theme: str = "auto") -> Drawing:
    """The figure.

    Raises:
        UsageError: the trace has no GPU event.
    """
    if not report.window_s > 0:
        raise UsageError("the trace has no GPU event, so that there is no timeline")
    colours = {
        cause: WAITING[i % len(WAITING)]
        for i, cause in enumerate(dict.fromkeys([*report.idle.by_cause_s, *report.critical_path.waiting_s]))
    }
    rows = _rows(report, colours)
    entries = [
        Entry(limit="hbm", kind="measured", said="GPU busy", sort="box"),
        *(Entry(limit=c, kind="measured", said=f"idle: {n}", sort="box") for n, c in colours.items()),
    ]
    bottom = TOP + ROW * (len(rows) + 1)
    page = Drawing(_heading(report), bottom + 48 + legend_height(entries, width, SIZE), width=width, size=SIZE, paper=True)
    page.style, page.theme = style_sheet(theme, SIZE), "" if theme == "auto" else theme
    page.text(8, 22, shortened(page.title, int((width - 16) / SIZE / 0.6)), style="head")
    longest = max(report.window_s, *(sum(t for _, t, _ in parts) for _, parts in rows))
    across = linear_scale(0, longest, LEFT, width - RIGHT)
    for tick in round_ticks(longest, 3 if width < 500 else 5):
        page.line(across(tick), TOP, across(tick), bottom, "grid")
        said = quantity(tick, Dimension.SECONDS)
        page.text(min(across(tick), width - 2 - text_width(said, SIZE) / 2), bottom + 17, said, at="middle", style="quiet")
    for i, (name, parts) in enumerate(rows):
        _row(page, across, TOP + ROW * i, name, parts)
    _gaps(page, across, TOP + ROW * len(rows), report, colours)
    legend(page, entries, bottom + 30, SIZE)
    page.about += [coverage_line(report), *summary_lines(report), *(f"{n}: {why}" for n, why in report.idle.causes.items())]
    return page


def _heading(report: TraceReport) -> str:
    return f"GPU busy {percent(report.busy_s / report.window_s)} of {_time(report.window_s)}"


def _rows(report: TraceReport, colours: dict[str, str]) -> list[tuple[str, list[Part]]]:
    """Window, critical path and streams, each as what its time went to."""
    path = report.critical_path
    window: list[Part] = [("busy", report.busy_s, "hbm"), *((n, t, colours[n]) for n, t in report.idle.by_cause_s.items())]
    critical: list[Part] = [("busy", path.gpu_s, "hbm"), *((n, t, colours[n]) for n, t in path.waiting_s.items())]
    rows = [("window", window)] + ([("critical path", critical)] if path.time_s > 0 else [])
    several = len({s.device for s in report.streams}) > 1
    for s in sorted(report.streams, key=lambda s: (-s.busy_s, s.device, s.stream))[:MOST_STREAMS]:
        rows.append((f"{f'GPU {s.device} ' if several else ''}stream {s.stream}", [("busy", s.busy_s, "hbm")]))
    return rows


def _row(page: Drawing, across: Place, y: float, name: str, parts: Sequence[Part]) -> None:
    page.text(LEFT - 8, y + 20, shortened(name, 13), at="end")
    at = 0.0
    whole = sum(t for _, t, _ in parts)
    for what, time, colour in parts:
        left, right = across(at), across(at + time)
        if time > 0:
            page.bar(left, y + 5, max(right - left, 0.6), ROW - 12, f"bar l-{colour}")
            said = f"{what} {_time(time)}"
            if text_width(said, SIZE) + 8 < right - left:
                page.text(left + 5, y + 20, said, style="on")
        at += time
        page.about.append(f"{name}, {what}: {_time(time)} ({percent(time / whole) if whole else '0 %'})")


def _gaps(page: Drawing, across: Place, y: float, report: TraceReport, colours: dict[str, str]) -> None:
    """Where the longest gaps begin and end in the window of one device."""
    if report.devices != 1 or not report.idle.longest:
        return
    page.text(LEFT - 8, y + 20, "longest gaps", at="end")
    page.line(across(0), y + 16, across(report.window_s), y + 16, "axis")
    for gap in report.idle.longest:
        left, right = across(gap.start_s), across(gap.start_s + gap.time_s)
        page.bar(left, y + 5, max(right - left, 1.5), ROW - 12, f"bar l-{colours.get(gap.cause, 'none')}")
        page.about.append(f"gap of {_time(gap.time_s)} at {_time(gap.start_s)} before {gap.before}: {gap.cause}")


def _time(value: float) -> str:
    return format_quantity(value, Dimension.SECONDS, digits=3)
