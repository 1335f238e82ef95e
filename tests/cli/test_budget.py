"""`roofline budget`: the assertions of workload files, for commits and pull requests."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .conftest import WORKLOAD, Run


@pytest.fixture
def files(folder: Path) -> Path:
    """A workload that keeps its budget, one that does not, and one without."""
    (folder / "bad.yaml").write_text(WORKLOAD + "  total.bound.time_s: <= 1 us\n", encoding="utf-8")
    (folder / "none.yaml").write_text(WORKLOAD.partition("expect:")[0], encoding="utf-8")
    return folder


def test_what_holds_is_exit_0_with_the_count_first(run: Run, files: Path) -> None:
    result = run("budget", "w.yaml", "none.yaml")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "1 of 1 assertions hold; 1 of 2 files without 'expect'",
        "w.yaml:22: ok: attention.bound.limiter == hbm: holds (it is hbm)",
    ]


def test_what_does_not_hold_is_exit_1_with_its_line_and_value(run: Run, files: Path) -> None:
    result = run("budget", "w.yaml", "bad.yaml")
    assert result.exit_code == 1
    assert result.stdout.startswith("2 of 3 assertions hold\n")
    assert "bad.yaml:23: FAILED: total.bound.time_s <= 1 us: does not hold (it is " in result.stdout


def test_quiet_names_the_broken_ones_only(run: Run, files: Path) -> None:
    assert [line.partition(":")[0] for line in run("-q", "budget", "bad.yaml").stdout.splitlines()[1:]] == ["bad.yaml"]


def test_a_device_and_a_change_may_be_given(run: Run, files: Path) -> None:
    """Flash attention is no longer bound by memory."""
    assert run("budget", "w.yaml", "--set", "attention.implementation=flash").exit_code == 1


def test_json_and_junit_say_the_same(run: Run, files: Path) -> None:
    found = json.loads(run("budget", "bad.yaml", "--format", "json").stdout)
    assert [(f["rule"], f["held"], f["line"]) for f in found] == [
        ("attention.bound.limiter == hbm", True, 22),
        ("total.bound.time_s <= 1 us", False, 23),
    ]
    root = ElementTree.fromstring(run("budget", "bad.yaml", "--format", "junit").stdout)
    assert [(c.get("name"), len(c)) for c in root.iter("testcase")] == [(f["rule"], int(not f["held"])) for f in found]


def test_all_files_that_cannot_be_read_are_told_at_once(run: Run, files: Path) -> None:
    (files / "x.yaml").write_text("schema: 2\n", encoding="utf-8")
    result = run("budget", "x.yaml", "gone.yaml")
    assert result.exit_code == 2
    assert "x.yaml:1:" in result.stderr
    assert "gone.yaml: no such file" in result.stderr


def test_an_assertion_that_names_nothing_is_an_error(run: Run, files: Path) -> None:
    (files / "x.yaml").write_text(WORKLOAD.replace("attention.bound.limiter", "atention.bound.limiter"), encoding="utf-8")
    result = run("budget", "x.yaml")
    assert result.exit_code == 2
    assert "did you mean 'attention'" in result.stderr


def test_what_needs_a_device_is_refused_where_none_is_named(run: Run, folder: Path) -> None:
    """Nothing failed: nothing could be told. What needs none is still held, and a device makes the same file a budget."""
    text = WORKLOAD.replace("hardware: h100-sxm\n", "")
    (folder / "free.yaml").write_text(text + "  total.memory.fits: true\n", encoding="utf-8")
    result = run("budget", "free.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        f"free.yaml: expect, line {line}: {path}: no hardware profile was named; add -H NAME"
        for line, path in ((21, "attention.bound.limiter"), (22, "total.memory.fits"))
    ]
    assert run("budget", "free.yaml", "-H", "h100-sxm").exit_code == 0
    assert run("analyze", "free.yaml", "--check").exit_code == 2
    (folder / "flop.yaml").write_text(text.partition("expect:")[0] + "expect: {qkv.flop.tensor: <= 1 TFLOP}\n", encoding="utf-8")
    assert run("budget", "flop.yaml").exit_code == 0


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("total.bound.time_s: <= 1e400 s", "'1e400 s' is out of range"),
        ("total.kernels: 1e999", "'1e999' is out of range"),
        ("qkv.bound.limiter: < hbm", "'hbm' cannot be compared with '<'"),
        ("total.bound.time_s: <= 5 parsec", "'5 parsec' cannot be compared with '<='"),
    ],
)
def test_validate_refuses_what_no_budget_can_hold(run: Run, folder: Path, said: str, why: str) -> None:
    """With the place, before anything is worked out; `budget` says the same."""
    (folder / "wrong.yaml").write_text(f"{WORKLOAD}  {said}\n", encoding="utf-8")
    for command in ("validate", "budget"):
        result = run(command, "wrong.yaml")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"wrong.yaml:23:{said.index(':') + 5}: {why}")
