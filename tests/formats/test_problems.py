"""Problems of files for tools that show them beside the line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.errors import Problem
from roofline.report.formats.problems import MOST_ANNOTATIONS, to_github, to_gitlab, to_sarif

BAD = "schema: 1\nsteps: [{op: gmm, m: 1}]\ndtpe: x\n"
ONE = Problem("a b/w.yaml", 3, 5, "unknown key 'x'", "  x: 1")


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a workload with two mistakes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text(BAD, encoding="utf-8")
    return tmp_path


def test_sarif_holds_every_problem_at_its_place(bad: Path, schema: Callable[[str], Any]) -> None:
    result = CliRunner().invoke(app, ["validate", "bad.yaml", "--format", "sarif"])
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    jsonschema.validate(found, schema("sarif-subset"))
    regions = [r["locations"][0]["physicalLocation"] for r in found["runs"][0]["results"]]
    assert [(r["artifactLocation"]["uri"], r["region"]["startLine"], r["region"]["startColumn"]) for r in regions] == [
        ("bad.yaml", 2, 14),
        ("bad.yaml", 3, 1),
    ]
    assert "bad.yaml:2:14: " in result.stderr


def test_the_schema_refuses_what_sarif_refuses(schema: Callable[[str], Any]) -> None:
    for broken in ({"version": "2.0.0", "runs": []}, {"version": "2.1.0", "runs": [{"results": []}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema("sarif-subset"))


def test_a_path_becomes_a_uri_and_a_whole_file_has_no_region(schema: Callable[[str], Any]) -> None:
    found = json.loads(to_sarif([ONE, Problem("w.yaml", 0, 0, "no such file")], "roofline 1.2.3"))
    jsonschema.validate(found, schema("sarif-subset"))
    first, second = (r["locations"][0]["physicalLocation"] for r in found["runs"][0]["results"])
    assert first["artifactLocation"]["uri"] == "a%20b/w.yaml"
    assert "region" not in second
    assert found["runs"][0]["tool"]["driver"]["version"] == "1.2.3"


def test_a_problem_that_moved_is_the_same_one() -> None:
    """The line number is no part of the fingerprint; message, file and text of the line are."""
    moved, other = Problem("a b/w.yaml", 9, 5, ONE.message, "  x: 1"), Problem("a b/w.yaml", 3, 5, ONE.message, "  x: 2")
    prints = [json.loads(to_gitlab([p]))[0]["fingerprint"] for p in (ONE, moved, other)]
    assert prints[0] == prints[1] != prints[2]


def test_no_problem_is_a_log_without_results_and_exit_0(bad: Path) -> None:
    (bad / "bad.yaml").write_text("schema: 1\ndtype: bf16\nsteps: [{op: gemm, m: 1, n: 1, k: 1}]\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", "bad.yaml", "--format", "sarif"])
    assert (result.exit_code, json.loads(result.stdout)["runs"][0]["results"]) == (0, [])


def test_github_annotates_the_line(bad: Path) -> None:
    lines = CliRunner().invoke(app, ["validate", "bad.yaml", "--format", "github"]).stdout.splitlines()
    assert lines[0].startswith("::error file=bad.yaml,line=2,col=14::unknown operator 'gmm'")
    assert len(lines) == 2


def test_github_shows_ten_and_says_how_many_more() -> None:
    lines = to_github([Problem("w.yaml", i + 1, 1, "wrong") for i in range(25)]).splitlines()
    assert len(lines) == MOST_ANNOTATIONS + 1
    assert lines[-1] == "::notice::15 more problems are in the log"


@given(path=st.text(min_size=1, max_size=20), message=st.text(min_size=1, max_size=40))
def test_no_text_of_a_file_starts_a_command(path: str, message: str) -> None:
    """One line a problem, whatever is in it; and what was escaped comes back as the runner unescapes it."""
    text = to_github([Problem(path, 1, 1, message)])
    assert text.count("\n") == 1
    assert text.startswith("::error file=")
    inner = text.removeprefix("::error ").split("::", 1)[0]
    assert inner.count(",") == 2
    assert inner.removeprefix("file=").split(",")[0].count(":") == 0


def test_what_has_a_meaning_in_a_command_is_escaped() -> None:
    text = to_github([Problem("a:b,c%.yaml", 1, 2, "50% of\nit: a, b")])
    assert text == "::error file=a%3Ab%2Cc%25.yaml,line=1,col=2::50%25 of%0Ait: a, b\n"


def test_gitlab_has_what_its_code_quality_needs(bad: Path) -> None:
    found = json.loads(CliRunner().invoke(app, ["validate", "bad.yaml", "--format", "gitlab"]).stdout)
    for entry in found:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert entry["location"]["lines"]["begin"] >= 1
    assert [e["location"]["path"] for e in found] == ["bad.yaml"] * 2


def test_junit_names_good_and_bad_files(bad: Path) -> None:
    (bad / "good.yaml").write_text("schema: 1\ndtype: bf16\nsteps: [{op: gemm, m: 1, n: 1, k: 1}]\n", encoding="utf-8")
    text = CliRunner().invoke(app, ["validate", "bad.yaml", "good.yaml", "--format", "junit"]).stdout
    assert 'tests="2" failures="1"' in text


def test_a_settings_file_is_validated_too(bad: Path) -> None:
    (bad / "roofline.toml").write_text('color = "sometimes"\n', encoding="utf-8")
    result = CliRunner().invoke(app, ["validate", "roofline.toml", "--format", "github"])
    assert result.stdout == "::error file=roofline.toml,line=1,col=1::color: expected one of auto, always, never\n"
