"""Where the members of a group lie: how many of them share a domain of neighbouring devices, such as a node, over all groups of an axis.

Most groups fill their domains evenly, so that one says it for all, by a formula for numbers and arrays. Blocks of 6 devices on nodes of 8
do not: some lie in one node, and others in two, 2 and 4 or 4 and 2 of them. Such groups are laid out one by one and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from roofline.numeric import Number, anywhere, each_where, maximum, minimum, where


@dataclass(frozen=True, slots=True)
class Lie:
    """Over all groups: the ``most`` members in one domain, the ``fewest`` in a domain that has any, and the ``domains`` of the group that
    lies in the most of them. ``even`` says that these are the same for all."""

    most: Number
    fewest: Number
    domains: Number
    even: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The devices that exchange along an axis: how many, and how far apart neighbours are in the order of devices.

    ``blocks`` of ``size x stride`` devices follow each other, each with as many groups as the stride. Where a stage of the pipeline has
    rows of ``row`` neighbouring devices with those of the other ``stages`` in between, the order is that of the stage's own devices.
    """

    size: Number
    stride: Number
    blocks: Number = 1
    row: Number | None = None
    stages: Number = 1

    def lie(self, ranks: int) -> Lie:
        """How the members lie in domains of so many neighbouring devices.

        >>> Group(size=16, stride=4).lie(8).most, Group(size=6, stride=1, blocks=4).lie(8)
        (2, Lie(most=6, fewest=2, domains=2, even=False))
        """
        near, far, pitch = self._parts()
        held = minimum(near, maximum(ranks // self.stride, 1))
        if self.row is not None:
            held = held * minimum(far, maximum(ranks // pitch, 1))
        odd = where((self.size == 1) | self._even(ranks, near, far, pitch), False, True)
        if not anywhere(odd):
            return Lie(held, held, self.size / held, even=True)
        said = (self.size, self.stride, self.blocks, 0 if self.row is None else self.row, self.stages, ranks)
        most, fewest, domains = each_where(odd, laid_out, said, (held, held, self.size / held))
        return Lie(most, fewest, domains, even=False)

    def _parts(self) -> tuple[Number, Number, Number]:
        """Members in one row, rows that have members, and how far these rows are apart."""
        if self.row is None:
            return self.size, 1, 1
        near = minimum(self.size, maximum(self.row // self.stride, 1))
        return near, self.size / near, maximum(self.stride, self.row) * self.stages

    def _even(self, ranks: int, near: Number, far: Number, pitch: Number) -> Any:
        """Whether all groups lie alike: what is in a row divides a domain, is whole domains, or has members further apart; so for rows."""
        span = near * self.stride
        even = (near == 1) | (self.stride >= ranks) | (ranks % self.stride == 0) & ((ranks % span == 0) | (span % ranks == 0))
        if self.row is None:
            return even | (self.blocks == 1) & (ranks % self.stride == 0) & (span <= ranks)
        block, whole = self.size * self.stride, far * pitch
        lattice = (self.row % block == 0) | (block % self.row == 0) & (self.row % self.stride == 0) | (self.stride % self.row == 0)
        return lattice & even & ((far == 1) | (pitch >= ranks) | (ranks % pitch == 0) & ((ranks % whole == 0) | (whole % ranks == 0)))


@lru_cache(maxsize=2**14)
def laid_out(size: int, stride: int, blocks: int, row: int, stages: int, ranks: int) -> tuple[int, int, int]:
    """The most and the fewest members in a domain, and the most domains of a group, each laid out; ``row`` 0 where all are neighbours.

    >>> laid_out(size=4, stride=6, blocks=1, row=0, stages=1, ranks=8)
    (2, 1, 3)
    """
    most, fewest, domains = 0, size, 0
    for start, stage in _starts(size, stride, blocks, row, stages, ranks):
        held: dict[int, int] = {}
        for first, count in _runs(start, stage, size, stride, row, stages):
            _hold(held, first, count, stride, ranks)
        most, fewest, domains = max(most, *held.values()), min(fewest, *held.values()), max(domains, len(held))
    return most, fewest, domains


def _starts(size: int, stride: int, blocks: int, row: int, stages: int, ranks: int) -> Iterator[tuple[int, int]]:
    """First members in the order of a stage, with the stage: one of those that start at the same place of a row and a domain."""
    seen: set[tuple[int, int]] = set()
    for stage in range(stages if row else 1):
        for block in range(blocks):
            for at in range(block * size * stride, block * size * stride + stride):
                key = (at % row, _device(at, stage, row, stages) % ranks) if row else (0, at % ranks)
                if key not in seen:
                    seen.add(key)
                    yield at, stage
            if not row and len(seen) == ranks:
                return


def _device(at: int, stage: int, row: int, stages: int) -> int:
    """The number of a stage's device among all."""
    return (at // row * stages + stage) * row + at % row if row else at


def _runs(start: int, stage: int, size: int, stride: int, row: int, stages: int) -> Iterator[tuple[int, int]]:
    """The members as rows have them: the first device, and how many follow at the stride."""
    if not row:
        yield start, size
        return
    last = start + size * stride
    while start < last:
        ends = min(last, (start // row + 1) * row)
        count = -(-(ends - start) // stride)
        yield _device(start, stage, row, stages), count
        start += count * stride


def _hold(held: dict[int, int], first: int, count: int, stride: int, ranks: int) -> None:
    """Add members that follow at a stride to those of their domains."""
    at = 0
    while at < count:
        domain = (first + at * stride) // ranks
        here = min(count, -(-((domain + 1) * ranks - first) // stride)) - at
        held[domain] = held.get(domain, 0) + here
        at += here
