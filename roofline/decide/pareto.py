"""Points that no other beats: none takes less of one thing without taking more of the other."""

from __future__ import annotations

from typing import Any

import numpy as np


def front(first: np.ndarray[Any, np.dtype[np.float64]], second: np.ndarray[Any, np.dtype[np.float64]]) -> list[int]:
    """The points of the front by index, in rising order of the first; of equal points the first one.

    >>> front(np.array([1.0, 2.0, 3.0, 2.5]), np.array([9.0, 5.0, 4.0, 6.0]))
    [0, 1, 2]
    """
    if not len(first):
        return []
    order = np.lexsort((second, first))
    least = np.minimum.accumulate(second[order])
    # A point stands where the least so far falls: all before it take no more of the first and more of the second.
    falls = np.concatenate([[True], least[1:] < least[:-1]])
    return [int(i) for i in order[falls]]
