"""``roofline memory``: whether a model fits a device in a phase under a plan, and what would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from roofline.models.description import Model
    from roofline.models.memory_saved import Kept
    from roofline.models.quantised import Quantisation
    from roofline.plan.job import Job
    from roofline.plan.plan import Plan
    from roofline.report.memory import MemoryReport

PHASES = ("prefill", "decode", "train")


@reported
def command(
    config: Annotated[str | None, typer.Argument(help="A model by name, or a Hugging Face config.json; '-' is standard input.")] = None,
    phase: Annotated[str | None, typer.Option("--phase", help="prefill, decode or train; decode unless given.")] = None,
    plan: Annotated[str, typer.Option("--plan", help="How the work is spread: tp=8,pp=4,dp=2,zero=1,sp,recompute=full.")] = "",
    settings: Annotated[list[str] | None, typer.Option("--set", help="A size: batch=8 (of all replicas), seq=2048, context=8192.")] = None,
    hardware: Annotated[str | None, typer.Option("-H", "--hardware", help="Profile or cluster, name or file.")] = None,
    parameters: Annotated[str | None, typer.Option("--parameters", help="Only so many parameters, without a model: 7.5e9.")] = None,
    weight_dtype: Annotated[str | None, typer.Option("--weight-dtype", help="Format of weights; the model's own.")] = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="Format of cached keys and values.")] = None,
    gradient_dtype: Annotated[str | None, typer.Option("--gradient-dtype", help="Format of gradients; that of the weights.")] = None,
    optimizer: Annotated[str, typer.Option("--optimizer", help="adamw, adamw_bf16, sgd or sgd_momentum.")] = "adamw",
    lora: Annotated[int, typer.Option("--lora", min=0, help="Train adapters of this rank beside frozen weights; 0 trains all.")] = 0,
    attention: Annotated[str, typer.Option("--attention", help="In training: flash, or naive with its scores in memory.")] = "flash",
    dropout: Annotated[bool, typer.Option("--dropout", help="Trained with dropout, whose masks are kept.")] = False,
    page: Annotated[int, typer.Option("--page", min=0, help="Tokens of a page of the cache; 0 for none.")] = 0,
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
    from roofline.errors import UsageError

    chosen = chosen_format(format_, output, ("table", "json"))
    if (config is None) == (parameters is None):
        raise UsageError("give a model, or --parameters with a number of them, and not both")
    asked = phase or ("decode" if parameters is None else "train")
    training = {"--gradient-dtype": gradient_dtype, "--lora": lora, "--dropout": dropout, "--attention": attention != "flash"}
    _refuse(asked, training, {"--kv-dtype": kv_dtype, "--page": page})
    formats = {"weight_dtype": weight_dtype, "kv_dtype": kv_dtype, "gradient_dtype": gradient_dtype}
    device = _device(hardware, _bytes(reserve))
    if config is None:
        without = {
            "--set": settings,
            "--lora": lora,
            "--dropout": dropout,
            "--attention": attention != "flash",
            "--phase": asked != "train",
        }
        _refuse_without_model(without)
        found = _of_parameters(str(parameters), plan, formats, optimizer, device)
    else:
        found = _of_model(config, asked, plan, settings or [], formats, (attention, dropout, optimizer, lora), page, device)
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
        return
    _show(found, output)


def _refuse(phase: str, training: Mapping[str, object], serving: Mapping[str, object]) -> None:
    """Refuse what would change nothing: options of training while serving, and the other way round."""
    from roofline.errors import UsageError, did_you_mean

    if phase not in PHASES:
        raise UsageError(f"unknown phase '{phase}'; {did_you_mean(phase, PHASES)}")
    for name, value in (serving if phase == "train" else training).items():
        if value:
            other = "prefill or decode" if phase == "train" else "train"
            raise UsageError(f"{name} is of --phase {other}, and this is {phase}")


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
    text: str, plan: str, formats: dict[str, str | None], optimizer: str, device: tuple[str | None, float | None, float]
) -> MemoryReport:
    """Weights, gradients and states of a number of parameters, which says nothing of activations."""
    from roofline.dtypes import dtype
    from roofline.errors import UsageError
    from roofline.models.memory_states import Each, optimizer_bytes
    from roofline.report.memory import states_report
    from roofline.spec.plan import read_plan
    from roofline.units import QuantityError, read_number, to_float

    try:
        count = to_float(read_number(text), text)
    except QuantityError as error:
        raise UsageError(f"--parameters: {error}") from None
    if not 1 <= count <= 1e18:
        raise UsageError(f"--parameters {text} is out of range: from 1 to 1e18")
    weight = formats["weight_dtype"] or "bf16"
    gradient = formats["gradient_dtype"] or weight
    each = Each(dtype(weight).bytes, dtype(gradient).bytes, optimizer_bytes(optimizer, weight))
    said: dict[str, float | str] = {"weights": weight, "gradients": gradient, "optimizer": optimizer}
    name, size, reserve = device
    return states_report(count, read_plan(plan).plan, each, settings=said, hardware=name, available=size, reserve=reserve)


def _of_model(
    config: str,
    phase: str,
    plan: str,
    words: list[str],
    formats: dict[str, str | None],
    training: tuple[str, bool, str, int],
    page: int,
    device: tuple[str | None, float | None, float],
) -> MemoryReport:
    """The memory of a model."""

    from roofline.dtypes import dtype
    from roofline.errors import UsageError, did_you_mean
    from roofline.models.memory_saved import Kept
    from roofline.report.memory import report_of
    from roofline.report.memory_question import Question
    from roofline.spec.model import load_model
    from roofline.spec.plan import obeyed, read_plan

    attention, dropout, _, _ = training
    if attention not in ("flash", "naive"):
        raise UsageError(f"--attention: unknown '{attention}'; {did_you_mean(attention, ('flash', 'naive'))}")
    for name in formats.values():
        if name is not None:
            dtype(name)
    model, how, _ = load_model(config)
    read = read_plan(plan)
    job = _job(model, phase, words, formats, training, _least(phase, read.plan))
    spread, noticed = obeyed(read, model, job)
    for problem in noticed:
        note(f"warning: {problem.message}")
    name, size, reserve = device
    kept = Kept(attention=attention, dropout=dropout)
    question = Question(model=model, how=how, job=job, plan=spread.plan, kept=kept, page=page, reserve_bytes=reserve)
    return report_of(question, name, size, _settings(job, model, how, kept, page))


def _least(phase: str, plan: Plan) -> int:
    """The smallest batch under a plan: a sequence a replica, in training as many microbatches as fill the pipeline."""
    from roofline.numeric import scalar

    filling = plan.microbatch * plan.pp * (2 if plan.schedule == "dualpipe" else 1) if phase == "train" else 1
    return int(scalar(plan.dp * filling))


def _job(
    model: Model, phase: str, words: list[str], formats: dict[str, str | None], training: tuple[str, bool, str, int], least: int
) -> Job:
    """What is asked of the model; sizes not given are one sequence a replica, and 4096 tokens or all that the model takes."""
    from roofline.models.memory_states import optimizer_bytes
    from roofline.plan.job import Job
    from roofline.spec.sizes import read_sizes

    length = "context" if phase == "decode" else "seq"
    usual = model.positions if model.image[0] else min(model.context or 4096, 4096)
    sizes = {"batch": least, length: usual, **read_sizes(words, ("batch", length))}
    _, _, optimizer, lora = training
    optimizer_bytes(optimizer, model.dtype)
    return Job(
        phase=phase,
        batch=sizes["batch"],
        seq=sizes.get("seq", 1),
        context=sizes.get("context", 0),
        weight_dtype=formats["weight_dtype"],
        kv_dtype=formats["kv_dtype"],
        gradient_dtype=formats["gradient_dtype"],
        optimizer=optimizer,
        trainable="lora" if lora else "full",
        lora_rank=lora,
    )


def _settings(job: Job, model: Model, how: Quantisation | None, kept: Kept, page: int) -> dict[str, float | str]:
    """What was asked, for the report: sizes, and formats and choices that change the answer."""
    from roofline.numeric import scalar

    found: dict[str, float | str] = {"batch": scalar(job.batch)}
    if job.phase != "train":
        found |= {"context": scalar(job.context)} if job.phase == "decode" else {"seq": scalar(job.seq)}
        stored = (how.dtype, how.kv_dtype) if how else (model.dtype, None)
        found |= {"weight_dtype": job.weight_dtype or stored[0], "kv_dtype": job.kv_dtype or stored[1] or model.dtype}
        return {**found, **({"page": page} if page else {})}
    weight = job.weight_dtype or model.dtype
    found |= {"seq": scalar(job.seq), "weight_dtype": weight, "gradient_dtype": job.gradient_dtype or weight, "optimizer": job.optimizer}
    found |= {"attention": kept.attention, "dropout": "yes" if kept.dropout else "no"}
    return {**found, "trainable": f"lora of rank {job.lora_rank}" if job.trainable == "lora" else "full"}


def _show(found: MemoryReport, output: str | None) -> None:
    from roofline.report.memory_view import answer, lines, table
    from roofline.report.text import _line, print_columns

    def draw(console: Console) -> None:
        console.print(_line(answer(found), "bold red" if found.fits is False else "bold"))
        print_columns(table(found), console, last_is_total=True)
        for line in lines(found):
            console.print(_line(line))

    render(draw, output)
