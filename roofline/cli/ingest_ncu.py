"""``roofline ingest ncu``: hardware counters beside what a workload counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, render, reported, warn

if TYPE_CHECKING:
    from rich.console import Console

    from roofline.hardware.profile import Hardware
    from roofline.ingest.ncu_compare import Beside
    from roofline.report.counters import CounterReport

GROUPINGS = ("range", "kernel", "launch")


@reported
def ncu(
    path: Annotated[str, typer.Argument(help="A CSV of Nsight Compute, raw or details page; '-' is standard input.")],
    hardware: Annotated[str | None, typer.Option("-H", "--hardware", help="Profile name or file, for roofs; never guessed.")] = None,
    workload: Annotated[str | None, typer.Option("--workload", help="Workload whose steps are compared with the counters.")] = None,
    maps: Annotated[list[str] | None, typer.Option("--map", help="STEP=REGEX on NVTX ranges and kernel names; repeat.")] = None,
    executions: Annotated[int, typer.Option("--executions", min=1, help="How often each step ran while it was profiled.")] = 1,
    by: Annotated[str | None, typer.Option("--by", help="range, kernel or launch; ranges where there are some.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say what was not collected, and how figures are read.")] = False,
    format_: Annotated[str | None, typer.Option("--format", help="table, json or csv.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file; its ending picks the format.")] = None,
) -> None:
    """Measured bytes and FLOP by level, what limits each kernel, and measured over counted bytes with the likely cause.

    Write the file with: ncu --csv --page raw --nvtx --metrics gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,...

    Examples:

      roofline ingest ncu counters.csv -H h200-sxm

      roofline ingest ncu counters.csv -H h200-sxm --workload model.yaml --map 'ffn=^mlp/'
    """
    from roofline.errors import UsageError
    from roofline.ingest.ncu import counter_report
    from roofline.ingest.ncu_read import read_table
    from roofline.spec.hardware import load_hardware

    chosen = chosen_format(format_, output, ("table", "json", "csv"))
    if by is not None and by not in GROUPINGS:
        raise UsageError(f"--by '{by}' is not one of {', '.join(GROUPINGS)}")
    if workload is None and (maps or executions != 1):
        raise UsageError("--map and --executions say how launches belong to the steps of a workload; give --workload")
    if workload is not None and by is not None:
        raise UsageError("with --workload rows are its steps; leave --by out")
    profile = load_hardware(hardware) if hardware else None
    beside = _beside(workload, profile, maps or [], executions) if workload else None
    report = counter_report(read_table(path), by=by, hardware=profile, beside=beside)
    warn(report.warnings)
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(report), output)
    elif chosen == "csv":
        from roofline.report.counters_view import counters_csv

        deliver(counters_csv(report), output)
    else:
        _table(report, output, verbose)


def _beside(name: str, profile: Hardware | None, maps: list[str], executions: int) -> Beside:
    from roofline.ingest.ncu_compare import Beside, patterns_of
    from roofline.report.model import Input
    from roofline.spec.workload import load_workload

    found = load_workload(name)
    inputs = (Input(role="workload", path=found.path, sha256=found.sha256),)
    return Beside(found, profile, patterns_of(maps, [s.id for s in found.steps]), executions, inputs)


def _table(report: CounterReport, output: str | None, verbose: bool) -> None:
    from roofline.report.counters_view import counter_columns, counter_lines, first_line, missing_lines
    from roofline.report.text import can_encode, print_columns, styled

    def draw(console: Console) -> None:
        console.print(styled(first_line(report), "bold"))
        print_columns(counter_columns(report, not can_encode(console)), console)
        for line in counter_lines(report):
            console.print(styled(line))
        if verbose:
            for line in (*missing_lines(report), *(f"{name}: {said}." for name, said in report.conventions.items())):
                console.print(styled(line))

    render(draw, output)
