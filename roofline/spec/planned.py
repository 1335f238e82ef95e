"""The workload file of one rank under a plan: the busiest stage's steps, all microbatches of it, collectives over links.

Degrees above 1 stay params by name, so that a person can read and change them; those of 1 vanish. A collective becomes one step for each
leg that it has over the tiers of a cluster, or a single one over the link that is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from roofline.errors import UsageError
from roofline.hardware.cluster import Cluster
from roofline.models.description import Experts
from roofline.models.expansion import Expansion, Fields, plan_names
from roofline.models.feed_steps import arriving, routed
from roofline.models.phases import params_of, refuse
from roofline.models.shape import case_of
from roofline.models.steps import in_file
from roofline.models.training import COLLECTIVES, has_weights
from roofline.models.whole import layers_of, outer_of
from roofline.models.write import checked_settings, document
from roofline.numeric import scalar
from roofline.plan.job import Job
from roofline.plan.network import collective
from roofline.plan.pipeline import layers_of_stages
from roofline.plan.plan import Plan, groups
from roofline.plan.routed import Routed
from roofline.plan.validate import Case
from roofline.spec.plan import written
from roofline.spec.simplify import simplified
from roofline.spec.sizes import SAME, NamedTwice, names_of
from roofline.spec.vectorised import ops_of, repeat_of, value_of

UNIT = 2**40
"""Bytes with which the legs of a collective are asked for: each has a share of them."""
LONGEST = 160
"""Characters of the longest expression that is written; others are written as their value."""
BESIDE = ("images", "image_height", "image_width", "image_tokens", "source")
PARTS = "The prompts of a replica pass the stages in parts of microbatch=; steps are those of all, the first of which holds the weights."
WHOLE = "Steps are of all prompts of a replica at once: 'roofline plan' looks for the quickest parts of them, and microbatch= states parts."
OUTER = {"first": ("embedding",), "middle": (), "last": ("head", "loss")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """What carries collectives: the tiers of a cluster, or the one link of this name."""

    cluster: Cluster | None = None
    link: str | None = None


def planned_text(expansion: Expansion, settings: Mapping[str, int], carrier: Carrier) -> str:
    """The workload file of one rank of the busiest stage.

    Raises:
        UsageError: a phase, a param or a plan that does not exist for it, or nothing that carries collectives.
    """
    plan = expansion.plan
    assert plan is not None
    refuse(expansion)
    params = planned_params(expansion)
    params = checked_settings(params, as_named(settings, params, expansion.phase), expansion.phase)
    names = numbers(params, expansion)
    stage = _busiest(expansion, plan, names)
    steps = [s for s in stage.steps if repeat_of(s, names) > 0]
    rest = scalar(names.get("microbatches", 1)) - 1
    if rest != int(rest):
        raise UsageError(f"global_batch {params['global_batch']} is no multiple of dp {plan.dp} x microbatch {plan.microbatch}")
    steps = list(_accumulated(steps, int(rest))) if _in_parts(expansion) else steps
    known = plan_names(plan, expansion.model)
    ones: dict[str, Any] = {name: int(value) for name, value in known.items() if value == 1}
    ones |= {name: known[name] for name in ("pp", "imbalance")}  # no params: what the file says is of this stage and this load
    legs = [s for step in steps for s in _carried(expansion, step, plan, carrier, names)]
    found = [_short(_reached(s, _routed(expansion), names), ones, names) for s in legs]
    shown = {k: simplified(v, ones) if isinstance(v, str) else v for k, v in params.items() if k not in ones}
    return document(expansion, shown, found, _said(expansion, plan, stage))


def planned_case(expansion: Expansion, settings: Mapping[str, int], cluster: Cluster | None) -> Case:
    """What the rules of plans are asked about: the job of these params."""
    plan = expansion.plan
    assert plan is not None
    return case_of(expansion.model, plan, job_of(expansion, plan, settings), cluster)


def job_of(expansion: Expansion, plan: Plan, settings: Mapping[str, int]) -> Job:
    """The job that an expansion is of, all its choices with it; sizes not given are those of an import."""
    params = planned_params(expansion)
    names = numbers({**params, **as_named(settings, params, expansion.phase)}, expansion)
    whole = {size: names[n] for size, (known, _) in SAME.items() for n in known if isinstance(params.get(n), int)}
    lora = expansion.lora
    adapted: dict[str, Any] = {"trainable": "lora", "lora_rank": lora.rank, "lora_targets": lora.targets} if lora else {}
    return Job(
        phase=expansion.phase,
        **whole,
        **{k: names[k] for k in ("seq", "cached", "context", *BESIDE) if k in names},
        draft=expansion.draft,
        mtp=expansion.mtp,
        page=expansion.page,
        kv_dtype=expansion.kv_dtype,
        gradient_dtype=expansion.gradient_dtype,
        dispatch_dtype=expansion.dispatch_dtype,
        optimizer=expansion.optimizer,
        **adapted,
    )


# --------------------------------------------------------------------------- params
def as_named(settings: Mapping[str, int], params: Mapping[str, int | str], phase: str) -> dict[str, int]:
    """Settings with what is of all devices (`roofline.spec.sizes.SAME`) under the names that the params have for it.

    Raises:
        NamedTwice: two names of one size at once.

    >>> as_named({"batch": 64, "seq": 8}, {"global_batch": 8, "batch": "global_batch / dp", "seq": 1}, "prefill")
    {'seq': 8, 'global_batch': 64}
    """
    found = dict(settings)
    for size in SAME:
        names = names_of(size, phase)
        given, own = [name for name in settings if name in names], [name for name in names if isinstance(params.get(name), int)]
        if len(given) > 1:
            raise NamedTwice(size, *given[:2])
        if given and own:
            found[own[0]] = found.pop(given[0])
    return found


def planned_params(expansion: Expansion) -> dict[str, int | str]:
    """The params with the degrees of the plan: ``global_batch`` and ``global_chunk`` are of all replicas, ``batch``, ``decode_batch`` and
    ``chunk`` of one, where its sequences come in parts of one microbatch."""
    plan, own = expansion.plan, params_of(expansion)
    assert plan is not None
    degrees: dict[str, Any] = {k: v for k, v in plan_names(plan).items() if k not in ("pp", "imbalance")}
    parts = int(plan.dp) * (int(plan.pp) if expansion.phase == "mixed" else 1)
    if (parts == 1 and not _in_parts(expansion)) or not {"batch", "decode_batch"} & own.keys():
        return {**degrees, **own}
    if expansion.phase == "mixed":
        whole = {"global_chunk": int(own["chunk"]) * parts, "global_batch": parts}
        over = "dp" if plan.pp == 1 else f"(dp * {plan.pp})"
        return {**degrees, **whole, **own, "chunk": f"global_chunk / {over}", "decode_batch": f"global_batch / {over}"}
    rest = {k: v for k, v in own.items() if k != "batch"}
    if _in_parts(expansion):
        degrees |= {"global_batch": int(plan.dp * plan.microbatch), "microbatch": plan.microbatch, "batch": "microbatch"}
        return {**degrees, **rest, "microbatches": "global_batch / (dp * microbatch)"}
    return {**degrees, "global_batch": plan.dp, "batch": "global_batch / dp", **rest}


def _in_parts(expansion: Expansion) -> bool:
    """Whether microbatches follow each other: in training, and in a prefill through stages if the plan says how many prompts one has."""
    plan = expansion.plan
    assert plan is not None
    return expansion.training or (expansion.phase == "prefill" and bool(plan.pp != 1) and plan.microbatch != 0)


def numbers(params: Mapping[str, int | str], expansion: Expansion) -> dict[str, Any]:
    """The params as numbers, each worked out from those before it."""
    assert expansion.plan is not None
    names: dict[str, Any] = dict(plan_names(expansion.plan, expansion.model))
    for name, value in params.items():
        names[name] = value_of(value, names)
    return names


# --------------------------------------------------------------------------- stages
@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the pipeline: which, how many layers, its steps for one microbatch."""

    name: str
    layers: int
    steps: tuple[Fields, ...]


def _busiest(expansion: Expansion, plan: Plan, names: Mapping[str, Any]) -> Stage:
    """The stage with the most FLOP, the last of equals."""
    stages = list(_stages(expansion, plan))
    return max(reversed(stages), key=lambda stage: _flop(expansion, stage, names))


def _flop(expansion: Expansion, stage: Stage, names: Mapping[str, Any]) -> float:
    found = 0.0
    for step in stage.steps:
        if scalar(repeat_of(step, names)) > 0:
            ops = ops_of(step, names, expansion.model.dtype)
            found += scalar(repeat_of(step, names)) * sum(scalar(op.counts().tensor + op.counts().vector) for op in ops)
    return found


def _stages(expansion: Expansion, plan: Plan) -> Iterator[Stage]:
    """First, between and last; layers stand in their order, chunk by chunk of each stage where stages have several."""
    outer, sorts = outer_of(expansion), layers_of(expansion)
    if plan.pp == 1:
        parts = ("embedding", "head", "loss")
        yield _stage("only", range(len(expansion.model.layers)), [s for s in outer if s["part"] in parts], sorts)
        return
    chunks = _chunks(expansion, plan)
    for name, at in (("first", 0), ("middle", 1), ("last", int(plan.pp) - 1)):
        if name == "middle" and plan.pp == 2:
            continue
        own = [s for s in outer if s["part"] in (*OUTER[name], "boundary")]
        which = [layer for chunk in chunks[at :: int(plan.pp)] for layer in chunk]
        yield _stage(name, which, own, sorts)


def _chunks(expansion: Expansion, plan: Plan) -> list[range]:
    """Layers of each chunk, in order; the first and the last hold fewer where a plan allows that."""
    count, pieces = len(expansion.model.layers), int(plan.pp * plan.virtual)
    first, middle, last = (int(n) for n in layers_of_stages(plan, count))
    whole = -(-count // pieces)
    sizes = [whole] * pieces
    sizes[0] -= middle - first
    sizes[-1] -= middle - last
    starts = [sum(sizes[:i]) for i in range(pieces)]
    return [range(s, s + n) for s, n in zip(starts, sizes, strict=True)]


def _stage(name: str, which: Iterable[int], outer: list[Fields], sorts: Iterable[Any]) -> Stage:
    held = set(which)
    layers = [in_file(s, sort.name, n) for sort in sorts if (n := len(held.intersection(sort.layers))) for s in sort.steps]
    first = [s for s in outer if s["part"] == "embedding"]
    return Stage(name, len(held), tuple(_tied_here([*first, *layers, *(s for s in outer if s["part"] != "embedding")])))


def _tied_here(steps: list[Fields]) -> Iterator[Fields]:
    """A head whose embedding lies on another stage has weights of its own."""
    ids = {s["id"] for s in steps}
    for step in steps:
        yield {k: v for k, v in step.items() if k != "tied_to" or v in ids}


def _accumulated(steps: list[Fields], rest: int) -> Iterator[Fields]:
    """Steps of all microbatches: the weights are those of the first, so that what holds weights stands twice."""
    for step in steps:
        if step.get("when") == "step":
            yield step
        elif has_weights(step):
            yield step
            if rest:
                yield {**step, "id": f"{step['id']}_more", "tied_to": step.get("tied_to", step["id"]), **_times(step, "(microbatches - 1)")}
        else:
            yield {**step, **_times(step, "microbatches")}


def _times(step: Fields, count: str) -> Fields:
    own = step.get("repeat", 1)
    return {"repeat": count.strip("()") if own == 1 else f"{own} * {count}" if isinstance(own, int) else f"({own}) * {count}"}


# --------------------------------------------------------------------------- collectives
def _carried(expansion: Expansion, step: Fields, plan: Plan, carrier: Carrier, names: Mapping[str, Any]) -> Iterator[Fields]:
    """A step as it is, or a collective as its legs; none where its group is one rank."""
    if step["op"] not in COLLECTIVES:
        yield step
        return
    size = value_of(step["size"].rpartition(" ")[0], names)
    if scalar(value_of(step["ranks"], names)) <= 1 or scalar(size) == 0:
        return
    if carrier.cluster is None:
        if carrier.link is None:
            raise UsageError(f"nothing carries the collective '{step['id']}': name a cluster, such as dgx-h100, or a link, such as nvlink")
        yield {**step, "over": carrier.link}
        return
    extra: dict[str, Any] = {}
    if step["op"] == "all_to_all" and step["axis"] == "ep":
        tokens = next(r for r in _routed(expansion) if arriving(r) in step["size"])
        extra = {"copies": tokens, "node_limit": plan.node_limit, "imbalance": tokens.loaded(names["imbalance"], plan.ep)}
    group = groups(plan)[step["axis"]]
    legs = collective(step["op"], UNIT, group, carrier.cluster, **extra)
    for number, leg in enumerate(legs):
        share = Fraction(scalar(leg.size)) / UNIT
        ending = f"/{leg.tier.name}{'' if number == 0 or leg.tier.name != legs[0].tier.name else '_back'}" if len(legs) > 1 else ""
        reduced = {"algorithm": "switch"} if leg.kind == "all_reduce" and leg.tier.in_network_reduction and scalar(leg.ranks) > 3 else {}
        ranks = step["ranks"] if scalar(leg.ranks) == scalar(group.size) and leg.kind != "send_recv" else int(scalar(leg.ranks))
        whole = {k: v for k, v in step.items() if k not in ("pass", "repeat")}
        last: Fields = {k: step[k] for k in ("repeat", "pass") if k in step}
        sized = {"id": step["id"] + ending, "op": leg.kind, "size": _share(step["size"], share), "ranks": ranks, "over": leg.tier.name}
        yield {**whole, **sized, **reduced, **last}


def _routed(expansion: Expansion) -> list[Routed]:
    """To how many ranks tokens go, for each sort of experts that the model has."""
    return list(dict.fromkeys(routed(layer.feed) for layer in expansion.model.layers if isinstance(layer.feed, Experts)))


def _reached(step: Fields, sorts: Iterable[Routed], names: Mapping[str, Any]) -> Fields:
    """A step whose size has the rows of a token as a number, where their expression is a long one: so that it stays one of tokens."""
    for text in (arriving(r) for r in sorts):
        if len(text) > LONGEST // 2 and text in str(step.get("size", "")):
            return {**step, "size": step["size"].replace(text, f"{scalar(value_of(text, names)):.17g}")}
    return step


def _share(size: str, share: Fraction) -> str:
    number, _, unit = size.rpartition(" ")
    share = share.limit_denominator(2**24)
    if share == 1:
        return size
    times = f" * {share.numerator}" if share.numerator != 1 else ""
    return f"({number}){times} / {share.denominator} {unit}" if share.denominator != 1 else f"({number}){times} {unit}"


# --------------------------------------------------------------------------- writing
def _short(step: Fields, ones: Mapping[str, Any], names: Mapping[str, Any]) -> Fields:
    """A step with its expressions made short."""
    found: Fields = {}
    for key, value in step.items():
        if key in ("id", "op", "axis", "part", "when", "why", "pass", "over", "tied_to") or not isinstance(value, str):
            found[key] = value
        elif key in ("size", "read", "write", "cache", "vector_flop", "tensor_flop"):
            number, _, unit = value.rpartition(" ")
            found[key] = f"{_brief(number, ones, names)} {unit}"
        else:
            text = _brief(value, ones, names) if not value.isidentifier() or value in ones else value
            found[key] = int(text) if text.isdigit() else text
    return {k: v for k, v in found.items() if not (v == 1 and (k == "repeat" or (k == "ranks" and step["op"] == "grouped_gemm")))}


def _brief(text: str, ones: Mapping[str, Any], names: Mapping[str, Any]) -> str:
    short = simplified(text, ones)
    return short if len(short) <= LONGEST else f"{scalar(value_of(short, names)):.17g}"


def _said(expansion: Expansion, plan: Plan, stage: Stage) -> list[str]:
    """What a reader of the file should know."""
    where = f" with the {stage.layers} layers of the {stage.name} stage of {plan.pp}, that with the most FLOP" if plan.pp != 1 else ""
    said = [f"Plan: {written(plan)}, {plan.devices} devices. Figures are those of one device{where}."]
    said.append("Every step waits for the one before it; 'roofline plan' says what hides behind what, and what a pipeline waits.")
    if expansion.phase == "prefill" and plan.pp != 1:
        said.append(PARTS if _in_parts(expansion) else WHOLE)
    if plan.tp != 1 and any(getattr(layer.mixer, "kv_heads", plan.tp) < plan.tp for layer in expansion.model.layers):
        said.append("There are fewer key and value heads than tp, so that ranks hold the same ones.")
    if expansion.training and plan.recompute == "selective" and expansion.attention == "flash":
        said.append("Selective recomputation adds nothing: flash attention recomputes its scores in the backward pass anyway.")
    if plan.ep != 1 and (sorts := _routed(expansion)):
        ranks = ", ".join(f"{scalar(r.reached(plan.ep)):.4g}" for r in sorts)
        said.append(f"A token goes to {ranks} of {plan.ep} ranks of experts in the mean: exchanges are of this ep.")
    return said
