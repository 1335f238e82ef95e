"""A loop for a person: the totals, then a line a turn."""

from __future__ import annotations

from dataclasses import replace

from roofline.report.columns import Column, seconds
from roofline.report.loop import Log, LoopStatus, Turn

LONGEST_TEXT = 500
"""Characters of a change or a hypothesis in Markdown."""


def factor(value: float | None) -> str:
    """A gain with three digits."""
    return "-" if value is None else f"{value:.3g}x"


def answer(found: LoopStatus) -> str:
    """The first line: predicted against achieved, in total."""
    count = len(found.log.turns) - 1
    turns = "1 turn" if count == 1 else f"{count} turns"
    if found.achieved is None:
        return f"{turns}: {factor(found.predicted_all)} predicted in all; nothing to compare it with was measured yet."
    after = "" if found.until == count else f" up to turn {found.until}"
    return f"{turns}: {factor(found.achieved)} achieved{after}, {factor(found.predicted)} predicted."


def columns(log: Log) -> list[Column]:
    """One row a turn."""
    turns = log.turns
    return [
        Column("turn", tuple(str(t.number) for t in turns)),
        Column("change", tuple(change(t) for t in turns), right=False),
        Column("predicted", tuple(seconds(t.predicted.time_s) for t in turns)),
        Column("gain", tuple(factor(t.predicted.speedup) if t.number else "-" for t in turns)),
        Column("measured", tuple(seconds(t.measured.time_s) if t.measured else "-" for t in turns)),
        Column("achieved", tuple(factor(t.measured.speedup) if t.measured and t.number else "-" for t in turns)),
        Column("verdict", tuple((t.measured.verdict if t.number else "measured") if t.measured else "open" for t in turns), right=False),
        Column("hypothesis", tuple(t.hypothesis for t in turns), right=False, priority=5),
    ]


def to_markdown(found: LoopStatus) -> str:
    """The totals and a table; what a person wrote stands in code spans, so that nothing in it becomes markup."""
    from roofline.report.markdown import code, table

    shown = [
        replace(c, cells=tuple(code(cell, LONGEST_TEXT) for cell in c.cells)) if c.heading in ("change", "hypothesis") else c
        for c in columns(found.log)
    ]
    return f"{answer(found)}\n\n{table(shown)}"


def change(turn: Turn) -> str:
    """What the turn changes."""
    return turn.change or " ".join(turn.settings) or ("as it is" if turn.number == 0 else "-")


def turn_line(turn: Turn) -> str:
    """The newest turn in one line."""
    took = f"turn {turn.number}, {change(turn)}: {turn.predicted.kind} {seconds(turn.predicted.time_s)}"
    gain = f", {factor(turn.predicted.speedup)} predicted" if turn.number else ""
    if turn.measured is None:
        return f"{took}{gain}."
    achieved = f", {factor(turn.measured.speedup)} achieved" if turn.measured.speedup is not None and turn.number else ""
    verdict = f": {turn.measured.verdict}" if turn.number else ""
    return f"{took}{gain}; measured {seconds(turn.measured.time_s)}{achieved}{verdict}."
