"""``roofline measure``: run the real kernels and set them beside the prediction."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.collectives import among, measure_collectives
from roofline.cli.outcome import chosen_format, note, reported, settings, warn
from roofline.cli.report import show
from roofline.cli.session import REFUSED, locked, profile_of, refuse, seconds_of

if TYPE_CHECKING:
    from roofline.hardware.profile import Hardware
    from roofline.measure.base import Device, Procedure
    from roofline.measure.interrupt import Interruption
    from roofline.measure.plan import Plan
    from roofline.report.model import MeasuredResult, Report

FORMATS = ("table", "json", "csv", "markdown")


@reported
def command(
    workload: Annotated[
        str | None, typer.Argument(help="Workload file or shipped name: each step, then the whole.", show_default=False)
    ] = None,
    kernel: Annotated[list[str] | None, typer.Option("--kernel", "-k", help="Kernel by name, or your module:function; repeat.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Field of the kernel's operator, or of the workload: key=value.")
    ] = None,
    implementation: Annotated[str | None, typer.Option("--implementation", help="Family of the kernel's operator, as ladder.")] = None,
    operator: Annotated[str | None, typer.Option("--op", help="Operator that your own module:function computes.")] = None,
    direction: Annotated[str | None, typer.Option("--pass", help="forward, backward or forward+backward, with --kernel.")] = None,
    hardware: Annotated[
        str, typer.Option("-H", "--hardware", help="Profile: auto (by the device's name), a name, a file, or none.")
    ] = "auto",
    device: Annotated[str, typer.Option("--device", help="auto (the first GPU), cuda:N, or cpu.")] = "auto",
    cache: Annotated[
        str | None, typer.Option("--cache", help="cold: rotate over inputs larger than L2 (default on a GPU); warm: the same again.")
    ] = None,
    launch: Annotated[
        str | None, typer.Option("--launch", help="graph: captured, no host cost (default on a GPU); eager: from Python.")
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="burst: rests between rounds; sustained: back to back.")] = "burst",
    in_turns: Annotated[
        bool, typer.Option("--in-turns", help="Several kernels sample by sample in turn, compared with the first; warm inputs.")
    ] = False,
    time_limit: Annotated[str, typer.Option("--time-limit", help="Longest time for one kernel, such as '10 s'.")] = "10 s",
    lock: Annotated[bool, typer.Option("--lock/--no-lock", help="Refuse while another process measures on this device.")] = True,
    format_: Annotated[str | None, typer.Option("--format", help="table, json, csv or markdown.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write the report to a file.")] = None,
) -> None:
    """Run kernels on the device: predicted bound, measured time with interval, share of each roof, clocks.

    Needs torch. A result that is faster than the device can be is refused: the profile, the count or the run is wrong.

    Ctrl-C or SIGTERM end it with a report of what is complete, marked interrupted; a second one ends it at once.

    Exit codes: 0 measured, 2 a mistake on the command line or in the workload, 3 no torch, no device, no profile, or somebody
    else measures, 4 a result must not be believed or there is none, 130 or 143 interrupted.

    Examples:

      roofline measure --kernel flash

      roofline measure --kernel gemm --set m=4096 --set n=4096 --set k=4096 --set dtype=fp8 -o fp8.json

      roofline measure --kernel gemm --implementation ladder

      roofline measure gpt2_medium -H auto -o measured.json
    """
    if among(kernel or []):
        options = {"cache": cache, "launch": launch, "mode": mode, "pass": direction, "op": operator, "workload": workload}
        measure_collectives(kernel or [], overrides or [], options, hardware, device, time_limit, lock, format_, output)
        return
    chosen = chosen_format(format_, output, FORMATS)
    _refuse_early(output, kernel or [], operator, {"cache": cache, "launch": launch, "mode": mode}, in_turns)
    longest = seconds_of(time_limit)
    opened = _open(device)
    procedure = _procedure(opened.info.kind, cache, launch, mode, longest)
    plan = _planned(opened, workload, kernel or [], overrides or [], direction, operator, in_turns, implementation)
    _run(plan, opened, procedure, profile_of(hardware, opened), lock, chosen, output)


def _planned(
    device: Device,
    workload: str | None,
    kernels: list[str],
    overrides: list[str],
    direction: str | None,
    op: str | None,
    in_turns: bool,
    implementation: str | None,
) -> Plan:
    from roofline.measure.plan import plan_in_turns, plan_of, require_kernels

    if implementation:
        plan = _family(device, workload, kernels, overrides, direction, implementation)
    else:
        plan = plan_of(workload, kernels, overrides, direction, device.info.kind, op)
    if in_turns:
        plan = plan_in_turns(plan)
    require_kernels(plan, device)
    return plan


def _family(device: Device, workload: str | None, kernels: list[str], overrides: list[str], direction: str | None, name: str) -> Plan:
    """The kernels of a family that run here; of the others it is said why they do not."""
    from roofline.errors import UsageError
    from roofline.measure.families import plan_of_family

    if workload:
        raise UsageError("--implementation goes with --kernel, not with a workload")
    plan, left_out = plan_of_family(kernels, name, overrides, direction, device)
    for line in left_out:
        note(line)
    return plan


def _run(plan: Plan, device: Device, procedure: Procedure, profile: Hardware | None, lock: bool, chosen: str, output: str | None) -> None:
    """Measure, deliver the report, and end with its exit code."""
    from roofline.measure.interrupt import interruptible

    with interruptible() as stop:
        report = _measured(plan, device, procedure, profile, lock, stop)
        warn(report.warnings)
        show(report, chosen, output)
        _finish(report, stop.exit_code)


def _refuse_early(output: str | None, kernels: Sequence[str], operator: str | None, options: dict[str, str | None], in_turns: bool) -> None:
    """Mistakes that need no device are said before torch is loaded and before anything is measured."""
    from roofline.errors import RooflineError, UsageError, did_you_mean
    from roofline.measure.base import CACHE_CHOICES, LAUNCH_CHOICES, MODE_CHOICES
    from roofline.measure.registry import find

    for (name, value), known in zip(options.items(), (CACHE_CHOICES, LAUNCH_CHOICES, MODE_CHOICES), strict=True):
        if value is not None and value not in known:
            raise UsageError(f"--{name} '{value}' is unknown; {did_you_mean(value, list(known))}")
    if in_turns and options["cache"] == "cold":
        raise UsageError("--in-turns measures with warm inputs: leave out --cache cold")
    if output not in (None, "-"):
        path, folder = Path(str(output)), Path(str(output)).absolute().parent
        if path.is_dir() or not folder.is_dir() or not (os.access(folder, os.W_OK) or (path.exists() and not path.is_file())):
            raise RooflineError(f"cannot write '{output}': give a file name in a folder that is there and can be written")
    for kernel in kernels:
        find(kernel, operator)


def _procedure(kind: str, cache: str | None, launch: str | None, mode: str, longest_s: float) -> Procedure:
    from roofline.measure.session import procedure_of

    return procedure_of(kind, cache, launch, mode, longest_s)


def _open(device: str) -> Device:
    from roofline.measure.device import open_device

    return open_device(device)


def _measured(plan: Plan, device: Device, procedure: Procedure, profile: Hardware | None, lock: bool, stop: Interruption) -> Report:
    from roofline.measure.families import with_bindings
    from roofline.measure.plan import run_plan
    from roofline.report.build import analyze

    analyze(plan.workload, profile, plan.inputs)  # what the profile lacks is said before anything is measured
    with locked(device, lock), _progress(plan) as step:
        measurements = with_bindings(run_plan(plan, device, procedure, step, stop=stop), plan.cases, profile)
    return analyze(plan.workload, profile, plan.inputs, measured=measurements)


@contextmanager
def _progress(plan: Plan) -> Iterator[Callable[[str, float], None]]:
    """A bar on stderr where a person sees it; nothing elsewhere."""
    if settings.quiet or not sys.stderr.isatty():
        yield lambda name, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), console=Console(stderr=True), transient=True) as bar:
        tasks = {name: bar.add_task(name, total=1.0, visible=False) for name in plan.names}

        def step(name: str, share: float) -> None:
            bar.update(tasks[name], completed=share, visible=share < 1)

        yield step


def _finish(report: Report, interrupted: int) -> None:
    """The exit code: that of an interruption, else 4 when a result must not be believed or there is none."""
    if interrupted:
        note("interrupted: the report holds what was measured until then")
        raise typer.Exit(interrupted)
    results: list[tuple[str, MeasuredResult]] = [(r.id, r.measured) for r in report.rows if r.measured]
    whole = report.totals.measured
    if whole and whole.status in REFUSED and all(m.status not in REFUSED for _, m in results):
        results.append(("the whole sequence", whole))
    refuse(results, "nothing could be measured: out of device memory in every case")
