"""One operator in words: its work, its bytes at every level, what binds it, and the cycles of one tile on chip."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.dataflow.account import KernelAccount, account, device_of
from roofline.dtypes import dtype as find_dtype
from roofline.hardware.profile import LEVELS, Figure, Hardware
from roofline.numeric import scalar
from roofline.ops.attention import Attention
from roofline.predict.bound import machine_of
from roofline.report.collectives import bandwidths
from roofline.report.columns import intensity, seconds
from roofline.report.model import Report, Row
from roofline.report.sentences import divisions, estimate, estimate_terms, percent, plural, resource
from roofline.spec.dataflow import load_dataflow
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


TILED = {"forward": ("attention:flash2", "stages=2"), "backward": ("attention:backward", "do_stages=2")}
"""The dataflow that describes a tile of streamed attention, with two tiles of what streams past it in shared memory."""
ON_CHIP = ("tensor", "sfu", "smem")


def tile_lines(step: Step, hardware: Hardware) -> list[str]:
    """Cycles of one tile step on chip, where the operator has one and the profile knows the rates."""
    found = tile_of(step, hardware)
    if found is None:
        return []
    kernel, tile_m, tile_n = found
    cycles = {name: scalar(kernel.time.steps[-1].cycles[name]) for name in ON_CHIP}
    most = max(cycles.values())
    limit = f"; {percent(cycles['tensor'] / most)} of the tensor peak at most" if cycles["tensor"] < most else ""
    tied = [n for n, c in cycles.items() if c == most]
    verdict = f"{' and '.join(tied)} tie" if len(tied) > 1 else f"{tied[0]} binds"
    said = ", ".join(f"{name} {value:g}" for name, value in cycles.items())
    return [
        f"One {tile_m}x{tile_n} tile step, cycles per {hardware.processor_label}: {said}: {verdict}{limit}",
        f"  shared memory {format_quantity(scalar(kernel.room.smem_bytes), Dimension.BYTES, binary=True)} for the tiles",
    ]


def tile_of(step: Step, hardware: Hardware) -> tuple[KernelAccount, int, int] | None:
    """The dataflow's kernel that multiplies, with queries and keys of a tile as large as the operator's own; None where it has none.

    None also where the profile lacks one of the rates that are told, the tensor cores' in the operator's format among them.
    """
    op, machine = step.op, machine_of(hardware)
    if not isinstance(op, Attention) or op.implementation != "flash" or machine is None:
        return None
    if not isinstance(hardware.tensor.get(find_dtype(op.dtype).matrix), Figure):
        return None
    device = device_of(hardware, op.dtype)
    if not device.rates.per_clock.keys() >= set(ON_CHIP):
        return None
    tile_m, tile_n = int(op.block_rows(machine)), int(op.tile_n)
    name, stages = TILED["backward" if step.direction == "backward" else "forward"]
    sizes = {"head_dim": op.head_dim, "v_head_dim": op.v_head_dim or op.head_dim, "tile_m": tile_m, "tile_n": tile_n, "dtype": op.dtype}
    flow = load_dataflow(name, [stages, *(f"{key}={value}" for key, value in sizes.items())], device.names)
    return max(account(flow, device).kernels, key=lambda k: scalar(k.work.tensor)), tile_m, tile_n
