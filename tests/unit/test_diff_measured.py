"""Measured reports against each other: when they may be compared, what the verdict is, and what fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.errors import UsageError
from roofline.report.build import analyze
from roofline.report.diff import Diff, compare
from roofline.report.diff_view import measured_columns, verdict, why_lines
from roofline.report.formats.comment import to_markdown
from roofline.report.gates import STRICT, judge
from roofline.report.measured import MeasuredChange, judge_measured
from roofline.report.model import MeasuredResult, Report, Row
from roofline.report.store import load_report, to_json
from roofline.spec.hardware import load_hardware
from roofline.spec.source import Source
from roofline.spec.workload import read_workload

TEXT = """\
schema: 1
name: block
dtype: bf16
steps:
  - {id: qkv, op: gemm, m: 8192, n: 3072, k: 1024}
  - {id: attention, op: attention, batch: 8, heads: 16, q_len: 1024, kv_len: 1024, head_dim: 64, implementation: flash}
  - {id: norm, op: layernorm, rows: 8192, cols: 1024}
"""
CONDITIONS = {"device": "NVIDIA H100 80GB HBM3", "kernel": "gemm", "cache": "cold", "launch": "graph", "mode": "burst"}
TIMES = {"qkv": 90e-6, "attention": 150e-6, "norm": 12e-6}
COMPUTE, MEMORY = "qkv", "norm"


def timed(
    seconds: float, seed: int, *, slower: float = 1.0, rounds: int = 10, noise: float = 0.005, each: int = 10, **changes: Any
) -> MeasuredResult:
    """A measurement with as much noise between blocks as within them."""
    rng = np.random.default_rng(seed)
    logs = np.repeat(rng.normal(0, noise, rounds), each) + rng.normal(0, noise, rounds * each)
    samples = tuple(float(s) for s in seconds * slower * np.exp(logs))
    labels = tuple(i // each for i in range(rounds * each))
    given = {
        "samples_s": samples,
        "blocks": labels,
        "conditions": CONDITIONS,
        "clocks": {"sm_mhz_median": 1755.0},
        "time_s": float(np.median(samples)),
    }
    return MeasuredResult(source="roofline measure", **{**given, **changes})


def plain(*overrides: str, device: str = "h100-sxm", text: str = TEXT) -> Report:
    return analyze(read_workload(Source("w.yaml", text), overrides), load_hardware(device))


def measured(seed: int, change: Callable[[str], dict[str, Any]] = lambda name: {}, whole: Report | None = None, **every: Any) -> Report:
    """All rows measured; ``change`` gives what is special about a row by its id."""
    report = whole or plain()
    rows = tuple(replace(r, measured=timed(TIMES[r.id], seed + i, **{**every, **change(r.id)})) for i, r in enumerate(report.rows))
    return replace(report, rows=rows)


def only(name: str, **what: Any) -> Callable[[str], dict[str, Any]]:
    return lambda row: what if row == name else {}


def between(base: Report, head: Report, **options: Any) -> Diff:
    return compare(base, head, "base.json", "head.json", **options)


def result(found: Diff, name: str) -> MeasuredChange:
    (change,) = (r.measured for r in found.rows if r.id == name)
    assert change is not None
    return change


def verdicts(found: Diff) -> dict[str, str]:
    return {r.id: r.measured.verdict for r in found.rows if r.measured}


# --------------------------------------------------------------------------- verdicts
def test_the_same_code_measured_twice_is_the_same() -> None:
    found = between(measured(1), measured(50))
    assert set(verdicts(found).values()) == {"same"}
    assert found.measured is not None
    assert found.measured.verdicts == {"same": 3}
    assert {r.status for r in found.rows} == {"same"}


@pytest.mark.parametrize(("slower", "verdict"), [(1.08, "worse"), (1 / 1.08, "better")])
def test_a_change_of_one_row_is_told_for_that_row_alone(slower: float, verdict: str) -> None:
    found = between(measured(1), measured(50, only(MEMORY, slower=slower)))
    assert verdicts(found) == {"qkv": "same", "attention": "same", "norm": verdict}
    change = result(found, MEMORY)
    assert change.low is not None
    assert change.high is not None
    assert change.low < slower < change.high
    assert change.p is not None
    assert change.p < 0.01


def test_a_change_within_the_tolerance_is_the_same_and_the_tolerance_is_the_users() -> None:
    base, head = measured(1, noise=0.002), measured(50, noise=0.002, slower=1.02)
    assert set(verdicts(between(base, head)).values()) == {"same"}
    assert set(verdicts(between(base, head, tolerance=0.01)).values()) <= {"worse", "clock"}
    assert verdicts(between(base, head, tolerance=0.01))[MEMORY] == "worse"


def test_an_interval_across_the_tolerance_is_unclear_and_says_how_many_blocks_would_settle_it() -> None:
    change = result(between(measured(1, noise=0.01), measured(50, noise=0.01, slower=1.04)), MEMORY)
    assert change.verdict == "unclear"
    assert change.needed_blocks is not None
    assert change.needed_blocks > change.blocks == 10
    assert f"about {change.needed_blocks} blocks a side" in change.reason
    more = change.needed_blocks * 2
    assert (
        result(between(measured(1, noise=0.01, rounds=more), measured(50, noise=0.01, rounds=more, slower=1.04)), MEMORY).verdict == "worse"
    )


def test_noise_between_blocks_raises_the_tolerance_of_that_row_alone() -> None:
    found = between(measured(1, only(MEMORY, noise=0.06)), measured(50, only(MEMORY, noise=0.06)))
    noisy, quiet = result(found, MEMORY), result(found, COMPUTE)
    assert noisy.tolerance is not None
    assert noisy.tolerance > 0.04
    assert quiet.tolerance == 0.03
    assert "the noise between blocks" in noisy.reason


def test_the_detectable_change_grows_with_noise_and_starts_at_the_tolerance() -> None:
    quiet = result(between(measured(1, noise=1e-5), measured(50, noise=1e-5)), MEMORY).detectable
    noisy = result(between(measured(1, noise=0.01), measured(50, noise=0.01)), MEMORY).detectable
    assert quiet == pytest.approx(0.03, abs=1e-3)
    assert noisy is not None
    assert noisy > 0.035


def test_many_rows_raise_the_bar_for_each() -> None:
    """One of five blocks against five reaches p = 0.008 alone, and not beside another row that is as sure."""
    base, head = measured(1, rounds=6, noise=0.001), measured(50, rounds=6, noise=0.001)
    head = replace(head, rows=tuple(replace(r, measured=timed(TIMES[r.id], 9, rounds=6, noise=0.001, slower=1.06)) for r in head.rows))
    alone, _ = judge_measured([(base.rows[2], head.rows[2])])
    together, _ = judge_measured(list(zip(base.rows, head.rows, strict=True)))
    assert alone["norm"].p == pytest.approx(2 / 924)
    assert together["norm"].p == pytest.approx(3 * 2 / 924)


def test_what_the_rank_test_could_reach_but_did_not_is_unclear() -> None:
    """Two of eleven blocks of the base were slower than all of the head: rare enough for the interval, not for the ranks."""

    def side(levels: list[float]) -> Row:
        samples = tuple(12e-6 * (level + 1e-5 * i + 1e-6 * j) for i, level in enumerate(levels) for j in range(8))
        middle = float(np.median(samples))
        return replace(plain().rows[2], measured=timed(1, 0, samples_s=samples, blocks=tuple(i // 8 for i in range(88)), time_s=middle))

    found, _ = judge_measured([(side([1.0] * 9 + [1.2] * 2), side([1.1] * 11))])
    assert found["norm"].low is not None
    assert found["norm"].low > 1.03
    assert found["norm"].verdict == "unclear"
    assert "it may be chance" in found["norm"].reason


def test_few_blocks_that_lie_wholly_apart_are_enough() -> None:
    found = between(measured(1, rounds=4, noise=0.001), measured(50, rounds=4, noise=0.001, slower=1.06))
    assert verdicts(found)[MEMORY] == "worse"
    assert "every block beyond every block" in result(found, MEMORY).reason


def test_samples_without_blocks_are_judged_by_runs_of_them() -> None:
    def without(report: Report) -> Report:
        return replace(report, rows=tuple(replace(r, measured=replace(r.measured, blocks=None)) for r in report.rows if r.measured))

    found = between(without(measured(1)), without(measured(50, slower=1.08)))
    assert verdicts(found)[MEMORY] == "worse"


def test_drift_within_a_measurement_is_no_change() -> None:
    """A device that heats up by 3 % during each run: samples differ for sure, the code does not."""
    drift = np.repeat(np.linspace(0, 0.03, 10), 10)

    def drifting(seed: int) -> Row:
        rng = np.random.default_rng(seed)
        samples = tuple(float(s) for s in 12e-6 * np.exp(drift + rng.normal(0, 0.002, 100)))
        return replace(plain().rows[2], measured=timed(12e-6, 0, samples_s=samples, time_s=float(np.median(samples))))

    found, _ = judge_measured([(drifting(1), drifting(2))])
    assert found["norm"].verdict in ("same", "unclear")


def test_the_verdict_of_a_row_does_not_depend_on_the_order_of_rows() -> None:
    base, head = measured(1), measured(50, slower=1.035)
    turned = [replace(r, rows=r.rows[::-1]) for r in (base, head)]
    assert {r.id: r.measured for r in between(base, head).rows} == {r.id: r.measured for r in between(*turned).rows}


def test_a_geometric_mean_with_its_interval_is_given() -> None:
    found = between(measured(1), measured(50, slower=1.02)).measured
    assert found is not None
    assert found.ratio is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.02 < found.high
    assert found.rows == 3


def test_rows_are_resampled_independently_of_each_other() -> None:
    """Two rows with the very same samples: their mean has half the variance of each."""
    base, head = timed(12e-6, 1), timed(12e-6, 50)
    pairs = [(replace(r, measured=base), replace(r, measured=head)) for r in plain().rows[:2]]
    changes, both = judge_measured(pairs)
    assert both is not None
    assert both.high is not None
    assert both.low is not None
    one = changes["qkv"]
    assert one.high is not None
    assert one.low is not None
    assert both.high - both.low == pytest.approx((one.high - one.low) / 2**0.5, rel=0.1)


def test_a_measured_total_is_compared_with_a_measured_total_only() -> None:
    total = timed(1e-3, 1)
    base, head = measured(1), measured(50)
    whole = [
        replace(r, totals=replace(r.totals, measured=t)) for r, t in ((base, total), (head, replace(total, time_s=total.time_s * 1.02)))
    ]
    assert between(*whole).total_time_ratio == pytest.approx(1.02)
    assert "; total time +2.0 %" in verdict(between(*whole))
    assert between(whole[0], head).total_time_ratio == 1
    assert "; predicted total time unchanged" in verdict(between(whole[0], head))


# --------------------------------------------------------------------------- clocks
def test_a_lower_clock_explains_a_slower_compute_bound_row_but_no_memory_bound_one() -> None:
    head = measured(50, slower=1.1, clocks={"sm_mhz_median": 1755.0 / 1.1})
    found = between(measured(1), head)
    assert verdicts(found) == {"qkv": "clock", "attention": "clock", "norm": "worse"}
    assert "1755 to 1595 MHz" in result(found, COMPUTE).reason


def test_a_gap_in_cycles_too_is_worse() -> None:
    found = between(measured(1), measured(50, slower=1.1))
    assert verdicts(found)[COMPUTE] == "worse"
    assert "in cycles too" in result(found, COMPUTE).reason


def test_a_higher_clock_is_no_improvement_of_the_code() -> None:
    found = between(measured(1), measured(50, slower=1 / 1.1, clocks={"sm_mhz_median": 1755.0 * 1.1}))
    assert verdicts(found)[COMPUTE] == "clock"


def test_without_clocks_seconds_decide() -> None:
    assert verdicts(between(measured(1, clocks={}), measured(50, slower=1.1, clocks={})))[COMPUTE] == "worse"


@pytest.mark.parametrize(
    ("clocks", "verdict"), [({"sm_mhz_median": None}, "clock"), ({"sm_mhz_median": 1755.0}, "worse"), ({"sm_mhz_median": 1595.0}, "clock")]
)
def test_a_throttled_side_is_believed_in_cycles_only(clocks: dict[str, float | None], verdict: str) -> None:
    found = between(measured(1), measured(50, slower=1.1, status="throttled", clocks=clocks))
    assert verdicts(found)[MEMORY] == verdict
    assert "head throttled" in result(found, MEMORY).reason


# --------------------------------------------------------------------------- rates through the verdict
def test_of_200_repetitions_few_are_called_worse_and_most_slowdowns_of_5_percent_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline.report.statistics.DRAWS", 400)
    monkeypatch.setattr("roofline.report.statistics.effect.__kwdefaults__", {"draws": 400, "seed": (1,)})
    row, rng, pairs = plain().rows[2], np.random.default_rng(0), 200
    same = slower = 0
    for i in range(pairs):
        noise = float(rng.uniform(0.003, 0.01))
        base, again, slow = (
            replace(row, measured=timed(12e-6, 3 * i + j, noise=noise, slower=s, each=20)) for j, s in enumerate((1.0, 1.0, 1.05))
        )
        same += judge_measured([(base, again)])[0]["norm"].verdict == "worse"
        slower += judge_measured([(base, slow)])[0]["norm"].verdict == "worse"
    assert same <= 0.05 * pairs
    assert slower >= 0.9 * pairs


# --------------------------------------------------------------------------- comparability of rows
@pytest.mark.parametrize("key", ["cache", "launch", "mode"])
def test_a_row_run_in_another_way_has_no_ratio(key: str) -> None:
    found = between(measured(1), measured(50, only(MEMORY, conditions={**CONDITIONS, key: "other"})))
    change = result(found, MEMORY)
    assert (change.verdict, change.ratio, change.low) == ("not comparable", None, None)
    assert f"{key} {CONDITIONS[key]} -> other" in change.reason
    assert verdicts(found)[COMPUTE] == "same"


def test_a_row_with_other_fields_has_no_measured_ratio_and_keeps_the_predicted_one() -> None:
    head = measured(50, whole=plain("attention.heads=8"))
    found = between(measured(1), head)
    (row,) = (r for r in found.rows if r.id == "attention")
    assert row.measured is not None
    assert row.measured.verdict == "not comparable"
    assert "heads 16 -> 8" in row.measured.reason
    bounds = [r.row("attention") for r in (measured(1), head)]
    assert row.time_ratio == pytest.approx(bounds[1].bound.time_s / bounds[0].bound.time_s)  # type: ignore[union-attr]


def test_another_implementation_of_the_same_work_is_what_a_change_is_compared_for() -> None:
    head = measured(50, whole=plain("attention.implementation=naive"))
    (row,) = (r for r in between(measured(1), head).rows if r.id == "attention")
    assert row.measured is not None
    assert row.measured.ratio is not None
    assert "implementation flash -> naive" in row.measured.reason


def test_one_row_in_another_dtype_is_not_comparable_while_the_others_are() -> None:
    text = TEXT.replace("rows: 8192", "dtype: fp32, rows: 8192")
    found = between(measured(1), measured(50, whole=plain(text=text)))
    assert verdicts(found) == {"qkv": "same", "attention": "same", "norm": "not comparable"}


@pytest.mark.parametrize("status", ["oom", "failed", "invalid"])
def test_a_side_that_did_not_run_is_not_compared(status: str) -> None:
    found = between(measured(1), measured(50, only(MEMORY, status=status, time_s=0.0)))
    assert result(found, MEMORY).verdict == "not comparable"
    assert f"head is {status}" in result(found, MEMORY).reason


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"samples_s": None, "blocks": None}, "no samples in the head"),
        ({"samples_s": (1e-5, 1e-5), "blocks": None}, "2 samples in the head"),
        ({"samples_s": (1e-5, 0.0, 1e-5, 1e-5), "blocks": None}, "a sample of the head is not above 0"),
        ({"blocks": (1, 2)}, "100 samples and 2 block labels"),
    ],
)
def test_samples_that_cannot_be_judged_leave_the_row_unclear(change: dict[str, Any], why: str) -> None:
    found = result(between(measured(1), measured(50, only(MEMORY, **change))), MEMORY)
    assert found.verdict == "unclear"
    assert why in found.reason


# --------------------------------------------------------------------------- comparability of reports
OTHER = "NVIDIA H200"


def other_figures(report: Report) -> Report:
    assert report.hardware is not None
    levels = {**report.hardware["levels"], "hbm": {**report.hardware["levels"]["hbm"], "bandwidth": {"value": 3e12}}}
    return replace(report, hardware={**report.hardware, "levels": levels})


REFUSED = [
    (lambda: measured(50, conditions={**CONDITIONS, "device": OTHER}), f"measured on NVIDIA H100 80GB HBM3 -> {OTHER}"),
    (lambda: measured(50, whole=plain(text=TEXT.replace("bf16", "fp16"))), "measured in bf16 -> fp16"),
    (lambda: other_figures(measured(50)), "profile figure levels.hbm.bandwidth"),
    (lambda: measured(50, whole=plain(device="h200-sxm")), "hardware h100-sxm -> h200-sxm"),
]


@pytest.mark.parametrize(("head", "why"), REFUSED)
def test_reports_of_another_device_dtype_or_profile_are_refused(head: Callable[[], Report], why: str) -> None:
    with pytest.raises(UsageError) as caught:
        between(measured(1), head())
    assert why in str(caught.value)
    assert "--allow-context-change" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("head", "why"), REFUSED)
def test_with_the_flag_they_are_compared_and_the_first_line_says_so(head: Callable[[], Report], why: str) -> None:
    found = between(measured(1), head(), allow_context_change=True)
    assert verdict(found).startswith("NOT COMPARABLE, compared all the same: ")
    assert why in verdict(found)
    assert set(verdicts(found).values()) == {"same"}


def test_a_changed_profile_of_predicted_reports_is_only_told() -> None:
    found = between(plain(), other_figures(plain()))
    assert found.allowed == ()
    assert any(c.startswith("profile figure") for c in found.context)


# --------------------------------------------------------------------------- gates
def gates(found: Diff, base: Report, head: Report, *rules: str) -> dict[str, bool]:
    return {g.rule: g.held for g in judge(list(rules), found, base, head)}


@pytest.mark.parametrize(
    ("head", "regression", "unclear"),
    [
        (lambda: measured(50), True, True),
        (lambda: measured(50, slower=1.08), False, True),
        (lambda: measured(50, slower=1 / 1.08), True, True),
        (lambda: measured(50, noise=0.012, slower=1.03), True, False),
        (lambda: measured(50, only(COMPUTE, slower=1.1, clocks={"sm_mhz_median": 1595.0})), True, False),
        (lambda: measured(50, only(MEMORY, status="oom", time_s=0.0)), True, False),
    ],
)
def test_only_worse_fails_and_strict_fails_what_is_not_decided(head: Callable[[], Report], regression: bool, unclear: bool) -> None:
    base, judged = measured(1), head()
    found = gates(between(base, judged), base, judged, *STRICT)
    assert found == {"regression": regression, "unclear": unclear}


def test_a_gate_on_measurements_that_are_not_there_fails() -> None:
    assert gates(between(plain(), plain()), plain(), plain(), *STRICT) == {"regression": False, "unclear": False}


@pytest.mark.parametrize("change", [{"status": "oom"}, {"status": "failed"}])
def test_a_measurement_that_is_lost_is_missing(change: dict[str, Any]) -> None:
    base, head = measured(1), measured(50, only(MEMORY, **change))
    assert gates(between(base, head), base, head, "missing") == {"missing": False}
    assert gates(between(base, base), base, base, "missing") == {"missing": True}
    assert gates(between(base, plain()), base, plain(), "missing") == {"missing": False}


def test_noise_does_not_count_as_a_change() -> None:
    base, head = measured(1), measured(50, noise=0.02)
    assert gates(between(base, head), base, head, "changed") == {"changed": True}


# --------------------------------------------------------------------------- what is shown
def test_what_needs_a_look_comes_first_with_its_interval() -> None:
    found = between(measured(1), measured(50, only(MEMORY, slower=1.08)))
    columns = {c.heading: c.cells for c in measured_columns(found)}
    assert columns["measured"][0] == MEMORY
    assert columns["verdict"] == ("worse", "same", "same")
    assert columns["95 % interval"][0].startswith("+")
    assert columns["detectable"][0].endswith(" %")
    assert verdict(found).startswith("measured 1 worse, 2 same; ")
    assert any(w.startswith("norm: measured worse: beyond the tolerance of 3.0 %") for w in why_lines(found))
    assert "| `norm`" in to_markdown(found) or "| norm" in to_markdown(found)


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., list[str]]:
    def write(*reports: Report) -> list[str]:
        paths = [str(tmp_path / f"{i}.json") for i in range(len(reports))]
        for path, report in zip(paths, reports, strict=True):
            Path(path).write_text(to_json(report))
        return paths

    return write


@pytest.mark.parametrize(
    ("slower", "noise", "options", "code"),
    [
        (1.08, 0.005, [], 1),
        (1.08, 0.005, ["--tolerance", "15%"], 0),
        (1.08, 0.005, ["--fail-on", "regression"], 1),
        (1.08, 0.005, ["--strict"], 1),
        (1.08, 0.005, ["--strict", "--tolerance", "15%"], 0),
        (1 / 1.08, 0.005, ["--fail-on", "regression"], 0),
        (1.04, 0.02, ["--fail-on", "regression"], 0),
        (1.04, 0.02, ["--strict"], 1),
    ],
)
def test_the_exit_code_says_whether_it_got_worse(files: Any, slower: float, noise: float, options: list[str], code: int) -> None:
    base, head = files(measured(1, noise=noise), measured(50, noise=noise, slower=slower))
    assert CliRunner().invoke(app, ["diff", base, head, *options]).exit_code == code


def test_another_device_exits_with_2(files: Any) -> None:
    base, head = files(measured(1), measured(50, conditions={**CONDITIONS, "device": OTHER}))
    assert CliRunner().invoke(app, ["diff", base, head]).exit_code == 2
    allowed = CliRunner().invoke(app, ["diff", base, head, "--allow-context-change"])
    assert allowed.exit_code == 0
    assert allowed.stdout.splitlines()[0].startswith("NOT COMPARABLE, compared all the same: measured on ")


@pytest.mark.parametrize("text", ["3", "-1%", "100%", "nan", "x", "3 ms"])
def test_a_tolerance_that_is_no_share_is_refused(files: Any, text: str) -> None:
    base, head = files(plain(), plain())
    assert CliRunner().invoke(app, ["diff", base, head, "--tolerance", text]).exit_code == 2


def test_the_comparison_as_json_holds_the_interval_and_survives_a_round_trip_of_the_reports(files: Any) -> None:
    base, head = files(measured(1), measured(50, slower=1.08))
    assert load_report(base) == load_report(base)
    told = json.loads(CliRunner().invoke(app, ["diff", base, head, "--format", "json"]).stdout)
    row = next(r["measured"] for r in told["rows"] if r["id"] == MEMORY)
    assert row["verdict"] == "worse"
    assert row["low"] < row["ratio"] < row["high"]
    assert told["measured"]["verdicts"] == {"worse": 3}
