"""``roofline advise``: what would help, by how much end to end, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported, warn

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.report.advice import AdviceReport

FORMATS = ("table", "json", "markdown")


@reported
def command(
    subject: Annotated[str, typer.Argument(help="A workload, a report (JSON of analyze or measure), or a trace of torch.profiler.")],
    hardware: Annotated[
        str | None, typer.Option("-H", "--hardware", help="Profile name or file; else the one that the input names.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Of a workload: a param, a setting or step.field: key=value.")
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option("--also", help="Another device to consider; 'vendor' for all of the vendor; repeat.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="Rank by estimate or bound; auto: by estimate where every step has one.")] = "auto",
    least: Annotated[float, typer.Option("--least", help="Smallest gain end to end that is advised.")] = 1.02,
    allow: Annotated[
        str, typer.Option("--allow", help="The most that results may suffer: exact, rounding, approximate, or 'changes the model'.")
    ] = "approximate",
    top: Annotated[int, typer.Option("--top", min=1, max=1000, help="How many changes to show.")] = 10,
    link: Annotated[str, typer.Option("--link", help="Of a trace: the link of the profile that carries collectives.")] = "",
    steps: Annotated[str | None, typer.Option("--steps", help="Of a trace: only these marked steps, such as 3 or 2-4,7.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Take what a truncated trace holds.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Conditions, all commands, and what was tried in vain.")] = False,
    format_: Annotated[str | None, typer.Option("--format", help="table, json or markdown.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file; its ending picks the format.")] = None,
) -> None:
    """Changes that would help, each with its gain where it is made, its gain end to end, its cost, and what binds afterwards.

    Every change is made to the workload and analysed again; nothing is advised that has no number. The path combines them: the
    best, then the best of what is left, until the next gains less than --least.

    Examples:

      roofline advise gpt2_medium -H h200-sxm

      roofline advise measured.json --allow rounding -v

      roofline advise run.pt.trace.json.gz -H h200-sxm --format markdown -o advice.md
    """
    from roofline.cli.advised import Given, advised

    chosen = chosen_format(format_, output, FORMATS)
    given = Given(
        subject=subject, hardware=hardware, overrides=tuple(overrides or ()), also=tuple(also or ()), by=by, least=least, allow=allow,
        top=top, link=link,
        steps=steps, partial=partial,
    )  # fmt: skip
    found = advised(given)
    warn(found.warnings)
    _show(found, chosen, output, verbose)


def _show(found: AdviceReport, chosen: str, output: str | None, verbose: bool) -> None:
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(found), output)
        return
    from roofline.report import advice_view as view

    if chosen == "markdown":
        deliver(view.to_markdown(found, verbose=verbose), output)
        return
    from roofline.report.text import print_columns, styled

    def draw(console: Console) -> None:
        console.print(styled(view.answer(found), "bold"))
        console.print(styled(view.limits(found)))
        if found.advice:
            console.print()
            print_columns(view.columns(found, found.advice), console)
        for part in (view.path_lines(found), view.check_lines(found, found.advice) if not verbose else []):
            if part:
                console.print()
            for line in part:
                console.print(styled(line), soft_wrap=True)
        console.print()
        for line in [*view.closing_lines(found), *(view.verbose_lines(found, found.advice) if verbose else [])]:
            console.print(styled(line), soft_wrap=True)

    render(draw, output)
