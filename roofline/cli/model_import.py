"""``roofline import``: models and their kin to ordinary workload files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import deliver, note, reported

if TYPE_CHECKING:
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
    from roofline.models.write import require_phase, workload_text
    from roofline.spec.model import load_model

    require_phase(phase)
    _known_words(attention, kv_dtype, gradient_dtype, dispatch_dtype)
    model, how, ignored = load_model(config)
    if verbose and ignored:
        note(f"ignored keys: {', '.join(ignored)}")
    numbers = _numbers(settings or [])
    cached, images = (phase == "prefill" and name in numbers for name in ("cached", "images"))
    expansion = Expansion(
        model=model, phase=phase, how=how, kv_dtype=kv_dtype, attention=attention, cached=cached, draft=draft, mtp=mtp, page=page,
        lora=_lora(lora_rank, lora_targets), images=images, gradient_dtype=gradient_dtype, dispatch_dtype=dispatch_dtype,
    )  # fmt: skip
    if plan is None:
        _refuse_carriers(cluster, link)
        deliver(workload_text(expansion, numbers), output)
    else:
        deliver(_planned(expansion, plan, numbers, cluster, link), output)


def _known_words(attention: str, *formats: str | None) -> None:
    from roofline.dtypes import dtype
    from roofline.errors import UsageError, did_you_mean

    for name in formats:
        if name is not None:
            dtype(name)
    if attention not in ("flash", "naive"):
        raise UsageError(f"--attention: unknown '{attention}'; {did_you_mean(attention, ('flash', 'naive'))}")


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
    from roofline.spec.plan import checked, read_plan, with_experts
    from roofline.spec.planned import Carrier, planned_case, planned_params, planned_text

    if cluster is not None and link is not None:
        raise UsageError("--cluster and --link exclude each other")
    read: WrittenPlan = read_plan(plan)
    read = replace(read, plan=with_experts(read, shape_of(expansion.model)))
    expansion = replace(expansion, plan=read.plan)
    carrier = Carrier(cluster=load_cluster(cluster) if cluster is not None else None, link=link)
    checked_settings(planned_params(expansion), numbers, expansion.phase)
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
