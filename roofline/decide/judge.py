"""The report of one plan: its time at one kind of cost, what it is made of, shares of peaks, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from roofline import __version__
from roofline.decide.band import band_s
from roofline.decide.costs import FOREIGN, Coster, EstimateCoster, RateCoster, coster_of, matrix_rate
from roofline.decide.evaluate import Evaluation, Evaluator, Subject
from roofline.decide.utilisation import RULES, leaves_memory_roof, model_flop
from roofline.errors import UsageError
from roofline.hardware.profile import Absent, si
from roofline.models.count import all_weights
from roofline.models.memory import PARTS
from roofline.models.memory_saved import Kept
from roofline.models.positions import BEYOND, beyond
from roofline.numeric import scalar
from roofline.ops.base import whole
from roofline.plan.job import Job
from roofline.plan.pipeline import idle_fraction, layers_of_stages, left_open, microbatch
from roofline.plan.plan import Plan, groups
from roofline.plan.validate import PlanProblem
from roofline.predict.estimate.estimator import NoParameters
from roofline.report.columns import seconds as shown
from roofline.report.memory_question import Question
from roofline.report.model import Notice, Scalar
from roofline.report.plan import SCHEMA, PlanMemory, PlanReport, Rates, Schedule, StepTime, Utilisation
from roofline.spec.find import cluster_names, find_cluster
from roofline.spec.plan import written

CONVENTIONS = {
    "batch": "sequences of a step on all devices together",
    "bound": "every operator at published rates with all of it overlapped; exchanges without latency; parts that are waited for add up",
    "memory": "bytes of one device of the fullest stage; 1 GB = 1e9 B",
    "mfu": "model FLOP of a step over devices x dense peak x time; attention causal: (s + 1) / 2 keys, full: s keys, products: none of it; "
    "six_nd: 6 N D (2 N D without a backward pass), N with the input embedding",
    "hfu": "matrix FLOP as executed, recomputation included; a causal mask executes s / 2 keys a query, of which MFU counts (s + 1) / 2",
    "mbu": "weights and cache read for a token over memory bandwidth x time",
    "bubble_fraction": "idle over ideal time of equal stages, gradients of weights a third of a microbatch; (p - 1) / m in prefill, "
    "in decode (p - m) / m with fewer microbatches m than stages p",
    "stages": "a prefill sends whole prompts through its stages, in equal parts of microbatch sequences: its bound is of this schedule",
    "experts": "even routing without replacement: a token goes once to each rank that holds experts of it, over rails once to a node, "
    "and comes back once, summed there (DeepSeek-V3, arXiv 2412.19437, section 3.2.2)",
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
    evaluator = Evaluator(subject, coster)
    found = _evaluation(evaluator, plan, unavailable)
    chosen = found is not None and left_open(plan, subject.job)
    plan = found.plan if found else plan
    flops = {rule: scalar(model_flop(subject.model, subject.job, rule, plan.dp * plan.pp)) for rule in RULES}
    rule = rule_of(subject)
    time = _stated(asked.achieved, subject, plan, flops[rule]) if asked.achieved else _time(found, evaluator)
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
        plan=written(plan, subject.job.phase),
        degrees=_degrees(plan, subject.job),
        schedule=_schedule(subject, plan, chosen=chosen),
        time=time,
        rates=_rates(subject, time, devices, unavailable),
        utilisation=_utilisation(subject, plan, coster, found, time, flops, unavailable),
        memory=_memory(subject, plan, asked.reserve_bytes),
        conventions=CONVENTIONS,
        warnings=tuple(_warnings(subject, plan, coster, noticed or [])),
        unavailable=unavailable,
        memory_words=_memory_words(subject, plan, asked.reserve_bytes),
    )


def _evaluation(evaluator: Evaluator, plan: Plan, unavailable: dict[str, str]) -> Evaluation | None:
    """The plan's time; nothing, with the reason, where there is none."""
    try:
        return evaluator.evaluate(plan)
    except NoParameters as err:
        unavailable["time"] = str(err)
        return None


def rule_of(subject: Subject) -> str:
    """The rule of attention that the mathematics of the model asks for."""
    return "causal" if subject.model.kind == "decoder" else "full"


def _stated(rate: float, subject: Subject, plan: Plan, flop: float) -> StepTime:
    """The time at a rate of model FLOP that every device is said to reach, which no plan does that its own bound keeps from it."""
    peak = si(subject.cluster.device.matrix_engine(subject.model.dtype)[1])
    if peak is not None and rate > peak and subject.how is None:
        raise UsageError(f"{rate / 1e12:g} TFLOP/s are more than the {peak / 1e12:g} that a device has in {subject.model.dtype}, dense")
    label = f"stated: every device reaches {rate / 1e12:g} TFLOP/s of model FLOP"
    seconds = flop / (scalar(plan.devices) * rate)
    least = scalar(Evaluator(subject, coster_of("bound", subject.cluster)).evaluate(plan).step_s)
    if seconds < least:
        reached = flop / (scalar(plan.devices) * least)
        raise UsageError(
            f"--achieved: at {rate / 1e12:g} TFLOP/s the step takes {shown(seconds)}, and its bound under this plan is {shown(least)}: at "
            f"most {reached / 1e12:.4g} TFLOP/s are reached, more only if more of its exchanges overlap (overlap=)"
        )
    return StepTime(
        kind="rate", label=label, step_s=seconds, low_s=None, high_s=None, parts_s={}, by_limiter_s={},
        binds=None, binds_share=None, without_it_speedup=None, next=None,
    )  # fmt: skip


def _time(one: Evaluation | None, evaluator: Evaluator) -> StepTime | None:
    if one is None:
        return None
    step, coster = scalar(one.step_s), evaluator.coster
    low, high = band_s(evaluator, coster, one.plan) if isinstance(coster, EstimateCoster) else (None, None)
    parts = {name: scalar(seconds) for name, seconds in one.parts.named().items()}
    by = _of_step(parts["compute"], {name: scalar(seconds) for name, seconds in one.by.items()})
    ranked = _ranked(parts, by)
    first, share = (ranked[0][0], ranked[0][1] / step) if ranked and step else (None, None)
    return StepTime(
        kind=coster.kind,
        label=coster.label,
        step_s=step,
        low_s=None if low is None else min(step, low),
        high_s=None if high is None else max(step, high),
        parts_s=parts,
        by_limiter_s=dict(sorted(by.items())),
        binds=first,
        binds_share=share,
        without_it_speedup=1 / (1 - share) if share is not None and share < 1 else None,
        next=ranked[1][0] if len(ranked) > 1 else None,
    )


def _of_step(compute_s: float, by: Mapping[str, float]) -> dict[str, float]:
    """The compute of a step by what decides it, in the shares of a microbatch."""
    whole = sum(by.values())
    return {name: compute_s * seconds / whole for name, seconds in by.items()} if whole else {}


def _ranked(parts: Mapping[str, float], by: Mapping[str, float]) -> list[tuple[str, float]]:
    """What a step's time goes to, longest first; compute by what decides it."""
    split = {f"compute.{name}": seconds for name, seconds in by.items()}
    named = {**split, **{name: s for name, s in parts.items() if name != "compute" or not split}}
    return sorted(((n, s) for n, s in named.items() if s > 0), key=lambda pair: -pair[1])


def _rates(subject: Subject, time: StepTime | None, devices: int, unavailable: dict[str, str]) -> Rates | None:
    if time is None:
        return None
    if subject.job.draft:
        unavailable["rates"] = f"of {subject.job.draft} guessed tokens a sequence nobody says how many are accepted"
        return None
    job, tokens = subject.job, scalar(subject.job.tokens)
    decode, lacking = job.phase in ("decode", "mixed"), _without_first_token(subject)
    if lacking:
        unavailable["ttft_s"] = lacking
    return Rates(
        tokens_per_step=tokens,
        tokens_per_s=tokens / time.step_s,
        tokens_per_s_per_device=tokens / time.step_s / devices,
        tokens_per_s_per_user=1 / time.step_s if decode else None,
        ttft_s=time.step_s if job.phase == "prefill" and not lacking else None,
        tpot_s=time.step_s if decode else None,
    )


def _without_first_token(subject: Subject) -> str | None:
    """Why a prefill has no time to a first token."""
    if subject.job.phase != "prefill":
        return None
    if subject.model.kind == "encoder":
        return f"'{subject.model.model_type}' is an encoder and generates no tokens"
    if subject.model.encoder is not None:
        return "the encoder runs before the decoder reads its prompt: --phase encode of 'roofline import hf' has its steps"
    return None


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


def _memory_words(subject: Subject, plan: Plan, reserve: float) -> tuple[str, ...]:
    """The same question about memory; a cluster by its name where that finds it, else by its file."""
    if not subject.words:
        return ()
    cluster, known = subject.cluster, subject.cluster.name in cluster_names()
    name = cluster.name if known and str(find_cluster(cluster.name)) == cluster.path else cluster.path or cluster.name
    kept = ("--reserve", f"{reserve:.17g} B") if reserve else ()
    return (*subject.words, "--plan", written(plan, subject.job.phase), "-H", name, *kept)


def _schedule(subject: Subject, plan: Plan, *, chosen: bool) -> Schedule:
    return Schedule(
        microbatches=scalar(subject.job.batch / (plan.dp * microbatch(plan, subject.job))),
        bubble_fraction=scalar(idle_fraction(plan, subject.job)),
        stage_layers=tuple(int(scalar(n)) for n in _stages(plan, len(subject.model.layers))),
        chosen=chosen,
    )


def _stages(plan: Plan, layers: int) -> tuple[float, ...]:
    if scalar(plan.pp) == 1:
        return (layers,)
    first, middle, last = (scalar(n) for n in layers_of_stages(plan, layers))
    return (first, *([middle] * (int(scalar(plan.pp)) - 2)), last)


def job_of(subject: Subject) -> dict[str, Scalar]:
    """The job in words and numbers: what its phase needs, and formats."""
    job = subject.job
    found: dict[str, Scalar] = {"phase": job.phase, **{name: scalar(size) for name, size in job.sizes.items()}}
    found.update({name: getattr(job, name) for name in ("draft", "page") if getattr(job, name)})
    found.update({"mtp": True} if job.mtp else {})
    if job.phase == "train":
        found.update({"optimizer": job.optimizer, "gradient_dtype": job.gradient_dtype, "attention": subject.attention})
    found.update({"dispatch_dtype": job.dispatch_dtype} if job.dispatch_dtype else {})
    return {**found, "kv_dtype": job.kv_dtype, "weight_dtype": job.weight_dtype}


def _degrees(plan: Plan, job: Job) -> dict[str, Scalar]:
    words: dict[str, Scalar] = {a: int(scalar(getattr(plan, a))) for a in ("tp", "cp", "pp", "dp", "ep", "etp", "virtual")}
    return {
        **words,
        "microbatch": scalar(whole(microbatch(plan, job))),
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
    found += [Notice(code=BEYOND, message=said) for said in beyond(subject.model, subject.job)]
    if coster.kind == "efficiency":
        found += [Notice(code="W021", message=said) for said in _without_latency(subject, plan)]
    if coster.kind == "estimate" and getattr(coster, "prior", False):
        found.append(Notice(code="W022", message=FOREIGN))
    if isinstance(coster, RateCoster):
        found += [Notice(code="W003", message=f"{n} has no rate and cannot bind: {why}") for n, why in sorted(_unrated(coster).items())]
    return found


def _unrated(coster: RateCoster) -> dict[str, str]:
    return {name: why for name, why in coster.missing.items() if name not in ("l2", "smem")}


def _without_latency(subject: Subject, plan: Plan) -> list[str]:
    """Tiers that the plan uses and whose latency nobody states."""
    tiers, all_groups = subject.cluster.tiers, groups(plan).values()
    used = [t for at, t in enumerate(tiers) if at == 0 or any(scalar(g.lie(tiers[at - 1].ranks).domains) > 1 for g in all_groups)]
    lacking = [t for t in used if isinstance(t.latency, Absent)]
    return [f"no latency of {t.name} is counted: {t.latency.reason}" for t in lacking if isinstance(t.latency, Absent)]
