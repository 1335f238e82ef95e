"""Dollars and joules: worked by hand, linear in price and power, bands kept, sources named, nothing assumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from roofline.decide.economics import goodput, inverse, per_million, run_cost, token_cost
from roofline.decide.optimal import flop_of, optimal, training_flop
from roofline.decide.rates import fleet, stated_rate
from roofline.errors import UsageError
from roofline.report.cost import Amount, Fleet, Throughput
from roofline.report.cost_lines import span, tokens, usd
from roofline.report.published import schema_of
from roofline.spec.expenses import duration_s
from tests.commands import Answer, Run

COST = Draft202012Validator(schema_of("cost"))
PRICES, RATES = st.floats(0.01, 1000), st.floats(1, 1e9)
RUN = ("run", "--tokens-per-s", "1.3M", "--total-tokens", "15T", "--devices", "16384", "--price", "2/h")
FAIL = ("failures", "--devices", "16384")
SERVE = ("serving", "qwen3_8b_decode", "--set", "batch=1,2", "--price", "1/h")


def devices(count: int, price: float, power: float | None = 700.0) -> Fleet:
    """A fleet of the command line."""
    return fleet(count, price, power, None)


def test_a_million_tokens_by_hand() -> None:
    """8 devices at 2.50 USD/h make 2,500 tokens/s: 400 s of 20 USD/h are 2.22 USD, and of 5.6 kW 2.24 MJ."""
    found = per_million(devices(8, 2.5), Amount(value=2500))
    assert found.usd.value == pytest.approx(400 * 20 / 3600)
    assert found.joules is not None
    assert found.joules.value == pytest.approx(400 * 5600)


def test_llama_3_405b_by_hand() -> None:
    """15.6T tokens at 16M tokens in 12.1 s: 975,000 steps, 136.5 days; 16,384 devices at 2 USD/h are 32,768 USD/h."""
    found = run_cost(devices(16384, 2.0), 15.6e12, stated_rate(16e6 / 12.1))
    assert found.time_s.value == pytest.approx(975_000 * 12.1)
    assert found.usd.value == pytest.approx(975_000 * 12.1 / 3600 * 32768)
    assert found.device_hours.value == pytest.approx(found.usd.value / 2)


@given(PRICES, RATES, st.floats(0.1, 10), st.integers(1, 100_000))
def test_cost_is_linear_in_price_and_inverse_to_the_rate(price: float, rate: float, factor: float, count: int) -> None:
    base = per_million(devices(count, price), Amount(value=rate)).usd.value
    assert per_million(devices(count, price * factor), Amount(value=rate)).usd.value == pytest.approx(base * factor)
    assert per_million(devices(count, price), Amount(value=rate * factor)).usd.value == pytest.approx(base / factor)


@given(PRICES, RATES, st.floats(1, 1e4))
def test_failures_only_add(price: float, rate: float, restart: float) -> None:
    lost = goodput(1000, 1e9, 30, restart)
    without, with_ = (run_cost(devices(1000, price), 1e12, stated_rate(rate), g) for g in (None, lost))
    assert with_.usd.value == pytest.approx(without.usd.value / lost.useful_share)
    assert with_.usd.value > without.usd.value
    assert with_.failures is not None
    assert with_.failures.value == pytest.approx(with_.time_s.value / 1e6)


def test_a_band_of_a_rate_turns_over_into_one_of_the_cost() -> None:
    found = inverse(Amount(value=4, low=2, high=8), 8)
    assert (found.low, found.value, found.high) == (1, 2, 4)


def test_a_blend_weighs_by_tokens() -> None:
    """3 of 4 tokens are read at 0.1 USD a million and 1 is written at 0.4."""
    paid = devices(1, 3600.0)
    found = token_cost(paid, stated_rate(1e7), stated_rate(2.5e6), (3, 1))
    assert found.input is not None
    assert found.output is not None
    assert found.blended is not None
    assert (found.input.usd.value, found.output.usd.value) == (pytest.approx(0.1), pytest.approx(0.4))
    assert found.blended.usd.value == pytest.approx(0.175)
    assert found.blended.joules is not None
    assert found.input.joules is not None
    assert found.input.joules.value < found.blended.joules.value


def test_a_blend_without_one_of_its_rates_is_refused() -> None:
    with pytest.raises(UsageError, match="--blend needs"):
        token_cost(devices(1, 1.0), None, stated_rate(1.0), (1, 1))
    with pytest.raises(UsageError, match="give what reads"):
        token_cost(devices(1, 1.0), None, None, None)


# --------------------------------------------------------------------------- where figures come from
def test_power_is_the_profile_s_and_a_price_that_nobody_has_is_asked_for() -> None:
    found = fleet(1, 2.5, None, "h100-sxm")
    assert found.watts_per_device == 700
    assert found.power_source is not None
    assert found.power_source.startswith("h100-sxm")
    with pytest.raises(UsageError, match=r"h100-sxm states no price.*--price"):
        fleet(1, None, None, "h100-sxm")
    with pytest.raises(UsageError, match="no profile or cluster was named"):
        fleet(1, None, None, None)


def test_a_cluster_gives_the_share_of_its_node() -> None:
    """A DGX H100 draws 10.2 kW at most, an eighth of it for each of its devices."""
    found = fleet(64, 2.5, None, "dgx-h100")
    assert found.watts_per_device == pytest.approx(10_200 / 8)


def test_without_a_power_there_are_no_joules_and_the_reason() -> None:
    found = token_cost(devices(1, 1.0, None), None, Throughput(kind="stated", source="-", tokens_per_s=Amount(value=1.0)), None)
    assert found.output is not None
    assert found.output.joules is None
    assert "--power" in found.unavailable["joules"]


# --------------------------------------------------------------------------- budgets
def test_chinchilla_s_budget_gives_chinchilla() -> None:
    """5.76e23 FLOP: 69 billion parameters on 1.4 trillion tokens, as published 70 and 1.4."""
    found = optimal(5.76e23)
    assert found.parameters == pytest.approx(70e9, rel=0.02)
    assert found.tokens == pytest.approx(1.4e12, rel=0.02)


@given(st.floats(1e15, 1e27), st.floats(1, 2000))
def test_a_budget_is_used_up(flop: float, ratio: float) -> None:
    found = optimal(flop, ratio)
    assert training_flop(found.parameters, found.tokens) == pytest.approx(flop)
    assert found.tokens / found.parameters == pytest.approx(ratio)


def test_a_fleet_s_flop_by_hand() -> None:
    assert flop_of(1000, 100, 4e14, 0.5) == 2e19
    with pytest.raises(UsageError):
        optimal(0)


# --------------------------------------------------------------------------- for people
def test_large_figures_are_readable() -> None:
    assert (usd(0.4265), usd(12345.6), usd(1.159e8)) == ("0.4265 USD", "12346 USD", "115.9 M USD")
    assert (span(0.0035), span(90), span(600), span(9000), span(864000)) == ("3.500 ms", "90 s", "10 min", "2.5 h", "10 days")
    assert (tokens(950), tokens(15.6e12), tokens(405e9)) == ("950", "15.6T", "405B")


# --------------------------------------------------------------------------- the commands
def test_a_report_of_analyze_is_paid_for_at_its_estimate(run: Run, report: Answer, tmp_path: Path) -> None:
    path = str(tmp_path / "decode.json")
    run("analyze", "qwen3_8b_decode", "--set", "batch=32", "-o", path)
    seen = json.loads(Path(path).read_text(encoding="utf-8"))["totals"]["estimate"]
    found = report("cost", "tokens", "--decode", path, "--decode-tokens", "batch", "--devices", "1", "--price", "3600 USD/h")
    COST.validate(found)
    assert found["output"]["usd"]["value"] == pytest.approx(1e6 * seen["time_s"] / 32)
    assert found["output"]["usd"]["high"] == pytest.approx(1e6 * seen["high_s"] / 32)
    assert found["written"]["kind"] == "estimate"
    assert found["fleet"]["watts_per_device"] == 700
    assert found["input"] is None
    assert "input" in found["unavailable"]


def test_serving_picks_the_cheapest_batch_that_keeps_the_target(report: Answer) -> None:
    arguments = (
        "cost",
        "serving",
        "qwen3_8b_decode",
        "--set",
        "batch=1..256:x2",
        "--tokens",
        "batch",
        "--devices",
        "1",
        "--price",
        "2.5/h",
    )
    within = report(*arguments, "--tpot", "20 ms")
    COST.validate(within)
    allowed = [p for p in within["points"] if p["step_s"]["value"] <= 0.02 and p["fits"]]
    assert within["best"] == min(allowed, key=lambda p: p["usd_per_million"]["value"])
    assert within["best"]["batch"] == 32
    assert report(*arguments, "--tpot", "1 ms")["best"] is None


def test_a_plan_s_report_knows_its_devices_tokens_and_failures(run: Run, report: Answer, tmp_path: Path) -> None:
    """Llama 3 405B at the 400 TFLOP/s of its authors: devices, rate and time between failures come from the report and its cluster."""
    path = str(tmp_path / "plan.json")
    plan = "tp=8,pp=16,dp=128,virtual=8,zero=2,sp,uneven"
    sizes = ("--set", "batch=2048", "--set", "seq=8192", "--achieved", "400 TFLOP/s")
    run("plan", "llama-3.1-405b", "-C", "llama3-24k", "--phase", "train", "--devices", "16384", "--plan", plan, *sizes, "-o", path)
    made = json.loads(Path(path).read_text(encoding="utf-8"))
    found = report("cost", "run", path, "--total-tokens", "15.6T", "--price", "2/h", "--restart", "10 min", "--checkpoint", "3 s")
    assert found["fleet"]["devices"] == 16384
    assert found["fleet"]["watts_per_device"] == 700
    assert found["without_failures_s"]["value"] == pytest.approx(15.6e12 / 2048 / 8192 * made["time"]["step_s"])
    assert found["goodput"]["job_mtbf_s"] == pytest.approx(54 * 86400 / 419)
    assert found["throughput"]["kind"] == made["time"]["kind"] == "rate"
    assert "states no price" in run("cost", "run", path, "--total-tokens", "15.6T", code=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        RUN,
        (*RUN, "-H", "llama3-24k", "--restart", "10 min", "--checkpoint", "30 s"),
        (*FAIL, "--job-mtbf", "3.09 h", "--restart", "10 min", "--checkpoint-size", "5.7 TB", "--storage", "2 TB/s"),
        ("optimal", "--flop", "5.76e23"),
        ("optimal", "--devices", "16384", "--time", "54 days", "--achieved", "400 TFLOP/s", "--tokens-per-parameter", "38.5"),
    ],
)  # fmt: skip
def test_json_is_what_the_schema_says(report: Answer, arguments: tuple[str, ...]) -> None:
    COST.validate(report("cost", *arguments))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "--total-tokens"),
        (("run", "--total-tokens", "1T", "--devices", "8", "--price", "1/h"), "give one of a report"),
        (("run", "--total-tokens", "1T", "--step-time", "1 s", "--devices", "8", "--price", "1/h"), "--tokens 16M"),
        (("run", "--total-tokens", "1T", "--tokens-per-s", "5", "--devices", "8", "--price", "2.5"), "--price"),
        (("run", "--total-tokens", "1T", "--tokens-per-s", "5", "--price", "1/h"), "give --devices"),
        (("tokens", "--output-tokens-per-s", "x", "--devices", "1", "--price", "1/h"), "--output-tokens-per-s"),
        (("tokens", "--price", "1/h"), "give what reads tokens"),
        (("tokens", "--output-tokens-per-s", "5", "--devices", "1", "--price", "1/h", "--blend", "3"), "--blend"),
        (("failures", "--restart", "1 min"), "--devices"),
        (("failures", "--devices", "8", "--restart", "1 min", "--checkpoint", "1 s"), "--mtbf"),
        (("failures", "--devices", "8", "--mtbf", "5 weeks", "--restart", "1 min", "--checkpoint", "1 s"), "unit of time"),
        (("failures", "--devices", "8", "--mtbf", "5 h", "--checkpoint", "1 s"), "--restart"),
        (("failures", "--devices", "8", "--mtbf", "5 h", "--restart", "1 s"), "--checkpoint"),
        (("failures", "--devices", "8", "--mtbf", "5 h", "--checkpoint", "1 s", "--checkpoint-size", "5 TB"), "not both"),
        (("optimal",), "--flop"),
        (("optimal", "--flop", "1e20", "--devices", "8"), "--flop"),
        ((*SERVE, "--devices", "1"), "--tokens"),
        ((*SERVE, "--tokens", "batch"), "--devices"),
        ((*SERVE, "--tokens", "batch", "--devices", "1", "--ttft", "1 s"), "--prefill"),
        ((*SERVE, "--tokens", "batch", "--devices", "1", "--set", "context=1,2"), "varies one thing"),
    ],
)  # fmt: skip
def test_what_is_missing_is_asked_for(run: Run, arguments: tuple[str, ...], said: str) -> None:
    result = run("cost", *arguments, code=2)
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(("text", "seconds"), [("2500 us", 2.5e-3), ("2500 µs", 2.5e-3), ("2500 \u03bcs", 2.5e-3), ("1.5 d", 129600.0)])
def test_times_are_read_in_small_and_in_large_units(text: str, seconds: float) -> None:
    assert duration_s(text, "--tpot") == pytest.approx(seconds, rel=1e-15)


def test_one_batch_has_its_cost_as_one_of_several(report: Answer) -> None:
    paid = ("--tokens", "batch", "--devices", "1", "--price", "2.5/h")
    several = report("cost", *SERVE, *paid)["points"]
    (alone,) = report("cost", "serving", SERVE[1], "--set", f"batch={several[0]['batch']:g}", *paid)["points"]
    assert alone == several[0]
