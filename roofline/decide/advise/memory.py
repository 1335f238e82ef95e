"""Memory that a workload needs, with what training keeps for the backward pass."""

from __future__ import annotations

from roofline.report.model import Report


def needed_bytes(report: Report) -> float:
    """Weights, caches and the activations of the largest step, and all that the forward pass keeps for the backward one.

    Gradients and optimizer states count as far as a step of the workload names them.
    """
    return report.totals.memory.needed_bytes + sum(r.saved_bytes * r.repeat for r in report.rows)


def fits(report: Report) -> bool | None:
    """Whether that is within the device's memory; None where the device states no size."""
    available = report.totals.memory.available_bytes
    return None if available is None else needed_bytes(report) <= available
