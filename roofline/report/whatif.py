"""What a change to a workload is worth: the workload before and after, on the same schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofline.errors import UsageError, did_you_mean
from roofline.hardware.profile import Hardware
from roofline.predict.amdahl import check_speedup
from roofline.predict.compose import Schedule, schedule
from roofline.report.columns import seconds
from roofline.report.counted import Counted, count
from roofline.report.sentences import percent, resource
from roofline.spec.hardware import load_hardware
from roofline.spec.workload import load_workload
from roofline.workload.workload import Workload

OVERLAP = "steps overlap across lanes where 'after' allows it; the schedule decides, not a sum"
IN_ORDER = "steps run one after the other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedStep:
    """A step whose time changes; ``local_speedup`` is None where the step now takes no time."""

    id: str
    before_s: float
    after_s: float
    share_before: float
    share_after: float
    local_speedup: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The whole before and after, the steps that change, and what binds then. Speedups without limit are None."""

    workload: str
    hardware: str
    change: str
    before_s: float
    after_s: float
    speedup: float | None
    limit: float | None
    steps: tuple[ChangedStep, ...]
    limiter_before: str | None
    limiter_after: str | None
    largest_step_after: str | None
    largest_share_after: float
    assumes: str

    def _repr_html_(self) -> str:
        """In a notebook."""
        from roofline.report.notebook import change_html

        return change_html(self)


def _load(name: str, device: str | None, overrides: Sequence[str]) -> tuple[Workload, Hardware]:
    workload = load_workload(name, overrides)
    chosen = device or workload.hardware
    if chosen is None:
        raise UsageError("no hardware profile was named; add -H NAME")
    return workload, load_hardware(chosen)


def faster_steps(name: str, device: str | None, overrides: Sequence[str], speedups: Mapping[str, float]) -> Change:
    """The workload with some steps made faster.

    Raises:
        UsageError: a step that does not exist, or a speedup that is not above 0.
    """
    workload, hardware = _load(name, device, overrides)
    for speedup in speedups.values():
        check_speedup(speedup)
    counted = [count(s, hardware, workload.traffic) for s in workload.steps]
    ids = [c.step.id for c in counted]
    for step in speedups:
        if step not in ids:
            raise UsageError(f"no step is called '{step}'; {did_you_mean(step, ids)}")
    before = {c.step.id: c.time_s for c in counted}
    after = {i: t / speedups.get(i, 1.0) for i, t in before.items()}
    said = ", ".join(f"{i} {'free' if math.isinf(s) else f'{s:g}x faster'}" for i, s in speedups.items())
    return _change(workload, hardware, said, counted, counted, before, after)


def swapped(name: str, device: str | None, overrides: Sequence[str], swaps: Sequence[str]) -> Change:
    """The workload with some fields or params changed; local speedups come from the accountant.

    Raises:
        UsageError: a swap that names nothing, or that changes the number of steps.
    """
    workload, hardware = _load(name, device, overrides)
    other = load_workload(name, [*overrides, *swaps])
    old = [count(s, hardware, workload.traffic) for s in workload.steps]
    new = [count(s, hardware, other.traffic) for s in other.steps]
    before = {c.step.id: c.time_s for c in old}
    after = {c.step.id: c.time_s for c in new}
    return _change(workload, hardware, ", ".join(swaps), old, new, before, after)


def _change(
    workload: Workload,
    hardware: Hardware,
    said: str,
    old: Sequence[Counted],
    new: Sequence[Counted],
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> Change:
    then = schedule([c.task(before[c.step.id]) for c in old])
    now = schedule([c.task(after[c.step.id]) for c in new])
    changed = [i for i in before if not math.isclose(before[i], after[i], rel_tol=1e-12)]
    free = schedule([c.task(0.0 if c.step.id in changed else before[c.step.id]) for c in old])
    largest = max(now.critical, key=lambda i: after[i], default=None)
    return Change(
        workload=workload.name,
        hardware=hardware.name,
        change=said,
        before_s=then.time_s,
        after_s=now.time_s,
        speedup=then.time_s / now.time_s if now.time_s else None,
        limit=then.time_s / free.time_s if free.time_s else None,
        steps=tuple(_step(i, before, after, then, now) for i in changed),
        limiter_before=_limiter(old, before, then),
        limiter_after=_limiter(new, after, now),
        largest_step_after=largest if now.time_s else None,
        largest_share_after=after[largest] / now.time_s if largest and now.time_s else 0.0,
        assumes=OVERLAP if then.overlapped else IN_ORDER,
    )


def _step(i: str, before: Mapping[str, float], after: Mapping[str, float], then: Schedule, now: Schedule) -> ChangedStep:
    return ChangedStep(
        id=i,
        before_s=before[i],
        after_s=after[i],
        share_before=before[i] / then.time_s if then.time_s else 0.0,
        share_after=after[i] / now.time_s if now.time_s else 0.0,
        local_speedup=before[i] / after[i] if after[i] else None,
    )


def _limiter(counted: Sequence[Counted], times: Mapping[str, float], whole: Schedule) -> str | None:
    found: dict[str, float] = {}
    for c in counted:
        if c.bound and c.bound.limiter and c.step.id in whole.critical:
            found[c.bound.limiter] = found.get(c.bound.limiter, 0.0) + times[c.step.id]
    used = {name: t for name, t in found.items() if t > 0}
    return max(used, key=lambda name: used[name], default=None)


def change_lines(change: Change) -> list[str]:
    """The change in plain sentences."""
    speedup = "without limit" if change.speedup is None else f"{change.speedup:.4g}x"
    limit = "without limit" if change.limit is None else f"{change.limit:.4g}x"
    lines = [f"{change.workload} on {change.hardware}: {change.change}"]
    for s in change.steps:
        local = "free" if s.local_speedup is None else f"{s.local_speedup:.4g}x"
        lines.append(
            f"{s.id}: {seconds(s.before_s, True)} -> {seconds(s.after_s, True)} ({local}); "
            f"share {percent(s.share_before)} -> {percent(s.share_after)}"
        )
    if not change.steps:
        lines.append("no step changes its time")
    lines.append(f"end to end {speedup}: {seconds(change.before_s, True)} -> {seconds(change.after_s, True)} (limit {limit})")
    moved = "" if change.limiter_before == change.limiter_after else f" (was {resource(change.limiter_before)})"
    if change.largest_step_after:
        lines.append(
            f"Now {resource(change.limiter_after)} binds most of the time{moved}; "
            f"next: {change.largest_step_after}, {percent(change.largest_share_after)} of the new time."
        )
    lines.append(f"(assumes: {change.assumes}; times are bounds)")
    return lines
