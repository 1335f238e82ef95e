"""Measured times carried over a change: each step's by the predicted ratio of what takes its place, the rest as it was."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from roofline.report.model import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The time of a whole, and of each step with all its repetitions as far as it lies on the path that decides.

    ``host_s`` is the part in which the device waited for the host, which launched ``launches`` kernels. What is in no step stays
    as it is.
    """

    whole_s: float
    steps_s: Mapping[str, float]
    host_s: float | None = None
    launches: int = 0

    @property
    def covered(self) -> float:
        """The share of the whole that lies in steps."""
        return min(1.0, sum(self.steps_s.values()) / self.whole_s)


def predicted_s(report: Report, kind: str, step: str) -> float | None:
    """All repetitions of a step, by that kind of time; None where there is none."""
    row = report.row(step)
    found = row and (row.estimate if kind == "estimate" else row.bound)
    return found.time_s * row.repeat if row and found else None


def summed(report: Report, kind: str, steps: Collection[str]) -> float | None:
    """`predicted_s` of some steps together; None where one is missing."""
    times = [predicted_s(report, kind, s) for s in steps]
    return None if any(t is None for t in times) else sum(t for t in times if t is not None)


def carried(found: Measured, before: Report, after: Report, kind: str, old: Collection[str], new: Collection[str]) -> Measured | None:
    """The measured times after some steps were replaced by others; None where a prediction is missing.

    The new steps together take the time of the old ones times the predicted ratio, each its predicted share of that.
    """
    measured_old = sum(found.steps_s.get(s, 0.0) for s in old)
    known_old = [s for s in old if s in found.steps_s]
    then, now = summed(before, kind, known_old), summed(after, kind, new)
    if then is None or now is None or (not then and now):
        return None
    factor = measured_old / then if then else 0.0
    steps = {s: t for s, t in found.steps_s.items() if s not in old}
    for s in new:
        steps[s] = (predicted_s(after, kind, s) or 0.0) * factor
    return replace(found, whole_s=found.whole_s - measured_old + now * factor, steps_s=steps)


def relaunched(found: Measured, before: Report, after: Report) -> Measured | None:
    """The measured times under another execution: kernels by the ratio of their estimated device times.

    Where a trace says how long the device waited for the host, that goes, but no more of it than launching so many kernels is
    estimated to cost: a host that does other things does them all the same. Without a trace the ratio of the whole estimates holds.
    """
    if found.host_s is None:
        return scaled(found, before, after, "estimate")
    whole = before.totals.estimate
    steps: dict[str, float] = {}
    for s, t in found.steps_s.items():
        old, new = before.row(s), after.row(s)
        if not (old and new and old.estimate and new.estimate and old.estimate.device_s):
            return None
        steps[s] = t * new.estimate.device_s / old.estimate.device_s
    if whole is None or not whole.kernels:
        return None
    waits = min(found.host_s, found.launches * whole.host_s / whole.kernels)
    gone = sum(found.steps_s.values()) - sum(steps.values()) + waits
    return replace(found, whole_s=found.whole_s - gone, steps_s=steps, host_s=found.host_s - waits)


def scaled(found: Measured, before: Report, after: Report, kind: str) -> Measured | None:
    """The measured whole times the ratio of the predicted wholes, each step times that of its own: another device or execution."""
    then, now = whole_s(before, kind), whole_s(after, kind)
    if not then or now is None:
        return None
    steps: dict[str, float] = {}
    for s, t in found.steps_s.items():
        old, new = predicted_s(before, kind, s), predicted_s(after, kind, s)
        if old and new is not None:
            steps[s] = t * new / old
    return replace(found, whole_s=found.whole_s * now / then, steps_s=steps)


def whole_s(report: Report, kind: str) -> float | None:
    """The time of the whole by that kind."""
    found = report.totals.estimate if kind == "estimate" else report.totals.bound
    return found.time_s if found else None
