"""Axes of a figure with two of them, linear or logarithmic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roofline.report.plot.scale import Place, linear_scale, log_scale, log_ticks, round_ticks
from roofline.report.plot.svg import Drawing, shortened, text_width
from roofline.report.plot.theme import style_sheet

SIZE = 14.0
WIDE_RANGE = 8.0
"""Quotient of the ends of an axis from which it is logarithmic."""
LEFT, RIGHT, TOP, BOTTOM = 78.0, 18.0, 48.0, 48.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """The values on an axis, what it says and how it writes a value."""

    values: Sequence[float]
    said: str
    written: Callable[[float], str]

    @property
    def log(self) -> bool:
        """Whether equal quotients lie equally far apart."""
        return min(self.values) > 0 and max(self.values) / min(self.values) >= WIDE_RANGE

    def ends(self) -> tuple[float, float]:
        """The ends, somewhat beyond the values; a linear axis begins at 0."""
        low, high = min(self.values), max(self.values)
        if self.log:
            beyond = math.exp(0.06 * (math.log(high) - math.log(low)))
            return low / beyond, high * beyond
        return min(0.0, low), high * 1.08 if high > 0 else 1.0

    def place(self, start: float, end: float) -> Place:
        """Where its values lie between two pixels."""
        return (log_scale if self.log else linear_scale)(*self.ends(), start, end)

    def ticks(self, most: int) -> list[float]:
        """The values that it names."""
        return log_ticks(*self.ends(), most) if self.log else round_ticks(self.ends()[1], most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A page with two axes: where values lie, and the edges of the area."""

    page: Drawing
    across: Place
    down: Place
    left: float
    right: float
    top: float
    bottom: float


def frame(title: str, x: Axis, y: Axis, *, width: float, theme: str, below: float = 0.0) -> Frame:
    """An empty page with axes and title; ``below`` are pixels for what stands under the axes."""
    area = max(280.0, round(width * 0.58))
    page = Drawing(title, area + below, width=width, style=style_sheet(theme, SIZE), size=SIZE, paper=True)
    page.theme = "" if theme == "auto" else theme
    left, right, top, bottom = LEFT, width - RIGHT, TOP, area - BOTTOM
    across, down = x.place(left, right), y.place(bottom, top)
    page.text(8, 20, shortened(title, int((width - 16) / SIZE / 0.6)), style="head")
    page.text(8, 39, y.said, style="quiet")
    for value in x.ticks(4 if width < 500 else 7):
        page.line(across(value), top, across(value), bottom, "grid")
    name_ticks(page, [(across(v), x.written(v)) for v in x.ticks(4 if width < 500 else 7)], bottom + 20)
    for value in y.ticks(6):
        page.line(left, down(value), right, down(value), "grid")
        page.text(left - 6, down(value) + 5, y.written(value), at="end", style="quiet")
    page.line(left, bottom, right, bottom, "axis")
    page.line(left, top, left, bottom, "axis")
    page.text((left + right) / 2, bottom + 40, x.said, at="middle", style="quiet")
    return Frame(page=page, across=across, down=down, left=left, right=right, top=top, bottom=bottom)


def name_ticks(page: Drawing, ticks: Sequence[tuple[float, str]], y: float, style: str = "quiet") -> None:
    """Names of places along an axis, within the page; one that would touch the name before it is left out."""
    beyond = 0.0
    for at, said in ticks:
        half = text_width(said, page.size) / 2
        middle = min(at, page.width - 2 - half)
        if middle - half > beyond:
            page.text(middle, y, said, at="middle", style=style)
            beyond = middle + half + 5
