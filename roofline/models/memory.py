"""The memory of one device: what a rank of the fullest stage keeps of a model in a phase under a plan.

In training: weights, gradients and optimizer states (`memory_states`), what the microbatches in flight keep for their backward passes
(`memory_saved`), the layer that is computed again, and the logits. In serving: weights, keys and values, states, and the operands of
the largest step. All of it must be there at the same time, so that the sum is the least that is needed: buffers of libraries,
fragments and temporary tensors come on top. Plans and jobs may hold float64 arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields

from roofline.dtypes import dtype as find_dtype
from roofline.errors import UsageError
from roofline.models.description import Layer, Model
from roofline.models.expansion import Expansion, Fields, Lora, plan_names
from roofline.models.memory_cache import kv_bytes, state_bytes
from roofline.models.memory_saved import Kept, Saved, base_id, forward_steps, saved_of
from roofline.models.memory_states import Each, State, model_state, optimizer_bytes
from roofline.models.memory_weights import Splits, Stage, parameters, sizes_of, splits_of, stages_of, stored_bytes
from roofline.models.phases import refuse
from roofline.models.quantised import Quantisation
from roofline.models.steps import layers_of, outer_of
from roofline.models.training import TARGETS
from roofline.numeric import Number, maximum, minimum, total, where
from roofline.ops.base import Op
from roofline.plan.job import Job
from roofline.plan.pipeline import in_flight, microbatches, weight_copies
from roofline.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of one rank of the fullest stage, and which stage and how many microbatches it holds.

    ``recomputed`` is what recomputation makes of one layer again, during its backward pass; ``states`` are those of recurrent layers.
    """

    weights: Number = 0
    gradients: Number = 0
    optimizer: Number = 0
    activations: Number = 0
    recomputed: Number = 0
    logits: Number = 0
    kv_cache: Number = 0
    states: Number = 0
    in_flight: Number = 0
    stage: Number = 0

    @property
    def needed(self) -> Number:
        """The sum of all that is kept."""
        return total(getattr(self, name) for name in PARTS)


PARTS = ("weights", "gradients", "optimizer", "activations", "recomputed", "logits", "kv_cache", "states")
"""What the memory consists of."""


Build = Callable[[Fields, Mapping[str, Number], str], Op]
"""A step's fields, the values of the names in its expressions, and the dtype of the model, to the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One question, with what does not depend on the stage worked out."""

    model: Model
    how: Quantisation | None
    job: Job
    plan: Plan
    build: Build
    kept: Kept
    page: int

    def operator(self, step: Fields, names: Mapping[str, Number]) -> Op:
        """The operator of a step."""
        return self.build(step, names, self.model.dtype)

    @property
    def training(self) -> bool:
        """Whether there is a backward pass."""
        return self.job.phase == "train"

    @property
    def weight_dtype(self) -> str:
        """The format of weights in training."""
        return self.job.weight_dtype or self.model.dtype

    @property
    def replica_batch(self) -> Number:
        """Sequences of a replica."""
        return self.job.batch / self.plan.dp

    def names(self) -> dict[str, Number]:
        """Values for the names in the steps: of one microbatch in training, of all sequences of a replica in serving."""
        job, plan = self.job, self.plan
        batch = plan.microbatch if self.training else self.replica_batch
        tokens = {"decode": batch, "mixed": job.chunk + batch}.get(job.phase, batch * job.seq / plan.cp)
        extra = {"chunk": job.chunk, "cached": 0, "decode_batch": batch} if job.phase == "mixed" else {}
        return {**plan_names(plan), "batch": batch, "seq": job.seq, "context": job.context, "tokens": tokens, **extra}


def memory(
    model: Model,
    how: Quantisation | None,
    job: Job,
    plan: Plan,
    build: Build,
    *,
    kept: Kept | None = None,
    page: int = 0,
    work: Work | None = None,
) -> Memory:
    """What a rank of the fullest stage keeps. ``page`` is the block of a paged cache in tokens, 0 for none; ``work`` is that of training
    where it is known already (`work_of`).

    Raises:
        UsageError: an optimizer or dtype that is not known, or a phase that this model does not have.
    """
    case = _Case(model=model, how=how, job=job, plan=plan, build=build, kept=kept or Kept(), page=page)
    stages = stages_of(model, plan)
    return _fullest(_training(case, stages, work or _work(case)) if case.training else _serving(case, stages))


def work_of(model: Model, how: Quantisation | None, job: Job, plan: Plan, build: Build, kept: Kept) -> Work:
    """What one microbatch of training keeps, whatever the schedule, ZeRO stage and recomputation: for searches over these."""
    return _work(_Case(model=model, how=how, job=job, plan=plan, build=build, kept=kept, page=0))


def _fullest(found: list[Memory]) -> Memory:
    """The memory that needs most, element by element."""
    best = found[0]
    for other in found[1:]:
        more = other.needed > best.needed
        best = Memory(**{f.name: where(more, getattr(other, f.name), getattr(best, f.name)) for f in fields(Memory)})
    return best


# --------------------------------------------------------------------------- training
@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one microbatch keeps on one rank, by part of the model; ``border`` is the input of a layer, ``added`` parameters of adapters."""

    layers: tuple[Saved, ...]
    added: tuple[Number, ...]
    before: Saved
    behind: Saved
    logits: Number
    border: Number
    splits: Splits


def _training(case: _Case, stages: tuple[Stage, ...], work: Work) -> list[Memory]:
    return [_trained_stage(case, stage, work) for stage in stages]


def _work(case: _Case) -> Work:
    model, plan, names = case.model, case.plan, case.names()
    expansion = Expansion(model=model, phase="train", how=case.how, plan=plan, attention=case.kept.attention, lora=_adapters(case))
    refuse(expansion)
    sorts, outer = layers_of(expansion), outer_of(expansion)

    def saved(steps: Iterable[Fields]) -> Saved:
        return saved_of(steps, case.operator, names, plan, case.kept)

    losses = [case.operator(s, names) for s in forward_steps(outer) if s["part"] == "loss"]
    border = names["tokens"] * model.hidden * find_dtype(model.dtype).bytes
    return Work(
        layers=tuple(saved(sort.steps) for sort in sorts),
        added=tuple(_adapter_parameters(case, sort.steps, names) for sort in sorts),
        before=saved(s for s in outer if s["part"] == "embedding"),
        behind=saved(s for s in outer if s["part"] == "head"),
        logits=_largest(resident(op) for loss in losses for op in (loss, *loss.backward())),
        border=border / plan.tp if plan.sequence_parallel else border,
        splits=splits_of(model, parameters),
    )


def _adapters(case: _Case) -> Lora | None:
    """Adapters beside the usual products, as far as the model has them."""
    if case.job.trainable != "lora":
        return None
    plain = Expansion(model=case.model, phase="train", plan=case.plan)
    known = {base_id(step) for sort in layers_of(plain) for step in sort.steps}
    return Lora(rank=case.job.lora_rank, targets=tuple(t for t in TARGETS if t in known))


def _adapter_parameters(case: _Case, steps: Iterable[Fields], names: Mapping[str, Number]) -> Number:
    ops = [case.operator(s, names) for s in steps if s.get("why") == "adapter" and "axis" not in s]
    return total(t.elements for op in ops for t in op.tensors() if t.role == "weight")


def _trained_stage(case: _Case, stage: Stage, work: Work) -> Memory:
    plan = case.plan
    held = _held(plan, microbatches(plan, case.job.batch), stage.index)
    counted = list(zip(work.layers, stage.counts, strict=True))
    if plan.recompute == "full":
        own = work.border * total(stage.counts)
        again = _largest(where(n > 0, saved.all, 0) for saved, n in counted)
    else:
        own = total(saved.kept(plan.recompute) * n for saved, n in counted)
        again = _largest(where(n > 0, saved.all - saved.kept(plan.recompute), 0) for saved, n in counted)
    has_head = where(stage.last > 0, 1, 0)
    state = _state(case, stage, work.splits, total(a * n for a, n in zip(work.added, stage.counts, strict=True)))
    return Memory(
        weights=state.weights,
        gradients=state.gradients,
        optimizer=state.optimizer,
        activations=held * (own + work.before.all * stage.first) + work.behind.all * has_head,
        recomputed=again,
        logits=work.logits * has_head,
        in_flight=held,
        stage=stage.index,
    )


def _held(plan: Plan, count: Number, index: Number) -> Number:
    """Microbatches in flight on a stage: in 1F1B one less on each stage, interleaved 2 / v less."""
    most = in_flight(plan, count)
    if plan.schedule == "1f1b":
        return minimum(most, maximum(plan.pp - index, 1))
    if plan.schedule == "interleaved":
        return minimum(most, maximum(plan.pp + (plan.pp - 1 - 2 * index) / plan.virtual, 1))
    return most


def _state(case: _Case, stage: Stage, splits: Splits, added: Number) -> State:
    """Weights, gradients and optimizer states of the stage. Weights frozen beside adapters have neither of the latter.

    Raises:
        UsageError: weights of fewer than 16 bits, which nobody trains without a copy in more.
    """
    plan, job = case.plan, case.job
    if find_dtype(case.weight_dtype).bits < 16:
        raise UsageError(f"weights are trained in 16 or 32 bits, not in {case.weight_dtype}")
    weight = find_dtype(case.weight_dtype).bytes
    gradient = find_dtype(job.gradient_dtype or case.weight_dtype).bytes
    trained = Each(weight, gradient, optimizer_bytes(job.optimizer, case.weight_dtype))
    own = splits.on(stage, case.model.tied) * weight_copies(plan)
    each = Each(weight, 0, 0) if job.trainable == "lora" else trained
    shared, expert_shared = plan.cp * plan.dp, plan.tp * plan.cp * plan.dp / (plan.ep * plan.etp)
    dense = model_state(own.dense(plan, sizes_of(case.model)), shared, plan.zero, each)
    return dense + model_state(own.experts(plan), expert_shared, plan.zero, each) + model_state(added, shared, plan.zero, trained)


def resident(op: Op) -> Number:
    """Bytes of an operator's inputs and results, and of what it needs while it runs; weights and caches are counted elsewhere."""
    return total(t.bytes for t in op.tensors() if t.role in ("in", "out", "inout")) + op.extra_memory_bytes()


def _largest(values: Iterable[Number]) -> Number:
    found: Number = 0
    for value in values:
        found = maximum(found, value)
    return found


# --------------------------------------------------------------------------- serving
def _serving(case: _Case, stages: tuple[Stage, ...]) -> list[Memory]:
    model, job, plan, names = case.model, case.job, case.plan, case.names()
    if job.phase not in ("prefill", "decode", "mixed"):
        raise UsageError(f"unknown phase '{job.phase}'; known: prefill, decode, train, mixed")
    kv_dtype = job.kv_dtype or (case.how.kv_dtype if case.how else None) or model.dtype
    expansion = Expansion(model=model, phase=job.phase, how=case.how, kv_dtype=kv_dtype, plan=plan)
    refuse(expansion)
    sorts = layers_of(expansion)
    work = [_largest(resident(case.operator(s, names)) for s in forward_steps(sort.steps)) for sort in sorts]
    ends = {part: [s for s in forward_steps(outer_of(expansion)) if s["part"] == part] for part in ("embedding", "head")}
    before, behind = (_largest(resident(case.operator(s, names)) for s in steps) for steps in ends.values())
    kv = [_cached(case, model.layers[sort.layers[0]], kv_dtype) for sort in sorts]
    states = [state_bytes(model, model.layers[sort.layers[0]], plan) * case.replica_batch for sort in sorts]
    splits, sizes = splits_of(model, stored_bytes(model, case.how, job.weight_dtype)), sizes_of(model)
    found = []
    for stage in stages:
        own = splits.on(stage, model.tied)
        found.append(
            Memory(
                weights=own.dense(plan, sizes) + own.experts(plan),
                activations=_largest(
                    (
                        before * stage.first,
                        behind * stage.last,
                        *(where(n > 0, amount, 0) for amount, n in zip(work, stage.counts, strict=True)),
                    )
                ),
                kv_cache=total(amount * n for amount, n in zip(kv, stage.counts, strict=True)),
                states=total(amount * n for amount, n in zip(states, stage.counts, strict=True)),
                in_flight=1,
                stage=stage.index,
            )
        )
    return found


def _cached(case: _Case, layer: Layer, kv_dtype: str) -> Number:
    """Keys and values of all sequences of a replica in one layer: of the prompt, or of the context of a decoding step, or of both."""
    job, plan = case.job, case.plan
    if job.phase == "prefill":
        return case.replica_batch * kv_bytes(layer, plan, job.seq, kv_dtype, case.page)
    found = case.replica_batch * kv_bytes(layer, plan, job.context, kv_dtype, case.page)
    return found + (kv_bytes(layer, plan, job.chunk, kv_dtype, case.page) if job.phase == "mixed" else 0)
