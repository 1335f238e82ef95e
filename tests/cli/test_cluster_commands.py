"""`roofline cluster`, and clusters wherever a profile may be named."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from roofline.spec.find import shipped

SPREAD = """\
schema: 1
name: spread
dtype: bf16
steps:
  - {id: inside, op: all_reduce, size: 256 MiB, ranks: 8, over: nvlink}
  - {id: across, op: all_reduce, size: 32 MiB, ranks: 8, over: infiniband}
"""


def test_list_names_every_cluster_with_its_tiers(run: Any) -> None:
    found = {c["name"]: c for c in json.loads(run("cluster", "list", "--format", "json").stdout)}
    assert found["gb200-nvl72"]["node_ranks"] == 72
    assert [t["name"] for t in found["llama3-24k"]["tiers"]] == ["nvlink", "roce", "roce_between_pods"]
    assert "dgx-h100" in run("cluster", "list").stdout


def test_show_gives_every_figure_with_its_source(run: Any) -> None:
    found = json.loads(run("cluster", "show", "llama3-24k", "--format", "json").stdout)
    _, pod, between = found["tiers"]
    assert (pod["bandwidth"]["value"], pod["bandwidth"]["kind"]) == (50e9, "datasheet")
    assert between["far_bytes_per_s"] == 50e9 / 7
    assert between["latency"] == {
        "value": None,
        "unit": None,
        "kind": None,
        "source": None,
        "note": None,
        "absent": "no latency between pods is published",
    }
    assert round(found["mtbf"]["value"] / 86400) == 2112
    said = run("cluster", "show", "llama3-24k").stdout
    assert said.startswith("llama3-24k: up to 24,576 NVIDIA H100 SXM5 80 GB, 8 in a node")
    assert "2,112 days" in said
    assert "arXiv 2407.21783" in said


def test_the_same_command_gives_the_same_bytes(run: Any) -> None:
    assert run("cluster", "show", "dgx-h100", "--format", "json").stdout == run("cluster", "show", "dgx-h100", "--format", "json").stdout


def test_an_unknown_cluster_is_named_with_the_nearest(run: Any) -> None:
    result = run("cluster", "show", "dgx-h10")
    assert result.exit_code == 2
    assert "did you mean 'dgx-h100'" in result.output


def test_profiles_are_listed_without_clusters(run: Any) -> None:
    names = [h["name"] for h in json.loads(run("hardware", "list", "--format", "json").stdout)]
    assert "h100-sxm" in names
    assert "dgx-h100" not in names
    assert len(names) == len(set(names))  # a cluster read as a profile would be its device once more


def test_a_cluster_serves_where_a_profile_does(run: Any, folder: Any) -> None:
    """Its tiers are links of the device: 2 x 7/8 of 256 MiB at 450 GB/s, and of 32 MiB at 50 GB/s."""
    (folder / "s.yaml").write_text(SPREAD, encoding="utf-8")
    found = json.loads(run("analyze", "s.yaml", "-H", "dgx-h100", "--format", "json").stdout)
    rows, digest = found["rows"], {i["role"]: i["sha256"] for i in found["inputs"]}["hardware"]
    assert digest == sha256((shipped("hardware_specs") / "clusters" / "dgx-h100.yaml").read_bytes()).hexdigest()
    inside, across = (r["bound"]["time_s"] for r in rows)
    assert abs(inside - 1.75 * 2**28 / 450e9) < 1e-12
    assert abs(across - 1.75 * 2**25 / 50e9) < 1e-12
    assert run("analyze", "s.yaml", "-H", "h100-sxm").exit_code == 2
    (folder / "s.yaml").write_text(SPREAD.replace("dtype", "hardware: dgx-h100\ndtype"), encoding="utf-8")
    assert json.loads(run("analyze", "s.yaml", "--format", "json").stdout)["rows"][1]["bound"] == rows[1]["bound"]


def test_validate_checks_clusters(run: Any, folder: Any) -> None:
    (folder / "c.yaml").write_text("schema: 1\nname: c\ndevice: h100-sxm\nsources: {}\ntiers:\n  nvlink: {rank: 8}\n", encoding="utf-8")
    result = run("validate", "c.yaml")
    assert result.exit_code == 2
    assert "c.yaml:6:12: unknown key 'rank' in a tier; did you mean 'ranks'?" in result.output


def test_a_cluster_in_place_of_a_workload_is_told(run: Any, folder: Any) -> None:
    (folder / "c.yaml").write_text("schema: 1\nname: c\ndevice: h100-sxm\ntiers: {}\n", encoding="utf-8")
    result = run("analyze", "c.yaml", "-H", "h100-sxm")
    assert result.exit_code == 2
    assert "this is a cluster" in result.output
