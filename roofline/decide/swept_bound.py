"""Work and bound of a workload whose dimensions are arrays: what `analyze` says of one point, of all points at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.decide.swept_schedule import SweptTask, critical_path
from roofline.hardware.profile import Figure, Hardware
from roofline.numeric import Number, maximum, total
from roofline.ops.base import Op, Work, work_of
from roofline.predict.bound import handicap, machine_of, resource_times, resource_work, traffic_of
from roofline.report.resident import Resident, resident
from roofline.workload.workload import Step, Workload

NOTHING = -1
"""Number of the limiter where no resource needs any time."""


@dataclass(frozen=True, slots=True)
class SweptStep:
    """A step at every point: its work, its bound once, and the number of its limiter among the resources."""

    step: Step
    ops: tuple[Op, ...]
    work: Work
    time_s: Number
    limiter: Any
    flop: Mapping[str, Number]
    hbm_bytes: Number


@dataclass(frozen=True, slots=True)
class SweptBound:
    """The whole at every point. ``limiter`` numbers the ``resources``; ``intensity`` is FLOP per byte of HBM."""

    steps: tuple[SweptStep, ...]
    resources: tuple[str, ...]
    time_s: Number
    limiter: Any
    intensity: Number
    memory: Resident


def bounds(steps: Sequence[Step], workload: Workload, hardware: Hardware) -> SweptBound:
    """The bound of every step and of the whole.

    Raises:
        UsageError: the device lacks a dtype or a link that a step needs.
    """
    resources: list[str] = []
    found = tuple(_step(step, hardware, workload.traffic, resources) for step in steps)
    tasks = [SweptTask(s.step.id, s.time_s * s.step.repeat, s.ops[0].lane, s.step.after) for s in found]
    time, on_path = critical_path(tasks)
    by_limiter: list[Number] = [0.0] * len(resources)
    for s, task in zip(found, tasks, strict=True):
        for number in np.unique(s.limiter):
            if number != NOTHING:
                by_limiter[number] = by_limiter[number] + np.where(on_path[task.id] & (s.limiter == number), task.time_s, 0.0)
    return SweptBound(found, tuple(resources), time, _largest(by_limiter), _intensity(found), resident((s.step, s.ops) for s in found))


def _step(step: Step, hardware: Hardware, traffic: str, resources: list[str]) -> SweptStep:
    ops = step.ops()
    machine = machine_of(hardware)
    work = _sum([work_of(op, machine) for op in ops])
    placed = resource_work(work, hardware, traffic)
    times, _ = resource_times(placed)
    resources += [name for name in times if name not in resources]
    longest: Number = 0.0
    best: Any = 0.0
    limiter: Any = NOTHING
    for name, time in times.items():
        longest = maximum(longest, time)
        weighed = time * handicap(name)
        limiter = np.where(weighed > best, resources.index(name), limiter)
        best = maximum(best, weighed)
    flop = {engine: placed[engine][0] for engine in ("tensor", "vector")}
    return SweptStep(step, ops, work, longest, limiter, flop, traffic_of(work, traffic).hbm)


def _sum(works: Sequence[Work]) -> Work:
    found = works[0]
    for more in works[1:]:
        found = found + more
    return found


def _largest(by_limiter: Sequence[Number]) -> Any:
    """The number of the resource with most of the time, the first of equals."""
    best: Any = 0.0
    limiter: Any = NOTHING
    for number, time in enumerate(by_limiter):
        limiter = np.where(time > best, number, limiter)
        best = maximum(best, time)
    return limiter


def _intensity(steps: Sequence[SweptStep]) -> Number:
    """FLOP of the engine that counts over bytes of HBM, as in a report; not a number where no bytes move."""
    tensor, vector = (total(s.flop[e] * s.step.repeat for s in steps) for e in ("tensor", "vector"))
    moved = total(s.hbm_bytes * s.step.repeat for s in steps)
    flop: Any = np.where(np.asarray(tensor) > 0, tensor, vector)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Number = np.where(np.asarray(moved) > 0, flop / np.asarray(moved, dtype=np.float64), np.nan)
    return found


def memory_size(hardware: Hardware) -> float | None:
    """Bytes of the device's memory, None where the profile does not say."""
    size = hardware.levels["hbm"].size
    return size.value if isinstance(size, Figure) else None
