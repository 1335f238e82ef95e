"""A kernel with its amounts worked out: how often each loop runs, and what each access and product touches."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from roofline.dataflow.form import Access, Amount, Dataflow, Kernel, Loop, Names, amount
from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, ceil_div, is_array, maximum, minimum, product, where
from roofline.ops.base import whole


@dataclass(frozen=True, slots=True)
class Span:
    """A loop in numbers: elements, elements a piece, pieces, and the mean part of them that runs."""

    loop: Loop
    over: Number
    tile: Number
    trips: Number
    share: Number


def exact(numerator: Number, denominator: Number) -> Number:
    """The quotient, an integer where it is one."""
    if not is_array(numerator, denominator) and isinstance(numerator, int) and isinstance(denominator, int):
        return numerator // denominator if numerator % denominator == 0 else numerator / denominator
    return numerator / denominator


class Nest:
    """The loops of a kernel under given names."""

    def __init__(self, flow: Dataflow, kernel: Kernel, names: Names) -> None:
        self.flow, self.kernel, self.names = flow, kernel, names
        self.spans = {loop.name: self._span(loop) for loop in kernel.loops}

    def _span(self, loop: Loop) -> Span:
        over, tile = self.value(loop.over), self.value(loop.tile)
        return Span(loop, over, tile, ceil_div(over, tile), self.value(loop.share))

    def value(self, what: Amount) -> Number:
        """An amount under the names of this nest."""
        return amount(what, self.names)

    def chain(self, at: str) -> list[Span]:
        """The loops around what happens ``at`` a loop, that loop last."""
        found: list[Span] = []
        name: str | None = at
        while name is not None:
            found.append(self.spans[name])
            name = self.spans[name].loop.inside
        return found[::-1]

    def repeats(self, at: str, exactly: Collection[str] | None = None, *, parallel: bool | None = None) -> Number:
        """How often an iteration of that loop runs, over all blocks.

        Loops named in ``exactly`` (None: all of them) count the elements that there are, others whole pieces, of which the
        last may be partial. ``parallel`` keeps only the loops that are, or are not, spread over blocks.
        """
        above: Number = 1
        below: Number = 1
        for span in self.chain(at):
            if parallel is not None and span.loop.parallel is not parallel:
                continue
            whole = exactly is None or span.loop.name in exactly
            above = above * (span.over if whole else span.trips) * span.share
            below = below * (span.tile if whole else 1)
        return exact(above, below)

    @property
    def parallel(self) -> list[Span]:
        """The loops over blocks, outermost first."""
        return [s for s in self.spans.values() if s.loop.parallel]

    @property
    def blocks(self) -> Number:
        """Thread blocks launched."""
        return product(s.trips for s in self.parallel)

    @property
    def block_loop(self) -> str | None:
        """The innermost parallel loop: what happens once a block."""
        return self.parallel[-1].loop.name if self.parallel else None

    # ---- accesses
    def element_bytes(self, access: Access) -> float:
        """Bytes an element of the tensor."""
        return find_dtype(self.flow.tensor(access.tensor).dtype or self.flow.dtype).bytes

    def tile_bytes(self, access: Access) -> Number:
        """Bytes of one visit."""
        elements: Number = 1
        for dim, loops in zip(self.flow.tensor(access.tensor).shape, access.index, strict=True):
            elements = elements * (product(self.spans[name].tile for name in loops) if loops else self.value(dim))
        return elements * self.element_bytes(access) * self.on(access)

    def on(self, access: Access) -> Number:
        """1 where the access takes place, else 0."""
        return where(self.value(access.when) > 0, 1, 0)

    def once_bytes(self, access: Access) -> Number:
        """Bytes that the access covers when every loop around it visits its tile once; no more than the tensor has."""
        return minimum(self._covered(access), self.tensor_bytes(access)) * self.on(access)

    def tensor_bytes(self, access: Access) -> Number:
        """Bytes of the whole tensor."""
        return product(self.value(d) for d in self.flow.tensor(access.tensor).shape) * self.element_bytes(access)

    def stays(self, access: Access) -> Any:
        """Whether what lies of the tensor between its kernels stays in L2, beside as much of others that streams by."""
        held = self.flow.tensor(access.tensor).held
        return False if held is None else 2 * self.value(held) <= self.names["l2_bytes"]

    def _covered(self, access: Access) -> Number:
        """Bytes under the loops that walk over the tensor; more than it has where loops share its parts (grouped heads)."""
        elements: Number = 1
        for dim, loops in zip(self.flow.tensor(access.tensor).shape, access.index, strict=True):
            elements = elements * (product(self.spans[n].over for n in loops) if loops else self.value(dim))
        return elements * self.element_bytes(access)

    def shared(self, access: Access) -> Number:
        """Neighbouring iterations that have one part of the tensor in common (query heads of a group), 0 where none do."""
        covered, size = self._covered(access), self.tensor_bytes(access)
        return where(covered > size, exact(covered, size), 0)

    def indexing(self, access: Access) -> set[str]:
        """The loops that walk over the tensor."""
        return {name for loops in access.index for name in loops}

    def again(self, access: Access) -> list[Span]:
        """The loops around an access that do not walk over the tensor, and so visit the same tiles again."""
        indexing = self.indexing(access)
        return [s for s in self.chain(access.at) if s.loop.name not in indexing]

    def moved_bytes(self, access: Access) -> Number:
        """Bytes of all visits in one direction, partial tiles at their real size."""
        share = product(s.share for s in self.chain(access.at))
        again = product(s.trips for s in self.again(access))
        return maximum(whole(self._covered(access) * share * again) * self.on(access), self.once_bytes(access))

    def multicast(self, access: Access) -> Number:
        """Blocks of a cluster that share one copy of the tile: those along loops that do not walk over it."""
        indexing = self.indexing(access)
        if access.mode != "read":
            return 1
        sharing = (minimum(self.value(n), self.spans[loop].trips) for loop, n in self.kernel.cluster.items() if loop not in indexing)
        return product(sharing)

    def reads(self) -> Iterable[Access]:
        """Accesses that load."""
        return (a for a in self.kernel.accesses if a.mode != "write")
