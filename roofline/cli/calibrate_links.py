"""``roofline calibrate --links`` under torchrun: collectives over sizes, written by the first rank as a profile with their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from roofline.cli.collectives import abandon, carrier_of, ended, require_torchrun
from roofline.cli.outcome import note
from roofline.cli.session import profile_of, seconds_of

if TYPE_CHECKING:
    from roofline.hardware.profile import Hardware
    from roofline.measure.base import Device
    from roofline.measure.collectives import Sweep


def calibrate_links(
    hardware: str | None, over: str | None, device: str, output: str | None, quick: bool, time_limit: str, lock: bool
) -> None:
    """Measure on all ranks; the first writes the profile, the tables beside it, and what was fitted.

    Raises:
        RooflineError: on the first rank, what any of them met.
        typer.Exit: on all other ranks.
    """
    from roofline.errors import RooflineError, UsageError
    from roofline.measure.ranks import RankFailedError, rank_of
    from roofline.spec.ceilings import COLLECTIVES

    first = rank_of() == 0
    require_torchrun(COLLECTIVES)
    try:
        if output in (None, "-"):
            raise UsageError("--links writes a profile and tables beside it: name the file with -o, such as -o h200-x8.yaml")
        from roofline.measure import link_profile
        from roofline.measure.collectives import Request, measure_collectives

        kind = "cpu" if device == "cpu" else "cuda"
        request = Request(
            names=COLLECTIVES,
            settings=(),
            sizes=link_profile.sizes(kind, quick),
            over=carrier_of(hardware, over),
            device=device,
            longest_s=seconds_of(time_limit),
            lock=lock,
        )
        sweep = measure_collectives(request, lambda found: _base(hardware, found))
        if sweep is not None:
            _write(sweep, str(output), kind)
    except RankFailedError as err:
        abandon(f"error: {err}" if first else "", err.exit_code)
    except RooflineError:
        ended()
        if first:
            raise
        raise typer.Exit from None


def _base(name: str | None, device: Device) -> Hardware:
    """The profile to extend, which must have a link to speak of."""
    from roofline.errors import MissingCapabilityError, UsageError
    from roofline.hardware.profile import Figure

    if name is None and device.info.kind == "cpu":
        raise MissingCapabilityError("no profile describes links between processes of a CPU; name one to extend with -H")
    found = profile_of(name or "auto", device)
    if found is None or not any(isinstance(link.bandwidth, Figure) for link in found.links.values()):
        raise UsageError(f"{found.name if found else name} states no bandwidth of a link, so that there is nothing to calibrate")
    return found


def _write(sweep: Sweep, output: str, kind: str) -> None:
    """Profile, tables, parameters; then what was fitted, on stderr."""
    from pathlib import Path

    from roofline.cli.calibrate import add_parameters
    from roofline.errors import MeasurementInvalidError
    from roofline.measure import link_profile
    from roofline.measure.profile_file import today
    from roofline.report.store import write_text
    from roofline.spec.ceilings import LINKS
    from roofline.spec.find import profile_name

    assert sweep.profile is not None
    if not link_profile.usable(sweep):
        notes = {text for m in sweep.measurements.steps.values() for text in m.notes}
        raise MeasurementInvalidError("no collective could be measured: " + "; ".join(sorted(notes)))
    where = sweep.measurements.environment
    said = [
        f"{where['ranks']} x {where['device']}",
        str(where["library"]),
        *(f"{k} {where[k]}" for k in ("torch", "driver") if where.get(k)),
    ]
    source = f"roofline calibrate --links, {today()}, {', '.join(said)}"
    name = profile_name(output, f"{sweep.profile.name}-links") or "links"
    write_text(output, link_profile.profile_text(sweep, sweep.profile, name, source))
    paths = link_profile.write_tables(f"{Path(output).with_suffix('')}.links", sweep, source)
    for path in (output, *paths):
        note(f"wrote {path}")
    for link in link_profile.unnamed(sweep):
        note(f"'measured:' has no names for a link called '{link}' (but {', '.join(LINKS)}): its latencies stand in the parameters alone")
    # Between processes of a CPU there is no launch apart from the call, so that its rows are as those of a graph.
    add_parameters(output, paths, "graph" if kind == "cpu" else None)
    if sweep.exit_code:
        abandon(f"{sweep.ended}: the profile holds what was complete", sweep.exit_code)
