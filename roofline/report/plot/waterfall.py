"""The waterfall: from the bound to the estimate to the measurement, a bar for each thing that costs time."""

from __future__ import annotations

from roofline.report.plot.scale import linear_scale, quantity, round_ticks
from roofline.report.plot.stages import Stages
from roofline.report.plot.svg import Drawing, shortened
from roofline.report.plot.theme import style_sheet
from roofline.report.sentences import percent
from roofline.units import Dimension, format_quantity

SIZE = 14.0
ROW, TOP, LEFT, VALUES = 28.0, 40.0, 150.0, 148.0


def bars(found: Stages) -> list[tuple[str, float, float, str]]:
    """What is drawn: name, where a bar begins and ends in seconds, and its sort: total, more or less."""
    drawn: list[tuple[str, float, float, str]] = []
    at = 0.0
    for stage in found.stages:
        if stage.name == "unexplained" and found.estimate_s is not None:
            drawn.append(("estimate", 0.0, found.estimate_s, "total"))
        drawn.append((stage.name, at, at + stage.time_s, "total" if stage.name == "ideal" else "more" if stage.time_s > 0 else "less"))
        at += stage.time_s
    if found.measured_s is not None:
        drawn.append(("measured", 0.0, found.measured_s, "total"))
    elif found.estimate_s is not None:
        drawn.append(("estimate", 0.0, found.estimate_s, "total"))
    return drawn


COLOURS = {"total": "hbm", "more": "tensor", "less": "l2"}


def waterfall(found: Stages, *, width: float = 640.0, theme: str = "auto") -> Drawing:
    """The figure of some stages."""
    drawn = bars(found)
    bottom = TOP + ROW * len(drawn)
    page = Drawing(f"Where the time of {found.of} goes", bottom + 44, width=width, style=style_sheet(theme, SIZE), size=SIZE, paper=True)
    page.theme = "" if theme == "auto" else theme
    page.text(8, 22, shortened(page.title, int((width - 16) / SIZE / 0.6)), style="head")
    low, high = min(0.0, *(min(a, b) for _, a, b, _ in drawn)), max(max(a, b) for _, a, b, _ in drawn)
    across = linear_scale(low, high if high > low else low + 1, LEFT, width - VALUES)
    for tick in round_ticks(high, 3 if width < 500 else 5):
        page.line(across(tick), TOP - 4, across(tick), bottom, "grid")
        page.text(across(tick), bottom + 17, quantity(tick, Dimension.SECONDS), at="middle", style="quiet")
    end = drawn[-1][2] or 1.0
    for i, (name, start, stop, sort) in enumerate(drawn):
        y = TOP + ROW * i
        page.text(LEFT - 8, y + 17, name, at="end", style="head" if sort == "total" else "")
        left, right = sorted((across(start), across(stop)))
        page.bar(left, y + 4, max(right - left, 1.0), ROW - 9, f"bar l-{COLOURS[sort]}")
        if i + 1 < len(drawn):
            page.line(across(stop), y + 4, across(stop), y + ROW + 4, "join")
        sign = "" if sort == "total" else "+" if sort == "more" else "-"
        page.text(width - 8, y + 17, f"{sign}{_time(abs(stop - start))}, {percent(abs(stop - start) / end)}", at="end")
        page.about.append(f"{name}: {sign}{_time(abs(stop - start))}")
    page.text(LEFT, bottom + 37, "shares are of the last bar", style="quiet")
    if found.why:
        page.about.append(f"no estimate: {found.why}")
    return page


def _time(seconds: float) -> str:
    return format_quantity(seconds, Dimension.SECONDS, digits=3)
