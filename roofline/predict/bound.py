"""The bound: seconds that each resource needs at its published rate, the largest of which nothing can beat.

time = max over resources of work / rate (everything overlaps); the sum of them is what it would take with no overlap
at all. Work is divided by rates and never the other way round, so an operator without FLOP, or without bytes, is like
any other. Scalars and float64 arrays go through the same lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.dtypes import dtype as find_dtype
from roofline.hardware.profile import LEVELS, Absent, Figure, Hardware, Value, si
from roofline.numeric import Number, anywhere, is_array, maximum, total
from roofline.ops.base import Machine, Traffic, Work
from roofline.records import dataclass

REGISTER_HANDICAP = 0.99
"""The register roof is derived from the same lanes as the vector peak; where rounding puts it a hair above, the lanes bind."""
TIE = 0.95
"""Two resources within 5 % of each other are reported as tied."""
MEMORY = ("hbm", "l2", "smem", "register")
COMPUTE = ("tensor", "vector", "sfu")


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds per resource and what follows. ``missing`` names resources without a published rate, and why.

    ``limiter`` is None where nothing needs any time; ``next`` is what would bind were the limiter free; ``tied``
    tells that both lie within 5 %. With arrays, times are arrays and labels arrays of text.
    """

    time_s: Number
    no_overlap_s: Number
    per_resource_s: Mapping[str, Number]
    limiter: Any
    next: Any
    tied: Any
    missing: Mapping[str, str]

    def without(self, resource: str) -> Number:
        """The time were that resource infinitely fast."""
        return _largest([t for name, t in self.per_resource_s.items() if name != resource])


def machine_of(hardware: Hardware) -> Machine | None:
    """The capacities that operators see, or None where the profile does not state them all."""
    smem, l2 = hardware.levels["smem"], hardware.levels["l2"]
    sizes = (si(hardware.processors), si(smem.size), si(l2.size))
    if any(s is None for s in sizes):
        return None
    processors, smem_bytes, l2_bytes = sizes
    rows = si(hardware.limits.get("mma_rows"))
    scale = processors if l2.scope == "processor" else 1
    return Machine(
        processors=processors or 0,
        smem_bytes=smem_bytes or 0,
        l2_bytes=(l2_bytes or 0) * (scale or 1),
        matrix_dtypes=frozenset(k for k, v in hardware.tensor.items() if isinstance(v, Figure)),
        **({} if rows is None else {"mma_rows": rows}),
    )


def traffic_of(work: Work, kind: str) -> Traffic:
    """The count of bytes of that kind; the compulsory one where no machine was known for another."""
    found: Traffic | None = getattr(work, kind)
    return work.compulsory if found is None else found


def resource_work(work: Work, hardware: Hardware, traffic: str = "compulsory") -> dict[str, tuple[Number, Value]]:
    """Work and rate by resource, engines first: matrix FLOP lie with the engine that multiplies this dtype."""
    counts, moved = work.counts, traffic_of(work, traffic)
    vector_dtype = "fp64" if work.dtype == "fp64" else "fp32"
    tensor, vector = counts.tensor, counts.vector
    found: dict[str, tuple[Number, Value]] = {}
    engine, rate = hardware.matrix_engine(work.dtype) if _any(tensor) else ("tensor", Absent("no matrix work"))
    if engine == "vector":
        tensor, vector = 0, vector + tensor
        vector_dtype = find_dtype(work.dtype).matrix
    found["tensor"] = (tensor, rate)
    found["vector"] = (vector, hardware.vector_rate(vector_dtype))
    found["sfu"] = (counts.sfu, hardware.sfu)
    for level in reversed(LEVELS):
        found[level] = (getattr(moved, level), hardware.levels[level].bandwidth)
    for link, moved_bytes in work.link_bytes.items():
        found[link] = (moved_bytes, hardware.link(link).bandwidth)
    return found


def bound(work: Work, hardware: Hardware, traffic: str = "compulsory") -> Bound:
    """What the work takes at least on the device, and which resource decides it.

    Raises:
        UsageError: the device has no matrix rate for the dtype, or no link of that name.
    """
    return bound_of_times(*resource_times(resource_work(work, hardware, traffic)))


def resource_times(placed: Mapping[str, tuple[Number, Value]]) -> tuple[dict[str, Number], dict[str, str]]:
    """Seconds by resource, and why others that are needed have none."""
    times: dict[str, Number] = {}
    missing: dict[str, str] = {}
    for name, (amount, rate) in placed.items():
        if isinstance(rate, Figure):
            times[name] = amount / rate.value
        elif _any(amount):
            missing[name] = rate.reason
    return times, missing


def bound_of_times(times: Mapping[str, Number], missing: Mapping[str, str] | None = None) -> Bound:
    """The bound from seconds per resource."""
    longest = _largest(list(times.values()))
    limiter, following, second = _ranked(times, longest)
    return Bound(
        time_s=longest,
        no_overlap_s=total(times.values()),
        per_resource_s=times,
        limiter=limiter,
        next=following,
        tied=(second >= longest * TIE) & (longest > 0) & (following != "register"),
        missing=missing or {},
    )


def kind_of(resource: str | None) -> str:
    """``memory``, ``compute`` or ``link``; ``nothing`` where no resource is needed.

    >>> kind_of("hbm")
    'memory'
    """
    if resource is None:
        return "nothing"
    return "memory" if resource in MEMORY else "compute" if resource in COMPUTE else "link"


def _any(amount: Number) -> bool:
    return anywhere(amount > 0)


def _largest(times: list[Number]) -> Number:
    longest: Number = 0.0
    for time in times:
        longest = maximum(longest, time)
    return longest


def _ranked(times: Mapping[str, Number], longest: Number) -> tuple[Any, Any, Number]:
    """The first and second resource by time (the earlier one of equals), and the second's time."""
    if is_array(longest):
        return _ranked_arrays(times)
    order = sorted(times, key=lambda name: -times[name] * handicap(name))
    used = [name for name in order if times[name] > 0]
    first, second = (used[0] if used else None), (used[1] if len(used) > 1 else None)
    return first, second, times[second] if second else 0.0


def handicap(name: str) -> float:
    """What its time is multiplied by when resources are ranked."""
    return REGISTER_HANDICAP if name == "register" else 1.0


def _ranked_arrays(times: Mapping[str, Number]) -> tuple[Any, Any, Number]:
    import numpy as np

    names = np.array(list(times))
    table = np.stack(np.broadcast_arrays(*(times[name] * handicap(name) for name in times)))
    first = table.argmax(axis=0)
    rest = table.copy()
    np.put_along_axis(rest, first[None], -1.0, axis=0)
    second = rest.argmax(axis=0)
    return names[first], names[second], rest.max(axis=0)
