"""What operators and exchanges cost: as a bound, as an estimate, or at efficiencies that someone states. Never mixed in one number.

A coster is of one kind and says so in its label; all that is composed from it is of that kind too.

- ``bound``: published rates, everything within an operator overlapped, exchanges without latency. Nothing can be faster.
- ``efficiency``: the same work at stated shares of the published rates of matrix units, memory and links.
- ``estimate``: kernels by the parameters fitted to measurements, with the band that 90 % of measurements fall into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from roofline.errors import UsageError, did_you_mean
from roofline.hardware.cluster import Cluster
from roofline.hardware.profile import Figure, Hardware
from roofline.numeric import Number, anywhere, is_array, maximum, total
from roofline.ops.base import Op, Work
from roofline.plan.network import Leg, bound_s, time_s
from roofline.predict.bound import handicap, kind_of, machine_of, resource_times, resource_work
from roofline.predict.estimate.estimator import Estimator, KernelEstimate

KINDS = ("bound", "efficiency", "estimate")
SHARES = ("matrix", "memory", "link")


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one execution. ``low_s`` and ``high_s`` are the ends of an estimate's band, else the time itself.

    ``by`` are the same seconds under what decides them (a resource, or an estimate's regime); only for single numbers. ``matrix_s`` and
    ``memory_s`` are what matrix units and memory need, each for itself, at rates; 0 in an estimate.
    """

    time_s: Number
    low_s: Number
    high_s: Number
    by: Mapping[str, Number] = field(default_factory=dict)
    matrix_s: Number = 0.0
    memory_s: Number = 0.0


class Coster(Protocol):
    """What a kind of cost can answer."""

    kind: str
    label: str

    def op(self, op: Op) -> Cost:
        """One execution of an operator on one device."""

    def legs(self, legs: Sequence[Leg]) -> Cost:
        """One exchange."""


class RateCoster:
    """Work over published rates, each times a share: a bound where all shares are 1.

    A resource without a published rate takes no part, as in `roofline.predict.bound`; ``missing`` collects the reasons.
    """

    def __init__(self, hardware: Hardware, shares: Mapping[str, float] | None = None) -> None:
        self.hardware, self.machine = hardware, machine_of(hardware)
        self.shares = dict(shares or {})
        self.kind = "efficiency" if shares else "bound"
        said = ", ".join(f"{name} {self.shares[name]:g}" for name in SHARES if name in self.shares)
        self.label = f"stated efficiency: {said} of published rates" if shares else "bound: published rates, all overlapped"
        self.missing: dict[str, str] = {}

    def op(self, op: Op) -> Cost:
        """The longest of what the resources need."""
        times = self.times(op)
        longest: Number = 0.0
        for time in times.values():
            longest = maximum(longest, time)
        by: dict[str, Number] = {}
        if not is_array(longest) and longest > 0:
            # The register roof is derived from the vector lanes; where both are as long, the lanes are said to decide.
            by = {max(times, key=lambda name: times[name] * handicap(name)): longest}
        return Cost(longest, longest, longest, by, times.get("tensor", 0.0), times.get("hbm", 0.0))

    def times(self, op: Op) -> dict[str, Number]:
        """Seconds that each resource needs at its share of the published rate."""
        found, missing = resource_times(resource_work(_bare_work(op, self), self.hardware))
        self.missing.update(missing)
        if not self.shares:
            return found
        return {name: time / self._share(name) for name, time in found.items()}

    def _share(self, resource: str) -> float:
        kind = {"compute": "matrix", "memory": "memory", "link": "link"}[kind_of(resource)]
        return self.shares.get(kind if resource not in ("vector", "sfu") else "", 1.0)

    def legs(self, legs: Sequence[Leg]) -> Cost:
        """In a bound the busiest tier without latency; at stated efficiencies one leg after the other, with the latency of each step."""
        time = time_s(legs, share=self.shares.get("link", 1.0)) if self.kind == "efficiency" else bound_s(legs)
        return Cost(time, time, time)


def _bare_work(op: Op, coster: RateCoster) -> Work:
    """The work of an operator without the counts of bytes that no time is taken from."""
    return Work(
        counts=op.counts(),
        dtype=op.dtype,
        useful_flop=0,
        compulsory=op.compulsory(coster.machine),
        tiled=None,
        cached=None,
        link_bytes=op.link_bytes(),
        kernels=1,
        extra_memory_bytes=0,
    )


class EstimateCoster:
    """Kernels by fitted parameters. Half-widths of bands add up within an operator, as kernels of one set err together."""

    kind = "estimate"

    def __init__(self, hardware: Hardware, execution: str) -> None:
        self.estimator = Estimator(hardware, execution)
        self.label = f"estimate: kernels of {execution} execution by parameters fitted to measurements"
        self.prior = False

    def op(self, op: Op) -> Cost:
        """The kernels that the operator launches, one after the other.

        Raises:
            NoParameters: nothing is known of one of its kernels.
        """
        return self._sum(self.estimator.op(op).kernels)

    def legs(self, legs: Sequence[Leg]) -> Cost:
        """The transfers of an exchange, one after the other.

        Raises:
            NoParameters: nothing is known of exchanges over that link.
        """
        used = [leg for leg in legs if anywhere(leg.ranks > 1)]
        return self._sum(tuple(self.estimator.kernel(leg.transfer()) for leg in used))

    def _sum(self, kernels: tuple[KernelEstimate, ...]) -> Cost:
        self.prior = self.prior or any(k.prior for k in kernels)
        by: dict[str, Number] = {}
        for k in kernels:
            if not is_array(k.time_s):
                by[str(k.regime)] = by.get(str(k.regime), 0.0) + k.time_s
        return Cost(total(k.time_s for k in kernels), total(k.low_s for k in kernels), total(k.high_s for k in kernels), by)


def read_efficiency(text: str) -> dict[str, float]:
    """The shares of ``matrix=0.6,memory=0.85,link=0.8``; all three must be stated.

    Raises:
        UsageError: a share that is missing, unknown, or not above 0 and at most 1.
    """
    found: dict[str, float] = {}
    for piece in text.split(","):
        name, _, value = (part.strip() for part in piece.partition("="))
        if name not in SHARES:
            raise UsageError(f"--efficiency: unknown share '{name}'; {did_you_mean(name, SHARES)}")
        if name in found:
            raise UsageError(f"--efficiency: '{name}' is given twice")
        try:
            found[name] = float(value)
        except ValueError:
            raise UsageError(f"--efficiency: {name}={value} is no number; write a share such as {name}=0.8") from None
        if not 0 < found[name] <= 1:
            raise UsageError(f"--efficiency: {name}={value} is not above 0 and at most 1")
    missing = [name for name in SHARES if name not in found]
    if missing:
        raise UsageError(f"--efficiency: {', '.join(missing)} not stated; write matrix=...,memory=...,link=...")
    return found


def coster_of(kind: str, cluster: Cluster, *, shares: Mapping[str, float] | None = None, execution: str = "eager") -> Coster:
    """The coster of a kind on a cluster's device and tiers.

    Raises:
        UsageError: an unknown kind, or efficiencies that are not stated.
    """
    if kind == "bound":
        return RateCoster(cluster.hardware())
    if kind == "efficiency":
        if not shares:
            raise UsageError("efficiencies are nobody's default: state them, --efficiency matrix=...,memory=...,link=...")
        return RateCoster(cluster.hardware(), shares)
    if kind == "estimate":
        return EstimateCoster(cluster.hardware(), execution)
    raise UsageError(f"unknown kind of cost '{kind}'; {did_you_mean(kind, KINDS)}")


def matrix_rate(hardware: Hardware, dtype: str) -> Figure | None:
    """The published dense rate of products in a format, for MFU; None where nobody publishes one."""
    rate = hardware.matrix_engine(dtype)[1]
    return rate if isinstance(rate, Figure) else None
