"""How many numbers an operator over lists of tensors worked on, from the grids of its launches.

The profiler leaves out the shapes of lists of more than 30 tensors, as an optimizer's over a model's parameters are. torch's kernels
over lists give each block a chunk of 65,536 numbers of one tensor (``kChunkSize`` in ATen's MultiTensorApply.cuh), so that the
numbers are at most 65,536 times the blocks, and less than that by at most one chunk for each tensor, whose last chunk is not full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

CHUNK = 65536
"""Numbers of a block."""
MOST_TENSORS = (110, 64, 48, 36, 30)
"""Tensors that one launch takes at most, by how many lists it works on, where a kernel's arguments may have 4 KB."""
MOST_UNSURE = 0.25
"""Where more than this part of the count may be too many, nothing is counted: lists of small tensors fill few of their chunks."""
LARGER = 7
"""How many times that with arguments of 32 KB, which the second template argument says."""
_METADATA = re.compile(r"\bat::native::.*?TensorList(?:ScalarList)?Metadata<(?:[\w:]+, )?(\d)(?:, (true|false))?>")


@dataclass(frozen=True, slots=True)
class Launched:
    """``lists`` that were worked on, results among them, of ``most`` numbers each; at least ``least``."""

    lists: int
    most: int
    least: int

    @property
    def unsure(self) -> float:
        """Which part of ``most`` may be too many."""
        return (self.most - self.least) / self.most

    @property
    def note(self) -> str:
        """How the numbers were counted, and how wrong that can be."""
        return (
            f"the list was too long to record: {self.most} numbers are counted from the grids of its launches, {CHUNK} a block, "
            f"at most {100 * self.unsure:.2g} % too many"
        )


def launched(kernels: Iterable[tuple[str, int]]) -> Launched | None:
    """What the names and blocks of an operator's kernels over lists say; None where one of them is not torch's, or has no grid."""
    most = least = 0
    depths = set()
    for name, blocks in kernels:
        found = _METADATA.search(name)
        lists = int(found.group(1)) if found else 0
        if not found or blocks < 1 or not 0 < lists <= len(MOST_TENSORS):
            return None
        depths.add(lists)
        tensors = MOST_TENSORS[lists - 1] * (LARGER if found.group(2) == "true" else 1)
        most += blocks * CHUNK
        # Each tensor that a launch touches has a block of its own in it, with one number at least.
        least += (blocks - min(blocks, tensors)) * CHUNK + min(blocks, tensors)
    return Launched(depths.pop(), most, least) if len(depths) == 1 else None
