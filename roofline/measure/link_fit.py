"""What a collective costs on a link: seconds to begin and bytes a second, fitted to measured sizes, in as many regimes as they need.

Libraries change their protocol with the size, each with a latency and a bandwidth of its own, so that one line through all
sizes may miss by half. Lines are fitted to relative errors: microseconds count at small sizes as milliseconds do at large
ones. A further regime is taken only where the fit is poor without it and much better with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

FEWEST_POINTS = 3
"""In a regime: two would lie on any line."""
MOST_REGIMES = 3
POOR, BETTER = 0.05, 0.5
"""A mean relative error above the first asks for another regime, which must bring it below this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFit:
    """time = ``alpha_s`` + bytes / ``bytes_per_s`` for what lies between the two sizes, in bytes sent by each rank.

    ``bytes_per_s`` is None where the time did not grow. ``worst`` is the largest relative error over the sizes it was fitted to.
    """

    from_bytes: float
    to_bytes: float
    alpha_s: float
    bytes_per_s: float | None
    worst: float
    points: int

    def time_s(self, sent: float) -> float:
        """What it says of so many bytes."""
        return self.alpha_s + (sent / self.bytes_per_s if self.bytes_per_s else 0.0)

    @property
    def half_bytes(self) -> float | None:
        """Bytes that reach half of the bandwidth: below it the latency decides."""
        return self.alpha_s * self.bytes_per_s if self.bytes_per_s else None


def line(sent: Sequence[float], times: Sequence[float]) -> LinkFit:
    """The line with the least squares of relative errors, neither of whose parts is negative."""
    x, t = np.asarray(sent, dtype=np.float64), np.asarray(times, dtype=np.float64)
    ones, slopes, target = 1 / t, x / t, np.ones_like(t)
    scale = float(slopes.max()) or 1.0  # seconds and bytes lie ten orders of magnitude apart
    alpha, slope = np.linalg.lstsq(np.stack([ones / ones.max(), slopes / scale], axis=1), target, rcond=None)[0]
    alpha, slope = float(alpha / ones.max()), float(slope / scale)
    if slope <= 0:
        alpha, slope = float(ones.sum() / (ones**2).sum()), 0.0
    elif alpha < 0:
        alpha, slope = 0.0, float(slopes.sum() / (slopes**2).sum())
    error = np.abs((alpha + slope * x - t) / t)
    return LinkFit(
        from_bytes=float(x.min()),
        to_bytes=float(x.max()),
        alpha_s=alpha,
        bytes_per_s=1 / slope if slope > 0 else None,
        worst=float(error.max()),
        points=len(x),
    )


def regimes(sent: Sequence[float], times: Sequence[float]) -> tuple[LinkFit, ...]:
    """Lines over consecutive ranges of sizes: one, or more where that is much better; none where there are too few sizes.

    ``sent`` rises.
    """
    if len(sent) < FEWEST_POINTS:
        return ()
    best: tuple[LinkFit, ...] = ()
    for count in range(1, min(MOST_REGIMES, len(sent) // FEWEST_POINTS) + 1):
        found = min((_lines(sent, times, cuts) for cuts in _cuts(len(sent), count)), key=lambda f: error(f, sent, times))
        if best and error(found, sent, times) > BETTER * error(best, sent, times):
            break
        best = found
        if error(best, sent, times) <= POOR:
            break
    return best


def predicted(found: Sequence[LinkFit], sent: float) -> float:
    """Seconds for so many bytes, by the regime that they lie in; between two by the lower, beyond the last by that."""
    inside = next((f for f, after in pairwise(found) if sent < after.from_bytes), found[-1])
    return inside.time_s(sent)


def error(found: Sequence[LinkFit], sent: Sequence[float], times: Sequence[float]) -> float:
    """Root mean square of the relative errors."""
    return float(np.sqrt(np.mean([(predicted(found, x) / t - 1) ** 2 for x, t in zip(sent, times, strict=True)])))


def _cuts(n: int, count: int) -> Iterator[tuple[int, ...]]:
    """Where ``count`` ranges of n sizes may begin and end, each with enough sizes."""
    for inner in combinations(range(FEWEST_POINTS, n), count - 1):
        cuts = (0, *inner, n)
        if all(b - a >= FEWEST_POINTS for a, b in pairwise(cuts)):
            yield cuts


def _lines(sent: Sequence[float], times: Sequence[float], cuts: Sequence[int]) -> tuple[LinkFit, ...]:
    return tuple(line(sent[a:b], times[a:b]) for a, b in pairwise(cuts))
