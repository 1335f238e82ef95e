"""All-reduce of 256 MiB on 4 ranks in 1.200 ms: 223.7 GB/s by the algorithm, 335.5 GB/s on the bus (case C09, NVIDIA/nccl-tests#159)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ALL_REDUCE = ("op", "all_reduce", "size=256 MiB", "ranks=4", "over=nvlink")
LIMITED = """\
schema: 1
name: limited
extends: h100-sxm
links:
  nvlink: {bandwidth: {value: 335.54432 GB/s, kind: measured, source: datasheet}, topology: switch}
"""


def test_both_bandwidths_are_in_the_report(row: Any) -> None:
    achieved = row(*ALL_REDUCE, "measured=1.2 ms", "-H", "h100-sxm")["measured"]["achieved_per_s"]
    assert achieved["algorithm"] == pytest.approx(223.7e9, abs=0.05e9)
    assert achieved["nvlink"] == pytest.approx(335.5e9, abs=0.05e9)


def test_both_bandwidths_are_in_words(run: Any) -> None:
    said = run(*ALL_REDUCE, "measured=1.2 ms", "-H", "h100-sxm").stdout
    assert "algorithm bandwidth 223.7 GB/s (size / time), bus bandwidth 335.5 GB/s (x 1.5)" in said
    assert "335.5 GB/s of nvlink (74.6 %)" in said


def test_the_share_of_the_link_is_that_of_the_bus_bandwidth(row: Any) -> None:
    share = row(*ALL_REDUCE, "measured=1.2 ms", "-H", "h100-sxm")["measured"]["share_of_peak"]
    assert share["nvlink"] == pytest.approx(335.54432 / 450)
    assert share["algorithm"] is None


def test_at_that_bus_limit_the_time_comes_back(row: Any, tmp_path: Path) -> None:
    path = tmp_path / "limited.yaml"
    path.write_text(LIMITED)
    bound = row(*ALL_REDUCE, "-H", str(path))["bound"]
    assert (bound["limiter"], bound["time_s"]) == ("nvlink", pytest.approx(1.2e-3, rel=1e-9))


def test_at_that_bus_limit_the_time_comes_back_over_a_network_too(report: Any, run: Any) -> None:
    words = ("links", "collective", "all_reduce", "--size", "256 MiB", "--ranks", "4", "--bandwidth", "335.54432 GB/s", "-H", "h100-sxm")
    found = report(*words)
    assert (found["bound_s"], found["time_s"]) == (pytest.approx(1.2e-3, rel=1e-9), pytest.approx(1.2e-3, rel=1e-9))
    assert (found["bus_factor"], found["bus_bytes_per_s"]) == (1.5, pytest.approx(335.54432e9))
    assert found["algorithm_bytes_per_s"] == pytest.approx(223.7e9, abs=0.05e9)
    assert "algorithm bandwidth 223.7 GB/s (size / time), bus bandwidth 335.5 GB/s (x 1.5)" in run(*words).stdout


@pytest.mark.parametrize(("name", "factor"), [("all_gather", 0.75), ("all_to_all", 0.75), ("broadcast", 1), ("send_recv", 1)])
def test_a_network_gives_the_factors_of_the_operators(report: Any, name: str, factor: float) -> None:
    found = report("links", "collective", name, "--size", "1 MiB", "--ranks", "4", "--bandwidth", "100 GB/s", "-H", "h100-sxm")
    assert (found["bus_factor"], found["bus_bytes_per_s"]) == (factor, pytest.approx(100e9))


def test_one_rank_of_a_cluster_sends_nothing(report: Any) -> None:
    found = report("links", "collective", "all_reduce", "--size", "256 MiB", "--ranks", "1", "-H", "dgx-h100")
    assert (found["bound_s"], found["time_s"], found["legs"], found["bus_bytes_per_s"], found["binds"]) == (0, 0, [], None, None)


@pytest.mark.parametrize(("name", "factor"), [("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75), ("broadcast", 1)])
def test_other_collectives_have_factors_of_their_own(row: Any, name: str, factor: float) -> None:
    achieved = row("op", name, *ALL_REDUCE[2:], "measured=1.2 ms", "-H", "h100-sxm")["measured"]["achieved_per_s"]
    assert achieved["nvlink"] == pytest.approx(factor * 2**28 / 1.2e-3)


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"])
def test_one_rank_sends_nothing_and_takes_no_time(row: Any, name: str) -> None:
    found = row("op", name, "size=256 MiB", "ranks=1", "over=nvlink", "-H", "h100-sxm")
    assert (found["link_bytes"], found["bound"]["time_s"], found["bound"]["limiter"]) == ({"nvlink": 0}, 0, None)


def test_no_ranks_are_refused(run: Any) -> None:
    assert "at least 1" in run("op", "all_reduce", "size=1 MiB", "ranks=0", "over=nvlink", code=2).output


def test_an_unknown_link_is_named_with_the_nearest(run: Any) -> None:
    said = run("op", "all_reduce", "size=1 MiB", "ranks=2", "over=nvlnk", "-H", "h100-sxm", code=2).output
    assert "did you mean 'nvlink'" in said


def test_a_workload_overlaps_it_with_kernels(report: Any, tmp_path: Path) -> None:
    path = tmp_path / "overlap.yaml"
    path.write_text(
        "schema: 1\nname: overlap\ndtype: bf16\nsteps:\n"
        "  - {id: mm, op: gemm, m: 8192, n: 8192, k: 8192}\n"
        "  - {id: sum, op: all_reduce, size: 256 MiB, ranks: 4, over: nvlink, after: []}\n"
    )
    found = report("analyze", str(path), "-H", "h100-sxm")
    times = [r["bound"]["time_s"] for r in found["rows"]]
    assert found["totals"]["bound"]["time_s"] == max(times)
    assert set(found["totals"]["bound"]["lane_s"]) == {"compute", "link"}
