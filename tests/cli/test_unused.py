"""Keys of a plan that would change nothing are refused where they stand, by every command that takes plans; and numbers that cannot be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands import report, run  # noqa: F401  (fixtures)
from tests.models.conftest import CONFIGS

MODEL = ("llama-3-70b", "-C", "dgx-h100")
JOBS = {
    "decode": ("--phase", "decode", "--set", "batch=64", "--set", "context=8192"),
    "prefill": ("--phase", "prefill", "--set", "batch=64", "--set", "seq=8192"),
    "train": ("--phase", "train", "--set", "batch=64", "--set", "seq=8192"),
}
IDLE = [
    ("decode", "zero=1", "zero=1 is of training"),
    ("prefill", "zero=3", "zero=3 is of training"),
    ("decode", "recompute=full", "recompute=full is of training"),
    ("prefill", "recompute=selective", "no backward pass"),
    ("decode", "schedule=dualpipe", "schedule=dualpipe is of training"),
    ("prefill", "schedule=zero_bubble", "schedule=zero_bubble is of training"),
    ("train", "pp=1,schedule=zero_bubble", "needs pp > 1"),
    ("train", "pp=1,schedule=interleaved", "needs pp > 1"),
    ("decode", "imbalance=1.5", "has no experts"),
    ("train", "node_limit=4", "has no experts"),
    ("train", "cp=1,context=ulysses", "context=ulysses needs cp > 1"),
    ("decode", "context=ring", "context=ring is of prompts"),
    ("decode", "overlap=", "an axis is missing here"),
    ("decode", "overlap=tp+tp", "'tp' is given twice"),
]
FINE = [
    ("decode", "zero=0,recompute=none,schedule=1f1b,imbalance=1"),
    ("train", "pp=1,schedule=1f1b,uneven"),
    ("train", "zero=1,recompute=full"),
    ("prefill", "cp=2,context=all_gather"),
]


@pytest.mark.parametrize(("phase", "key", "why"), IDLE)
def test_a_key_that_changes_nothing_is_refused_at_its_place(run: Any, phase: str, key: str, why: str) -> None:  # noqa: F811
    column = key.rindex("=") + 2
    for words in (
        ("plan", *MODEL, "--plan", key),
        ("search", *MODEL, "--plan", key, "--devices", "8"),
        ("memory", MODEL[0], "--plan", key),
    ):
        refused = run(*words, *JOBS[phase], code=2)
        assert why in refused.stderr, refused.stderr
        assert re.search(rf"^--plan:1:{column}: ", refused.stderr, re.M), refused.stderr


@pytest.mark.parametrize(("phase", "key"), FINE)
def test_a_key_that_says_what_is_so_is_none_of_them(run: Any, phase: str, key: str) -> None:  # noqa: F811
    assert run("plan", *MODEL, "--plan", key, *JOBS[phase]).exit_code == 0


def test_files_and_imports_say_it_too(run: Any, tmp_path: Path) -> None:  # noqa: F811
    text = "schema: 1\nname: x\nmodel: llama-3-70b\nphase: decode\ncluster: dgx-h100\nplan: {tp: 8, zero: 2}\nparams: {global_batch: 64}\n"
    file = tmp_path / "x.yaml"
    file.write_text(text)
    for words in (("plan", str(file)), ("memory", str(file)), ("analyze", str(file), "-H", "h100-sxm")):
        refused = run(*words, code=2)
        assert "x.yaml:6:21: zero=2 is of training" in refused.stderr, refused.stderr
    config = str(CONFIGS / "llama-3-70b.json")
    refused = run("import", "hf", config, "--phase", "decode", "--plan", "tp=8,zero=2", "--cluster", "dgx-h100", code=2)
    assert "zero=2 is of training" in refused.stderr


def test_a_search_holds_what_some_of_its_plans_have_a_use_for(report: Any) -> None:  # noqa: F811
    """Pipelines and exchanges of context are among the plans; what it tries by itself is nobody's statement."""
    found = report("search", *MODEL, *JOBS["train"], "--devices", "64", "--plan", "tp=8,schedule=zero_bubble,context=all_gather,zero=1")
    assert found["best"]
    assert all("zero=1" in one["plan"] for one in found["best"])


def test_so_many_parameters_have_no_layers_to_compute_again(run: Any) -> None:  # noqa: F811
    refused = run("memory", "--parameters", "7e9", "--plan", "dp=8,recompute=full,zero=1,microbatch=2", code=2)
    for column, key in ((16, "recompute"), (39, "microbatch")):
        assert f"--plan:1:{column}: {key} changes nothing" in refused.stderr
    assert run("memory", "--parameters", "7e9", "--plan", "tp=2,pp=2,cp=2,dp=8,zero=1").exit_code == 0


# --------------------------------------------------------------------------- what cannot be
def test_a_stated_rate_that_beats_the_bound_is_refused_with_both(run: Any, report: Any) -> None:  # noqa: F811
    """64 tokens at 400 TFLOP/s a device of eight, 70.6e9 parameters x 2 + attention: 5 ms, where weights and cache alone need 11.98."""
    words = ("plan", *MODEL, *JOBS["decode"], "--plan", "tp=8")
    bound = report(*words)
    refused = run(*words, "--achieved", "400 TFLOP/s", code=2)
    flop = bound["utilisation"]["model_flop"]["causal"]
    assert f"takes {flop / 8 / 400e12 * 1e3:.3f} ms, and its bound" in refused.stderr
    assert f"under this plan is {bound['time']['step_s'] * 1e3:.2f} ms" in refused.stderr
    most = flop / 8 / bound["time"]["step_s"] / 1e12
    assert f"at most {most:.4g} TFLOP/s" in refused.stderr
    assert report(*words, "--achieved", f"{most * 0.999:.6f} TFLOP/s")["time"]["step_s"] >= bound["time"]["step_s"]


def test_devices_that_the_cluster_does_not_join_are_none_of_a_search_or_of_failures(run: Any, report: Any) -> None:  # noqa: F811
    words = ("llama-3.1-405b", "--phase", "train", "-C", "dgx-h100", "--set", "batch=2048", "--set", "seq=8192", "--plan", "tp=8,pp=16")
    found = report("search", *words, "--devices", "131072")
    assert found["best"] == []
    assert found["infeasible"] == {"more devices than the cluster joins": found["looked_at"]}
    failures = ("cost", "failures", "--restart", "10 min", "--checkpoint", "30 s", "-H", "llama3-24k", "--devices")
    refused = run(*failures, "32768", code=2)
    assert "32,768 devices, and the outermost tier of llama3-24k joins 24,576" in refused.stderr
    assert run(*failures, "24576").exit_code == 0


# --------------------------------------------------------------------------- what is so
def test_a_token_meets_a_context_of_any_length_on_ranks_that_share_it(report: Any) -> None:  # noqa: F811
    """1,001 keys on two ranks: 501 on the fuller, as of 1,002; no mask asks for pairs of pieces."""
    words = ("plan", *MODEL, "--phase", "decode", "--set", "batch=64", "--plan", "tp=4,cp=2")
    odd, even = (report(*words, "--set", f"context={n}") for n in (1001, 1002))
    assert odd["memory"] == even["memory"]
    assert odd["time"]["step_s"] == even["time"]["step_s"]
    assert 8 * odd["memory"]["parts_bytes"]["kv_cache"] == 64 * 1002 * 327_680


def test_compute_by_what_decides_it_is_that_of_the_step(report: Any) -> None:  # noqa: F811
    """Eight microbatches a replica on two stages."""
    words = ("plan", *MODEL, *JOBS["train"], "--plan", "tp=8,pp=2,dp=8,zero=1")
    time = report(*words)["time"]
    assert sum(time["by_limiter_s"].values()) == pytest.approx(time["parts_s"]["compute"], rel=1e-12)
    assert time["binds_share"] == pytest.approx(max(time["by_limiter_s"].values()) / time["step_s"])


def test_overlap_makes_another_plan_whose_bound_may_be_lower(run: Any, report: Any) -> None:  # noqa: F811
    words = ("plan", *MODEL, *JOBS["decode"], "--plan")
    waits, hides = (report(*words, plan)["time"]["step_s"] for plan in ("tp=8", "tp=8,overlap=tp"))
    assert hides < waits
    assert "overlapped as the plan says; nothing under this plan can be faster" in run(*words, "tp=8").stdout
