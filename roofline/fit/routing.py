"""How many rows the experts of one rank get under the routings that measured tables name.

``balanced``: token i goes to the experts i, i + stride, i + 2 stride ..., so that loads differ by one row at most. ``power_law_A``:
the loads of the experts are drawn from a density x^-A, rounded, no expert gets a token twice, and the fullest rank is timed; the
mean of a few draws is taken, always the same ones. Source: what the collector of the public tables says of its inputs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

DRAWS = 5
"""As many as the collector times in a row."""
FEW = (0.01, 2.0)
"""Range of the draws where there are no more rows than experts; else from 1 to `MOST` of the tokens."""
MOST = 0.8
POWER_LAW = "power_law_"

Counts = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Routed:
    """Rows of the timed rank, experts of it that get any, and rows of the fullest of these, as whole numbers."""

    rows: int
    chosen: int
    fullest: int


def exponent_of(distribution: str) -> float | None:
    """The exponent of a power law, None for a balanced routing.

    Raises:
        ValueError: it is neither.
    """
    if distribution == "balanced":
        return None
    if not distribution.startswith(POWER_LAW):
        raise ValueError(distribution)
    return float(distribution.removeprefix(POWER_LAW))


@lru_cache(maxsize=16384)
def routed(tokens: int, experts: int, active: int, ranks: int, exponent: float | None) -> Routed:
    """What the timed rank of ``ranks`` gets of ``tokens`` that each choose ``active`` of ``experts``.

    >>> routed(64, 8, 2, 1, None)
    Routed(rows=128, chosen=8, fullest=16)
    """
    held = experts // ranks
    if exponent is None:
        return _summary([_dealt(tokens, experts, active)[:held]])
    found = []
    for seed in range(DRAWS):
        by_rank = _drawn(tokens, experts, active, ranks, exponent, random.Random(seed)).reshape(ranks, held)
        found.append(by_rank[int(by_rank.sum(axis=1).argmax())])
    return _summary(found)


def _summary(found: list[Counts]) -> Routed:
    mean = [float(np.mean([part(counts) for counts in found])) for part in (np.sum, np.count_nonzero, np.max)]
    rows, chosen, fullest = (max(1, round(value)) for value in mean)
    return Routed(max(rows, chosen), chosen, min(max(fullest, -(-rows // chosen)), max(rows, chosen)))


def _dealt(tokens: int, experts: int, active: int) -> Counts:
    """Rows of every expert where tokens take turns; few tokens are spread over the first stride."""
    stride = -(-experts // active)
    first = np.arange(tokens)[:, None] * (1.0 if tokens >= stride else stride / tokens)
    choice = (first + np.arange(active)[None] * stride) % experts
    return np.bincount(choice.astype(np.int64).ravel(), minlength=experts).astype(np.float64)


def _drawn(tokens: int, experts: int, active: int, ranks: int, exponent: float, draw: random.Random) -> Counts:
    """Rows of every expert under a power law: drawn, scaled to all rows, rounded, and mended to their exact sum."""
    low, high = (1.0, MOST * tokens) if tokens * active > experts else FEW
    power = 1 - exponent
    uniform = np.array([draw.random() for _ in range(experts)])
    values = ((high**power - low**power) * uniform + low**power) ** (1 / power)
    counts: Counts = np.minimum(np.round(values / values.sum() * tokens * active), tokens)
    by_rank = counts.reshape(ranks, -1)
    missing = int(tokens * active - counts.sum())
    for rank in range(ranks):  # the ranks in turn, one row at a time
        share = abs(missing) // ranks + (rank < abs(missing) % ranks)
        if missing > 0:
            by_rank[rank] = _levelled(by_rank[rank], share, tokens)
        else:  # rows are taken from whoever has the most: given to whoever lacks the fewest
            by_rank[rank] = tokens - _levelled(tokens - by_rank[rank], share, tokens)
    return counts


def _levelled(counts: Counts, more: int, most: int) -> Counts:
    """``more`` rows given one by one to whoever has the fewest, none more than ``most``: all are raised to one level."""
    more = int(min(more, most * len(counts) - counts.sum()))
    order = np.argsort(counts, kind="stable")
    rising = counts[order]
    upto = np.arange(1, len(counts) + 1) * rising - np.cumsum(rising)  # rows that raise all before to the level of this one
    raised = int(np.searchsorted(upto, more, side="right"))
    level, rest = divmod(int(rising[:raised].sum()) + more, raised) if raised else (0, 0)
    found: Counts = counts.copy()
    found[order[:raised]] = level
    found[order[:rest]] += 1
    return found
