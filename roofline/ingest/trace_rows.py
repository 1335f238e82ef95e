"""Executed operators with equal arguments as one row: how often, how long, how much work, how far from the roof."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roofline.errors import UsageError
from roofline.hardware.profile import Hardware
from roofline.ingest.aten import Mapped
from roofline.ingest.trace_events import Trace
from roofline.ingest.trace_pieces import Known, Piece
from roofline.numeric import scalar
from roofline.report.counted import Counted, count
from roofline.report.model import arithmetic
from roofline.report.trace import TraceRow, TraceWork
from roofline.workload.workload import Step

ENGINES = ("tensor", "vector", "sfu")
NO_HARDWARE = "no hardware profile was named; add -H NAME"
NO_LINK = "no link was named; add --link NAME"
NO_HOST_LINK = "the profile states no link to the host"
Key = tuple[str, str, str, str | None, str, str | None, str | None]


@dataclass(slots=True)
class Group:
    """Pieces that become one row, the id of the row, and its place by when it first ran."""

    id: str
    order: int
    pieces: list[Piece] = field(default_factory=list)


def groups_of(pieces: Sequence[Piece]) -> list[Group]:
    """Pieces by name, arguments, phase and forward operator, in the order in which each sort first ran."""
    found: dict[Key, Group] = {}
    taken: dict[str, int] = {}
    works: dict[int, str] = {}
    for piece in pieces:
        work = works.get(id(piece.known))
        if work is None:
            work = works[id(piece.known)] = repr([(m.op, m.direction, sorted(m.fields.items())) for m in piece.known.mapped])
        key = (piece.name, piece.lane, piece.phase, piece.forward, work, piece.known.reason, piece.known.note)
        if key not in found:
            found[key] = Group(_new_id(piece.name, taken), len(found))
        found[key].pieces.append(piece)
    return list(found.values())


def _new_id(name: str, taken: dict[str, int]) -> str:
    """A step id from a recorded name: its last part, plain, with a number where it is taken."""
    last = re.split(r"::|\.", name.split("(")[0].split("<")[0])[-1]
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", last).strip("_-")[:40] or "kernel"
    plain = f"{plain}_" if plain == "total" else plain
    found, number = plain, taken.get(plain, 0)
    while found in taken:
        number += 1
        found = f"{plain}-{number + 1}" if number else plain
    taken[plain] = max(number, taken.get(plain, 0))
    taken[found] = taken.get(found, 0)
    return found


@dataclass(frozen=True, slots=True)
class Worth:
    """What one call does, and what it needs at least on a device; None where it cannot be said, with the reasons."""

    flop: Mapping[str, float]
    hbm_bytes: float
    link_bytes: float
    bound_s: float | None
    limiter: str | None
    why: Mapping[str, str]


def worth(mapped: Sequence[Mapped], hardware: Hardware | None) -> Worth:
    """Work and bound of some operators, one after the other."""
    flop = dict.fromkeys(ENGINES, 0.0)
    moved = sent = bound = 0.0
    limits: dict[str, float] = {}
    why: dict[str, str] = {}
    for each in mapped:
        counted, refused = _counted(each, hardware)
        for engine in ENGINES:
            flop[engine] += scalar(getattr(counted.work.counts, engine))
        moved += scalar(counted.work.compulsory.hbm)
        sent += sum(scalar(n) for n in counted.work.link_bytes.values())
        if counted.bound is None:
            why["bound_s"] = refused or NO_HARDWARE
            continue
        time = scalar(counted.bound.time_s)
        bound += time
        limiter = counted.bound.limiter or "nothing"
        limits[limiter] = limits.get(limiter, 0.0) + time
    if why:
        return Worth(flop, moved, sent, None, None, why)
    return Worth(flop, moved, sent, bound, max(limits, key=lambda n: (limits[n], n)), {})


def _counted(mapped: Mapped, hardware: Hardware | None) -> tuple[Counted, str | None]:
    """The operator counted, on the device where that has what it needs."""
    step = Step(id=mapped.op, op=mapped.build(), direction=mapped.direction)
    if hardware is not None and mapped.fields.get("over") == "":
        return count(step, None, "compulsory"), NO_HOST_LINK if mapped.op == "copy" else NO_LINK
    try:
        return count(step, hardware, "compulsory"), None
    except UsageError as err:
        return count(step, None, "compulsory"), str(err)


def row_of(group: Group, trace: Trace, total_us: float, path_us: float, hardware: Hardware | None) -> TraceRow:
    """The row of a group; ``path_us`` of its time lie on the critical path."""
    pieces = group.pieces
    first = pieces[0]
    events = [i for p in pieces for i in p.gpu]
    time_us = sum(trace.gpu.length[i] for i in events)
    found = worth(first.known.mapped, hardware) if first.known.mapped else None
    each_s = time_us * 1e-6 / len(pieces)
    ops = arithmetic(found.flop) if found else 0.0
    why = dict(found.why) if found else {}
    bound = found.bound_s if found else None
    if "bound_s" in why:
        why |= dict.fromkeys(("limiter", "share_of_roof"), why["bound_s"])
    if found and not found.hbm_bytes:
        why["intensity_flop_per_byte"] = "it moves no bytes"
    return TraceRow(
        id=group.id,
        order=group.order,
        name=first.name,
        lane=first.lane,
        phase=first.phase,
        gradient_of=first.forward,
        calls=len(pieces),
        kernels=sum(trace.gpu_kind[i] == "kernel" for i in events),
        time_s=time_us * 1e-6,
        share=time_us / total_us if total_us else 0.0,
        path_s=path_us * 1e-6,
        work=tuple(TraceWork(op=m.op, direction=m.direction, fields=dict(m.fields)) for m in first.known.mapped),
        unknown=_reason(first.known),
        note=first.known.note,
        flop=found.flop if found else None,
        hbm_bytes=found.hbm_bytes if found else None,
        link_bytes=found.link_bytes if found else None,
        intensity_flop_per_byte=ops / found.hbm_bytes if found and found.hbm_bytes else None,
        bound_s=bound,
        limiter=found.limiter if found else None,
        share_of_roof=bound / each_s if bound is not None and each_s else None,
        unavailable=why,
    )


def _reason(known: Known) -> str | None:
    return None if known.mapped else known.reason or "unknown"
