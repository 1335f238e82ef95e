"""What is inconsistent in a dataflow, each with the path of keys to where it is said, for a reader to show in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from roofline.dataflow.form import Access, Dataflow, Kernel, Loop, Names, amount
from roofline.dataflow.nest import Nest
from roofline.dataflow.room import Limits, reasons, room_of
from roofline.errors import did_you_mean
from roofline.numeric import Number, product

Path = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing wrong, and the keys that lead to it."""

    path: Path
    message: str


@dataclass(frozen=True, slots=True)
class Stated:
    """Limits that a file states itself; infinite where it does not."""

    smem: float = inf
    registers: float = inf


def complaints(flow: Dataflow, machine: Names, stated: Stated | None = None) -> list[Complaint]:
    """All that is inconsistent; empty where nothing is. Sizes are looked at only where the structure holds."""
    found = [c for i, k in enumerate(flow.kernels) for c in _structure(flow, k, ("kernels", i))]
    if found:
        return found
    names = flow.names(machine)
    for i, kernel in enumerate(flow.kernels):
        if amount(kernel.when, names) > 0:
            found += _sizes(Nest(flow, kernel, names), ("kernels", i), stated or Stated())
    return found + list(_uses(flow, names))


# --------------------------------------------------------------------------- structure
def _structure(flow: Dataflow, kernel: Kernel, path: Path) -> Iterator[Complaint]:
    loops = {loop.name: loop for loop in kernel.loops}
    yield from _tree(kernel, loops, path)
    tensors = {t.name: t for t in flow.tensors}
    for i, access in enumerate(kernel.accesses):
        at = (*path, "accesses", i)
        if access.tensor not in tensors:
            yield Complaint((*at, "tensor"), f"unknown tensor '{access.tensor}'; {did_you_mean(access.tensor, list(tensors))}")
        elif len(access.index) != (dims := len(tensors[access.tensor].shape)):
            said = f"'{access.tensor}' has {dims} dimensions and its index {len(access.index)} entries; write all for one taken whole"
            yield Complaint((*at, "index"), said)
        if access.in_place_of is not None and not any(a.tensor == access.in_place_of for a in kernel.accesses):
            yield Complaint((*at, "in_place_of"), f"'{access.in_place_of}' is not loaded by this kernel, so it has no space to take over")
        yield from _known(access.at, loops, (*at, "at"))
        if access.at in loops:
            yield from _index(access, loops, at)
    for part, places in (("products", [p.at for p in kernel.products]), ("work", [w.at for w in kernel.works])):
        for i, name in enumerate(places):
            yield from _known(name, loops, (*path, part, i, "at"))
    for name in kernel.cluster:
        yield from _known(name, loops, (*path, "cluster", name))
        if name in loops and not loops[name].parallel:
            yield Complaint((*path, "cluster", name), f"loop '{name}' runs inside a block; blocks of a cluster lie along a parallel loop")


def _tree(kernel: Kernel, loops: Mapping[str, Loop], path: Path) -> Iterator[Complaint]:
    seen: list[str] = []
    for loop in kernel.loops:
        at = (*path, "loops", loop.name)
        if loop.inside is not None and loop.inside not in seen:
            said = f"loop '{loop.name}' is inside '{loop.inside}', which is no loop before it; {did_you_mean(loop.inside, seen)}"
            yield Complaint((*at, "inside"), said)
        elif loop.parallel and loop.inside is not None and not loops[loop.inside].parallel:
            said = f"parallel loop '{loop.name}' is inside '{loop.inside}', which runs within a block; put parallel loops first"
            yield Complaint((*at, "parallel"), said)
        seen.append(loop.name)


def _known(name: str, loops: Mapping[str, Loop], path: Path) -> Iterator[Complaint]:
    if name not in loops:
        yield Complaint(path, f"unknown loop '{name}'; {did_you_mean(name, list(loops))}")


def _index(access: Access, loops: Mapping[str, Loop], path: Path) -> Iterator[Complaint]:
    around = set()
    name: str | None = access.at
    while name is not None and name in loops and name not in around:
        around.add(name)
        name = loops[name].inside
    for i, names in enumerate(access.index):
        for name in names:
            if name not in loops:
                yield Complaint((*path, "index", i), f"unknown loop '{name}'; {did_you_mean(name, [*loops, 'all'])}")
            elif name not in around:
                said = f"loop '{name}' is not around '{access.at}', where {access.tensor} is taken; move it inside '{name}'"
                yield Complaint((*path, "index", i), said)


# --------------------------------------------------------------------------- sizes
def _sizes(nest: Nest, path: Path, stated: Stated) -> Iterator[Complaint]:
    for span in nest.spans.values():
        if span.tile > span.over:
            tile = _tile_named(nest, span.loop)
            where = ("tiles", tile) if tile else (*path, "loops", span.loop.name, "tile")
            fix = f"give {tile} at most {_n(span.over)}" if tile else f"at most {_n(span.over)}"
            said = f"a tile of {_n(span.tile)} is larger than the {_n(span.over)} elements that loop '{span.loop.name}' walks over"
            yield Complaint(where, f"{said}; {fix}")
    for i, access in enumerate(nest.kernel.accesses):
        yield from _covers(nest, access, (*path, "accesses", i))
        if access.mode == "write":
            yield from _written_once(nest, access, (*path, "accesses", i))
    if stated != Stated():
        own = Limits(stated.smem, stated.smem, stated.registers, inf, inf, inf)
        for said in reasons(room_of(nest, own), own):
            key = "smem" if "shared" in said else "registers"
            yield Complaint(("limits", key), f"kernel '{nest.kernel.name}' takes {said}; make tiles or stages smaller, or raise the limit")


def _tile_named(nest: Nest, loop: Loop) -> str | None:
    """The tunable size that is the loop's tile, if it is one as it stands."""
    text = getattr(loop.tile, "text", None)
    return text if text in {t.name for t in nest.flow.tiles} else None


def _n(value: Number) -> str:
    return f"{float(value):g}"


def _covers(nest: Nest, access: Access, path: Path) -> Iterator[Complaint]:
    """The loops of a dimension walk over all of it, once or a whole number of times (heads that share keys)."""
    for i, (dim, loops) in enumerate(zip(nest.flow.tensor(access.tensor).shape, access.index, strict=True)):
        if not loops:
            continue
        walked, size = product(nest.spans[n].over for n in loops), nest.value(dim)
        if abs(float(walked / size) - round(float(walked / size))) > 1e-9 or float(walked) < float(size):
            said = f"dimension {i + 1} of {access.tensor} has {_n(size)} elements, but {'.'.join(loops)} walks over {_n(walked)}"
            yield Complaint((*path, "index", i), f"{said}; index it by other loops or by all")


def _written_once(nest: Nest, access: Access, path: Path) -> Iterator[Complaint]:
    again = [s.loop.name for s in nest.again(access) if s.trips > 1]
    if again:
        said = f"{access.tensor} is written in each iteration of loop '{again[-1]}', which does not walk over it: only the last stays"
        yield Complaint((*path, "at"), f"{said}; write it outside that loop, or list it under updates")


def _by_an_earlier_phase(kernel: Kernel, access: Access) -> bool:
    """Whether the kernel itself has written the tensor in a loop that is over before that of the access begins."""
    parent = {loop.name: loop.inside for loop in kernel.loops}
    order, around, at = list(parent), set(), access.at if access.at in parent else None
    while at is not None:
        around.add(at)
        at = parent.get(at)
    writes = [a.at for a in kernel.accesses if a.mode != "read" and a.tensor == access.tensor and a.at in parent]
    return any(access.at in parent and order.index(w) < order.index(access.at) and w not in around for w in writes)


# --------------------------------------------------------------------------- tensors
def _uses(flow: Dataflow, names: Names) -> Iterator[Complaint]:
    """Inputs are read, outputs are written, what is handed on is written before it is read."""
    written: set[str] = set()
    read: set[str] = set()
    for i, kernel in enumerate(flow.kernels):
        if not amount(kernel.when, names) > 0:
            continue
        used = [(j, a) for j, a in enumerate(kernel.accesses) if amount(a.when, names) > 0]
        for j, access in used:
            role = flow.tensor(access.tensor).role
            known = access.tensor in written or _by_an_earlier_phase(kernel, access)
            if access.mode == "read" and role in ("scratch", "out") and not known:
                said = f"{access.tensor} is read here, but no kernel before '{kernel.name}' has written it"
                yield Complaint(("kernels", i, "accesses", j, "tensor"), f"{said}; write it first, or give it the role in")
        written |= {a.tensor for _, a in used if a.mode != "read"}
        read |= {a.tensor for _, a in used if a.mode == "read"}
    idle = {a.tensor for k in flow.kernels for a in k.accesses} - written - read
    for tensor in flow.tensors:
        at = ("tensors", tensor.name)
        if tensor.held is not None and tensor.role != "scratch":
            yield Complaint((*at, "held"), f"'{tensor.name}' is no scratch, so no kernel hands it to the next; leave held out")
        if tensor.name in idle:
            continue
        if tensor.role in ("out", "scratch") and tensor.name not in written:
            yield Complaint(at, f"tensor '{tensor.name}' ({tensor.role}) is never written; write it in a kernel, or give it the role in")
        if tensor.role in ("in", "weight", "scratch") and tensor.name not in read:
            yield Complaint(at, f"tensor '{tensor.name}' ({tensor.role}) is never read; read it in a kernel, or leave it out")
