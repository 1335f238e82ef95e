"""Intervals of time: how long a set of events lasts as a whole, where nothing runs, what overlaps. All in microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same times without overlaps, in order.

    >>> union([(0, 2), (1, 3), (5, 6)])
    [(0, 3), (5, 6)]
    """
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def length(intervals: Iterable[Interval]) -> float:
    """How long they are together; overlaps count twice."""
    return sum(end - start for start, end in intervals)


def common(a: Sequence[Interval], b: Sequence[Interval]) -> float:
    """How long two unions run at the same time.

    >>> common([(0, 3), (5, 6)], [(2, 5.5)])
    1.5
    """
    i = j = 0
    both = 0.0
    while i < len(a) and j < len(b):
        both += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return both
