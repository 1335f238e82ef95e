"""The key of a figure: marks and what they mean, in as many lines as its width asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from roofline.report.plot.svg import Drawing, text_width
from roofline.report.plot.theme import shape

LINE = 1.6
"""Height of a line over the size of letters."""
START = 14.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One mark by limiter and kind: its shape, ``round`` for the kind alone, a ``box`` for bars, or ``words`` without a mark."""

    limit: str
    kind: str
    said: str
    sort: str = "shape"


def legend_height(entries: Sequence[Entry], width: float, size: float) -> float:
    """Pixels that the key needs."""
    lines = {line for _, _, line in _laid(entries, width, size)}
    return len(lines) * size * LINE + (6 if lines else 0)


def _laid(entries: Sequence[Entry], width: float, size: float) -> Iterator[tuple[Entry, float, int]]:
    """Each entry with its left end and its line."""
    x, line = START, 0
    for entry in entries:
        wide = 2 * size + text_width(entry.said, size)
        if x > START and x + wide > width - 4:
            x, line = START, line + 1
        yield entry, x, line
        x += wide


def legend(page: Drawing, entries: Sequence[Entry], top: float, size: float) -> None:
    """Draw the key from ``top`` down."""
    for entry, x, line in _laid(entries, page.width, size):
        y = top + (line + 0.7) * size * LINE
        if entry.sort == "words":
            page.text(x - 6, y, entry.said)
            continue
        outline = shape({"round": "hbm", "box": "tensor"}.get(entry.sort, entry.limit), 5.5)
        page.parts.append(f'<path class="mark k-{entry.kind} l-{entry.limit}" transform="translate({x:.1f} {y - 4.5:.1f})" d="{outline}"/>')
        page.text(x + 12, y, entry.said)
