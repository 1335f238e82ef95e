"""Measured collectives as part of a hardware profile: tables of their times, and latency and bandwidth of each range of sizes.

The sizes lie between those that ``measure`` uses, so that its sweep afterwards is one of sizes that no fit has seen.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from roofline.hardware.profile import Ceiling, Figure, Hardware
from roofline.measure.collectives import FACTOR, LARGEST, SMALLEST, Sweep, fits_of
from roofline.measure.profile_file import SOURCE, quantity, yaml_text
from roofline.numeric import scalar
from roofline.ops.collective import Collective
from roofline.report.model import MeasuredResult
from roofline.spec.ceilings import CEILINGS, COLLECTIVES, LINKS
from roofline.spec.hardware import load_hardware
from roofline.units import Dimension, format_quantity
from roofline.workload.workload import Step

HEADER = ("size", "ranks", "dtype", "over", "time_us", "low_us", "high_us", "status")


def sizes(kind: str, quick: bool = False) -> tuple[int, ...]:
    """Sizes in bytes for a device of that kind: twice the usual ones, and the largest of these; every other one if quick."""
    largest = LARGEST.get(kind, LARGEST["cuda"])
    found = [2 * SMALLEST]
    while found[-1] * FACTOR < largest:
        found.append(found[-1] * FACTOR)
    return (*(found[::2] if quick else found), largest)


def usable(sweep: Sweep) -> list[tuple[Step, Collective, MeasuredResult]]:
    """What was measured and may be believed."""
    found = []
    for step in sweep.workload.steps:
        result = sweep.measurements.steps[step.id]
        if isinstance(step.op, Collective) and result.status in ("ok", "throttled") and result.time_s > 0:
            found.append((step, step.op, result))
    return found


def tables(sweep: Sweep, provenance: str) -> dict[str, str]:
    """CSV text by collective, as `roofline.fit.tables` reads it."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for _, op, result in usable(sweep):
        low, high = result.interval_s or (result.time_s, result.time_s)
        times = {"time_us": result.time_s, "low_us": low, "high_us": high}
        row = {"size": f"{int(scalar(op.size))} B", "ranks": op.ranks, "dtype": op.dtype, "over": op.over, "status": result.status}
        by_name.setdefault(op.name, []).append({**row, **{name: f"{1e6 * value:.4f}" for name, value in times.items()}})
    return {name: _csv(rows, provenance) for name, rows in by_name.items()}


def _csv(rows: Sequence[Mapping[str, Any]], provenance: str) -> str:
    stream = io.StringIO()
    stream.write(f"# measured: {provenance}\n# time_us: median over samples of the slowest rank, in bursts, warm\n")
    writer = csv.DictWriter(stream, HEADER, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def ceilings(sweep: Sweep) -> dict[str, Ceiling]:
    """Latency and bandwidth of every collective in each range of sizes, by the name that a profile gives them."""
    results = {step.id: result for step, _, result in usable(sweep)}
    steps = [step for step, _, _ in usable(sweep)]
    found: dict[str, Ceiling] = {}
    for name in COLLECTIVES:
        op = next((s.op for s in steps if s.op.name == name), None)
        for number, fit in enumerate(fits_of(name, steps, results) if isinstance(op, Collective) else (), 1):
            begin, end = (format_quantity(v, Dimension.BYTES, binary=True, ascii=True) for v in (fit.from_bytes, fit.to_bytes))
            note = f"{begin} to {end} sent by each of {op.ranks} ranks, off by {fit.worst:.1%} at most"  # type: ignore[union-attr]
            key = f"{op.over}.{name}.{number}"  # type: ignore[union-attr]
            values = {"alpha": (fit.alpha_s, Dimension.SECONDS), "bandwidth": (fit.bytes_per_s, Dimension.BYTES_PER_S)}
            for what, (value, dimension) in values.items():
                if value and f"{key}.{what}" in CEILINGS:
                    found[f"{key}.{what}"] = Ceiling(value=value, unit=dimension.si, kind="measured", source=SOURCE, note=note)
    return found


def unnamed(sweep: Sweep) -> list[str]:
    """Links that were measured and of which a profile's ceilings have no names, such as a tier that a user's cluster calls as he likes."""
    return sorted({op.over for _, op, _ in usable(sweep)} - {*LINKS})


def profile_text(sweep: Sweep, base: Hardware, name: str, source: str) -> str:
    """A profile that extends ``base`` and adds what was measured of its links, and a link that only a cluster has."""
    found = _between_hosts(sweep, base)
    measured = {
        key: {"value": quantity(c.value, CEILINGS[key]), "kind": c.kind, "source": SOURCE, "note": c.note}
        for key, c in ceilings(sweep).items()
    }
    return yaml_text(
        {
            "schema": 1,
            "name": name,
            "extends": base.name,
            "vendor": base.vendor,
            "product": base.product,
            "architecture": base.architecture,
            "match": list(base.match),
            "notes": "links measured by roofline calibrate --links",
            "sources": {**{b.source: base.sources[b.source] for b, _ in found.values()}, SOURCE: source},
            **({"links": {link: _link_text(*how) for link, how in found.items()}} if found else {}),
            "measured": measured,
        }
    )


def _between_hosts(sweep: Sweep, base: Hardware) -> dict[str, tuple[Figure, str]]:
    """Bandwidth and topology of the tiers that were measured and that the profile to extend, a device's, does not have."""
    own = load_hardware(base.name).links
    links = [base.links[name] for name in dict.fromkeys(op.over for _, op, _ in usable(sweep)) if name in base.links.keys() - own.keys()]
    return {link.name: (link.bandwidth, link.topology) for link in links if isinstance(link.bandwidth, Figure)}


def _link_text(bandwidth: Figure, topology: str) -> dict[str, Any]:
    """As a profile writes a link; of topologies it has those of a device, which is one hop from others in a network."""
    shown = {"value": quantity(bandwidth.value, Dimension.BYTES_PER_S), "kind": bandwidth.kind, "source": bandwidth.source}
    return {"bandwidth": shown, "topology": "switch" if topology in ("rail", "fat_tree") else topology}


def write_tables(folder: str, sweep: Sweep, provenance: str) -> list[str]:
    """One file a collective under the folder; the paths written.

    Raises:
        RooflineError: the folder or a file cannot be written.
    """
    from roofline.report.store import write_folder

    return write_folder(folder, {f"{name}.csv": text for name, text in tables(sweep, provenance).items()})
