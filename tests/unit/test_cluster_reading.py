"""Clusters from YAML: figures with sources, what a tier takes from its device, and located refusals, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.errors import InputError, UsageError
from roofline.hardware.cluster import Cluster
from roofline.hardware.profile import Absent, Figure, si
from roofline.spec.cluster import load_cluster, one_link
from roofline.spec.find import cluster_names, hardware_names, shipped
from roofline.spec.hardware import load_hardware
from roofline.spec.load import load_any

SHIPPED = sorted((shipped("hardware_specs") / "clusters").glob("*.yaml"))
TEXT = """\
schema: 1
name: toy
device: h100-sxm
sources: {sheet: "a datasheet of a network that does not exist"}
tiers:
  nvlink: {ranks: 8}
  infiniband:
    ranks: 64
    bandwidth: {value: 400 Gb/s, kind: datasheet, source: sheet}
    latency: {absent: "nobody says"}
    topology: rail
    oversubscription: 2
node_power: {value: 10 kW, kind: datasheet, source: sheet}
mtbf: {formula: 54 * 86400 * 16384 / 419, kind: derived, source: sheet}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project whose ``hardware_specs/clusters`` is looked at first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hardware_specs" / "clusters").mkdir(parents=True)
    return tmp_path


def load(home: Path, text: str, name: str = "c.yaml") -> Cluster:
    (home / name).write_text(text, encoding="utf-8")
    return load_cluster(f"./{name}")


def refused(home: Path, text: str) -> list[str]:
    """Each problem as ``line: message``."""
    with pytest.raises(InputError) as caught:
        load(home, text)
    return [f"{p.line}: {p.message}" for p in caught.value.problems]


def test_a_cluster_is_read_in_si_units(home: Path) -> None:
    found = load(home, TEXT)
    nvlink, infiniband = found.tiers
    assert (found.name, found.device.name, found.node_ranks) == ("toy", "h100-sxm", 8)
    assert infiniband.bandwidth == Figure(50e9, "B/s", "datasheet", "sheet")
    assert (infiniband.latency, infiniband.topology, infiniband.oversubscription) == (Absent("nobody says"), "rail", 2)
    assert si(found.node_power) == 10e3
    assert si(found.mtbf) == pytest.approx(2111.5 * 86400, rel=1e-4)  # 54 days of 16,384 devices over 419 failures
    assert nvlink.ranks == 8


def test_a_tier_takes_what_it_does_not_state_from_the_device(home: Path) -> None:
    nvlink = load(home, TEXT).tiers[0]
    assert nvlink.bandwidth == load_hardware("h100-sxm").links["nvlink"].bandwidth
    assert nvlink.topology == "switch"
    assert isinstance(nvlink.latency, Absent)
    own = load(
        home, TEXT.replace("{ranks: 8}", "{ranks: 8, bandwidth: {value: 1 GB/s, kind: measured, source: sheet}, topology: ring}")
    ).tiers[0]
    assert (si(own.bandwidth), own.topology) == (1e9, "ring")


def test_one_extends_another(home: Path) -> None:
    """Maps are merged, a figure replaces a figure whole, and what is not stated stays."""
    (home / "hardware_specs" / "clusters" / "toy.yaml").write_text(TEXT, encoding="utf-8")
    text = "schema: 1\nname: slow\nextends: toy\ntiers: {infiniband: {bandwidth: {value: 25 GB/s, kind: measured, source: sheet}}}\n"
    found = load(home, text)
    assert [(t.name, t.ranks, si(t.bandwidth)) for t in found.tiers] == [("nvlink", 8, 450e9), ("infiniband", 64, 25e9)]
    assert found.tiers[1].oversubscription == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("topology: rail", "topolgy: rail", "unknown key 'topolgy' in a tier; did you mean 'topology'?"),
        ("topology: rail", "topology: rails", "'rails'"),
        ("node_power", "node_powr", "unknown key 'node_powr' in a cluster; did you mean 'node_power'"),
        ("400 Gb/s", "400 Gb", "400 Gb"),
        ("source: sheet}\n    latency", "source: shet}\n    latency", "source 'shet' is not a key of sources; did you mean 'sheet'?"),
        ("device: h100-sxm", "device: h100-sx", "device: unknown hardware profile 'h100-sx'; did you mean 'h100-sxm'"),
        ("device: h100-sxm", "device: ./h.yaml", "it takes a profile's name, not a path"),
        ("  nvlink: {ranks: 8}", "  nvlnk: {ranks: 8}", "tier 'nvlnk' lacks 'bandwidth' and 'topology'; h100-sxm has no link 'nvlnk'"),
        ("ranks: 64", "ranks: 60", "tier 'infiniband' joins 60 devices, no multiple of the 8 of 'nvlink'"),
        ("ranks: 64", "ranks: 8", "tiers go from the node outwards"),
        ("ranks: 64", "ranks: 1", "at least 2"),
        ("oversubscription: 2", "oversubscription: 0.5", "0.5"),
        ("oversubscription: 2", "axes: 2", "axes, which only a torus has"),
        ("name: toy", "name: Toy!", "a cluster's name has lower-case letters"),
        ("mtbf: {formula: 54", "mtbf: {formula: -54", "a figure is above 0"),
        ("bandwidth: {value: 400 Gb/s, kind: datasheet, source: sheet}", "bandwidth: {absent: who knows}", "needs a bandwidth"),
    ],
)
def test_a_mistake_is_refused_once_with_the_repair(home: Path, old: str, new: str, said: str) -> None:
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    (found,) = refused(home, text)
    assert said in found
    changed = next(n for n, (a, b) in enumerate(zip(TEXT.split("\n"), text.split("\n"), strict=True), 1) if a != b)
    assert abs(int(found.split(":")[0]) - changed) <= 1  # the line itself, or that of the tier it makes wrong


def test_all_problems_are_told_at_once(home: Path) -> None:
    text = TEXT.replace("topology: rail", "topolgy: rail").replace("h100-sxm", "h100").replace("10 kW", "10 kV")
    assert len(refused(home, text)) == 3


def test_extends_is_the_name_of_a_cluster(home: Path) -> None:
    (found,) = refused(home, TEXT.replace("device:", "extends: dgx-h10\ndevice:"))
    assert "extends: unknown cluster 'dgx-h10'; did you mean 'dgx-h100'" in found
    (found,) = refused(home, TEXT.replace("device:", "extends: ../c.yaml\ndevice:"))
    assert "it takes a cluster's name, not a path" in found


def test_a_circle_is_found(home: Path) -> None:
    folder = home / "hardware_specs" / "clusters"
    (folder / "toy.yaml").write_text(TEXT.replace("device:", "extends: toy2\ndevice:"), encoding="utf-8")
    (folder / "toy2.yaml").write_text(TEXT.replace("device:", "extends: toy\ndevice:"), encoding="utf-8")
    with pytest.raises(InputError, match="in a circle: toy -> toy2 -> toy"):
        load_cluster("toy")


def test_other_files_are_told_apart(home: Path) -> None:
    (home / "w.yaml").write_text("schema: 1\nsteps: []\n", encoding="utf-8")
    with pytest.raises(InputError, match="expected a cluster, but this is a workload"):
        load_cluster("./w.yaml")
    (home / "c.yaml").write_text(TEXT, encoding="utf-8")
    assert isinstance(load_any("./c.yaml"), Cluster)
    assert load_hardware("./c.yaml").links.keys() >= {"nvlink", "infiniband"}


def test_a_cluster_gives_its_device_with_tiers_as_links(home: Path) -> None:
    """Sources stay apart, though both files have a key of that name."""
    found = load_hardware("dgx-h100")
    plain = load_hardware("h100-sxm")
    assert found.name == "h100-sxm"
    assert found.links["nvlink"] == plain.links["nvlink"]
    assert si(found.links["infiniband"].bandwidth) == 50e9
    assert isinstance(found.links["infiniband"].bandwidth, Figure)
    assert "ConnectX-7" in found.sources[found.links["infiniband"].bandwidth.source]
    assert found.sources["datasheet"] == plain.sources["datasheet"]


def test_names_of_clusters_and_devices_are_apart() -> None:
    assert not set(cluster_names()) & set(hardware_names())
    with pytest.raises(UsageError, match="unknown hardware profile 'dgx-h10'; did you mean 'dgx-h100'"):
        load_hardware("dgx-h10")
    with pytest.raises(UsageError, match="'h100-sxm' is a device, and a cluster is wanted"):
        load_cluster("h100-sxm")
    with pytest.raises(UsageError, match="unknown cluster 'dgx-h10'; did you mean 'dgx-h100'"):
        load_cluster("dgx-h10")


def test_a_link_alone_is_a_network() -> None:
    device = load_hardware("h100-sxm")
    assert si(one_link(device, "nvlink", None).tiers[0].bandwidth) == 450e9
    assert si(one_link(device, None, "400 Gb/s").tiers[0].bandwidth) == 50e9
    with pytest.raises(UsageError, match="did you mean 'nvlink'"):
        one_link(device, "nvlnk", None)
    with pytest.raises(UsageError, match=r"--bandwidth: .*no unit"):
        one_link(device, None, "50")
    with pytest.raises(UsageError, match="bandwidth of gb200's link 'c2c' is not known"):
        one_link(load_hardware("gb200"), "c2c", None)


# --------------------------------------------------------------------------- what is shipped
def test_clusters_are_shipped() -> None:
    promised = "dgx-a100 dgx-h100 dgx-h200 dgx-b200 dgx-b300 gb200-nvl72 mi300x-8 llama3-24k"
    assert {p.stem for p in SHIPPED} == set(promised.split())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_every_shipped_figure_has_a_source_or_a_reason(path: Path) -> None:
    found = load_cluster(path.stem)
    assert found.name == path.stem
    values = [found.node_power, found.node_price, found.mtbf, *(v for t in found.tiers for v in (t.bandwidth, t.latency))]
    used = set()
    for value in values:
        if isinstance(value, Figure):
            used.add(value.source)
            assert len({**found.device.sources, **found.sources}[value.source]) > 10
        else:
            assert isinstance(value, Absent)
            assert len(value.reason) > 10
    assert set(found.sources) <= used, "a source that nothing is taken from"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_outer_tiers_are_slower(path: Path) -> None:
    """Else nobody would keep tensor parallelism in a node."""
    rates = [si(t.bandwidth) / t.oversubscription for t in load_cluster(path.stem).tiers]  # type: ignore[operator]
    assert rates == sorted(rates, reverse=True)
    assert 20e9 <= rates[1] <= 100e9
