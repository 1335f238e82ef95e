"""`calibrate --links`: collectives over sizes become a profile with latency, bandwidth and parameters of the transfer model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roofline.cli.calibrate_links import _write as write_profile
from roofline.decide.costs import EstimateCoster
from roofline.errors import UsageError
from roofline.hardware.profile import Ceiling, Figure, Hardware
from roofline.measure import link_profile
from roofline.measure.carrier import carrier
from roofline.measure.collectives import Request, Sweep, ladder, planned
from roofline.plan.network import collective
from roofline.plan.plan import Group
from roofline.report.model import MeasuredResult, Measurements
from roofline.spec import find
from roofline.spec.ceilings import COLLECTIVES
from roofline.spec.cluster import load_cluster
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Workload
from tests.commands import report as report
from tests.commands import run as run

ROOT = Path(__file__).parent.parent.parent
ALPHA_S, BYTES_PER_S = 1e-5, 200e9


def swept(
    alpha_s: float = ALPHA_S,
    status: str = "ok",
    over: str = "nvlink",
    profile: Hardware | None = None,
    bytes_per_s: float = BYTES_PER_S,
) -> Sweep:
    """Collectives on four ranks whose times lie on one line."""
    request = Request(names=COLLECTIVES, settings=(), sizes=link_profile.sizes("cuda"))
    steps = planned(request, 4, "cuda", over)
    results = {}
    for step in steps:
        (sent,) = step.op.link_bytes().values()
        results[step.id] = MeasuredResult(time_s=alpha_s + sent / bytes_per_s, source="made up", status=status)
    where = {"device": "NVIDIA H200", "ranks": 4, "library": "nccl 2.28.9"}
    found = Measurements(steps=results, environment=where)
    return Sweep(workload=Workload(name="links", steps=tuple(steps)), profile=profile or load_hardware("h200-sxm"), measurements=found)


def test_the_sizes_lie_between_those_of_a_measurement() -> None:
    """So that `measure` afterwards is a test: only the largest is shared."""
    assert set(link_profile.sizes("cuda")) & set(ladder("cuda")) == {2**32}
    assert link_profile.sizes("cuda")[:2] == (2048, 8192)
    assert len(link_profile.sizes("cuda", quick=True)) < len(link_profile.sizes("cuda"))


def test_one_line_gives_its_latency_and_bandwidth_back() -> None:
    found = link_profile.ceilings(swept())
    for name in COLLECTIVES:
        assert found[f"nvlink.{name}.1.alpha"].value == pytest.approx(ALPHA_S, rel=1e-6)
        assert found[f"nvlink.{name}.1.bandwidth"].value == pytest.approx(BYTES_PER_S, rel=1e-6)
        assert f"nvlink.{name}.2.alpha" not in found
    assert "each of 4 ranks" in (found["nvlink.all_reduce.1.alpha"].note or "")


def test_a_link_without_names_for_its_ceilings_is_said() -> None:
    assert link_profile.unnamed(swept()) == []
    assert link_profile.unnamed(swept(over="roce_between_pods")) == ["roce_between_pods"]
    assert link_profile.ceilings(swept(over="roce_between_pods")) == {}


def test_what_must_not_be_believed_is_no_part_of_it() -> None:
    assert link_profile.ceilings(swept(status="invalid")) == {}
    assert link_profile.tables(swept(status="oom"), "x") == {}


def test_tables_are_read_back_as_collectives(tmp_path: Path) -> None:
    from roofline.fit.tables import read_tables

    paths = link_profile.write_tables(str(tmp_path / "links"), swept(), "a test")
    tables = read_tables(paths)
    assert [t.rows[0].op.name for t in tables] == list(COLLECTIVES)
    assert tables[0].rows[0].time_s == pytest.approx(ALPHA_S + 2048 * 1.5 / BYTES_PER_S, rel=1e-4)
    assert "measured: a test" in tables[0].provenance


def test_the_profile_is_read_back_with_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "x4.yaml"
    path.write_text(link_profile.profile_text(swept(), load_hardware("h200-sxm"), "x4", "a test"))
    found = load_hardware(str(path))
    ceiling = found.measured["nvlink.all_gather.1.bandwidth"]
    assert isinstance(ceiling, Ceiling)
    assert ceiling.value == pytest.approx(BYTES_PER_S, rel=1e-4)
    assert found.links["nvlink"] == load_hardware("h200-sxm").links["nvlink"]  # bounds go on using the published figure


def links(*arguments: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("torch")
    ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(Path(__file__).parent / "rank.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
    command = [*ranks, "calibrate", "--links", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_two_processes_write_a_profile_that_predicts_them(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    path = tmp_path / "cpu2.yaml"
    done = links("--device", "cpu", "-H", "h200-sxm", "--time-limit", "0.1 s", "--no-lock", "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert "fitted transfer.all_reduce.nvlink.any" in done.stderr
    found = load_hardware(str(path))
    assert {name.split(".")[1] for name in found.measured} <= set(COLLECTIVES)
    assert found.fitted["transfer.all_reduce.nvlink.any"].device == "cpu2"
    assert sorted(p.stem for p in (tmp_path / "cpu2.links").iterdir()) == sorted(COLLECTIVES)


# --------------------------------------------------------------------------- between hosts
@pytest.mark.parametrize(
    ("ranks", "here", "name", "over", "wanted"),
    [
        (8, 8, None, None, None),
        (8, 8, "dgx-h100", None, "nvlink"),
        (2, 1, "dgx-h100", None, "infiniband"),
        (4, 1, "llama3-24k", "roce_between_pods", "roce_between_pods"),
        (2, 1, None, "infiniband", "infiniband"),
    ],
)
def test_ranks_of_a_host_and_of_several_go_over_different_tiers(ranks: int, here: int, name: Any, over: Any, wanted: Any) -> None:
    cluster = load_cluster(name) if name else None
    assert carrier({"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(here)}, cluster, over) == wanted


@pytest.mark.parametrize(
    ("ranks", "here", "name", "over", "said"),
    [
        (16, 8, "dgx-h100", None, "8 ranks on each of 2 hosts exchange over the link inside and the network at once; start one a host"),
        (16, 8, "dgx-h100", "infiniband", "start one a host"),
        (2, 1, None, None, "name what is between them, a cluster with -H"),
        (2, 1, "dgx-h100", "infinband", "dgx-h100 has no tier 'infinband'; did you mean 'infiniband'"),
        (3, 2, "dgx-h100", None, "give every host as many"),
    ],
)
def test_what_no_table_of_one_link_is(ranks: int, here: int, name: Any, over: Any, said: str) -> None:
    cluster = load_cluster(name) if name else None
    with pytest.raises(UsageError, match=re.escape(said)):
        carrier({"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(here)}, cluster, over)


def test_a_tier_of_a_cluster_becomes_a_link_of_the_profile(tmp_path: Path) -> None:
    """With the cluster's figure and its source, so that the profile stands by itself; the device's own links stay as they are."""
    path = tmp_path / "net.yaml"
    base = load_hardware("dgx-h100")
    path.write_text(link_profile.profile_text(swept(over="infiniband", profile=base), base, "net", "a test"))
    found = load_hardware(str(path))
    link, own = found.links["infiniband"], base.links["infiniband"]
    assert isinstance(link.bandwidth, Figure)
    assert isinstance(own.bandwidth, Figure)
    assert (link.bandwidth.value, found.sources[link.bandwidth.source]) == (50e9, base.sources[own.bandwidth.source])
    assert found.links["nvlink"] == load_hardware("h100-sxm").links["nvlink"]
    ceiling = found.measured["infiniband.all_reduce.1.bandwidth"]
    assert isinstance(ceiling, Ceiling)
    assert ceiling.value == pytest.approx(BYTES_PER_S, rel=1e-4)


def look_again() -> None:
    """A process looks at its folders once; these tests change them meanwhile."""
    find._listing.cache_clear()
    find._clusters.cache_clear()


@pytest.fixture
def own_specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of our own profiles and clusters to work in."""
    (tmp_path / "hardware_specs" / "clusters").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    look_again()
    yield
    look_again()


@pytest.mark.usefixtures("own_specs")
def test_a_table_between_nodes_gives_estimates_over_both_tiers(report: Any) -> None:
    """All-reduces of gradients go inside by what is known of NVLink and between the nodes by the table: 20 us and 40 GB/s."""
    pytest.importorskip("scipy")
    made_up = swept(2e-5, over="infiniband", profile=load_hardware("dgx-h100"), bytes_per_s=40e9)
    write_profile(made_up, "hardware_specs/h100-net.yaml", "cuda")
    Path("hardware_specs/clusters/ours.yaml").write_text("schema: 1\nname: ours\nextends: dgx-h100\ndevice: h100-net\n")
    look_again()
    coster = EstimateCoster(load_cluster("ours").hardware(), "eager")
    (between,) = collective("all_reduce", 1e9, Group(size=4, stride=8), load_cluster("ours"))
    assert coster.legs([between]).time_s == pytest.approx(2e-5 + 1.5e9 / 40e9, rel=0.02)
    words = ("llama-3-8b", "--phase", "train", "--devices", "16", "--plan", "tp=8,dp=2,zero=1,overlap=none", "--set", "batch=16")
    found = report("plan", *words, "--set", "seq=2048", "-C", "ours", "--cost", "estimate")
    assert found["time"]["low_s"] < found["time"]["step_s"] < found["time"]["high_s"]
    shard = 2 * 8.03e9 / 8  # bf16 gradients of a rank, scattered, and weights gathered: each half of it sent at 40 GB/s
    assert found["time"]["parts_s"]["exposed_data"] == pytest.approx(2 * shard / 2 / 40e9, rel=0.1)
    assert report("plan", *words, "--set", "seq=2048", "-C", "dgx-h100", "--cost", "estimate")["time"] is None


def test_two_hosts_measure_what_is_between_them(tmp_path: Path) -> None:
    """Two processes that take themselves for hosts: the table is of the cluster's outer tier."""
    pytest.importorskip("torch")
    from tests.measure.test_collectives import by_hand

    path = tmp_path / "h100-net.yaml"
    words = ("--device", "cpu", "-H", "dgx-h100", "--time-limit", "0.1 s", "--no-lock", "-o", str(path))
    done = by_hand("calibrate", "--links", *words, LOCAL_WORLD_SIZE="1")
    assert [code for code, _, _ in done] == [0, 0], done
    rows = (tmp_path / "h100-net.links" / "all_reduce.csv").read_text().splitlines()[3:]
    assert {row.split(",")[3] for row in rows} == {"infiniband"}
    assert isinstance(load_hardware(str(path)).links["infiniband"].bandwidth, Figure)


def test_without_a_file_to_write_nothing_is_measured() -> None:
    done = links("--device", "cpu", "-H", "h200-sxm")
    assert "name the file with -o" in done.stderr
    assert done.returncode != 0


def test_without_torchrun_it_says_how_to_start_it() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "roofline", "calibrate", "--links", "-o", "x.yaml"]
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "torchrun" in done.stderr
    assert "Traceback" not in done.stderr
