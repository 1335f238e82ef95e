"""Story 6: Llama-3-70B on eight H100, batch 64, context 8192.

The story sweeps the input embedding as if it were a weight of a product, 141.1 GB over all devices. A lookup reads only the rows
it needs, so that 139.0 GB are swept; activations of the products, which the story leaves out, nearly make up for it.
"""

from __future__ import annotations

from typing import Any

import pytest

TP = 8
RATE = 3352e9
EMBEDDING = 128_256 * 8192 * 2
CACHE = 64 * 8192 * 327_680


@pytest.fixture
def decode(report: Any) -> Any:
    """The report of one of the devices."""
    return report("analyze", "llama3_70b_decode_tp8")


def row(found: Any, name: str) -> Any:
    return next(r for r in found["rows"] if r["id"] == name)


def test_weights_are_141_gb_and_the_cache_172_gb_over_all_devices(decode: Any) -> None:
    memory = decode["totals"]["memory"]
    assert TP * memory["weight_bytes"] == pytest.approx(141e9, rel=1e-2)
    assert TP * memory["cache_bytes"] == CACHE == pytest.approx(172e9, rel=1e-2)


def test_a_token_of_context_is_327680_bytes(decode: Any, report: Any) -> None:
    longer = report("analyze", "llama3_70b_decode_tp8", "--set", "batch=1", "--set", "context=1")
    assert TP * longer["totals"]["memory"]["cache_bytes"] == 327_680


def test_a_step_takes_11_7_ms_at_least_and_gives_5480_tokens_a_second(decode: Any) -> None:
    time = decode["totals"]["bound"]["time_s"]
    assert time == pytest.approx(11.7e-3, rel=1e-2)
    assert 64 / time == pytest.approx(5480, rel=1e-2)


def test_the_cache_is_55_percent_of_the_bytes(decode: Any) -> None:
    attention = row(decode, "attention")
    assert attention["bytes"]["hbm"] * attention["repeat"] / decode["totals"]["bytes"]["hbm"] == pytest.approx(0.55, rel=1e-2)


def test_the_input_embedding_is_looked_up_and_not_swept(decode: Any) -> None:
    embedding = row(decode, "embedding")
    assert embedding["weight_bytes"] == EMBEDDING / TP
    assert embedding["bytes"]["hbm"] < EMBEDDING / TP / 100


def test_weights_and_cache_alone_are_11_6_ms_and_with_the_embedding_the_11_7_of_the_story(decode: Any) -> None:
    memory = decode["totals"]["memory"]
    swept = memory["weight_bytes"] - EMBEDDING / TP + memory["cache_bytes"]
    assert swept / RATE == pytest.approx(11.59e-3, rel=1e-3)
    assert (swept + EMBEDDING / TP) / RATE == pytest.approx(11.67e-3, rel=1e-3)
    # What the products read and write besides is 1.3 %.
    assert 1 < decode["totals"]["bound"]["time_s"] / (swept / RATE) < 1.015


def test_the_largest_batch_at_90_percent_of_the_memory_is_161(run: Any, report: Any) -> None:
    command = ("analyze", "llama3_70b_decode_tp8", "--largest", "batch", "--memory-fraction", "0.9")
    said = run(*command).stdout.splitlines()[-1]
    assert said.startswith("Largest batch that fits 90.0 % of h100-sxm's memory (72.00 GB): 161, which needs 71.67 GB; 162 would be")
    assert report(*command)["params"]["batch"] == 161


@pytest.mark.parametrize("fraction", [0.5, 0.8, 0.95, 1.0])
def test_the_largest_fits_and_one_more_does_not(report: Any, fraction: float) -> None:
    found = report("analyze", "llama3_70b_decode_tp8", "--largest", "batch", "--memory-fraction", str(fraction))
    needed = found["totals"]["memory"]["needed_bytes"]
    more = report("analyze", "llama3_70b_decode_tp8", "--set", f"batch={found['params']['batch'] + 1}")["totals"]["memory"]
    assert needed <= fraction * 80e9 < more["needed_bytes"]


def test_each_device_has_its_own_largest(run: Any) -> None:
    said = run("analyze", "qwen3_8b_decode", "--largest", "batch", "-H", "h100-sxm", "-H", "h200-sxm").stdout.splitlines()[-2:]
    assert "h100-sxm's memory (80.00 GB): 52" in said[0]
    assert "h200-sxm's memory (141.0 GB): 103" in said[1]


def test_where_not_even_one_fits_that_is_the_answer(run: Any) -> None:
    said = run("analyze", "llama3_70b_decode_tp8", "--set", "tp=1", "--largest", "batch").stdout
    assert "No batch fits" in said
    assert "DOES NOT FIT" in said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--largest", "btach"), "batch"),
        (("--largest", "batch", "--memory-fraction", "0"), "out of range"),
        (("--largest", "batch", "--memory-fraction", "1.5"), "out of range"),
        (("--largest", "batch", "--memory-fraction", "nan"), "out of range"),
    ],
)
def test_what_cannot_be_searched_is_refused(run: Any, arguments: tuple[str, ...], why: str) -> None:
    result = run("analyze", "llama3_70b_decode_tp8", *arguments, code=2)
    assert why in result.stderr
    assert result.stdout == ""


def test_a_param_on_which_memory_does_not_depend_is_refused(run: Any, tmp_path: Any) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("schema: 1\nname: w\ndtype: bf16\nparams: {a: 1}\nsteps:\n  - {op: custom, sfu_ops: a}\n")
    assert "does not grow" in run("analyze", str(path), "-H", "h100-sxm", "--largest", "a", code=2).stderr
    assert "-H NAME" in run("analyze", str(path), "--largest", "a", code=2).stderr
