"""``roofline memory``: whether a model fits a device in a phase under a plan, and what would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from roofline.cli.planning import Given
    from roofline.models.description import Model
    from roofline.models.memory_saved import Kept
    from roofline.models.quantised import Quantisation
    from roofline.plan.job import Job
    from roofline.plan.plan import Plan
    from roofline.report.memory import MemoryReport
    from roofline.spec.plan import WrittenPlan


@reported
def command(
    config: Annotated[
        str | None,
        typer.Argument(help="A model by name, a Hugging Face config.json ('-' is standard input), or a workload file with 'model:'."),
    ] = None,
    phase: Annotated[str | None, typer.Option("--phase", help="prefill, decode, mixed or train; decode unless given.")] = None,
    plan: Annotated[str | None, typer.Option("--plan", help="How the work is spread: tp=8,pp=4,dp=2,zero=1,sp,recompute=full.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A size: batch=8 (of all replicas), seq=2048, cached=1024, context=8192.")
    ] = None,
    hardware: Annotated[str | None, typer.Option("-H", "--hardware", help="Profile or cluster, name or file.")] = None,
    parameters: Annotated[str | None, typer.Option("--parameters", help="Only so many parameters, without a model: 7.5e9.")] = None,
    weight_dtype: Annotated[str | None, typer.Option("--weight-dtype", help="Format of weights; the model's own.")] = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="Format of cached keys and values.")] = None,
    gradient_dtype: Annotated[str | None, typer.Option("--gradient-dtype", help="Format of gradients; that of the weights.")] = None,
    optimizer: Annotated[str | None, typer.Option("--optimizer", help="adamw unless given, adamw_bf16, sgd or sgd_momentum.")] = None,
    lora: Annotated[int, typer.Option("--lora", min=0, help="Train adapters of this rank beside frozen weights; 0 trains all.")] = 0,
    attention: Annotated[str | None, typer.Option("--attention", help="flash unless given, or naive with its scores in memory.")] = None,
    dropout: Annotated[bool, typer.Option("--dropout", help="Trained with dropout, whose masks are kept.")] = False,
    page: Annotated[int | None, typer.Option("--page", min=0, help="Tokens of a page of the cache; 0 for none, as unless given.")] = None,
    reserve: Annotated[str, typer.Option("--reserve", help="Set aside for libraries and fragments: '2 GiB'.")] = "0 B",
    format_: Annotated[str | None, typer.Option("--format", help="table or json.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """What one device must hold, whether it fits, and the smallest change with which it does.

    Examples:

      roofline memory llama-3-70b --plan tp=8 --set batch=64 --set context=8192 -H h100-sxm

      roofline memory gpt-22b --phase train --plan tp=8,microbatch=4,sp --set batch=4 --set seq=2048

      roofline memory --parameters 7.5e9 --plan dp=64,zero=2
    """
    from roofline.cli.planning import Given
    from roofline.errors import UsageError

    chosen = chosen_format(format_, output, ("table", "json"))
    if (config is None) == (parameters is None):
        raise UsageError("give a model, or --parameters with a number of them, and not both")
    room = _bytes(reserve)
    if config is None:
        without = {
            "--set": settings, "--lora": lora, "--dropout": dropout, "--attention": attention, "--phase": phase not in (None, "train"),
            "--kv-dtype": kv_dtype, "--page": page,
        }  # fmt: skip
        _refuse_without_model(without)
        found = _of_parameters(str(parameters), plan or "", (weight_dtype, gradient_dtype), optimizer, _device(hardware, room))
    else:
        given = Given(
            model=config, phase=phase or "", sizes=settings or [], kv_dtype=kv_dtype, gradient_dtype=gradient_dtype, optimizer=optimizer,
            attention=attention, page=page, plan=plan,
        )  # fmt: skip
        found = _of_model(given, _Kept(weight_dtype=weight_dtype, lora=lora, dropout=dropout), hardware, room)
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
        return
    _show(found, output)


def _refuse_without_model(given: Mapping[str, object]) -> None:
    from roofline.errors import UsageError

    for name, value in given.items():
        if value:
            said = "only training keeps more of a parameter than its weight" if name == "--phase" else f"{name} needs a model"
            raise UsageError(f"--parameters: {said}")


def _device(name: str | None, reserve: float) -> tuple[str | None, float | None, float]:
    """The device's name, the size of its memory, and what is set aside of it."""
    if name is None:
        return None, None, reserve
    from roofline.errors import UsageError
    from roofline.hardware.profile import si
    from roofline.spec.hardware import load_hardware

    device = load_hardware(name)
    size = si(device.levels["hbm"].size)
    if size is None:
        raise UsageError(f"{device.name} states no size of its memory")
    return device.name, size, reserve


def _bytes(text: str) -> float:
    from roofline.errors import UsageError
    from roofline.units import Dimension, QuantityError, parse_quantity

    try:
        return float(parse_quantity(text, Dimension.BYTES, allow_zero=True))
    except QuantityError as error:
        raise UsageError(f"--reserve: {error}") from None


def _of_parameters(
    text: str, plan: str, formats: tuple[str | None, str | None], optimizer: str | None, device: tuple[str | None, float | None, float]
) -> MemoryReport:
    """Weights, gradients and states of a number of parameters, which says nothing of activations."""
    from roofline.dtypes import dtype
    from roofline.errors import UsageError
    from roofline.models.memory_states import Each, optimizer_bytes
    from roofline.plan.job import OPTIMIZER
    from roofline.report.memory import states_report
    from roofline.spec.plan import read_plan
    from roofline.units import QuantityError, read_number, to_float

    try:
        count = to_float(read_number(text), text)
    except QuantityError as error:
        raise UsageError(f"--parameters: {error}") from None
    if not 1 <= count <= 1e18:
        raise UsageError(f"--parameters {text} is out of range: from 1 to 1e18")
    weight, named = formats[0] or "bf16", optimizer or OPTIMIZER
    gradient = formats[1] or weight
    each = Each(dtype(weight).bytes, dtype(gradient).bytes, optimizer_bytes(named, weight))
    said: dict[str, float | str] = {"weights": weight, "gradients": gradient, "optimizer": named}
    name, size, reserve = device
    return states_report(count, _of_states(read_plan(plan)), each, settings=said, hardware=name, available=size, reserve=reserve)


def _of_states(read: WrittenPlan) -> Plan:
    """The plan, which says nothing but over how many devices parameters and their states are shared."""
    from roofline.errors import InputError
    from roofline.plan.validate import PlanProblem

    other = [key for key in read.nodes if key not in ("tp", "cp", "pp", "dp", "zero")]
    if other:
        why = "changes nothing of weights, gradients and states of a number of parameters: name a model, or leave it out"
        raise InputError(read.located([PlanProblem(key, "without a model", f"{key} {why}") for key in other]))
    return read.plan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What only this command asks about: formats and parts that are kept."""

    weight_dtype: str | None
    lora: int
    dropout: bool


def _of_model(given: Given, more: _Kept, hardware: str | None, reserve: float) -> MemoryReport:
    """The memory of a model, by name or of a workload file."""
    from roofline.cli.planning import WORKLOADS, known_attention
    from roofline.models.memory_saved import Kept
    from roofline.models.positions import beyond
    from roofline.report.memory import report_of
    from roofline.report.memory_question import Question
    from roofline.spec.plan import obeyed

    known_attention(given.attention)
    asked = _of_file(given, more) if given.model.endswith(WORKLOADS) else _of_words(given, more)
    spread, noticed = obeyed(asked.read, asked.model, asked.job)
    for said in (*(problem.message for problem in noticed), *beyond(asked.model, asked.job)):
        note(f"warning: {said}")
    name, size, _ = _device(hardware or asked.hardware, reserve)
    kept = Kept(attention=asked.attention, dropout=more.dropout)
    question = Question(model=asked.model, how=asked.how, job=asked.job, plan=spread.plan, kept=kept, reserve_bytes=reserve)
    return report_of(question, name, size, _settings(asked.job, asked.model, asked.how, kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A model and what it is asked, from words or from a file, and the device that a file names."""

    model: Model
    how: Quantisation | None
    job: Job
    read: WrittenPlan
    attention: str
    hardware: str | None = None


def _of_words(given: Given, more: _Kept) -> _Asked:
    """Sizes not given are one sequence a replica, and 4096 tokens or all that the model takes."""
    from roofline.cli.planning import refuse_of_phase
    from roofline.models.tower_params import own_length, with_towers
    from roofline.plan.job import SIZES
    from roofline.spec.model import load_model
    from roofline.spec.plan import read_plan
    from roofline.spec.sizes import read_job

    phase = given.phase or "decode"
    if phase in SIZES:
        of_phase = {"--kv-dtype": given.kv_dtype, "--page": given.page, "--gradient-dtype": given.gradient_dtype}
        of_phase |= {"--optimizer": given.optimizer, "--lora": more.lora, "--dropout": more.dropout}
        refuse_of_phase(phase, of_phase)
    model, how, _ = load_model(given.model)
    read = read_plan(given.plan or "")
    length = min(model.context or 4096, 4096)
    usual = {"batch": _least(phase, read.plan), "context" if phase in ("decode", "mixed") else "seq": length, **own_length(model)}
    adapted = {"trainable": "lora", "lora_rank": more.lora} if more.lora else {}
    own: dict[str, Any] = {"weight_dtype": more.weight_dtype, **adapted}
    job = with_towers(model, read_job(phase, given.sizes, usual=usual, **given.choices(), **own))
    return _Asked(model=model, how=how, job=job, read=read, attention=given.attention or "flash")


def _of_file(given: Given, more: _Kept) -> _Asked:
    """What a workload file with a model says, with what the command line changes."""
    from dataclasses import replace

    from roofline.cli.planning import asked_of_file, refuse_of_phase, require_device
    from roofline.dtypes import dtype

    options = {"trainable": "lora", "lora_rank": str(more.lora)} if more.lora else {}
    found = asked_of_file(given, **options)
    refuse_of_phase(found.case.job.phase, {"--dropout": more.dropout})
    job = found.case.job
    if more.weight_dtype is not None:
        dtype(more.weight_dtype)
        job = replace(job, weight_dtype=more.weight_dtype)
    if found.cluster is not None:
        require_device(found, found.cluster)
    own, hardware = found.expansion, found.hardware.text if found.hardware else found.cluster.name if found.cluster else None
    return _Asked(model=own.model, how=own.how, job=job, read=found.written, attention=own.attention, hardware=hardware)


def _least(phase: str, plan: Plan) -> int:
    """The smallest batch under a plan: a sequence a replica, in training as many microbatches as fill the pipeline."""
    from roofline.numeric import scalar

    filling = plan.microbatch * plan.pp * (2 if plan.schedule == "dualpipe" else 1) if phase == "train" else 1
    return int(scalar(plan.dp * filling))


def _settings(job: Job, model: Model, how: Quantisation | None, kept: Kept) -> dict[str, float | str]:
    """What was asked, for the report: sizes, and formats and choices that change the answer."""
    from roofline.numeric import scalar

    found: dict[str, float | str] = {name: scalar(size) for name, size in job.sizes.items()}
    found |= {"draft": job.draft} if job.draft else {}
    if job.phase != "train":
        stored = (how.dtype, how.kv_dtype) if how else (model.dtype, None)
        found |= {"weight_dtype": job.weight_dtype or stored[0]}
        found |= {} if model.kind == "encoder" else {"kv_dtype": job.kv_dtype or stored[1] or model.dtype}
        found |= {"attention": kept.attention} if kept.attention != "flash" else {}
        return {**found, **({"page": job.page} if job.page else {}), **({"mtp": "yes"} if job.mtp else {})}
    weight = job.weight_dtype or model.dtype
    found |= {"weight_dtype": weight, "gradient_dtype": job.gradient_dtype or weight, "optimizer": job.optimizer}
    found |= {"attention": kept.attention, "dropout": "yes" if kept.dropout else "no"}
    return {**found, "trainable": f"lora of rank {job.lora_rank}" if job.trainable == "lora" else "full"}


def _show(found: MemoryReport, output: str | None) -> None:
    from roofline.report.memory_view import answer, lines, table
    from roofline.report.text import print_columns, styled

    def draw(console: Console) -> None:
        console.print(styled(answer(found), "bold red" if found.fits is False else "bold"))
        print_columns(table(found), console, last_is_total=True)
        for line in lines(found):
            console.print(styled(line))

    render(draw, output)
