"""A dataflow on a device as data: what `roofline dataflow` prints as JSON and what its tables are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roofline.dataflow.account import Account, Device, KernelAccount
from roofline.dataflow.form import RESOURCES
from roofline.dataflow.room import reasons
from roofline.dataflow.schedule import Step
from roofline.dataflow.tune import Choice, nearest_that_fits
from roofline.numeric import Number
from roofline.predict.bound import TIE

SCHEMA = 1
CONVENTIONS = {
    "hbm_once": "each tensor of each kernel once in each direction: no execution of these kernels moves less",
    "hbm": "what L2 lets through, by the model of roofline.dataflow.cache",
    "l2": "all visits of all tiles, a cluster's copy once: HBM bytes were there no cache",
    "smem": "operands of products and what units exchange; smem_fill are the copies into shared memory",
    "bound_s": "work of each resource over its published rate, bytes of HBM and L2 once; the largest, summed over kernels",
    "scheduled_s": "the least that the dataflow takes with its tiles, overlaps, fill, drain and waves at published rates",
    "no_overlap_s": "what it takes when nothing overlaps",
}
"""What the figures mean."""


def plain(value: Any) -> float | int:
    """A number for JSON: an integer where it is one."""
    found = float(value)
    return int(found) if found.is_integer() and abs(found) < 2**63 else found


def flops(work: Any) -> dict[str, float | int]:
    """Work by engine."""
    return {e: plain(getattr(work, e)) for e in ("tensor", "vector", "sfu")}


BYTES = {
    "hbm_once": "once_bytes", "hbm": "hbm_bytes", "l2": "l2_bytes", "smem_fill": "fill_bytes", "smem": "smem_bytes",
    "register": "register_bytes",
}  # fmt: skip
"""Levels as the report names them, and the field of `Totals` of each."""


def described(found: Account, device: Device) -> dict[str, Any]:
    """The whole answer of ``dataflow show``."""
    flow = found.flow
    return {
        "schema": SCHEMA,
        "kind": "dataflow",
        "dataflow": flow.name,
        "title": flow.title,
        "source": flow.source,
        "hardware": device.name,
        "dtype": flow.dtype,
        "params": dict(flow.params),
        "tiles": tiles_of(found),
        "conventions": CONVENTIONS,
        "kernels": [_kernel(k, device) for k in found.kernels],
        "totals": totals(found),
        "missing": dict(device.rates.missing),
        **fitting(found, device),
    }


def tiles_of(found: Account) -> dict[str, float | int]:
    """The tunable sizes in force."""
    return {t.name: plain(found.names[t.name]) for t in found.flow.tiles}


def totals(found: Account) -> dict[str, Any]:
    """All kernels together."""
    seconds = found.seconds()
    return {
        "kernels": len(found.kernels),
        "flop": {e: plain(found.sum(e)) for e in ("tensor", "vector", "sfu")},
        "bytes": {level: plain(found.sum(of)) for level, of in BYTES.items()},
        "extra_memory_bytes": plain(found.extra_memory_bytes),
        "io_bytes": plain(found.io_bytes),
        "bound_s": float(found.bound_s),
        "scheduled_s": float(found.scheduled_s),
        "no_overlap_s": float(found.no_overlap_s),
        "per_resource_s": {r: float(seconds[r]) for r in RESOURCES},
        "limiter": limiter(found),
    }


def limiter(found: Account) -> str | None:
    """The resource that binds for most of the bound."""
    spent: dict[str, float] = {}
    for kernel in found.kernels:
        times = kernel.time.per_resource_s
        if times and max(times.values()) > 0:
            first = max(times, key=lambda r: times[r])
            spent[first] = spent.get(first, 0.0) + float(times[first])
    return max(spent, key=lambda r: spent[r]) if spent else None


def fitting(found: Account, device: Device) -> dict[str, Any]:
    """Whether blocks have room, why not, and the smallest change of tiles that has."""
    fits = bool(found.fits)
    why = [f"{k.name}: {said}" for k in found.kernels for said in reasons(k.room, device.limits)]
    change = None if fits else nearest_that_fits(found.flow, device)
    return {"fits": fits, "why": why, "change": None if change is None else {n: {"from": a, "to": b} for n, (a, b) in change.items()}}


def _kernel(kernel: KernelAccount, device: Device) -> dict[str, Any]:
    work, room, time = kernel.work, kernel.room, kernel.time
    return {
        "name": kernel.name,
        "flop": flops(work),
        "bytes": {level: plain(getattr(work, of)) for level, of in BYTES.items()},
        "tensors": [
            {"tensor": m.tensor, "mode": m.mode, "once_bytes": plain(m.once_bytes), "hbm_bytes": plain(m.hbm_bytes),
             "l2_bytes": plain(m.l2_bytes), "visits": plain(m.visits)}
            for m in work.moved
        ],
        "room": {
            "fits": bool(room.fits),
            "smem_bytes": plain(room.smem_bytes),
            "smem_parts": {n: plain(v) for n, v in room.smem_parts.items()},
            "smem_limit_bytes": plain(device.limits.smem_bytes),
            "accumulators_per_thread": plain(room.accumulators_per_thread),
            "registers_per_thread": plain(room.registers_per_thread),
            "register_limit": plain(room.register_limit),
            "threads": plain(room.threads),
            "blocks_per_processor": plain(room.occupancy),
        },
        "blocks": plain(time.blocks),
        "waves": plain(time.waves),
        "steps": [_step(s) for s in time.steps],
        "fill_cycles": float(time.fill_cycles),
        "drain_cycles": float(time.drain_cycles),
        "bound_s": float(kernel.bound_s),
        "scheduled_s": float(time.scheduled_s),
        "no_overlap_s": float(time.no_overlap_s),
        "per_resource_s": {r: float(s) for r, s in time.per_resource_s.items()},
    }  # fmt: skip


def _step(step: Step) -> dict[str, Any]:
    first, tied = binding(step.cycles)
    return {
        "loop": step.loop,
        "iterations": plain(step.trips),
        "cycles": {r: float(step.cycles.get(r, 0)) for r in RESOURCES},
        "scheduled_cycles": float(step.scheduled),
        "binds": first,
        "tied": tied,
    }


def binding(cycles: Mapping[str, Number]) -> tuple[str | None, list[str]]:
    """The resource with the most cycles, and those within 5 % of it."""
    used = {r: float(c) for r, c in cycles.items() if float(c) > 0}
    if not used:
        return None, []
    first = max(used, key=lambda r: used[r])
    return first, [r for r, c in used.items() if r != first and c >= TIE * used[first]]


# --------------------------------------------------------------------------- comparison
def compared(found: Sequence[Account], device: Device) -> dict[str, Any]:
    """Several dataflows side by side, each against the first."""
    rows = [{"dataflow": a.flow.name, "tiles": tiles_of(a), **totals(a), **fitting(a, device)} for a in found]
    return {
        "schema": SCHEMA,
        "kind": "dataflow comparison",
        "hardware": device.name,
        "conventions": CONVENTIONS,
        "dataflows": rows,
        "ratios": [_ratios(rows[0], r) for r in rows],
        "why": [reasons_against(found[0], a) for a in found[1:]],
    }


def _ratios(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float | None]:
    def ratio(a: float, b: float) -> float | None:
        return b / a if a else None

    return {
        "flop.tensor": ratio(first["flop"]["tensor"], other["flop"]["tensor"]),
        **{f"bytes.{level}": ratio(first["bytes"][level], other["bytes"][level]) for level in BYTES},
        **{name: ratio(first[name], other[name]) for name in ("bound_s", "scheduled_s", "no_overlap_s", "extra_memory_bytes")},
    }


def hbm_by_tensor(found: Account) -> dict[str, Number]:
    """HBM bytes of each tensor over all kernels."""
    moved: dict[str, Number] = {}
    for kernel in found.kernels:
        for m in kernel.work.moved:
            moved[m.tensor] = moved.get(m.tensor, 0) + m.hbm_bytes
    return moved


def reasons_against(first: Account, other: Account) -> list[str]:
    """Why the bytes differ: tensors that only one of them has, tensors that one fetches more often, FLOP done again."""
    said = []
    one, two = hbm_by_tensor(first), hbm_by_tensor(other)
    for names, a, b in ((first.flow.name, one, two), (other.flow.name, two, one)):
        only = {n: v for n, v in a.items() if n not in b and float(v) > 0}
        if only:
            listed = ", ".join(sorted(only, key=lambda n: -float(only[n])))
            said.append(f"Only {names} moves {listed} through HBM: {share(sum(map(float, only.values())), sum(map(float, a.values())))}.")
    for name, a, b in ((other.flow.name, two, one), (first.flow.name, one, two)):
        more = {n: float(v) / float(b[n]) for n, v in a.items() if n in b and float(b[n]) > 0 and float(v) > 1.05 * float(b[n])}
        if more:
            times = ", ".join(f"{n} {r:.3g} times" for n, r in sorted(more.items(), key=lambda p: -p[1]))
            said.append(f"{name} moves the bytes of {times} as often.")
    tensor, again = float(first.sum("tensor")), float(other.sum("tensor"))
    if tensor and again > 1.001 * tensor:
        said.append(f"{other.flow.name} computes {(again / tensor - 1) * 100:.1f} % more matrix FLOP: it recomputes what it does not keep.")
    elif tensor and again < 0.999 * tensor:
        said.append(f"{other.flow.name} computes {(1 - again / tensor) * 100:.1f} % fewer matrix FLOP.")
    return said


def share(part: float, of: float) -> str:
    """A part of bytes in words."""
    from roofline.units import Dimension, format_quantity

    return f"{format_quantity(part, Dimension.BYTES)} of {format_quantity(of, Dimension.BYTES)}"


# --------------------------------------------------------------------------- tuning
def choice(found: Choice) -> dict[str, Any]:
    """One choice of tiles."""
    kernel = max(found.account.kernels, key=lambda k: float(k.time.scheduled_s))
    step = max(kernel.time.steps, key=lambda s: float(s.scheduled) * float(s.trips))
    first, tied = binding(step.cycles)
    return {
        "tiles": dict(found.tiles),
        "scheduled_s": float(found.account.scheduled_s),
        "no_overlap_s": float(found.account.no_overlap_s),
        "bytes": {level: plain(found.account.sum(of)) for level, of in BYTES.items()},
        "smem_bytes": max(plain(k.room.smem_bytes) for k in found.account.kernels),
        "registers_per_thread": max(plain(k.room.registers_per_thread) for k in found.account.kernels),
        "binds": first,
        "tied": tied,
    }
