"""Memory that a workload needs, with what training keeps for the backward pass.

Whether it fits is what its report says (`roofline.report.resident`): of a training step rows can say that it does not, and never that it
does. To choose between changes they still say enough: all that forward passes keep is more than the device has, or not.
"""

from __future__ import annotations

from roofline.report.model import Report
from roofline.report.sentences import size


def needed_bytes(report: Report) -> float:
    """Weights, caches and the activations of the largest step, and all that the forward pass keeps for the backward one.

    Gradients and optimizer states count as far as a step of the workload names them; a tensor that two steps keep counts twice.
    """
    return report.totals.memory.needed_bytes + sum(r.saved_bytes * r.repeat for r in report.rows)


def crowded(report: Report) -> bool:
    """Whether that is more than the device's memory, as far as its size is known: then nothing more is put there."""
    available = report.totals.memory.available_bytes
    return available is not None and needed_bytes(report) > available


def unknown_fit(report: Report) -> dict[str, str]:
    """Why it cannot be said that it fits, under ``fits``; nothing where it can."""
    if report.totals.memory.fits is not None:
        return {}
    why, available = report.totals.unavailable.get("fits", "the size of the memory is not known"), report.totals.memory.available_bytes
    if available is None or not crowded(report):
        return {"fits": why}
    return {"fits": f"{why}; what its rows name and keep is {size(needed_bytes(report))}, and there are {size(available)}"}
