"""A cluster as figures: devices of one profile, and the tiers of network between them, from the node outwards.

A tier joins ``ranks`` devices (all of them in the last one). Its bandwidth is one way and for each device; what several tiers
share (a rail, an oversubscribed spine) is in the figures of the outer one. Every figure has its source, as in a device's profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from roofline.hardware.profile import Absent, Figure, Hardware, Link, Value

TOPOLOGIES = ("switch", "ring", "torus", "mesh", "host", "rail", "fat_tree")
"""How the ranks of a tier are joined; over rails only those of one number in their nodes are one switch apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One level of the network. ``name`` is that of the device's link where it is one (nvlink), else its own (infiniband).

    ``ranks`` are the devices that it joins; ``oversubscription`` is by how much the bandwidth between its far ends is less than
    that at a device (1 for a full fat tree); ``in_network_reduction`` says that its switches add (NVLink SHARP, SHARP). A torus
    has ``axes``, and its bandwidth is that of all of them together.
    """

    name: str
    ranks: int
    bandwidth: Value
    latency: Value
    topology: str
    oversubscription: float = 1.0
    in_network_reduction: bool = False
    axes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Devices and the tiers between them, innermost first. ``mtbf`` is the mean time between failures of one device, in seconds."""

    name: str
    device: Hardware
    tiers: tuple[Tier, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    node_power: Value | None = None
    node_price: Value | None = None
    mtbf: Value | None = None
    notes: str | None = None
    path: str = ""

    @property
    def node_ranks(self) -> int:
        """Devices of a node: those of the innermost tier."""
        return self.tiers[0].ranks if self.tiers else 1

    @property
    def capacity(self) -> int:
        """Devices that the outermost tier joins."""
        return self.tiers[-1].ranks if self.tiers else 1

    def hardware(self) -> Hardware:
        """The device with the tiers among its links, for workloads whose collectives name them. Sources are told apart by names."""
        links, sources = dict(self.device.links), dict(self.device.sources)
        for tier in self.tiers:
            if isinstance(tier.bandwidth, Figure) and tier.name not in links:
                bandwidth, latency = (self._sourced(v, sources) for v in (tier.bandwidth, tier.latency))
                links[tier.name] = Link(name=tier.name, bandwidth=bandwidth, topology=tier.topology, latency=latency)
        return replace(self.device, links=links, sources=sources)

    def _sourced(self, value: Value, sources: dict[str, str]) -> Value:
        """The figure with its source among those of the device, under a key that is none of the device's."""
        if isinstance(value, Absent):
            return value
        key = f"{self.name}.{value.source}"
        sources[key] = self.sources.get(value.source, value.source)
        return replace(value, source=key)
