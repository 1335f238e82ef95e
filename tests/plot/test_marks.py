"""What a roofline shows: roofs from the profile, marks from work over time, nothing where there is no place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import UsageError
from roofline.report.plot.marks import marks_of, times
from roofline.report.plot.roofs import roofs_of
from roofline.report.store import load_report
from roofline.spec.hardware import load_hardware
from tests.plot.box import HARDWARE, HBM, SMEM, TENSOR, estimate, measured, report, row
from tests.plot.conftest import Made


def test_a_mark_worked_by_hand() -> None:
    """1e12 FLOP over 1e11 B: 10 FLOP/B; the bound is 0.1 s by HBM, so 1e13 FLOP/s; measured in 0.4 s, 2.5e12."""
    found = marks_of(report(row("a", 1e12, 1e11, measured=measured(0.4), estimate=estimate(0.2))))
    assert [(m.kind, m.intensity, m.flop_per_s, m.limiter) for m in found.marks] == [
        ("bound", 10.0, pytest.approx(1e13), "hbm"),
        ("estimate", 10.0, pytest.approx(5e12), "hbm"),
        ("measured", 10.0, pytest.approx(2.5e12), "hbm"),
    ]


@given(st.floats(1e3, 1e18), st.floats(1, 1e15))
def test_a_bound_stands_on_the_lower_of_its_two_roofs(flop: float, moved: float) -> None:
    found = report(row("a", flop, moved))
    (mark,) = marks_of(found).marks
    assert mark.flop_per_s == pytest.approx(min(TENSOR, mark.intensity * HBM))


def test_bounds_of_a_real_report_are_under_every_roof_of_their_engine(made: Made) -> None:
    found = load_report(str(made("analyze", "w.yaml")))
    roofs = roofs_of(found)
    hbm = roofs.memory[0].rate
    bounds = [m for m in marks_of(found).marks if m.kind == "bound"]
    assert {m.limiter for m in bounds} >= {"hbm", "tensor"}
    for mark in bounds:
        assert mark.flop_per_s <= min(mark.intensity * hbm, roofs.compute[0].rate) * (1 + 1e-9)
        assert mark.limiter != "hbm" or mark.flop_per_s == pytest.approx(mark.intensity * hbm)
        assert mark.limiter != "tensor" or mark.flop_per_s == pytest.approx(roofs.compute[0].rate)


def test_roofs_are_the_figures_of_the_profile(made: Made) -> None:
    """Read once more from the profile, which the report holds a copy of."""
    profile, roofs = load_hardware("h200-sxm"), roofs_of(load_report(str(made("analyze", "w.yaml"))))
    levels = {name: level.bandwidth for name, level in profile.levels.items()}
    assert {r.name: r.rate for r in roofs.memory} == {n: v.value for n, v in levels.items() if hasattr(v, "value")}
    assert roofs.missing == {n: v.reason for n, v in levels.items() if hasattr(v, "reason")}
    assert [r.name for r in roofs.memory] == ["hbm", "smem", "register"]
    tensor, vector = profile.tensor["bf16"], profile.vector["fp32"]
    assert [(r.name, r.rate) for r in roofs.compute] == [("tensor", tensor.value), ("vector", vector.value)]  # type: ignore[union-attr]
    assert roofs.ridge(roofs.memory[0]) == pytest.approx(tensor.value / levels["hbm"].value)  # type: ignore[union-attr]


def test_engines_of_two_formats_are_two_roofs() -> None:
    fast = row("b", 4e12, 1e9, dtype="fp8")
    assert fast.bound is not None
    fast.bound.per_resource_s["tensor"] /= 2  # type: ignore[index]
    roofs = roofs_of(report(row("a", 1e12, 1e9), fast, row("c", 3e12, 1e9, dtype="fp16")))
    assert [(r.name, r.label, r.rate) for r in roofs.compute] == [
        ("tensor1", "tensor fp8", 2 * TENSOR),
        ("tensor", "tensor bf16/fp16", TENSOR),
    ]


def test_without_a_device_there_is_no_roof() -> None:
    with pytest.raises(UsageError, match="-H PROFILE"):
        roofs_of(report(row("a", 1, 1), hardware=None))


@pytest.mark.parametrize("levels", [None, [], {"hbm": 3}, {"hbm": {"bandwidth": {"value": "x"}}}, {"hbm": {"bandwidth": {"value": True}}}])
def test_a_profile_that_says_nothing_sensible_has_no_roof(levels: object) -> None:
    roofs = roofs_of(report(row("a", 1, 1), hardware={**HARDWARE, "levels": levels}))
    assert roofs.memory == ()
    assert roofs.missing["hbm"] == "the report does not say"


def test_what_has_no_place_is_named_with_the_reason() -> None:
    found = marks_of(report(row("copy", 0, 1e9), row("none", 1e9, 0), row("a", 1e9, 1e9)))
    assert found.left_out == {"copy": "no FLOP", "none": "no bytes of HBM"}
    assert {m.id for m in found.marks} == {"a"}


@pytest.mark.parametrize("status", ["invalid", "failed", "oom", "interrupted"])
def test_a_measurement_that_is_not_to_be_trusted_is_no_mark(status: str) -> None:
    assert "measured" not in times(row("a", 1e9, 1e9, measured=measured(1.0, status=status)))
    assert times(row("a", 1e9, 1e9, measured=measured(1.0, status="throttled")))["measured"] == 1.0


def test_what_shared_memory_limits_also_stands_at_its_intensity_there() -> None:
    """1e12 FLOP, 1e9 B of HBM, twice that through shared memory: 1000 and 500 FLOP/B."""
    (mark,) = marks_of(report(row("a", 1e12, 1e9, limiter="smem"))).marks
    assert (mark.intensity, mark.at_limit) == (1000.0, 500.0)
    assert all(m.at_limit is None for m in marks_of(report(row("a", 1e12, 1e9), row("b", 1e9, 1e9))).marks)
    assert SMEM > HBM


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(1, 1e20), st.floats(1, 1e20)), min_size=1, max_size=8))
def test_each_row_has_its_marks_or_a_reason(work: list[tuple[float, float]]) -> None:
    found = marks_of(report(*(row(f"r{i}", *w) for i, w in enumerate(work))))
    assert {m.id for m in found.marks} | set(found.left_out) == {f"r{i}" for i in range(len(work))}
