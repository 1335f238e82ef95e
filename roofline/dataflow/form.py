"""What a dataflow is: tensors, and kernels as a tree of loops with what is loaded, computed and written in each.

An amount is a number or a function of names (params, tiles, what the device is known by), so that the same dataflow
gives numbers for one choice of tiles and float64 arrays for many. ``roofline.spec.dataflow`` reads the same classes from
YAML; in Python they are written with plain functions: ``Loop("i", over=lambda n: n["m"], tile=lambda n: n["tile_m"])``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from roofline.numeric import Number

Names: TypeAlias = Mapping[str, Number]
Amount: TypeAlias = Number | Callable[[Names], Number]

PLACES = ("smem", "register", "none")
"""Where a loaded tile lies, or an operand of a product is read from; ``none`` is memory of another unit (tensor memory)."""

MODES = ("read", "write", "update")
"""``update``: written in every visit and read back in every visit but the first."""

ROLES = ("in", "out", "scratch", "weight")
ENGINES = ("tensor", "vector")
ORDERS = ("linear", "grouped")
"""How blocks are numbered: the last parallel loop runs fastest, or groups over the last two that are as high as `Kernel.group` says."""

RESOURCES = ("tensor", "vector", "sfu", "smem", "l2", "hbm")
"""What a tile step may wait for; ``l2`` and ``hbm`` are the copies that fill its tiles."""

MACHINE_NAMES = ("sram", "processors", "l2_bytes", "mma_rows")
"""What expressions may know of a device: shared memory a block may use, how many processors, L2 capacity, rows of an MMA."""


def amount(value: Amount, names: Names) -> Number:
    """The number that an amount is under these names."""
    return value(names) if callable(value) else value


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in memory; ``dtype`` None is the dataflow's. ``role`` scratch is passed between the kernels of the dataflow.

    ``held`` is for scratch whose kernels take turns over its parts: the bytes of it between being written and read.
    """

    name: str
    shape: tuple[Amount, ...]
    dtype: str | None = None
    role: str = "in"
    held: Amount | None = None


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over ``over`` elements in pieces of ``tile``, inside the loop ``inside`` (None: outermost).

    ``parallel`` loops are spread over thread blocks. ``share`` is the mean part of the iterations that run at all, for what
    a mask lets a kernel skip.
    """

    name: str
    over: Amount
    tile: Amount = 1
    parallel: bool = False
    inside: str | None = None
    share: Amount = 1


@dataclass(frozen=True, slots=True)
class Access:
    """A tile of a tensor that is read or written once in each iteration of the loop ``at``.

    ``index`` names for each dimension the loops that walk over it, none for a dimension taken whole. Tiles in ``smem``
    take ``buffers`` times their size, or the space of the tile of tensor ``in_place_of`` where that is larger. The access
    takes place where ``when`` is above 0.
    """

    tensor: str
    index: tuple[tuple[str, ...], ...]
    at: str
    mode: str = "read"
    to: str = "smem"
    buffers: Amount = 1
    in_place_of: str | None = None
    when: Amount = 1


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product of a step: ``m n k`` are amounts or names of loops, whose tile they then are.

    On ``tensor``, the left operand is read once for each of ``split_n`` groups of columns and the right one once for each
    block of MMA rows of the left; ``pair`` processors share the right one. On ``vector``, each thread computes
    ``thread_m x thread_n`` results from operands that it reads alone.
    """

    at: str
    m: Amount | str
    n: Amount | str
    k: Amount | str
    a: str = "smem"
    b: str = "smem"
    engine: str = "tensor"
    dtype: str | None = None
    thread_m: Amount = 1
    thread_n: Amount = 1
    split_n: Amount = 1
    pair: Amount = 1
    count: Amount = 1


@dataclass(frozen=True, slots=True)
class Work:
    """Other work of a step: vector FLOP, special functions, bytes that the units move at shared memory and registers.

    ``lines`` are lines of L1 that the loads and stores of a warp touch, whatever they use of them: the schedule counts one a cycle
    instead of the bytes of this item where that takes longer. No bound does, since loads that ask for more of a line need fewer.
    """

    at: str
    vector: Amount = 0
    sfu: Amount = 0
    smem: Amount = 0
    register: Amount = 0
    lines: Amount = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One launch. ``workers`` are the threads that compute, ``producers`` those that only copy.

    ``accumulators`` are results kept in registers by all workers together, in fp32 elements; ``overhead`` is what a thread
    needs besides. ``stages`` above 1 let copies run ahead. ``overlap`` lists groups of resources: those of one group are
    used at the same time, the groups one after the other; a resource in no group overlaps with all. ``cluster`` gives by
    parallel loop how many neighbouring blocks share what they load. In the order ``grouped``, neighbouring blocks go down ``group``
    tiles of the last but one parallel loop before the next of the last; with 0 so far that what runs together is nearly square.
    """

    name: str
    loops: tuple[Loop, ...]
    accesses: tuple[Access, ...]
    products: tuple[Product, ...] = ()
    works: tuple[Work, ...] = ()
    space: Mapping[str, Amount] = field(default_factory=dict)
    accumulators: Mapping[str, Amount] = field(default_factory=dict)
    workers: Amount = 128
    producers: Amount = 0
    overhead: Amount = 32
    stages: Amount = 2
    overlap: tuple[tuple[str, ...], ...] = ()
    cluster: Mapping[str, Amount] = field(default_factory=dict)
    order: str = "linear"
    group: Amount = 0
    when: Amount = 1


@dataclass(frozen=True, slots=True)
class Tile:
    """A size that may be tuned: its value, and what else it may be."""

    name: str
    value: Amount
    choices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow:
    """A named algorithm over the memory hierarchy. ``let`` are names derived from params, tiles and device."""

    name: str
    dtype: str
    tensors: tuple[Tensor, ...]
    kernels: tuple[Kernel, ...]
    params: Mapping[str, int | float] = field(default_factory=dict)
    tiles: tuple[Tile, ...] = ()
    let: Mapping[str, Amount] = field(default_factory=dict)
    title: str = ""
    source: str = ""
    note: str = ""
    also: tuple[str, ...] = ()

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name; `check` has found that there is one."""
        return next(t for t in self.tensors if t.name == name)

    def names(self, machine: Names, chosen: Names | None = None) -> dict[str, Number]:
        """All that amounts may use, with the device's names and tiles chosen in place of those of the file."""
        from roofline.dtypes import dtype

        found: dict[str, Number] = {**self.params, "element": dtype(self.dtype).bytes, **machine}
        for tile in self.tiles:
            found[tile.name] = chosen[tile.name] if chosen and tile.name in chosen else amount(tile.value, found)
        for name, value in self.let.items():
            found[name] = amount(value, found)
        return found
