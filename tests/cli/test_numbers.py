"""Every number that a command line may hold, over all floats: each is taken in its domain or refused, never nan, never a traceback."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from roofline.cli.app import app

from .conftest import WORKLOAD

FLOATS = (
    st.floats().map(repr)
    | st.integers().map(str)
    | st.sampled_from(["inf", "nan", "-inf", "1e999", "-1e999", "1e-999", "1e400", "0", "-0.0"])
)
ODD = ["", " ", "x", "1_0", "0x2", "1,5", "\u0661", "\u00bd", "1e", "1 2", "infinit", "True", "1;2", "9" * 5000]
QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True, database=None
)
NOT_A_NUMBER = re.compile(r"\b(nan|infx|inf %)\b|\bnan\b|-> inf")


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("numbers") / "w.yaml"
    path.write_text(WORKLOAD, encoding="utf-8")
    return str(path)


def ends(*words: str) -> Result:
    """The end of a command: a result without nan, or a refusal in a line or with a place; JSON where asked for is JSON."""
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 2), result.stderr
    if result.exit_code == 2:
        assert result.stdout == ""
        assert result.stderr.strip()
    else:
        assert not NOT_A_NUMBER.search(result.stdout), result.stdout
    return result


def value(text: str) -> float:
    return float(text)


@given(text=FLOATS)
@example(text="1e-320")
@QUICK
def test_a_speedup_is_above_zero_or_the_word_inf(text: str) -> None:
    result = ends("amdahl", "--fraction", "0.2", f"--speedup={text}")
    assert (result.exit_code == 0) is (1e-100 <= value(text) <= 1e100 or text == "inf")
    ends("amdahl", "--fraction", "0.2", f"--speedup={text}", "--format", "json")


@given(text=FLOATS)
@QUICK
def test_a_fraction_lies_between_zero_and_one(text: str) -> None:
    assert (ends("amdahl", f"--fraction={text}", "--speedup", "2").exit_code == 0) is (0 <= value(text) <= 1)


@given(text=FLOATS)
@QUICK
def test_a_target_is_above_zero(text: str) -> None:
    result = ends("amdahl", f"--target={text}", "--fraction", "0.6")
    assert (result.exit_code == 0) is (1e-100 <= value(text) <= 1e100 or text == "inf")
    ends("amdahl", f"--target={text}", "--fraction", "0.6", "--format", "json")


@given(text=FLOATS)
@QUICK
def test_processors_are_finite_and_at_least_one(text: str) -> None:
    assert (ends("amdahl", f"--processors={text}", "--fraction", "0.6").exit_code == 0) is (1 <= value(text) < math.inf)


@given(text=FLOATS)
@QUICK
def test_a_speedup_of_a_step_has_the_same_domain(workload: str, text: str) -> None:
    result = ends("amdahl", workload, "--step", "qkv", f"--speedup={text}", "--format", "json")
    if result.exit_code == 0:
        json.loads(result.stdout, parse_constant=pytest.fail)
    else:
        assert not 1e-100 <= value(text) <= 1e100


@given(text=FLOATS)
@QUICK
def test_a_count_is_a_whole_number_from_one_to_2_to_the_63(workload: str, text: str) -> None:
    result = ends("analyze", workload, "--set", f"qkv.m={text}", "--format", "json")
    whole = value(text) == value(text) and 1 <= value(text) < 2**63 and value(text).is_integer()
    assert (result.exit_code == 0) is whole


@given(text=FLOATS)
@QUICK
def test_a_probability_lies_between_zero_and_one(workload: str, text: str) -> None:
    result = ends("analyze", workload, "--set", f"attention.dropout={text}")
    assert result.exit_code == 2 or 0 <= value(text) <= 1


@given(text=FLOATS)
@QUICK
def test_a_measured_time_is_finite_and_above_zero(workload: str, text: str) -> None:
    result = ends("analyze", workload, "--set", f"qkv.measured={text} s", "--format", "json")
    assert result.exit_code == 2 or 0 < value(text) < math.inf


@given(text=FLOATS)
@settings(QUICK, max_examples=15)
def test_a_limit_of_a_gate_is_a_number_or_refused(tmp_path_factory: pytest.TempPathFactory, report_text: str, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "gate.json"
    path.write_text(report_text, encoding="utf-8")
    for sign in "+-":
        result = CliRunner().invoke(app, ["diff", str(path), str(path), "--fail-on", f"total.bound.time_s>{sign}{text}%"])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert result.exit_code in (0, 1, 2)


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize(
    "words",
    [
        ["amdahl", "--fraction", "0.2", "--speedup={}"],
        ["amdahl", "--fraction={}", "--speedup", "2"],
        ["amdahl", "--fraction", "0.2", "--target={}"],
        ["amdahl", "--fraction", "0.2", "--processors={}"],
        ["analyze", "WORKLOAD", "--set", "batch={}"],
        ["op", "gemm", "m={}", "n=1", "k=1", "dtype=bf16"],
    ],
    ids=lambda w: " ".join(w) if isinstance(w, list) else ascii(w)[:12],
)
def test_what_only_looks_like_a_number_is_refused(workload: str, words: list[str], text: str) -> None:
    result = ends(*(workload if w == "WORKLOAD" else w.replace("{}", text) for w in words))
    assert result.exit_code == 2
    assert len(result.stderr) < 2000


def test_the_same_options_take_good_numbers(workload: str) -> None:
    """Else all of the above could pass on commands that refuse everything."""
    for words in (["-s", "2", "-f", "0.2"], ["-s", "inf", "-f", "0.2"], ["-s", "0.5", "-f", "1"], ["--target", "1.5", "-f", "0.6"]):
        assert ends("amdahl", *words).exit_code == 0
    assert ends("analyze", workload, "--set", "attention.dropout=0.1", "--set", "qkv.measured=1 ms").exit_code == 0
