"""Clusters: YAML text to `Cluster`. A cluster names a device and the tiers between devices, from the node outwards.

A tier with the name of a link of the device takes bandwidth, latency and topology from there unless it states its own. A
cluster may extend another one, as profiles do: maps are merged key by key, and a figure replaces a figure whole.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roofline.errors import InputError, UsageError, did_you_mean
from roofline.hardware.cluster import TOPOLOGIES, Cluster, Tier
from roofline.hardware.profile import Absent, Figure, Hardware, Link, Value
from roofline.spec.find import cluster_names, find_cluster, hardware_names, is_path
from roofline.spec.hardware import BANDWIDTH, MOST_EXTENDED, TIME, FigureType, check_sources, load_hardware, overlay
from roofline.spec.kind import require
from roofline.spec.reader import INVALID, Reader
from roofline.spec.schema import Bool, Choice, Integer, Key, MapOf, Real, Record, Text
from roofline.spec.source import MapNode, Node, Scalar, parse, read_source
from roofline.units import Dimension, QuantityError, parse_quantity

SCHEMA = 1
MOST_AXES = 6
MOST_RANKS = 2**31
"""Devices that a link without a cluster joins: more than anybody asks for."""
TIER = Record(
    "a tier",
    (
        Key("ranks", Integer(2), "devices that it joins, those of inner tiers among them", required=True),
        Key("bandwidth", BANDWIDTH, "one way, of one device"),
        Key("latency", TIME, "of one step between two devices"),
        Key("topology", Choice(TOPOLOGIES), "how devices are joined"),
        Key("oversubscription", Real(1), "bandwidth at a device over what is left between far ends; 1 for a full fat tree"),
        Key("in_network_reduction", Bool(), "whether its switches add, as NVLink SHARP does"),
        Key("axes", Integer(1, MOST_AXES), "axes of a torus; bandwidth is that of all of them"),
    ),
)
CLUSTER = Record(
    "a cluster",
    (
        Key("schema", Integer(SCHEMA, SCHEMA), "version of this format", required=True),
        Key("name", Text(), "as the file is called", required=True),
        Key("extends", Text(), "cluster from which everything not stated here is taken"),
        Key("device", Text(), "hardware profile of its devices", required=True),
        Key("notes", Text(), "what a reader should know"),
        Key("sources", MapOf(Text()), "where figures come from, by key", required=True),
        Key("tiers", MapOf(TIER), "by name, from the node outwards; the last one joins all devices", required=True),
        Key("node_power", FigureType(Dimension.WATTS), "of a whole node"),
        Key("node_price", FigureType(Dimension.USD_PER_HOUR), "rent of a whole node"),
        Key("mtbf", TIME, "mean time between failures of one device, with its share of everything around it"),
    ),
)


def load_cluster(name: str) -> Cluster:
    """The cluster of that name, or in that file.

    Raises:
        InputError: problems in the file, all of them.
        UsageError: no cluster of that name; the message names the nearest.
    """
    path = find_cluster(name)
    node = _merged(path, (path,))
    reader = Reader()
    values = CLUSTER.read(node, reader)
    tiers: tuple[Tier, ...] = ()
    device = None
    if values is not INVALID:
        _check_name(values, node, reader)
        check_sources(node, set(values.get("sources", {})), reader)
        device = _device(node, reader)
        if device is not None and "tiers" in values:
            tiers = _tiers(values["tiers"], node.entries["tiers"].value, device, reader)
    reader.finish()
    assert device is not None  # else a problem was raised above
    figures = {key: values[key] for key in ("node_power", "node_price", "mtbf") if key in values}
    return Cluster(
        name=values["name"], device=device, tiers=tiers, sources=values["sources"], notes=values.get("notes"), path=str(path), **figures
    )


def _merged(path: Path, chain: tuple[Path, ...]) -> MapNode:
    """The cluster over what it extends."""
    node = require(parse(read_source(path)), "a cluster")
    if "extends" not in node.entries:
        return node
    parent = node.entries["extends"].value
    name = parent.text if isinstance(parent, Scalar) else ""
    if name not in cluster_names():
        hint = "it takes a cluster's name, not a path" if is_path(name) else did_you_mean(name, cluster_names())
        raise InputError([parent.problem(f"extends: unknown cluster '{name}'; {hint}")])
    base = find_cluster(name)
    if base.resolve() in [p.resolve() for p in chain]:
        raise InputError([parent.problem(f"clusters extend each other in a circle: {' -> '.join(p.stem for p in (*chain, base))}")])
    if len(chain) > MOST_EXTENDED:
        raise InputError([parent.problem(f"more than {MOST_EXTENDED} clusters extend each other; write the figures out")])
    return overlay(_merged(base, (*chain, base)), node)


def _check_name(values: Mapping[str, Any], node: MapNode, reader: Reader) -> None:
    if "name" in values and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", values["name"]):
        reader.fail(node.entries["name"].value, "a cluster's name has lower-case letters, digits, '-' and '.' only")


def _device(node: MapNode, reader: Reader) -> Hardware | None:
    """The profile that ``device`` names; None after a problem was reported."""
    entry = node.entries.get("device")
    named = entry.value if entry else None
    if not isinstance(named, Scalar):
        return None
    if named.text not in hardware_names():
        hint = "it takes a profile's name, not a path" if is_path(named.text) else did_you_mean(named.text, hardware_names())
        reader.fail(named, f"device: unknown hardware profile '{named.text}'; {hint}")
        return None
    return load_hardware(named.text)


# --------------------------------------------------------------------------- tiers
def _tiers(values: Mapping[str, Mapping[str, Any]], node: Node, device: Hardware, reader: Reader) -> tuple[Tier, ...]:
    """The tiers in the order of the file, each joining more devices than the one inside it."""
    if not isinstance(node, MapNode) or not values:
        reader.fail(node, "a cluster has at least one tier")
        return ()
    found: list[Tier] = []
    for name, own in values.items():
        place = node.entries[name].value
        tier = _tier(name, own, device.links.get(name), place, device, reader)
        if tier is None:
            continue
        if found and tier.ranks % found[-1].ranks:
            reader.fail(place, f"tier '{name}' joins {tier.ranks} devices, no multiple of the {found[-1].ranks} of '{found[-1].name}'")
        elif found and tier.ranks == found[-1].ranks:
            reader.fail(place, f"tier '{name}' joins no more devices than '{found[-1].name}': tiers go from the node outwards")
        found.append(tier)
    return tuple(found)


def _tier(name: str, own: Mapping[str, Any], link: Link | None, place: Node, device: Hardware, reader: Reader) -> Tier | None:
    """One tier; what it does not state comes from the device's link of that name."""
    bandwidth = own.get("bandwidth", link.bandwidth if link else None)
    topology = own.get("topology", link.topology if link else None)
    latency = own.get("latency", link.latency if link else None)
    given = {"bandwidth": bandwidth, "topology": topology}
    written = place.entries if isinstance(place, MapNode) else {}
    lacking = [key for key, value in given.items() if value is None and key not in written]
    misspelt = written.keys() - {key.name for key in TIER.keys}  # already refused, and what it stands for is no longer missing
    if lacking and not misspelt:
        known = did_you_mean(name, list(device.links))
        hint = f"{device.name} has no link '{name}' to take it from ({known})"
        reader.fail(place, f"tier '{name}' lacks {' and '.join(repr(k) for k in lacking)}; {hint}")
    if isinstance(bandwidth, Absent):
        reader.fail(place, f"tier '{name}' needs a bandwidth; that of {device.name} is absent: {bandwidth.reason}")
    if own.get("axes", 1) > 1 and topology != "torus":
        reader.fail(written["axes"].value, f"tier '{name}' has axes, which only a torus has, and is a {topology}")
    if "ranks" not in own or topology is None or not isinstance(bandwidth, Figure):
        return None
    unknown = Absent(f"neither the cluster nor {device.name} states a latency of {name}")
    rest = {key: own[key] for key in ("oversubscription", "in_network_reduction", "axes") if key in own}
    return Tier(name=name, ranks=own["ranks"], bandwidth=bandwidth, latency=latency or unknown, topology=topology, **rest)


def one_link(device: Hardware, link: str | None, bandwidth: str | None) -> Cluster:
    """A network of a single tier for any number of devices: a link of the device, or one of that bandwidth behind a switch.

    Raises:
        UsageError: no such link, one without a bandwidth, or a bandwidth that cannot be read.
    """
    latency: Value
    if bandwidth is not None:
        try:
            rate = Figure(float(parse_quantity(bandwidth, Dimension.BYTES_PER_S)), "B/s", "datasheet", "asked")
        except QuantityError as err:
            raise UsageError(f"--bandwidth: {err}") from None
        given, latency, topology, name = rate, Absent("only a bandwidth was given"), "switch", "link"
    else:
        found = device.link(str(link))
        if isinstance(found.bandwidth, Absent):
            raise UsageError(f"the bandwidth of {device.name}'s link '{link}' is not known: {found.bandwidth.reason}")
        given, name = found.bandwidth, found.name
        latency = found.latency or Absent(f"{device.name} states no latency of {name}")
        # The ranks of a mesh or a torus are those of its node, which a single link does not tell: all of its ports are counted.
        topology = "ring" if found.topology == "ring" else "switch"
    tier = Tier(name=name, ranks=MOST_RANKS, bandwidth=given, latency=latency, topology=topology)
    return Cluster(name=f"{device.name} over {name}", device=device, tiers=(tier,), sources={"asked": "the command line"})
