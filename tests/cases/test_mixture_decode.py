"""Mixtral, a decoding step of 3 tokens (case C06: all experts, or 6 of them, were counted), through a model's configuration."""

from __future__ import annotations

from typing import Any

import pytest

LAYERS, EXPERT = 32, 352_321_536
OTHERS = 2 * (LAYERS * (41_943_040 + 32_768) + 131_072_000)
"""Bytes of attention, routers and head."""


def rows(report: Any, batch: int) -> dict[str, Any]:
    found = report("analyze", "mixtral_decode.yaml", "--set", f"batch={batch}")
    return {r["id"]: r for r in found["rows"]}


def touched(report: Any, batch: int) -> float:
    """Experts whose weights are read: bytes of the down product without its rows, over those of one matrix."""
    row = rows(report, batch)["experts_down"]
    return (row["bytes"]["hbm"] - 2 * batch * 2 * (14_336 + 4_096)) / (2 * 14_336 * 4_096)


def test_flop_a_token_are_those_of_two_experts(report: Any) -> None:
    products = sum(r["flop"]["tensor"] * r["repeat"] for i, r in rows(report, 3).items() if i != "attention")
    assert products == 3 * 2 * 12_748_587_008
    assert products / 3 / 1e9 == pytest.approx(25.497, abs=5e-4)


def test_the_experts_that_three_tokens_touch(report: Any) -> None:
    assert touched(report, 3) == pytest.approx(4.625, abs=1e-6)


def test_one_token_touches_its_two_and_a_thousand_all(report: Any) -> None:
    assert touched(report, 1) == 2
    assert touched(report, 1000) == pytest.approx(8, abs=1e-6)


def test_the_weights_of_a_step_and_its_time(report: Any) -> None:
    """Rows that multiply: their weights are 55.09 GB, and what they read and write besides 0.05 %."""
    weights = 4.625 * EXPERT * LAYERS + OTHERS
    assert weights / 1e9 == pytest.approx(55.09, abs=5e-3)
    products = [r for r in rows(report, 3).values() if r["op"] in ("gemm", "grouped_gemm")]
    assert sum(r["bytes"]["hbm"] * r["repeat"] for r in products) == pytest.approx(weights, rel=1e-3)
    time = sum(r["bound"]["time_s"] * r["repeat"] for r in products)
    assert time == pytest.approx(16.45e-3, rel=2e-3)
