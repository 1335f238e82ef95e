"""Small HTML tables for notebooks. Names are data: all text is escaped, and control characters are shown as escapes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from roofline.errors import visible


def text(value: str) -> str:
    """Text that is text in HTML, whatever it is.

    >>> text('<b onclick="x">\\u202e')
    '&lt;b onclick=&quot;x&quot;&gt;\\\\u202e'
    """
    return escape(visible(value), quote=True)


def html_table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A table with a caption, and sentences under it. The first cell of a row is its name; no script, no style but alignment."""
    head = "".join(f'<th scope="col">{text(h)}</th>' for h in heads)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    below = "".join(f"<p>{text(n)}</p>" for n in notes)
    table = f"<table><caption>{text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if heads else ""
    return f'<div class="roofline">{table or f"<p>{text(caption)}</p>"}{below}</div>'


def _cells(row: Sequence[str]) -> str:
    named = f'<th scope="row" style="text-align:left">{text(row[0])}</th>'
    return named + "".join(f'<td style="text-align:right">{text(cell)}</td>' for cell in row[1:])
