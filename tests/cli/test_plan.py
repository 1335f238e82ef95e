"""`roofline plan` and `roofline search` at the command line: answers first, JSON as its schema, words that are refused, files as models."""

from __future__ import annotations

import json
from math import comb
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


EXPERTS = ("deepseek-v3", "--phase", "decode", "-C", "dgx-h200", "--set", "batch=1024", "--set", "context=4096", "--plan", "dp=8,ep=8")


def test_tokens_travel_to_their_experts_in_a_format_of_their_own(report: Any, run: Any, tmp_path: Path) -> None:  # noqa: F811
    """DeepSeek-V3, 128 tokens a rank, 58 layers with experts: 128 x 7168 x 7/8 elements to 5.29 of 8 ranks each way, 450 GB/s; 2 + 2 B, or
    1 + 2."""
    one_way = 58 * 128 * 8 * (1 - comb(224, 8) / comb(256, 8)) * 7168 * 7 / 8 / 450e9
    for words, size in (((), 4), (("--dispatch-dtype", "fp8"), 3)):
        assert report(*plan(*EXPERTS, *words))["time"]["parts_s"]["exposed_ep"] == pytest.approx(size * one_way)
        best = report("search", *EXPERTS[:-1], "ep=8,tp=1", "--devices", "8", *words)["best"][0]
        assert best["parts_s"]["exposed_ep"] == pytest.approx(size * one_way)
    path = tmp_path / "serve.yaml"
    said = "model: deepseek-v3\nphase: decode\nplan: dp=8,ep=8\nparams: {batch: 1024, context: 4096}\ndispatch_dtype: fp8\n"
    path.write_text(f"schema: 1\n{said}")
    assert report(*plan(str(path), "-C", "dgx-h200"))["time"]["parts_s"]["exposed_ep"] == pytest.approx(3 * one_way)
    assert report(*plan(*EXPERTS, "--dispatch-dtype", "fp8"))["job"]["dispatch_dtype"] == "fp8"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("dp=8,ep=8,node_limit=0", "--plan:1:22: node_limit: 0 is not a whole number from 1"),
        ("dp=8,ep=8,node_limit=2", "--plan:1:22: node_limit 2: ep 8 ranks of experts lie in 1 of the cluster's nodes"),
        ("dp=8,ep=8,imbalance=9", "--plan:1:21: imbalance 9: the fullest of ep 8 ranks has at most 8 times the mean, all there is"),
    ],
)
def test_loads_of_experts_that_cannot_be_are_refused_at_their_place(words: str, said: str, run: Any) -> None:  # noqa: F811
    assert run(*plan(*EXPERTS[:-1], words), code=2).stderr.startswith(said)
    if "imbalance" in words:  # each plan of a search has as much of it as it can
        assert run("search", *EXPERTS[:-1], "tp=1,imbalance=9", "--devices", "8").stdout


@pytest.mark.parametrize("command", ["plan", "search"])
def test_where_no_token_travels_no_format_is_of_it(command: str, run: Any, tmp_path: Path) -> None:  # noqa: F811
    """A model without experts, by name and in a file, which is named with its place."""
    path = tmp_path / "serve.yaml"
    path.write_text("schema: 1\nmodel: llama-3-70b\nphase: decode\nparams: {batch: 64, context: 8192}\ndispatch_dtype: fp8\n")
    for words in ((*SERVE, "--dispatch-dtype", "fp8"), (str(path), "-C", "dgx-h100")):
        failed = run(command, *words, "--plan", "tp=8", "--devices", "8", code=2)
        assert "dispatch" in failed.stderr
        assert ": 'llama-3-70b' has no experts that tokens could travel to; leave it out" in failed.stderr
    assert "serve.yaml:5:17: dispatch_dtype" in failed.stderr
    assert "error: --dispatch-dtype: " in run(command, *SERVE, "--dispatch-dtype", "fp8", "--devices", "8", code=2).stderr
    failed = run(command, *EXPERTS, "--devices", "8", "--dispatch-dtype", "fp9", code=2)
    assert "did you mean 'fp8'" in failed.stderr


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
def test_an_unknown_model_is_named_before_a_cluster_is_asked_for(run: Any) -> None:  # noqa: F811
    assert "unknown model 'lama-3-8b'; did you mean" in run("plan", "lama-3-8b", "--phase", "decode", code=2).stderr


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
        (("--kv-dtype", "bool"), "no format of cached keys and values: those are fp32, bf16, fp16, fp8"),
        (("--set", "batch=8,16"), "several values are for 'roofline sweep'"),
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


MIXED_STEP = ("llama-3-70b", "--phase", "mixed", "-C", "dgx-h100", "--set", "chunk=2048", "--set", "batch=32", "--set", "context=4096")
PREFILL = ("llama-3-70b", "--phase", "prefill", "-C", "dgx-h100", "--set", "batch=16", "--set", "seq=2048")


@pytest.mark.parametrize(
    ("job", "words", "part"),
    [
        (MIXED_STEP, "cp=2", "--plan:1:4: cp 2 of a mixed step"),
        (MIXED_STEP, "dp=3,tp=8", "batch 32 and chunk 2048 of a mixed step: no multiple of dp 3 x pp 1 = 3"),
        (MIXED_STEP, "pp=64,uneven", "batch 32 of a mixed step: no multiple of dp 1 x pp 64 = 64"),
        (MIXED_STEP, "pp=4,microbatch=1", "--plan:1:17: microbatch 1 is of training and prefill: a mixed step goes in as many parts as"),
        (
            PREFILL,
            "tp=8,microbatch=2",
            "--plan:1:17: microbatch 2 needs pp > 1 in prefill: a single stage takes the batch of a replica whole",
        ),
        (PREFILL, "pp=2,microbatch=3", "a batch of 16 does not divide by dp 1 x microbatch 3 = 3"),
        (PREFILL, "pp=4,schedule=zero_bubble", "--plan:1:15: schedule=zero_bubble is of training"),
    ],
)
def test_a_serving_step_that_cannot_be_divided_so_is_refused_at_its_place(run: Any, job: Any, words: str, part: str) -> None:  # noqa: F811
    assert part in run("plan", *job, "--plan", words, code=2).stderr


def test_a_mixed_step_is_divided_over_replicas_and_stages(report: Any) -> None:  # noqa: F811
    """Two replicas of two stages: each of four parts has 8 sequences and a chunk of 512 tokens; keys of 16 x 4096 + 2 x 512 a replica."""
    found = report(*("plan", *MIXED_STEP, "--plan", "tp=4,pp=2,dp=2"))
    assert (found["degrees"]["microbatch"], found["schedule"]["microbatches"], found["schedule"]["bubble_fraction"]) == (8, 2, 0)
    token_layer = 2 * 8 * 128 * 2 / 4  # keys and values of 8 heads of 128 in 16 bits, a quarter of them on a rank
    assert found["memory"]["parts_bytes"]["kv_cache"] == 40 * token_layer * (16 * 4096 + 2 * 512)
    assert found["utilisation"]["hfu"] == pytest.approx(found["utilisation"]["mfu"]["causal"], rel=2e-5)  # half a key a query apart


def test_the_parts_of_a_prefill_are_said_or_the_quickest(run: Any, report: Any) -> None:  # noqa: F811
    open_ = report(*("plan", *PREFILL, "--plan", "tp=2,pp=4"))
    assert (open_["plan"], open_["degrees"]["microbatch"], open_["schedule"]["microbatches"]) == ("tp=2,pp=4,microbatch=1", 1, 16)
    assert open_["schedule"]["bubble_fraction"] == 3 / 16
    stated = report(*("plan", *PREFILL, "--plan", open_["plan"]))
    assert (open_["schedule"].pop("chosen"), stated["schedule"].pop("chosen")) == (True, False)
    assert stated == open_
    said = report(*("plan", *PREFILL, "--plan", "tp=2,pp=4,microbatch=4"))
    assert said["time"]["step_s"] > open_["time"]["step_s"]
    assert said["memory"]["parts_bytes"]["activations"] == 4 * open_["memory"]["parts_bytes"]["activations"]
    whole = "nothing under this plan that sends whole prompts through the stages in "
    for words, parts in (("", "equal parts"), (",microbatch=4", "parts of 4 prompts"), (",microbatch=1", "parts of 1 prompt")):
        assert f"{whole}{parts} can be faster" in run("plan", *PREFILL, "--plan", f"tp=2,pp=4{words}").stdout
    assert "nothing under this plan can be faster" in run("plan", *PREFILL, "--plan", "tp=8").stdout


def test_tp_that_straddles_nodes_is_said(run: Any) -> None:  # noqa: F811
    """Groups of 3 on nodes of 8: the third has its members on two."""
    warned = run("plan", "gpt3-175b", *PREFILL[1:], "--plan", "tp=3,dp=4").stderr
    assert "tp 3 does not divide a node of 8" in warned
    assert "does not divide a node" not in run("plan", "gpt3-175b", *PREFILL[1:], "--plan", "tp=3,dp=2").stderr


def test_a_cached_prefix_is_work_that_is_not_done_again(run: Any, report: Any) -> None:  # noqa: F811
    """Of 4 prompts of 8,192 tokens 1,024 each are left, which meet 7,168 keys and half of their own; all keys are held."""
    words = ("llama-3-70b", "--phase", "prefill", "-C", "dgx-h100", "--plan", "tp=8", "--set", "batch=4", "--set", "seq=8192")
    found = report(*plan(*words), "--set", "cached=7168")
    assert (found["job"]["cached"], found["rates"]["tokens_per_step"]) == (7168, 4 * 1024)
    assert found["memory"]["parts_bytes"]["kv_cache"] == 4 * 8192 * 327_680 / 8
    attention, products, head = 4 * 80 * 64 * 128, 2 * (70_553_706_496 - 161 * 8192 - 2 * 128_256 * 8192), 2 * 128_256 * 8192
    assert found["utilisation"]["model_flop"]["causal"] == (products + attention * (7168 + 1025 / 2)) * 4096 + head * 4
    assert "batch 4, seq 8192, cached 7168." in run(*plan(*words), "--set", "cached=7168").stdout
    assert "leave out cp or cached" in run(*plan(*words, "--set", "cached=7168", "--plan", "cp=2"), code=2).stderr


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
