"""Bytes at every level and work on every engine of one kernel, from its loops.

Three counts of HBM bytes, as for operators: each tensor of the kernel once; all visits with no cache (what L2 serves); and
those that L2 lets through (`cache`).
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.dataflow.cache import Through
from roofline.dataflow.form import Access, Product
from roofline.dataflow.nest import Nest, exact
from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, maximum, total, where
from roofline.ops.base import VECTOR_REGISTER_BYTES_PER_FLOP, whole


@dataclass(frozen=True, slots=True)
class Moved:
    """What one tensor moves in a kernel: reads and writes over all visits, and how often each tile is fetched from L2."""

    tensor: str
    mode: str
    once_bytes: Number
    l2_bytes: Number
    hbm_bytes: Number
    visits: Number


@dataclass(frozen=True, slots=True)
class Totals:
    """One kernel in totals: FLOP as the mathematics needs, bytes by level, and each tensor's part.

    ``once_bytes`` are those of HBM; ``kept_bytes`` those of tensors that stay in L2 until they are read.
    """

    tensor: Number
    vector: Number
    sfu: Number
    once_bytes: Number
    kept_bytes: Number
    hbm_bytes: Number
    l2_bytes: Number
    smem_bytes: Number
    fill_bytes: Number
    register_bytes: Number
    moved: tuple[Moved, ...]


@dataclass(frozen=True, slots=True)
class Feed:
    """A product in numbers: its sizes in a step, FLOP of a step, and the shared-memory bytes of each operand."""

    product: Product
    flop: Number
    a_bytes: Number
    b_bytes: Number


def feed(nest: Nest, item: Product) -> Feed:
    """What a product needs in one step."""
    m, n, k = (nest.spans[d].tile if isinstance(d, str) else nest.value(d) for d in (item.m, item.n, item.k))
    element = find_dtype(item.dtype or nest.flow.dtype).bytes
    count = nest.value(item.count)
    if item.engine == "vector":
        a_reads, b_reads = exact(n, nest.value(item.thread_n)), exact(m, nest.value(item.thread_m))
    else:
        a_reads, b_reads = nest.value(item.split_n), maximum(exact(m, nest.names["mma_rows"]), 1) / nest.value(item.pair)
    return Feed(
        item,
        2 * m * n * k * count,
        whole(m * k * element * a_reads * count) if item.a == "smem" else 0,
        whole(n * k * element * b_reads * count) if item.b == "smem" else 0,
    )


def _along(*dims: object) -> set[str]:
    return {d for d in dims if isinstance(d, str)}


def totals(nest: Nest, blocks_at_once: Number) -> Totals:
    """The kernel's work and bytes; ``blocks_at_once`` run together and share what they read."""
    kernel = nest.kernel
    tensor: Number = 0
    lanes: Number = 0
    feeds: Number = 0
    for item in kernel.products:
        found = feed(nest, item)
        flop = found.flop * nest.repeats(item.at)
        tensor, lanes = (tensor, lanes + flop) if item.engine == "vector" else (tensor + flop, lanes)
        feeds = feeds + _operands(nest, found)
    vector = lanes + total(nest.value(w.vector) * nest.repeats(w.at) for w in kernel.works)
    sfu = total(nest.value(w.sfu) * nest.repeats(w.at) for w in kernel.works)
    units = total(nest.value(w.smem) * nest.repeats(w.at) for w in kernel.works)
    register = total(nest.value(w.register) * nest.repeats(w.at) for w in kernel.works)
    through = Through(nest, blocks_at_once)
    moved = tuple(_moved(nest, a, through) for a in kernel.accesses)
    fills = total(nest.moved_bytes(a) for a in kernel.accesses if a.to == "smem")
    return Totals(
        tensor=whole(tensor),
        vector=whole(vector),
        sfu=whole(sfu),
        once_bytes=whole(_once(nest, False)),
        kept_bytes=whole(_once(nest, True)),
        hbm_bytes=whole(total(m.hbm_bytes for m in moved)),
        l2_bytes=whole(total(m.l2_bytes for m in moved)),
        smem_bytes=whole(feeds + units),
        fill_bytes=whole(fills),
        register_bytes=whole(vector * VECTOR_REGISTER_BYTES_PER_FLOP + register),
        moved=moved,
    )


def _operands(nest: Nest, found: Feed) -> Number:
    """Shared-memory bytes of a product over all steps.

    An operand has its real size along the loops that walk over it; along the others it is read again for each piece, partial
    or not. Threads of a kernel on vector lanes read for the results that there are.
    """
    item = found.product
    if item.engine == "vector":
        return (found.a_bytes + found.b_bytes) * nest.repeats(item.at)
    left = found.a_bytes * nest.repeats(item.at, _along(item.m, item.k))
    return left + found.b_bytes * nest.repeats(item.at, _along(item.n, item.k))


def _once(nest: Nest, kept: bool) -> Number:
    """Each tensor once in each direction, however many accesses it has: those that stay in L2, or the others. An update is a write."""
    largest: dict[tuple[str, bool], Number] = {}
    for access in nest.kernel.accesses:
        key, once = (access.tensor, access.mode == "read"), nest.once_bytes(access)
        in_l2 = where(nest.stays(access), once, 0)
        largest[key] = maximum(largest.get(key, 0), in_l2 if kept else once - in_l2)
    return total(largest.values())


def _moved(nest: Nest, access: Access, through: Through) -> Moved:
    once, visits = nest.once_bytes(access), nest.moved_bytes(access)
    if access.mode == "read":
        visits = maximum(whole(visits / nest.multicast(access)), once)
    elif access.mode == "update":
        visits = 2 * visits - once
    times = where(once > 0, visits / maximum(once, 1), 1)
    hbm = where(nest.stays(access), 0, whole(through.hbm_bytes(access, visits)))
    return Moved(access.tensor, access.mode, once, visits, hbm, times)
