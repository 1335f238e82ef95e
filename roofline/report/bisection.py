"""The last whole number of something that grows which stays within a limit."""

from __future__ import annotations

from collections.abc import Callable

LARGEST = 2**40
"""Beyond it what is needed does not depend on the number in any way that matters."""


def last_within(needed: Callable[[int], float], allowed: float) -> int | None:
    """The last whole number within the limit, 0 where none is; None where all are.

    >>> last_within(lambda n: 3.0 * n, 100)
    33
    """
    high = 1
    while needed(high) <= allowed:
        high *= 2
        if high > LARGEST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if needed(middle) <= allowed else (low, middle)
    return low
