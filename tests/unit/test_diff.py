"""What changed between two reports, why, and which rules fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline.errors import MissingCapabilityError, UsageError
from roofline.report.build import analyze
from roofline.report.diff import Diff, compare
from roofline.report.diff_view import head_lines
from roofline.report.formats.comment import MARKER, MOST_CHARACTERS, to_markdown
from roofline.report.gates import judge
from roofline.report.model import Report
from roofline.spec.hardware import load_hardware
from roofline.spec.source import Source
from roofline.spec.workload import read_workload

TEXT = """\
schema: 1
name: block
dtype: bf16
params: {batch: 8, seq: 1024}
steps:
  - {id: qkv, op: gemm, m: batch * seq, n: 3072, k: 1024}
  - {id: attention, op: attention, batch: batch, heads: 16, q_len: seq, kv_len: seq, head_dim: 64, implementation: flash}
  - {id: norm, op: layernorm, rows: batch * seq, cols: 1024}
"""


def report(*overrides: str, text: str = TEXT, device: str = "h100-sxm") -> Report:
    return analyze(read_workload(Source("w.yaml", text), overrides), load_hardware(device))


def between(base: Report, head: Report) -> Diff:
    return compare(base, head, "base.json", "head.json")


def test_equal_reports_change_nothing() -> None:
    found = between(report(), report())
    assert found.compared == 3
    assert {r.status for r in found.rows} == {"same"}
    assert found.total_time_ratio == found.geomean_time_ratio == 1


def test_a_change_is_explained_by_its_field_its_bytes_and_what_binds_now() -> None:
    found = between(report(), report("attention.implementation=naive"))
    (row,) = (r for r in found.rows if r.status == "changed")
    assert row.id == "attention"
    assert "implementation flash -> naive" in row.explanation
    assert "bytes at hbm +" in row.explanation
    assert "now bound by hbm (memory), was tensor (compute)" in row.explanation


def test_the_effect_of_one_row_on_the_whole_is_by_amdahl() -> None:
    base, head = report(), report("attention.implementation=naive")
    (row,) = (r for r in between(base, head).rows if r.status == "changed")
    total = [r.totals.bound.time_s for r in (base, head) if r.totals.bound]
    assert row.end_to_end == pytest.approx(total[1] / total[0])


def test_rows_without_a_partner_are_listed_and_not_compared() -> None:
    renamed = report(text=TEXT.replace("id: norm", "id: norm_v2"))
    found = between(report(), renamed)
    assert (found.compared, found.removed, found.added) == (2, ("norm",), ("norm_v2",))
    assert head_lines(found)[1:3] == ["removed: norm", "added: norm_v2"]


def test_comparing_nothing_is_an_error() -> None:
    other = report(text=TEXT.replace("id: ", "id: new_"))
    with pytest.raises(MissingCapabilityError, match="nothing was compared"):
        between(report(), other)


def test_another_device_is_not_comparable_unless_allowed() -> None:
    base, head = report(), report(device="h200-sxm")
    with pytest.raises(UsageError, match=r"hardware h100-sxm -> h200-sxm.*--allow-context-change"):
        between(base, head)
    found = compare(base, head, "a", "b", allow_context_change=True)
    assert found.context[0] == "hardware h100-sxm -> h200-sxm"


def test_a_changed_profile_figure_is_told_first() -> None:
    base = report()
    assert base.hardware is not None
    levels = {**base.hardware["levels"], "hbm": {**base.hardware["levels"]["hbm"], "bandwidth": {"value": 3e12}}}
    found = between(base, replace(base, hardware={**base.hardware, "levels": levels}))
    assert any(c.startswith("profile figure levels.hbm.bandwidth") for c in found.context)


@pytest.mark.parametrize(
    ("rule", "fails"),
    [
        ("total.bound.time_s>+2%", True),
        ("total.bound.time_s>+10000%", False),
        ("total.bound.time_s>+1us", True),
        ("total.bound.time_s<-1%", False),
        ("row.bytes.hbm>+0%", True),
        ("qkv.bytes.hbm>+0%", False),
        ("attention.limiter-changed", True),
        ("qkv.limiter-changed", False),
        ("row.limiter-changed", True),
        ("total.limiter-changed", True),
        ("total.memory.needed_bytes>+1GiB", False),
        ("5%", True),
        ("changed", True),
        ("missing", False),
        ("added", False),
        ("profile-changed", False),
    ],
)
def test_a_rule_fails_exactly_when_its_limit_is_passed(rule: str, fails: bool) -> None:
    base, head = report(), report("attention.implementation=naive")
    (gate,) = judge([rule], between(base, head), base, head)
    assert gate.held is not fails
    assert bool(gate.found) is fails


@pytest.mark.parametrize(
    "rule", ["total", "total.bound.time_s", "nonsense>+1%", "total.bound.tim_s>+1%", "mising", "total.bound.limiter>+1%", "x>5"]
)
def test_what_is_not_a_rule_is_refused(rule: str) -> None:
    base = report()
    with pytest.raises(UsageError):
        judge([rule], between(base, base), base, base)


def test_a_gate_on_a_missing_row_fails_instead_of_passing() -> None:
    base, head = report(), report(text=TEXT.replace("id: norm", "id: norm_v2"))
    gates = judge(["norm.bound.time_s>+5%", "norm.limiter-changed", "missing"], between(base, head), base, head)
    assert not any(g.held for g in gates)


def test_measured_single_values_have_no_verdict() -> None:
    base = report("norm.measured=20 us")
    head = report("norm.measured=25 us")
    (row,) = (r for r in between(base, head).rows if r.measured)
    assert row.measured is not None
    assert row.measured.verdict == "unclear"
    assert row.time_ratio == pytest.approx(1.25)


def test_a_bound_is_never_compared_with_a_measurement() -> None:
    (row,) = (r for r in between(report(), report("norm.measured=25 us")).rows if r.id == "norm")
    assert row.time_ratio == 1


def test_the_comment_keeps_its_marker_size_and_hides_markup() -> None:
    steps = "".join(f"  - {{id: step_{i}, op: gemm, m: {i + 8}, n: 64, k: 64}}\n" for i in range(900))
    text = "schema: 1\ndtype: bf16\nsteps:\n" + steps
    base = report(text=text)
    head = report(text=text.replace("n: 64", "n: 128"))
    comment = to_markdown(between(base, head))
    assert comment.startswith(MARKER)
    assert len(comment) <= MOST_CHARACTERS + 100
    assert comment.count("\n| `step_") == 20
