"""How many sets of inputs make a cache cold, and whether a runner really went through all of them.

A call finds in the cache what was touched since its inputs were last used. Rotating over n sets puts n sets of bytes
between two uses, so n sets that together hold three caches leave none of it, whatever the order within a set. For the
same reason one set of three caches needs no second: each of its bytes is used again only after all the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roofline.measure.base import Runner

CACHES = 3
"""Bytes between two uses of a set, in cache sizes: replacement is not quite oldest-first, so one is not enough."""
MOST_SETS = 1024
"""Tiny inputs would need more sets than can be made and launched in a sample; then `Rotation` says that it is not cold."""
UNKNOWN_CACHE_BYTES = 2**28
"""Rotated over as if the cache were so large where a device does not tell: no assumption is made in its favour."""
MEMORY_SHARE = 0.5
"""Share of the free memory that input sets may take."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """What a sample really touched: ``distinct`` sets, ``between_bytes`` between two uses of one, and whether that is cold."""

    distinct: int
    between_bytes: float
    cold: bool
    reason: str


def input_sets(
    set_bytes: float,
    l2_bytes: float | None,
    free_bytes: float | None,
    cache: str,
    *,
    caches: float = CACHES,
    most: int = MOST_SETS,
) -> int:
    """How many sets of inputs (and outputs) to make.

    warm: one. cold: as many as hold three caches together, at most what half of the free memory holds, at least one.

    >>> input_sets(48e6, 60e6, 140e9, "cold"), input_sets(400e6, 60e6, 140e9, "cold"), input_sets(48e6, 60e6, 140e9, "warm")
    (4, 1, 1)
    """
    if cache == "warm" or set_bytes <= 0:
        return 1
    wanted = math.ceil(caches * _cache(l2_bytes) / set_bytes)
    room = most if free_bytes is None else math.floor(MEMORY_SHARE * free_bytes / set_bytes)
    return max(1, min(wanted, room, most))


def rotation_verified(
    runner: Runner, sets: int, set_bytes: float, l2_bytes: float | None, *, touched: int | None = None, caches: float = CACHES
) -> Rotation:
    """Whether a sample of the runner went through all sets and so found the cache cold.

    A runner of fewer calls than sets touches the first ones only, and again and again. ``touched`` is how many sets the
    caller has seen to change (outputs poisoned before one `Runner.time`), the surest count where it can be had.
    """
    distinct = min(runner.calls, runner.input_sets, sets if touched is None else touched)
    between = distinct * set_bytes
    wanted = caches * _cache(l2_bytes)
    if distinct < sets:
        return Rotation(distinct, between, False, f"only {distinct} of {sets} input sets were touched")
    if between < wanted:
        return Rotation(
            distinct, between, False, f"{distinct} input sets hold {between:.3g} B, less than {caches:g} caches ({wanted:.3g} B)"
        )
    return Rotation(distinct, between, True, f"{between:.3g} B between two uses of a set, at least {caches:g} caches")


def _cache(l2_bytes: float | None) -> float:
    return UNKNOWN_CACHE_BYTES if l2_bytes is None else l2_bytes
