"""What a model needs in memory, and whether it fits (cases C01, C08 and C14)."""

from __future__ import annotations

from typing import Any

import pytest

GIB = 2**30


# --------------------------------------------------------------------------- C01: query heads were taken for heads of keys
def test_the_cache_has_the_heads_of_keys_and_not_of_queries(report: Any) -> None:
    found = report("memory", "c01_grouped.json", "--set", "batch=4", "--set", "context=8192")
    assert found["parts_bytes"]["kv_cache"] == 4_294_967_296


def test_as_many_heads_of_keys_as_of_queries_are_four_times_as_much(report: Any, run: Any, tmp_path: Any) -> None:
    from tests.commands import DATA

    text = (DATA / "c01_grouped.json").read_text(encoding="utf-8").replace('"num_key_value_heads": 8', '"num_key_value_heads": 32')
    (tmp_path / "full.json").write_text(text, encoding="utf-8")
    found = report("memory", str(tmp_path / "full.json"), "--set", "batch=4", "--set", "context=8192")
    assert found["parts_bytes"]["kv_cache"] == 4 * 4_294_967_296


# --------------------------------------------------------------------------- C08: resident weights and cache of Qwen3 8B at batch 64
QWEN = ("memory", "qwen3-8b", "--set", "batch=64", "--set", "context=8192", "-H", "h100-sxm")


def test_batch_64_does_not_fit_and_the_shortfall_is_said(report: Any) -> None:
    """16.381 + 77.309 GB; the largest step's operands, which the case leaves out, are 0.02 GB more."""
    found = report(*QWEN)
    parts = found["parts_bytes"]
    assert parts["weights"] == 2 * 8_190_735_360
    assert parts["kv_cache"] == 64 * 8192 * 147_456
    assert (parts["weights"] + parts["kv_cache"] - 80e9) / 1e9 == pytest.approx(13.69, abs=0.005)
    assert found["shortfall_bytes"] - (parts["weights"] + parts["kv_cache"] - 80e9) == parts["activations"] < 0.025e9
    assert found["fits"] is False


def test_what_does_not_fit_is_an_answer_with_a_change_that_does(run: Any, report: Any) -> None:
    first = run(*QWEN).stdout.splitlines()[0]
    assert "DOES NOT FIT, 13.71 GB (12.77 GiB) short" in first
    changes = report(*QWEN)["changes"]
    assert changes
    assert all(change["needed_bytes"] <= 80e9 for change in changes)


@pytest.mark.parametrize("batch", [1, 32])
def test_smaller_batches_fit(report: Any, batch: int) -> None:
    found = report("memory", "qwen3-8b", "--set", f"batch={batch}", "--set", "context=8192", "-H", "h100-sxm")
    assert found["fits"] is True
    assert found["shortfall_bytes"] == 0
    assert found["changes"] == []


def test_the_largest_batch_is_the_last_that_fits(report: Any) -> None:
    largest = next(limit for limit in report(*QWEN)["largest"] if limit["setting"] == "batch")["value"]
    resident = [2 * 8_190_735_360 + n * 8192 * 147_456 for n in (largest, largest + 1)]
    assert resident[0] <= 80e9 < resident[1]


# --------------------------------------------------------------------------- C14: gradients that ZeRO 2 shards, GiB called GB
@pytest.mark.parametrize(("stage", "gb"), [(0, 45.616), (2, 10.69125), (3, 5.702)])
def test_zero_stages_of_2_851_million_parameters(report: Any, stage: int, gb: float) -> None:
    found = report("memory", "--parameters", "2851e6", "--plan", f"dp=8,zero={stage}")
    assert found["needed_bytes"] / 1e9 == pytest.approx(gb, abs=0.0005)


def test_either_unit_has_its_own_number(run: Any) -> None:
    assert "10.69 GB (9.957 GiB)" in run("memory", "--parameters", "2851e6", "--plan", "dp=8,zero=2").stdout
    assert "5.702 GB (5.310 GiB)" in run("memory", "--parameters", "2851e6", "--plan", "dp=8,zero=3").stdout
