"""``roofline import``: models and their kin to ordinary workload files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import deliver, note, reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofline.models.expansion import Expansion, Lora
    from roofline.spec.plan import WrittenPlan

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Write workload files from other descriptions: hf CONFIG.")


@app.callback()
def imports() -> None:
    """Write workload files from other descriptions."""


@app.command("hf")
@reported
def hf(
    config: Annotated[str, typer.Argument(help="A Hugging Face config.json, or a shipped model; '-' is standard input.")],
    phase: Annotated[str, typer.Option("--phase", help="prefill, decode, train, mixed or encode.")] = "prefill",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A param: batch=8, seq=2048, context=8192, cached=1024, images=2.")
    ] = None,
    kv_dtype: Annotated[str | None, typer.Option("--kv-dtype", help="Format of cached keys and values.")] = None,
    plan: Annotated[str | None, typer.Option("--plan", help="Steps of one device under a plan: tp=8,pp=4,sp.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Cluster whose tiers carry the collectives of the plan.")] = None,
    link: Annotated[str | None, typer.Option("--link", help="The one link that carries them instead, such as nvlink.")] = None,
    page: Annotated[int, typer.Option("--page", min=0, help="Keys of a page of the cache; whole pages are kept.")] = 0,
    draft: Annotated[int, typer.Option("--draft", min=0, max=64, help="Tokens guessed and verified in a decoding step.")] = 0,
    mtp: Annotated[bool, typer.Option("--mtp", help="The model's own modules guess them, as steps.")] = False,
    attention: Annotated[str, typer.Option("--attention", help="flash or naive.")] = "flash",
    lora_rank: Annotated[int, typer.Option("--lora-rank", min=0, help="Train adapters of this rank, and nothing else.")] = 0,
    lora_targets: Annotated[str | None, typer.Option("--lora-targets", help="Products with adapters: qkv_proj,o_proj.")] = None,
    optimizer: Annotated[
        str | None, typer.Option("--optimizer", help="Of a training step: adamw (unless given), adamw_bf16, sgd or sgd_momentum.")
    ] = None,
    gradient_dtype: Annotated[str | None, typer.Option("--gradient-dtype", help="Format in which gradients are exchanged.")] = None,
    dispatch_dtype: Annotated[str | None, typer.Option("--dispatch-dtype", help="Format in which tokens travel to experts.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name the keys that were ignored.")] = False,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """The steps of a model as a workload that 'roofline analyze' takes. Nothing is fetched and no code of the model is run.

    Examples:

      roofline import hf config.json --phase decode --set batch=8 --set context=8192 -o decode.yaml

      roofline import hf llama-3-70b --phase decode --plan tp=8 --cluster dgx-h100 --set batch=64
    """
    from roofline.models.expansion import Expansion
    from roofline.models.memory_states import optimizer_of
    from roofline.models.phases import params_of
    from roofline.models.write import require_phase, workload_text
    from roofline.plan.job import OPTIMIZER
    from roofline.spec.model import load_model
    from roofline.spec.planned import as_named

    require_phase(phase)
    _known_words(attention, kv_dtype, gradient_dtype, dispatch_dtype)
    optimizer_of(optimizer or OPTIMIZER)
    model, how, ignored = load_model(config)
    if verbose and ignored:
        note(f"ignored keys: {', '.join(ignored)}")
    numbers = _numbers(settings or [])
    cached, images = (phase == "prefill" and name in numbers for name in ("cached", "images"))
    expansion = Expansion(
        model=model, phase=phase, how=how, kv_dtype=kv_dtype, attention=attention, cached=cached, draft=draft, mtp=mtp, page=page,
        lora=_lora(lora_rank, lora_targets), images=images, gradient_dtype=gradient_dtype, dispatch_dtype=dispatch_dtype,
        optimizer=optimizer or OPTIMIZER,
    )  # fmt: skip
    _warn_beyond(expansion, numbers)
    if plan is None:
        _refuse_carriers(cluster, link)
        deliver(workload_text(expansion, as_named(numbers, params_of(expansion), phase)), output)
    else:
        deliver(_planned(expansion, plan, numbers, cluster, link), output)


def _known_words(attention: str, kv_dtype: str | None, *formats: str | None) -> None:
    from roofline.dtypes import cache_dtype, dtype
    from roofline.errors import UsageError, did_you_mean

    if kv_dtype is not None:
        cache_dtype(kv_dtype)
    for name in formats:
        if name is not None:
            dtype(name)
    if attention not in ("flash", "naive"):
        raise UsageError(f"--attention: unknown '{attention}'; {did_you_mean(attention, ('flash', 'naive'))}")


def _warn_unknown(link: str) -> None:
    """Say that no device that is known has a link of this name; one of the user's own may yet get it."""
    from roofline.errors import did_you_mean
    from roofline.spec.find import hardware_names
    from roofline.spec.hardware import load_hardware

    known: set[str] = set()
    for name in hardware_names():
        known.update(load_hardware(name).links)
        if link in known:
            return
    note(f"warning: --link {link}: no device has a link of this name; {did_you_mean(link, sorted(known))}")


def _warn_beyond(expansion: Expansion, numbers: Mapping[str, int]) -> None:
    """Say that sizes go beyond the positions that the model has learnt."""
    from roofline.models.positions import beyond
    from roofline.plan.job import Job

    seq, context, source = (numbers.get(name, 1) for name in ("seq", "context", "source"))
    for said in beyond(expansion.model, Job(phase=expansion.phase, seq=seq, context=context, source=source)):
        note(f"warning: {said}")


def _lora(rank: int, targets: str | None) -> Lora | None:
    from roofline.errors import UsageError
    from roofline.models.expansion import Lora
    from roofline.models.training import TARGETS

    if not rank:
        if targets is not None:
            raise UsageError("--lora-targets needs --lora-rank")
        return None
    return Lora(rank=rank, targets=tuple(t.strip() for t in targets.split(",")) if targets is not None else TARGETS)


def _refuse_carriers(cluster: str | None, link: str | None) -> None:
    from roofline.errors import UsageError

    if cluster is not None or link is not None:
        raise UsageError("--cluster and --link carry the collectives of a plan: add --plan")


def _planned(expansion: Expansion, plan: str, numbers: dict[str, int], cluster: str | None, link: str | None) -> str:
    """The text of one rank under the plan, which obeys all rules."""
    from dataclasses import replace

    from roofline.errors import UsageError
    from roofline.models.shape import shape_of
    from roofline.models.write import checked_settings
    from roofline.spec.cluster import load_cluster
    from roofline.spec.plan import checked, read_plan, with_unsaid
    from roofline.spec.planned import Carrier, as_named, planned_case, planned_params, planned_text

    if cluster is not None and link is not None:
        raise UsageError("--cluster and --link exclude each other")
    if link is not None:
        _warn_unknown(link)
    read: WrittenPlan = read_plan(plan)
    read = replace(read, plan=with_unsaid(read, shape_of(expansion.model), expansion.phase))
    expansion = replace(expansion, plan=read.plan)
    carrier = Carrier(cluster=load_cluster(cluster) if cluster is not None else None, link=link)
    params = planned_params(expansion)
    checked_settings(params, as_named(numbers, params, expansion.phase), expansion.phase)
    for problem in checked(read, planned_case(expansion, numbers, carrier.cluster)):
        note(f"warning: {problem.message}")
    return planned_text(expansion, numbers, carrier)


def _numbers(words: list[str]) -> dict[str, int]:
    """``name=number`` words, each a whole number from 1."""
    from roofline.errors import UsageError

    found: dict[str, int] = {}
    for word in words:
        name, _, text = word.partition("=")
        if not (text.isascii() and text.isdigit() and 0 < len(text) <= 12) or int(text) < 1:
            raise UsageError(f"'{word}' is not name=number, such as batch=8")
        found[name] = int(text)
    return found
