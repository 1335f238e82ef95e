"""Measured results for people: what each kernel reached, of which roof, how sure that is, and what it is worth to close the gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console

from roofline.report.columns import Column, band, binds, limits, seconds
from roofline.report.diff import signed
from roofline.report.markdown import code, table
from roofline.report.measured import judge_measured
from roofline.report.model import EstimateResult, MeasuredResult, Report, Row
from roofline.report.sentences import percent, times
from roofline.report.text import can_encode, print_columns, styled
from roofline.units import Dimension, format_quantity

Name = Callable[[str], str]
"""How a name is written."""
FEWEST = 4
"""Samples below which an interval means nothing: that of a single one has no width."""


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
        *_estimates(report, ascii_),
        *_dataflows(report, ascii_),
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


def _estimates(report: Report, ascii_: bool) -> list[Column]:
    """What was expected, its band, and whether the measurement lies in it; nothing where nothing was expected."""
    rows = report.rows
    if not any(r.estimate for r in rows):
        return []
    return [
        Column("estimate", tuple(seconds(r.estimate.time_s if r.estimate else None, ascii_) for r in rows)),
        Column("band", tuple(band(r.estimate) for r in rows), priority=5),
        Column("in band", tuple(_place(r) for r in rows), right=False, priority=2),
    ]


def _dataflows(report: Report, ascii_: bool) -> list[Column]:
    """What the dataflow of each kernel says that binds, and the least time it takes as written; nothing where no kernel has one."""
    rows = report.rows
    said = [r.measured.conditions if r.measured else {} for r in rows]
    if not any("dataflow" in each for each in said):
        return []
    least = [each.get("dataflow_s") for each in said]
    return [
        Column("dataflow", tuple(str(each.get("dataflow", "-")) for each in said), right=False, priority=6),
        Column("dataflow binds", tuple(str(each.get("dataflow_binds", "-")) for each in said), right=False),
        Column("at least", tuple(seconds(s if isinstance(s, float) else None, ascii_) for s in least)),
    ]


def _place(row: Row) -> str:
    """Where the measured time lies: in the band, below or above it."""
    found, m = row.estimate, row.measured
    if found is None or m is None or not _timed(m):
        return "-"
    return "below" if m.time_s < found.low_s else "above" if m.time_s > found.high_s else "yes"


def _timed(m: MeasuredResult | None) -> bool:
    return m is not None and m.time_s > 0


def _width(row: Row, m: MeasuredResult | None) -> str:
    if not m or not m.interval_s or not m.time_s or len(m.samples_s or ()) < FEWEST:
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
    console.print(styled(title(report), "bold"))
    print_columns(measured_columns(report, ascii_), console)
    for line in (*notes(report), *closing(report)):
        console.print(styled(line))


def to_markdown(report: Report) -> str:
    """The same for a pull request: names, which are data, in code spans."""
    lines = [*notes(report, code), *closing(report, code)]
    columns = [replace(c, cells=tuple(map(code, c.cells))) if c.heading == "kernel" else c for c in measured_columns(report)]
    return f"### {code(title(report))}\n\n{table(columns)}\n" + "".join(f"- {line}\n" for line in lines)


def title(report: Report) -> str:
    """What was measured, and where."""
    return f"{report.workload} measured on {report.environment.get('device', '?')}"


def notes(report: Report, name: Name = str) -> Iterator[str]:
    """What each result says of itself. Its words may be those of a user's kernel."""
    for row in report.rows:
        for text in row.measured.notes if row.measured else ():
            yield f"{name(row.id)}: {text if name is str else name(text)}"


def waterfall(row: Row, name: Name = str) -> str | None:
    """From the bound through the estimate to the measured time; without an estimate all beyond the bound is unexplained."""
    m = row.measured
    if not row.bound or not row.bound.time_s or not m or not m.time_s:
        return None
    bound, took = f"{seconds(row.bound.time_s, True)} ({row.bound.limiter})", seconds(m.time_s, True)
    ratio = m.time_s / row.bound.time_s
    if ratio < 1:
        return f"{name(row.id)}: measured {took}, less than its bound {bound}: {_why_less(row, m)}{_against(row, m)}"
    modelled, rest = _explained(row, m)
    return f"{name(row.id)}: bound {bound}{modelled} + unexplained {rest} = measured {took}: {ratio:.2f}x the bound{_against(row, m)}"


def _explained(row: Row, m: MeasuredResult) -> tuple[str, str]:
    """What the estimate adds to the bound, as far as the measurement goes, and what is left."""
    assert row.bound is not None
    expected = row.estimate.time_s if row.estimate else row.bound.time_s
    modelled = min(expected, m.time_s) - row.bound.time_s
    if modelled <= 0:
        return "", seconds(m.time_s - row.bound.time_s, True)
    parts = limits(row.estimate)
    return f" + expected {seconds(modelled, True)} ({parts})", seconds(max(0.0, m.time_s - expected), True)


def _against(row: Row, m: MeasuredResult) -> str:
    """The measurement over the estimate, and whether that was within the band."""
    found = row.estimate
    if found is None or not found.time_s:
        return ""
    place = {"yes": "in its band", "below": "below its band", "above": "above its band"}[_place(row)]
    ends = f"{seconds(found.low_s, True)} to {seconds(found.high_s, True)}"
    return f", {m.time_s / found.time_s:.2f}x the estimate ({place}, {ends})"


def _why_less(row: Row, m: MeasuredResult) -> str:
    if m.faster_than_bound:
        return "not to be believed"
    if m.conditions.get("cache") == "warm" and row.bound and row.bound.limiter == "hbm":
        return "its data may stay in the cache"
    return "the published peaks hold at a lower clock, or the roof was measured in a slower moment"


def closing(report: Report, name: Name = str) -> list[str]:
    """Where the measured time goes, and what reaching the bound of the largest step would give end to end."""
    rows = [r for r in report.rows if _timed(r.measured)]
    lines = [w for r in rows if (w := waterfall(r, name))]
    spent = {r.id: (r.measured.time_s if r.measured else 0.0) * r.repeat for r in rows}
    total = sum(spent.values())
    whole = report.totals.measured
    if whole and whole.source.startswith("a run"):
        lines += _whole(whole, total if len(rows) == len(report.rows) else None, report.totals.estimate)
    if len(rows) > 1 and all(r.measured and "session" in r.measured.conditions for r in rows):
        return lines + _against_first(rows, name)
    if len(rows) > 1:
        lines += _amdahl(rows, spent, total, name)
    return lines


def _against_first(rows: Sequence[Row], name: Name) -> list[str]:
    """Kernels of one session are ways to do the same: each against the first, by the ratio within each round."""
    first, lines = rows[0], []
    for row in rows[1:]:
        found = judge_measured([(first, replace(row, id=first.id))], any_context=True)[0][first.id]
        if found.ratio is None or found.low is None or found.high is None:
            lines.append(f"{name(row.id)} against {name(first.id)}: {found.verdict}, {found.reason}")
        else:
            said = f"time {signed(found.ratio)} ({signed(found.low)} to {signed(found.high)})"
            lines.append(f"{name(row.id)} against {name(first.id)}: {said}: {found.verdict}")
    return lines


def _whole(whole: MeasuredResult, total: float | None, expected: EstimateResult | None) -> Iterator[str]:
    """The sequence as one run beside the sum of its steps and the estimate, and what it says of itself."""
    if whole.time_s:
        steps = f"; the sum of its steps: {seconds(total, True)}" if total else ""
        status = "" if whole.status == "ok" else f" ({whole.status})"
        yield f"the whole sequence as one run: {seconds(whole.time_s, True)}{status}{steps}{_expected(whole, expected)}"
    else:
        yield f"the whole sequence as one run: {whole.status}"
    yield from (f"the whole sequence: {text}" for text in whole.notes)


def _expected(whole: MeasuredResult, found: EstimateResult | None) -> str:
    if found is None or not found.time_s:
        return ""
    inside = "in" if found.low_s <= whole.time_s <= found.high_s else "outside"
    ends = f"{seconds(found.low_s, True)} to {seconds(found.high_s, True)}"
    return f"; estimated {seconds(found.time_s, True)} ({ends}, {inside} its band)"


def _amdahl(rows: list[Row], spent: dict[str, float], total: float, name: Name) -> list[str]:
    largest = max(rows, key=lambda r: spent[r.id])
    share = spent[largest.id] / total
    line = f"{name(largest.id)} takes {percent(share)} of the measured time"
    if largest.bound and largest.measured and largest.bound.time_s < largest.measured.time_s:
        reached = total - spent[largest.id] + largest.bound.time_s * largest.repeat
        line += f"; at its bound ({largest.bound.limiter}) the whole would be {times(total / reached)} as fast"
    rest = max((r for r in rows if r is not largest), key=lambda r: spent[r.id])
    return [f"{line}; next: {name(rest.id)}, {percent(spent[rest.id] / total)}."]
