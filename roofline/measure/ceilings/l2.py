"""The cache before main memory: what all processors together read from it.

On a GPU every program reads the whole of a buffer, each from a place of its own on and past L1, again and again; one that
re-read its own piece would measure L1. The ceiling is the plateau, the median over several buffer sizes. Launching takes
less than 0.2 % of a sample and is not subtracted. On a CPU torch sums an array that stays in the cache.
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import Any

from roofline.measure.ceilings.base import Bench, Call, Candidate, Measured, Unmeasured, close
from roofline.measure.ceilings.hbm import triton_kernel

TILES = ((4096, 8, 4), (2048, 8, 8))
"""Floats a tile, warps, programs a processor."""
BYTES_A_CALL = 20e9
"""2 ms at the 10 TB/s of a large GPU."""
LARGEST_PART = 0.4
"""Of the cache: replicated reads see about half of the capacity of one with two partitions."""


def read(bench: Bench) -> Measured:
    """The plateau over working sets that the cache holds."""
    cache = bench.device.info.l2_bytes
    sets = [s for s in bench.sizes.cache_bytes if cache is None or s <= LARGEST_PART * cache]
    if not sets:
        raise Unmeasured(f"no working set fits: 40 % of the cache is {LARGEST_PART * (cache or 0):.3g} B")
    if not bench.cuda:
        return max((_cpu_read(bench, size) for size in sets), key=lambda m: m.best)
    found = [bench.fastest(1.0, [_gpu_read(bench, size, *tile) for tile in TILES]) for size in sets]
    return plateau(found, sets)


def plateau(found: list[Measured], sets: list[int]) -> Measured:
    """The working set of the median rate, with the range over all of them in the note."""
    values = [m.value for m in found]
    middle = median(values)
    chosen = min(found, key=lambda m: abs(m.value - middle))
    span = f"{min(sets) / 2**20:.3g} to {max(sets) / 2**20:.3g} MiB read {min(values) / 1e12:.3g} to {max(values) / 1e12:.3g} TB/s"
    return replace(chosen, note=f"{chosen.note}; plateau: {span}")


def _gpu_read(bench: Bench, size: int, tile: int, warps: int, programs: int) -> Candidate:
    import torch

    grid = bench.processors * programs
    tiles = max(1, size // (4 * tile))
    rounds = max(1, math.ceil(min(BYTES_A_CALL, BYTES_A_CALL * bench.sizes.steps / 2048) / (grid * tiles * tile * 4)))
    x = torch.ones(tiles * tile, device=bench.place)
    sums = torch.zeros(grid, device=bench.place)

    def build() -> Call:
        kernel = triton_kernel("l2_reads")
        return lambda: kernel[(grid,)](x, sums, tiles, rounds, TILE=tile, num_warps=warps)

    def check() -> None:
        expected = float(tiles * tile * rounds)
        close(sums.min().item(), expected, 1e-6, "l2_reads")
        close(sums.max().item(), expected, 1e-6, "l2_reads")

    label = f"Triton, {grid} programs x {rounds} x {size / 2**20:.3g} MiB in tiles of {tile} floats"
    return Candidate(label=label, build=build, check=check, work=float(grid) * rounds * tiles * tile * 4)


def _cpu_read(bench: Bench, size: int) -> Measured:
    import torch

    x: Any = torch.randn(max(1, size // 4), device=bench.place)
    label = f"torch.sum over {size / 2**20:.3g} MiB"
    return bench.fastest(x.numel() * 4.0, [Candidate(label=label, build=lambda: lambda: torch.sum(x))])
