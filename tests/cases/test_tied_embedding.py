"""An output matrix that shares its weights is multiplied all the same (case C07)."""

from __future__ import annotations

from typing import Any

HEAD = 2 * 128_256 * 2048
TABLE = 128_256 * 2048


def by_id(report: Any) -> dict[str, Any]:
    return {row["id"]: row for row in report["rows"]}


def test_the_head_has_the_same_flop_tied_or_not(report: Any) -> None:
    for name in ("tied_head.yaml", "untied_head.yaml"):
        found = report("analyze", name)
        assert by_id(found)["head"]["flop"]["tensor"] == HEAD == 525_336_576
        assert found["totals"]["flop"]["tensor"] == HEAD


def test_a_lookup_is_no_flop_and_reads_one_row(report: Any) -> None:
    embedding = by_id(report("analyze", "tied_head.yaml"))["embedding"]
    assert sum(embedding["flop"].values()) == 0
    assert embedding["bytes"]["hbm"] == 8 + 2 * 2048 * 2


def test_parameters_count_a_shared_table_once(report: Any) -> None:
    tied, untied = (report("analyze", name)["totals"] for name in ("tied_head.yaml", "untied_head.yaml"))
    assert tied["parameters"] == TABLE == 262_668_288
    assert untied["parameters"] == 2 * TABLE
    assert untied["memory"]["weight_bytes"] - tied["memory"]["weight_bytes"] == 2 * TABLE


def test_the_head_reads_its_weights_tied_or_not(report: Any) -> None:
    tied, untied = (by_id(report("analyze", name))["head"]["bytes"] for name in ("tied_head.yaml", "untied_head.yaml"))
    assert tied == untied


def test_a_step_cannot_share_the_weights_of_one_that_does_not_exist(run: Any) -> None:
    assert "embeding" in run("analyze", "tied_head.yaml", "--set", "head.tied_to=embeding", code=2).stderr
