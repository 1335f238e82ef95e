"""Stories 4 and 5: why FlashAttention is faster, and which unit binds it on chip."""

from __future__ import annotations

import json
from typing import Any

import pytest

S = 64 * 16 * 1024 * 1024 * 2
"""Bytes of the scores of figure 2."""
X = 64 * 16 * 1024 * 64 * 2
"""Bytes of Q in figure 2."""


@pytest.fixture
def figure2(run: Any) -> tuple[Any, Any]:
    """The reports of both implementations, from one command."""
    found = json.loads(run("analyze", "attention_fig2_naive", "attention_fig2_flash", "--format", "json").stdout)["reports"]
    return found[0], found[1]


def test_naive_moves_40_gb_for_825_gflop(figure2: tuple[Any, Any]) -> None:
    row = figure2[0]["rows"][0]
    assert row["flop"]["tensor"] == pytest.approx(824.6e9, rel=1e-3)
    assert row["bytes"]["hbm"] == 18 * S + 12 * X
    assert row["flop"]["tensor"] / row["bytes"]["hbm"] == pytest.approx(20.5, rel=1e-2)
    assert row["bound"]["limiter"] == "hbm"
    assert row["bound"]["time_s"] == pytest.approx(25.9e-3, rel=1e-2)


def test_flash_moves_4_6_gb_for_962_gflop_and_is_at_the_ridge(figure2: tuple[Any, Any]) -> None:
    row = figure2[1]["rows"][0]
    assert row["flop"]["tensor"] == pytest.approx(962.1e9, rel=1e-3)
    assert row["bytes"]["hbm"] == pytest.approx(4.6e9, rel=1e-2)
    assert row["flop"]["tensor"] / row["bytes"]["hbm"] == pytest.approx(211, rel=1e-2)
    assert row["bound"]["time_s"] == pytest.approx(3.1e-3, rel=1e-2)
    assert row["bound"]["tied"] is True


def test_published_times_lie_above_the_bounds(figure2: tuple[Any, Any]) -> None:
    naive, flash = (report["rows"][0]["bound"]["time_s"] for report in figure2)
    assert naive < 41.7e-3
    assert flash < 7.3e-3


def test_the_comparison_says_17_percent_more_flop_and_89_percent_fewer_bytes(run: Any) -> None:
    said = run("analyze", "attention_fig2_naive", "attention_fig2_flash").stdout
    assert "matrix FLOP +16.7 %, same vector FLOP, HBM bytes -88.6 %" in said
    assert "8.40x as fast" in said


def test_devices_are_compared_by_what_is_the_same_and_what_is_not(run: Any) -> None:
    said = run("analyze", "gemm_8k", "-H", "h100-sxm", "-H", "b200-sxm").stdout
    assert "b200-sxm against h100-sxm: same matrix FLOP, same HBM bytes, same memory, bound 2.27x as fast, estimate " in said


TILE = ("op", "attention", "batch=1", "heads=16", "q_len=4096", "kv_len=4096", "head_dim=128", "dtype=bf16", "tile_m=128", "tile_n=128")


def test_backward_on_a_b200_binds_at_shared_memory_with_77_percent_of_the_tensor_peak(run: Any) -> None:
    said = run(*TILE, "pass=backward", "-H", "b200-sxm").stdout
    assert "128x128 tile step, cycles per SM: tensor 2560, sfu 1024, smem 3328: smem binds; 76.9 %" in said


def test_forward_on_a_b200_ties_products_and_exponentials(run: Any) -> None:
    assert "tensor 1024, sfu 1024, smem 768: tensor and sfu tie" in run(*TILE, "-H", "b200-sxm").stdout


def test_backward_on_a_hopper_reads_right_operands_once_for_each_64_rows(run: Any) -> None:
    """39.6 B a score of 80 x 128, as FlashAttention 3's tuning notes have it, at 128 B a cycle."""
    said = run(*TILE[:-2], "tile_m=80", "tile_n=128", "pass=backward", "-H", "h100-sxm").stdout
    assert "80x128 tile step, cycles per SM: tensor 3200, sfu 640, smem 3168: tensor binds" in said
    assert "shared memory 204.0 KiB" in said
