"""What `roofline plan` and `roofline search` are asked, from words to values: the model, the job, the cluster, the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from roofline.errors import UsageError, did_you_mean
from roofline.plan.job import SIZES

if TYPE_CHECKING:
    from roofline.decide.evaluate import Subject
    from roofline.models.description import Model
    from roofline.plan.job import Job
    from roofline.plan.plan import Plan
    from roofline.plan.validate import PlanProblem
    from roofline.spec.plan import WrittenPlan
    from roofline.units import Dimension

WORKLOADS = (".yaml", ".yml")
"""Endings of workload files, which say model, phase and plan themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The words of the command line."""

    model: str
    cluster: str
    phase: str
    sizes: list[str]
    kv_dtype: str | None
    gradient_dtype: str | None
    optimizer: str
    attention: str
    plan: str | None = None
    devices: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked: a job of a model on a cluster under a plan, with rules that only warn."""

    subject: Subject
    plan: Plan
    noticed: list[PlanProblem] = field(default_factory=list)


def question(given: Given) -> Question:
    """The question with its plan, which obeys all rules.

    Raises:
        InputError: what is wrong with files, sizes or the plan, at its place.
        UsageError: words that are not known, or sizes that are missing.
    """
    from roofline.spec.plan import obeyed, read_plan

    if given.model.endswith(WORKLOADS):
        subject, read = of_workload(given)
    else:
        subject, read = subject_of(given), read_plan(given.plan or "", devices=given.devices)
    read, noticed = obeyed(read, subject.model, subject.job, subject.cluster, given.devices)
    return Question(subject=subject, plan=read.plan, noticed=noticed)


def of_workload(given: Given) -> tuple[Subject, WrittenPlan]:
    """The model, the job and the plan of a workload file, with what the command line changes.

    Raises:
        InputError: what is wrong with the file or the words, at its place.
        UsageError: a file without a model, no cluster, or options that are said in the file.
    """
    from roofline.decide.evaluate import Subject
    from roofline.spec.cluster import load_cluster
    from roofline.spec.model_key import asked
    from roofline.spec.plan import read_plan
    from roofline.spec.source import MapNode, parse, read_source

    root = parse(read_source(given.model))
    if not isinstance(root, MapNode) or "model" not in root.entries:
        raise UsageError(f"{given.model} has no 'model': a plan is of a model and a phase, not of steps")
    words = {"phase": given.phase, "kv_dtype": given.kv_dtype, "gradient_dtype": given.gradient_dtype}
    changed = [*given.sizes, *(f"{key}={value}" for key, value in words.items() if value)]
    found = asked(root, [w for w in changed if given.plan is None or not w.startswith("plan=")])
    if found.expansion.cached:
        raise UsageError(f"{given.model}: a plan does not count a cached prefix; 'roofline analyze' bounds the steps with one")
    cluster = load_cluster(given.cluster) if given.cluster else found.cluster
    if cluster is None:
        raise UsageError("which cluster? add -C dgx-h100, or 'cluster:' to the file")
    own, lora = found.case.job, found.expansion.lora
    adapted: dict[str, Any] = {"trainable": "lora", "lora_rank": lora.rank} if lora else {}
    formats: dict[str, Any] = {"kv_dtype": found.expansion.kv_dtype, "gradient_dtype": found.expansion.gradient_dtype}
    job = replace(own, optimizer=given.optimizer, **formats, **adapted)
    model = found.expansion.model
    _known_optimizer(model, job)
    subject = Subject(
        model=model, how=found.expansion.how, job=job, cluster=cluster, attention=found.expansion.attention, given=found.expansion
    )
    if given.plan is None and found.written is not None:
        return subject, found.written
    return subject, read_plan(given.plan or "", devices=given.devices)


def subject_of(given: Given) -> Subject:
    """The model, the job and the cluster.

    Raises:
        InputError: what is wrong with files or sizes, at its place.
        UsageError: words that are not known, or sizes that are missing.
    """
    from roofline.decide.evaluate import Subject
    from roofline.dtypes import dtype
    from roofline.spec.cluster import load_cluster
    from roofline.spec.model import load_model

    if not given.cluster:
        raise UsageError("which cluster? add -C dgx-h100 ('roofline cluster list' has all)")
    if given.phase not in SIZES:
        said = (
            f"unknown phase '{given.phase}'; {did_you_mean(given.phase, list(SIZES))}" if given.phase else "which phase? add --phase train"
        )
        raise UsageError(said)
    if given.attention not in ("flash", "naive"):
        raise UsageError(f"--attention: unknown '{given.attention}'; {did_you_mean(given.attention, ('flash', 'naive'))}")
    for name in (given.kv_dtype, given.gradient_dtype):
        if name is not None:
            dtype(name)
    job = _job(given)
    model, how, _ = load_model(given.model)
    _known_optimizer(model, job)
    return Subject(model=model, how=how, job=job, cluster=load_cluster(given.cluster), attention=given.attention)


def _known_optimizer(model: Model, job: Job) -> None:
    from roofline.models.memory_states import optimizer_bytes

    optimizer_bytes(job.optimizer, job.weight_dtype or model.dtype)


def _job(given: Given) -> Job:
    from roofline.plan.job import Job
    from roofline.spec.sizes import read_sizes

    wanted = SIZES[given.phase]
    sizes: dict[str, Any] = {**read_sizes(given.sizes, wanted)}
    missing = [name for name in wanted if name not in sizes]
    if missing:
        raise UsageError(f"a {given.phase} step needs {', '.join(missing)}: add {' '.join(f'--set {name}=...' for name in missing)}")
    return Job(
        phase=given.phase, kv_dtype=given.kv_dtype, gradient_dtype=given.gradient_dtype, optimizer=given.optimizer, **sizes
    )  # fmt: skip


def kind_and_shares(cost: str | None, efficiency: str | None) -> tuple[str, Mapping[str, float] | None]:
    """The kind of cost, and stated shares.

    Raises:
        UsageError: an unknown kind, or shares beside a kind that has none.
    """
    from roofline.decide.costs import KINDS, read_efficiency

    if cost is not None and cost not in KINDS:
        raise UsageError(f"--cost: unknown kind '{cost}'; {did_you_mean(cost, KINDS)}")
    if efficiency is None:
        if cost == "efficiency":
            raise UsageError("efficiencies are nobody's default: state them, --efficiency matrix=...,memory=...,link=...")
        return cost or "bound", None
    if cost not in (None, "efficiency"):
        raise UsageError(f"--efficiency is not of a {cost}: leave out --cost {cost}, or --efficiency")
    return "efficiency", read_efficiency(efficiency)


def quantity(text: str, dimension: Dimension, option: str) -> float:
    """A quantity of the command line.

    Raises:
        UsageError: it cannot be read.
    """
    from roofline.units import QuantityError, parse_quantity

    try:
        return float(parse_quantity(text, dimension, allow_zero=option == "--reserve"))
    except QuantityError as error:
        raise UsageError(f"{option}: {error}") from None
