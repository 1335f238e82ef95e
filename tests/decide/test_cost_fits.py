"""What does not fit has no cost, replicas scale what they can, and serving under a plan is what `roofline plan` says of each batch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from roofline.decide.rates import fleet
from roofline.decide.serving import Decoded, Goals, Step, serving
from roofline.report.cost import Amount
from roofline.report.published import schema_of
from tests.commands import Answer, Run

COST = Draft202012Validator(schema_of("cost"))
LLAMA = ("llama-3-70b", "-C", "dgx-h100", "--plan", "tp=8", "--set", "context=8192")
PAID = ("--price", "2.5 USD/h")


@pytest.fixture
def plan(run: Run, tmp_path: Path) -> Callable[[int], str]:
    """The report of a decoding step of so many sequences."""

    def made(batch: int) -> str:
        path = str(tmp_path / f"plan{batch}.json")
        run("plan", *LLAMA, "--phase", "decode", "--set", f"batch={batch}", "-o", path)
        return path

    return made


def changed(path: str, **fields: Any) -> str:
    """The report with its memory said otherwise."""
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    found["memory"].update(fields)
    Path(path).write_text(json.dumps(found), encoding="utf-8")
    return path


# --------------------------------------------------------------------------- reports
def test_where_nobody_knows_whether_it_fits_the_cost_says_so(run: Run, report: Answer, plan: Callable[[int], str]) -> None:
    path = changed(plan(64), fits=None, available_bytes=None, shortfall_bytes=None)
    found = report("cost", "tokens", "--decode", path, *PAID)
    assert [w["code"] for w in found["warnings"]] == ["W040"]
    COST.validate(found)
    assert "warning W040" in run("cost", "tokens", "--decode", path, *PAID).stderr
    assert report("cost", "tokens", "--decode", plan(64), *PAID)["warnings"] == []


def test_replicas_cost_as_much_a_token_and_make_as_many_times_the_tokens(report: Answer, plan: Callable[[int], str]) -> None:
    path = plan(64)
    one, same, three = (report("cost", "tokens", "--decode", path, *PAID, *more) for more in ((), ("--devices", "8"), ("--devices", "24")))
    assert one == same
    assert three["fleet"]["devices"] == 24
    assert three["written"]["tokens_per_s"]["value"] == pytest.approx(3 * one["written"]["tokens_per_s"]["value"])
    assert three["output"]["usd"]["value"] == pytest.approx(one["output"]["usd"]["value"])
    assert three["written"]["source"].startswith("3 replicas of ")


@pytest.mark.parametrize("count", ["4", "12"])
def test_devices_that_are_no_replicas_are_refused(run: Run, plan: Callable[[int], str], count: str) -> None:
    said = run("cost", "tokens", "--decode", plan(64), *PAID, "--devices", count, code=2).stderr
    assert f"--devices {count}: " in said
    assert "is of 8 devices" in said


def test_a_training_step_has_no_replicas(run: Run, tmp_path: Path) -> None:
    """Two of them would train two models, or exchange gradients, which the step's time knows nothing of."""
    path = str(tmp_path / "train.json")
    words = ("--plan", "dp=8,zero=3,recompute=full", "--set", "batch=8", "--set", "seq=2048")
    run("plan", "llama-3-8b", "-C", "dgx-h100", "--phase", "train", *words, "-o", path)
    arguments = ("cost", "run", path, "--total-tokens", "1T", *PAID)
    assert "plan the step on 16" in run(*arguments, "--devices", "16", code=2).stderr
    assert run(*arguments, "--devices", "8").stdout == run(*arguments).stdout


# --------------------------------------------------------------------------- serving
def test_a_batch_that_does_not_fit_is_never_the_cheapest_and_says_by_how_much() -> None:
    """Worked by hand: 10 GB needed of 8; the batch of 1 takes 1 s of a device at 3600 USD/h, a dollar a second."""
    steps = tuple(
        Step(batch=b, tokens=b, step_s=Amount(value=1.0), needed_bytes=need, available_bytes=8e9) for b, need in ((1, 4e9), (2, 10e9))
    )
    found = serving(Decoded(workload="w", hardware="d", plan=None, time_kind="bound", steps=steps), fleet(1, 3600.0, None, None), Goals())
    assert [(p.fits, p.shortfall_bytes) for p in found.points] == [(True, 0), (False, 2e9)]
    assert [p.usd_per_million.value for p in found.points] == [pytest.approx(1e6), pytest.approx(5e5)]
    assert found.best == found.points[0]


@given(st.lists(st.tuples(st.floats(0.001, 1), st.floats(1, 20)), min_size=1, max_size=8), st.floats(0.001, 1) | st.none())
def test_the_best_is_the_cheapest_of_those_that_fit_and_keep_the_goal(drawn: list[tuple[float, float]], tpot: float | None) -> None:
    steps = tuple(
        Step(batch=i, tokens=i, step_s=Amount(value=s), needed_bytes=need, available_bytes=10.0) for i, (s, need) in enumerate(drawn, 1)
    )
    decoded = Decoded(workload="w", hardware="d", plan=None, time_kind="bound", steps=steps)
    found = serving(decoded, fleet(1, 1.0, None, None), Goals(tpot_s=tpot))
    allowed = [(s / (i + 1), i + 1) for i, (s, need) in enumerate(drawn) if need <= 10 and (tpot is None or s <= tpot)]
    assert (found.best is None) == (not allowed)
    if found.best is not None:
        assert found.best.usd_per_million.value == pytest.approx(min(allowed)[0] * 1e6 / 3600)


def test_batches_on_a_device_whose_memory_nobody_knows_are_said_to_be_that() -> None:
    steps = (Step(batch=1, tokens=1, step_s=Amount(value=1.0), needed_bytes=1.0, available_bytes=None),)
    found = serving(Decoded(workload="w", hardware="d", plan=None, time_kind="bound", steps=steps), fleet(1, 1.0, None, None), Goals())
    assert (found.points[0].fits, found.points[0].shortfall_bytes) == (None, None)
    assert [w.code for w in found.warnings] == ["W040"]


def test_llama_on_eight_devices_batch_by_batch(report: Answer, plan: Callable[[int], str]) -> None:
    """From a model to dollars: each batch is what `plan` says of it; 15 ms a token leave 64 sequences, 25 ms 128; 256 do not fit."""
    words = ("cost", "serving", *LLAMA, "--set", "batch=32..256:x2", *PAID)
    found = report(*words, "--tpot", "15 ms")
    COST.validate(found)
    made = json.loads(Path(plan(64)).read_text(encoding="utf-8"))
    point = next(p for p in found["points"] if p["batch"] == 64)
    assert point["step_s"]["value"] == made["time"]["step_s"]
    # Eight devices at 2.5 USD/h are 5.56 mUSD a second.
    assert point["usd_per_million"]["value"] == pytest.approx(1e6 / made["rates"]["tokens_per_s"] * 20 / 3600)
    assert (found["plan"], found["fleet"]["devices"], found["time_kind"]) == ("tp=8", 8, "bound")
    assert [p["fits"] for p in found["points"]] == [True, True, True, False]
    assert found["best"]["batch"] == 64
    assert report(*words, "--tpot", "25 ms")["best"]["batch"] == 128
    assert report(*words)["best"]["batch"] == 128


def test_a_prompt_gives_the_time_to_the_first_token_under_the_same_plan(run: Run, report: Answer) -> None:
    sizes = ("--set", "batch=8,16", *PAID, "--prompt", "4096")
    found = report("cost", "serving", *LLAMA, *sizes, "--ttft", "1 s")
    alone = report("plan", "llama-3-70b", "-C", "dgx-h100", "--plan", "tp=8", "--phase", "prefill", "--set", "batch=1", "--set", "seq=4096")
    assert found["ttft_s"] == alone["rates"]["ttft_s"]
    assert found["best"] is not None
    late = run("cost", "serving", *LLAMA, *sizes, "--ttft", "100 ms").stdout
    assert late.startswith("No batch fits and needs at most 100.0 ms to the first token.")
    assert "bound of a prompt of 4,096 tokens alone under tp=8" in late


def test_a_workload_file_with_a_plan_is_served_as_its_model_is(report: Answer, tmp_path: Path) -> None:
    path = tmp_path / "served.yaml"
    path.write_text("schema: 1\nmodel: llama-3-70b\nphase: decode\nplan: tp=8\ncluster: dgx-h100\nparams: {batch: 1, context: 8192}\n")
    of_file = report("cost", "serving", str(path), "--set", "batch=8,64", *PAID)
    of_name = report("cost", "serving", *LLAMA, "--set", "batch=8,64", *PAID)
    assert of_file["points"] == of_name["points"]
    assert [i["role"] for i in of_file["inputs"]] == ["workload", "cluster"]


def test_replicas_of_a_plan_are_its_dp(report: Answer) -> None:
    """`--devices` leaves dp what tp does not use, as in `plan`."""
    found = report("cost", "serving", "llama-3-70b", "-C", "dgx-h100", "--plan", "tp=4", "--devices", "8", "--set", "context=1024",
                   "--set", "batch=8,16", *PAID)  # fmt: skip
    assert (found["plan"], found["fleet"]["devices"]) == ("tp=4,dp=2", 8)


@pytest.fixture
def mixed(run: Run, tmp_path: Path) -> str:
    """The report of a step that reads 2,048 tokens of prompts and writes one of each of 32 sequences."""
    path = str(tmp_path / "mixed.json")
    run("plan", *LLAMA, "--phase", "mixed", "--set", "batch=32", "--set", "chunk=2048", "-o", path)
    return path


def test_a_mixed_step_reads_its_chunk_and_writes_a_token_of_each_sequence(run: Run, report: Answer, mixed: str) -> None:
    """Eight devices at 2.5 USD/h make 32 tokens in the seconds of a step, and all of its 2,080; twice the devices, twice the rates."""
    step_s = json.loads(Path(mixed).read_text(encoding="utf-8"))["time"]["step_s"]
    found = report("cost", "tokens", "--decode", mixed, *PAID)
    COST.validate(found)
    usd = 8 * 2.5 / 3600 * step_s
    assert found["written"]["tokens_per_s"]["value"] == pytest.approx(32 / step_s)
    assert found["read"]["tokens_per_s"]["value"] == pytest.approx(2048 / step_s)
    assert found["output"]["usd"]["value"] == pytest.approx(1e6 * usd / 32)
    assert found["blended"]["usd"]["value"] == pytest.approx(1e6 * usd / 2080)
    assert found["blend"] == [2048, 32]
    assert found["input"] is None
    assert "reads 64 tokens beside each that it writes" in found["unavailable"]["input"]
    assert found == report("cost", "tokens", "--prefill", mixed, *PAID) == report("cost", "tokens", *both(mixed), *PAID)
    more = report("cost", "tokens", "--decode", mixed, "--devices", "16", *PAID)
    assert more["written"]["tokens_per_s"]["value"] == pytest.approx(64 / step_s)
    assert more["output"]["usd"]["value"] == pytest.approx(found["output"]["usd"]["value"])
    assert "A step reads 64 tokens beside each that it writes: the cost of those" in run("cost", "tokens", "--decode", mixed, *PAID).stdout


def both(path: str) -> tuple[str, ...]:
    """The options of one report that reads and writes."""
    return ("--prefill", path, "--decode", path)


def test_nothing_has_a_part_in_the_tokens_of_a_mixed_step(run: Run, plan: Callable[[int], str], mixed: str) -> None:
    for more in (("--blend", "3:1"), ("--input-tokens-per-s", "100"), ("--output-tokens-per-s", "100")):
        said = run("cost", "tokens", "--decode", mixed, *more, *PAID, code=2).stderr
        assert f"in a mix of its own: leave out {more[0]}" in said
    other = plan(8)
    assert f"leave out {other}" in run("cost", "tokens", "--prefill", mixed, "--decode", other, *PAID, code=2).stderr
    changed_ = json.loads(Path(mixed).read_text(encoding="utf-8"))
    del changed_["job"]["chunk"]
    Path(mixed).write_text(json.dumps(changed_), encoding="utf-8")
    assert "no chunk and batch above 0" in run("cost", "tokens", "--decode", mixed, *PAID, code=2).stderr


def test_of_guessed_tokens_those_that_are_accepted_are_stated(run: Run, report: Answer, tmp_path: Path) -> None:
    """Of 3 guessed and 1 sure token of each of 8 sequences, say 2.5 are kept: 20 tokens a step."""
    path = tmp_path / "drafts.yaml"
    path.write_text(
        "schema: 1\nmodel: llama-3-8b\nphase: decode\ndraft: 3\nplan: tp=2\ncluster: dgx-h100\nparams: {batch: 1, context: 64}\n"
    )
    words = ("cost", "serving", str(path), "--set", "batch=8,16", *PAID)
    assert "nobody says how many are accepted: say how many a step makes" in run(*words, code=2).stderr
    found = report(*words, "--tokens", "batch * 2.5")["points"][0]
    assert found["tokens_per_s_per_device"] * found["step_s"]["value"] * 2 == pytest.approx(20)
    made = str(tmp_path / "plan.json")
    run("plan", str(path), "--set", "batch=8", "-o", made)
    unsaid = run("cost", "tokens", "--decode", made, *PAID, code=2).stderr
    assert "nobody says" in unsaid
    assert unsaid.rstrip().endswith("say how many a step makes, such as --decode-tokens 'batch * 2.5'")
    paid = report("cost", "tokens", "--decode", made, "--decode-tokens", "batch * 2.5", *PAID)
    assert paid["output"]["usd"]["value"] == pytest.approx(found["usd_per_million"]["value"])


@pytest.mark.parametrize("plan_keys", ["plan: tp=2\ncluster: dgx-h100\n", "hardware: h100-sxm\n"], ids=["planned", "alone"])
def test_more_tokens_than_are_guessed_have_no_cost(run: Run, tmp_path: Path, plan_keys: str) -> None:
    """3 guesses of each of 8 sequences and the token behind them are 32 tokens a step: 33 are impossible, at any batch and in a report."""
    path, made = tmp_path / "drafts.yaml", str(tmp_path / "made.json")
    path.write_text(f"schema: 1\nmodel: llama-3-8b\nphase: decode\ndraft: 3\n{plan_keys}params: {{batch: 1, context: 64}}\n")
    run("analyze", str(path), "--set", "batch=8", "-o", made)
    pays = ("--devices", "2", *PAID)
    said = "33 tokens, and 8 sequences with 3 guessed tokens each make at most 32 a step"
    for words in (("serving", str(path), "--set", "batch=8,64", "--tokens"), ("tokens", "--decode", made, "--decode-tokens")):
        assert run("cost", *words, "batch * 4", *pays).exit_code == 0
        assert said in run("cost", *words, "batch * 4 + 1", *pays, code=2).stderr


def test_tokens_of_a_plan_that_knows_its_own_are_not_stated(run: Run, plan: Callable[[int], str]) -> None:
    said = run("cost", "tokens", "--decode", path := plan(64), "--decode-tokens", "5", *PAID, code=2).stderr
    assert said == f"error: --decode-tokens 5: a plan knows the tokens of its step, and {path} is one: leave it out\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("qwen3_8b_decode", "--plan", "tp=2", "--set", "batch=1,2"), "--plan is of a model under a plan"),
        (("qwen3_8b_decode", "--prompt", "9", "--set", "batch=1,2"), "--prompt is of a model under a plan"),
        ((*LLAMA, "--set", "batch=8,16", "--tokens", "batch"), "a plan knows the tokens of its step"),
        (("llama-3-70b", "-C", "dgx-h100", "--plan", "tp=8", "--set", "batch=8", "--set", "context=1,2"), "varies one thing, the batch"),
        (("llama-3-70b", "--set", "batch=8,16"), "which cluster?"),
        ((*LLAMA, "--set", "batch=8,16", "--devices", "12"), "--plan:1:"),
        ((*LLAMA, "--set", "batch=8,16", "--ttft", "1 s"), "--prompt TOKENS"),
        ((*LLAMA, "--set", "batch=8,16", "--prompt", "9", "--prefill", "x.json"), "not both"),
        (("nothing", "--set", "batch=8,16"), "unknown workload 'nothing'"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_named(run: Run, words: tuple[str, ...], said: str) -> None:
    found = run("cost", "serving", *words, *PAID, code=2)
    assert said in found.stderr
    assert found.stdout == ""


def test_a_plan_of_another_phase_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text("schema: 1\nmodel: llama-3-8b\nphase: train\nplan: dp=8\ncluster: dgx-h100\nparams: {batch: 8, seq: 64}\n")
    assert "is of phase train" in run("cost", "serving", str(path), "--set", "batch=8,16", *PAID, code=2).stderr
