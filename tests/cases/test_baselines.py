"""A baseline that lacks a row, or is lacking itself, is never "no regression" (case C12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def pair(run: Any, tmp_path: Path) -> tuple[str, str]:
    """Reports of three measured rows, of which one is renamed."""
    paths = (str(tmp_path / "base.json"), str(tmp_path / "head.json"))
    for path, name in zip(paths, ("rows_base.yaml", "rows_head.yaml"), strict=True):
        run("analyze", name, "-o", path)
    return paths


def changed(path: str, change: Any) -> str:
    """A copy of the report beside it, changed."""
    report = json.loads(Path(path).read_text())
    change(report)
    other = Path(path).with_name("changed.json")
    other.write_text(json.dumps(report))
    return str(other)


def test_counts_are_2_1_1_and_the_mean_covers_what_was_compared(report: Any, pair: tuple[str, str]) -> None:
    found = report("diff", *pair)
    assert (found["compared"], found["removed"], found["added"]) == (2, ["softmax"], ["softmax_v2"])
    assert [r["id"] for r in found["rows"]] == ["gemm", "rope"]
    assert found["geomean_time_ratio"] == pytest.approx(1)


def test_removed_and_added_rows_are_in_the_first_lines(run: Any, pair: tuple[str, str]) -> None:
    lines = run("diff", *pair).stdout.splitlines()
    assert "compared 2 (0 changed), removed 1, added 1" in lines[0]
    assert lines[1:3] == ["removed: softmax", "added: softmax_v2"]
    assert lines[-1].endswith("geometric mean of 2 time ratios: 1.000")


def test_exit_codes_tell_no_gate_a_missing_row_and_a_missing_baseline_apart(run: Any, pair: tuple[str, str]) -> None:
    run("diff", *pair, code=0)
    run("diff", *pair, "--fail-on", "missing", code=1)
    run("diff", "no-such-baseline.json", pair[1], code=3)


def test_a_missing_baseline_has_its_own_message(run: Any, pair: tuple[str, str]) -> None:
    result = run("diff", "no-such-baseline.json", pair[1], code=3)
    assert "no baseline" in result.stderr
    assert result.stdout == ""


def test_a_missing_baseline_passes_only_when_allowed(run: Any, pair: tuple[str, str]) -> None:
    result = run("diff", "no-such-baseline.json", pair[1], "--allow-missing-baseline")
    assert "nothing was compared" in result.stderr


def test_a_missing_head_is_bad_input(run: Any, pair: tuple[str, str]) -> None:
    run("diff", pair[0], "no-such-head.json", code=2)


def test_a_gate_on_a_renamed_row_fails(run: Any, pair: tuple[str, str]) -> None:
    result = run("diff", *pair, "--fail-on", "softmax.measured.time_s>+5%", code=1)
    assert "softmax is missing" in result.stderr


def test_a_gate_on_a_row_that_never_was_is_a_mistake(run: Any, pair: tuple[str, str]) -> None:
    assert "softmax" in run("diff", *pair, "--fail-on", "sofmax.measured.time_s>+5%", code=2).stderr


def test_added_rows_can_fail_too(run: Any, pair: tuple[str, str]) -> None:
    run("diff", *pair, "--fail-on", "added", code=1)


def rename_all(report: Any) -> None:
    for row in report["rows"]:
        row["id"] += "_v2"


@pytest.mark.parametrize("change", [rename_all, lambda r: r["rows"].clear()], ids=["all renamed", "all removed"])
@pytest.mark.parametrize("swap", [False, True], ids=["head", "base"])
def test_nothing_compared_is_not_a_pass(run: Any, pair: tuple[str, str], change: Any, swap: bool) -> None:
    reports = [pair[0], changed(pair[0], change)]
    result = run("diff", *(reversed(reports) if swap else reports), code=3)
    assert "nothing was compared" in result.stderr
    assert result.stdout == ""


def test_two_empty_reports_are_not_equal(run: Any, pair: tuple[str, str]) -> None:
    empty = changed(pair[0], lambda r: r["rows"].clear())
    run("diff", empty, empty, code=3)


def test_rows_that_share_an_id_are_refused(run: Any, pair: tuple[str, str]) -> None:
    twice = changed(pair[0], lambda r: r["rows"].append(r["rows"][0]))
    assert "gemm" in run("diff", pair[0], twice, code=2).stderr


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": 1}', '{"schema": 1, "rows": 3}', "not json"])
@pytest.mark.parametrize("swap", [False, True], ids=["head", "base"])
def test_a_damaged_report_is_bad_input_on_either_side(run: Any, pair: tuple[str, str], tmp_path: Path, text: str, swap: bool) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text(text)
    reports = [pair[0], str(damaged)]
    result = run("diff", *(reversed(reports) if swap else reports), code=2)
    assert "damaged.json" in result.stderr


def slower(report: Any) -> None:
    report["rows"][0]["measured"]["time_s"] *= 1.3
    report["totals"]["measured"]["time_s"] += 0.3e-3


def test_a_slower_measured_row_fails_its_gate_and_is_explained(run: Any, pair: tuple[str, str]) -> None:
    result = run("diff", pair[0], changed(pair[0], slower), "--fail-on", "row.measured.time_s>+5%", code=1)
    assert "gemm.measured.time_s: 0.001 -> 0.0013 (+30.0 %)" in result.stderr
    assert "gemm: only the measured time changed" in result.stdout


def unmeasured(report: Any) -> None:
    for row in report["rows"]:
        row["measured"] = None


def test_rows_that_lost_their_measurement_do_not_pass_its_gate(run: Any, pair: tuple[str, str]) -> None:
    result = run("diff", pair[0], changed(pair[0], unmeasured), "--fail-on", "row.measured.time_s>+5%", code=1)
    assert "gemm.measured.time_s has no value to compare" in result.stderr


def test_a_gate_on_a_figure_that_no_row_has_does_not_pass(run: Any, pair: tuple[str, str]) -> None:
    both = changed(pair[0], unmeasured)
    assert "no row has" in run("diff", both, both, "--fail-on", "row.measured.time_s>+5%", code=1).stderr


def test_a_row_measured_on_one_side_only_is_named(report: Any, pair: tuple[str, str]) -> None:
    found = report("diff", pair[0], changed(pair[0], unmeasured))
    assert found["context"] == ["measured in the base only, so compared by the bound: gemm, softmax, rope"]
