"""One tile step on chip: cycles that the matrix unit, the special-function unit and shared memory need for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.dtypes import dtype as find_dtype
from roofline.hardware.profile import Figure, Hardware, si
from roofline.ops.attention import Attention
from roofline.ops.attention_tile import backward_step, forward_step, smem_footprint
from roofline.ops.base import Op
from roofline.predict.bound import machine_of


@dataclass(frozen=True, slots=True)
class TileCycles:
    """Cycles by resource for a tile of ``tile_m`` queries and ``tile_n`` keys; ``tensor_ceiling`` is tensor over the largest."""

    tile_m: int
    tile_n: int
    cycles: Mapping[str, float]
    smem_bytes: float
    tensor_ceiling: float


def tile_cycles(op: Op, direction: str, hardware: Hardware) -> TileCycles | None:
    """The cycles of one step, or None for an operator without tiles or a profile without per-clock rates."""
    machine, rates = machine_of(hardware), per_clock_rates(op.dtype, hardware)
    if not isinstance(op, Attention) or op.implementation != "flash" or machine is None or rates is None:
        return None
    tile_m, tile_n = int(op.block_rows(machine)), int(op.tile_n)
    width, value_width = int(op.head_dim), int(op.v_head_dim or op.head_dim)
    element = find_dtype(op.dtype).bytes
    step = (backward_step if direction == "backward" else forward_step)(tile_m, tile_n, width, value_width, element, int(machine.mma_rows))
    cycles = {"tensor": step.flop / rates["tensor"], "sfu": step.exps / rates["sfu"], "smem": step.smem_bytes / rates["smem"]}
    return TileCycles(
        tile_m,
        tile_n,
        cycles,
        smem_footprint(tile_m, tile_n, width, value_width, element, direction),
        cycles["tensor"] / max(cycles.values()),
    )


def per_clock_rates(dtype_name: str, hardware: Hardware) -> dict[str, float] | None:
    """FLOP, special functions and shared-memory bytes per clock and processor, from the profile's own figures."""
    clock, count = si(hardware.clocks.get("peak")), si(hardware.processors)
    tensor = hardware.tensor.get(find_dtype(dtype_name).matrix)
    sfu, smem = si(hardware.sfu), si(hardware.levels["smem"].bandwidth)
    if not (clock and count and isinstance(tensor, Figure) and sfu and smem):
        return None
    flop = tensor.per_clock or tensor.value / (clock * count)
    return {"tensor": flop, "sfu": sfu / (clock * count), "smem": smem / (clock * count)}
