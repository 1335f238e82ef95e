"""Whether a block of a kernel has room on a processor: shared memory, registers, threads; and how many blocks have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.dataflow.nest import Nest, exact
from roofline.hardware.profile import Hardware, si
from roofline.numeric import Number, maximum, minimum, total, where
from roofline.ops.base import whole

REGISTER_BYTES = 4
REGISTER_STEP = 8
"""Registers are given to threads in whole eights."""
PRODUCER_REGISTERS = 24
"""Registers that a thread which only copies keeps when the others take the rest (setmaxnreg, Hopper and later)."""
MOST_BLOCKS = 32
"""Blocks that a processor holds at most, whatever their size."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a processor has; infinite where the profile does not say."""

    smem_bytes: float
    smem_per_processor: float
    registers_per_thread: float
    registers: float
    threads_per_block: float
    threads: float

    def worker_registers(self, workers: Number, producers: Number) -> Number:
        """Registers a worker may have when one block takes a whole processor: 240 of two warpgroups with a producer, 160 of three."""
        if self.registers == float("inf"):
            return self.registers_per_thread
        left = (self.registers - PRODUCER_REGISTERS * producers) // workers // REGISTER_STEP * REGISTER_STEP
        return minimum(left, self.registers_per_thread)


def limits_of(hardware: Hardware) -> Limits:
    """The limits of a profile."""

    def limit(name: str) -> float:
        value = si(hardware.limits.get(name))
        return float("inf") if value is None else value

    level = si(hardware.levels["smem"].size)
    level = float("inf") if level is None else level
    per_block = limit("smem_per_block")
    smem = per_block if per_block != float("inf") else level
    return Limits(
        smem_bytes=smem,
        smem_per_processor=max(level, smem) if level != float("inf") else smem,
        registers_per_thread=limit("registers_per_thread"),
        registers=limit("registers_per_processor"),
        threads_per_block=limit("threads_per_block"),
        threads=limit("threads_per_processor"),
    )


@dataclass(frozen=True, slots=True)
class Room:
    """What a block takes and may take. ``occupancy`` blocks share a processor, 0 where not one fits."""

    smem_bytes: Number
    smem_parts: Mapping[str, Number]
    accumulators_per_thread: Number
    registers_per_thread: Number
    register_limit: Number
    threads: Number
    occupancy: Number
    fits: Any


def smem_parts(nest: Nest) -> dict[str, Number]:
    """Shared memory of a block by what lies in it."""
    parts: dict[str, Number] = {}
    guests: dict[str, Number] = {}
    for access in nest.kernel.accesses:
        if access.to != "smem":
            continue
        size = whole(nest.tile_bytes(access) * nest.value(access.buffers))
        home = guests if access.in_place_of else parts
        name = access.in_place_of or access.tensor
        home[name] = maximum(home.get(name, 0), size)
    for name, size in guests.items():
        parts[name] = maximum(parts.get(name, 0), size)
    for name, stated in nest.kernel.space.items():
        parts[name] = nest.value(stated)
    return parts


def room_of(nest: Nest, limits: Limits) -> Room:
    """What a block of the kernel takes of a processor with these limits."""
    kernel = nest.kernel
    parts = smem_parts(nest)
    smem = total(parts.values())
    workers, producers = nest.value(kernel.workers), nest.value(kernel.producers)
    held = exact(total(nest.value(a) for a in kernel.accumulators.values()), workers)
    registers = held + nest.value(kernel.overhead)
    threads = workers + producers
    most = limits.worker_registers(workers, producers)
    fits = (smem <= limits.smem_bytes) & (registers <= most) & (threads <= limits.threads_per_block)
    held_blocks = _occupancy(limits, smem, registers, workers, producers)
    return Room(smem, parts, held, registers, most, threads, where(fits, held_blocks, 0), fits)


def _occupancy(limits: Limits, smem: Number, registers: Number, workers: Number, producers: Number) -> Number:
    taken = -(-registers // REGISTER_STEP) * REGISTER_STEP * workers + PRODUCER_REGISTERS * producers
    blocks: Number = MOST_BLOCKS
    for have, need in ((limits.smem_per_processor, smem), (limits.registers, taken), (limits.threads, workers + producers)):
        if have != float("inf"):
            blocks = minimum(blocks, have // maximum(need, 1))
    return maximum(blocks, 1)


def reasons(found: Room, limits: Limits) -> list[str]:
    """Why a block does not fit, in sentences with the largest parts first; for numbers, not arrays."""
    said = []
    if found.smem_bytes > limits.smem_bytes:
        parts = sorted(found.smem_parts.items(), key=lambda p: -float(p[1]))
        listed = ", ".join(f"{name} {float(size) / 1024:g}" for name, size in parts if float(size) > 0)
        over = f"{float(found.smem_bytes) / 1024:g} KiB of shared memory a block, {limits.smem_bytes / 1024:g} KiB may be used"
        said.append(f"{over} (KiB: {listed})")
    if found.registers_per_thread > found.register_limit:
        need = f"{float(found.registers_per_thread):g} registers a thread"
        said.append(f"{need} ({float(found.accumulators_per_thread):g} for accumulators), {float(found.register_limit):g} may be used")
    if found.threads > limits.threads_per_block:
        said.append(f"{found.threads} threads a block, {limits.threads_per_block:g} may be used")
    return said
