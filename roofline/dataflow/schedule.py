"""Cycles of a kernel on a processor: per tile step and resource, what overlaps, fill and drain, waves of blocks.

Three times that are never mixed: ``bound_s``, what no execution of the kernel's passes can beat (work / rate of the whole
device, bytes once); ``scheduled_s``, the least that this dataflow takes with its tiles, overlaps and waves; and
``no_overlap_s``, what it takes when nothing overlaps. All are made from the published rates of the profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.dataflow.form import RESOURCES, Kernel
from roofline.dataflow.nest import Nest
from roofline.dataflow.rates import Rates
from roofline.dataflow.traffic import Totals, feed
from roofline.numeric import Number, ceil_div, maximum, total, where

Cycles = dict[str, Number]
COPIES = ("l2", "hbm")


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration of a loop in a block: cycles by resource, with its overlaps, and how often it runs."""

    loop: str
    cycles: Mapping[str, Number]
    scheduled: Number
    trips: Number


@dataclass(frozen=True, slots=True)
class Schedule:
    """A kernel on the device. ``block`` is cycles by resource over a whole block, ``rounds`` blocks of the busiest processor."""

    steps: tuple[Step, ...]
    block: Mapping[str, Number]
    block_cycles: Number
    fill_cycles: Number
    drain_cycles: Number
    blocks: Number
    rounds: Number
    waves: Number
    scheduled_s: Number
    no_overlap_s: Number
    per_resource_s: Mapping[str, Number]


def _add(into: Cycles, resource: str, work: Number, rates: Rates, least: Number = 0) -> None:
    rate = rates.cycles(resource)
    if rate is not None:
        into[resource] = into.get(resource, 0) + maximum(work / rate, least)


def step_cycles(nest: Nest, at: str, rates: Rates) -> Cycles:
    """Cycles by resource of one iteration, of what happens in that loop itself and not in loops inside it."""
    found: Cycles = {}
    kernel = nest.kernel
    for item in kernel.products:
        if item.at == at:
            needs = feed(nest, item)
            _add(found, item.engine, needs.flop, rates)
            _add(found, "smem", needs.a_bytes + needs.b_bytes, rates)
    for work in kernel.works:
        if work.at == at:
            _add(found, "vector", nest.value(work.vector), rates)
            _add(found, "sfu", nest.value(work.sfu), rates)
            _add(found, "smem", nest.value(work.smem), rates, nest.value(work.lines))
    for access in kernel.accesses:
        if access.at == at:
            ways = 2 if access.mode == "update" else 1
            _add(found, "l2", ways * nest.tile_bytes(access) / nest.multicast(access), rates)
    return {r: c for r, c in found.items() if not isinstance(c, (int, float)) or c > 0}


def combined(kernel: Kernel, cycles: Mapping[str, Number]) -> Number:
    """The computing of a step: groups of resources one after the other, the resources of a group at the same time.

    What is in no group overlaps with all.
    """
    groups = kernel.overlap or (tuple(r for r in RESOURCES if r not in COPIES),)
    free = [c for r, c in cycles.items() if r not in COPIES and not any(r in g for g in groups)]
    serial = total(_largest([cycles[r] for r in group if r in cycles]) for group in groups)
    return maximum(serial, _largest(free))


def copied(cycles: Mapping[str, Number]) -> Number:
    """The copies of a step, from L2 and HBM at the same time."""
    return _largest([cycles[r] for r in COPIES if r in cycles])


def _largest(values: list[Number]) -> Number:
    longest: Number = 0
    for value in values:
        longest = maximum(longest, value)
    return longest


def schedule(nest: Nest, work: Totals, occupancy: Number, rates: Rates) -> Schedule:
    """The kernel's time from its steps; ``occupancy`` blocks of a processor take turns on its units."""
    steps = _steps(nest, work, rates)
    chip: Cycles = {}
    for step in steps:
        for resource, cycles in step.cycles.items():
            chip[resource] = chip.get(resource, 0) + cycles * step.trips
    units = {r: c for r, c in chip.items() if r not in COPIES}
    rounds, held = ceil_div(nest.blocks, rates.processors), maximum(occupancy, 1)
    alone = total(s.scheduled * s.trips for s in steps)
    fill, drain = _ends(nest, rates)
    busy = maximum(ceil_div(rounds, held) * alone, rounds * _largest(list(units.values()))) + fill + drain
    memory = {r: amount / rates.per_clock[r] / rates.processors for r, amount in _copies(work).items() if r in rates.per_clock}
    serial = rounds * total(units.values()) + total(memory.values())
    return Schedule(
        steps=steps,
        block=chip,
        block_cycles=alone,
        fill_cycles=fill,
        drain_cycles=drain,
        blocks=nest.blocks,
        rounds=rounds,
        waves=ceil_div(nest.blocks, rates.processors * held),
        scheduled_s=maximum(busy, _largest(list(memory.values()))) / rates.clock_hz,
        no_overlap_s=serial / rates.clock_hz,
        per_resource_s=_device_seconds(work, rates),
    )


def _copies(work: Totals) -> dict[str, Number]:
    """Bytes that the device moves between L2 and processors, and between HBM and L2."""
    return {"l2": work.l2_bytes, "hbm": work.hbm_bytes}


def _steps(nest: Nest, work: Totals, rates: Rates) -> tuple[Step, ...]:
    """The block's own part, then each loop inside it. HBM bytes are spread evenly over the steps."""
    inside = [n for n in nest.spans if not nest.spans[n].loop.parallel]
    names = [*([nest.block_loop] if nest.block_loop else []), *inside]
    trips: dict[str, Number] = {n: nest.repeats(n, (), parallel=False) if n in inside else 1 for n in names}
    shared = inside or names
    part = work.hbm_bytes / nest.blocks / rates.per_clock["hbm"] / total(trips[n] for n in shared) if "hbm" in rates.per_clock else 0
    ahead = nest.value(nest.kernel.stages) > 1
    found = []
    for name in names:
        cycles = step_cycles(nest, name, rates)
        if name in shared:
            cycles["hbm"] = part
        computed = combined(nest.kernel, cycles)
        found.append(Step(name, cycles, where(ahead, computed, computed + copied(cycles)), trips[name]))
    return tuple(found)


def _ends(nest: Nest, rates: Rates) -> tuple[Number, Number]:
    """Before the first step its tiles must come from HBM, all processors at once; after the last, results must leave."""
    rate = rates.cycles("hbm")
    if rate is None:
        return 0, 0
    first = total(nest.tile_bytes(a) for a in nest.reads() if a.mode == "read")
    last = total(nest.tile_bytes(a) for a in nest.kernel.accesses if a.mode == "write")
    return first / rate, last / rate


def _device_seconds(work: Totals, rates: Rates) -> dict[str, Number]:
    """Seconds of each resource over the whole device: the parts of the bound, bytes once."""
    amounts = {
        "tensor": work.tensor, "vector": work.vector, "sfu": work.sfu, "smem": work.smem_bytes, "l2": work.once_bytes + work.kept_bytes,
        "hbm": work.once_bytes,
    }  # fmt: skip
    whole_device = rates.processors * rates.clock_hz
    return {r: a / (rates.per_clock[r] * whole_device) for r, a in amounts.items() if r in rates.per_clock}
