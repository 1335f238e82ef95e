"""`roofline plan` and `roofline search` at the command line: answers first, JSON as its schema, words that are refused, files as models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from roofline.report.published import schema_of
from tests.commands import report, run  # noqa: F401  (fixtures)

SERVE = ("llama-3-70b", "--phase", "decode", "-C", "dgx-h100", "--set", "batch=64", "--set", "context=8192")
TRAIN = ("llama-3-8b", "--phase", "train", "-C", "dgx-h100", "--set", "batch=64", "--set", "seq=4096")
STATED = ("--efficiency", "matrix=0.6,memory=0.85,link=0.7")

WORKLOAD = """schema: 1
name: train 8B
model: llama-3-8b
phase: train
cluster: dgx-h100
plan: {tp: 4, dp: 16, zero: 1}
params: {global_batch: 64, seq: 4096}
"""


def plan(*words: str) -> tuple[str, ...]:
    return ("plan", *words)


# --------------------------------------------------------------------------- answers
def test_story_6_as_a_plan(report: Any, run: Any) -> None:  # noqa: F811
    """Eight H100s: 17.6 GB of weights and 21.5 of cache a device; the bound of a step, with exchanges, is above the story's 11.7 ms."""
    found = report(*plan(*SERVE, "--plan", "tp=8"))
    parts = found["memory"]["parts_bytes"]
    assert 8 * parts["weights"] == pytest.approx(141e9, rel=2e-3)
    assert 8 * parts["kv_cache"] == 64 * 8192 * 327_680
    assert found["time"]["step_s"] - found["time"]["parts_s"]["exposed_tp"] == pytest.approx(11.7e-3, rel=0.03)
    assert found["rates"]["tpot_s"] == found["time"]["step_s"]
    assert found["rates"]["tokens_per_s"] == pytest.approx(64 / found["time"]["step_s"])
    assert found["rates"]["tokens_per_s_per_user"] == pytest.approx(1 / found["time"]["step_s"])
    assert 0.9 < found["utilisation"]["mbu"] < 1
    assert found["utilisation"]["leaves_memory_at_batch"] is None
    assert "any batch" in found["unavailable"]["leaves_memory_at_batch"]
    first = run(*plan(*SERVE, "--plan", "tp=8")).stdout.splitlines()[0]
    assert first.startswith("llama-3-70b on 8 x h100-sxm: token of every sequence at least ")
    assert "compute (hbm) binds" in first


def test_with_a_short_context_decode_leaves_the_memory_roof(report: Any) -> None:  # noqa: F811
    words = ("llama-3-8b", "--phase", "decode", "-C", "dgx-h100", "--set", "context=128")
    at = report(*plan(*words, "--set", "batch=8"))["utilisation"]["leaves_memory_at_batch"]
    assert 295 < at < 700  # the ridge, and later for what each sequence reads for itself
    parts = [report(*plan(*words, "--set", f"batch={b}"))["time"]["by_limiter_s"] for b in (at // 4, at * 2)]
    assert parts[0].get("hbm", 0) > parts[0].get("tensor", 0)
    assert parts[1]["tensor"] > parts[1]["hbm"]


def test_prefill_gives_the_time_to_first_tokens(report: Any) -> None:  # noqa: F811
    found = report(*plan("llama-3-8b", "--phase", "prefill", "-C", "dgx-h100", "--set", "batch=8", "--set", "seq=2048", "--plan", "tp=2"))
    assert found["rates"]["ttft_s"] == found["time"]["step_s"]
    assert found["rates"]["tpot_s"] is None
    assert found["rates"]["tokens_per_s"] == pytest.approx(8 * 2048 / found["time"]["step_s"])


def test_experts_are_split_as_all_else_unless_the_plan_says_otherwise(report: Any) -> None:  # noqa: F811
    words = ("mixtral-8x7b", "--phase", "prefill", "-C", "dgx-h100", "--set", "batch=8", "--set", "seq=2048")
    split, spread = (report(*plan(*words, "--plan", said)) for said in ("tp=8", "tp=8,ep=8"))
    assert (split["degrees"]["etp"], split["degrees"]["ep"]) == (8, 1)
    assert (spread["degrees"]["etp"], spread["degrees"]["ep"]) == (1, 8)
    weights = [r["memory"]["parts_bytes"]["weights"] for r in (split, spread)]
    assert weights[0] == pytest.approx(weights[1], rel=1e-3)
    assert spread["time"]["parts_s"]["exposed_ep"] > 0


def test_an_estimate_has_a_band_and_lies_above_the_bound(report: Any) -> None:  # noqa: F811
    words = plan("llama-3-8b", "--phase", "decode", "-C", "dgx-h200", "--set", "batch=8", "--set", "context=4096")
    estimate, bound = report(*words, "--cost", "estimate")["time"], report(*words)["time"]
    assert bound["step_s"] < estimate["low_s"] < estimate["step_s"] < estimate["high_s"]
    assert (bound["kind"], bound["low_s"], estimate["kind"]) == ("bound", None, "estimate")


def test_where_nothing_is_fitted_there_is_no_estimate_and_the_reason_is_said(report: Any, run: Any) -> None:  # noqa: F811
    words = plan(*TRAIN, "--plan", "dp=16", "--cost", "estimate")
    found = report(*words)
    assert found["time"] is None
    assert found["rates"] is None
    assert "no fitted parameters for transfer" in found["unavailable"]["time"]
    assert found["memory"]["needed_bytes"] > 0
    assert run(*words).stdout.startswith("llama-3-8b on 16 x h100-sxm: no time; ")


def test_the_parts_of_a_step_add_up_and_what_binds_is_the_largest(report: Any) -> None:  # noqa: F811
    time = report(*plan(*TRAIN, "--plan", "tp=2,pp=4,dp=8", *STATED))["time"]
    assert sum(time["parts_s"].values()) == pytest.approx(time["step_s"])
    assert time["kind"] == "efficiency"
    assert time["binds"].startswith("compute.")
    assert time["without_it_speedup"] == pytest.approx(1 / (1 - time["binds_share"]))


def test_warnings_name_a_group_beyond_a_node_and_missing_latencies(report: Any, run: Any) -> None:  # noqa: F811
    words = plan(*TRAIN, "--plan", "tp=16", *STATED)
    assert "W020" in {w["code"] for w in report(*words)["warnings"]}
    assert "warning W020: tp 16 reaches beyond a node of 8" in run(*words).stderr
    assert run("-q", *words).stderr == ""


# --------------------------------------------------------------------------- formats
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("plan", plan(*SERVE, "--plan", "tp=8")),
        ("plan", plan(*TRAIN, "--plan", "dp=8,zero=3", "--achieved", "400 TFLOP/s")),
        ("plan", plan(*TRAIN, "--plan", "dp=16", "--cost", "estimate")),
        ("search", ("search", *TRAIN, "--devices", "8", "--plan", "pp=1,cp=1", *STATED)),
        ("search", ("search", *TRAIN, "--devices", "1", "--reserve", "79 GB")),
    ],
)
def test_json_is_as_its_schema_says_and_the_same_twice(run: Any, what: str, words: tuple[str, ...]) -> None:  # noqa: F811
    once, twice = (run(*words, "--format", "json").stdout for _ in range(2))
    assert once == twice
    assert list(Draft202012Validator(schema_of(what)).iter_errors(json.loads(once))) == []
    assert "NaN" not in once


def test_a_file_ending_picks_the_format(run: Any, tmp_path: Path) -> None:  # noqa: F811
    where = tmp_path / "plan.json"
    run(*plan(*SERVE, "--plan", "tp=8"), "-o", str(where))
    assert json.loads(where.read_text(encoding="utf-8"))["plan"] == "tp=8"


# --------------------------------------------------------------------------- a workload file as the model
def test_a_workload_with_a_model_says_all_that_the_options_say(report: Any, run: Any, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "w.yaml"
    path.write_text(WORKLOAD, encoding="utf-8")
    found, same = report("plan", str(path)), report(*plan(*TRAIN, "--plan", "tp=4,dp=16,zero=1"))
    assert found == same
    changed = report("plan", str(path), "--set", "seq=2048", "--plan", "tp=2,zero=1", "--devices", "32", "-C", "dgx-h200")
    assert (changed["plan"], changed["job"]["seq"], changed["cluster"]) == ("tp=2,dp=16,zero=1", 2048, "dgx-h200")
    best = report("search", str(path), "--devices", "64", "--plan", "tp=4,pp=1,cp=1", "--top", "2")
    assert best["best"][0]["plan"].startswith("tp=4")
    said = run("plan", str(path), "--devices", "32", code=2).stderr
    assert f"{path}:6:7: tp 4 x cp 1 x pp 1 x dp 16 is 64 devices, not 32" in said


def test_workloads_of_steps_and_models_of_no_cluster_are_refused(run: Any, tmp_path: Path) -> None:  # noqa: F811
    steps = tmp_path / "steps.yaml"
    steps.write_text("schema: 1\nname: w\ndtype: bf16\nsteps:\n  - {op: gemm, m: 8, n: 8, k: 8}\n", encoding="utf-8")
    assert "has no 'model'" in run("plan", str(steps), "-C", "dgx-h100", code=2).stderr
    bare = tmp_path / "bare.yaml"
    bare.write_text("schema: 1\nmodel: llama-3-8b\nphase: decode\n", encoding="utf-8")
    assert "which cluster?" in run("plan", str(bare), code=2).stderr


# --------------------------------------------------------------------------- searches
def test_the_first_line_of_a_search_is_the_best_plan_and_the_last_say_why_and_how_many(run: Any) -> None:  # noqa: F811
    lines = run("search", *TRAIN, "--devices", "16", *STATED).stdout.splitlines()
    assert lines[0].startswith("llama-3-8b on 16 x h100-sxm: ")
    assert ": step " in lines[0]
    text = "\n".join(lines)
    assert "It beats " in text
    assert "plans looked at" in text
    assert "stated efficiency: matrix 0.6" in text
    assert "What no other beats in time and memory" in text


def test_a_search_by_estimates_that_nobody_fitted_lacks_something(run: Any) -> None:  # noqa: F811
    result = run("search", *TRAIN, "--devices", "16", "--cost", "estimate", code=3)
    assert "no fitted parameters for transfer" in result.stderr
    local = ("search", "llama-3-8b", "--phase", "decode", "-C", "dgx-h200", "--set", "batch=64", "--set", "context=4096", "--devices", "8")
    assert ": step about " in run(*local, "--cost", "estimate").stdout.splitlines()[0]


def test_adapters_have_no_mfu_by_rules_that_count_all_gradients(report: Any, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "lora.yaml"
    path.write_text(WORKLOAD.replace("plan:", "trainable: lora\nlora_rank: 16\nplan:"), encoding="utf-8")
    found, whole = report("plan", str(path)), report(*plan(*TRAIN, "--plan", "tp=4,dp=16,zero=1"))
    assert set(found["utilisation"]["mfu"].values()) == {None}
    assert "adapters" in found["unavailable"]["mfu"]
    assert found["time"]["parts_s"]["compute"] < whole["time"]["parts_s"]["compute"]
    assert found["memory"]["parts_bytes"]["gradients"] < 0.02 * whole["memory"]["parts_bytes"]["gradients"]


def test_a_search_where_nothing_fits_says_so_and_is_no_error(run: Any, report: Any) -> None:  # noqa: F811
    words = ("search", "llama-3.1-405b", *TRAIN[1:], "--devices", "8")
    assert run(*words).stdout.splitlines()[0].endswith("obeys the rules and fits.")
    found = report(*words)
    assert found["best"] == []
    assert found["why"] is None
    assert found["infeasible"]["does not fit the device's memory"] > 0
    assert found["looked_at"] == sum(found["infeasible"].values())


# --------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--phase", "tarin"), "did you mean 'train'?"),
        (("--cost", "bond"), "did you mean 'bound'?"),
        (("--cost", "efficiency"), "nobody's default"),
        (("--cost", "bound", *STATED), "leave out --cost bound"),
        (("--efficiency", "matrix=0.6"), "memory, link not stated"),
        (("--achieved", "430"), "--achieved"),
        (("--reserve", "2 GHz"), "--reserve"),
        (("--optimizer", "adamx"), "did you mean 'adamw'"),
        (("--attention", "flas"), "did you mean 'flash'"),
        (("--kv-dtype", "fp9"), "fp8"),
        (("--set", "bach=3"), "did you mean 'batch'?"),
        (("--format", "yaml"), "known: table, json"),
        (("-C", "dgx-h10"), "did you mean 'dgx-h100'"),
        (("--plan", "tp=7"), "32 heads do not divide by tp 7"),
        (("--plan", "ep=2,dp=2"), "no experts to spread"),
        (("--achieved", "2000 TFLOP/s"), "more than the 989.4 that a device has in bf16, dense"),
        (("--plan", "dp=131072", "--set", "batch=131072"), "131,072 devices, and the cluster's outermost tier joins 65,536"),
    ],
)
def test_a_wrong_word_of_a_plan_is_refused_with_what_was_meant(run: Any, words: tuple[str, ...], part: str) -> None:  # noqa: F811
    result = run(*plan(*TRAIN, *words), code=2)
    assert part in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--devices", "0"), "--devices"),
        (("--devices", "8,x"), "'x' is not a whole number"),
        (("--devices", "8", "--objective", "money"), "known: time, cost, memory"),
        (("--devices", "8", "--plan", "tq=2"), "unknown key 'tq'"),
        (("--devices", "8", "--plan", "tp=3"), "tp=3: no degrees of the other axes make 8 devices"),
    ],
)
def test_a_wrong_word_of_a_search_is_refused(run: Any, words: tuple[str, ...], part: str) -> None:  # noqa: F811
    assert part in run("search", *TRAIN, *words, code=2).stderr


@pytest.mark.parametrize("axis", ["dp", "pp", "cp"])
def test_a_mixed_step_is_divided_by_tp_alone(run: Any, axis: str) -> None:  # noqa: F811
    mixed = ("llama-3-70b", "--phase", "mixed", "-C", "dgx-h100", "--set", "chunk=2048", "--set", "batch=32", "--set", "context=4096")
    assert "how a mixed step is divided" in run("plan", *mixed, "--plan", f"{axis}=2", code=2).stderr
    run("plan", *mixed, "--plan", "tp=8")


def test_a_cached_prefix_is_no_part_of_a_plan(run: Any, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "cached.yaml"
    head = "schema: 1\nname: x\nmodel: llama-3-70b\nphase: prefill\nplan: tp=8\ncluster: dgx-h100\n"
    path.write_text(head + "params: {batch: 4, seq: 8192, cached: 7168}\n")
    assert "does not count a cached prefix" in run("plan", str(path), code=2).stderr
    run("analyze", str(path))


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize(
    "words",
    [
        ("links", "dp", "--ranks", "8", "--tokens", "8192", "-H", "dgx-h100", "--params"),
        ("cost", "optimal", "--flop", "1e23", "--tokens-per-parameter"),
        ("validate", "x.csv", "-H", "h100-sxm", "--max-mape"),
        ("advise", "gpt2_medium", "-H", "h100-sxm", "--least"),
    ],
)
def test_what_is_no_number_is_refused_by_every_command(run: Any, words: tuple[str, ...], value: str) -> None:  # noqa: F811
    said = run(*words, value, code=2)
    assert f"{words[-1]} {value} is out of range: not a number" in said.stderr
    assert said.stdout == ""


def test_the_cost_of_a_run_wants_a_training_plan(run: Any, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "decode.json"
    run(*plan(*SERVE, "--plan", "tp=8"), "--format", "json", "-o", str(path))
    said = run("cost", "run", str(path), "--total-tokens", "1T", "--price", "2.5 USD/h", code=2).stderr
    assert "a plan of phase decode, where one of train is wanted" in said


def test_sizes_that_are_missing_are_asked_for(run: Any) -> None:  # noqa: F811
    said = run("plan", "llama-3-8b", "--phase", "decode", "-C", "dgx-h100", code=2).stderr
    assert "a decode step needs batch, context: add --set batch=... --set context=..." in said


@pytest.mark.parametrize("command", ["plan", "search"])
def test_help_has_an_example(run: Any, command: str) -> None:  # noqa: F811
    assert "Example" in run(command, "--help").stdout
