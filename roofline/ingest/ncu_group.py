"""Launches of one NVTX range, or of one kernel, as one: quantities added up, utilisation weighted by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofline.ingest.ncu_metrics import QUANTITIES, UTILISATION, find, tensor_flop
from roofline.ingest.ncu_read import Launch

QUOTIENTS = frozenset({"used_bytes_per_load_sector", "used_bytes_per_store_sector", "l2_hit_share", "dram_bytes_per_s", "processors"})
"""Quantities that do not add up; their mean over launches is taken, weighted by time where there is one."""

UNNAMED = "(no range)"


@dataclass(frozen=True, slots=True)
class Group:
    """Launches that belong together; ``missing`` says of each quantity that cannot be given why."""

    id: str
    launches: tuple[Launch, ...]
    quantities: Mapping[str, float]
    missing: Mapping[str, str]
    utilisation: Mapping[str, float]
    tensor_flop: Mapping[str, float]

    @property
    def count(self) -> int:
        """How many launches, those of summaries counted as often as they happened."""
        return sum(each.count for each in self.launches)

    def get(self, name: str) -> float | None:
        """A quantity, None where it is not known."""
        return self.quantities.get(name)

    def add(self, *parts: tuple[str, float]) -> float | None:
        """A weighted sum of quantities; None where one is not known."""
        values = [(self.get(name), weight) for name, weight in parts]
        return None if any(v is None for v, _ in values) else sum((v or 0.0) * w for v, w in values)


def grouped(launches: Sequence[Launch], by: str) -> list[Group]:
    """Groups in the order of their first launch, ``by`` range, kernel or launch. A range is the innermost one around a launch."""

    def key(launch: Launch) -> str:
        if by == "kernel":
            return launch.kernel
        if by == "launch":
            return f"{launch.id}:{launch.kernel}"
        return launch.ranges[-1] if launch.ranges else UNNAMED

    found: dict[str, list[Launch]] = {}
    for launch in launches:
        found.setdefault(key(launch), []).append(launch)
    return [group_of(name, members) for name, members in found.items()]


def group_of(name: str, launches: Sequence[Launch]) -> Group:
    """Sums over launches. One launch without a counter makes the sum unknown, and not smaller."""
    plain = [{n: (v.value, v.unit) for n, v in launch.counters.items()} for launch in launches]
    times = [find(QUANTITIES["time_s"], c) for c in plain]
    total = sum(launch.count for launch in launches)
    quantities: dict[str, float] = {}
    missing: dict[str, str] = {}
    for quantity, spellings in QUANTITIES.items():
        values = [find(spellings, c) for c in plain]
        lacking = sum(launch.count for launch, v in zip(launches, values, strict=True) if v is None)
        if lacking:
            names = spellings[0].name
            missing[quantity] = f"{names} was not collected" + (f" for {lacking} of {total} launches" if lacking < total else "")
        elif quantity in QUOTIENTS:
            quantities[quantity] = _mean(values, times, launches)
        else:
            quantities[quantity] = sum((v or 0.0) * launch.count for v, launch in zip(values, launches, strict=True))
    busy: dict[str, float] = {}
    for unit, spellings in UTILISATION.items():
        shares = [find(spellings, c) for c in plain]
        if all(s is not None for s in shares):
            busy[unit] = _mean(shares, times, launches)
    flop: dict[str, float] = {}
    for launch, c in zip(launches, plain, strict=True):
        for dtype, value in tensor_flop(c).items():
            flop[dtype] = flop.get(dtype, 0.0) + value * launch.count
    return Group(name, tuple(launches), quantities, missing, busy, dict(sorted(flop.items())))


def _mean(values: Sequence[float | None], times: Sequence[float | None], launches: Sequence[Launch]) -> float:
    """Weighted by time, or by launches where a time is not known."""
    known = all(t for t in times)
    weights = [(t or 0.0 if known else 1.0) * launch.count for t, launch in zip(times, launches, strict=True)]
    return sum((v or 0.0) * w for v, w in zip(values, weights, strict=True)) / sum(weights)
