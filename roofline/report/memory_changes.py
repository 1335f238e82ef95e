"""What would fit: the largest settings, and the smallest changes with which it fits.

Changes are ordered by how little they change: first how the work is run (recomputation, sharding, smaller microbatches), which changes
no result; then less work at a time, by how much is lost; then fewer bits; then more devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from roofline.models.shape import case_of, shape_of
from roofline.numeric import scalar
from roofline.plan.job import Job
from roofline.plan.multiples import allowed
from roofline.report.bisection import last_within
from roofline.report.memory_question import Change, Limit, Question
from roofline.spec.plan import written

MOST_DEVICES = 64
"""By how much the devices may be multiplied in a proposed change."""


# --------------------------------------------------------------------------- how much fits
def scalable(job: Job) -> tuple[str, str]:
    """The settings whose largest value is worth knowing in a phase."""
    return {"train": ("microbatch", "seq"), "prefill": ("batch", "seq")}.get(job.phase, ("batch", "context"))


def with_setting(question: Question, name: str, value: int) -> Question:
    """The question with another batch, context or length; another microbatch leaves the number of microbatches as it is."""
    job, plan = question.job, question.plan
    if name == "microbatch":
        batch = job.batch / plan.microbatch * value
        return replace(question, job=replace(job, batch=batch), plan=replace(plan, microbatch=value))
    job = {"batch": replace(job, batch=value), "seq": replace(job, seq=value), "context": replace(job, context=value)}[name]
    return replace(question, job=job)


def largest(question: Question, name: str, available: float) -> Limit:
    """The largest value of a setting that fits, by bisection: more of it never needs less."""
    prefix, step = allowed(case_of(question.model, question.plan, question.job), name)

    def needed(count: int) -> float:
        return with_setting(question, name, prefix + count * step).needed_bytes()

    found = last_within(needed, available)
    if found is None:
        return Limit(setting=name, value=None, needed_bytes=None, reason="the memory does not grow with it")
    if found == 0:
        return Limit(setting=name, value=None, needed_bytes=None, reason=f"not even {prefix + step} fits")
    return Limit(setting=name, value=prefix + found * step, needed_bytes=needed(found))


# --------------------------------------------------------------------------- what would fit
Named = tuple[str, Question]


def changes(question: Question, available: float) -> tuple[Change, ...]:
    """Changes with which it fits, the smallest first; where no single one is enough, several of how the work is run together."""
    ways = [same_work(question), less_work(question, available), fewer_bits(question)]
    found = [c for way in ways for c in fitting(way, available)] + more_devices(question, available)
    if found:
        return tuple(found)
    joined = all_together(question)
    return tuple(list(fitting([joined], available)) or more_devices(joined[1], available, before=f"{joined[0]}, "))


def fitting(candidates: Iterable[Named], available: float) -> Iterator[Change]:
    """Those of the candidates that can be carried out and fit."""
    for said, question in candidates:
        if question.obeys() and (needed := question.needed_bytes()) <= available:
            yield Change(
                said=said,
                plan=written(question.plan, question.job.phase),
                settings=sizes_of(question.job),
                devices=int(scalar(question.plan.devices)),
                needed_bytes=needed,
            )


def sizes_of(job: Job) -> dict[str, str]:
    """The settings of a job that a change may touch, as text."""
    return {
        **{name: f"{scalar(size):.0f}" for name, size in job.sizes.items()},
        **({"kv_dtype": job.kv_dtype} if job.kv_dtype else {}),
        **({"weight_dtype": job.weight_dtype} if job.weight_dtype else {}),
    }


def same_work(question: Question) -> Iterator[Named]:
    """The same step run otherwise: nothing about its result or its devices changes."""
    plan = question.plan
    if question.job.phase != "train":
        return
    modes = ("none", "selective", "full")
    for mode in modes[modes.index(plan.recompute) + 1 :]:
        yield f"recompute={mode}", replace(question, plan=replace(plan, recompute=mode))
    if plan.tp != 1 and not plan.sequence_parallel:
        yield "sp", replace(question, plan=replace(plan, sequence_parallel=True))
    for stage in range(plan.zero + 1, 4) if plan.cp * plan.dp != 1 else ():
        yield f"zero={stage}", replace(question, plan=replace(plan, zero=stage))
    smaller = int(scalar(plan.microbatch)) // 2
    while smaller >= 1:
        yield f"microbatch={smaller}", replace(question, plan=replace(plan, microbatch=smaller))
        smaller //= 2


def less_work(question: Question, available: float) -> Iterator[Named]:
    """A smaller batch or a shorter context, the one of which less is lost first."""
    found: list[tuple[float, str, int]] = []
    for name in scalable(question.job):
        limit = largest(question, name, available) if name != "microbatch" else None
        asked = scalar(getattr(question.job, name)) if name != "microbatch" else 0
        if limit is not None and limit.value is not None and limit.value < asked:
            found.append((1 - limit.value / asked, name, limit.value))
    for _, name, value in sorted(found):
        yield f"{name}={value}", with_setting(question, name, value)


def fewer_bits(question: Question) -> Iterator[Named]:
    """Keys and values, and then weights, in 8 bits while serving."""
    if question.job.phase == "train":
        return
    cached = replace(question, job=replace(question.job, kv_dtype="fp8"))
    yield "kv_dtype=fp8", cached
    if question.how is None and question.job.weight_dtype is None:
        yield "weight_dtype=fp8", replace(question, job=replace(question.job, weight_dtype="fp8"))
        yield "kv_dtype=fp8, weight_dtype=fp8", replace(cached, job=replace(cached.job, weight_dtype="fp8"))


def more_devices(question: Question, available: float, before: str = "") -> list[Change]:
    """The fewest with which it fits along each axis: tp, pp, and dp where replicas have fewer sequences or share states."""
    factors = [2**i for i in range(1, MOST_DEVICES.bit_length())]
    found = []
    for way in (_wider, _deeper, _more_replicas):
        candidates = ((before + said, changed) for factor in factors for said, changed in way(question, factor))
        found += list(islice(fitting(candidates, available), 1))
    return sorted(found, key=lambda change: change.devices)


def _wider(question: Question, factor: int) -> Iterator[Named]:
    plan = question.plan
    degree = int(scalar(plan.tp)) * factor
    split = shape_of(question.model).experts > 0 and plan.ep == 1 and plan.etp == plan.tp
    yield f"tp={degree}", replace(question, plan=replace(plan, tp=degree, etp=degree if split else plan.etp))


def _deeper(question: Question, factor: int) -> Iterator[Named]:
    """More stages, uneven where layers do not divide, and no fewer microbatches than fill them."""
    plan, job = question.plan, question.job
    degree = int(scalar(plan.pp)) * factor
    uneven = plan.uneven or len(question.model.layers) % (degree * int(scalar(plan.virtual))) > 0
    fill = int(scalar(plan.dp * plan.microbatch)) * degree if job.phase == "train" else 0
    batch = max(int(scalar(job.batch)), fill)
    said = f"pp={degree}" + (", uneven" if uneven and not plan.uneven else "") + (f", batch={batch}" if batch > job.batch else "")
    yield said, replace(question, plan=replace(plan, pp=degree, uneven=uneven), job=replace(job, batch=batch))


def _more_replicas(question: Question, factor: int) -> Iterator[Named]:
    plan = question.plan
    if question.job.phase != "train" or plan.zero:
        degree = int(scalar(plan.dp)) * factor
        yield f"dp={degree}", replace(question, plan=replace(plan, dp=degree))


def all_together(question: Question) -> Named:
    """Everything about how the work is run that saves memory; while serving, 8 bits."""
    plan, job = question.plan, question.job
    if job.phase != "train":
        *_, last = fewer_bits(question)
        return last
    sharded = 3 if plan.cp * plan.dp != 1 else plan.zero
    changed = replace(plan, recompute="full", zero=sharded, sequence_parallel=plan.tp != 1, microbatch=1)
    words = [w for w in ("recompute=full", f"zero={sharded}" if sharded else "", "sp" if plan.tp != 1 else "", "microbatch=1") if w]
    return ", ".join(words), replace(question, plan=changed)
