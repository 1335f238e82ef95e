"""JSON for github-action-benchmark, tool ``customSmallerIsBetter``: a list of ``name``, ``unit``, ``value``, ``range``, ``extra``.

Format: the section on custom benchmarks of that action's README. All values are seconds, of which less is better.
"""

from __future__ import annotations

from typing import Any

from roofline.report.formats.series import Point, device, points
from roofline.report.model import Report


def entries(report: Report) -> list[dict[str, Any]]:
    """One entry a time; its name holds the workload, the device, the step and the kind, by which the action keeps its history."""
    where = f"{report.workload} on {device(report)}" if device(report) else report.workload
    return [_entry(point, where) for point in points(report)]


def _entry(point: Point, where: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": f"{where} / {point.subject} / {point.kind}", "unit": "s", "value": point.time_s}
    if point.low_s is not None and point.high_s is not None:
        found["range"] = f"{point.low_s:.6g} to {point.high_s:.6g}"
    return found
