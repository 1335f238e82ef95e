"""Clusters as data and tables: the device, its tiers, what fails how often, and the source of every figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofline.hardware.cluster import Cluster, Tier
from roofline.hardware.profile import Absent, Figure, Value, si
from roofline.report.columns import Column
from roofline.units import Dimension, format_quantity

DAY = 86400.0
"""In seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """A figure in SI units with its kind and the text of its source; without a value the reason."""

    value: float | None
    unit: str | None
    kind: str | None
    source: str | None
    note: str | None
    absent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFigures:
    """One tier; ``far_bytes_per_s`` is what is left of the bandwidth beyond an oversubscribed switch."""

    name: str
    ranks: int
    topology: str
    axes: int
    oversubscription: float
    in_network_reduction: bool
    bandwidth: Sourced
    far_bytes_per_s: float | None
    latency: Sourced


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFigures:
    """A cluster as it is read, with what follows from it: a node's devices, and all devices that its last tier joins."""

    name: str
    device: str
    product: str
    node_ranks: int
    ranks: int
    tiers: tuple[TierFigures, ...]
    node_power: Sourced
    node_price: Sourced
    mtbf: Sourced
    notes: str | None


def cluster_figures(cluster: Cluster) -> ClusterFigures:
    """The cluster as data."""
    return ClusterFigures(
        name=cluster.name,
        device=cluster.device.name,
        product=cluster.device.product,
        node_ranks=cluster.node_ranks,
        ranks=cluster.tiers[-1].ranks,
        tiers=tuple(_tier(t, cluster) for t in cluster.tiers),
        node_power=_sourced(cluster.node_power, cluster),
        node_price=_sourced(cluster.node_price, cluster),
        mtbf=_sourced(cluster.mtbf, cluster),
        notes=cluster.notes,
    )


def _tier(tier: Tier, cluster: Cluster) -> TierFigures:
    bandwidth = si(tier.bandwidth)
    return TierFigures(
        name=tier.name,
        ranks=tier.ranks,
        topology=tier.topology,
        axes=tier.axes,
        oversubscription=tier.oversubscription,
        in_network_reduction=tier.in_network_reduction,
        bandwidth=_sourced(tier.bandwidth, cluster),
        far_bytes_per_s=bandwidth / tier.oversubscription if bandwidth is not None else None,
        latency=_sourced(tier.latency, cluster),
    )


def _sourced(value: Value | None, cluster: Cluster) -> Sourced:
    if isinstance(value, Figure):
        source = cluster.sources.get(value.source) or cluster.device.sources.get(value.source, value.source)
        return Sourced(value=value.value, unit=value.unit, kind=value.kind, source=source, note=value.note, absent=None)
    reason = value.reason if isinstance(value, Absent) else "the file does not state it"
    return Sourced(value=None, unit=None, kind=None, source=None, note=None, absent=reason)


# --------------------------------------------------------------------------- tables
def list_columns(found: Sequence[ClusterFigures]) -> list[Column]:
    """One line a cluster."""

    def tiers(c: ClusterFigures) -> str:
        return ", ".join(f"{t.name} {t.ranks}" for t in c.tiers)

    def rates(c: ClusterFigures) -> str:
        return ", ".join(_rate(t.far_bytes_per_s) for t in c.tiers)

    return [
        Column("cluster", tuple(c.name for c in found), right=False),
        Column("device", tuple(c.device for c in found), right=False),
        Column("node", tuple(str(c.node_ranks) for c in found)),
        Column("tiers (devices joined)", tuple(tiers(c) for c in found), right=False),
        Column("one way, a device", tuple(rates(c) for c in found), right=False, priority=1),
    ]


def tier_columns(found: ClusterFigures) -> list[Column]:
    """One line a tier."""
    tiers = found.tiers
    return [
        Column("tier", tuple(t.name for t in tiers), right=False),
        Column("devices", tuple(f"{t.ranks:,}" for t in tiers)),
        Column("topology", tuple(t.topology for t in tiers), right=False),
        Column("one way", tuple(_rate(t.bandwidth.value) for t in tiers)),
        Column("oversubscribed", tuple(f"{t.oversubscription:g}:1" for t in tiers)),
        Column("latency", tuple(_seconds(t.latency.value) for t in tiers)),
        Column("switch adds", tuple("yes" if t.in_network_reduction else "no" for t in tiers), right=False),
    ]


def source_columns(found: ClusterFigures) -> list[Column]:
    """Every figure with its kind and where it comes from, or why it is absent."""
    named = [(f"{t.name}.{key}", getattr(t, key)) for t in found.tiers for key in ("bandwidth", "latency")]
    named += [(key, getattr(found, key)) for key in ("node_power", "node_price", "mtbf")]
    return [
        Column("figure", tuple(name for name, _ in named), right=False),
        Column("value", tuple(_value(f) for _, f in named)),
        Column("kind", tuple(f.kind or "absent" for _, f in named), right=False),
        Column("source, or why it is absent", tuple(str(f.source or f.absent) for _, f in named), right=False),
    ]


def _rate(value: float | None) -> str:
    return "-" if value is None else format_quantity(value, Dimension.BYTES_PER_S)


def _seconds(value: float | None) -> str:
    return "-" if value is None else format_quantity(value, Dimension.SECONDS)


def _value(figure: Sourced) -> str:
    if figure.value is None:
        return "-"
    if figure.unit == "s" and figure.value >= DAY:
        return f"{figure.value / DAY:,.0f} days"
    dimension = next(d for d in Dimension if d.si == figure.unit)
    return format_quantity(figure.value, dimension)
