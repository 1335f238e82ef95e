"""A search for a person: the best plan first, then the ranking, the front of time and memory, why, and what is out."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.report.columns import Column, seconds
from roofline.report.plan_view import part_name
from roofline.report.search import Ranked, SearchReport
from roofline.report.sentences import percent, size

SHOWN_FRONT = 8
"""Plans of the front that a table shows; JSON has all."""
SLOWEST = 3
"""How many times the least time the slowest of them may take."""


def answer(found: SearchReport) -> str:
    """The first line: the best plan and what it gives."""
    head = f"{found.model} on {' or '.join(f'{n:,}' for n in found.devices)} x {found.device}: "
    if not found.best:
        return head + f"no plan of {found.looked_at:,} obeys the rules and fits."
    best = found.best[0]
    least = {"bound": "at least ", "estimate": "about "}.get(found.kind, "")
    most = "at most " if found.kind == "bound" else ""
    share = f", MFU {most}{percent(best.mfu)}" if best.mfu is not None and found.job["phase"] != "decode" else ""
    where = f" on {best.devices:,}" if len(found.devices) > 1 else ""
    return f"{head}{best.plan}{where}: step {least}{seconds(best.step_s)}{share}, {size(best.memory_bytes)} a device."


def table(found: SearchReport, rows: Sequence[Ranked]) -> list[Column]:
    """Plans with their figures and the largest of what they wait for."""
    several = len(found.devices) > 1
    made = [
        Column("plan", tuple(r.plan for r in rows), right=False),
        Column("step", tuple(seconds(r.step_s) for r in rows)),
        Column("tokens/s", tuple(f"{r.tokens_per_s:,.0f}" if r.tokens_per_s is not None else "-" for r in rows), priority=2),
        Column("MFU", tuple(percent(r.mfu) if r.mfu is not None else "-" for r in rows), priority=3),
        Column("memory", tuple(size(r.memory_bytes) for r in rows)),
        Column("largest beside compute", tuple(_beside(r) for r in rows), right=False, priority=1),
    ]
    if several:
        made.insert(1, Column("devices", tuple(f"{r.devices:,}" for r in rows)))
        made.append(Column("device s", tuple(f"{r.device_s:,.4g}" for r in rows)))
    return made


def _beside(one: Ranked) -> str:
    parts = [(s, name) for name, s in one.parts_s.items() if name != "compute" and s > 0]
    if not parts:
        return "-"
    amount, name = max(parts)
    return f"{part_name(name).removeprefix('waits: ')} {percent(amount / one.step_s)}"


def front(found: SearchReport) -> list[Ranked]:
    """What is shown of the front: some of those that take no longer than a few times the fastest, as many plans apart."""
    near = [r for r in found.pareto if r.step_s <= SLOWEST * found.pareto[0].step_s]
    if len(near) <= SHOWN_FRONT:
        return near
    last = len(near) - 1
    return [near[round(i * last / (SHOWN_FRONT - 1))] for i in range(SHOWN_FRONT)]


def lines(found: SearchReport) -> list[str]:
    """Why the best is best, and why others are out."""
    said = [found.why] if found.why else []
    said.append(f"Time is of the kind: {found.label}.")
    out = "; ".join(f"{count:,} {reason}" for reason, count in found.infeasible.items())
    said.append(f"{found.looked_at:,} plans looked at, {found.feasible:,} obey the rules and fit" + (f"; out: {out}." if out else "."))
    return said
