"""Measured results for people: what each kernel reached, of which roof, how sure that is, and what it is worth to close the gap."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from roofline.report.columns import Column, binds, seconds
from roofline.report.model import MeasuredResult, Report, Row
from roofline.report.sentences import percent, times
from roofline.report.text import _line, can_encode, print_columns
from roofline.units import Dimension, format_quantity


def measured_columns(report: Report, ascii_: bool = False) -> list[Column]:
    """A line a row: bound, measured, interval, what was achieved of the roof that binds."""
    rows = report.rows

    def cells(cell) -> tuple[str, ...]:  # type: ignore[no-untyped-def]
        return tuple(cell(r, r.measured) for r in rows)

    return [
        Column("step", tuple(r.id for r in rows), right=False),
        Column("kernel", cells(lambda r, m: str(m.conditions.get("kernel", "-")) if m else "-"), right=False, priority=4),
        Column("binds", tuple(binds(r) for r in rows), right=False, priority=1),
        Column("bound", tuple(seconds(r.bound.time_s if r.bound else None, ascii_) for r in rows)),
        Column("measured", cells(lambda r, m: seconds(m.time_s, ascii_) if _timed(m) else (m.status if m else "-"))),
        Column("95 %", cells(_width), priority=2),
        Column("n", cells(lambda r, m: str(len(m.samples_s)) if m and m.samples_s else "-"), priority=5),
        Column("achieved", cells(_achieved)),
        Column("of roof", cells(_of_roof)),
        Column("SM MHz", cells(lambda r, m: _clock(m, "sm_mhz_median")), priority=3),
        Column("W", cells(lambda r, m: _clock(m, "power_w_max")), priority=6),
        Column("error", cells(lambda r, m: f"{m.check.error:.1e}" if m and m.check else "-"), priority=7),
        Column("status", cells(lambda r, m: m.status if m else "not run"), right=False),
    ]


def _timed(m: MeasuredResult | None) -> bool:
    return m is not None and m.time_s > 0


def _width(row: Row, m: MeasuredResult | None) -> str:
    if not m or not m.interval_s or not m.time_s:
        return "-"
    return f"+-{(m.interval_s[1] - m.interval_s[0]) / 2 / m.time_s * 100:.2f} %"


def _roof(row: Row) -> str | None:
    return row.bound.limiter if row.bound else None


def _achieved(row: Row, m: MeasuredResult | None) -> str:
    roof = _roof(row)
    if not m or not roof or roof not in m.achieved_per_s:
        return "-"
    dimension = Dimension.FLOP_PER_S if roof in ("tensor", "vector") else Dimension.OPS_PER_S if roof == "sfu" else Dimension.BYTES_PER_S
    return format_quantity(m.achieved_per_s[roof], dimension)


def _of_roof(row: Row, m: MeasuredResult | None) -> str:
    roof = _roof(row)
    share = m.share_of_peak.get(roof) if m and roof else None
    return "-" if share is None else percent(share)


def _clock(m: MeasuredResult | None, name: str) -> str:
    value = m.clocks.get(name) if m else None
    return "-" if value is None else f"{value:.0f}"


def print_measured(report: Report, console: Console) -> None:
    """The table, the notes of each row, the waterfall of the largest, and Amdahl's answer from the measured shares."""
    ascii_ = not can_encode(console)
    device = report.environment.get("device", "?")
    console.print(_line(f"{report.workload} measured on {device}", "bold"))
    columns = measured_columns(report, ascii_)
    print_columns(columns, console)
    for line in (*_notes(report), *closing(report)):
        console.print(_line(line))


def _notes(report: Report) -> Iterator[str]:
    for row in report.rows:
        if row.measured:
            for text in row.measured.notes:
                yield f"{row.id}: {text}"


def waterfall(row: Row) -> str | None:
    """From the bound to the measured time, in the parts that are known; without an estimate the rest is unexplained."""
    m = row.measured
    if not row.bound or not m or not m.time_s:
        return None
    gap = m.time_s - row.bound.time_s
    return (
        f"{row.id}: bound {seconds(row.bound.time_s, True)} ({row.bound.limiter}) + unexplained {seconds(max(gap, 0.0), True)} "
        f"= measured {seconds(m.time_s, True)}: {m.time_s / row.bound.time_s:.2f}x the bound"
        if row.bound.time_s
        else None
    )


def closing(report: Report) -> list[str]:
    """Where the measured time goes, and what reaching the bound of the largest step would give end to end."""
    rows = [r for r in report.rows if _timed(r.measured)]
    if not rows:
        return []
    lines = [w for r in rows if (w := waterfall(r))]
    spent = {r.id: (r.measured.time_s if r.measured else 0.0) * r.repeat for r in rows}
    total = sum(spent.values())
    whole = report.totals.measured
    if whole and whole.source.startswith("a run") and whole.time_s:
        lines.append(f"the whole sequence as one run: {seconds(whole.time_s, True)}; the sum of its steps: {seconds(total, True)}")
    if len(rows) > 1:
        lines += _amdahl(rows, spent, total)
    return lines


def _amdahl(rows: list[Row], spent: dict[str, float], total: float) -> list[str]:
    largest = max(rows, key=lambda r: spent[r.id])
    share = spent[largest.id] / total
    line = f"{largest.id} takes {percent(share)} of the measured time"
    if largest.bound:
        reached = total - spent[largest.id] + largest.bound.time_s * largest.repeat
        line += f"; at its bound ({largest.bound.limiter}) the whole would be {times(total / reached)} as fast"
    rest = max((r for r in rows if r is not largest), key=lambda r: spent[r.id])
    return [f"{line}; next: {rest.id}, {percent(spent[rest.id] / total)}."]
