"""A comparison for people: verdict first, then what has no partner, then the rows that changed and why."""

from __future__ import annotations

from roofline.report.columns import Column
from roofline.report.diff import Diff, Quantity, RowChange, signed
from roofline.report.markdown import code, table
from roofline.report.sentences import plural, resource

MOST_ROWS = 20
MOST_CHARACTERS = 60_000
MARKER = "<!-- roofline-diff -->"
"""Finds the comment again, so that one is updated instead of many written."""


def verdict(found: Diff) -> str:
    """One line: the gates if there are any, the total, and what was compared."""
    return "; ".join([*_gates(found), _time(found.total_time_ratio), counts(found)])


def _gates(found: Diff) -> list[str]:
    failed = sum(not g.held for g in found.gates)
    if failed:
        return [f"FAILED {failed} of {plural(len(found.gates), 'gate')}"]
    return [f"{plural(len(found.gates), 'gate')} held"] if found.gates else []


def _time(ratio: float | None) -> str:
    if ratio is None:
        return "total time unknown"
    return "total time unchanged" if ratio == 1 else f"total time {signed(ratio)}"


def counts(found: Diff) -> str:
    """How many rows were compared, changed, added and removed."""
    changed = sum(r.status == "changed" for r in found.rows)
    return f"compared {found.compared} ({changed} changed), removed {len(found.removed)}, added {len(found.added)}"


def head_lines(found: Diff) -> list[str]:
    """What must be read before any number."""
    lines = [verdict(found)]
    if found.removed:
        lines.append(f"removed: {', '.join(found.removed)}")
    if found.added:
        lines.append(f"added: {', '.join(found.added)}")
    lines += list(found.context)
    for gate in found.gates:
        if not gate.held:
            lines += [f"gate {gate.rule}: {f}" for f in gate.found]
    return lines


def total_lines(found: Diff) -> list[str]:
    """The effect on the whole."""
    lines = [f"total {q.name}: {_value(q.base)} -> {_value(q.head)} ({signed(q.ratio)})" for q in found.totals]
    if found.geomean_time_ratio is not None:
        lines.append(f"geometric mean of {found.compared} time ratios: {found.geomean_time_ratio:.3f}")
    if found.limiter_base != found.limiter_head:
        lines.append(f"end to end now bound by {resource(found.limiter_head)}, was {resource(found.limiter_base)}")
    return lines


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def changed_columns(found: Diff) -> list[Column]:
    """The rows that changed, largest effect on the whole first."""
    rows = sorted((r for r in found.rows if r.status == "changed"), key=_weight, reverse=True)
    return [
        Column("row", tuple(r.id for r in rows), right=False),
        Column("time", tuple(signed(r.time_ratio) if r.time_ratio != 1 else "same" for r in rows)),
        Column("FLOP", tuple(_of(r, "flop.tensor") for r in rows), priority=2),
        Column("HBM", tuple(_of(r, "bytes.hbm") for r in rows), priority=1),
        Column("whole", tuple("-" if r.end_to_end is None else signed(r.end_to_end) for r in rows)),
        Column("binds", tuple(_limiters(r) for r in rows), right=False),
        Column("measured", tuple(r.measured.verdict if r.measured else "-" for r in rows), right=False, priority=3),
    ]


def _weight(row: RowChange) -> float:
    return abs((row.end_to_end or 1) - 1)


def _of(row: RowChange, name: str) -> str:
    found: Quantity | None = next((q for q in row.quantities if q.name == name), None)
    return signed(found.ratio) if found else "same"


def _limiters(row: RowChange) -> str:
    return str(row.limiter_head) if row.limiter_base == row.limiter_head else f"{row.limiter_base} -> {row.limiter_head}"


def why_lines(found: Diff) -> list[str]:
    """The explanation of each changed row."""
    return [f"{r.id}: {r.explanation}" for r in found.rows if r.status == "changed"]


def to_markdown(found: Diff) -> str:
    """A comment for a pull request: verdict, at most 20 rows, the rest folded, never above the size a comment may have."""
    heading, *rest = head_lines(found)
    parts = [MARKER, f"**{_escape(heading)}**", *(f"- {_escape(line)}" for line in rest), ""]
    columns = changed_columns(found)
    if columns[0].cells:
        parts.append(table([_first(c, MOST_ROWS) for c in columns]))
        if len(columns[0].cells) > MOST_ROWS:
            parts.append(f"{len(columns[0].cells) - MOST_ROWS} more rows changed.\n")
        parts += ["<details><summary>Why</summary>\n", *(f"- {_escape(w)}" for w in why_lines(found)), "\n</details>\n"]
    parts += [f"- {_escape(line)}" for line in total_lines(found)]
    text = "\n".join(parts) + "\n"
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS].rsplit("\n", 1)[0] + "\n\n(cut to the size of a comment)\n"


def _first(column: Column, count: int) -> Column:
    return Column(column.heading, column.cells[:count], column.right, column.priority)


def _escape(text: str) -> str:
    """A sentence with names of unknown origin, as code: nothing in it is markup."""
    return code(text) if any(c in text for c in "`<>*_[]|#@!") else text
