"""The fixtures that pytest finds by itself, in tests of a user."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import roofline
from roofline.library.budget import exceeded
from roofline.library.pytest_plugin import roofline_budget, roofline_profile

pytest_plugins = ["pytester"]
PLUGIN = "roofline.library.pytest_plugin"
INSTALLED = any(e.value == PLUGIN for e in entry_points(group="pytest11"))
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def _found_from_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def run(pytester: pytest.Pytester, test: str) -> pytest.RunResult:
    """The tests of a user in a process of their own, with the plugin as an installation brings it."""
    pytester.makepyfile(test_user=test)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *(() if INSTALLED else ("-p", PLUGIN)))


def test_a_budget_that_holds_passes_and_gives_the_report(pytester: pytest.Pytester) -> None:
    found = run(
        pytester,
        """
        def test_block(roofline_budget):
            report = roofline_budget("gpt2_medium", "h100-sxm", "total.bound.time_s <= 20 ms", "attention.bound.limiter == hbm")
            assert report.totals.kernels == 288
        """,
    )
    found.assert_outcomes(passed=1)


def test_what_is_exceeded_is_said_without_a_traceback(pytester: pytest.Pytester) -> None:
    found = run(
        pytester,
        """
        def test_block(roofline_budget):
            wanted = ("total.bound.time_s <= 10 ms", "total.kernels <= 300", "attention.bound.limiter != hbm")
            roofline_budget("gpt2_medium", "h100-sxm", *wanted)
        """,
    )
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["over budget:", "total.bound.time_s <= 10 ms: does not hold (it is 0.0182144)", "attention.bound.limiter*"])
    assert "total.kernels" not in found.stdout.str().split("over budget:")[1].split("short test summary")[0]
    assert "Traceback" not in found.stdout.str()


def test_a_baseline_and_rules(pytester: pytest.Pytester) -> None:
    base = roofline.analyze("gpt2_medium", "h100-sxm", overrides={"batch": 4})
    (pytester.path / "base.json").write_text(roofline.to_json(base), encoding="utf-8")
    found = run(
        pytester,
        """
        def test_block(roofline_budget):
            rules = ["total.bound.time_s>+2%"]
            roofline_budget("gpt2_medium", "h100-sxm", overrides={"batch": 4}, baseline="base.json", fail_on=rules)
            roofline_budget("gpt2_medium", "h100-sxm", baseline="base.json", fail_on=rules)
        """,
    )
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["total.bound.time_s>+2%: total.bound.time_s: * -> 0.0182144 (+*%)"])


def test_a_file_that_cannot_be_read_fails_with_its_place(pytester: pytest.Pytester) -> None:
    (pytester.path / "w.yaml").write_text("schema: 1\nsteps:\n  - {op: gem, m: 1}\n", encoding="utf-8")
    found = run(pytester, "def test_block(roofline_budget):\n    roofline_budget('w.yaml', 'h100-sxm', 'total.kernels <= 1')\n")
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["w.yaml:3:10: *gemm*"])


def test_the_expect_block_of_the_file_counts(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "schema: 1\nhardware: h100-sxm\ndtype: bf16\nsteps:\n  - {id: a, op: gemm, m: 8, n: 4096, k: 4096}\n"
        "expect: {a.bound.limiter: tensor}\n",
        encoding="utf-8",
    )
    report, broken = exceeded(tmp_path / "w.yaml")
    assert report.row("a")
    assert broken == ["a.bound.limiter == tensor: does not hold (it is hbm)"]


@pytest.mark.parametrize(
    ("given", "said"), [((), "nothing was checked"), (("20 ms",), "no assertion"), (("kernels <= 2",), "no assertion")]
)
def test_what_checks_nothing_is_refused(given: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("schema: 1\ndtype: bf16\nsteps:\n  - {op: gemm, m: 8, n: 8, k: 8}\n", encoding="utf-8")
    with pytest.raises(roofline.UsageError, match=said):
        exceeded(tmp_path / "w.yaml", "h100-sxm", *given)
    with pytest.raises(roofline.UsageError, match="both"):
        exceeded("gpt2_medium", "h100-sxm", fail_on=["5%"])


def test_pytest_finds_the_plugin() -> None:
    """As the wheel declares it; both fixtures are in it."""
    assert f'[project.entry-points.pytest11]\nroofline = "{PLUGIN}"\n' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert callable(roofline_budget)
    assert callable(roofline_profile)


def test_the_plugin_costs_other_people_s_tests_nothing() -> None:
    """It is loaded in every run of pytest where this package is installed."""
    import subprocess
    import sys

    code = f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; print(sorted(m for m in set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sorted(["roofline", "roofline.ingest", "roofline.ingest.live_fixture", "roofline.library", PLUGIN]))
