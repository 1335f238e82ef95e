"""Where what binds changes: the value at which it does, held to a search through single reports."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from roofline.decide.crossovers import crossings
from roofline.decide.sweep import Asked, sweep
from roofline.ops.gemm import Gemm
from roofline.predict.crossover import crossover
from roofline.report.build import analyze
from roofline.report.sweep import Crossing
from roofline.spec.hardware import load_hardware
from roofline.spec.workload import read_workload
from tests.commands import Run
from tests.decide.conftest import Ask


def found_in(asked: Asked) -> tuple[Crossing, ...]:
    """The crossings of a sweep."""
    return crossings(asked, sweep(asked))


def limiter_at(asked: Asked, *settings: str) -> str | None:
    """What binds one point, through its report."""
    workload = read_workload(asked.source, [*asked.overrides, *settings])
    bound = analyze(workload, load_hardware(workload.hardware or "")).totals.bound
    return bound.limiter if bound else None


def test_a_product_leaves_memory_at_the_batch_worked_out_by_hand(ask: Ask) -> None:
    """M = R / (1 - R (1/N + 1/K)) with R = 989.4e12 / 3.352e12: 318.1 rows for 8192 x 8192, so from 319 on."""
    ridge = 989.4e12 / 3.352e12
    (only,) = found_in(ask("gemm_8k", "gemm.m=1..8Ki:x2"))
    assert only.at == int(ridge / (1 - ridge * 2 / 8192)) + 1 == 319
    assert (only.before, only.after, only.low, only.high) == ("hbm", "tensor", 256, 512)


@examples(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(1000, 30_000), k=st.integers(1000, 30_000))
def test_it_is_that_of_the_search_for_one_operator(ask: Ask, n: int, k: int) -> None:
    changes = found_in(ask("gemm_8k", "gemm.m=1..64Ki:x4", f"gemm.n={n}", f"gemm.k={k}"))
    wanted = crossover(Gemm(m=1, n=n, k=k, dtype="bf16"), "m", load_hardware("h100-sxm"))
    assert [c.at for c in changes if c.what == "limiter"] == ([wanted] if wanted else [])


def test_the_whole_changes_where_its_reports_say_so(ask: Ask) -> None:
    asked = ask("qwen3_8b_decode", "batch=64,512,1Ki", "context=64,128")
    changes = [c for c in found_in(asked) if c.what == "limiter" and c.axis == "batch"]
    assert len(changes) == 2
    for c in changes:
        context = f"context={c.params['context']}"
        assert c.at is not None
        assert limiter_at(asked, context, f"batch={c.at - 1}") == c.before == "hbm"
        assert limiter_at(asked, context, f"batch={c.at}") == c.after == "tensor"


def test_memory_ends_where_the_last_batch_fits(ask: Ask) -> None:
    """15.137 + 1.244 GB of weights, and 147,456 B a token of 4,096: (80 - 16.38) / 0.604 = 105 sequences, less their activations."""
    (only,) = [c for c in found_in(ask("qwen3_8b_decode", "batch=64,128", "context=4Ki")) if c.what == "fits"]
    assert only.at == 106
    assert (only.before, only.after) == ("fits", "does not fit")


def test_a_step_is_followed_on_its_own(ask: Ask) -> None:
    changes = [c for c in found_in(ask("qwen3_8b_decode", "batch=256,512", "context=8Ki", step="lm_head")) if c.what == "lm_head"]
    assert [(c.before, c.after, c.at) for c in changes] == [("hbm", "tensor", 319)]


def test_between_points_where_values_are_refused_the_interval_is_all_that_is_said(ask: Ask) -> None:
    """tp = 3 does not divide the heads: what happens there nobody can say."""
    changes = [c for c in found_in(ask("llama3_70b_decode_tp8", "tp=2,4", "batch=64")) if c.what == "fits"]
    assert [(c.at, c.low, c.high) for c in changes] == [(None, 2, 4)]


def test_two_changes_between_two_points_are_both_found(ask: Ask) -> None:
    """From hbm to the vector lanes and on to the matrix engine: the points at the ends see the first and the last only."""
    text = """schema: 1
hardware: h100-sxm
dtype: bf16
params: {n: 1}
steps:
  - {id: a, op: custom, tensor_flop: n * n * n * n * 1000 FLOP, vector_flop: n * n * n * 1000000 FLOP, read: n * 100000000 B}
"""
    asked = ask(text, "n=1,1Mi")
    changes = [c for c in found_in(asked) if c.what == "limiter"]
    assert [(c.before, c.after) for c in changes] == [("hbm", "vector"), ("vector", "tensor")]
    for c in changes:
        assert c.at is not None
        assert (limiter_at(asked, f"n={c.at - 1}"), limiter_at(asked, f"n={c.at}")) == (c.before, c.after)


@pytest.mark.parametrize("settings", [("--set", "batch=1,2")])
def test_sentences_answer_first(run: Run, settings: tuple[str, ...]) -> None:
    assert run("sweep", "qwen3_8b_decode", *settings).stdout.startswith("Nothing changes between the points: hbm binds everywhere.\n")
    shown = run("sweep", "gemm_8k", "--set", "gemm.m=1..8Ki:x2").stdout
    assert shown.splitlines()[0] == "The whole leaves hbm for tensor from gemm.m = 319 on."
    shown = run("sweep", "qwen3_8b_decode", "--set", "batch=256,512", "--set", "context=64,8Ki", "--step", "lm_head").stdout
    assert "Step lm_head leaves hbm for tensor from batch = 319 on, whatever context is.\n" in shown
    assert "The whole leaves tensor for hbm from context = " in shown
    shown = run("sweep", "llama3_70b_decode_tp8", "--set", "tp=2,4", "--set", "batch=64,65").stdout
    assert "It fits between tp = 2 and 4, whatever batch is.\n" in shown
