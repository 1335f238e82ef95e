"""A sweep says of every point what the report of that point alone says."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from roofline.decide import sweep as module
from roofline.decide.sweep import Asked, Grid, sweep, words_of
from roofline.errors import InputError, UsageError
from roofline.report.build import analyze
from roofline.report.published import schema_of
from roofline.spec.hardware import load_hardware
from roofline.spec.workload import read_workload
from tests.commands import Answer, Run
from tests.decide.conftest import Ask

OVERLAPPED = """schema: 1
hardware: h100-sxm
dtype: bf16
execution: graph
params: {rows: 4096, width: 4096, layers: 2}
steps:
  - {id: product, op: gemm, m: rows, n: width, k: 4096, repeat: layers}
  - {id: exchange, op: all_reduce, size: 2 * rows * width B, ranks: 8, over: nvlink, after: [product], repeat: layers}
  - {id: other, op: gemm, m: rows, n: 1024, k: width, after: [product], repeat: layers}
  - {id: last, op: softmax, rows: rows, cols: width, after: [exchange, other]}
"""
BESIDE = """schema: 1
hardware: h100-sxm
dtype: bf16
execution: graph
params: {rows: 4096, width: 4096}
steps:
  - {id: exchange, op: all_reduce, size: 2 * rows * 4096 B, ranks: 8, over: nvlink, after: []}
  - {id: product, op: gemm, m: rows, n: 2048, k: 4096, after: []}
  - {id: weigh, op: softmax, rows: rows, cols: width, after: []}
"""
GROUPED = """schema: 1
hardware: h100-sxm
dtype: bf16
params: {kv_heads: 8}
steps:
  - {op: attention, implementation: naive, batch: 4, heads: 8, kv_heads: kv_heads, q_len: 512, kv_len: 512, head_dim: 128}
"""


def assert_alike(asked: Asked, grid: Grid) -> None:
    """Every figure of every point, beside `analyze` of the workload with these values."""
    keys = [a.key for a in asked.axes]
    limiters, estimate_limiters = words_of(grid, "limiter"), words_of(grid, "estimate_limiter")
    for i, values in enumerate(product(*(a.values for a in asked.axes))):
        chosen = [f"{k}={v}" for k, v in zip(keys, values, strict=True)]
        workload = read_workload(asked.source, [*asked.overrides, *chosen])
        totals = analyze(workload, load_hardware(asked.hardware or workload.hardware or "")).totals
        assert totals.bound is not None
        assert totals.estimate is not None
        found = {name: column[i] for name, column in grid.figures.items()}
        assert found["bound_s"] == pytest.approx(totals.bound.time_s, rel=1e-12), chosen
        assert found["estimate_s"] == pytest.approx(totals.estimate.time_s, rel=1e-12), chosen
        assert found["estimate_low_s"] == pytest.approx(totals.estimate.low_s, rel=1e-12), chosen
        assert found["estimate_high_s"] == pytest.approx(totals.estimate.high_s, rel=1e-12), chosen
        assert found["memory_bytes"] == totals.memory.needed_bytes
        assert found["intensity"] == pytest.approx(totals.intensity_flop_per_byte["hbm"], rel=1e-12)
        assert limiters[i] == totals.bound.limiter
        assert estimate_limiters[i] == totals.estimate.limiter


@pytest.mark.parametrize(
    ("workload", "settings"),
    [
        ("qwen3_8b_decode", ("batch=1,7,64,500", "context=100,8Ki")),
        ("transformer_block", ("batch=1,3", "seq=64,2Ki", "execution=eager,graph")),
        ("llama3_70b_decode_tp8", ("tp=1,2,8", "batch=1,600")),
        ("hyena_operator", ("batch=1,4,9",)),
        ("resnet50_convs", ("batch=1,32",)),
        ("gemm_8k", ("gemm.m=1,100,5000", "hardware=h100-sxm,h200-sxm", "dtype=bf16,fp16")),
        ("gpt2_medium", ("batch=1,2",)),
    ],
)
def test_every_point_is_that_of_its_own_report(ask: Ask, workload: str, settings: tuple[str, ...]) -> None:
    asked = ask(workload, *settings)
    grid = sweep(asked)
    assert not grid.alone
    assert_alike(asked, grid)


@examples(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.integers(1, 20_000), min_size=2, max_size=4, unique=True), width=st.integers(1, 9_000))
def test_steps_that_overlap_have_the_critical_path_of_their_point(ask: Ask, rows: list[int], width: int) -> None:
    """Which chain decides changes from point to point."""
    asked = ask(OVERLAPPED, f"rows={','.join(map(str, rows))}", f"width={width},{width + 4096}")
    grid = sweep(asked)
    assert not grid.alone
    assert_alike(asked, grid)


def test_what_decides_how_often_a_step_runs_is_walked(ask: Ask) -> None:
    asked = ask(OVERLAPPED, "layers=1,2,5", "rows=64,4Ki")
    grid = sweep(asked)
    assert not grid.alone
    assert_alike(asked, grid)


def test_what_lies_beside_the_critical_path_does_not_bind_the_whole(ask: Ask) -> None:
    """At the middle width the exchange takes longer than either of the two steps beside it, and not as long as both."""
    asked = ask(BESIDE, "width=2Ki,16Ki,32Ki", "rows=4Ki,4097")
    grid = sweep(asked)
    assert not grid.alone
    assert_alike(asked, grid)
    assert {"nvlink", "hbm"} <= {w for w in words_of(grid, "limiter") if w}


def test_vector_lanes_bind_where_their_registers_take_as_long(ask: Ask) -> None:
    text = "schema: 1\ndtype: fp32\nparams: {n: 1}\nsteps:\n  - {op: custom, vector_flop: n * 1000000 FLOP, read: 4 B}\n"
    for name in ("h100-sxm", "a100-sxm", "b200-sxm", "mi300x"):
        asked = ask(text, "n=1..5", hardware=name)
        assert set(words_of(sweep(asked), "limiter")) == {"vector"}


def test_an_estimate_below_what_is_possible_is_raised_at_every_point(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no device could do any step in less than a tenth of a second, or in less than a microsecond."""
    for floor in (0.1, 1e-6):
        monkeypatch.setattr("roofline.predict.estimate.issue.warm_floor_s", lambda *_, floor=floor: floor)
        asked = ask("qwen3_8b_decode", "batch=1,256", "context=64,8Ki")
        grid = sweep(asked)
        assert not grid.alone
        assert_alike(asked, grid)


def test_where_an_operator_takes_another_form_each_point_is_evaluated_alone(ask: Ask) -> None:
    """Heads that each have keys of their own are not copied: one array cannot hold both forms."""
    asked = ask(GROUPED, "kv_heads=1,4,8")
    grid = sweep(asked)
    assert grid.alone
    assert_alike(asked, grid)


def test_there_are_not_too_many_of_these(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ALONE", 2)
    with pytest.raises(UsageError, match="another form at some of the 3 points"):
        sweep(ask(GROUPED, "kv_heads=1,4,8"))


def test_a_product_by_hand(ask: Ask) -> None:
    """m = 64, n = k = 8192 in bf16 on an H100: 2 (2 x 64 x 8192 + 8192^2) B at 3.352 TB/s, and 2 x 64 x 8192^2 FLOP over these bytes."""
    grid = sweep(ask("gemm_8k", "gemm.m=64,128"))
    moved = 2 * (2 * 64 * 8192 + 8192**2)
    assert grid.figures["bound_s"][0] == pytest.approx(moved / 3.352e12)
    assert grid.figures["intensity"][0] == pytest.approx(2 * 64 * 8192**2 / moved)


def test_values_out_of_range_are_named_with_their_point(ask: Ask) -> None:
    with pytest.raises(InputError) as refused:
        sweep(ask("llama3_70b_decode_tp8", "batch=1,2", "tp=1,2,3"))
    said = [p.message for p in refused.value.problems]
    assert "at tp = 3 'local_heads' is 21.3333; wanted is a whole number" in said
    assert all(p.line > 1 for p in refused.value.problems)


def test_a_grid_has_one_point_for_each_combination_the_last_axis_fastest(ask: Ask) -> None:
    grid = sweep(ask("qwen3_8b_decode", "batch=1,2,4", "context=1Ki,2Ki", tokens="batch * 2"))
    assert grid.figures["tokens"].tolist() == [2, 2, 4, 4, 8, 8]
    assert np.all(np.diff(grid.figures["memory_bytes"].reshape(3, 2), axis=1) > 0)


# --------------------------------------------------------------------------- the command
def test_the_command_writes_json_that_its_schema_allows(report: Answer) -> None:
    found = report("sweep", "qwen3_8b_decode", "--set", "batch=1,512", "--set", "context=1Ki,2Ki", "--step", "lm_head")
    Draft202012Validator(schema_of("sweep")).validate(found)
    assert [p["params"] for p in found["points"]] == [{"batch": b, "context": c} for b in (1, 512) for c in (1024, 2048)]
    assert found["points"][0]["tokens"] is None
    assert "--tokens" in found["unavailable"]["tokens"]
    again = report("sweep", "qwen3_8b_decode", "--set", "batch=1,512", "--set", "context=1Ki,2Ki", "--step", "lm_head")
    assert json.dumps(found) == json.dumps(again)


def test_csv_has_a_line_for_each_point(run: Run) -> None:
    lines = run("sweep", "gemm_8k", "--set", "size=1Ki,2Ki", "--format", "csv").stdout.splitlines()
    assert lines[0].startswith("size,bound_s,limiter")
    assert [line.split(",")[0] for line in lines[1:]] == ["1024", "2048"]


def test_a_table_says_what_it_leaves_out(run: Run) -> None:
    shown = run("sweep", "gemm_8k", "--set", "gemm.m=1..100").stdout
    assert "the first 64 of 100 points" in shown


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--set", "batch=1,2", "--step", "lm_hed"), "did you mean 'lm_head'"),
        (("--set", "batch=1,2", "--tokens", "bacth"), "did you mean 'batch'"),
        (("--set", "bacth=1,2"), "did you mean 'batch'"),
        (("--set", "batch=0,2"), "out of range"),
        ((), "nothing is varied"),
    ],
)
def test_mistakes_end_with_2_and_the_fix(run: Run, more: tuple[str, ...], said: str) -> None:
    result = run("sweep", "qwen3_8b_decode", *more, code=2)
    assert said in result.stderr
    assert result.stdout == ""


def test_without_a_device_it_says_what_to_give(run: Run, tmp_path: object) -> None:
    text = GROUPED.replace("hardware: h100-sxm\n", "")
    path = f"{tmp_path}/w.yaml"
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    assert "add -H NAME" in run("sweep", path, "--set", "kv_heads=1,2", code=2).stderr


def test_no_figure_is_made_up(ask: Ask) -> None:
    """Where no tokens are known there are none, not zero."""
    assert all(math.isnan(t) for t in sweep(ask("gemm_8k", "size=64,128")).figures["tokens"].tolist())


def test_a_grid_larger_than_a_chunk_is_the_same_grid(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ask("qwen3_8b_decode", "batch=1..7", "context=1Ki,2Ki,4Ki")
    whole = sweep(asked)
    monkeypatch.setattr(module, "CHUNK", 6)
    parts = sweep(asked)
    for name, column in whole.figures.items():
        assert np.array_equal(column, parts.figures[name], equal_nan=True), name
    assert words_of(whole, "limiter") == words_of(parts, "limiter")


MODEL = """schema: 1
model: llama-3-8b
phase: decode
hardware: h100-sxm
"""
PLANNED = """schema: 1
model: llama-3-8b
phase: train
hardware: h100-sxm
plan: tp=2,dp=4,zero=1,sp
link: nvlink
"""


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (MODEL, ("batch=1,64", "context=1Ki,8Ki")),
        (MODEL, ("batch=1,64", "kv_dtype=bf16,fp8_e4m3")),
        (PLANNED, ("seq=1Ki,4Ki",)),
        (MODEL.replace("decode", "prefill"), ("cached=1Ki,0,4095", "batch=1,2")),
    ],
)
def test_a_model_is_swept_like_the_steps_that_it_stands_for(ask: Ask, text: str, settings: tuple[str, ...]) -> None:
    asked = ask(text, *settings)
    grid = sweep(asked)
    assert not grid.alone
    assert_alike(asked, grid)
