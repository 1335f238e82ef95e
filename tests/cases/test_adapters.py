"""Training of adapters (case C15: counted as training of everything, 6 FLOP a frozen weight)."""

from __future__ import annotations

from typing import Any

import pytest

FROZEN, ADAPTERS, TOKENS = 70_553_706_496, 175_636_480, 1000
EMBEDDING, NORMS = 128_256 * 8192, (2 * 80 + 1) * 8192
"""Weights of the whole model that the case counts as products, and which multiply nothing."""


def products(found: Any) -> float:
    """FLOP a token of all products with weights."""
    return sum(r["flop"]["tensor"] * r["repeat"] for r in found["rows"] if r["op"] == "gemm") / TOKENS


def test_frozen_weights_have_no_gradient_of_their_own(report: Any) -> None:
    found = products(report("analyze", "lora_70b.yaml"))
    assert found == 4 * (FROZEN - EMBEDDING - NORMS + ADAPTERS) + 2 * ADAPTERS
    # With the tables that the case takes for products: 283.27 GFLOP a token, 28.6 % of an H100's peak at 1000 tokens a second.
    case = found + 4 * (EMBEDDING + NORMS)
    assert case / 1e9 == pytest.approx(283.27, abs=5e-3)
    assert case * 1000 / 989e12 == pytest.approx(0.286, abs=5e-4)


def test_it_is_two_thirds_of_full_training(report: Any) -> None:
    full = products(report("analyze", "lora_70b.yaml", "--set", "lora_rank=16"))
    wanted = 6 * (FROZEN - EMBEDDING - NORMS + ADAPTERS)
    assert full / wanted == pytest.approx(0.6675, abs=2e-4)


def test_full_training_of_the_same_model(run: Any, tmp_path: Any) -> None:
    """Without adapters every product costs 6 FLOP a weight and token."""
    import json

    from tests.commands import DATA

    text = (DATA / "lora_70b.yaml").read_text().replace("trainable: lora\n", "trainable: full\n").replace("lora_rank: 16\n", "")
    (tmp_path / "w.yaml").write_text(text)
    found = json.loads(run("analyze", str(tmp_path / "w.yaml"), "--format", "json").stdout)
    assert products(found) == 6 * (FROZEN - EMBEDDING - NORMS)


def test_only_adapters_are_updated(report: Any) -> None:
    rows = {r["id"]: r for r in report("analyze", "lora_70b.yaml")["rows"]}
    assert rows["optimizer"]["fields"]["parameters"] == ADAPTERS
