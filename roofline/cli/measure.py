"""``roofline measure``: run the real kernels and set them beside the prediction."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported, settings, warn

if TYPE_CHECKING:
    from roofline.hardware.profile import Hardware
    from roofline.measure.base import Device, Procedure
    from roofline.measure.plan import Plan
    from roofline.report.model import Report

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
    direction: Annotated[str | None, typer.Option("--pass", help="forward, backward or forward+backward, with --kernel.")] = None,
    hardware: Annotated[
        str, typer.Option("-H", "--hardware", help="Profile: auto (by the device's name), a name, a file, or none.")
    ] = "auto",
    device: Annotated[str, typer.Option("--device", help="auto (the first GPU), cuda:N, or cpu.")] = "auto",
    cache: Annotated[
        str | None, typer.Option("--cache", help="cold: rotate over inputs larger than L2 (default on a GPU); warm: the same again.")
    ] = None,
    launch: Annotated[str, typer.Option("--launch", help="graph: captured, no host cost; eager: from Python.")] = "graph",
    mode: Annotated[str, typer.Option("--mode", help="burst: rests between rounds; sustained: back to back.")] = "burst",
    time_limit: Annotated[str, typer.Option("--time-limit", help="Longest time for one kernel, such as '10 s'.")] = "10 s",
    lock: Annotated[bool, typer.Option("--lock/--no-lock", help="Wait for nobody else measuring on this device.")] = True,
    format_: Annotated[str | None, typer.Option("--format", help="table, json, csv or markdown.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write the report to a file.")] = None,
) -> None:
    """Run kernels on the device: predicted bound, measured time with interval, share of each roof, clocks.

    Needs torch. A result that is faster than its bound is refused (exit 4): the profile, the count or the run is wrong.

    Examples:

      roofline measure --kernel flash

      roofline measure --kernel gemm --set m=4096 --set n=4096 --set k=4096 --set dtype=fp8 -o fp8.json

      roofline measure gpt2_medium -H auto -o measured.json
    """
    chosen = chosen_format(format_, output, FORMATS)
    from roofline.measure.plan import plan_of

    opened = _open(device)
    procedure = _procedure(cache or ("warm" if opened.info.kind == "cpu" else "cold"), launch, mode, time_limit)
    plan = plan_of(workload, kernel or [], overrides or [], direction, opened.info.kind)
    profile = _profile(hardware, opened)
    report = _measured(plan, opened, procedure, profile, lock)
    warn(report.warnings)
    _deliver(report, chosen, output)
    _finish(report)


def _procedure(cache: str, launch: str, mode: str, time_limit: str) -> Procedure:
    from roofline.errors import UsageError, did_you_mean
    from roofline.measure.base import CACHE_CHOICES, LAUNCH_CHOICES, MODE_CHOICES, Procedure
    from roofline.units import Dimension, QuantityError, parse_quantity

    for option, value, known in (("--cache", cache, CACHE_CHOICES), ("--launch", launch, LAUNCH_CHOICES), ("--mode", mode, MODE_CHOICES)):
        if value not in known:
            raise UsageError(f"{option} '{value}' is unknown; {did_you_mean(value, list(known))}")
    try:
        longest = float(parse_quantity(time_limit, Dimension.SECONDS))
    except QuantityError as err:
        raise UsageError(f"--time-limit: {err}") from None
    shortest = min(Procedure().shortest_s if mode == "burst" else 5.0, longest / 2)
    return Procedure(cache=cache, launch=launch, mode=mode, longest_s=longest, shortest_s=shortest, warmup_s=min(0.2, longest / 10))


def _open(device: str) -> Device:
    from roofline.measure.device import open_device

    return open_device(device)


def _profile(name: str, device: Device) -> Hardware | None:
    from roofline.measure.match import profile_for
    from roofline.spec.hardware import load_hardware

    if name == "none":
        return None
    return profile_for(device.info) if name == "auto" else load_hardware(name)


def _measured(plan: Plan, device: Device, procedure: Procedure, profile: Hardware | None, lock: bool) -> Report:
    from roofline.measure.lock import device_lock
    from roofline.measure.plan import run_plan
    from roofline.report.build import analyze

    with _locked(device_lock, device.info.uuid if lock else None, lock), _progress(plan) as step:
        measurements = run_plan(plan, device, procedure, step)
    return analyze(plan.workload, profile, plan.inputs, measured=measurements)


@contextmanager
def _locked(device_lock: Callable[..., object], key: str | None, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with device_lock(key) as warning:  # type: ignore[attr-defined]
        if warning and not settings.quiet:
            note(f"note: {warning}")
        yield


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


def _deliver(report: Report, chosen: str, output: str | None) -> None:
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json(report), output)
    elif chosen == "csv":
        from roofline.report.csv_view import to_csv

        deliver(to_csv(report), output)
    elif chosen == "markdown":
        from roofline.report.markdown import to_markdown

        deliver(to_markdown(report), output)
    else:
        from roofline.report.measured_view import print_measured

        render(lambda c: print_measured(report, c), output)


def _finish(report: Report) -> None:
    """The exit code: 130 when interrupted, 4 when a result must not be believed or there is none."""
    from roofline.errors import MeasurementInvalidError

    results = [(r.id, r.measured) for r in report.rows]
    if any(m and m.status == "interrupted" for _, m in results) or any(m is None for _, m in results):
        raise typer.Exit(130)
    refused = [f"{i} is faster than its bound" for i, m in results if m and m.faster_than_bound and m.time_s > 0]
    refused += [f"{i}: {m.status}, {'; '.join(m.notes)}" for i, m in results if m and m.status in ("invalid", "failed")]
    lacking = [i for i, m in results if m and m.status == "oom"]
    if refused:
        raise MeasurementInvalidError("; ".join(refused))
    if lacking and len(lacking) == len(results):
        raise MeasurementInvalidError("nothing could be measured: out of device memory in every case")
