"""Bencher Metric Format: ``{benchmark: {measure: {value, lower_value, upper_value}}}``, for ``bencher run --adapter json``.

The measures are ``bound_time_s``, ``estimate_time_s`` and ``measured_time_s`` in seconds, all repetitions of a step.
"""

from __future__ import annotations

from typing import Any

from roofline.report.formats.series import device, points
from roofline.report.model import Report


def metrics(report: Report) -> dict[str, dict[str, dict[str, float]]]:
    """Benchmarks named ``workload on device / step``; a time without ends has ``value`` alone."""
    where = f"{report.workload} on {device(report)}" if device(report) else report.workload
    found: dict[str, dict[str, Any]] = {}
    for point in points(report):
        metric = {"value": point.time_s}
        if point.low_s is not None and point.high_s is not None:
            metric |= {"lower_value": point.low_s, "upper_value": point.high_s}
        found.setdefault(f"{where} / {point.subject}", {})[f"{point.kind}_time_s"] = metric
    return found
