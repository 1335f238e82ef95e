"""Tile sizes searched: all combinations of the choices in one evaluation with arrays, those without room left out.

The least scheduled time wins. Those within 5 % of it tie, as everywhere in this tool, and of them the one that asks L2 for the
fewest bytes is best: few vendors publish the rate of L2, so that the time does not show what tiles cost there. What a faster or
larger part of the device would be worth is the same search on such a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product as combinations
from typing import Any

import numpy as np

from roofline.dataflow.account import Account, Device, account
from roofline.dataflow.form import Dataflow, amount
from roofline.dataflow.nest import Nest
from roofline.errors import UsageError
from roofline.predict.bound import TIE

MOST_CANDIDATES = 200_000
"""Combinations looked at; more are refused."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Tiles by name, and the dataflow with them."""

    tiles: Mapping[str, int]
    account: Account


@dataclass(frozen=True, slots=True)
class Search:
    """What was found: the best choices first, how many were tried, how many have room, and the least time of all."""

    best: tuple[Choice, ...]
    tried: int
    fitting: int
    least_s: float


def candidates(flow: Dataflow, device: Device) -> dict[str, Any]:
    """Every combination of the tiles' choices and of their values in the file, as float64 arrays by name.

    Raises:
        UsageError: too many.
    """
    names = flow.names(device.names)
    options = [sorted({*t.choices, int(names[t.name])}) for t in flow.tiles]
    count = int(np.prod([len(o) for o in options], dtype=float)) if options else 1
    if count > MOST_CANDIDATES:
        raise UsageError(f"{flow.name}: {count} combinations of tiles; at most {MOST_CANDIDATES} are tried, shorten 'choices'")
    table = np.array(list(combinations(*options)), dtype=float).reshape(count, len(options))
    return {t.name: table[:, i] for i, t in enumerate(flow.tiles)}


def within(flow: Dataflow, device: Device, chosen: Mapping[str, Any]) -> Any:
    """Where no tile is larger than what its loop walks over."""
    names = flow.names(device.names, chosen)
    found: Any = True
    for kernel in flow.kernels:
        if np.all(np.asarray(amount(kernel.when, names)) > 0):
            for span in Nest(flow, kernel, names).spans.values():
                found = found & (span.tile <= span.over)
    return found


def search(flow: Dataflow, device: Device, *, keep: int = 5) -> Search:
    """The best tiles that have room on the device."""
    chosen = candidates(flow, device)
    size = len(next(iter(chosen.values()))) if chosen else 1
    counted = account(flow, device, chosen)
    room = np.broadcast_to(np.asarray(counted.fits & within(flow, device, chosen)), size)
    order = np.lexsort([np.broadcast_to(np.asarray(a, dtype=float), size) for a in _ranking(counted, room)])
    picked = [i for i in order if room[i]][:keep]
    best = tuple(_choice(flow, device, {n: int(v[i]) for n, v in chosen.items()}) for i in picked)
    times = np.broadcast_to(np.asarray(counted.scheduled_s, dtype=float), size)
    return Search(best, size, int(room.sum()), float(np.where(room, times, np.inf).min()))


def _ranking(found: Account, room: Any) -> list[Any]:
    """Least important first, as lexsort takes them: near the least time fewer bytes, elsewhere less time."""
    time = np.asarray(found.scheduled_s, dtype=float)
    usable = np.where(room, time, np.inf)
    near = time * TIE <= usable.min()
    return [found.no_overlap_s, time, np.where(near, found.sum("l2_bytes"), time), ~near]


def _choice(flow: Dataflow, device: Device, tiles: Mapping[str, int]) -> Choice:
    return Choice(tiles, account(flow, device, tiles))


def fewest_bytes(flow: Dataflow, device: Device) -> Choice | None:
    """The tiles with the fewest bytes from L2 among those whose shared memory fits, whatever their registers: the IO bound."""
    chosen = candidates(flow, device)
    size = len(next(iter(chosen.values()))) if chosen else 1
    counted = account(flow, device, chosen)
    room: Any = within(flow, device, chosen)
    for kernel in counted.kernels:
        room = room & (kernel.room.smem_bytes <= device.limits.smem_bytes)
    moved = np.where(room, np.broadcast_to(np.asarray(counted.sum("l2_bytes"), dtype=float), size), np.inf)
    best = int(moved.argmin())
    return _choice(flow, device, {n: int(v[best]) for n, v in chosen.items()}) if np.isfinite(moved[best]) else None


def nearest_that_fits(flow: Dataflow, device: Device) -> dict[str, tuple[int, int]] | None:
    """The smallest change of tiles that has room: by name the present value and the new one; None where nothing has."""
    chosen = candidates(flow, device)
    if not chosen:
        return None
    present = flow.names(device.names)
    size = len(next(iter(chosen.values())))
    room = np.broadcast_to(np.asarray(account(flow, device, chosen).fits & within(flow, device, chosen)), size)
    away = sum(np.abs(np.log2(v / float(present[n]))) for n, v in chosen.items()) + 0.01 * sum(v != present[n] for n, v in chosen.items())
    if not room.any():
        return None
    best = int(np.where(room, away, np.inf).argmin())
    return {n: (int(present[n]), int(v[best])) for n, v in chosen.items() if int(v[best]) != int(present[n])}


def variants(device: Device) -> Iterator[tuple[str, Device]]:
    """The device with one part twice as large or as fast."""
    larger = device.limits.smem_bytes * 2
    names = {**device.names, "sram": larger}
    yield "shared memory", replace(device, names=names, limits=replace(device.limits, smem_bytes=larger, smem_per_processor=larger))
    yield "registers", replace(device, limits=replace(device.limits, registers=device.limits.registers * 2))
    for resource, said in PARTS.items():
        if resource in device.rates.per_clock:
            faster = {**device.rates.per_clock, resource: device.rates.per_clock[resource] * 2}
            yield said, replace(device, rates=replace(device.rates, per_clock=faster))


PARTS = {
    "tensor": "matrix rate",
    "vector": "vector rate",
    "sfu": "exponentials",
    "smem": "shared-memory bandwidth",
    "l2": "L2 bandwidth",
    "hbm": "HBM bandwidth",
}
"""What twice the rate of a resource is called."""
