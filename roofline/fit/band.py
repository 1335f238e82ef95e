"""The band of a parameter set: where 90 % of measured over estimated times lie, on rows that were not fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofline.predict.estimate.base import REGIMES

ENDS = (0.05, 0.95)
ENOUGH = 19
"""Rows from which on the 5th and 95th percentile lie within them."""
FEWEST = 3
"""Rows that tell of a spread at all."""
NARROWEST = 0.02
"""Half the width of a band at least, in the logarithm: repeating a measurement on another machine changes it by as much."""

Numbers = np.ndarray[Any, np.dtype[np.float64]]


def bands(logs: Numbers, regimes: Any) -> dict[str, tuple[float, float]]:
    """The band by regime, from the logarithms of measured over estimated times; none where nothing can be said.

    A regime with too few rows has the band of all; where these are few as well, it is that of a normal distribution known
    from so many.
    """
    found = {}
    for regime in REGIMES:
        own = logs[regimes == regime]
        ends = _ends(own if len(own) >= ENOUGH else logs)
        if ends is not None:
            found[regime] = (float(np.exp(min(ends[0], -NARROWEST))), float(np.exp(max(ends[1], NARROWEST))))
    return found


def _ends(logs: Numbers) -> tuple[float, float] | None:
    if len(logs) >= ENOUGH:
        low, high = np.quantile(logs, ENDS, method="weibull")  # of a new row, not of these
        return float(low), float(high)
    if len(logs) < FEWEST:
        return None
    from scipy.stats import t

    wide = float(t.ppf(ENDS[1], len(logs) - 1) * logs.std(ddof=1) * (1 + 1 / len(logs)) ** 0.5)
    return float(logs.mean()) - wide, float(logs.mean()) + wide
