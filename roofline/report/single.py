"""One operator in words: its work, its bytes at every level, what binds it, and the cycles of one tile on chip."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.hardware.profile import LEVELS, Hardware
from roofline.predict.tile import TileCycles, tile_cycles
from roofline.report.collectives import bandwidths
from roofline.report.columns import intensity, seconds
from roofline.report.model import Report, Row
from roofline.report.sentences import divisions, estimate, estimate_terms, percent, plural, resource
from roofline.units import Dimension, format_quantity
from roofline.workload.workload import Step


def lines(report: Report) -> list[str]:
    """Work, bytes, intensity and bound of the only row."""
    row = report.rows[0]
    flop = ", ".join(f"{e} {format_quantity(n, Dimension.FLOP)}" for e, n in row.flop.items() if n and e != "sfu")
    special = f", {row.flop['sfu']:.4g} special functions" if row.flop["sfu"] else ""
    found = [f"{row.op} ({row.direction}, {row.dtype}): {flop or 'no FLOP'}{special}; {plural(row.kernels, 'kernel')}"]
    found += [f"  {kind} bytes: {_levels(values)}" for kind, values in row.traffic.items() if values]
    found.append(f"  intensity {intensity(row)} FLOP/B at hbm; extra memory {format_quantity(row.extra_memory_bytes, Dimension.BYTES)}")
    return found + _bound(row, report)


def _levels(values: Mapping[str, float]) -> str:
    return ", ".join(f"{level} {format_quantity(values[level], Dimension.BYTES)}" for level in reversed(LEVELS) if values[level])


def _bound(row: Row, report: Report) -> list[str]:
    b = row.bound
    if b is None or report.hardware is None:
        return []
    ridge = row.ridge_flop_per_byte["hbm"]
    tied = f", tied with {b.next}" if b.tied else ""
    found = [
        f"On {report.hardware['name']}: at least {seconds(b.time_s, True)}, {resource(b.limiter)} binds{tied}"
        + (f"; ridge {ridge:.1f} FLOP/B" if ridge else "")
    ]
    found += [f"  {line}" for line in divisions(b, row)]
    peak = b.per_resource_s.get("tensor") or b.per_resource_s.get("vector")
    if peak and b.time_s:
        found.append(f"  at most {percent(peak / b.time_s)} of the compute peak")
    return found + _estimate(row, report) + _measured(row)


def _estimate(row: Row, report: Report) -> list[str]:
    """What it will take, its terms, and whose parameters; or why that is not known."""
    if row.estimate is None:  # of a profile that carries no parameters at all, none was to be expected
        return [f"No estimate: {row.unavailable.get('estimate', 'not given')}"] if "estimate" in report.conventions else []
    said = estimate(row.estimate, row.bound.time_s if row.bound else None)
    return said[:1] + [f"  {line}" for line in estimate_terms(row.estimate)[:-1]] + said[1:]


def _measured(row: Row) -> list[str]:
    """What was achieved in the time that was given with the operator."""
    if row.measured is None or row.bound is None:
        return []
    found = []
    for name, rate in row.measured.achieved_per_s.items():
        unit = Dimension.FLOP_PER_S if name in row.flop else Dimension.BYTES_PER_S
        share = row.measured.share_of_peak.get(name)
        if share is not None:
            found.append(f"{format_quantity(rate, unit)} of {name} ({percent(share)})")
    return [f"Measured {seconds(row.measured.time_s, True)}: {', '.join(found) or 'nothing with a rate'}", *bandwidths(row)]


def tile_lines(step: Step, hardware: Hardware) -> list[str]:
    """Cycles of one tile step on chip, where the operator has one and the profile knows the rates."""
    found: TileCycles | None = tile_cycles(step.op, step.direction, hardware)
    if found is None:
        return []
    cycles = ", ".join(f"{name} {value:g}" for name, value in found.cycles.items())
    limit = f"; {percent(found.tensor_ceiling)} of the tensor peak at most" if found.tensor_ceiling < 1 else ""
    tied = [n for n, c in found.cycles.items() if c == max(found.cycles.values())]
    verdict = f"{' and '.join(tied)} tie" if len(tied) > 1 else f"{tied[0]} binds"
    return [
        f"One {found.tile_m}x{found.tile_n} tile step, cycles per {hardware.processor_label}: {cycles}: {verdict}{limit}",
        f"  shared memory {format_quantity(found.smem_bytes, Dimension.BYTES, binary=True)} for the tiles",
    ]
