"""``roofline ingest``: what a profiler or a framework recorded, read with the operators of this accountant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.ingest_module import module
from roofline.cli.ingest_ncu import ncu
from roofline.cli.outcome import chosen_format, deliver, render, reported, warn

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.report.trace import TraceReport

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Read what others recorded: trace FILE, ncu FILE, module PKG:FUNCTION.")
FORMATS = ("table", "json", "csv")


@app.callback()
def ingest() -> None:
    """Read what others recorded."""


app.command("ncu")(ncu)
app.command("module")(module)


@app.command("trace")
@reported
def trace(
    path: Annotated[str, typer.Argument(help="A trace of torch.profiler, .json or .json.gz; '-' is standard input.")],
    hardware: Annotated[str | None, typer.Option("-H", "--hardware", help="Profile name or file, for the roof of each operator.")] = None,
    steps: Annotated[str | None, typer.Option("--steps", help="Only these marked steps, such as 3 or 2-4,7.")] = None,
    link: Annotated[str, typer.Option("--link", help="Link of the profile that carries the collectives, such as nvlink.")] = "",
    workload: Annotated[str | None, typer.Option("--workload", help="Also write the recognised operators as a workload file.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Take what a truncated trace holds.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All operators in the table.")] = False,
    format_: Annotated[str | None, typer.Option("--format", help="table, json or csv.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file; its ending picks the format.")] = None,
) -> None:
    """Where the GPU time of a trace went: operators and their roofs, idle gaps and their causes, what is worth changing.

    Shapes are needed for FLOP and bytes: record with profile(record_shapes=True). Nothing of the trace's metadata is shown.

    Examples:

      roofline ingest trace run.pt.trace.json.gz -H h200-sxm

      roofline ingest trace run.json --steps 3 --workload step.yaml
    """
    from roofline.ingest.trace_report import ingest_trace
    from roofline.report.model import Input
    from roofline.spec.hardware import load_hardware

    chosen = chosen_format(format_, output, FORMATS)
    profile = load_hardware(hardware) if hardware else None
    inputs = [Input.of_hardware(hardware)] if hardware else []
    report = ingest_trace(path, profile, steps=steps, link_name=link, partial=partial, inputs=inputs)
    warn(report.warnings)
    if workload is not None:
        from roofline.ingest.trace_steps import workload_of

        deliver(workload_of(report, "operators of a trace"), workload)
    _show(report, chosen, output, every)


def _show(report: TraceReport, chosen: str, output: str | None, every: bool) -> None:
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(report), output)
        return
    from roofline.report import trace_view

    if chosen == "csv":
        deliver(trace_view.trace_csv(report), output)
        return

    def draw(console: Console) -> None:
        trace_view.print_trace(report, console, every=every)

    render(draw, output)
