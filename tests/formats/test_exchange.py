"""Reports and comparisons in the formats of other tools, read back by an independent reader or held against the published shape."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from roofline.report.formats import junit, openmetrics
from roofline.report.formats.bencher import metrics
from roofline.report.formats.exchange import REPORT_FORMATS, report_as
from roofline.report.formats.github_benchmark import entries
from roofline.report.formats.series import points
from roofline.report.model import CheckResult, MeasuredResult, Report

from .conftest import Between, Make


def measured(report: Report, **changes: Any) -> Report:
    """The report with a measurement of its first row."""
    found = MeasuredResult(**{"time_s": 2e-6, "source": "test", "interval_s": (1.9e-6, 2.2e-6), **changes})
    return replace(report, rows=(replace(report.rows[0], measured=found), *report.rows[1:]))


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """OpenMetrics text as the reader of the Prometheus client gives it."""
    found = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert len(found) == len({(s.name, frozenset(s.labels.items())) for s in found})
    return {(s.name, frozenset(s.labels.items())): s.value for s in found}


# --------------------------------------------------------------------------- the numbers
def test_a_time_is_of_all_repetitions(make: Make) -> None:
    """By hand: 3 products of 1024 cubed are 3 x 2 x 1024**3 FLOP at 989.4 TFLOP/s, 6.51 us."""
    (up,) = (p for p in points(make()) if (p.step, p.kind) == ("up", "bound"))
    assert up.time_s == pytest.approx(3 * 2 * 1024**3 / 989.4e12, rel=1e-12)


def test_kinds_are_never_mixed(make: Make) -> None:
    """A step has a point of each kind that it has, and each stands under its own name in every format."""
    report = measured(make())
    kinds = {p.kind: p.time_s for p in points(report) if p.step == "up"}
    assert set(kinds) == {"bound", "estimate", "measured"}
    assert kinds["measured"] == 6e-6
    named = {e["name"]: e["value"] for e in entries(report)}
    assert {k: named[f"small on h100-sxm / up / {k}"] for k in kinds} == kinds
    assert {k.removesuffix("_time_s"): v["value"] for k, v in metrics(report)["small on h100-sxm / up"].items()} == kinds


@pytest.mark.parametrize("status", ["failed", "oom", "invalid"])
def test_a_measurement_that_must_not_be_believed_enters_no_history(make: Make, status: str) -> None:
    report = measured(make(), status=status)
    assert not [p for p in points(report) if p.step == "up" and p.kind == "measured"]


def test_the_formats_count_the_same(make: Make) -> None:
    """Three independent counts of the times of one report."""
    report = measured(make())
    read = samples(openmetrics.of_reports(report))
    whole = [name for name, _ in read if name in ("roofline_bound_seconds", "roofline_estimate_seconds", "roofline_measured_seconds")]
    assert len(whole) == len(entries(report)) == sum(map(len, metrics(report).values())) == len(list(points(report)))


# --------------------------------------------------------------------------- each format
def test_bencher(make: Make, schema: Callable[[str], Any]) -> None:
    found = json.loads(report_as(measured(make()), "bencher"))
    jsonschema.validate(found, schema("bencher-metric-format"))
    assert found["small on h100-sxm / up"]["measured_time_s"] == pytest.approx(
        {"value": 6e-6, "lower_value": 5.7e-6, "upper_value": 6.6e-6}, rel=1e-12
    )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"a": {"b": {"value": "1"}}}, schema("bencher-metric-format"))


def test_github_action_benchmark(make: Make) -> None:
    """Required by its README: name, unit and value; range and extra are text."""
    found = json.loads(report_as(make(), "github-benchmark"))
    assert found
    for entry in found:
        assert set(entry) in ({"name", "unit", "value"}, {"name", "unit", "value", "range"})
        assert isinstance(entry["value"], float)
        assert entry["unit"] == "s"
        assert isinstance(entry.get("range", ""), str)
    assert len({e["name"] for e in found}) == len(found)


def test_openmetrics(make: Make) -> None:
    text = openmetrics.of_reports(make())
    assert text.endswith("# EOF\n")
    read = samples(text)
    labels = {"workload": "small", "hardware": "h100-sxm", "step": "up"}
    assert read["roofline_work_flop", frozenset({**labels, "engine": "tensor"}.items())] == 2 * 1024**3
    assert read["roofline_bound_seconds", frozenset(labels.items())] == pytest.approx(6.51e-6, rel=1e-3)
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert not family.unit or family.name.endswith(f"_{family.unit}")


def test_openmetrics_of_the_same_report_twice_has_each_value_once(make: Make) -> None:
    assert openmetrics.of_reports(make(), make()) == openmetrics.of_reports(make())


def test_openmetrics_of_a_comparison(make: Make, between: Between) -> None:
    read = samples(openmetrics.of_diff(between(make(), make(("k: n, repeat: 3", "k: 2 * n, repeat: 3")), "row.time_s>+5%", "missing")))
    assert read["roofline_time_ratio", frozenset({("step", "up")})] == pytest.approx(2)
    assert read["roofline_compared_rows", frozenset({("status", "changed")})] == 1
    assert read["roofline_gate_failed", frozenset({("rule", "missing")})] == 0


def cases(text: str) -> dict[str, ElementTree.Element]:
    """Test cases by name, after the shape that readers share was checked."""
    root = ElementTree.fromstring(text)
    assert root.tag == "testsuites"
    for suite in root:
        assert (suite.tag, bool(suite.get("name"))) == ("testsuite", True)
        assert int(suite.get("tests", "")) == len(suite)
        for plural, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(plural, "")) == len(suite.findall(f"testcase/{tag}"))
    found = root.findall("testsuite/testcase")
    assert all(c.get("classname") for c in found)
    return {str(c.get("name")): c for c in found}


def test_junit_of_a_comparison_has_a_case_for_each_gate(make: Make, between: Between) -> None:
    diff = between(make(), make(("m: n, n: n", "m: 2 * n, n: n")), "total.bound.time_s>+2%", "missing")
    found = cases(junit.of_diff(diff))
    failure = found["total.bound.time_s>+2%"].find("failure")
    assert failure is not None
    assert "total.bound.time_s: " in str(failure.get("message"))
    assert len(found["missing"]) == 0


@pytest.mark.parametrize(
    ("changes", "tag", "said"),
    [
        ({"status": "failed", "time_s": 0.0, "notes": ("it broke",)}, "error", "failed; it broke"),
        ({"status": "throttled"}, "error", "throttled"),
        ({"check": CheckResult(passed=False, error=0.5, tolerance=0.01, against="float64")}, "failure", "off by 0.5"),
        ({"faster_than_bound": True}, "failure", "faster than its bound"),
    ],
)
def test_junit_of_a_report_says_what_must_not_be_believed(make: Make, changes: dict[str, Any], tag: str, said: str) -> None:
    case = cases(junit.of_report(measured(make(), **changes)))["up"]
    inner = case.find(tag)
    assert inner is not None
    assert said in str(inner.get("message"))


@given(message=st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1))
def test_a_reason_comes_back_from_junit_as_it_was(message: str) -> None:
    (case,) = cases(junit.document([("s", [junit.Case("c", "failure", f"<&>]]> {message}")])])).values()
    failure = case.find("failure")
    assert failure is not None
    assert failure.text == failure.get("message") == f"<&>]]> {message}"


def test_junit_of_a_report_passes_what_was_measured_and_skips_the_rest(make: Make) -> None:
    found = cases(junit.of_report(measured(make())))
    assert (len(found["up"]), found["up"].get("time")) == (0, "0.000002000")
    assert cases(junit.of_report(make()))["up"].find("skipped") is not None


# --------------------------------------------------------------------------- any name
@settings(max_examples=60, deadline=None)
@given(name=st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30))
def test_any_name_comes_back_as_it_was(make: Make, name: str) -> None:
    """Quotes, brackets, line ends and what XML cannot hold: no name breaks a format or loses its row."""
    report = replace(make(), workload=name)
    assert any(dict(labels).get("workload") == name for _, labels in samples(openmetrics.of_reports(report)))
    root = ElementTree.fromstring(junit.of_report(report))
    assert len(root.findall("testsuite/testcase")) == 2
    assert json.loads(report_as(report, "bencher")).keys() == metrics(report).keys()
    assert all(math.isfinite(e["value"]) for e in entries(report))


@pytest.mark.parametrize("chosen", REPORT_FORMATS)
def test_the_same_report_gives_the_same_bytes(make: Make, chosen: str) -> None:
    assert report_as(make(), chosen) == report_as(make(), chosen) != ""


def test_without_a_device_there_are_no_times_and_no_error(make: Make) -> None:
    report = make(device=None)
    assert [p.kind for p in points(report)] == ["measured"]
    assert entries(report)[0]["name"] == "small / norm / measured"
