"""No. 25 and No. 2: warnings have codes, go to stderr, may be ignored one by one, and may be fatal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roofline.predict.estimate.base import Terms
from roofline.predict.estimate.catalog import MODELS
from tests.cli.conftest import WORKLOAD, Process, Run

PLAIN = WORKLOAD.partition("expect:")[0]
CAUSES = {
    "W001": PLAIN.replace("hardware: h100-sxm\n", ""),
    "W002": PLAIN.replace("batch: 8,", "batch: 4096,"),
    "W003": PLAIN.replace("dtype: bf16\n", "dtype: bf16\ntraffic: tiled\n"),
    "W004": PLAIN.replace("repeat: 24", "repeat: 24\n    measured: 1 ns"),
    "W005": PLAIN.replace("dtype: bf16\n", "dtype: bf16\ntraffic: tiled\n"),
    "W006": "schema: 1\nhardware: h200-sxm\ndtype: bf16\nsteps: [{op: elementwise, function: relu, elements: 250000000}]\n",
}
"""A workload for each code that `analyze` may say; W006 needs parameters that are wrong as well."""


@pytest.fixture(params=CAUSES)
def code(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A code, with ``warned.yaml`` that causes its warning."""
    if request.param == "W006":
        model = type(MODELS["Stream"])
        monkeypatch.setattr(model, "terms", lambda *_: Terms(1e-9, {"fixed": 0.0, "memory": 1e-9, "compute": 0.0}))
    (folder / "warned.yaml").write_text(CAUSES[request.param], encoding="utf-8")
    return str(request.param)


def test_a_warning_has_its_code(run: Run, code: str) -> None:
    result = run("analyze", "warned.yaml")
    assert result.exit_code == 0
    assert f"warning {code}: " in result.stderr
    assert "warning" not in result.stdout


def test_quiet_changes_no_result(run: Run, code: str) -> None:
    loud, quiet = run("analyze", "warned.yaml", "--format", "json"), run("analyze", "warned.yaml", "--format", "json", "-q")
    assert (quiet.stdout, quiet.stderr) == (loud.stdout, "")
    assert f'"code": "{code}"' in loud.stdout


def test_a_warning_may_be_ignored(run: Run, code: str) -> None:
    """By its own code only; the report keeps it."""
    other = "W020"
    assert f"warning {code}" not in run("analyze", "warned.yaml", "--ignore", code).stderr
    assert f"warning {code}" in run("analyze", "warned.yaml", "--ignore", other).stderr
    assert f'"code": "{code}"' in run("analyze", "warned.yaml", "--ignore", code, "--format", "json").stdout


def test_a_warning_may_be_fatal(run: Run, code: str) -> None:
    """With its result on stdout all the same, and even where it is not said."""
    strict = run("analyze", "warned.yaml", "--strict")
    assert strict.exit_code == 1
    said = sorted(set(re.findall(r"W\d{3}", strict.stderr)))
    assert re.search(rf"^error: --strict: .*\b{code}\b", strict.stderr, re.MULTILINE)
    assert strict.stdout == run("analyze", "warned.yaml").stdout
    assert run("analyze", "warned.yaml", "--strict", "-q").exit_code == 1
    assert run("analyze", "warned.yaml", "--strict", *(w for c in said for w in ("--ignore", c))).exit_code == 0


def test_without_a_warning_strict_changes_nothing(run: Run) -> None:
    strict = run("analyze", "w.yaml", "--strict")
    assert (strict.exit_code, strict.stderr) == (0, "")


@pytest.mark.parametrize("word", ["W1", "w001", "all", ""])
def test_what_is_no_code_is_refused(run: Run, word: str) -> None:
    result = run("analyze", "w.yaml", "--ignore", word)
    assert result.exit_code == 2
    assert "is not the code of a warning such as W006" in result.stderr.replace("\n", " ")


def test_codes_may_be_ignored_by_the_settings(process: Process, folder: Path) -> None:
    (folder / "warned.yaml").write_text(CAUSES["W001"], encoding="utf-8")
    (folder / "roofline.toml").write_text('ignore = ["W001"]\n', encoding="utf-8")
    assert process("analyze", "warned.yaml").stderr == ""
