"""``roofline op``: one operator without a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, reported, warn

if TYPE_CHECKING:
    from roofline.hardware.profile import Hardware
    from roofline.report.model import Report
    from roofline.workload.workload import Workload


@reported
def command(
    name: Annotated[str, typer.Argument(help="Operator, as in 'roofline operators list'.")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="Its keys: m=1 n=28672 k=8192 dtype=bf16; execution=graph.", show_default=False)
    ] = None,
    hardware: Annotated[str | None, typer.Option("-H", "--hardware", help="Profile name or file.")] = None,
    crossover: Annotated[
        str | None, typer.Option("--crossover", help="Dimension whose compute-bound value is sought; m for a GEMM.")
    ] = None,
    format_: Annotated[str | None, typer.Option("--format", help="text or json (the report of 'analyze').")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Work, bytes at every level, the bound and the estimate of a single operator.

    Examples:

      roofline op gemm m=1 n=28672 k=8192 dtype=bf16 -H h100-sxm

      roofline op attention batch=1 heads=16 q_len=4096 kv_len=4096 head_dim=128 dtype=bf16 pass=backward -H b200-sxm
    """
    from roofline.report.build import analyze
    from roofline.spec.hardware import load_hardware
    from roofline.spec.workload import one_step

    chosen = chosen_format(format_, output, ("text", "json"))
    workload = one_step(name, settings or [])
    device = load_hardware(hardware) if hardware else None
    report = analyze(workload, device)
    warn(report.warnings)
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(report), output)
        return
    deliver("\n".join(_lines(workload, report, device, crossover)) + "\n", output)


def _lines(workload: Workload, report: Report, device: Hardware | None, crossover: str | None) -> list[str]:
    from roofline.predict.crossover import crossover as find
    from roofline.predict.crossover import dimensions
    from roofline.report.single import lines, tile_lines

    step = workload.steps[0]
    found = lines(report)
    if device is not None:
        found += tile_lines(step, device)
    dim = crossover or ("m" if "m" in dimensions(step.op) else None)
    if dim and device is not None:
        value = find(step.op, dim, device)
        found.append(f"Compute-bound from {dim} = {value} on." if value else f"Memory-bound whatever {dim} is.")
    return found
