"""Models spread over devices: `memory`, `plan_step`, `search`. Sizes are numbers; plans and formats are the words of the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roofline.errors import UsageError
from roofline.hardware.cluster import Cluster
from roofline.hardware.profile import Hardware, si
from roofline.library.files import Path, hardware_of, load_cluster
from roofline.numeric import scalar
from roofline.plan.job import SIZES, Job

if TYPE_CHECKING:
    from roofline.decide.evaluate import Subject
    from roofline.models.description import Model
    from roofline.models.quantised import Quantisation
    from roofline.plan.validate import PlanProblem
    from roofline.report.memory import MemoryReport
    from roofline.report.plan import PlanReport
    from roofline.report.search import SearchReport
    from roofline.spec.plan import WrittenPlan


def memory(
    model: Path,
    phase: str,
    sizes: Mapping[str, int],
    *,
    plan: str = "",
    hardware: Hardware | Path | None = None,
    kv_dtype: str | None = None,
    reserve_bytes: float = 0.0,
) -> MemoryReport:
    """What one device of the fullest stage must hold, whether it fits, and the smallest change with which it does.

    ``model`` is a shipped name or a ``config.json``, ``phase`` train, prefill, decode or mixed, ``sizes`` its batch (``global_batch`` is
    another name of it: the sequences on all devices together), seq or context, chunk, and ``cached`` tokens of each prompt.
    Without ``hardware`` there is no verdict. Training is with AdamW and flash attention; the command line knows others.

    Raises:
        UsageError, InputError: a phase, name, size or plan that cannot be.

    >>> found = memory("llama-3-70b", "decode", {"batch": 64, "context": 8192}, plan="tp=8", hardware="h100-sxm")
    >>> found.fits, round(found.needed_bytes / 1e9, 1)
    (True, 39.1)
    """
    from roofline.report.memory import report_of
    from roofline.report.memory_question import Question

    found, how = _model(model)
    job = _job(found, phase, sizes, kv_dtype=kv_dtype)
    read, _ = _checked(plan, job, found)
    question = Question(model=found, how=how, job=job, plan=read.plan, reserve_bytes=reserve_bytes)
    settings: dict[str, float | str] = {name: scalar(size) for name, size in job.sizes.items()}
    settings |= {"kv_dtype": kv_dtype} if kv_dtype else {}
    if hardware is None:
        return report_of(question, None, None, settings)
    device = hardware_of(hardware)[0]
    size = si(device.levels["hbm"].size)
    if size is None:
        raise UsageError(f"{device.name} states no size of its memory")
    return report_of(question, device.name, size, settings)


def plan_step(
    model: Path,
    cluster: Cluster | Path,
    phase: str,
    sizes: Mapping[str, int],
    *,
    plan: str,
    cost: str | None = None,
    efficiency: Mapping[str, float] | None = None,
    kv_dtype: str | None = None,
    dispatch_dtype: str | None = None,
) -> PlanReport:
    """What a step of a model takes under a plan on a cluster, what it is made of, shares of peaks, and whether it fits.

    ``cost`` is bound or estimate; with ``efficiency``, stated shares of the rates of matrix, memory and link, it is neither.

    Raises:
        UsageError, InputError: a name, size or plan that cannot be, or a plan that breaks a rule.

    >>> found = plan_step("llama-3-70b", "dgx-h100", "decode", {"batch": 64, "context": 8192}, plan="tp=8")
    >>> found.devices, found.memory.fits
    (8, True)
    """
    from roofline.decide.judge import Asked, judge

    subject = _subject(model, cluster, phase, sizes, kv_dtype, dispatch_dtype)
    read, noticed = _checked(plan, subject.job, subject.model, subject.cluster)
    kind, shares = _kind(cost, efficiency)
    return judge(subject, read.plan, Asked(kind=kind, shares=shares, execution=subject.execution), noticed)


def search(
    model: Path,
    cluster: Cluster | Path,
    phase: str,
    sizes: Mapping[str, int],
    *,
    devices: int | Sequence[int],
    fixed: str = "",
    objective: str = "time",
    top: int = 10,
    cost: str | None = None,
    efficiency: Mapping[str, float] | None = None,
    kv_dtype: str | None = None,
    dispatch_dtype: str | None = None,
) -> SearchReport:
    """All plans of a job on so many devices: the best of those that fit, and what no other beats in time and memory.

    ``fixed`` is what must be so, such as ``"tp=8,sp"``; ``objective`` is time, cost (time of all devices) or memory.

    Raises:
        UsageError, InputError: a name, size or plan that cannot be.

    >>> found = search("llama-3-70b", "dgx-h100", "decode", {"batch": 64, "context": 8192}, devices=8, top=1)
    >>> found.best[0].plan
    'tp=8'
    """
    from roofline.decide.costs import coster_of
    from roofline.decide.rank import report_of
    from roofline.decide.search import search as of
    from roofline.decide.space import fixed as with_fixed
    from roofline.decide.space import space_of
    from roofline.models.shape import shape_of
    from roofline.spec.plan import held, read_plan

    numbers = (devices,) if isinstance(devices, int) else tuple(devices)
    if not numbers or min(numbers) < 1:
        raise UsageError(f"devices={devices!r}: give a whole number from 1, or several to choose from")
    subject = _subject(model, cluster, phase, sizes, kv_dtype, dispatch_dtype)
    kind, shares = _kind(cost, efficiency)
    coster = coster_of(kind, subject.cluster, shares=shares, execution=subject.execution)
    space = space_of(subject.job, shape_of(subject.model), subject.attention)
    if fixed:
        read = read_plan(fixed, name="fixed")
        held(read, subject.model, subject.job, read.nodes)
        space = with_fixed(space, read.plan, read.nodes)
    found = of(subject, numbers, coster, space, objective=objective, top=top)
    return report_of(found, subject, numbers, coster, objective)


def _job(model: Model, phase: str, sizes: Mapping[str, int], phases: Sequence[str] = tuple(SIZES), **formats: Any) -> Job:
    from roofline.models.tower_params import own_length
    from roofline.spec.sizes import read_job

    words = [f"{name}={value}" for name, value in sizes.items()]
    return read_job(phase, words, where="sizes", phases=phases, usual=own_length(model), **formats)


def _model(name: Path) -> tuple[Model, Quantisation | None]:
    from roofline.spec.model import load_model

    return load_model(os.fspath(name))[:2]


def _subject(
    model: Path, cluster: Cluster | Path, phase: str, sizes: Mapping[str, int], kv_dtype: str | None, dispatch_dtype: str | None
) -> Subject:
    from roofline.decide.evaluate import Subject
    from roofline.spec.sizes import job_words

    found, how = _model(model)
    job = _job(found, phase, sizes, kv_dtype=kv_dtype, dispatch_dtype=dispatch_dtype)
    over, words = cluster if isinstance(cluster, Cluster) else load_cluster(cluster), (os.fspath(model), *job_words(job))
    return Subject(model=found, how=how, job=job, cluster=over, words=words)


def _checked(plan: str, job: Job, model: Model, cluster: Cluster | None = None) -> tuple[WrittenPlan, list[PlanProblem]]:
    """The plan, which obeys all rules, and the rules that warn."""
    from roofline.spec.plan import obeyed, read_plan

    return obeyed(read_plan(plan, name="plan"), model, job, cluster)


def _kind(cost: str | None, efficiency: Mapping[str, float] | None) -> tuple[str, Mapping[str, float] | None]:
    from roofline.decide.costs import kind_and_shares

    said = None if efficiency is None else ",".join(f"{name}={value}" for name, value in efficiency.items())
    return kind_and_shares(cost, said, option="")
