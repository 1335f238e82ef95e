"""Counters as a table, as sentences and as CSV; nothing here computes more than a sum to show."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from roofline.report.columns import Column, number, seconds
from roofline.report.counters import LEVELS, CounterReport, CounterRow, Point
from roofline.report.csv_view import cell
from roofline.report.sentences import percent, size
from roofline.units import Dimension, format_quantity

SHOWN_KERNEL = 48
"""Characters of a name in the table; JSON and CSV have all of it."""


def _flop(row: CounterRow) -> str:
    value = row.flop["tensor"] or row.flop["vector"]
    return "-" if value is None else format_quantity(value, Dimension.FLOP).removesuffix("FLOP").rstrip()


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}x"


def _limits(row: CounterRow) -> str:
    if row.busiest is None or row.busiest_share is None:
        return "-"
    if row.limiter == row.busiest:
        return f"{row.limiter} ({percent(row.busiest_share)})"
    return f"{row.limiter or '?'} ({row.busiest} {percent(row.busiest_share)})"


def _name(row: CounterRow) -> str:
    return row.id if len(row.id) <= SHOWN_KERNEL else f"{row.id[: SHOWN_KERNEL - 1]}~"


def first_line(report: CounterReport) -> str:
    """What was profiled, and what takes most of it."""
    what = {"step": ("row", "rows"), "range": ("NVTX range", "NVTX ranges"), "kernel": ("kernel", "kernels"), "launch": ("row", "rows")}
    one, many = what[report.by]
    launches = f"{report.launches} {'launch' if report.launches == 1 else 'launches'}"
    head = f"{launches} in {len(report.rows)} {one if len(report.rows) == 1 else many}"
    timed = [r for r in report.rows if r.time_s is not None]
    if report.time_s is None or not timed:
        return f"{head}; their time was not collected."
    first = max(timed, key=lambda r: r.time_s or 0.0)
    limits = f", limited by {_limits(first)}" if first.limiter else ""
    return f"{head} took {seconds(report.time_s)}; the largest is {_name(first)} with {percent(first.share or 0.0)}{limits}."


def counter_columns(report: CounterReport, ascii_: bool = False) -> list[Column]:
    """The table, in the order of the file; columns without any value are left out."""
    rows = report.rows

    def column(heading: str, show: Callable[[CounterRow], str], *, right: bool = True, priority: int = 0) -> Column:
        return Column(heading, tuple(show(r) for r in rows), right, priority)

    def point(show: Callable[[Point], float | None], level: str = "hbm") -> Callable[[CounterRow], float | None]:
        return lambda r: show(found) if (found := r.points[level]) else None

    def share(value: float | None) -> str:
        return "-" if value is None else percent(value)

    intensity, of_roof = point(lambda p: p.intensity_flop_per_byte), point(lambda p: p.share_of_roof)
    width = point(lambda p: p.share_of_bandwidth)
    found = [
        column(report.by, _name, right=False),
        column("launches", lambda r: str(r.launches), priority=7),
        column("time", lambda r: seconds(r.time_s, ascii_)),
        column("share", lambda r: share(r.share), priority=6),
        column("HBM read", lambda r: size(r.bytes["hbm_read"]), priority=4),
        column("HBM written", lambda r: size(r.bytes["hbm_write"]), priority=4),
        column("HBM", lambda r: size(r.bytes["hbm"]), priority=1),
        column("L2", lambda r: size(r.bytes["l2"]), priority=3),
        column("FLOP", _flop, priority=2),
        column("FLOP/B", lambda r: number(intensity(r)), priority=2),
        column("of bandwidth", lambda r: share(width(r)), priority=3),
        column("of roof", lambda r: share(of_roof(r)), priority=3),
        column("limits", _limits, right=False),
        column("counted HBM", lambda r: size(r.counted.hbm_bytes if r.counted else None), priority=3),
        column("amplification", lambda r: _times(r.amplification["hbm"])),
        column("likely cause", lambda r: ", ".join(dict.fromkeys(c.name for c in r.causes)) or "-", right=False, priority=1),
    ]
    return [c for c in found if any(text != "-" for text in c.cells)]


def counter_lines(report: CounterReport) -> list[str]:
    """Evidence of each cause, and what would tell more."""
    lines = [f"{_name(r)}: {c.name}: {c.evidence}." for r in report.rows for c in r.causes]
    if report.hardware is None:
        fits = f"; {', '.join(report.candidates)} fit this device" if report.candidates else ""
        lines.append(f"No profile: shares of bandwidth and of roofs are not given{fits} (-H NAME).")
    return lines


def missing_lines(report: CounterReport) -> list[str]:
    """What was not collected, once for all rows that share it."""
    reasons: dict[str, list[str]] = {}
    for row in report.rows:
        for key, why in row.unavailable.items():
            reasons.setdefault(f"{key}: {why}", []).append(row.id)
    every = len(report.rows)
    return [f"{text}{'' if len(ids) == every else f' ({len(ids)} of {every} rows)'}." for text, ids in reasons.items()]


def _flat(row: CounterRow) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": row.id,
        "kernels": " ".join(row.kernels),
        "launches": row.launches,
        "time_s": row.time_s,
        "share": row.share,
    }
    found |= {f"{level}_bytes": value for level, value in row.bytes.items()}
    found |= {f"{engine}_flop": value for engine, value in row.flop.items()}
    for level in LEVELS:
        p = row.points[level]
        found[f"{level}_intensity_flop_per_byte"] = p.intensity_flop_per_byte if p else None
        found[f"{level}_bytes_per_s"] = p.bytes_per_s if p else None
        found[f"{level}_share_of_roof"] = p.share_of_roof if p else None
        found[f"{level}_share_of_bandwidth"] = p.share_of_bandwidth if p else None
    found |= {"limiter": row.limiter, "busiest": row.busiest, "busiest_share": row.busiest_share, "limiter_source": row.limiter_source}
    c = row.counted
    found |= {
        "step": c.step if c else None,
        "counted_hbm_read_bytes": c.hbm_read_bytes if c else None,
        "counted_hbm_write_bytes": c.hbm_write_bytes if c else None,
        "counted_hbm_bytes": c.hbm_bytes if c else None,
        "counted_cached_hbm_bytes": c.cached_hbm_bytes if c else None,
        "counted_l2_bytes": c.l2_bytes if c else None,
        "counted_tensor_flop": c.flop["tensor"] if c else None,
    }
    found |= {f"{name}_amplification": value for name, value in row.amplification.items()}
    return {**found, "causes": "; ".join(c.name for c in row.causes)}


def counters_csv(report: CounterReport) -> str:
    """A heading and a line for each row, in SI units with full precision."""
    stream = io.StringIO()
    rows = [_flat(row) for row in report.rows]
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: cell(value) for key, value in row.items()})
    return stream.getvalue()
