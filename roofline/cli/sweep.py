"""``roofline sweep``: a workload at every point of a grid, and where what binds changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported, settings

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.decide.sweep import Asked
    from roofline.report.sweep import SweepReport


@reported
def command(
    workload: Annotated[str, typer.Argument(help="Workload file, name of a shipped workload, or - for stdin.", show_default=False)],
    varied: Annotated[
        list[str] | None, typer.Option("--set", help="What varies: key=1..512:x2, 100..1000:+50, or a list 1Ki,4Ki; one value stays.")
    ] = None,
    hardware: Annotated[str | None, typer.Option("-H", "--hardware", help="Profile name or file.")] = None,
    step: Annotated[str | None, typer.Option("--step", help="Follow this step's limiter as well.")] = None,
    tokens: Annotated[str | None, typer.Option("--tokens", help="Tokens of one execution, over the params: batch.")] = None,
    format_: Annotated[str | None, typer.Option("--format", help="table, json or csv.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file; its ending picks the format.")] = None,
) -> None:
    """Bound, estimate and memory at every combination of values; says at which value the limiter changes.

    Examples:

      roofline sweep qwen3_8b_decode --set batch=1..512:x2 --set context=1Ki,8Ki --tokens batch

      roofline sweep gemm_8k -H h200-sxm --set gemm.m=1..8Ki:x2 --format csv
    """
    chosen = chosen_format(format_, output, ("table", "json", "csv"))
    report = _report(_asked(workload, varied or [], hardware, step, tokens))
    if not settings.quiet:
        for name, reason in report.unavailable.items():
            if name == "estimate":
                note(f"no estimate: {reason}")
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(report), output)
    elif chosen == "csv":
        from roofline.report.sweep_lines import to_csv

        deliver(to_csv(report), output)
    else:
        render(lambda console: _draw(report, console), output)


def _asked(workload: str, varied: list[str], hardware: str | None, step: str | None, tokens: str | None) -> Asked:
    from roofline.decide.sweep import Asked
    from roofline.spec.axes import read_axes
    from roofline.spec.find import find_workload
    from roofline.spec.source import read_source

    fixed, axes = read_axes(varied)
    source = read_source(str(find_workload(workload)))
    return Asked(
        source=source,
        overrides=tuple(fixed),
        axes=tuple(axes),
        hardware=hardware,
        otherwise=settings.hardware,
        step=step,
        tokens=tokens,
    )


def _report(asked: Asked) -> SweepReport:
    from roofline.decide.sweep import devices, first_of, sweep
    from roofline.decide.sweep_report import report_of
    from roofline.report.model import Input

    first = first_of(asked)
    grid = sweep(asked)
    profiles = devices(asked)
    inputs = [Input(role="workload", path=asked.source.path, sha256=first.sha256)]
    for name, text in profiles.items():
        inputs.append(Input.of_text("hardware", name, text))
    return report_of(asked, grid, first.name, tuple(profiles), tuple(inputs))


def _draw(report: SweepReport, console: Console) -> None:
    from roofline.report.sweep_lines import MOST_ROWS, columns, sentences
    from roofline.report.text import can_encode, print_columns, styled

    for sentence in sentences(report):
        console.print(styled(sentence))
    console.print()
    console.print(styled(f"{report.workload} on {', '.join(report.hardware)}: {len(report.points)} points", "bold"))
    print_columns(columns(report, not can_encode(console)), console)
    if len(report.points) > MOST_ROWS:
        console.print(styled(f"(the first {MOST_ROWS} of {len(report.points)} points; --format csv has all)", "dim"))
