"""What limits a kernel: the unit that is busiest by its own counter, else by achieved rates over those of a profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from roofline.hardware.profile import Hardware, si
from roofline.ingest.ncu_group import Group
from roofline.report.counters import Point

BUSY = 0.6
"""A unit that is busy for less than this is taken not to limit; the profiler's own advice draws the line there too."""

ENGINES = ("tensor", "vector", "sfu")
WHOLE = (("hbm",), ("l2",), ("l1", "smem"), ("sm", "issue", "vector"))
"""Only where one of each of these is known can it be said that nothing is busy, which leaves latency."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The verdict: ``name`` is a unit, ``latency`` where all are known and none is busy, or None with the reason ``why``."""

    name: str | None
    busiest: str | None
    share: float | None
    source: str | None
    why: str = ""


def limit_of(group: Group, points: Mapping[str, Point | None], flop: Mapping[str, float | None], hardware: Hardware | None) -> Limit:
    """The limiter of a group of launches."""
    shares, source = dict(group.utilisation), "utilisation counters"
    if not shares and hardware is not None:
        shares, source = _by_rates(group, points, flop, hardware), f"rates over those of {hardware.name}"
    if not shares:
        return Limit(
            None, None, None, None, "no counter of utilisation was collected" + ("" if hardware else ", and no profile is given (-H)")
        )
    parts = {unit: share for unit, share in shares.items() if unit != "sm"}
    first = max(shares, key=lambda unit: (shares[unit], unit != "sm"))  # a part of the processor says more than the whole
    if first == "sm" and parts and max(parts.values()) >= shares["sm"] - 0.02:
        first = max(parts, key=lambda unit: parts[unit])
    if shares[first] >= BUSY:
        return Limit(first, first, shares[first], source)
    lacking = ["/".join(units) for units in WHOLE if not any(u in shares for u in units)]
    if lacking:
        why = f"{first} is the busiest of what is known with {100 * shares[first]:.3g} %; how busy {', '.join(lacking)} were is not"
        return Limit(None, first, shares[first], source, why)
    return Limit("latency", first, shares[first], source)


def _by_rates(group: Group, points: Mapping[str, Point | None], flop: Mapping[str, float | None], hardware: Hardware) -> dict[str, float]:
    """Achieved over published rate, of what has both."""
    time = group.get("time_s")
    if not time:
        return {}
    shares = {level: p.share_of_bandwidth for level, p in points.items() if p and p.share_of_bandwidth is not None}
    peaks = {"tensor": peak_of(hardware, group, "tensor"), "vector": si(hardware.vector_rate("fp32")), "sfu": si(hardware.sfu)}
    for engine in ENGINES:
        done, peak = flop[engine], peaks[engine]
        if done is not None and peak:
            shares[engine] = done / time / peak
    return shares


def peak_of(hardware: Hardware, group: Group, engine: str) -> float | None:
    """The engine's rate in FLOP/s for the work at hand; for several formats that of their mixture."""
    if engine == "vector":
        return si(hardware.vector_rate("fp32"))
    rates = {dtype: si(hardware.tensor.get(dtype)) for dtype in group.tensor_flop}
    if not rates or any(r is None for r in rates.values()):
        return None
    total = sum(group.tensor_flop.values())
    needed = sum(flop / (rates[dtype] or 1.0) for dtype, flop in group.tensor_flop.items())
    return total / needed if needed else next(iter(rates.values()))
