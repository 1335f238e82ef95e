"""The report of one plan: its time at one kind of cost, what it is made of, shares of peaks, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from roofline import __version__
from roofline.decide.costs import Coster, RateCoster, coster_of, matrix_rate
from roofline.decide.evaluate import Evaluation, Evaluator, Subject
from roofline.decide.utilisation import RULES, leaves_memory_roof, model_flop
from roofline.errors import UsageError
from roofline.hardware.profile import Absent, si
from roofline.models.count import all_weights
from roofline.models.memory import PARTS
from roofline.models.memory_saved import Kept
from roofline.numeric import scalar
from roofline.plan.pipeline import bubble_fraction, layers_of_stages, microbatches
from roofline.plan.plan import Plan, groups
from roofline.plan.validate import PlanProblem
from roofline.predict.estimate.estimator import NoParameters
from roofline.report.memory_question import Question
from roofline.report.model import Notice, Scalar
from roofline.report.plan import SCHEMA, PlanMemory, PlanReport, Rates, Schedule, StepTime, Utilisation
from roofline.spec.plan import written

CONVENTIONS = {
    "batch": "sequences of a step on all devices together",
    "bound": "every operator at published rates with all of it overlapped; exchanges without latency; parts that are waited for add up",
    "memory": "bytes of one device of the fullest stage; 1 GB = 1e9 B",
    "mfu": "model FLOP of a step over devices x dense peak x time; attention causal: (s + 1) / 2 keys, full: s keys, products: none of it; "
    "six_nd: 6 N D (2 N D without a backward pass), N with the input embedding",
    "hfu": "matrix FLOP as executed, recomputation included",
    "mbu": "weights and cache read for a token over memory bandwidth x time",
    "bubble_fraction": "idle over ideal time of equal stages, gradients of weights a third of a microbatch",
    "overlap": "what the plan overlaps is waited for only as far as compute does not cover it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How to judge: the kind of cost with stated shares or a stated reached rate (FLOP/s of a device), and bytes set aside."""

    kind: str = "bound"
    shares: Mapping[str, float] | None = None
    achieved: float | None = None
    execution: str = "eager"
    reserve_bytes: float = 0.0


def judge(subject: Subject, plan: Plan, asked: Asked, noticed: list[PlanProblem] | None = None) -> PlanReport:
    """The report of a plan that obeys the rules; ``noticed`` are rules that warn."""
    unavailable: dict[str, str] = {}
    coster = coster_of(asked.kind, subject.cluster, shares=asked.shares, execution=asked.execution)
    found = _evaluations(subject, plan, coster, unavailable)
    flops = {rule: scalar(model_flop(subject.model, subject.job, rule)) for rule in RULES}
    rule = rule_of(subject)
    time = _stated(asked, subject, plan, flops[rule]) if asked.achieved else _time(found, coster)
    devices = int(scalar(plan.devices))
    return PlanReport(
        schema=SCHEMA,
        tool=f"roofline {__version__}",
        model=subject.model.name,
        parameters=sum(w.elements for w in all_weights(subject.model)),
        cluster=subject.cluster.name,
        device=subject.cluster.device.name,
        devices=devices,
        job=job_of(subject),
        plan=written(plan),
        degrees=_degrees(plan),
        schedule=_schedule(subject, plan),
        time=time,
        rates=_rates(subject, time, devices),
        utilisation=_utilisation(subject, plan, coster, found[0] if found else None, time, flops, unavailable),
        memory=_memory(subject, plan, asked.reserve_bytes),
        conventions=CONVENTIONS,
        warnings=tuple(_warnings(subject, plan, coster, noticed or [])),
        unavailable=unavailable,
    )


def _evaluations(subject: Subject, plan: Plan, coster: Coster, unavailable: dict[str, str]) -> list[Evaluation]:
    """The plan's time and, for an estimate, the ends of its band; nothing, with the reason, where there is no estimate."""
    picks = [lambda c: c.time_s] + ([lambda c: c.low_s, lambda c: c.high_s] if coster.kind == "estimate" else [])
    try:
        return [Evaluator(subject, coster, pick).evaluate(plan) for pick in picks]
    except NoParameters as err:
        unavailable["time"] = str(err)
        return []


def rule_of(subject: Subject) -> str:
    """The rule of attention that the mathematics of the model asks for."""
    return "causal" if subject.model.kind == "decoder" else "full"


def _stated(asked: Asked, subject: Subject, plan: Plan, flop: float) -> StepTime:
    rate = asked.achieved or 1.0
    peak = si(subject.cluster.device.matrix_engine(subject.model.dtype)[1])
    if peak is not None and rate > peak and subject.how is None:
        raise UsageError(f"{rate / 1e12:g} TFLOP/s are more than the {peak / 1e12:g} that a device has in {subject.model.dtype}, dense")
    label = f"stated: every device reaches {rate / 1e12:g} TFLOP/s of model FLOP"
    seconds = flop / (scalar(plan.devices) * rate)
    return StepTime(
        kind="rate", label=label, step_s=seconds, low_s=None, high_s=None, parts_s={}, by_limiter_s={},
        binds=None, binds_share=None, without_it_speedup=None, next=None,
    )  # fmt: skip


def _time(found: list[Evaluation], coster: Coster) -> StepTime | None:
    if not found:
        return None
    one = found[0]
    step = scalar(one.step_s)
    parts = {name: scalar(seconds) for name, seconds in one.parts.named().items()}
    by = {name: scalar(seconds) for name, seconds in one.by.items()}
    ranked = _ranked(parts, by)
    first, share = (ranked[0][0], ranked[0][1] / step) if ranked and step else (None, None)
    return StepTime(
        kind=coster.kind,
        label=coster.label,
        step_s=step,
        low_s=scalar(found[1].step_s) if len(found) > 1 else None,
        high_s=scalar(found[2].step_s) if len(found) > 1 else None,
        parts_s=parts,
        by_limiter_s=dict(sorted(by.items())),
        binds=first,
        binds_share=share,
        without_it_speedup=1 / (1 - share) if share is not None and share < 1 else None,
        next=ranked[1][0] if len(ranked) > 1 else None,
    )


def _ranked(parts: Mapping[str, float], by: Mapping[str, float]) -> list[tuple[str, float]]:
    """What a step's time goes to, longest first; compute by what decides it."""
    whole = sum(by.values())
    split = {f"compute.{name}": parts["compute"] * seconds / whole for name, seconds in by.items()} if whole else {}
    named = {**split, **{name: s for name, s in parts.items() if name != "compute" or not split}}
    return sorted(((n, s) for n, s in named.items() if s > 0), key=lambda pair: -pair[1])


def _rates(subject: Subject, time: StepTime | None, devices: int) -> Rates | None:
    if time is None:
        return None
    job, tokens = subject.job, scalar(subject.job.tokens)
    decode = job.phase in ("decode", "mixed")
    return Rates(
        tokens_per_step=tokens,
        tokens_per_s=tokens / time.step_s,
        tokens_per_s_per_device=tokens / time.step_s / devices,
        tokens_per_s_per_user=1 / time.step_s if decode else None,
        ttft_s=time.step_s if job.phase == "prefill" else None,
        tpot_s=time.step_s if decode else None,
    )


def _utilisation(
    subject: Subject,
    plan: Plan,
    coster: Coster,
    found: Evaluation | None,
    time: StepTime | None,
    flops: dict[str, float],
    unavailable: dict[str, str],
) -> Utilisation:
    device, dtype = subject.cluster.device, product_dtype(subject)
    rate = matrix_rate(device, dtype)
    room = rate.value * scalar(plan.devices) * time.step_s if rate and time else None
    executed = scalar(found.flop) if found and time and time.kind != "rate" else None
    memory_rate = si(device.levels["hbm"].bandwidth)
    decode = subject.job.phase == "decode"
    mbu = None
    if found and time and decode and memory_rate:
        mbu = scalar(found.resident_bytes) / (memory_rate * time.step_s)
    else:
        unavailable["mbu"] = "it is a figure of decode" if not decode else "no time, or no bandwidth of memory is published"
    adapted = subject.job.trainable != "full"
    if adapted:
        unavailable["mfu"] = "its rules count the gradients of all weights, of which adapters leave out most"
    elif rate is None:
        unavailable["mfu"] = f"{device.name} has no published rate of {dtype} products"
    if executed is None:
        unavailable["hfu"] = "a stated rate says nothing of what is executed" if time and time.kind == "rate" else "no time"
    return Utilisation(
        peak_flop_per_s=rate.value if rate else None,
        peak_dtype=dtype,
        model_flop=flops,
        rule=rule_of(subject),
        mfu={name: flop / room if room and not adapted else None for name, flop in flops.items()},
        hfu=executed / room if room and executed is not None else None,
        mbu=mbu,
        leaves_memory_at_batch=_leaves(subject, plan, coster, unavailable),
    )


def product_dtype(subject: Subject) -> str:
    """The format that products run in: the model's, or that of its quantised products."""
    computes = subject.how.computes if subject.how is not None and subject.job.phase != "train" else None
    return computes or subject.model.dtype


def _leaves(subject: Subject, plan: Plan, coster: Coster, unavailable: dict[str, str]) -> int | None:
    if subject.job.phase != "decode" or not isinstance(coster, RateCoster):
        unavailable["leaves_memory_at_batch"] = "it is asked of decode, at published or stated rates"
        return None
    evaluator, layers = Evaluator(subject, coster), len(subject.model.layers)

    def seconds(batch: int) -> tuple[float, float]:
        timed = evaluator.timed(replace(plan, microbatch=batch))
        whole = timed.layer.plus(timed.head, 1 / layers)
        return scalar(whole.tensor_s), scalar(whole.memory_s)

    found = leaves_memory_roof(seconds)
    if found is None:
        unavailable["leaves_memory_at_batch"] = "memory binds at any batch: the cache of each sequence is read for it alone"
    return found


def _memory(subject: Subject, plan: Plan, reserve: float) -> PlanMemory:
    question = Question(
        model=subject.model, how=subject.how, job=subject.job, plan=plan, kept=Kept(attention=subject.attention), reserve_bytes=reserve
    )
    memory = question.memory()
    parts = {name: scalar(getattr(memory, name)) for name in PARTS}
    needed = question.needed_bytes()
    available = si(subject.cluster.device.levels["hbm"].size)
    return PlanMemory(
        parts_bytes={**parts, "reserve": reserve},
        needed_bytes=needed,
        available_bytes=available,
        fits=None if available is None else needed <= available,
        shortfall_bytes=None if available is None else max(0.0, needed - available),
    )


def _schedule(subject: Subject, plan: Plan) -> Schedule:
    training = subject.job.phase == "train"
    count = scalar(microbatches(plan, subject.job.batch)) if training else scalar(plan.pp)
    idle = scalar(bubble_fraction(plan, count)) if training else 0.0
    return Schedule(
        microbatches=count, bubble_fraction=idle, stage_layers=tuple(int(scalar(n)) for n in _stages(plan, len(subject.model.layers)))
    )


def _stages(plan: Plan, layers: int) -> tuple[float, ...]:
    if scalar(plan.pp) == 1:
        return (layers,)
    first, middle, last = (scalar(n) for n in layers_of_stages(plan, layers))
    return (first, *([middle] * (int(scalar(plan.pp)) - 2)), last)


def job_of(subject: Subject) -> dict[str, Scalar]:
    """The job in words and numbers: what its phase needs, and formats."""
    job = subject.job
    found: dict[str, Scalar] = {"phase": job.phase, "batch": scalar(job.batch)}
    lengths = {"train": ("seq",), "prefill": ("seq",), "decode": ("context",), "mixed": ("context", "chunk")}[job.phase]
    found.update({name: scalar(getattr(job, name)) for name in lengths})
    if job.phase == "train":
        found.update({"optimizer": job.optimizer, "gradient_dtype": job.gradient_dtype, "attention": subject.attention})
    return {**found, "kv_dtype": job.kv_dtype, "weight_dtype": job.weight_dtype}


def _degrees(plan: Plan) -> dict[str, Scalar]:
    words: dict[str, Scalar] = {a: int(scalar(getattr(plan, a))) for a in ("tp", "cp", "pp", "dp", "ep", "etp", "virtual", "microbatch")}
    return {
        **words,
        "sequence_parallel": plan.sequence_parallel,
        "context": plan.context_kind,
        "zero": plan.zero,
        "schedule": plan.schedule,
        "recompute": plan.recompute,
        "order": plan.order,
        "overlap": "+".join(plan.overlap) or "none",
    }


def _warnings(subject: Subject, plan: Plan, coster: Coster, noticed: list[PlanProblem]) -> list[Notice]:
    found = [Notice(code="W020", message=p.message) for p in noticed]
    if coster.kind == "efficiency":
        found += [Notice(code="W021", message=said) for said in _without_latency(subject, plan)]
    if coster.kind == "estimate" and getattr(coster, "prior", False):
        found.append(Notice(code="W022", message="some parameters were fitted on another device; their bands are widened"))
    if isinstance(coster, RateCoster):
        found += [Notice(code="W003", message=f"{n} has no rate and cannot bind: {why}") for n, why in sorted(_unrated(coster).items())]
    return found


def _unrated(coster: RateCoster) -> dict[str, str]:
    return {name: why for name, why in coster.missing.items() if name not in ("l2", "smem")}


def _without_latency(subject: Subject, plan: Plan) -> list[str]:
    """Tiers that the plan uses and whose latency nobody states."""
    reach = max(scalar(g.size * g.stride) for g in groups(plan).values())
    used = [t for at, t in enumerate(subject.cluster.tiers) if at == 0 or subject.cluster.tiers[at - 1].ranks < reach]
    lacking = [t for t in used if isinstance(t.latency, Absent)]
    return [f"no latency of {t.name} is counted: {t.latency.reason}" for t in lacking if isinstance(t.latency, Absent)]
