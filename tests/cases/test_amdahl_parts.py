"""Several parts made faster together (case C11: single speedups were multiplied, or averaged)."""

from __future__ import annotations

from typing import Any

import pytest

DECODE = ("--fraction", "0.632", "--speedup", "1.6", "--fraction", "0.310", "--speedup", "4")


def test_three_parts_give_1_885(report: Any) -> None:
    found = report("amdahl", *DECODE, "--fraction", "0.058", "--speedup", "1")
    assert found["new_time"] == pytest.approx(0.5305)
    assert found["speedup"] == pytest.approx(1.885, rel=1e-3)


def test_what_is_not_named_does_not_change_and_is_said(report: Any, run: Any) -> None:
    assert report("amdahl", *DECODE)["speedup"] == pytest.approx(1 / 0.5305)
    assert report("amdahl", *DECODE)["unchanged_fraction"] == pytest.approx(0.058)
    assert "unchanged 5.8 %" in run("amdahl", *DECODE).stdout


def test_the_sentence_says_1_885(run: Any) -> None:
    assert "end to end 1.885x" in run("amdahl", *DECODE).stdout


def test_fractions_above_one_together_are_refused(run: Any) -> None:
    result = run("amdahl", *DECODE, "--fraction", "0.108", "--speedup", "1", code=2)
    assert "1.05" in result.stderr
    assert result.stdout == ""


def test_fractions_of_0_9_leave_a_tenth_unchanged(run: Any) -> None:
    assert "unchanged 10.0 %" in run("amdahl", "-f", "0.5", "-s", "2", "-f", "0.4", "-s", "4").stdout


@pytest.mark.parametrize(
    ("parts", "speedup"),
    [
        ([(0.4, "2"), (0.3, "3"), (0.2, "0.5"), (0.1, "inf")], 1 / 0.7),
        ([(0.1, "2"), (0.2, "4"), (0.3, "8"), (0.4, "16")], 1 / (0.05 + 0.05 + 0.0375 + 0.025)),
        ([(0.25, "1.5"), (0.25, "1.25")], 1 / (0.25 / 1.5 + 0.2 + 0.5)),
        ([(0, "10"), (1, "3")], 3),
    ],
)
def test_other_parts(report: Any, parts: list[tuple[float, str]], speedup: float) -> None:
    arguments = [x for f, s in parts for x in ("--fraction", str(f), "--speedup", s)]
    assert report("amdahl", *arguments)["speedup"] == pytest.approx(speedup)


@pytest.mark.parametrize("bad", [("1.2", "2"), ("-0.1", "2"), ("nan", "2"), ("0.2", "0"), ("0.2", "-1"), ("0.2", "nan"), ("0.2", "x")])
def test_values_out_of_their_domain_are_refused(run: Any, bad: tuple[str, str]) -> None:
    run("amdahl", "--fraction", bad[0], "--speedup", bad[1], code=2)
