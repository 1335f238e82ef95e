"""What operators and exchanges cost: as a bound, as an estimate, or at efficiencies that someone states. Never mixed in one number.

A coster is of one kind and says so in its label; all that is composed from it is of that kind too.

- ``bound``: published rates, everything within an operator overlapped, exchanges without latency. Nothing can be faster.
- ``efficiency``: the same work at stated shares of the published rates of matrix units, memory and links.
- ``estimate``: kernels by the parameters fitted to measurements, with the band that 90 % of measurements fall into.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from roofline.errors import InputError, Problem, UsageError, did_you_mean
from roofline.hardware.cluster import Cluster
from roofline.hardware.profile import Figure, Hardware
from roofline.numeric import Number, anywhere, is_array, maximum, total, where
from roofline.ops.base import Machine, Op, Work
from roofline.plan.network import Leg, bound_s, time_s
from roofline.predict.bound import handicap, kind_of, machine_of, resource_times, resource_work
from roofline.predict.estimate.estimator import Estimator, KernelEstimate, NoParameters
from roofline.predict.estimate.host import HOST_SET
from roofline.predict.estimate.issue import calls_of, raised
from roofline.predict.estimate.timeline import Calls
from roofline.spec.source import Mark, Source

KINDS = ("bound", "efficiency", "estimate")
SHARES = ("matrix", "memory", "link")
MEASURE = (
    "measure exchanges over {link} with 'roofline calibrate --links' (between nodes torchrun starts one process on each), keep to plans "
    "that do without, or state shares of rates with --efficiency (matrix, memory, link)"
)
"""What to do about a link of which nothing is known."""
FOREIGN = "some parameters were fitted on another device; their bands are widened"
"""Said of an estimate that rests on priors."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one execution on the device.

    ``by`` are the same seconds under what decides them (a resource, or an estimate's regime); only for single numbers. ``matrix_s`` and
    ``memory_s`` are what matrix units and memory need, each for itself, at rates; 0 in an estimate, of which the rest speaks: ``gap_s``
    of these seconds lie between kernels; ``widths`` are by set of parameters, for single numbers, how far below and above the time the
    ends of its band lie; ``issued`` are the kernels as a host launches them, none where that costs nothing.
    """

    time_s: Number
    by: Mapping[str, Number] = field(default_factory=dict)
    matrix_s: Number = 0.0
    memory_s: Number = 0.0
    gap_s: Number = 0.0
    widths: Mapping[str, tuple[Number, Number]] = field(default_factory=dict)
    issued: tuple[Calls, ...] = ()


class Coster(Protocol):
    """What a kind of cost can answer."""

    kind: str
    label: str

    def ops(self, ops: Sequence[Op]) -> tuple[Cost, ...]:
        """Each operator of one execution of a step, which run one after the other on one device."""

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
        self.label = f"stated efficiency: {said} of published rates" if shares else "bound: published rates, overlapped as the plan says"
        self.missing: dict[str, str] = {}

    def ops(self, ops: Sequence[Op]) -> tuple[Cost, ...]:
        """Each for itself."""
        return tuple([self.op(op) for op in ops])

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
        return Cost(longest, by, times.get("tensor", 0.0), times.get("hbm", 0.0))

    def times(self, op: Op) -> dict[str, Number]:
        """Seconds that each resource needs at its share of the published rate."""
        found, missing = resource_times(resource_work(_bare_work(op, self.machine), self.hardware))
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
        return Cost(time)


def _bare_work(op: Op, machine: Machine | None, kernels: int = 1) -> Work:
    """The work of an operator without the counts of bytes that no time is taken from."""
    return Work(
        counts=op.counts(),
        dtype=op.dtype,
        useful_flop=0,
        compulsory=op.compulsory(machine),
        tiled=None,
        cached=None,
        link_bytes=op.link_bytes(),
        kernels=kernels,
        extra_memory_bytes=0,
    )


class EstimateCoster:
    """Kernels by fitted parameters, among those of other steps, as a report of the same steps has them (`roofline.predict.estimate.issue`).

    ``sets`` are the sets of parameters that were used; ``unknown`` says by link why exchanges over it have no time.
    """

    kind = "estimate"

    def __init__(self, hardware: Hardware, execution: str) -> None:
        self.hardware, self.machine = hardware, machine_of(hardware)
        self.estimator = Estimator(hardware, execution)
        self.label = f"estimate: kernels of {execution} execution by parameters fitted to measurements"
        self.prior = False
        self.sets: set[str] = set()
        self.unknown: dict[str, str] = {}

    def ops(self, ops: Sequence[Op]) -> tuple[Cost, ...]:
        """The kernels that each operator launches, none quicker than all of them together can be at all.

        Raises:
            NoParameters: nothing is known of one of their kernels.
        """
        launched = [self.estimator.op(op).kernels for op in ops]
        works = [_bare_work(op, self.machine, len(op.passes())) for op in ops]
        kernels = [k for one in launched for k in one]
        factor = raised(sum(works[1:], start=works[0]), kernels, self.hardware) if kernels else 1.0
        return tuple([self._sum(one, factor) for one in launched])

    def host_ends(self) -> tuple[float, float]:
        """Ends of the band of the host's times over these times."""
        if self.estimator.execution != "eager":
            return 1.0, 1.0
        chosen = self.estimator.chosen((HOST_SET,))
        return min(1.0, chosen.low["launch"]), max(1.0, chosen.high["launch"])

    def legs(self, legs: Sequence[Leg]) -> Cost:
        """The transfers of an exchange, one after the other. Where nothing is known of a link, those of many plans that need it take for
        ever, and those that do not are none the worse.

        Raises:
            NoParameters: nothing is known of exchanges over the link of a single plan.
        """
        found = Cost(0.0)
        for leg in legs:
            if anywhere(leg.ranks > 1):
                found = _with(found, self._leg(leg), leg.ranks)
        return found

    def _leg(self, leg: Leg) -> Cost:
        try:
            return self._sum((self.estimator.kernel(leg.transfer()),))
        except NoParameters as error:
            name = leg.tier.name
            self.unknown[name] = f"{str(error).partition(';')[0]}; {MEASURE.format(link=name)}"
            if not is_array(leg.ranks):
                raise NoParameters(self.unknown[name]) from None
            return Cost(math.inf)

    def _sum(self, kernels: tuple[KernelEstimate, ...], factor: Number = 1.0) -> Cost:
        self.prior = self.prior or any(k.prior for k in kernels)
        self.sets.update(k.parameters.name for k in kernels)
        hosts = [self.estimator.host(k.kernel) for k in kernels]
        gaps = [h.between_s(True) for h in hosts]
        by: dict[str, Number] = {}
        widths: dict[str, tuple[Number, Number]] = {}
        for k, gap in zip(kernels, gaps, strict=True):
            if is_array(k.time_s, factor):
                continue
            by[str(k.regime)] = by.get(str(k.regime), 0.0) + k.time_s * factor + gap
            down, up = widths.get(k.parameters.name, (0.0, 0.0))
            below, above = maximum(k.time_s - k.low_s, 0.0), maximum(k.high_s - k.time_s, 0.0)
            widths[k.parameters.name] = (down + below * factor, up + above * factor)
        calls = tuple(calls_of(kernels, hosts, factor)) if any(h.host_s for h in hosts) else ()
        return Cost(total(k.time_s for k in kernels) * factor + total(gaps), by, gap_s=total(gaps), widths=widths, issued=calls)


def _with(cost: Cost, leg: Cost, ranks: Number) -> Cost:
    """Both, but for plans of an array whose group is a single rank over the leg."""
    by = {name: cost.by.get(name, 0.0) + leg.by.get(name, 0.0) for name in {**cost.by, **leg.by}}
    widths = {**cost.widths}
    for name, sides in leg.widths.items():
        before = widths.get(name, (0.0, 0.0))
        widths[name] = (before[0] + sides[0], before[1] + sides[1])
    time, gap = (where(ranks > 1, seconds, 0.0) for seconds in (leg.time_s, leg.gap_s))
    there = where(ranks > 1, 1.0, 0.0)
    calls = tuple(c.scaled(there, there) for c in leg.issued)
    return Cost(cost.time_s + time, by, gap_s=cost.gap_s + gap, widths=widths, issued=(*cost.issued, *calls))


def read_efficiency(text: str, where: str = "--efficiency") -> dict[str, float]:
    """The shares of ``matrix=0.6,memory=0.85,link=0.8``; all three must be stated. ``where`` is the option that says so.

    Raises:
        InputError: shares that are missing, unknown, or not above 0 and at most 1, all of them, each at its column.
    """
    source, found, wrong = Source(where, text), dict[str, float](), list[Problem]()
    at = 1
    for piece in text.split(","):
        name, _, value = (part.strip() for part in piece.partition("="))
        said = _wrong_share(name, value, found)
        if said:
            share = name in SHARES and name not in found and value  # then it is the value that is wrong, else the name
            wrong.append(source.problem(Mark(1, at + (piece.rindex(value) if share else len(piece) - len(piece.lstrip()))), said))
        found[name] = 1.0 if said else float(value)
        at += len(piece) + 1
    missing = [name for name in SHARES if name not in found]
    if len(found) < len(SHARES):  # a misspelt share is not missing as well
        wrong.append(source.problem(Mark(1, 1), f"{', '.join(missing)} not stated; write matrix=...,memory=...,link=..."))
    if wrong:
        raise InputError(wrong)
    return found


def _wrong_share(name: str, value: str, found: Collection[str]) -> str:
    """Why one of the shares cannot be; nothing where it can."""
    if name not in SHARES:
        return f"unknown share '{name}'; {did_you_mean(name, SHARES)}"
    if name in found:
        return f"'{name}' is given twice"
    try:
        share = float(value)
    except ValueError:
        return f"{name}={value} is no number; write a share such as {name}=0.8"
    return "" if 0 < share <= 1 else f"{name}={value} is not above 0 and at most 1"


def kind_and_shares(cost: str | None, efficiency: str | None, option: str = "--") -> tuple[str, dict[str, float] | None]:
    """The kind of cost that is asked for, and stated shares; a bound where nothing is. ``option`` stands before names in messages.

    Raises:
        UsageError: an unknown kind, shares beside a kind that has none, or none for one that needs them.
        InputError: shares that cannot be, as `read_efficiency`.
    """
    if cost is not None and cost not in KINDS:
        raise UsageError(f"{option}cost: unknown kind '{cost}'; {did_you_mean(cost, KINDS)}")
    if efficiency is None:
        if cost == "efficiency":
            raise UsageError(f"efficiencies are nobody's default: state them, {option}efficiency matrix=...,memory=...,link=...")
        return cost or "bound", None
    if cost not in (None, "efficiency"):
        raise UsageError(f"{option}efficiency has no part in {option}cost {cost}: leave out {option}cost {cost}, or {option}efficiency")
    return "efficiency", read_efficiency(efficiency, f"{option}efficiency")


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
