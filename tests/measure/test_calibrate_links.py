"""`calibrate --links`: collectives over sizes become a profile with latency, bandwidth and parameters of the transfer model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roofline.hardware.profile import Ceiling
from roofline.measure import link_profile
from roofline.measure.collectives import Request, Sweep, ladder, planned
from roofline.report.model import MeasuredResult, Measurements
from roofline.spec.ceilings import COLLECTIVES
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Workload

ROOT = Path(__file__).parent.parent.parent
ALPHA_S, BYTES_PER_S = 1e-5, 200e9


def swept(alpha_s: float = ALPHA_S, status: str = "ok") -> Sweep:
    """Collectives on four ranks whose times lie on one line."""
    request = Request(names=COLLECTIVES, settings=(), sizes=link_profile.sizes("cuda"))
    steps = planned(request, 4, "cuda", "nvlink")
    results = {}
    for step in steps:
        (sent,) = step.op.link_bytes().values()
        results[step.id] = MeasuredResult(time_s=alpha_s + sent / BYTES_PER_S, source="made up", status=status)
    where = {"device": "NVIDIA H200", "ranks": 4, "library": "nccl 2.28.9"}
    found = Measurements(steps=results, environment=where)
    return Sweep(workload=Workload(name="links", steps=tuple(steps)), profile=load_hardware("h200-sxm"), measurements=found)


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
