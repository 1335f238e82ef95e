"""Whether a link keeps up with one way of spreading a model: tensor parallel, data parallel, experts.

Each compares bytes over links with arithmetic that could hide them, at peaks and without latency; nothing here depends on a schedule. The
numbers that a reader knows from the literature are given beside those of the bytes that are really sent, since most rules of thumb leave
the share (n-1)/n out.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.errors import UsageError
from roofline.hardware.cluster import Cluster
from roofline.numeric import scalar
from roofline.ops import OPERATORS
from roofline.plan.network import Leg, bound_s, collective, missing_latency, time_s
from roofline.plan.placement import Group

ACTIVATION_BYTES = 2
"""Of an element of activations that ranks exchange, in 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What one tier carries of something: bytes a rank sends, at which rate, in how long."""

    tier: str
    kind: str
    ranks: float
    sent_bytes: float
    bytes_per_s: float
    time_s: float


def carried(legs: tuple[Leg, ...]) -> tuple[Carried, ...]:
    """The legs as figures."""
    return tuple(
        Carried(
            tier=leg.tier.name,
            kind=leg.kind,
            ranks=scalar(leg.ranks),
            sent_bytes=scalar(leg.sent_bytes),
            bytes_per_s=scalar(leg.rate),
            time_s=scalar(leg.sent_bytes / leg.rate),
        )
        for leg in legs
    )


# --------------------------------------------------------------------------- one collective
@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLinks:
    """A collective over tiers. ``bound_s`` counts bytes alone and all tiers at once, ``time_s`` latency too and one leg after the other.

    ``binds`` is the busiest tier. Bandwidths are those of nccl-tests at the bound; None where nothing is sent.
    """

    kind: str
    size: float
    ranks: int
    stride: int
    legs: tuple[Carried, ...]
    bound_s: float
    time_s: float
    binds: str | None
    algorithm_bytes_per_s: float | None
    bus_factor: float
    bus_bytes_per_s: float | None
    latency_missing: tuple[str, ...]


def collective_links(kind: str, size: float, ranks: int, cluster: Cluster, *, stride: int = 1) -> CollectiveLinks:
    """One collective among ranks that are ``stride`` devices apart.

    Raises:
        UsageError: a kind that is not known.
    """
    legs = collective(kind, size, Group(size=ranks, stride=stride), cluster)
    shown = carried(legs)
    bound = scalar(bound_s(legs))
    busy: dict[str, float] = {}
    for leg in shown:
        busy[leg.tier] = busy.get(leg.tier, 0.0) + leg.time_s
    factor = scalar(OPERATORS[kind](size=size, ranks=ranks, over="link").bus_factor())  # type: ignore[attr-defined,call-arg]
    return CollectiveLinks(
        kind=kind,
        size=size,
        ranks=ranks,
        stride=stride,
        legs=shown,
        bound_s=bound,
        time_s=scalar(time_s(legs)),
        binds=max(busy, key=lambda name: busy[name]) if busy else None,
        algorithm_bytes_per_s=size / bound if bound else None,
        bus_factor=factor,
        bus_bytes_per_s=size * factor / bound if bound else None,
        latency_missing=missing_latency(legs),
    )


# --------------------------------------------------------------------------- tensor parallel
@dataclass(frozen=True, slots=True, kw_only=True)
class Degree:
    """One degree of tensor parallelism: link time over arithmetic time, and the tiers that are used; hidden where it is at most 1."""

    degree: int
    link_over_compute: float
    hidden: bool
    tiers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorLinks:
    """How far a feed-forward part of width F can be split.

    ``alpha`` is C / W of the innermost tier in FLOP/B; ``limit`` is F / alpha, the degree at which both take as long where all bytes
    are counted ((n-1)/n taken as 1) and the part has two products; a third one (gated) allows 1.5 times as much.
    """

    width: int
    gated: bool
    flop_per_s: float
    link_bytes_per_s: float
    alpha_flop_per_byte: float
    limit: float
    gated_limit: float
    degrees: tuple[Degree, ...]
    largest_hidden: int


def tensor_links(width: int, flop_per_s: float, cluster: Cluster, degrees: tuple[int, ...], *, gated: bool = False) -> TensorLinks:
    """Tensor parallelism of a feed-forward part with ``width`` columns, whatever the tokens and the hidden size.

    A token needs ``2 x 2 h F / t`` FLOP (three products where ``gated``), and its h activations are gathered and reduced once
    (jax-ml/scaling-book, "Training"): link over compute does not depend on h, nor on how many tokens there are.
    """
    products = 3 if gated else 2
    rows = []
    for degree in degrees:
        group = Group(size=degree, stride=1)
        gathered, reduced = (collective(kind, ACTIVATION_BYTES, group, cluster) for kind in ("all_gather", "reduce_scatter"))
        link_s = scalar(bound_s(gathered) + bound_s(reduced))  # one begins and the other ends the part, so that they do not overlap
        ratio = link_s / (2 * products * width / degree / flop_per_s)
        tiers = tuple(dict.fromkeys(leg.tier.name for leg in (*gathered, *reduced)))
        rows.append(Degree(degree=degree, link_over_compute=ratio, hidden=ratio <= 1, tiers=tiers))
    bandwidth = scalar(Leg(tier=cluster.tiers[0], kind="all_gather", size=1, ranks=cluster.tiers[0].ranks).rate)
    alpha = flop_per_s / bandwidth
    return TensorLinks(
        width=width,
        gated=gated,
        flop_per_s=flop_per_s,
        link_bytes_per_s=bandwidth,
        alpha_flop_per_byte=alpha,
        limit=width / alpha,
        gated_limit=1.5 * width / alpha,
        degrees=tuple(rows),
        largest_hidden=max((r.degree for r in rows if r.hidden), default=1),
    )


# --------------------------------------------------------------------------- data parallel
@dataclass(frozen=True, slots=True, kw_only=True)
class DataLinks:
    """Gradients added up over data-parallel ranks, beside the backward pass that can hide them.

    ``tokens_needed`` are those a device must work on for both to take as long, at the stated share of the peak;
    ``tokens_needed_at_peak`` at the whole of it. ``exposed_s`` is what the backward pass does not hide.
    """

    parameters: float
    ranks: int
    tokens: float
    mfu: float
    gradient_bytes: float
    sent_bytes: float
    legs: tuple[Carried, ...]
    link_s: float
    backward_s: float
    hidden: bool
    exposed_s: float
    tokens_needed: float
    tokens_needed_at_peak: float


def data_links(
    parameters: float, ranks: int, tokens: float, flop_per_s: float, cluster: Cluster, *, gradient_bytes: float = 2, mfu: float = 1.0
) -> DataLinks:
    """An all-reduce of all gradients against a backward pass of 4 FLOP a parameter and token, at ``mfu`` of the peak.

    ``tokens`` are those of one device; attention's own products are left out, so that the backward pass is at least as long.
    """
    legs = collective("all_reduce", gradient_bytes * parameters, Group(size=ranks, stride=1), cluster)
    link_s = scalar(bound_s(legs))
    token_s = 4 * parameters / flop_per_s
    backward_s = tokens * token_s / mfu
    return DataLinks(
        parameters=parameters,
        ranks=ranks,
        tokens=tokens,
        mfu=mfu,
        gradient_bytes=gradient_bytes,
        sent_bytes=sum(scalar(leg.sent_bytes) for leg in legs),
        legs=carried(legs),
        link_s=link_s,
        backward_s=backward_s,
        hidden=link_s <= backward_s,
        exposed_s=max(0.0, link_s - backward_s),
        tokens_needed=link_s / token_s * mfu,
        tokens_needed_at_peak=link_s / token_s,
    )


# --------------------------------------------------------------------------- experts
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLinks:
    """Tokens sent to their experts and back, layer after layer: what a generated token cannot be faster than.

    ``exchange_s`` is one dispatch with its combine. ``halves`` are the parts of a batch that take turns on the link and the engines, so
    that a layer lasts ``halves`` exchanges where arithmetic hides behind them. Where nothing is sent no rate of tokens follows: None.
    """

    tokens: float
    copies: int
    hidden: int
    layers: int
    halves: int
    ranks: int | None
    node_limit: int
    imbalance: float
    dispatch_bytes: float
    combine_bytes: float
    legs: tuple[Carried, ...]
    exchange_s: float
    layer_s: float
    token_s: float
    tokens_per_s_per_user: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What goes to experts: ``tokens`` of a device, to ``copies`` experts each, ``hidden`` elements of so many bytes out and back.

    ``imbalance`` is what the fullest rank of experts takes in, and sends back, over the mean.
    """

    tokens: float
    copies: int
    hidden: int
    dispatch_bytes: float
    combine_bytes: float
    node_limit: int = 0
    imbalance: float = 1.0


def expert_links(exchange: Exchange, cluster: Cluster, *, layers: int, halves: int, ranks: int | None = None) -> ExpertLinks:
    """Dispatch and combine of every layer; without ``ranks`` every copy leaves its device over the innermost tier.

    That is how DeepSeek states its bound (arXiv 2505.09343, section 2.3.2), experts evenly loaded; with ranks, what stays on a device or
    in a node does. The fullest rank sets the pace: its port takes in what is dispatched to it and sends the results back.

    Raises:
        UsageError: an imbalance that so many ranks cannot have.
    """
    e = exchange
    if ranks is not None and e.imbalance > ranks:
        raise UsageError(f"imbalance {e.imbalance:g}: the fullest of {ranks} ranks has at most {ranks} times the mean, all there is")
    out, back = (e.imbalance * e.tokens * e.copies * e.hidden * size for size in (e.dispatch_bytes, e.combine_bytes))
    legs: tuple[Leg, ...]
    if ranks is None:
        legs = tuple(Leg(tier=cluster.tiers[0], kind="send_recv", size=size, ranks=2) for size in (out, back))
    else:
        group = Group(size=ranks, stride=1)
        ways = [
            collective("all_to_all", size, group, cluster, copies=e.copies, node_limit=e.node_limit, imbalance=e.imbalance)
            for size in (out, back)
        ]
        legs = tuple(leg for way in ways for leg in way)
    exchange_s = scalar(bound_s(legs))
    token_s = exchange_s * halves * layers
    return ExpertLinks(
        tokens=e.tokens,
        copies=e.copies,
        hidden=e.hidden,
        layers=layers,
        halves=halves,
        ranks=ranks,
        node_limit=e.node_limit,
        imbalance=e.imbalance,
        dispatch_bytes=out,
        combine_bytes=back,
        legs=carried(legs),
        exchange_s=exchange_s,
        layer_s=exchange_s * halves,
        token_s=token_s,
        tokens_per_s_per_user=1 / token_s if token_s else None,
    )
