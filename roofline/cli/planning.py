"""What `roofline plan` and `roofline search` are asked, from words to values: the model, the job, the cluster, the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roofline.cli.outcome import settings
from roofline.errors import InputError, UsageError, did_you_mean

if TYPE_CHECKING:
    from roofline.decide.evaluate import Subject
    from roofline.hardware.cluster import Cluster
    from roofline.plan.plan import Plan
    from roofline.plan.validate import PlanProblem
    from roofline.report.plan import PlanReport
    from roofline.spec.model_key import AskedOfModel
    from roofline.spec.plan import WrittenPlan
    from roofline.units import Dimension

WORKLOADS = (".yaml", ".yml")
"""Endings of workload files, which say model, phase and plan themselves."""
SERVING = ("--kv-dtype", "--page")
"""Options of steps that keep keys and values; others that a phase may refuse are of training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The words of the command line; None where nothing is said, so that what a file says stands."""

    model: str
    phase: str
    sizes: list[str]
    cluster: str = ""
    kv_dtype: str | None = None
    gradient_dtype: str | None = None
    dispatch_dtype: str | None = None
    optimizer: str | None = None
    attention: str | None = None
    page: int | None = None
    plan: str | None = None
    devices: int | None = None

    def choices(self) -> dict[str, Any]:
        """What is said of the job beside its sizes, by the names of its fields."""
        words = {name: getattr(self, name) for name in ("kv_dtype", "gradient_dtype", "dispatch_dtype", "optimizer", "page")}
        return {name: word for name, word in words.items() if word is not None}

    def words(self) -> tuple[str, ...]:
        """The file, and what changes what it says of model and job, as `roofline memory` takes it, which does without the format of tokens
        on their way to experts."""
        given = {"phase": self.phase, **self.choices(), "attention": self.attention}
        said = {key: str(v) for key, v in given.items() if v not in (None, "") and key != "dispatch_dtype"}
        options = [word for key, text in said.items() for word in (f"--{key.replace('_', '-')}", text)]
        return (self.model, *options, *(word for size in self.sizes for word in ("--set", size)))


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
        UsageError: a file without a model, or no cluster.
    """
    from roofline.decide.evaluate import Subject
    from roofline.spec.cluster import load_cluster

    found = asked_of_file(given)
    named = given.cluster or (settings.cluster if found.cluster is None else None)
    cluster = load_cluster(named) if named else found.cluster
    if cluster is None:
        raise UsageError("which cluster? add -C dgx-h100, or 'cluster:' to the file")
    require_device(found, cluster)
    own = found.expansion
    subject = Subject(
        model=own.model, how=own.how, job=found.case.job, cluster=cluster, attention=own.attention, stated_execution=found.execution,
        words=_words(given, found),
    )  # fmt: skip
    return subject, found.written


def _words(given: Given, asked: AskedOfModel) -> tuple[str, ...]:
    """How the command line says model and job: by themselves, or where it cannot, by the file with the words that change it."""
    from roofline.spec.find import model_names
    from roofline.spec.model import load_model
    from roofline.spec.sizes import job_words

    own, job = asked.expansion, asked.case.job
    shipped = own.model.name in model_names() and load_model(own.model.name)[:2] == (own.model, own.how)
    if shipped and job.trainable == "full" and not (job.draft or job.mtp):
        return (own.model.name, *job_words(job, own.attention))
    return given.words()


def require_device(asked: AskedOfModel, cluster: Cluster) -> None:
    """Refuse a file that names another device than the cluster has.

    Raises:
        InputError: at the name of the device.
    """
    from roofline.spec.model_key import another_device

    if asked.hardware is not None and (said := another_device(asked.hardware.text, cluster)):
        raise InputError([asked.hardware.problem(said)])


def asked_of_file(given: Given, **options: str) -> AskedOfModel:
    """What a workload file with a model asks, with the words of the command line in place of the file's; ``options`` are further keys.

    Raises:
        InputError: what is wrong with the file or the words, at its place.
        UsageError: a file without a model.
    """
    from roofline.spec.model_key import asked
    from roofline.spec.plan import read_plan
    from roofline.spec.source import MapNode, parse, read_source

    root = parse(read_source(given.model))
    if not isinstance(root, MapNode) or "model" not in root.entries:
        raise UsageError(f"{given.model} has no 'model': a plan is of a model and a phase, not of steps")
    words = {"phase": given.phase or None, "attention": given.attention, **given.choices(), **options}
    plan = None if given.plan is None else read_plan(given.plan, devices=given.devices)
    said = {name: str(word) for name, word in words.items() if word is not None}
    return asked(root, given.sizes, said, plan, given.devices)


def subject_of(given: Given) -> Subject:
    """The model, the job and the cluster.

    Raises:
        InputError: what is wrong with files or sizes, at its place.
        UsageError: words that are not known, or sizes that are missing.
    """
    from roofline.decide.evaluate import Subject
    from roofline.models.phases import require_experts
    from roofline.models.tower_params import own_length
    from roofline.spec.cluster import load_cluster
    from roofline.spec.model import load_model
    from roofline.spec.sizes import job_words, read_job

    model, how, _ = load_model(given.model)
    cluster = given.cluster or settings.cluster
    if not cluster:
        raise UsageError("which cluster? add -C dgx-h100 ('roofline cluster list' has all)")
    known_attention(given.attention)
    job = read_job(given.phase, given.sizes, usual=own_length(model), **given.choices())
    serving, training = {"--kv-dtype": given.kv_dtype, "--page": given.page}, {"--gradient-dtype": given.gradient_dtype}
    refuse_of_phase(job.phase, {**serving, **training, "--optimizer": given.optimizer})
    require_experts(model, given.dispatch_dtype, "--dispatch-dtype")
    attention = given.attention or "flash"
    words = (given.model, *job_words(job, attention))
    return Subject(model=model, how=how, job=job, cluster=load_cluster(cluster), attention=attention, words=words)


def refuse_of_phase(phase: str, said: Mapping[str, object]) -> None:
    """Refuse options that would change nothing: those of training while serving, and the other way round.

    Raises:
        UsageError: the first of them.
    """
    for name, value in said.items():
        if value and (name in SERVING if phase == "train" else name not in SERVING):
            other = "prefill, decode or mixed" if phase == "train" else "train"
            raise UsageError(f"{name} is of --phase {other}, and this is {phase}")


def known_attention(name: str | None) -> None:
    """Refuse an implementation that is none.

    Raises:
        UsageError: with the nearest.
    """
    from roofline.spec.model_keys import ATTENTION

    if name is not None and name not in ATTENTION:
        raise UsageError(f"--attention: unknown '{name}'; {did_you_mean(name, ATTENTION)}")


def judged(asked: Question, cost: str | None, efficiency: str | None, reserve: str, achieved: str | None = None) -> PlanReport:
    """The report of the plan at the kind of cost, with the memory set aside and the stated rate that the words say.

    Raises:
        InputError: shares that cannot be.
        UsageError: words that cannot be read, or that exclude each other.
    """
    from roofline.decide.costs import kind_and_shares
    from roofline.decide.judge import Asked, judge
    from roofline.units import Dimension

    kind, shares = kind_and_shares(cost, efficiency)
    how = Asked(
        kind=kind,
        shares=shares,
        achieved=quantity(achieved, Dimension.FLOP_PER_S, "--achieved") if achieved else None,
        execution=asked.subject.execution,
        reserve_bytes=quantity(reserve, Dimension.BYTES, "--reserve"),
    )
    return judge(asked.subject, asked.plan, how, asked.noticed)


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
