"""A plan judged: the time of a step and what it is made of, tokens a second, shares of peaks; numbers, or arrays for many plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from roofline.decide.compose import Parts, Pipeline, Stage, decoded, layer_passes, served, slowest_of, trained
from roofline.decide.costs import Coster
from roofline.decide.layers import Memo, Pick, Timed, Timer, one_replica
from roofline.decide.times import more
from roofline.dtypes import dtype as find_dtype
from roofline.hardware.cluster import Cluster
from roofline.models.description import Model
from roofline.models.expansion import Expansion, plan_names
from roofline.models.phases import params_of
from roofline.models.quantised import Quantisation
from roofline.numeric import Number, total, where
from roofline.ops.base import Counts, Kernel, Op, TensorSpec
from roofline.ops.optimizer import AdamW
from roofline.plan.job import Job
from roofline.plan.pipeline import layers_of_stages, microbatches
from roofline.plan.plan import Plan
from roofline.spec.vectorised import value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is spread over devices: a model as it is stored, a job, on a cluster. ``attention`` is flash or naive.

    ``given`` is the expansion of a workload file, whose other choices (adapters, draft tokens, formats of exchanges) stand.
    """

    model: Model
    how: Quantisation | None
    job: Job
    cluster: Cluster
    attention: str = "flash"
    given: Expansion | None = None

    def expansion(self, plan: Plan) -> Expansion:
        """The steps under the words of a plan."""
        if self.given is not None:
            return replace(self.given, plan=plan)
        return Expansion(
            model=self.model,
            phase=self.job.phase,
            how=self.how,
            kv_dtype=self.job.kv_dtype,
            plan=plan,
            attention=self.attention,
            gradient_dtype=self.job.gradient_dtype,
        )

    def update(self, written: Op) -> Op:
        """The optimizer's step as the job runs it, in the formats of `roofline.models.memory_states`: with fp32 masters, m and v, or all in
        the model's format; plain descent reads a gradient and changes a weight, with momentum one state more."""
        assert isinstance(written, AdamW)
        gradient = self.job.gradient_dtype or written.dtype
        if self.job.optimizer.startswith("adamw"):
            master = self.job.optimizer == "adamw" and find_dtype(written.dtype).bits < 32
            return replace(written, master=master, grad_dtype=gradient)
        return descent(written.parameters, written.dtype, gradient, momentum=self.job.optimizer == "sgd_momentum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """A plan's step: its parts in seconds, ``first_s`` until the first tokens of a batch are there (the whole step in prefill), ``count``
    microbatches, matrix FLOP executed on all devices, and of the slowest stage seconds by what decides them and resident bytes read."""

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

    def __init__(self, subject: Subject, coster: Coster, pick: Pick = lambda cost: cost.time_s) -> None:
        self.subject, self.coster, self.pick = subject, coster, pick
        self._timers: dict[tuple[object, ...], tuple[Timer, dict[str, int | str]]] = {}

    def evaluate(self, plan: Plan) -> Evaluation:
        """The step of a plan, whose degrees may be arrays; whether it obeys the rules is for `roofline.plan.validate` to say."""
        placed = self.placed(plan)
        pipeline, flop = self.pipeline(self.timed(placed), placed)
        slow = pipeline.slowest
        return Evaluation(
            plan=plan,
            parts=self.parts(pipeline, placed),
            count=pipeline.count,
            flop=flop * pipeline.count * plan.tp * plan.cp * plan.dp,
            slowest=slow,
            resident_bytes=slow.times.resident_bytes * pipeline.count,
            by=slow.times.by,
        )

    def placed(self, plan: Plan) -> Plan:
        """The plan with the sequences of a microbatch: its own in training, in serving a replica's batch over its stages."""
        job = self.subject.job
        return plan if job.phase == "train" else one_replica(plan, job.batch)

    def timed(self, plan: Plan, memo: Memo | None = None) -> Timed:
        """Layers, embedding and head under the plan, for one microbatch on one rank."""
        timer, params = self._timer(plan)
        return timer.timed(plan, self.names(plan, params), self.pick, memo)

    def pipeline(self, timed: Timed, plan: Plan) -> tuple[Pipeline, Number]:
        """The stages, and matrix FLOP of one microbatch over all of them on one rank of each."""
        return pipeline_of(timed, plan, len(self.subject.model.layers), microbatches(plan, self.subject.job.batch))

    def parts(self, pipeline: Pipeline, plan: Plan) -> Parts:
        """What the step is made of."""
        return {"train": trained, "prefill": served}.get(self.subject.job.phase, decoded)(pipeline, plan)

    def names(self, plan: Plan, params: Mapping[str, int | str]) -> dict[str, Number]:
        """What the expressions of steps use: degrees, the job's sizes, and what follows from them."""
        job = self.subject.job
        found: dict[str, Number] = dict(plan_names(plan))
        given = {"batch": plan.microbatch, "seq": job.seq, "context": job.context, "chunk": job.chunk, "decode_batch": plan.microbatch}
        for name, said in params.items():
            found[name] = given[name] if name in given else value_of(said, found)
        return found

    def _timer(self, plan: Plan) -> tuple[Timer, dict[str, int | str]]:
        words = (plan.sequence_parallel, plan.context_kind, plan.zero, plan.recompute)
        if words not in self._timers:
            expansion = self.subject.expansion(plan)
            timer = Timer(expansion, self.subject.cluster, self.coster, self.subject.update)
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


def descent(parameters: Number, dtype: str, gradient: str, *, momentum: bool) -> Op:
    """Stochastic gradient descent as one pass: fp32 masters where weights have fewer bits, 2 FLOP a parameter and 2 for momentum."""
    copied = find_dtype(dtype).bits < 32
    state = ("master", *(("momentum",) if momentum else ()))
    changed = tuple(TensorSpec(name, (parameters,), "fp32", "inout") for name in state)
    copy = (TensorSpec("copy", (parameters,), dtype, "out"),) if copied else ()
    return Kernel(
        label="sgd",
        dtype=dtype,
        reads=(*changed, TensorSpec("g", (parameters,), gradient, "in")),
        writes=(*changed, *copy),
        arithmetic=Counts(vector=(4 if momentum else 2) * parameters),
    )
