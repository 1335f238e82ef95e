"""A comparison as the comment of a pull request: verdict, what changed most and why, the rest folded, never above its size.

A hidden marker in the first line finds the comment again, so that one is kept up to date instead of many written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from roofline.errors import visible
from roofline.report.columns import Column
from roofline.report.diff import Diff
from roofline.report.diff_view import by_weight, changed_columns, head_lines, measured_columns, total_lines, why_lines
from roofline.report.markdown import code, table

MARKER = "<!-- roofline-diff -->"
MOST_CHARACTERS = 60_000
"""A comment of GitHub may have 65,536 characters; the rest is room for whoever adds a line."""
MOST_ROWS = 20
MOST_REASONS = 3
LONGEST_LINE = 400
ROOM_FOR_A_FOLD = 200
"""Characters that the frame of a folded part takes, with the sentence on what was left out of it."""


def to_markdown(found: Diff, *, marker: bool = True, most: int = MOST_CHARACTERS, heading: str | None = None) -> str:
    """The comment, of at most ``most`` characters; ``heading`` says what was compared where a comment has several parts."""
    first, *rest = (escape(line) for line in head_lines(found))
    parts = [MARKER] if marker else []
    if heading:
        parts.append(f"### {code(heading)}\n")
    parts += [f"**{first}**" if not first.startswith("`") else first, ""]
    parts += _kept([f"- {line}" for line in rest], most // 4)
    parts += _kept([f"- {line}" for line in _reasons(found)], most // 4)
    text = "\n".join(parts) + "\n"
    for summary, body in _folded(found):
        room = most - len(text) - ROOM_FOR_A_FOLD
        lines = _kept(body, room)
        if lines and room > 0:
            text += f"\n<details><summary>{summary}</summary>\n\n" + "\n".join(lines) + "\n\n</details>\n"
    return text


def _reasons(found: Diff) -> list[str]:
    """What changed most, each with its reason: rows by their effect on the whole."""
    rows = sorted((r for r in found.rows if r.status == "changed"), key=by_weight, reverse=True)
    said = [escape(f"{r.id}: {r.explanation}") for r in rows[:MOST_REASONS]]
    return said + ([f"and {len(rows) - MOST_REASONS} more rows changed"] if len(rows) > MOST_REASONS else [])


def _folded(found: Diff) -> list[tuple[str, list[str]]]:
    """Tables, reasons and totals, each with the line that is seen of it."""
    parts = [
        (f"Rows that {what}", _table(columns))
        for columns, what in ((changed_columns(found), "changed"), (measured_columns(found), "were measured"))
        if columns[0].cells
    ]
    parts += [("Why", [f"- {escape(line)}" for line in why_lines(found)]), ("Whole", [f"- {escape(line)}" for line in total_lines(found)])]
    return [(summary, body) for summary, body in parts if body]


def _table(columns: Sequence[Column]) -> list[str]:
    """At most 20 rows; what is left out is counted."""
    rest = len(columns[0].cells) - MOST_ROWS
    # The first column is put into code by `table`; names of resources in the others come from files as well.
    cells = [c.cells[:MOST_ROWS] if i == 0 else tuple(map(escape, c.cells[:MOST_ROWS])) for i, c in enumerate(columns)]
    shown = [Column(c.heading, given, c.right) for c, given in zip(columns, cells, strict=True)]
    return [*table(shown).splitlines(), *(["", f"{rest} more rows are in the report."] if rest > 0 else [])]


def _kept(lines: Sequence[str], room: int) -> list[str]:
    """The lines that fit, whole; the last says how many did not."""
    kept: list[str] = []
    for i, line in enumerate(lines):
        if sum(map(len, kept)) + len(kept) + len(line) > room:
            return [*kept, "", f"({len(lines) - i} more lines left out: a comment has its limit)"]
        kept.append(line)
    return kept


_MARKUP = re.compile(r"[`<*\[\]\\@|]|(?<!\w)_|_(?!\w)|#(?=\w)|~~|&(?=[#\w])|www\.|://|^\s*[-+>#=]\s|^\s*\d+[.)]\s")
"""What GitHub may take for markup, a link, a mention or the number of an issue; arrows and names such as mlp_up are none."""


def escape(text: str) -> str:
    """A sentence with names of unknown origin: as code where anything in it could be markup, a link or a mention."""
    flat = visible(" ".join(text.split()))
    return code(flat, LONGEST_LINE) if _MARKUP.search(flat) else flat[:LONGEST_LINE]
