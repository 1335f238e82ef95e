"""Stories 1 to 3: the ridge of a device, what a local speedup is worth, and one operator."""

from __future__ import annotations

from typing import Any

import pytest


def test_the_ridge_of_an_h100_is_295_at_hbm_and_32_at_shared_memory(run: Any) -> None:
    lines = run("hardware", "show", "h100-sxm", "--dtype", "bf16").stdout.splitlines()
    heads = next(line.split() for line in lines if line.startswith("ridge"))
    ridge = next(line.split() for line in lines if line.startswith("bf16 "))
    assert ridge[-4] == "295.2"
    assert ridge[-2] == "32.0"
    assert heads[-4:] == ["hbm", "l2", "smem", "register"]


def test_it_is_said_as_rows_of_a_gemm(run: Any) -> None:
    assert "M >= 296 rows" in " ".join(run("hardware", "show", "h100-sxm", "--dtype", "bf16").stdout.split())


def test_twice_as_fast_a_fifth_is_worth_11_percent(run: Any) -> None:
    said = run("amdahl", "--fraction", "0.2", "--speedup", "2").stdout
    assert "1.111x" in said
    assert "1.00 -> 0.90" in said
    assert "limit 1.25x" in said
    assert "new share 11.1 %" in said
    assert "worth 11.1 %" in said
    assert "88.9 %" in said


GEMV = ("op", "gemm", "n=28672", "k=8192", "dtype=bf16", "-H", "h100-sxm")


def test_a_gemv_takes_140_us_and_binds_at_hbm(report: Any) -> None:
    row = report(*GEMV, "m=1")["rows"][0]
    assert row["flop"]["tensor"] == 469_762_048
    assert row["bytes"]["hbm"] == pytest.approx(469.8e6, rel=1e-3)
    assert row["intensity_flop_per_byte"]["hbm"] == pytest.approx(1, rel=1e-2)
    assert row["bound"]["time_s"] == pytest.approx(140.2e-6, rel=1e-3)
    assert row["bound"]["limiter"] == "hbm"
    assert row["bound"]["per_resource_s"]["tensor"] == pytest.approx(0.475e-6, rel=1e-2)


def test_it_uses_a_third_of_a_percent_of_the_peak_and_needs_310_rows_for_more(run: Any) -> None:
    said = run(*GEMV, "m=1").stdout
    assert "0.34 % of the compute peak" in said
    assert "Compute-bound from m = 310 on" in said


def test_at_512_rows_it_is_compute_bound_at_243_us(report: Any) -> None:
    bound = report(*GEMV, "m=512")["rows"][0]["bound"]
    assert bound["limiter"] == "tensor"
    assert bound["time_s"] == pytest.approx(243e-6, rel=1e-2)
