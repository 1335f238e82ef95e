"""Utilisation against the dense peak (case C03: the 2:4-sparsity figure was taken for it)."""

from __future__ import annotations

from typing import Any

import pytest


def test_420_tflops_on_an_h200_are_42_percent_of_the_dense_peak(row: Any) -> None:
    measured = row("analyze", "mfu_dense_peak.yaml")["measured"]
    assert measured["share_of_peak"]["tensor"] == pytest.approx(420 / 989.5, rel=1e-3)
    assert measured["achieved_per_s"]["tensor"] == 420e12


def test_the_table_shows_the_same_share(run: Any) -> None:
    assert "42.4 %" in run("analyze", "mfu_dense_peak.yaml").stdout


def test_the_h200_profile_keeps_the_sparse_peak_under_its_own_key(report: Any) -> None:
    found = report("analyze", "mfu_dense_peak.yaml")["hardware"]
    assert 989e12 <= found["tensor"]["bf16"]["value"] <= 990e12
    assert found["tensor_sparse"]["bf16"]["value"] == pytest.approx(1979e12, rel=1e-3)


def test_the_report_says_that_its_peaks_are_dense(report: Any) -> None:
    assert report("analyze", "mfu_dense_peak.yaml")["conventions"]["peaks"].startswith("dense peaks")


@pytest.mark.parametrize(
    ("device", "dtype", "dense"),
    [("a100-sxm", "bf16", 312e12), ("h100-sxm", "fp8", 1979e12), ("h100-sxm", "bf16", 989.4e12), ("b200-sxm", "bf16", 2250e12)],
)
def test_a_tenth_of_the_dense_peak_is_a_share_of_a_tenth(row: Any, device: str, dtype: str, dense: float) -> None:
    work = f"training.tensor_flop={dense / 10:.0f} FLOP"
    measured = row("analyze", "mfu_dense_peak.yaml", "-H", device, "--set", f"dtype={dtype}", "--set", work)["measured"]
    assert measured["share_of_peak"]["tensor"] == pytest.approx(0.1, rel=1e-3)


def test_more_than_the_dense_peak_is_called_impossible(run: Any) -> None:
    result = run("analyze", "mfu_dense_peak.yaml", "--set", "training.tensor_flop=1200 TFLOP")
    assert "W004" in result.stderr
    assert "sparse peak" in result.stderr
