"""All plans of a job on so many devices: which obey the rules and fit, which is best, and why it beats the next.

Every plan goes through the same formulas as a single one, as float64 arrays: a grid of degrees for each combination of words. What a
word does not change is worked out once for the grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from roofline.decide.compose import Parts, Pipeline
from roofline.decide.costs import Coster, EstimateCoster
from roofline.decide.evaluate import Evaluator, Subject
from roofline.decide.layers import Memo
from roofline.decide.pareto import front
from roofline.decide.rows import taken
from roofline.decide.space import Array, Space, Words, grid, interleaved, obeys, one, plan_of, pointless
from roofline.errors import UsageError
from roofline.hardware.profile import si
from roofline.models.memory import Work, needed_bytes, work_of
from roofline.models.memory_saved import Kept
from roofline.models.shape import shape_of
from roofline.numeric import Number
from roofline.plan.plan import Plan
from roofline.predict.estimate.estimator import NoParameters
from roofline.spec.vectorised import LANGUAGE

OBJECTIVES = ("time", "cost", "memory")
NO_ROOM = "does not fit the device's memory"
NO_TIME = "no parameters are fitted of exchanges over a link that it needs"
SAME = "the same plan in other words"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plan that obeys the rules and fits: seconds of a step and their parts, bytes of a device and theirs, devices."""

    plan: Plan
    devices: int
    step_s: float
    parts_s: Mapping[str, float]
    memory_bytes: float

    @property
    def device_s(self) -> float:
        """Seconds of all devices for one step: what it costs, at one price a device."""
        return self.step_s * self.devices


@dataclass(slots=True)
class Counted:
    """How many plans were looked at, and why others are not among them: by the first rule that they break."""

    looked_at: int = 0
    feasible: int = 0
    infeasible: dict[str, int] = field(default_factory=dict)

    def lose(self, reason: str, count: int) -> None:
        """Count plans that are out."""
        if count:
            self.infeasible[reason] = self.infeasible.get(reason, 0) + count


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found: the best plans in order, those that no other beats in both time and memory, and the counts."""

    best: tuple[Candidate, ...]
    pareto: tuple[Candidate, ...]
    counted: Counted


@dataclass(slots=True)
class _Batch:
    """Plans of one combination of words that obey the rules and fit: columns of numbers."""

    plan: Plan
    devices: int
    step_s: Array
    memory: Array
    parts: dict[str, Array]

    def keys(self, objective: str) -> tuple[Array, Array]:
        """What is to be least, and what decides between equals."""
        device_s = self.step_s * self.devices
        return {"time": (self.step_s, self.memory), "cost": (device_s, self.memory), "memory": (self.memory, self.step_s)}[objective]

    def front_keys(self, objective: str) -> tuple[Array, Array]:
        """What the front is of: time, or time of all devices, and memory."""
        return self.keys("cost" if objective == "cost" else "time")

    def leading(self, objective: str, top: int) -> _Batch:
        """Those that can be among the best or on the front: what is kept of a combination."""
        first, second = self.keys(objective)
        rows = {*_distinct(np.lexsort((second, first)), first, top), *front(*self.front_keys(objective))}
        return taken(self, np.array(sorted(rows)))

    def candidate(self, at: int, layers: int) -> Candidate:
        """One of them, of a model with so many layers."""
        return Candidate(
            plan=one(self.plan, at, layers),
            devices=self.devices,
            step_s=float(self.step_s[at]),
            parts_s={name: float(values[at]) for name, values in self.parts.items()},
            memory_bytes=float(self.memory[at]),
        )


def search(
    subject: Subject,
    devices: tuple[int, ...],
    coster: Coster,
    space: Space,
    *,
    objective: str = "time",
    top: int = 10,
    reserve: float = 0.0,
) -> Found:
    """The best plans on each number of devices.

    Raises:
        UsageError: an unknown objective, or a device whose memory nobody states.
        NoParameters: an estimate for which nothing is known of a kernel, or of a link that all plans need.
    """
    if objective not in OBJECTIVES:
        raise UsageError(f"unknown objective '{objective}'; known: {', '.join(OBJECTIVES)}")
    available = si(subject.cluster.device.levels["hbm"].size)
    if available is None:
        raise UsageError(f"{subject.cluster.device.name} states no size of its memory, so that no plan can be said to fit")
    counted = Counted()
    looks = (_Looks(subject, coster, n, space, available - reserve, counted) for n in devices)
    with np.errstate(invalid="ignore"):  # of times that are infinite, which are left out
        kept = [batch.leading(objective, top) for look in looks for batch in look.batches() if len(batch.step_s)]
    if not kept:
        _refuse_unknown(coster, counted)
        return Found(best=(), pareto=(), counted=counted)
    places = [(batch, at) for batch in kept for at in range(len(batch.step_s))]
    first, second = (np.concatenate(columns) for columns in zip(*(b.keys(objective) for b in kept), strict=True))
    ends = front(*(np.concatenate(columns) for columns in zip(*(b.front_keys(objective) for b in kept), strict=True)))
    layers = len(subject.model.layers)

    def candidate(i: int) -> Candidate:
        batch, at = places[i]
        return batch.candidate(at, layers)

    return Found(
        best=tuple(candidate(i) for i in _distinct(np.lexsort((second, first)), first, top)),
        pareto=tuple(candidate(i) for i in ends),
        counted=counted,
    )


def _refuse_unknown(coster: Coster, counted: Counted) -> None:
    """Where no plan has a time, what is not known is the answer.

    Raises:
        NoParameters: plans that fit all use links of which nothing is known.
    """
    if isinstance(coster, EstimateCoster) and counted.infeasible.get(NO_TIME):
        raise NoParameters("; ".join(coster.unknown.values()))


def _distinct(order: Any, first: Array, top: int) -> list[int]:
    """Of plans with the same figure the first, which needs least of the other."""
    found: list[int] = []
    last = None
    for i in order:
        if first[i] != last:
            found.append(int(i))
            last = first[i]
        if len(found) == top:
            break
    return found


# --------------------------------------------------------------------------- one number of devices
@dataclass(frozen=True, slots=True)
class _Rows:
    """Plans of the grid under a schedule: degrees, which rows of the grid they are (None for all, in order), and which obey the rules."""

    columns: dict[str, Array]
    rows: Any
    obey: Any
    broken: dict[str, int]


class _Looks:
    """All plans on so many devices, combination by combination of words; what a word does not change is worked out once."""

    def __init__(self, subject: Subject, coster: Coster, devices: int, space: Space, room: float, counted: Counted) -> None:
        self.subject, self.devices, self.space, self.room, self.counted = subject, devices, space, room, counted
        self.shape = shape_of(subject.model)
        self.evaluator = Evaluator(subject, coster)
        self.kept = Kept(attention=subject.attention)
        self.memo: Memo = {}
        self.degrees = grid(devices, subject.job, self.shape, space)

    def batches(self) -> Iterator[_Batch]:
        """The feasible plans of each combination."""
        ruled = {key: self._ruled(*key) for key in product(self.space.sequence_parallel, self.space.context_kind)}
        self._narrow(list(ruled.values()))
        for (parallel, context), schedules in ruled.items():
            words = Words(parallel, context, self.space.zero[0], self.space.recompute[0], self.space.order[0], self.space.schedule[0])
            if any(found.obey.any() for found in schedules.values()):
                yield from self._looked(words, schedules)
            else:
                self._count_broken(schedules)

    def _ruled(self, parallel: bool, context: str) -> dict[str, _Rows]:
        """By schedule, which plans obey the rules; these know neither ZeRO nor recomputation nor the order of axes."""
        found = {}
        for schedule in self.space.schedule:
            columns, rows = interleaved(self.degrees, self.space) if schedule == "interleaved" else (self.degrees, None)
            plan = plan_of(columns, Words(parallel, context, 0, "none", self.space.order[0], schedule), self.space)
            obey, broken = obeys(plan, self.subject.job, self.shape, self.devices, self.subject.cluster)
            found[schedule] = _Rows(columns, rows, obey, broken)
        return found

    def _narrow(self, all_ruled: list[dict[str, _Rows]]) -> None:
        """Leave only the rows of the grid under which some plan obeys, and of interleaved plans those that do."""
        used = np.zeros(len(self.degrees["tp"]), dtype=bool)
        for schedules in all_ruled:
            for found in schedules.values():
                used[found.rows[found.obey] if found.rows is not None else found.obey] = True
        place = np.cumsum(used) - 1
        self.degrees = taken(self.degrees, used)
        for schedules in all_ruled:
            for name, found in schedules.items():
                mask = used if found.rows is None else found.obey
                rows = None if found.rows is None else place[found.rows[mask]]
                broken = {**found.broken}
                schedules[name] = _Rows(taken(found.columns, mask), rows, found.obey[mask], broken)
                self.counted.looked_at += len(found.obey) * self._times()

    def _times(self) -> int:
        """Combinations of the words that no rule knows."""
        return len(self.space.zero) * len(self.space.recompute) * len(self.space.order)

    def _count_broken(self, schedules: dict[str, _Rows]) -> None:
        for found in schedules.values():
            for reason, count in found.broken.items():
                self.counted.lose(reason, count * self._times())

    def _looked(self, words: Words, schedules: dict[str, _Rows]) -> Iterator[_Batch]:
        self._count_broken(schedules)
        work = self._work(plan_of(self.degrees, words, self.space))
        for zero, recompute in product(self.space.zero, self.space.recompute):
            sharded = replace(words, zero=zero, recompute=recompute)
            bytes_ = {schedule: self._bytes(replace(sharded, schedule=schedule), found, work) for schedule, found in schedules.items()}
            for order in self.space.order:
                yield from self._ordered(replace(sharded, order=order), schedules, bytes_)

    def _ordered(self, words: Words, schedules: dict[str, _Rows], bytes_: dict[str, Array]) -> Iterator[_Batch]:
        """The plans of one combination under each schedule; stages are as long under all with one chunk a stage, DualPipe's pairs apart."""
        whole = self.evaluator.placed(plan_of(self.degrees, words, self.space))
        timed = self.evaluator.timed(whole, self.memo).bare()
        pipelines: dict[bool, Pipeline] = {}
        for schedule, found in schedules.items():
            plan = plan_of(found.columns, replace(words, schedule=schedule), self.space)
            left = self._fitting(plan, found, bytes_[schedule])
            if not left.any():
                continue
            if found.rows is None:
                placed, paired = self.evaluator.placed(plan), schedule == "dualpipe"
                if paired not in pipelines:
                    pipelines[paired] = self.evaluator.pipeline(timed, placed)[0]
                parts, plan = taken(self.evaluator.parts(pipelines[paired], placed), left), taken(plan, left)
            else:
                plan = taken(plan, left)
                parts = self.evaluator.parts(self.evaluator.pipeline(taken(timed, found.rows[left]), plan)[0], plan)
            yield self._batch(plan, parts, bytes_[schedule][left])

    def _fitting(self, plan: Plan, found: _Rows, needed: Array) -> Any:
        """The plans to keep; others are counted."""
        same = found.obey & pointless(plan, self.space)
        left = found.obey & ~same
        fits = left & (needed <= self.room)
        self.counted.lose(SAME, int(same.sum()))
        self.counted.lose(NO_ROOM, int(left.sum() - fits.sum()))
        self.counted.feasible += int(fits.sum())
        return fits

    def _batch(self, plan: Plan, parts: Parts, needed: Array) -> _Batch:
        named = {name: _column(seconds, needed.shape) for name, seconds in parts.named().items()}
        found = _Batch(plan, self.devices, _column(parts.step_s, needed.shape), needed, named)
        timed = np.isfinite(found.step_s)
        if timed.all():
            return found
        without = int(len(timed) - timed.sum())
        self.counted.lose(NO_TIME, without)
        self.counted.feasible -= without
        return taken(found, timed)

    # ------------------------------------------------------------------ memory
    def _work(self, plan: Plan) -> Work | None:
        s = self.subject
        return work_of(s.model, s.how, s.job, plan, LANGUAGE, self.kept) if s.job.phase == "train" else None

    def _bytes(self, words: Words, found: _Rows, work: Work | None) -> Array:
        s, plan = self.subject, plan_of(found.columns, words, self.space)
        own = work if found.rows is None else taken(work, found.rows)
        needed = needed_bytes(s.model, s.how, s.job, plan, LANGUAGE, self.kept, own)
        return _column(needed, found.columns["tp"].shape)


def _column(value: Number, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.asarray(value, dtype=np.float64), shape)
