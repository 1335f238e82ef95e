"""Which rows of a grouped product go to which matrix: what an operator leaves to whoever runs it, told once for kernels and references.

The operator says how many matrices get rows and how many the fullest gets, given or as a random choice has them in the mean. Between the
fullest and the emptiest loads fall as those of the estimate do (`roofline.predict.estimate.grouped`): fullest u^s at shares u, with s such
that all rows are placed. Matrices with rows lie evenly among those without, in an order that is neither rising nor falling.
"""

from __future__ import annotations

import random
from itertools import accumulate

from roofline.errors import UsageError
from roofline.numeric import scalar
from roofline.ops.grouped import GroupedGemm


def loads(op: GroupedGemm) -> list[int]:
    """Rows of each matrix here, as many matrices as the operator holds.

    At least as many get rows as the operator counts bytes of, so that none of its bytes is counted and not moved.

    Raises:
        UsageError: so full a matrix leaves no row for one of those that are chosen.

    >>> loads(GroupedGemm(tokens=12, experts=4, active=1, n=8, k=8, dtype="bf16", chosen=2, fullest=8))
    [8, 0, 4, 0]
    """
    rows, held = int(scalar(op.rows)), int(scalar(op.held))
    chosen = min(-int(-scalar(op.touched) // 1), rows, held)
    most = rows - chosen + 1
    if scalar(op.fullest) > most:
        raise UsageError(f"fullest {op.fullest} of {rows} rows leaves none for one of {chosen} chosen experts; at most {most} do")
    fullest = min(max(round(scalar(op.most_rows)), -(-rows // chosen)), most)
    placed = _levelled(_falling(rows, chosen, fullest), rows, fullest)
    random.Random(chosen).shuffle(placed)
    found = [0] * held
    for at, count in enumerate(placed):
        found[at * held // chosen] = count
    return found


def ends(op: GroupedGemm) -> list[int]:
    """For each matrix the row behind its last one.

    >>> ends(GroupedGemm(tokens=12, experts=4, active=1, n=8, k=8, dtype="bf16", chosen=2, fullest=8))
    [8, 8, 12, 12]
    """
    return list(accumulate(loads(op)))


def _falling(rows: int, chosen: int, fullest: int) -> list[int]:
    """Loads from the emptiest to the fullest, about as many rows in all."""
    skew = fullest * chosen / rows - 1
    return [max(1, min(fullest, round(fullest * ((at + 0.5) / chosen) ** skew))) for at in range(chosen - 1)] + [fullest]


def _levelled(counts: list[int], rows: int, fullest: int) -> list[int]:
    """The same with exactly so many rows: one more or one less, in turns, of all but the fullest that can."""
    missing = rows - sum(counts)
    step = 1 if missing > 0 else -1
    while missing:
        for at in range(len(counts) - 1):
            if missing and 1 <= counts[at] + step <= fullest:
                counts[at] += step
                missing -= step
    return counts
