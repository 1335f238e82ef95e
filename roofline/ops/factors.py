"""Whole factors of a length, as transforms and Monarch matrices take them apart, and the stages of a fast transform."""

from __future__ import annotations

from functools import lru_cache, partial
from math import isqrt

from roofline.numeric import Number, each, is_array, total, where

MOST_STAGES = 48
"""Doublings up to the longest length that counts, far beyond any memory."""


def first(value: Number) -> int:
    """A dimension as one whole number, the first of several: for what decides how many kernels there are."""
    return int(value) if isinstance(value, (int, float)) else int(value.flat[0])


def least(value: Number) -> int:
    """A dimension as one whole number, the least of several."""
    return int(value) if isinstance(value, (int, float)) else int(value.min())


def even_factors(n: Number, order: int) -> tuple[Number, ...]:
    """The ``order`` whole factors of ``n`` with the least sum, largest first; 1 where ``n`` has too few.

    >>> even_factors(8192, 3)
    (32, 16, 16)
    >>> even_factors(7, 2)
    (7, 1)
    """
    return each(partial(_even, order=order), n)


@lru_cache(maxsize=4096)
def _even(n: int, order: int) -> tuple[int, ...]:
    """By trial: the smallest factor is at most the root of that order, the rest follow."""
    if order == 1:
        return (n,)
    best: tuple[int, ...] | None = None
    for smallest in range(isqrt(n) if order == 2 else round(n ** (1 / order)) + 1, 0, -1):
        if n % smallest:
            continue
        found = tuple(sorted((*_even(n // smallest, order - 1), smallest), reverse=True))
        if best is None or sum(found) < sum(best):
            best = found
        if order == 2:  # the first divisor below the root is the best
            break
    return best or (n, *(1,) * (order - 1))


def stages(n: Number) -> Number:
    """Stages of a radix-2 transform: the doublings that reach ``n``.

    >>> stages(8), stages(9)
    (3, 4)
    """
    if not is_array(n):
        return max(int(n) - 1, 0).bit_length()
    return total(where(n > 2**i, 1, 0) for i in range(MOST_STAGES))


def is_power_of_two(n: Number) -> Number:
    """1 where a whole number is one, else 0.

    >>> is_power_of_two(8), is_power_of_two(12)
    (1, 0)
    """
    if not is_array(n):
        return int(n > 0 and stages(n + 1) > stages(n))
    return total(where(n == 2**i, 1, 0) for i in range(MOST_STAGES))
