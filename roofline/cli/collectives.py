"""``roofline measure --kernel all_reduce`` under torchrun: the first rank speaks and writes, the others take part and keep silent."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import typer

from roofline.cli.outcome import chosen_format, note, settings, warn
from roofline.cli.report import show
from roofline.cli.session import profile_of, refuse, seconds_of

if TYPE_CHECKING:
    from roofline.hardware.profile import Hardware
    from roofline.measure.base import Device
    from roofline.measure.collectives import Request, Sweep
    from roofline.report.model import Report

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
"""Here too, so that no other command has to load the catalog; a test holds them together."""
FITTING: Mapping[str, tuple[str | None, ...]] = {
    "workload": (None,),
    "op": (None,),
    "pass": (None, "forward"),
    "cache": (None, "warm"),
    "mode": (None, "burst"),
    "launch": (None, "graph", "eager"),
}
SWITCH = "\n(where the network adds, as with NVLink SHARP, measure with --set algorithm=switch)"
NO_CPU_LINK = "note: no profile describes links between processes of a CPU, so that no bound is given; name one with -H"


def among(names: Sequence[str]) -> bool:
    """Whether a kernel of that name is a collective."""
    return any(name in NAMES for name in names)


def measure_collectives(
    names: Sequence[str],
    overrides: Sequence[str],
    options: Mapping[str, str | None],
    hardware: str,
    device: str,
    time_limit: str,
    lock: bool,
    format_: str | None,
    output: str | None,
) -> None:
    """Measure on all ranks, and deliver the report of the first.

    Raises:
        RooflineError: on the first rank, what any of them met.
        typer.Exit: on all other ranks.
    """
    from roofline.errors import RooflineError
    from roofline.measure.ranks import RankFailedError, rank_of

    first = rank_of() == 0
    try:
        chosen = chosen_format(format_, output, ("table", "json", "csv", "markdown"))
        request = _request(names, overrides, options, device, time_limit, lock, hardware)
        from roofline.measure import collectives

        sweep = collectives.measure_collectives(request, lambda found: _profile(hardware, found, first))
        if sweep is not None:
            _report(sweep, chosen, output)
    except RankFailedError as err:
        abandon(f"error: {err}" if first else "", err.exit_code)
    except RooflineError:
        ended()
        if first:
            raise
        raise typer.Exit from None  # the first says so; torchrun would stop it before, were there a failure here


def _request(
    names: Sequence[str],
    overrides: Sequence[str],
    options: Mapping[str, str | None],
    device: str,
    time_limit: str,
    lock: bool,
    hardware: str,
) -> Request:
    """What is asked for, where it can be done with several processes.

    Raises:
        UsageError: it cannot.
        MissingCapabilityError: there are not several processes.
    """
    from roofline.errors import UsageError
    from roofline.measure.collective_catalog import require_only_collectives

    require_only_collectives(names)
    for name, fitting in FITTING.items():
        if options.get(name) not in fitting:
            shown = "a workload" if name == "workload" else f"--{name} {options[name]}"
            raise UsageError(f"{shown} does not go with collectives, which are timed warm, forward and in bursts")
    require_torchrun(names)
    from roofline.measure.collectives import Request

    launch = options.get("launch") or "graph"
    said = dict(word.partition("=")[::2] for word in overrides)
    return Request(
        names=tuple(dict.fromkeys(names)),
        settings=tuple(overrides),
        over=carrier_of(hardware, said.get("over")),
        device=device,
        launch=launch,
        longest_s=seconds_of(time_limit),
        lock=lock,
    )


def require_torchrun(names: Sequence[str]) -> None:
    """Refuse a process that torchrun did not start, with the command that would.

    Raises:
        MissingCapabilityError: it did not.
    """
    from roofline.errors import MissingCapabilityError
    from roofline.measure.collective_catalog import command
    from roofline.measure.ranks import launched

    try:
        launched(os.environ)
    except MissingCapabilityError as err:
        raise MissingCapabilityError(f"{err}; start it with: {command(names)} (on CPUs add --device cpu)") from None


def carrier_of(hardware: str | None, over: str | None) -> str | None:
    """The link that the ranks' exchanges go over, None for the fastest of the profile; ``hardware`` may be a cluster.

    Raises:
        UsageError: it is not told, or there are several.
    """
    from roofline.measure.carrier import carrier
    from roofline.spec.cluster import load_cluster
    from roofline.spec.find import find_hardware, holds_cluster

    named = hardware not in (None, "auto", "none") and holds_cluster(find_hardware(str(hardware)))
    return carrier(os.environ, load_cluster(str(hardware)) if named else None, over)


def _profile(name: str, device: Device, first: bool) -> Hardware | None:
    """The profile asked for; by itself none for a CPU, whose links no profile has."""
    if name == "auto" and device.info.kind == "cpu":
        if first and not settings.quiet:
            note(NO_CPU_LINK)
        return None
    return profile_of(name, device)


def _report(sweep: Sweep, chosen: str, output: str | None) -> None:
    from roofline.report.build import analyze

    if not sweep.workload.steps:
        abandon(f"error: {sweep.ended}: nothing was complete", sweep.exit_code)
    report = analyze(sweep.workload, sweep.profile, measured=sweep.measurements)
    warn(report.warnings)
    show(report, chosen, output)
    if sweep.exit_code:
        abandon(f"{sweep.ended}: the report holds what was complete", sweep.exit_code)
    _finish(report)


def ended() -> None:
    """Let the ranks part after an error that all of them know; without torch there is nothing to part."""
    if "torch" in sys.modules:
        from roofline.measure.ranks import dissolve

        dissolve()


def _finish(report: Report) -> None:
    """A result that must not be believed, or none at all, is an error of the run."""
    results = [(r.id, r.measured) for r in report.rows if r.measured]
    refuse(results, "nothing could be measured: out of memory in every size", _hint)


def _hint(refused: Sequence[str]) -> str:
    """A sum that comes too fast was made on the way."""
    return SWITCH if any("faster than" in text and text.startswith("all_reduce") for text in refused) else ""


def abandon(said: str, code: int) -> NoReturn:
    """End at once: where a rank is gone, torch's own clearing up would wait for it."""
    if said:
        note(said)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)
