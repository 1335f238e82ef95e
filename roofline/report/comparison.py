"""Several reports side by side: the same steps on several devices, or several ways to do the same."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from roofline.report.columns import Column, band, binds, limits, number, seconds
from roofline.report.diff import signed
from roofline.report.model import Report, Totals, arithmetic
from roofline.report.sentences import closing, times
from roofline.report.text import can_encode, print_columns, styled
from roofline.units import Dimension, format_quantity


def labels(reports: Sequence[Report]) -> list[str]:
    """What tells the reports apart: the device, the workload, or both."""
    devices = [str(r.hardware["name"]) if r.hardware else "no device" for r in reports]
    names = [r.workload for r in reports]
    if len(set(names)) == 1:
        return devices
    if len(set(devices)) == 1:
        return names
    return [f"{n} on {d}" for n, d in zip(names, devices, strict=True)]


def summary(reports: Sequence[Report], ascii_: bool = False) -> list[Column]:
    """One line a report: work, time, what binds, and the time against the first."""
    totals = [r.totals for r in reports]
    first = totals[0].bound.time_s if totals[0].bound else None
    flop = [arithmetic(t.flop) for t in totals]
    bounds = [t.bound for t in totals]
    against = [times(first / b.time_s) if first and b and b.time_s else "-" for b in bounds]
    return [
        Column("", tuple(labels(reports)), right=False),
        Column("FLOP", tuple(format_quantity(f, Dimension.FLOP) for f in flop), priority=3),
        Column("HBM", tuple(format_quantity(t.bytes["hbm"], Dimension.BYTES) for t in totals), priority=2),
        Column("FLOP/B", tuple(number(t.intensity_flop_per_byte["hbm"]) for t in totals), priority=1),
        Column("memory", tuple(format_quantity(t.memory.needed_bytes, Dimension.BYTES) for t in totals), priority=4),
        Column("binds", tuple((b.limiter or "nothing") if b else "-" for b in bounds), right=False),
        Column("bound", tuple(seconds(b.time_s if b else None, ascii_) for b in bounds)),
        Column("speed", tuple(against)),
        *_estimates(totals, ascii_),
    ]


def _estimates(totals: Sequence[Totals], ascii_: bool) -> list[Column]:
    """What is estimated, where anything is, and its speed against the first."""
    found = [t.estimate for t in totals]
    if not any(found):
        return []
    first = found[0].time_s if found[0] else None
    against = [times(first / e.time_s) if first and e and e.time_s else "-" for e in found]
    return [
        Column("estimate", tuple(seconds(e.time_s if e else None, ascii_) for e in found)),
        Column("band", tuple(band(e) for e in found), priority=5),
        Column("limits", tuple(limits(e) for e in found), right=False, priority=6),
        Column("est. speed", tuple(against), priority=7),
    ]


def against_first(reports: Sequence[Report]) -> list[str]:
    """A sentence for each report but the first: its work, bytes, memory and speed against that one."""
    base, *others = reports
    first, *names = labels(reports)
    return [f"{name} against {first}: {_changes(base, other)}." for name, other in zip(names, others, strict=True)]


def _changes(base: Report, other: Report) -> str:
    old, new = base.totals, other.totals
    found = [
        _change("matrix FLOP", old.flop["tensor"], new.flop["tensor"]),
        _change("vector FLOP", old.flop["vector"], new.flop["vector"]),
        _change("HBM bytes", old.bytes["hbm"], new.bytes["hbm"]),
        _change("memory", old.memory.needed_bytes, new.memory.needed_bytes),
    ]
    if old.bound and new.bound and new.bound.time_s:
        found.append(f"bound {times(old.bound.time_s / new.bound.time_s)} as fast")
    if old.estimate and new.estimate and new.estimate.time_s:
        found.append(f"estimate {times(old.estimate.time_s / new.estimate.time_s)} as fast")
    return ", ".join(f for f in found if f)


def _change(what: str, old: float, new: float) -> str:
    """The change in words; nothing where neither side has any."""
    if old == new:
        return f"same {what}" if old else ""
    return f"{what} {signed(new / old if old else None)}"


def by_step(reports: Sequence[Report], ascii_: bool = False) -> list[Column]:
    """The time and limiter of each step in each report."""
    ids = list(dict.fromkeys(row.id for r in reports for row in r.rows))
    found = [Column("step", tuple(ids), right=False)]
    for label, report in zip(labels(reports), reports, strict=True):
        rows = [report.row(i) for i in ids]
        cells = tuple(f"{seconds(row.bound.time_s * row.repeat, ascii_)} {binds(row)}" if row and row.bound else "-" for row in rows)
        found.append(Column(label, cells))
    return found


def print_comparison(reports: Sequence[Report], console: Console) -> None:
    """The totals, what changed against the first, the steps, and what binds each."""
    ascii_ = not can_encode(console)
    print_columns(summary(reports, ascii_), console)
    console.print()
    for sentence in against_first(reports):
        console.print(styled(sentence))
    console.print()
    print_columns(by_step(reports, ascii_), console)
    for label, report in zip(labels(reports), reports, strict=True):
        console.print()
        console.print(styled(f"{label}:", "bold"))
        for sentence in closing(report):
            console.print(styled(f"  {sentence}"))
