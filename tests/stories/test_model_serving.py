"""Story 6 from the published configuration, and story 7: keys and values of latent attention beside those of groups."""

from __future__ import annotations

from typing import Any

import pytest

TP = 8


@pytest.fixture
def decode(report: Any) -> Any:
    """The report of one of eight devices."""
    return report("analyze", "llama3_70b_tp8.yaml")


# --------------------------------------------------------------------------- story 6
def test_weights_of_141_gb_and_a_cache_of_172_gb(decode: Any) -> None:
    memory = decode["totals"]["memory"]
    assert TP * memory["weight_bytes"] == pytest.approx(141.1e9, rel=1e-3)
    assert TP * memory["cache_bytes"] == 64 * 8192 * 327_680


def test_memory_alone_takes_11_7_ms_and_sums_over_ranks_half_a_millisecond_more(decode: Any) -> None:
    rows = {r["id"]: r for r in decode["rows"]}
    links = sum(r["bound"]["time_s"] * r["repeat"] for r in rows.values() if r["link_bytes"])
    products = sum(r["bound"]["time_s"] * r["repeat"] for i, r in rows.items() if r["op"] in ("gemm", "attention"))
    assert products == pytest.approx(11.74e-3, rel=2e-3)
    # 161 sums of 64 x 8192 numbers, over a switch that adds: 9/8 of 1 MiB at 450 GB/s each, and the logits once.
    assert links == pytest.approx((161 * 2**20 * 9 / 8 + 64 * 128_256 * 2 * 7 / 8) / 450e9, rel=1e-6)
    assert decode["totals"]["bound"]["time_s"] == pytest.approx(12.4e-3, rel=1e-2)


def test_the_cache_is_55_percent_of_the_bytes(decode: Any) -> None:
    row = next(r for r in decode["rows"] if r["id"] == "attention")
    products = sum(r["bytes"]["hbm"] * r["repeat"] for r in decode["rows"] if r["op"] in ("gemm", "attention"))
    assert row["bytes"]["hbm"] * row["repeat"] / products == pytest.approx(0.55, rel=1e-2)


def test_the_largest_batch_is_161(run: Any) -> None:
    said = run("analyze", "llama3_70b_tp8.yaml", "--largest", "batch", "--memory-fraction", "0.9").stdout.splitlines()[-1]
    assert said.startswith("Largest batch that fits 90.0 % of h100-sxm's memory (72.00 GB): 161")


def test_it_is_the_file_that_import_writes(run: Any, report: Any, tmp_path: Any, decode: Any) -> None:
    out = str(tmp_path / "w.yaml")
    command = ("import", "hf", "llama-3-70b", "--phase", "decode", "--plan", "tp=8", "--cluster", "dgx-h100")
    run(*command, "--set", "batch=64", "--set", "context=8192", "-o", out)
    assert report("analyze", out, "-H", "h100-sxm")["rows"] == decode["rows"]


# --------------------------------------------------------------------------- story 7
def test_latent_attention_keeps_a_seventh_of_the_bytes(report: Any) -> None:
    latent = report("model", "show", "deepseek-v3")["kv_bytes_per_token"]
    groups = report("model", "show", "llama-3.1-405b")["kv_bytes_per_token"]
    assert (latent, groups) == (70_272, 516_096)
    assert groups / latent == pytest.approx(7.3, abs=0.05)


@pytest.mark.parametrize(("model", "intensity"), [("deepseek-v3", 242), ("llama-3.1-405b", 16)])
def test_flop_a_byte_of_the_cache(run: Any, tmp_path: Any, model: str, intensity: float) -> None:
    """All heads meet one row (2 (2 x 512 + 64) 128 FLOP for 1152 B), or 16 heads a group their keys and values (2 x 16 / 2)."""
    import json

    (tmp_path / "w.yaml").write_text(f"schema: 1\nmodel: {model}\nphase: decode\nparams: {{batch: 1, context: 131072}}\n")
    found = json.loads(run("analyze", str(tmp_path / "w.yaml"), "--format", "json").stdout)
    rows = [r for r in found["rows"] if r["id"].endswith("attention")]
    flop, cache = (sum(f(r) * r["repeat"] for r in rows) for f in (lambda r: r["flop"]["tensor"], lambda r: r["cache_bytes"]))
    assert flop / cache == pytest.approx(intensity, abs=0.5)


def test_one_draft_token_takes_latent_attention_past_the_ridge_of_an_h100(run: Any, tmp_path: Any) -> None:
    """18 % below 295 FLOP a byte with one query, and above it with two."""
    import json

    for draft, binds in (("", "hbm"), ("draft: 1\n", "tensor")):
        (tmp_path / "w.yaml").write_text(f"schema: 1\nmodel: deepseek-v3\nphase: decode\n{draft}params: {{batch: 1, context: 131072}}\n")
        found = json.loads(run("analyze", str(tmp_path / "w.yaml"), "-H", "h100-sxm", "--format", "json").stdout)
        row = next(r for r in found["rows"] if r["id"] == "latent_moe/attention")
        assert row["bound"]["limiter"] == binds
