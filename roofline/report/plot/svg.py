"""Marks on a page as SVG text: no library, no random names, no dates; names of others are shown, never obeyed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from unicodedata import east_asian_width
from xml.sax.saxutils import escape

from roofline.errors import visible

SIZE = 12.0
"""Of letters, in pixels."""
LETTER = 0.6
"""Width of a letter over its size: more than the mean of the usual fonts, so that what fits here fits there."""
WIDE = 1.05
"""The same of Chinese, Japanese and Korean letters."""

TextBox = tuple[float, float, float, float, str]
"""Left, top, right, bottom, and what is written there."""


def clean(text: str) -> str:
    """Text of unknown origin as XML text or attribute: no markup, no control or bidirectional characters, nothing XML forbids.

    >>> clean('<a b="c">\\u202e')
    '&lt;a b=&quot;c&quot;&gt;\\\\u202e'
    """
    return escape("".join(f"\\u{ord(c):04x}" if c in "\ufffe\uffff" else c for c in visible(text)), {'"': "&quot;"})


def text_width(text: str, size: float = SIZE) -> float:
    """Pixels that a line of text takes at most in the usual fonts."""
    return size * sum(WIDE if east_asian_width(c) in "WF" else LETTER for c in visible(text))


def shortened(text: str, most: int) -> str:
    """The text, cut with an ellipsis where it has more than ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(slots=True)
class Drawing:
    """Marks on a page from its upper left corner; ``about`` is what it shows, in words.

    ``boxes`` are where its texts lie. ``style`` is its style sheet; ``theme`` fixes light or dark where the sheet knows both.
    ``size`` is that of letters. ``paper`` paints the page, for viewers that do not.
    ``role`` is ``img``, or ``group`` where its marks can be reached one by one.
    """

    title: str
    height: float
    width: float = 760.0
    style: str = ""
    theme: str = ""
    size: float = SIZE
    paper: bool = False
    role: str = "img"
    about: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    boxes: list[TextBox] = field(default_factory=list)
    tag: str = ""

    def tagged(self, attributes: str) -> Drawing:
        """The page, whose next text gets these attributes."""
        self.tag = f" {attributes}"
        return self

    def text(self, x: float, y: float, said: str, *, at: str = "start", style: str = "") -> None:
        """A line of text whose baseline is at y; ``at`` is the end of it that is at x."""
        self.boxes.append(text_box(x, y, said, at, self.size))
        anchor = "" if at == "start" else f' text-anchor="{at}"'
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{anchor}{classed(style)}{self.tag}>{clean(said)}</text>')
        self.tag = ""

    def line(self, x: float, y: float, to_x: float, to_y: float, style: str, *, more: str = "") -> None:
        """A straight line; ``more`` are further attributes."""
        self.parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"{classed(style)}{more}/>')

    def bar(self, x: float, y: float, wide: float, tall: float, style: str) -> None:
        """A rectangle from its left upper corner."""
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}"{classed(style)}/>')

    def dot(self, x: float, y: float, style: str, *, square: bool = False) -> None:
        """A mark around a point."""
        if square:
            self.bar(x - 4.5, y - 4.5, 9, 9, style)
        else:
            self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5"{classed(style)}/>')

    def curve(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Straight pieces through points."""
        self.parts.append(f'<path d="M{" L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"{classed(style)}/>')

    def svg(self) -> str:
        """The file."""
        return "\n".join((*self._head(), f"<style>{self.style}</style>", *self._painted(), *self.parts, "</svg>")) + "\n"

    def inline(self, prefix: str) -> str:
        """The same as a part of an HTML page that has the style sheet; ``prefix`` keeps its ids apart from other figures'."""
        return "\n".join((*self._head(prefix), *self.parts, "</svg>")) + "\n"

    def _head(self, prefix: str = "") -> tuple[str, str]:
        theme = f' data-theme="{self.theme}"' if self.theme else ""
        labels = f'role="{self.role}" aria-labelledby="{prefix}t {prefix}d"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:.0f} {self.height:.0f}" {labels}{theme}>'
        return head, f'<title id="{prefix}t">{clean(self.title)}</title>\n<desc id="{prefix}d">{clean("; ".join(self.about))}</desc>'

    def _painted(self) -> tuple[str, ...]:
        return (f'<rect width="{self.width:.0f}" height="{self.height:.0f}" class="paper"/>',) if self.paper else ()


def text_box(x: float, y: float, said: str, at: str, size: float) -> TextBox:
    """Where a line of text lies."""
    wide = text_width(said, size)
    left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[at]
    return left, y - size * 0.8, left + wide, y + size * 0.2, said


def classed(style: str) -> str:
    """The attribute that gives a mark its style."""
    return f' class="{style}"' if style else ""
