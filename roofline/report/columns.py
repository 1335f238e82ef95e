"""The table of a report as columns, once, for every view: text drops columns by priority, Markdown and CSV keep all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roofline.report.model import EstimateResult, Report, Row, arithmetic
from roofline.report.sentences import percent
from roofline.units import Dimension, format_quantity


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, its cells, which way they are aligned, and how readily a narrow view drops it (0 is never)."""

    heading: str
    cells: tuple[str, ...]
    right: bool = True
    priority: int = 0


def number(value: float | None) -> str:
    """A plain number with four digits at most; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def seconds(value: float | None, ascii_: bool = False) -> str:
    """A time with its unit; a dash where there is none."""
    return "-" if value is None else format_quantity(value, Dimension.SECONDS, ascii=ascii_)


def intensity(row: Row) -> str:
    """FLOP per byte of HBM; 0 without FLOP, inf without bytes."""
    if row.bytes["hbm"] == 0:
        return "inf" if arithmetic(row.flop) else "-"
    return number(row.intensity_flop_per_byte["hbm"])


def binds(row: Row) -> str:
    """The limiter, with the resource it ties with."""
    if row.bound is None:
        return "-"
    if row.bound.limiter is None:
        return "nothing"
    return f"{row.bound.limiter}={row.bound.next}" if row.bound.tied else row.bound.limiter


def columns(report: Report, ascii_: bool = False) -> list[Column]:
    """The table of the rows and, where there are several, of the totals."""
    rows = report.rows

    def column(heading: str, cell: Callable[[Row], str], total: str = "", *, right: bool = True, priority: int = 0) -> Column:
        cells = tuple(cell(r) for r in rows) + ((total,) if len(rows) > 1 else ())
        return Column(heading, cells, right, priority)

    totals = report.totals
    found = [
        column("step", lambda r: r.id, "total", right=False),
        column("op", lambda r: r.op if r.direction == "forward" else f"{r.op} {_SHORT[r.direction]}", right=False, priority=5),
        column("kernels", lambda r: str(r.kernels * r.repeat), str(totals.kernels), priority=8),
        column("FLOP", lambda r: _flop(arithmetic(r.flop)), _flop(arithmetic(totals.flop)), priority=3),
        column(
            "HBM",
            lambda r: format_quantity(r.bytes["hbm"], Dimension.BYTES),
            format_quantity(totals.bytes["hbm"], Dimension.BYTES),
            priority=2,
        ),
        column("FLOP/B", intensity, number(totals.intensity_flop_per_byte["hbm"]), priority=1),
    ]
    if any(r.repeat > 1 for r in rows):
        found.insert(2, column("x", lambda r: str(r.repeat), priority=4))
    if report.hardware is not None:
        bound = totals.bound
        found += [
            column("ridge", lambda r: number(r.ridge_flop_per_byte["hbm"]), priority=6),
            column("binds", binds, bound.limiter or "nothing" if bound else "-", right=False),
            column("next", lambda r: (r.bound.next if r.bound else None) or "-", right=False, priority=7),
            column(
                "bound",
                lambda r: seconds(r.bound.time_s * r.repeat if r.bound else None, ascii_),
                seconds(bound.time_s if bound else None, ascii_),
            ),
            *(_estimate_columns(column, report, ascii_) if any(r.estimate for r in rows) else []),
            column("share", lambda r: "-" if r.share is None else percent(r.share), "", priority=1),
        ]
    if any(r.measured for r in rows):
        found += _measured_columns(column, ascii_)
    return found


def band(found: EstimateResult | None) -> str:
    """How far the ends of the band lie from the estimate: ``-4/+6 %``."""
    if found is None or not found.time_s:
        return "-"
    low, high = (round((end / found.time_s - 1) * 100) for end in (found.low_s, found.high_s))
    return f"-{-low}/+{high} %"


def _estimate_columns(column: Callable[..., Column], report: Report, ascii_: bool) -> list[Column]:
    total = report.totals.estimate

    def takes(row: Row) -> str:
        return seconds(row.estimate.time_s * row.repeat if row.estimate else None, ascii_)

    return [
        column("estimate", takes, seconds(total.time_s if total else None, ascii_)),
        column("band", lambda r: band(r.estimate), band(total), priority=3),
        column("limits", lambda r: limits(r.estimate), limits(total), right=False, priority=2),
    ]


def limits(found: EstimateResult | None) -> str:
    """What decides the estimate: host, fixed, memory or compute."""
    return (found.limiter if found else None) or "-"


def _measured_columns(column: Callable[..., Column], ascii_: bool) -> list[Column]:
    def of_roof(row: Row) -> str:
        limiter = row.bound.limiter if row.bound else None
        share = row.measured.share_of_peak.get(limiter) if row.measured and limiter else None
        return "-" if share is None else percent(share)

    def took(row: Row) -> str:
        if row.measured and not row.measured.time_s > 0:
            return row.measured.status
        return seconds(row.measured.time_s * row.repeat if row.measured else None, ascii_)

    return [
        column("measured", took),
        column("of roof", of_roof, priority=1),
    ]


_SHORT = {"backward": "bwd", "forward+backward": "fwd+bwd"}


def _flop(value: float) -> str:
    return format_quantity(value, Dimension.FLOP).removesuffix("FLOP").rstrip() or "0"


def fitting(found: Sequence[Column], width: int) -> tuple[list[Column], list[str]]:
    """The columns that fit the width, and the headings of those dropped: the highest priority number goes first."""
    kept = list(found)
    dropped: list[str] = []
    while _width(kept) > width and any(c.priority for c in kept):
        victim = max(kept, key=lambda c: c.priority)
        kept.remove(victim)
        dropped.append(victim.heading)
    return kept, dropped


def _width(found: Sequence[Column]) -> int:
    return sum(max(len(c.heading), *(len(cell) for cell in c.cells), 1) if c.cells else len(c.heading) for c in found) + 2 * (
        len(found) - 1
    )
