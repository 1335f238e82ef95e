"""What a plan must obey: each rule holds for numbers, with a sentence that says what to change, and for arrays of plans as a mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from roofline.numeric import Number, maximum, where
from roofline.plan.job import Job
from roofline.plan.pipeline import microbatches
from roofline.plan.plan import Plan, groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a plan must divide of a model: 0 where the model has no such thing. ``width`` is that of an expert, ``choices`` are
    its experts over those of a token, ``encoder`` says that the layers attend to the result of an encoder."""

    layers: int
    heads: int
    kv_heads: int
    experts: int = 0
    choices: float = 0
    width: int = 0
    causal: bool = True
    encoder: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A plan for a job of a model on so many devices, None where nobody says; ``node_ranks`` are the devices of a node,
    ``capacity`` those that the cluster joins, 0 if unknown. ``stated`` says that the plan's microbatch is what somebody wrote."""

    plan: Plan
    job: Job
    shape: Shape
    devices: int | None = None
    node_ranks: int = 0
    capacity: int = 0
    stated: bool = False


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """A rule that does not hold: the key of the plan that is to blame, why in a few words, and the sentence."""

    axis: str
    reason: str
    message: str
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class Rule:
    """``holds`` gives a truth, or a mask for arrays of degrees; ``says`` is asked only for plans of single numbers."""

    axis: str
    reason: str
    holds: Callable[[Case], Any]
    says: Callable[[Case], str]
    fatal: bool = True


def problems(case: Case) -> list[PlanProblem]:
    """All that is wrong with one plan, in the order of the rules."""
    return [PlanProblem(r.axis, r.reason, r.says(case), r.fatal) for r in RULES if not r.holds(case)]


def verdicts(case: Case) -> Iterator[tuple[str, Any]]:
    """For arrays of plans: the reason of each fatal rule, and the mask of plans that obey it."""
    for rule in RULES:
        if rule.fatal:
            yield rule.reason, rule.holds(case)


# --------------------------------------------------------------------------- the rules
def _divides(part: Number, whole: Number) -> Any:
    return whole % part == 0


def _product(case: Case) -> Any:
    return case.devices is None or case.plan.devices == case.devices


def _says_product(case: Case) -> str:
    p, wanted = case.plan, case.devices or 0
    rest = p.tp * p.cp * p.pp
    repair = f"dp={wanted // rest:,} would use them all" if wanted % rest == 0 else f"tp x cp x pp = {rest:,} must divide {wanted:,}"
    return f"tp {p.tp} x cp {p.cp} x pp {p.pp} x dp {p.dp} is {p.devices:,} devices, not {wanted:,}; {repair}"


def _positive(case: Case) -> Any:
    p, least = case.plan, 0 if case.job.phase == "prefill" else 1
    return (p.tp >= 1) & (p.cp >= 1) & (p.pp >= 1) & (p.dp >= 1) & (p.ep >= 1) & (p.etp >= 1) & (p.virtual >= 1) & (p.microbatch >= least)


def _mixed(case: Case) -> Any:
    return case.job.phase != "mixed" or case.plan.cp == 1


def _shares(case: Case) -> Any:
    p, job = case.plan, case.job
    return job.phase != "mixed" or _divides(p.dp * p.pp, job.batch) & _divides(p.dp * p.pp, job.chunk)


def _says_shares(case: Case) -> str:
    p, job = case.plan, case.job
    both = " and ".join(f"{name} {size:g}" for name, size in (("batch", job.batch), ("chunk", job.chunk)) if size % (p.dp * p.pp))
    return f"{both} of a mixed step: no multiple of dp {p.dp} x pp {p.pp} = {p.dp * p.pp}, the parts that share sequences and chunk evenly"


def _served(case: Case) -> Any:
    p = case.plan
    return _trains(case) or (p.schedule == "1f1b") | (p.pp == 1)


def _parts(case: Case) -> Any:
    p = case.plan
    return _trains(case) or (p.pp > 1) & (case.job.phase == "prefill") | (p.microbatch <= (0 if case.stated else 1))


def _says_parts(case: Case) -> str:
    stated = f"microbatch {case.plan.microbatch}"
    if case.job.phase == "prefill":
        return f"{stated} needs pp > 1 in prefill: a single stage takes the batch of a replica whole"
    return f"{stated} is of training and prefill: a {case.job.phase} step goes in as many parts as there are stages"


def _heads(case: Case) -> Any:
    return _divides(case.plan.tp, case.shape.heads) if case.shape.heads else True


def _kv_heads(case: Case) -> Any:
    shape, tp = case.shape, case.plan.tp
    return _divides(tp, shape.kv_heads) | _divides(shape.kv_heads, tp) if shape.kv_heads else True


def _stages(case: Case) -> Any:
    p, layers = case.plan, case.shape.layers
    chunks = p.pp * p.virtual
    most = -(-layers // chunks)
    if not p.uneven:
        return layers % chunks == 0
    # What is missing is taken from the first and the last chunk, which can give no more than they hold.
    return (chunks == 1) & (layers >= 1) | (chunks > 1) & (most * chunks - layers <= 2 * most)


def _says_stages(case: Case) -> str:
    p, layers = case.plan, case.shape.layers
    chunks = p.pp * p.virtual
    written = f"pp {p.pp}" + (f" x virtual {p.virtual}" if p.virtual != 1 else "")
    most = -(-layers // chunks)
    missing = most * chunks - layers
    if not p.uneven and missing <= 2 * most and chunks > 1:
        return f"{layers} layers do not divide by {written} = {chunks}; 'uneven' lets the first and last hold {missing} fewer together"
    known = [n for n in range(1, layers + 1) if layers % n == 0]
    return f"{layers} layers do not divide by {written} = {chunks}; stages x virtual that do: {', '.join(map(str, known))}"


def _trains(case: Case) -> bool:
    return case.job.phase == "train"


def together(case: Case) -> Number:
    """Sequences that must divide the batch: those of a replica's microbatch where the plan says how many these are, over all replicas."""
    p, phase = case.plan, case.job.phase
    said = p.microbatch if phase == "train" else where(p.pp > 1, maximum(p.microbatch, 1), 1) if phase == "prefill" else 1
    return p.dp * said


def _batch(case: Case) -> Any:
    return _divides(together(case), case.job.batch)


def _says_batch(case: Case) -> str:
    p, job, least = case.plan, case.job, together(case)
    by = f"dp {p.dp} x microbatch {p.microbatch} = {least}" if _trains(case) or least != p.dp else f"dp {p.dp}"
    return f"a batch of {job.batch} does not divide by {by}"


def _fills(case: Case) -> Any:
    p = case.plan
    if not _trains(case):
        return True
    least = 2 * p.pp if p.schedule == "dualpipe" else p.pp
    return (p.pp == 1) | (microbatches(p, case.job.batch) >= least)


def _says_fills(case: Case) -> str:
    p, twice = case.plan, "twice " if case.plan.schedule == "dualpipe" else ""
    count = microbatches(p, case.job.batch)
    return f"{count:g} microbatches cannot fill {twice}pp {p.pp} stages; take fewer stages, less dp, or a larger batch"


def _interleaves(case: Case) -> Any:
    p = case.plan
    if p.schedule != "interleaved" or not _trains(case):
        return True
    return _divides(p.pp, microbatches(p, case.job.batch))


def _chunked(case: Case) -> Any:
    p = case.plan
    return (p.virtual == 1) | (p.pp > 1) if p.schedule == "interleaved" else p.virtual == 1


def _says_chunked(case: Case) -> str:
    p = case.plan
    if p.schedule == "interleaved":
        return "virtual stages need pp > 1"
    return f"virtual {p.virtual} needs schedule=interleaved, not {p.schedule}"


def _dual(case: Case) -> Any:
    p = case.plan
    return _divides(2, p.pp) & (microbatches(p, case.job.batch) % 2 == 0) if p.schedule == "dualpipe" and _trains(case) else True


def _context(case: Case) -> Any:
    """Of prompts: a query that is alone meets all keys, of which the fullest rank may have one more than others."""
    p = case.plan
    pieces = 2 * p.cp if case.shape.causal and p.context_kind != "ulysses" else p.cp
    return (p.cp == 1) | (case.job.phase in ("decode", "mixed")) | _divides(pieces, case.job.seq)


def _says_context(case: Case) -> str:
    p = case.plan
    twice = case.shape.causal and p.context_kind != "ulysses"
    why = f"2 x cp {p.cp} pieces, which balance a causal mask" if twice else f"cp {p.cp} pieces"
    return f"{case.job.seq} tokens do not divide into {why}"


def _cached(case: Case) -> Any:
    """Queries of a share of the tokens meet keys of which other ranks hold a share: how is not described."""
    return (case.plan.cp == 1) | (case.job.cached == 0)


def _behind(case: Case) -> Any:
    return case.job.phase != "prefill" or case.job.cached < case.job.seq


def _sequence(case: Case) -> Any:
    p = case.plan
    return _divides(p.tp * p.cp, case.job.prompt) if p.sequence_parallel and case.job.phase in ("train", "prefill") else True


def _ulysses(case: Case) -> Any:
    p = case.plan
    return _divides(p.tp * p.cp, case.shape.heads) if p.context_kind == "ulysses" and case.shape.heads else True


def _expert_ranks(case: Case) -> Any:
    p = case.plan
    return _divides(p.ep * p.etp, p.tp * p.cp * p.dp)


def _experts(case: Case) -> Any:
    p, known = case.plan, case.shape.experts
    return _divides(p.ep, known) if known else (p.ep == 1) & (p.etp == 1)


def _says_experts(case: Case) -> str:
    p, known = case.plan, case.shape.experts
    if not known:
        return f"ep {p.ep} x etp {p.etp}: the model has no experts to spread"
    return f"{known} experts do not divide by ep {p.ep}"


def _in_node(case: Case) -> Any:
    return case.node_ranks == 0 or where(case.plan.tp <= case.node_ranks, True, False)


def _across_nodes(case: Case) -> bool:
    """Asked of single plans only, since it warns."""
    return bool(case.node_ranks == 0 or case.plan.tp > case.node_ranks or groups(case.plan)["tp"].lie(case.node_ranks).domains == 1)


RULES = (
    Rule("devices", "product of degrees is not the devices", _product, _says_product),
    Rule("devices", "a degree below 1", _positive, lambda c: "every degree is a whole number of at least 1"),
    Rule(
        "devices",
        "more devices than the cluster joins",
        lambda c: not c.capacity or c.plan.devices <= c.capacity,
        lambda c: f"{c.plan.devices:,} devices, and the cluster's outermost tier joins {c.capacity:,}",
    ),
    Rule(
        "cp",
        "a mixed step under cp",
        _mixed,
        lambda c: (
            f"cp {c.plan.cp} of a mixed step: how ranks share a chunk by its tokens and sequences by their keys at once is not described"
        ),
    ),
    Rule("pp", "batch and chunk of a mixed step by dp x pp", _shares, _says_shares),
    Rule(
        "schedule",
        "a schedule of training",
        _served,
        lambda c: f"schedule={c.plan.schedule} is of training: forward passes follow each other through the stages (1f1b)",
    ),
    Rule("microbatch", "microbatch where a step has none", _parts, _says_parts),
    Rule("tp", "heads by tp", _heads, lambda c: f"{c.shape.heads} heads do not divide by tp {c.plan.tp}"),
    Rule("tp", "kv heads by tp", _kv_heads, lambda c: f"{c.shape.kv_heads} kv heads and tp {c.plan.tp}: neither divides the other"),
    Rule("pp", "layers by stages", _stages, _says_stages),
    Rule("dp", "batch by dp x microbatch", _batch, _says_batch),
    Rule("pp", "fewer microbatches than stages", _fills, _says_fills),
    Rule("virtual", "virtual stages without interleaving", _chunked, _says_chunked),
    Rule(
        "virtual",
        "microbatches by stages, interleaved",
        _interleaves,
        lambda c: f"{microbatches(c.plan, c.job.batch):g} microbatches do not divide by pp {c.plan.pp}, as interleaving needs",
    ),
    Rule("pp", "DualPipe needs pairs", _dual, lambda c: f"DualPipe needs an even number of stages (pp {c.plan.pp}) and of microbatches"),
    Rule("cp", "tokens by cp", _context, _says_context),
    Rule(
        "pp",
        "an encoder and its decoder on stages",
        lambda c: not c.shape.encoder or c.plan.pp == 1,
        lambda c: "how stages share an encoder, whose result all of its decoder's need, is not described: leave out pp",
    ),
    Rule(
        "cp",
        "images or a source under cp",
        lambda c: (c.plan.cp == 1) | (c.job.images == 0) & (not c.shape.encoder),
        lambda c: "how ranks of context parallelism share images, or the source of an encoder, is not described: leave out cp",
    ),
    Rule(
        "cp",
        "a cached prefix under cp",
        _cached,
        lambda c: "a cached prefix under context parallelism is not described: leave out cp or cached",
    ),
    Rule(
        "cached",
        "a cached prefix of the whole prompt",
        _behind,
        lambda c: f"cached {c.job.cached} leaves no token of seq {c.job.seq} to compute: it is at most {c.job.seq - 1}",
    ),
    Rule(
        "tp",
        "tokens by tp x cp, sequence parallel",
        _sequence,
        lambda c: f"{c.job.prompt} tokens do not divide by tp {c.plan.tp} x cp {c.plan.cp}, as sequence parallelism needs",
    ),
    Rule(
        "cp",
        "heads by tp x cp, Ulysses",
        _ulysses,
        lambda c: f"{c.shape.heads} heads do not divide by tp {c.plan.tp} x cp {c.plan.cp}, as Ulysses needs",
    ),
    Rule(
        "ep",
        "ep x etp by ranks of a stage",
        _expert_ranks,
        lambda c: (
            f"ep {c.plan.ep} x etp {c.plan.etp} = {c.plan.ep * c.plan.etp} does not divide "
            f"tp x cp x dp = {c.plan.tp * c.plan.cp * c.plan.dp}"
        ),
    ),
    Rule("ep", "experts by ep", _experts, _says_experts),
    Rule(
        "tp",
        "tp beyond a node",
        _in_node,
        lambda c: f"tp {c.plan.tp} reaches beyond a node of {c.node_ranks}: its exchanges take the slower network",
        fatal=False,
    ),
    Rule(
        "tp",
        "tp across nodes",
        _across_nodes,
        lambda c: f"tp {c.plan.tp} does not divide a node of {c.node_ranks}: some groups lie in two and take the slower network too",
        fatal=False,
    ),
)
