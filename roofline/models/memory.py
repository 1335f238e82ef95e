"""The memory of one device: what a rank of the fullest stage keeps of a model in a phase under a plan.

In training: weights, gradients and optimizer states (`memory_states`), what the microbatches in flight keep for their backward passes
(`memory_saved`), the layer that is computed again, and the logits. In serving: weights, keys and values, states, and the operands of
the largest step. All of it must be there at the same time, so that the sum is the least that is needed: buffers of libraries,
fragments and temporary tensors come on top. Plans and jobs may hold float64 arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from roofline.dtypes import dtype as find_dtype
from roofline.errors import UsageError
from roofline.models.description import Layer, Model
from roofline.models.expansion import Expansion, Fields, Language, Lora
from roofline.models.memory_cache import kv_bytes, state_bytes
from roofline.models.memory_gathered import Gathered, Order, Units, gathered, order_of, units_of
from roofline.models.memory_saved import Kept, Saved, base_id, forward_steps, saved_of
from roofline.models.memory_states import Each, State, model_state, optimizer_bytes
from roofline.models.memory_weights import Sizes, Splits, Stage, parameters, sizes_of, split_of, splits_of, stages_of, stored_bytes
from roofline.models.phases import asked_of, names_of, params_of, refuse
from roofline.models.quantised import Quantisation
from roofline.models.tower_params import with_towers
from roofline.models.training import TARGETS
from roofline.models.weights import module_weights
from roofline.models.whole import layers_of, outer_of
from roofline.numeric import Number, is_array, largest, maximum, minimum, total, where
from roofline.ops.base import Op
from roofline.plan.job import Job
from roofline.plan.pipeline import chunk, in_flight, microbatch, microbatches, weight_copies
from roofline.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of one rank of the fullest stage, and which stage and how many microbatches it holds.

    The parts are those of the moment that needs most. ``recomputed`` is what recomputation makes of one layer again, during its backward
    pass; ``gathered`` are whole weights and gradients of layers of which ranks keep shares (`memory_gathered`); ``states`` are those of
    recurrent layers.
    """

    weights: Number = 0
    gradients: Number = 0
    optimizer: Number = 0
    activations: Number = 0
    recomputed: Number = 0
    gathered: Number = 0
    logits: Number = 0
    kv_cache: Number = 0
    states: Number = 0
    in_flight: Number = 0
    stage: Number = 0

    @property
    def needed(self) -> Number:
        """The sum of all that is kept; a part that no plan has is not added to arrays of others."""
        amounts = [getattr(self, name) for name in PARTS]
        return total(a for a in amounts if is_array(a) or a)


PARTS = ("weights", "gradients", "optimizer", "activations", "recomputed", "gathered", "logits", "kv_cache", "states")
"""What the memory consists of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One question, with what does not depend on the stage worked out."""

    model: Model
    how: Quantisation | None
    job: Job
    plan: Plan
    language: Language
    kept: Kept

    def operator(self, step: Fields, names: Mapping[str, Number]) -> Op:
        """The operator of a step."""
        return self.language.operator(step, names, self.model.dtype)

    @property
    def training(self) -> bool:
        """Whether there is a backward pass."""
        return self.job.phase == "train"

    @property
    def weight_dtype(self) -> str:
        """The format of weights in training."""
        return self.job.weight_dtype or self.model.dtype

    def border(self, names: Mapping[str, Number]) -> Number:
        """Bytes of what a layer hands to the next: a row for each token that norms of a rank see."""
        whole = names["tokens"] * self.model.hidden * find_dtype(self.model.dtype).bytes
        return whole / self.plan.tp if self.plan.sequence_parallel else whole

    @property
    def replica_batch(self) -> Number:
        """Sequences of a replica."""
        return self.job.batch / self.plan.dp

    def names(self, expansion: Expansion) -> dict[str, Number]:
        """Values for the names in the steps, of one microbatch: all that is at work on a stage."""
        return names_of(params_of(expansion), self.model, self.job, self.plan, microbatch(self.plan, self.job), self.language)


def memory(
    model: Model,
    how: Quantisation | None,
    job: Job,
    plan: Plan,
    language: Language,
    *,
    kept: Kept | None = None,
    work: Work | None = None,
) -> Memory:
    """What a rank of the fullest stage keeps. ``work`` is that of training where it is known already (`work_of`).

    Raises:
        UsageError: an optimizer or dtype that is not known, or a phase that this model does not have.
    """
    case = _Case(model=model, how=how, job=with_towers(model, job), plan=plan, language=language, kept=kept or Kept())
    return _fullest(_moments(case, work))


def needed_bytes(model: Model, how: Quantisation | None, job: Job, plan: Plan, language: Language, kept: Kept, work: Work | None) -> Number:
    """The sum of `memory` alone, which is quicker for many plans at once.

    Raises:
        UsageError: as `memory`.
    """
    case = _Case(model=model, how=how, job=with_towers(model, job), plan=plan, language=language, kept=kept)
    return largest(moment.needed for moment in _moments(case, work))


def _moments(case: _Case, work: Work | None) -> list[Memory]:
    """Every stage that may be the fullest, at every moment that may be the one that needs most."""
    stages = stages_of(case.model, case.plan)
    return _training(case, stages, work or _work(case)) if case.training else _serving(case, stages)


def work_of(model: Model, how: Quantisation | None, job: Job, plan: Plan, language: Language, kept: Kept) -> Work:
    """What one microbatch of training keeps, whatever the schedule, ZeRO stage and recomputation: for searches over these."""
    return _work(_Case(model=model, how=how, job=job, plan=plan, language=language, kept=kept))


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
    """What one microbatch keeps on one rank, by part of the model; ``passed`` is the gradient of the logits, ``border`` the input of a
    layer, ``added`` parameters of adapters."""

    layers: tuple[Saved, ...]
    added: tuple[Number, ...]
    before: Saved
    behind: Saved
    logits: Number
    passed: Number
    border: Number
    splits: Splits
    sizes: Sizes
    order: Order


def _training(case: _Case, stages: tuple[Stage, ...], work: Work) -> list[Memory]:
    units = _units(case, work) if case.plan.zero >= 2 else None
    return [moment for stage in stages for moment in _trained_stage(case, stage, work, units)]


def _work(case: _Case) -> Work:
    model, plan = case.model, case.plan
    expansion = Expansion(model=model, phase="train", how=case.how, plan=plan, attention=case.kept.attention, lora=_adapters(case))
    refuse(expansion)
    names, sorts, outer = case.names(expansion), layers_of(expansion), outer_of(expansion)

    def saved(steps: Iterable[Fields]) -> Saved:
        return saved_of(steps, case.operator, names, plan, case.kept)

    losses = [case.operator(s, names) for s in forward_steps(outer) if s["part"] == "loss"]
    return Work(
        layers=tuple(saved(sort.steps) for sort in sorts),
        added=tuple(_adapter_parameters(case, sort.steps, names) for sort in sorts),
        before=saved(s for s in outer if s["part"] == "embedding"),
        behind=saved(s for s in outer if s["part"] == "head"),
        logits=largest(resident(op) for loss in losses for op in (loss, *loss.backward())),
        passed=largest(t.bytes for loss in losses for t in loss.tensors() if t.name == "logits"),
        border=case.border(names),
        splits=splits_of(model, parameters),
        sizes=sizes_of(model),
        order=order_of(model),
    )


def _adapters(case: _Case) -> Lora | None:
    """Adapters beside the usual products, as far as the model has them."""
    if case.job.trainable != "lora":
        return None
    if case.job.lora_targets:
        return Lora(rank=case.job.lora_rank, targets=case.job.lora_targets)
    plain = Expansion(model=case.model, phase="train", plan=case.plan)
    known = {base_id(step) for sort in layers_of(plain) for step in sort.steps}
    return Lora(rank=case.job.lora_rank, targets=tuple(t for t in TARGETS if t in known))


def _adapter_parameters(case: _Case, steps: Iterable[Fields], names: Mapping[str, Number]) -> Number:
    ops = [case.operator(s, names) for s in steps if s.get("why") == "adapter" and "axis" not in s]
    return total(t.elements for op in ops for t in op.tensors() if t.role == "weight")


def _trained_stage(case: _Case, stage: Stage, work: Work, units: Units | None) -> Iterator[Memory]:
    """What a stage keeps at the moments that may need most, with all microbatches in flight: at the loss, where there is one; in the
    backward pass of a layer, when what is behind the layers is gone; under ZeRO also in that of the head, which makes its gradient when
    of the logits only their gradient is left, and at the embedding, when the layers of one microbatch have given back what they kept."""
    plan = case.plan
    held = _held(plan, microbatches(plan, case.job.batch), stage.index)
    counted = list(zip(work.layers, stage.counts, strict=True))
    if plan.recompute == "full":  # the input of a layer is kept, and what is computed again has it already
        own = work.border * total(stage.counts)
        again = largest(where(n > 0, saved.all - work.border, 0) for saved, n in counted)
    else:
        own = total(saved.kept(plan.recompute) * n for saved, n in counted)
        again = largest(where(n > 0, saved.all - saved.kept(plan.recompute), 0) for saved, n in counted)
    has_head = where(stage.last > 0, 1, 0)
    state = _state(case, stage, work, total(a * n for a, n in zip(work.added, stage.counts, strict=True)))
    whole = gathered(units, work.order, stage) if units is not None else Gathered()
    held_all = held * (own + work.before.all * stage.first)
    at_layer = Memory(
        weights=state.weights,
        gradients=state.gradients,
        optimizer=state.optimizer,
        activations=held_all,
        recomputed=again,
        gathered=whole.layer,
        in_flight=held,
        stage=stage.index,
    )
    yield at_layer
    if not isinstance(stage.last, int) or stage.last:
        behind = held_all + work.behind.all * has_head
        at_loss = replace(at_layer, activations=behind, recomputed=0, gathered=whole.loss, logits=work.logits * has_head)
        yield at_loss
        if units is not None:
            yield replace(at_loss, gathered=whole.head, logits=work.passed * has_head)
    if units is not None:
        yield replace(at_layer, activations=held_all - own, recomputed=0, gathered=whole.embedding)


def _units(case: _Case, work: Work) -> Units:
    """What ZeRO brings together, in the formats that ranks exchange: that of the products, and that of gradients."""
    model, job = case.model, case.job
    weight = min(find_dtype(case.weight_dtype).bytes, find_dtype(model.dtype).bytes)
    trained = Each(weight, find_dtype(job.gradient_dtype or model.dtype).bytes, 0)
    each = Each(weight, 0, 0) if job.trainable == "lora" else trained
    return units_of(case.plan, work.splits, work.sizes, model.tied, each, work.added, trained)


def _held(plan: Plan, count: Number, index: Number) -> Number:
    """Microbatches in flight on a stage: in 1F1B one less on each stage, interleaved 2 / v less."""
    most = in_flight(plan, count)
    if plan.schedule == "1f1b":
        return minimum(most, maximum(plan.pp - index, 1))
    if plan.schedule == "interleaved":
        return minimum(most, maximum(plan.pp + (plan.pp - 1 - 2 * index) / plan.virtual, 1))
    return most


def _state(case: _Case, stage: Stage, work: Work, added: Number) -> State:
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
    own = work.splits.on(stage, case.model.tied) * weight_copies(plan)
    each = Each(weight, 0, 0) if job.trainable == "lora" else trained
    shared, expert_shared = plan.cp * plan.dp, plan.tp * plan.cp * plan.dp / (plan.ep * plan.etp)
    dense = model_state(own.dense(plan, work.sizes), shared, plan.zero, each)
    return dense + model_state(own.experts(plan), expert_shared, plan.zero, each) + model_state(added, shared, plan.zero, trained)


def resident(op: Op) -> Number:
    """Bytes of an operator's inputs and results, and of what it needs while it runs; weights and caches are counted elsewhere."""
    return total(t.bytes for t in op.tensors() if t.role in ("in", "out", "inout")) + op.extra_memory_bytes()


# --------------------------------------------------------------------------- serving
def _serving(case: _Case, stages: tuple[Stage, ...]) -> list[Memory]:
    model, job, plan = case.model, case.job, case.plan
    if job.phase not in ("prefill", "decode", "mixed"):
        raise UsageError(f"unknown phase '{job.phase}'; known: prefill, decode, train, mixed")
    kv_dtype = job.kv_dtype or (case.how.kv_dtype if case.how else None) or model.dtype
    keeps = model.kind != "encoder"
    expansion = asked_of(model, case.how, replace(job, kv_dtype=kv_dtype) if keeps else job, plan, case.kept.attention)
    names, sorts = case.names(expansion), layers_of(expansion)
    work = [_at_work(case, model.layers[sort.layers[0]], sort.steps, names) for sort in sorts]
    ends = {part: [s for s in forward_steps(outer_of(expansion)) if s["part"] == part] for part in ("embedding", "head")}
    before, behind = (largest(resident(case.operator(s, names)) for s in steps) for steps in ends.values())
    kv = [_cached(case, model.layers[sort.layers[0]], kv_dtype) for sort in sorts]
    states = [state_bytes(model, model.layers[sort.layers[0]], plan) * case.replica_batch for sort in sorts]
    measure, sizes = stored_bytes(model, case.how, job.weight_dtype), sizes_of(model)
    splits, guessing = splits_of(model, measure), model.mtp[: job.draft] if job.mtp else ()
    modules = split_of((w for layer in guessing for w in module_weights(model, layer)), measure, model)
    modules_kv = total(_cached(case, layer, kv_dtype) for layer in guessing)
    found = []
    for stage in stages:
        own = splits.on(stage, model.tied) + modules * stage.last
        found.append(
            Memory(
                weights=own.dense(plan, sizes) + own.experts(plan),
                activations=largest(
                    (
                        before * stage.first,
                        behind * stage.last,
                        *(where(n > 0, amount, 0) for amount, n in zip(work, stage.counts, strict=True)),
                    )
                ),
                kv_cache=total(amount * n for amount, n in zip(kv, stage.counts, strict=True)) + modules_kv * stage.last,
                states=total(amount * n for amount, n in zip(states, stage.counts, strict=True)),
                in_flight=1,
                stage=stage.index,
            )
        )
    return found


def _at_work(case: _Case, layer: Layer, steps: Iterable[Fields], names: Mapping[str, Number]) -> Number:
    """The most that a step of a layer has in memory. Where every part of the layer reads a norm's result, the sum that it will be added to
    is kept beside it, which a norm that adds has among its own operands."""
    normed = case.model.kind == "decoder" and layer.norms > int(layer.mixer is not None and layer.feed is not None and not layer.parallel)
    beside = case.border(names) if normed else 0
    return largest(resident(case.operator(s, names)) + (0 if "residual" in s else beside) for s in forward_steps(steps))


def _cached(case: _Case, layer: Layer, kv_dtype: str) -> Number:
    """Keys and values of all sequences of a replica in one layer: of the prompt, or of the context of a decoding step, or of both; and of
    the source that the layer attends to. An encoder meets its tokens once and keeps nothing of them."""
    job, plan = case.job, case.plan
    if case.model.kind == "encoder":
        return 0
    of_source = kv_bytes(replace(layer, mixer=layer.cross), plan, job.source, kv_dtype, job.page) if layer.cross else 0
    if job.phase == "prefill":
        return case.replica_batch * (kv_bytes(layer, plan, job.length, kv_dtype, job.page) + of_source)
    found = case.replica_batch * (kv_bytes(layer, plan, job.context, kv_dtype, job.page) + of_source)
    if job.phase != "mixed":
        return found
    return found + plan.pp * kv_bytes(layer, plan, job.cached + chunk(plan, job), kv_dtype, job.page)  # a chunk in each microbatch
