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
