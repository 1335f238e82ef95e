"""Reports as CSV: one line a row, SI units in the headings, full precision."""

from __future__ import annotations

import csv
import io
from typing import Any

from roofline.errors import visible
from roofline.report.model import Report, Row
from roofline.report.shape import encode

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula gets a quote before it.

    >>> cell("=1+1")
    "'=1+1"
    """
    if isinstance(value, str):
        shown = visible(value)
        return f"'{shown}" if shown.startswith(FORMULA_STARTS) else shown
    return "" if value is None else encode(value)


def _flat(report: Report, row: Row) -> dict[str, Any]:
    bound, measured, estimate = row.bound, row.measured, row.estimate
    return {
        "workload": report.workload,
        "hardware": report.hardware["name"] if report.hardware else None,
        "id": row.id,
        "op": row.op,
        "direction": row.direction,
        "dtype": row.dtype,
        "repeat": row.repeat,
        "kernels": row.kernels,
        **{f"{engine}_flop": n for engine, n in row.flop.items()},
        "useful_flop": row.useful_flop,
        **{f"{level}_bytes": n for level, n in row.bytes.items()},
        **{f"{level}_intensity_flop_per_byte": x for level, x in row.intensity_flop_per_byte.items()},
        **{f"{level}_ridge_flop_per_byte": x for level, x in row.ridge_flop_per_byte.items()},
        "limiter": bound.limiter if bound else None,
        "next": bound.next if bound else None,
        "bound_time_s": bound.time_s if bound else None,
        "no_overlap_time_s": bound.no_overlap_s if bound else None,
        "estimate_time_s": estimate.time_s if estimate else None,
        "estimate_low_s": estimate.low_s if estimate else None,
        "estimate_high_s": estimate.high_s if estimate else None,
        "estimate_limiter": estimate.limiter if estimate else None,
        "launched_kernels": estimate.kernels if estimate else None,
        "share": row.share,
        "measured_time_s": measured.time_s if measured else None,
        "measured_low_s": measured.interval_s[0] if measured and measured.interval_s else None,
        "measured_high_s": measured.interval_s[1] if measured and measured.interval_s else None,
        "measured_status": measured.status if measured else None,
        "parameters": row.parameters,
        "weight_bytes": row.weight_bytes,
        "cache_bytes": row.cache_bytes,
    }


def to_csv(*reports: Report) -> str:
    """A heading and a line for each row of each report; figures are those of one execution."""
    stream = io.StringIO()
    rows = [_flat(report, row) for report in reports for row in report.rows]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(stream, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: cell(v) for k, v in row.items()})
    return stream.getvalue()
