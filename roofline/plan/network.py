"""Collectives over the tiers of a cluster: which bytes each tier carries, the least time of that, and one with latency.

A group whose members lie in several nodes exchanges in legs: what is added up is first reduced and scattered inside, then summed between
nodes on the share that each rank holds, then gathered inside, so that the slow tier carries as little as can be and all ranks of a node
send over it at once. Sizes are those of nccl-tests, as in `roofline.ops.collective`. Sizes and groups may be float64 arrays.

Bounds count bytes and no latency. Times take the tier's latency for every step of the algorithm (Thakur, Rabenseifner and Gropp 2005,
Optimization of Collective Communication Operations in MPICH): a ring needs as many steps as it has links, a tree two for each doubling
of the ranks, a switch that adds two. A tier without a published latency has no such term, which `missing_latency` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.errors import RooflineError, UsageError, did_you_mean
from roofline.hardware.cluster import Cluster, Tier
from roofline.hardware.profile import Absent, si
from roofline.numeric import Number, anywhere, log2, maximum, minimum, power, total, up, where
from roofline.ops.base import whole
from roofline.ops.launched import Transfer
from roofline.plan.placement import Group, Lie
from roofline.plan.routed import Routed

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
ALGORITHMS = ("best", "ring", "tree", "switch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One part of a collective, over one tier: ``size`` and ``ranks`` as the operator ``kind`` has them.

    Where ranks of an all-to-all exchange more and less, ``size`` is that of the busiest and ``imbalance`` how many times the mean it is.
    """

    tier: Tier
    kind: str
    size: Number
    ranks: Number
    imbalance: Number = 1

    @property
    def sent_bytes(self) -> Number:
        """Bytes that a rank's ports send, one way; on a ring or torus those that it passes on for others among them, which are the mean's:
        what goes to one place passes as many links as what goes to any other."""
        if self.kind == "all_to_all" and self.tier.topology in ("ring", "torus"):
            return maximum(whole(self.size / self.imbalance * _relayed(self.tier, self.ranks)), self._passed_on())
        if self.tier.in_network_reduction and self.kind == "all_reduce":
            return minimum(self._passed_on(), self._to_the_switch())
        return self._passed_on()

    def _passed_on(self) -> Number:
        """Between ranks, as nccl-tests counts them."""
        if self.kind in ("broadcast", "send_recv"):
            return whole(where(self.ranks > 1, self.size, 0))
        times = 2 if self.kind == "all_reduce" else 1
        return whole(times * self.size * (self.ranks - 1) / self.ranks)

    def _to_the_switch(self) -> Number:
        """The array once, to be added up, and the summed share of the rank, to be spread."""
        return whole(where(self.ranks > 1, self.size * (self.ranks + 1) / self.ranks, 0))

    @property
    def loads(self) -> tuple[Number, Number]:
        """Bytes that a rank's ports send, and that they receive. A switch that adds also multicasts: of a sum that is scattered a rank
        receives its share alone, and of shares that are gathered it sends its own once."""
        sent = self.sent_bytes
        if not self.tier.in_network_reduction or self.kind not in ("reduce_scatter", "all_gather"):
            return sent, sent
        share = where(self.ranks > 1, self.size / self.ranks, 0)
        return (sent, share) if self.kind == "reduce_scatter" else (share, sent)

    @property
    def rate(self) -> Number:
        """One-way bytes per second of a rank within such a group.

        Members of a mesh have one link to each other rank of the tier and use those among themselves; a group on a torus uses the axes
        that it needs; beyond an oversubscribed switch all share what is left.

        Raises:
            RooflineError: nobody states the tier's bandwidth.
        """
        tier, bandwidth = self.tier, si(self.tier.bandwidth)
        if bandwidth is None:
            raise RooflineError(f"the bandwidth of tier '{tier.name}' is not known: {_reason(tier.bandwidth)}")
        rate = bandwidth / tier.oversubscription
        if tier.topology == "mesh":
            return rate * (maximum(self.ranks, 2) - 1) / (tier.ranks - 1)
        if tier.topology == "torus":
            return rate * _axes(tier, self.ranks) / tier.axes
        return rate

    def transfer(self) -> Transfer:
        """The leg for the estimate of the device; fitted to bytes of sends and receives, whoever adds."""
        return Transfer(link=self.tier.name, bytes=self._passed_on(), kind=self.kind, ranks=self.ranks)


def _reason(value: object) -> str:
    return value.reason if isinstance(value, Absent) else "no figure"


# --------------------------------------------------------------------------- what goes over which tier
def collective(
    kind: str,
    size: Number,
    group: Group,
    cluster: Cluster,
    *,
    copies: Number | Routed = 1,
    node_limit: Number = 0,
    imbalance: Number = 1,
    least: bool = True,
) -> tuple[Leg, ...]:
    """The legs of a collective of a group, in their order; none where the group is a single rank.

    ``size`` is what the operator of that name takes. For all_to_all it counts ``copies`` of everything, each for a rank of its own, or one
    for each rank that tokens are routed to (``Routed.reached``): of these only one a node crosses over rails. With a ``node_limit`` they
    cross to at most so many nodes and are passed on inside (DeepSeek-V3, arXiv 2412.19437). With an
    ``imbalance`` it is that of the busiest rank, so many times the mean: of the others nothing is said, and a node's ports carry the
    ``least`` that this allows, or else what they do where all others have the same. A send_recv goes to the next member of the group, over
    the outermost tier that any of its members needs to reach the next: the slowest pair sets the pace of a pipeline.

    Raises:
        UsageError: a kind that is not known.
    """
    if kind not in KINDS:
        raise UsageError(f"unknown collective '{kind}'; {did_you_mean(kind, KINDS)}")
    if not cluster.tiers:
        if anywhere(group.size > 1):
            raise UsageError(f"{cluster.name} has no tiers for a group of several ranks")
        return ()
    spans = _spans(group, cluster.tiers)
    if kind == "all_to_all":
        in_node = _of_busiest_node(spans[0].inside, group.size, imbalance, least=least)
        forwarded = (node_limit > 0) | any(t.topology == "rail" for t in cluster.tiers[1:])
        parts = _routed(copies, group.size, spans[0], node_limit) if isinstance(copies, Routed) else _copied(copies, spans[0], node_limit)
        found = _all_to_all(size, spans, cluster.tiers, forwarded, parts, (imbalance, in_node))
    elif kind == "send_recv":
        found = [Leg(tier=t, kind=kind, size=size, ranks=s.pair) for t, s in zip(cluster.tiers, spans, strict=True)]
    else:
        found = _nested(kind, size, spans, cluster.tiers)
    return tuple(leg for leg in found if anywhere(leg.ranks > 1))


@dataclass(frozen=True, slots=True)
class _Span:
    """The group in one tier: ``ranks`` that exchange over it (inner domains, of which each sends over the ports of its members), the most
    members ``inside`` it, and in how many of its domains the group lies (``beyond`` 1).

    A rank gathers, and scatters, the ``below``th part of the array among the ranks, and sums the ``sums``th; ``share`` of what it sends
    to all goes over this tier or stays further inside. ``fewest`` are the members in one of its domains that has any.
    """

    ranks: Number
    inside: Number
    below: Number
    sums: Number
    share: Number
    beyond: Number
    fewest: Number

    @property
    def pair(self) -> Number:
        """2 where the group needs this tier and none further out, else 1."""
        return where((self.ranks > 1) & (self.beyond <= 1), 2, 1)


def _spans(group: Group, tiers: Sequence[Tier]) -> list[_Span]:
    """By tier, from the node outwards. Where groups lie in several ways, the one that is slowest over the tier: in the innermost that with
    the most members in a domain, further out that with the fewest in an inner domain, whose ports carry as much as those of others."""
    found = []
    inner = Lie(1, 1, group.size, even=True)
    for at, tier in enumerate(tiers):
        lie = Lie(group.size, group.size, 1, even=True) if at == len(tiers) - 1 else group.lie(tier.ranks)
        alike = at == 0 or (inner.even and lie.even)  # ranks themselves are alike
        found.append(_evenly(group.size, inner, lie) if alike else _unevenly(group.size, inner, lie))
        inner = lie
    return found


def _evenly(size: Number, inner: Lie, lie: Lie) -> _Span:
    """All inner domains hold as many members."""
    return _Span(whole(up(lie.most / inner.most)), lie.most, inner.most, inner.most, lie.most / size, whole(up(lie.domains)), lie.fewest)


def _unevenly(size: Number, inner: Lie, lie: Lie) -> _Span:
    """Domains hold more and fewer members: what the ports of the ``fewest`` carry.

    A domain of k of N ranks gathers all but its own, S (N - k) / N over k ports, and scatters as much. To a sum it must send its part and
    receive the sum, S each way over k ports, and all N together send 2 S (n - 1) at least for n domains; no way of adding is faster than
    the longer of both, which for equal domains is the ring's. Tiers between take the fewest in theirs, the least that is possible.
    """
    ranks = whole(up(inner.domains / lie.domains))
    few, all_ = inner.fewest, lie.fewest
    alone = (ranks <= 1) | (all_ <= few)
    n, rest = where(alone, 2, ranks), where(alone, 1, all_ - few)
    below = where(alone, few, (n - 1) * few * all_ / (n * rest))
    sums = where(alone, few, minimum(all_ / n, 2 * few * (n - 1) / n))
    share = where(alone, all_ / size, rest * n / ((n - 1) * size))
    return _Span(where(alone, 1, ranks), lie.most, whole(below), whole(sums), share, whole(lie.domains), lie.fewest)


def _nested(kind: str, size: Number, spans: Sequence[_Span], tiers: Sequence[Tier]) -> list[Leg]:
    """Reduced on the way out, summed in the outermost tier, gathered on the way back; what only gathers or reduces goes one way."""
    inwards = [
        Leg(
            tier=t,
            kind="reduce_scatter",
            size=size / s.below,
            ranks=s.ranks if kind == "reduce_scatter" else where(s.beyond > 1, s.ranks, 1),
        )
        for t, s in zip(tiers, spans, strict=True)
    ]
    if kind == "reduce_scatter":
        return inwards
    if kind == "broadcast":
        return [Leg(tier=t, kind=kind, size=size / s.below, ranks=s.ranks) for t, s in reversed([*zip(tiers, spans, strict=True)])]
    outwards = [
        Leg(tier=t, kind="all_gather", size=size / s.below, ranks=s.ranks if kind == "all_gather" else where(s.beyond > 1, s.ranks, 1))
        for t, s in reversed([*zip(tiers, spans, strict=True)])
    ]
    if kind == "all_gather":
        return outwards
    sums = [Leg(tier=t, kind=kind, size=size / s.sums, ranks=where(s.beyond > 1, 1, s.ranks)) for t, s in zip(tiers, spans, strict=True)]
    return [*inwards, *sums, *outwards]


def _of_busiest_node(inside: Number, ranks: Number, imbalance: Number, *, least: bool) -> Number:
    """Times the mean that a rank of the node of the busiest rank takes in on average, of ``inside`` ranks out of all.

    At ``least`` the busiest one's share where the others of its node take in nothing, or the mean, since some node has that. Where all
    others have the same, (ranks - imbalance) / (ranks - 1) each.
    """
    if least:
        return maximum(imbalance / inside, 1)
    others = (ranks - imbalance) / maximum(ranks - 1, 1)
    return (imbalance + (inside - 1) * others) / inside


_Parts = tuple[Number, Number, Number]
"""Of all that ranks take in, where it is forwarded inside nodes: what arrives at ranks, what crosses, and the most that can."""


def _copied(copies: Number, node: _Span, node_limit: Number) -> _Parts:
    """Each copy for itself: with a limit at most one a node."""
    few = minimum(minimum(where(node_limit > 0, node_limit, copies), copies), node.beyond)
    return 1, where(node_limit > 0, few / copies, 1), node.beyond


def _routed(routed: Routed, ranks: Number, node: _Span, node_limit: Number) -> _Parts:
    """One row a node. Uneven nodes are counted as that with the ``fewest`` members, whose ports take in the most each: what a node takes
    in grows more slowly than its experts. With a limit a token's experts lie in so many nodes, any of those there."""
    nodes, rows = ranks / node.fewest, routed.reached(ranks)
    share = where(node_limit > 0, minimum(node_limit, nodes), nodes) / nodes
    return routed.reached(ranks, share) / rows, routed.reached(nodes, share) / rows, nodes / rows


def _all_to_all(
    size: Number, spans: Sequence[_Span], tiers: Sequence[Tier], forwarded: Any, parts: _Parts, busiest: tuple[Number, Number]
) -> list[Leg]:
    """Each tier carries what goes to members beyond the next inner one; the innermost also what it takes in for others.

    Over rails a node's ranks reach those of their own number in other nodes, and pass on inside (``forwarded``); so do copies that were
    made there. What the busiest rank takes or gives more then goes over the ports of its whole node: ``busiest`` are the times the mean of
    that rank, and of a rank of its node on average.
    """
    imbalance, in_node = busiest
    arriving, crossing, most = parts
    legs = []
    for at, (tier, span) in enumerate(zip(tiers, spans, strict=True)):
        carried = where(forwarded, arriving, span.share) if at == 0 else span.share * where(forwarded, crossing, 1)
        busy = imbalance if at == 0 else where(forwarded, minimum(in_node, most / crossing), imbalance)
        legs.append(Leg(tier=tier, kind="all_to_all", size=size * (carried * (busy / imbalance)), ranks=span.ranks, imbalance=busy))
    return legs


# --------------------------------------------------------------------------- what a leg takes
def leg_bound_s(leg: Leg) -> Number:
    """The bytes over the rate, in seconds, without any latency: no execution with sends and receives (or a switch that adds) is faster."""
    return leg.sent_bytes / leg.rate


def bound_s(legs: Iterable[Leg]) -> Number:
    """The busiest direction of the busiest tier: an array goes in pieces, so that all tiers carry some of it at once, both ways."""
    directions: dict[tuple[str, int], Number] = {}
    for leg in legs:
        for way, load in enumerate(leg.loads):
            key = leg.tier.name, way
            directions[key] = directions.get(key, 0) + load / leg.rate
    longest: Number = 0
    for time in directions.values():
        longest = maximum(longest, time)
    return longest


def serial_s(legs: Iterable[Leg]) -> Number:
    """One leg after the other, without latency."""
    return total(leg_bound_s(leg) for leg in legs)


def leg_time_s(leg: Leg, share: float = 1.0, algorithm: str = "best") -> Number:
    """Latency of every step plus the bytes at a ``share`` of the rate, in seconds; 0 for a single rank.

    ``best`` is the quicker of what the tier can do: a ring always, a tree where any two ranks are one step apart, a switch that adds.

    Raises:
        UsageError: an algorithm that is not known, or one that the tier cannot do for this collective.
    """
    ways = _ways(leg)
    if algorithm not in ALGORITHMS:
        raise UsageError(f"unknown algorithm '{algorithm}'; {did_you_mean(algorithm, ALGORITHMS)}")
    if algorithm != "best" and algorithm not in ways:
        raise UsageError(f"no {algorithm} for {leg.kind} over {leg.tier.name}; it has {', '.join(ways)}")
    latency = si(leg.tier.latency) or 0.0
    rate = leg.rate * share
    times = [steps * latency + sent / rate for name, (steps, sent) in ways.items() if algorithm in ("best", name)]
    quickest = times[0]
    for time in times[1:]:
        quickest = minimum(quickest, time)
    return where(leg.ranks > 1, quickest, 0.0)


def time_s(legs: Iterable[Leg], share: float = 1.0, algorithm: str = "best") -> Number:
    """One leg after the other, each with its latency."""
    return total(leg_time_s(leg, share, algorithm) for leg in legs)


def missing_latency(legs: Iterable[Leg]) -> tuple[str, ...]:
    """Why times of these legs lack a latency, by tier; empty where they have all of it."""
    lacking = {leg.tier.name: _reason(leg.tier.latency) for leg in legs if isinstance(leg.tier.latency, Absent)}
    return tuple(f"no latency of {name} is counted: {reason}" for name, reason in lacking.items())


def _ways(leg: Leg) -> dict[str, tuple[Number, Number]]:
    """By algorithm, the steps one after the other and the bytes a rank sends."""
    ranks, times = leg.ranks, 2 if leg.kind == "all_reduce" else 1
    if leg.kind == "send_recv":
        return {"ring": (1, leg.sent_bytes)}
    if leg.tier.topology == "torus":
        axes = _axes(leg.tier, ranks)
        return {"ring": (times * axes * (power(ranks, 1 / axes) - 1), leg.sent_bytes)}
    relayed = leg.kind == "all_to_all" and leg.tier.topology == "ring"
    ways = {"ring": (times * (ranks - 1), leg.sent_bytes if relayed else leg._passed_on())}
    if leg.tier.topology != "ring":
        doublings = up(log2(maximum(ranks, 1)))
        ways["tree"] = (times * doublings, _by_tree(leg, doublings))
    if leg.kind == "all_reduce" and leg.tier.in_network_reduction:
        ways["switch"] = (2, leg._to_the_switch())
    return ways


def _by_tree(leg: Leg, doublings: Number) -> Number:
    """What a rank sends where each step doubles who has been reached: an all-reduce passes everything up and down; shares of an
    all-to-all travel half of the steps each (Bruck)."""
    if leg.kind == "all_reduce":
        return 2 * leg.size
    return leg.size / 2 * doublings if leg.kind == "all_to_all" else leg._passed_on()


# --------------------------------------------------------------------------- rings and tori
def _axes(tier: Tier, ranks: Number) -> Number:
    """How many axes of the torus a group of so many ranks needs: one for no more than a side, and so on."""
    side = tier.ranks ** (1 / tier.axes)
    axes: Number = 1
    for more in range(1, tier.axes):
        axes = axes + where(ranks > side**more * (1 + 1e-9), 1, 0)
    return axes


def _relayed(tier: Tier, ranks: Number) -> Number:
    """Bytes that ports send over the array that each rank distributes: its shares pass all ranks in between, both ways round.

    A ring of n: the distances to all others add up to n^2 / 4, rounded down, in shares of 1 / n. On a torus once for each axis.
    """
    axes = _axes(tier, ranks) if tier.topology == "torus" else 1
    side = power(ranks, 1 / axes) if tier.topology == "torus" else ranks
    return axes * (side * side / 4 - where(up(side) % 2 == 1, 0.25, 0)) / side
