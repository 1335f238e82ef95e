"""The time below which a measurement cannot be true, whatever the clock did.

Published on-chip peaks hold at a stated clock, and a device may run above it for a while: an H200 at 1.98 GHz does 8 % more
exponentials than its peak at 1.83 GHz says. The bound keeps the published peaks; what is refused as impossible is a time
below the same work at the highest clock. Memory and links do not follow that clock. A roof that was measured is not a law
of nature either: a run may beat it by its own scatter. And what a warm cache holds need not come from memory at all.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.hardware.profile import Figure, Hardware, si
from roofline.numeric import Number, maximum
from roofline.ops.base import Work
from roofline.predict.bound import resource_work

ON_CHIP = frozenset({"tensor", "vector", "sfu", "register", "smem", "l2"})
MEASURED_SLACK = 0.9
"""Share of a measured roof's time that a run may need: the roof is the best of a few short runs."""


def floor_s(work: Work, hardware: Hardware, *, warm: bool = False) -> Number:
    """The largest time of any resource at its highest conceivable rate; ``warm``: the run found the cache full of its data."""
    faster = _clock_ratio(hardware)
    longest: Number = 0.0
    for name, (amount, rate) in resource_work(work, hardware).items():
        if isinstance(rate, Figure):
            needed = amount - (_cached_bytes(hardware) if warm and name == "hbm" else 0.0)
            slack = MEASURED_SLACK if rate.kind == "measured" else 1.0
            longest = maximum(longest, needed / rate.value * slack * (faster if name in ON_CHIP else 1.0))
    return longest


def warm_floor_s(work: Work, hardware: Hardware, moved_bytes: Number, kernels: Number) -> Number:
    """`floor_s` where each of ``kernels`` may find all that the last-level cache holds; together they move ``moved_bytes``."""
    from_memory = maximum(0.0, moved_bytes - kernels * _cached_bytes(hardware))
    return floor_s(replace(work, compulsory=replace(work.compulsory, hbm=from_memory, l2=moved_bytes)), hardware)


def _cached_bytes(hardware: Hardware) -> float:
    """What the last-level cache can hold; without end where the profile does not say."""
    cache = hardware.levels["l2"]
    size, each = si(cache.size), si(hardware.processors) if cache.scope == "processor" else 1.0
    return float("inf") if size is None or each is None else size * each


def _clock_ratio(hardware: Hardware) -> float:
    """The clock of the published peaks over the highest clock; 1 where either is unknown."""
    peak, boost = si(hardware.clocks.get("peak")), si(hardware.clocks.get("boost"))
    return min(1.0, peak / boost) if peak and boost else 1.0
