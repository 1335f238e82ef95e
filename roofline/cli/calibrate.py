"""``roofline calibrate``: measure what this device reaches and write it down as a profile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline.cli.outcome import deliver, note, render, reported, settings
from roofline.cli.session import locked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from roofline.hardware.profile import Hardware
    from roofline.measure.base import Device
    from roofline.measure.calibrate import Calibration, Found
    from roofline.measure.regimes import Timed

INTERRUPTED = 130


@reported
def command(
    device: Annotated[str, typer.Option("--device", help="auto (the first GPU), cuda:N, or cpu.")] = "auto",
    hardware: Annotated[
        str | None, typer.Option("-H", "--hardware", help="Profile to extend by name; by the device's own name if not given.")
    ] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write the profile to a file, kernel times beside it.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds in place of minutes, roughly; no kernel table.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="Only these: hbm, l2.read, tensor.bf16, kernels ...; repeat.")] = None,
    links: Annotated[bool, typer.Option("--links", help="Under torchrun: collectives between the devices, and nothing else.")] = False,
    over: Annotated[str | None, typer.Option("--over", help="With --links: what carries them, a tier of the cluster in -H.")] = None,
    time_limit: Annotated[str, typer.Option("--time-limit", help="With --links: longest time for one size, such as '10 s'.")] = "10 s",
    lock: Annotated[bool, typer.Option("--lock/--no-lock", help="Let nobody else measure on this device meanwhile.")] = True,
) -> None:
    """Measure this device: memory, caches, arithmetic, launches, links; write a profile for -H.

    On a GPU the profile extends the data sheet's and adds what was measured beside it. On a CPU its figures are the measured
    ones. Needs torch; Triton and a CUDA toolkit give more. What cannot be measured is absent with its reason.

    Examples:

      roofline calibrate -o h200-measured.yaml

      roofline calibrate --device cpu -o cpu.yaml

      torchrun --nproc-per-node 8 -m roofline calibrate --links -o h200-x8.yaml

      torchrun --nnodes 4 --nproc-per-node 1 ... -m roofline calibrate --links -H dgx-h200 -o hardware_specs/h200-net.yaml
    """
    if links:
        from roofline.cli.calibrate_links import calibrate_links

        calibrate_links(hardware, over, device, output, quick, time_limit, lock)
        return
    from roofline.errors import MeasurementInvalidError, UsageError

    if over is not None:
        raise UsageError("--over says what carries collectives between devices: add --links, or leave it out")
    from roofline.measure.device import open_device
    from roofline.measure.profile_file import profile_name, profile_text

    opened = open_device(device)
    base = _base(hardware, opened)
    name = profile_name(output, base, opened.info)
    found, timed = _run(opened, quick, only or [], lock)
    if found.found and not found.measured and not timed:
        reasons = {f"{n}: {f.reason}" for n, f in found.found.items() if not hasattr(f, "value")}
        raise MeasurementInvalidError("nothing could be measured\n" + "\n".join(sorted(reasons)))
    deliver(profile_text(found, base, name), output)
    if output not in (None, "-"):
        _beside(str(output), found, timed)
    if found.interrupted:
        note("interrupted: the profile holds what was measured until then")
        raise typer.Exit(INTERRUPTED)


def _base(name: str | None, device: Device) -> Hardware | None:
    """The profile to extend: as named, or by the device's name. None where there is none, as for a CPU."""
    from roofline.errors import MissingCapabilityError
    from roofline.measure.match import profile_for
    from roofline.spec.hardware import load_hardware

    if name is not None:
        return load_hardware(name)
    if device.info.kind == "cpu":
        return None
    try:
        return _published(profile_for(device.info))
    except MissingCapabilityError as err:
        note(f"note: {err}; the profile is made of measured figures alone")
        return None


def _published(found: Hardware) -> Hardware | None:
    """The profile below an earlier calibration of this device, which would else be extended by the next one."""
    from roofline.spec.hardware import extended_name, load_hardware

    while found.measured:
        below = extended_name(found.path)
        if below is None:
            return None
        found = load_hardware(below)
    return found


# --------------------------------------------------------------------------- running
def _run(device: Device, quick: bool, only: Sequence[str], lock: bool) -> tuple[Calibration, list[Timed]]:
    from roofline.measure.calibrate import KERNELS, calibrate, sizes_for

    with locked(device, lock):
        sizes = sizes_for(device.info, quick, device.free_bytes())
        found = calibrate(device, sizes, only, progress=_progress)
        wanted = KERNELS in only if only else not quick
        return found, _kernels(device, found) if wanted and not found.interrupted else []


def _kernels(device: Device, found: Calibration) -> list[Timed]:
    from roofline.measure.calibration_shapes import cases_for
    from roofline.measure.regimes import procedure_for, time_cases

    kind = device.info.kind
    timed = time_cases(cases_for(kind), device, procedure_for(kind), progress=_case)
    found.interrupted = any(t.why.startswith("interrupted") for t in timed)
    return timed


def _progress(number: int, count: int, name: str, found: Found | None) -> None:
    """A line for each ceiling on stderr, when it is known."""
    if found is None or settings.quiet:
        return
    from roofline.measure.profile_file import quantity
    from roofline.spec.ceilings import CEILINGS

    value = getattr(found, "value", None)
    text = (
        f"absent: {getattr(found, 'reason', '')}" if value is None else f"{quantity(value, CEILINGS[name])}  {getattr(found, 'label', '')}"
    )
    note(f"[{number:2}/{count}] {name:24} {text}")


def _case(number: int, count: int, label: str) -> None:
    if not settings.quiet:
        note(f"[{number:2}/{count}] {label}")


# --------------------------------------------------------------------------- parameters of the estimates
def add_parameters(output: str, tables: Sequence[str], execution: str | None = None) -> None:
    """Parameters fitted to measured tables, added to the profile; what was known of the device or its relatives is the belief.

    ``execution`` is how the tables' kernels were launched, where it is not as the tables themselves say.
    """
    from roofline.errors import RooflineError
    from roofline.fit.fitting import fit
    from roofline.fit.tables import read_tables
    from roofline.fit.write import fitted_profile
    from roofline.measure.profile_file import today
    from roofline.report.store import write_text
    from roofline.spec.hardware import load_hardware

    hardware = load_hardware(output)
    try:
        read = read_tables(list(tables), execution=execution)
        found = fit([row for table in read for row in table.rows], hardware, from_prior=True)
    except RooflineError as err:
        note(f"no parameters of estimates were fitted: {err}")
        return
    if found.sets:
        write_text(output, fitted_profile(hardware, found.sets, read, output, today()))
    for fitted in found.sets:
        held = "" if fitted.held_error is None else f", {fitted.held_error:.1%} on {fitted.held} held out"
        note(f"fitted {fitted.name}: off by {fitted.error:.1%} on {fitted.rows} rows{held}; begun from {fitted.belief}")


# --------------------------------------------------------------------------- results
def _beside(output: str, found: Calibration, timed: Sequence[Timed]) -> None:
    """The kernels' table beside the profile, and the ceilings on stdout."""
    from roofline.measure.profile_file import source_text, today
    from roofline.measure.regimes import write_tables
    from roofline.report.hardware_view import ceiling_columns
    from roofline.report.text import print_columns
    from roofline.spec.hardware import load_hardware

    if timed:
        lines = [
            source_text(found.info, today()),
            "time_us: median of a call in a captured graph over inputs larger than L2; eager on a CPU",
        ]
        tables = write_tables(f"{Path(output).with_suffix('')}.kernels", timed, lines)
        for path in tables:
            note(f"wrote {path}")
        add_parameters(output, tables)
    hardware = load_hardware(output)

    def draw(console: Console) -> None:
        print_columns(ceiling_columns(hardware), console)

    if hardware.measured:
        render(draw, None)
