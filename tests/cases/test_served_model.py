"""Models from their configurations: the width of a head (case C02) and a decoding step that reads its cache (case C08)."""

from __future__ import annotations

from typing import Any

import pytest

WEIGHTS, TOKEN = 2 * 7_568_405_504, 147_456
"""Qwen3-8B: bytes of what is multiplied, and of keys and values a token."""


# --------------------------------------------------------------------------- C02
def test_heads_are_as_wide_as_the_configuration_says(report: Any) -> None:
    found = report("analyze", "stated_head_dim.yaml")
    assert found["totals"]["memory"]["cache_bytes"] == TOKEN * 32_768 == 4_831_838_208
    fields = {r["id"]: r["fields"] for r in found["rows"]}
    assert fields["qkv_proj"]["n"] == 32 * 128 + 2 * 8 * 128
    assert (fields["o_proj"]["n"], fields["o_proj"]["k"]) == (2560, 4096)


def test_without_that_key_the_width_is_derived_and_said_to_be(run: Any, tmp_path: Any) -> None:
    from tests.commands import DATA

    config = '{"model_type": "qwen3", "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,'
    (tmp_path / "m.json").write_text(config + ' "intermediate_size": 9728, "vocab_size": 151936, "tie_word_embeddings": true}')
    assert "head_dim is not stated: 2560 / 32 = 80 is taken" in run("import", "hf", str(tmp_path / "m.json")).stdout
    (tmp_path / "w.yaml").write_text((DATA / "stated_head_dim.yaml").read_text().replace(" head_dim: 128,", ""))
    import json

    found = json.loads(run("analyze", str(tmp_path / "w.yaml"), "--format", "json").stdout)
    assert found["totals"]["memory"]["cache_bytes"] == 92_160 * 32_768


# --------------------------------------------------------------------------- C08
@pytest.mark.parametrize(("batch", "time", "rate"), [(1, 4.879e-3, 205.0), (32, 16.057e-3, 1993)])
def test_a_step_reads_weights_and_cache(report: Any, batch: int, time: float, rate: float) -> None:
    found = report("analyze", "qwen3_8b_served.yaml", "--set", f"batch={batch}")["totals"]
    swept = WEIGHTS + batch * 8192 * TOKEN
    assert found["memory"]["cache_bytes"] == batch * 8192 * TOKEN
    assert swept / 3352e9 == pytest.approx(time, rel=1e-3)
    # Activations, norms and the cache's new rows are 0.3 % of it at batch 1 and 0.9 % at 32.
    assert swept / 3352e9 < found["bound"]["time_s"] < 1.012 * time
    assert batch / found["bound"]["time_s"] == pytest.approx(rate, rel=1.2e-2)
    assert found["bound"]["limiter"] == "hbm"


def test_a_batch_that_does_not_fit_is_a_result_with_the_shortfall(run: Any, report: Any) -> None:
    memory = report("analyze", "qwen3_8b_served.yaml", "--set", "batch=64")["totals"]["memory"]
    assert memory["fits"] is False
    assert memory["shortfall_bytes"] == pytest.approx(13.69e9, rel=3e-3)
    assert "DOES NOT FIT" in run("analyze", "qwen3_8b_served.yaml", "--set", "batch=64").stdout
