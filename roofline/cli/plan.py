"""``roofline plan``: the time of a step of a model spread over a cluster, what it is made of, and whether it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported, warn

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.report.plan import PlanReport

Phase = Annotated[str, typer.Option("--phase", help="train, prefill, decode or mixed.")]
Cluster_ = Annotated[str, typer.Option("--cluster", "-C", help="Cluster, name or file.")]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="A size: batch=2048 (of all devices), seq=8192, cached=1024, context=8192, chunk=512.")
]
Cost_ = Annotated[str | None, typer.Option("--cost", help="bound or estimate; bound unless --efficiency is given.")]
Efficiency = Annotated[str | None, typer.Option("--efficiency", help="Stated shares of rates: matrix=0.6,memory=0.85,link=0.8.")]
KvDtype = Annotated[str | None, typer.Option("--kv-dtype", help="Format of cached keys and values.")]
DispatchDtype = Annotated[str | None, typer.Option("--dispatch-dtype", help="Format in which tokens travel to their experts.")]
GradientDtype = Annotated[str | None, typer.Option("--gradient-dtype", help="Format of gradients; that of the weights.")]
Optimizer = Annotated[str | None, typer.Option("--optimizer", help="adamw (unless given), adamw_bf16, sgd or sgd_momentum.")]
Attention_ = Annotated[
    str | None, typer.Option("--attention", help="flash, which is taken unless said, or naive with its scores in memory.")
]
Page = Annotated[int | None, typer.Option("--page", min=0, help="Tokens of a page of the cache; 0 for none, as unless given.")]
Reserve = Annotated[str, typer.Option("--reserve", help="Memory set aside for libraries and fragments: '2 GiB'.")]
Format = Annotated[str | None, typer.Option("--format", help="table or json.")]
Output = Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")]


@reported
def command(
    model: Annotated[str, typer.Argument(help="A model by name, a Hugging Face config.json, or a workload file with 'model:'.")],
    cluster: Cluster_ = "",
    phase: Phase = "",
    devices: Annotated[int | None, typer.Option("--devices", min=1, help="How many; the product of the degrees must be it.")] = None,
    plan: Annotated[str | None, typer.Option("--plan", help="How the work is spread: tp=8,pp=16,uneven,zero=1,sp.")] = None,
    settings: Sets = None,
    cost: Cost_ = None,
    efficiency: Efficiency = None,
    achieved: Annotated[str | None, typer.Option("--achieved", help="A rate that devices reach end to end: '430 TFLOP/s'.")] = None,
    kv_dtype: KvDtype = None,
    dispatch_dtype: DispatchDtype = None,
    gradient_dtype: GradientDtype = None,
    optimizer: Optimizer = None,
    attention: Attention_ = None,
    page: Page = None,
    reserve: Reserve = "0 B",
    format_: Format = None,
    output: Output = None,
) -> None:
    """What a step takes under a plan, what it is made of, shares of peaks, and whether it fits.

    Examples:

      roofline plan llama-3.1-405b --phase train -C dgx-h100 --devices 16384 --plan tp=8,pp=16,uneven,sp,zero=1 --set batch=2048
      --set seq=8192

      roofline plan llama-3-70b --phase decode -C dgx-h100 --plan tp=8 --set batch=64 --set context=8192
    """
    from roofline.cli.planning import Given, judged, question

    chosen = chosen_format(format_, output, ("table", "json"))
    given = Given(
        model=model, cluster=cluster, phase=phase, sizes=settings or [], kv_dtype=kv_dtype, gradient_dtype=gradient_dtype,
        dispatch_dtype=dispatch_dtype, optimizer=optimizer, attention=attention, page=page, plan=plan, devices=devices,
    )  # fmt: skip
    found = judged(question(given), cost, efficiency, reserve, achieved)
    warn(found.warnings)
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
    else:
        _show(found, output)


def _show(found: PlanReport, output: str | None) -> None:
    from roofline.report.plan_view import answer, lines, tables
    from roofline.report.text import print_columns, styled

    def draw(console: Console) -> None:
        console.print(styled(answer(found), "bold red" if found.memory.fits is False else "bold"))
        for columns in tables(found):
            console.print()
            print_columns(columns, console, last_is_total=True)
        console.print()
        for line in lines(found):
            console.print(styled(line))

    render(draw, output)
