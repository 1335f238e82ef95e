"""The interval of a median: a quick one from order statistics to stop by, and a bootstrap over blocks to report.

The quick one believes that samples are independent, which is good enough to say "not yet". The reported one draws blocks
and then samples in them, with the method of `roofline.report.statistics`, so that two reports are compared on the same terms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, median

CONFIDENCE = 0.95
DRAWS = 2000
SEED = 20_240_229
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


def order_interval(samples: Sequence[float]) -> tuple[float, float]:
    """The samples between which the median lies with 95 %, were they independent; the whole range of fewer than six.

    >>> order_interval([5.0, 1.0, 3.0])
    (1.0, 5.0)
    """
    ordered = sorted(samples)
    n = len(ordered)
    reach = _Z * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach))
    return (ordered[low], ordered[high]) if n >= 6 else (ordered[0], ordered[-1])


def relative_width(samples: Sequence[float]) -> float:
    """Width of the quick interval as a share of the median; infinite where the median is zero."""
    low, high = order_interval(samples)
    middle = median(samples)
    return (high - low) / middle if middle > 0 else math.inf


def bootstrap_interval(samples: Sequence[float], blocks: Sequence[int]) -> tuple[float, float]:
    """The 95 % interval of the median from resampled blocks, widened since resampling few of them understates their spread; seeded."""
    import numpy as np

    from roofline.report.statistics import medians, split

    parts = split(samples, blocks)
    middle = median(samples)
    drawn = medians(parts, DRAWS, np.random.default_rng(SEED))
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    n = len(parts)
    wider = math.sqrt(n / (n - 1)) if n > 1 else 1.0  # resampling n blocks understates their variance by (n - 1) / n
    return max(0.0, middle - wider * max(0.0, middle - float(low))), middle + wider * max(0.0, float(high) - middle)
