"""A plan judged: the time of a step and what it is made of, tokens a second, shares of peaks; numbers, or arrays for many plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from roofline.decide.compose import Parts, Pipeline, Stage, decoded, layer_passes, served, slowest_of, trained
from roofline.decide.costs import Coster
from roofline.decide.layers import Memo, Pick, Timed, Timer
from roofline.decide.times import more
from roofline.hardware.cluster import Cluster
from roofline.models.description import Model
from roofline.models.expansion import Expansion
from roofline.models.phases import asked_of, names_of, params_of
from roofline.models.quantised import Quantisation
from roofline.models.tower_params import with_towers
from roofline.models.write import EXECUTION
from roofline.numeric import Number, divisors, scalar, total, where
from roofline.plan.job import Job
from roofline.plan.pipeline import layers_of_stages, left_open, microbatch, microbatches
from roofline.plan.plan import Plan
from roofline.spec.vectorised import LANGUAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is spread over devices: a model as it is stored, a job, on a cluster. ``attention`` is flash or naive, ``stated_execution`` how
    somebody says that kernels are launched. ``words`` are those with which `roofline memory` asks about model and job, if they are known.
    """

    model: Model
    how: Quantisation | None
    job: Job
    cluster: Cluster
    attention: str = "flash"
    stated_execution: str | None = None
    words: tuple[str, ...] = ()

    @property
    def execution(self) -> str:
        """How kernels are launched: as somebody says, else as is usual in the phase."""
        return self.stated_execution or EXECUTION[self.job.phase]

    def __post_init__(self) -> None:
        """What follows from the images of the job is of this model."""
        object.__setattr__(self, "job", with_towers(self.model, self.job))

    def expansion(self, plan: Plan) -> Expansion:
        """The steps under the words of a plan."""
        return asked_of(self.model, self.how, self.job, plan, self.attention)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A plan's step: its parts in seconds, ``count`` microbatches, matrix FLOP executed on all devices, and of the slowest stage seconds by
    what decides them and resident bytes read. ``plan`` has the parts of a prefill that were left open."""

    plan: Plan
    parts: Parts
    count: Number
    flop: Number
    slowest: Stage
    resident_bytes: Number
    by: Mapping[str, Number] = field(default_factory=dict)

    @property
    def step_s(self) -> Number:
        """The whole step."""
        return self.parts.step_s


class Evaluator:
    """Judges plans of one subject at one kind of cost. Steps are written and compiled once for each set of a plan's words."""

    def __init__(self, subject: Subject, coster: Coster, pick: Pick = lambda cost: cost) -> None:
        self.subject, self.coster, self.pick = subject, coster, pick
        self.costs: Memo | None = None
        self._timers: dict[tuple[object, ...], tuple[Timer, dict[str, int | str]]] = {}

    def read(self, pick: Pick, costs: Memo) -> Evaluator:
        """The same with costs read in another way; ``costs`` keeps them, of one settled plan, for all ways."""
        other = Evaluator(self.subject, self.coster, pick)
        other._timers, other.costs = self._timers, costs
        return other

    def evaluate(self, plan: Plan) -> Evaluation:
        """The step of a plan, whose degrees may be arrays; whether it obeys the rules is for `roofline.plan.validate` to say."""
        settled = self.settled(plan)
        placed = self.placed(settled)
        pipeline, flop = self.pipeline(self.timed(placed), placed)
        slow = pipeline.slowest
        return Evaluation(
            plan=settled,
            parts=self.parts(pipeline, placed),
            count=pipeline.count,
            flop=flop * pipeline.count * plan.tp * plan.cp * plan.dp,
            slowest=slow,
            resident_bytes=slow.times.resident_bytes * pipeline.count,
            by=slow.times.by,
        )

    def settled(self, plan: Plan) -> Plan:
        """The plan with the parts of a prefill that it leaves open: of all equal parts of a replica's batch the quickest."""
        job = self.subject.job
        if not left_open(plan, job):
            return plan
        parts = (replace(plan, microbatch=n) for n in divisors(int(scalar(job.batch / plan.dp))))
        return min(parts, key=lambda part: scalar(self.evaluate(part).step_s))

    def placed(self, plan: Plan) -> Plan:
        """The plan with the sequences of a microbatch that its job makes of it."""
        return replace(plan, microbatch=microbatch(plan, self.subject.job))

    def timed(self, plan: Plan, memo: Memo | None = None) -> Timed:
        """Layers, embedding and head under the plan, for one microbatch on one rank."""
        timer, params = self._timer(plan)
        names = names_of(params, self.subject.model, self.subject.job, plan, plan.microbatch, LANGUAGE)
        return timer.timed(plan, names, self.pick, memo, self.costs)

    def pipeline(self, timed: Timed, plan: Plan) -> tuple[Pipeline, Number]:
        """The stages, and matrix FLOP of one microbatch over all of them on one rank of each."""
        return pipeline_of(timed, plan, len(self.subject.model.layers), microbatches(plan, self.subject.job.batch))

    def parts(self, pipeline: Pipeline, plan: Plan) -> Parts:
        """What the step is made of."""
        return {"train": trained, "prefill": served}.get(self.subject.job.phase, decoded)(pipeline, plan)

    def _timer(self, plan: Plan) -> tuple[Timer, dict[str, int | str]]:
        words = (plan.sequence_parallel, plan.context_kind, plan.zero, plan.recompute)
        if words not in self._timers:
            expansion = self.subject.expansion(plan)
            timer = Timer(expansion, self.subject.cluster, self.coster)
            self._timers[words] = (timer, dict(params_of(expansion)))
        return self._timers[words]


def pipeline_of(timed: Timed, plan: Plan, layers: int, count: Number) -> tuple[Pipeline, Number]:
    """The stages, and matrix FLOP of one microbatch over all of them on one rank of each."""
    parts = [layer_passes(times, plan) for times in (timed.layer, timed.embedding, timed.head)]
    everything = (layers, 1, 1)
    return Pipeline(
        slowest=slowest_of(parts, held_by_stages(plan, layers)),
        all_forward_s=total(more(0.0, p.forward_s, n) for p, n in zip(parts, everything, strict=True)),
        all_backward_s=total(more(0.0, p.backward_s, n) for p, n in zip(parts, everything, strict=True)),
        all_weight_s=total(more(0.0, p.times.backward.weight, n) for p, n in zip(parts, everything, strict=True)),
        hop_s=timed.hop_s,
        count=count,
        idle_s=None if timed.issued is None else timed.issued.idle_s(count),
    ), total(more(0.0, p.times.flop, n) for p, n in zip(parts, everything, strict=True))


def held_by_stages(plan: Plan, layers: int) -> list[tuple[Number, Number, Number]]:
    """What a stage between others, the first and the last hold: layers, and whether the embedding and the head.

    Under DualPipe a device holds a stage and the one as far from the other end: half of each for either direction.
    """
    first, middle, last = layers_of_stages(plan, layers)
    if isinstance(plan.pp, int) and plan.pp == 1:
        return [(layers, 1, 1)]
    if plan.schedule == "dualpipe":
        stages: list[tuple[Number, Number, Number]] = [(middle, 0, 0), ((first + last) / 2, 0.5, 0.5)]
    else:
        stages = [(middle, 0, 0), (first, 1, 0), (last, 0, 1)]
    if isinstance(plan.pp, int):
        return stages
    alone = plan.pp == 1  # with a single stage the first is also the last
    return [(where(alone, layers, n), where(alone, 1, e), where(alone, 1, h)) for n, e, h in stages]
