"""Collectives measured over sizes, for people: a line a size with both bandwidths, then what was fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rich.console import Console

from roofline.report.collectives import ALGORITHM, rate, sent_over, size_of
from roofline.report.columns import Column, seconds
from roofline.report.model import MeasuredResult, Report, Row, Scalar
from roofline.report.sentences import percent
from roofline.report.text import can_encode, print_columns, styled
from roofline.units import Dimension, format_quantity


def print_collectives(report: Report, console: Console) -> None:
    """A line a size with both bandwidths, then what was fitted to them."""
    ascii_ = not can_encode(console)
    console.print(styled(f"{report.workload}, {report.environment.get('device', '?')}, {report.environment.get('library', '?')}", "bold"))
    print_columns(sweep_columns(report, ascii_), console)
    for text in (*_notes(report), *fitted(report)):
        console.print(styled(text))


def sweep_columns(report: Report, ascii_: bool = False) -> list[Column]:
    """The table of a sweep."""
    rows = report.rows

    def cells(cell: Callable[[Row, MeasuredResult], str]) -> tuple[str, ...]:
        return tuple(cell(r, r.measured) if r.measured and r.measured.time_s else "-" for r in rows)

    return [
        Column("collective", tuple(r.op for r in rows), right=False),
        Column("size", tuple(format_quantity(size_of(r), Dimension.BYTES, binary=True) for r in rows)),
        Column("bound", tuple(seconds(r.bound.time_s if r.bound else None, ascii_) for r in rows), priority=3),
        Column("time", cells(lambda r, m: seconds(m.time_s, ascii_))),
        Column("95 %", cells(_interval), priority=2),
        Column("algorithm", cells(lambda r, m: rate(m.achieved_per_s[ALGORITHM]))),
        Column("bus", cells(lambda r, m: next((rate(m.achieved_per_s[link]) for link, _ in sent_over(r)), "-"))),
        Column("of link", cells(_of_link)),
        Column("launch", cells(lambda r, m: str(m.conditions.get("launch", "-"))), right=False, priority=5),
        Column("wrong", tuple(f"{r.measured.check.error:.2g}" if r.measured and r.measured.check else "-" for r in rows), priority=4),
        Column("status", tuple(r.measured.status if r.measured else "not run" for r in rows), right=False),
    ]


def _interval(row: Row, m: MeasuredResult) -> str:
    return f"+-{(m.interval_s[1] - m.interval_s[0]) / 2 / m.time_s * 100:.1f} %" if m.interval_s else "-"


def _of_link(row: Row, m: MeasuredResult) -> str:
    shares = [m.share_of_peak.get(link) for link, _ in sent_over(row)]
    return percent(shares[0]) if shares and shares[0] is not None else "-"


def _notes(report: Report) -> Iterator[str]:
    """What was said of rows, once each."""
    found: dict[str, list[str]] = {}
    for row in report.rows:
        for text in row.measured.notes if row.measured else ():
            found.setdefault(text, []).append(row.id)
    for text, ids in found.items():
        yield f"{ids[0]}{f' and {len(ids) - 1} more' if len(ids) > 1 else ''}: {text}"


def fitted(report: Report) -> list[str]:
    """Latency and bandwidth of each collective and regime, which the report of a sweep has among the conditions of its total."""
    said: dict[tuple[str, str], dict[str, Scalar]] = {}
    for key, value in (report.totals.measured.conditions if report.totals.measured else {}).items():
        name, _, rest = key.partition(".")
        number, _, what = rest.partition(".")
        said.setdefault((name, number), {})[what] = value
    return [_fit_line(name, values) for (name, _), values in said.items() if "alpha_s" in values]


def _fit_line(name: str, values: Mapping[str, Scalar]) -> str:
    begin, end, alpha, bandwidth, worst, half = (
        _number(values.get(key)) for key in ("from_bytes", "to_bytes", "alpha_s", "bytes_per_s", "worst", "half_bytes")
    )
    grows = f" + sent / {rate(bandwidth)}, half of it from {_bytes(half)}" if bandwidth else ", whatever the size"
    return f"{name}, {_bytes(begin)} to {_bytes(end)} sent by each rank: {seconds(alpha, True)}{grows} (worst error {percent(worst)})"


def _number(value: Scalar) -> float:
    return value if isinstance(value, (int, float)) else 0.0


def _bytes(value: float) -> str:
    return format_quantity(value, Dimension.BYTES, binary=True)
