"""The waterfall: stages that add up to the estimate and the measurement, each what its terms say."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import UsageError
from roofline.predict.estimate.host import HOST_SET
from roofline.report.plot.stages import stages_of, stages_of_row
from roofline.report.plot.waterfall import bars, waterfall
from roofline.report.store import load_report
from tests.plot.box import estimate, measured, report, row
from tests.plot.conftest import Made

TIME = st.floats(1e-9, 1e-2)


def named(step: object) -> dict[str, float]:
    found = stages_of_row(step)  # type: ignore[arg-type]
    assert found is not None
    return {s.name: s.time_s for s in found.stages}


def test_stages_worked_by_hand() -> None:
    """Bound 5 us (5e8 FLOP at 1e14/s). Terms: memory 4, compute 9 of which power 7, fixed 1; in all 12 us, measured 15.

    Achievable rates max(4, 7) - 5 = 2, tiles and waves max(4, 9) - 7 = 2, fixed 1, the rest 12 - 5 - 5 = 2, unexplained 3; twice.
    """
    found = named(row("a", 5e8, 1e3, repeat=2, estimate=estimate(12e-6), measured=measured(15e-6)))
    expected = {"ideal": 10, "achievable rates": 4, "tiles and waves": 4, "fixed costs": 2, "not overlapped": 4, "unexplained": 6}
    assert found == pytest.approx({name: us * 1e-6 for name, us in expected.items()})


def test_the_host_has_a_stage_of_its_own() -> None:
    """20 us of which the device is busy for 12: 8 are the host's; its own parameter set is no work of the device."""
    step = row("a", 5e8, 1e3, estimate=estimate(20e-6, device_s=12e-6))
    assert step.estimate is not None
    host = replace(step.estimate.parameters["product.gemm.torch.bf16"], terms={"fixed": 1.0, "memory": 0.0, "compute": 1.0})
    step = replace(step, estimate=replace(step.estimate, parameters={**step.estimate.parameters, HOST_SET: host}))
    assert named(step)["host"] == pytest.approx(8e-6)
    assert named(step)["not overlapped"] == pytest.approx(2e-6)


@given(TIME, TIME, TIME, TIME, TIME, st.integers(1, 9))
def test_stages_add_up_to_estimate_and_measurement(fixed: float, memory: float, compute: float, whole: float, took: float, n: int) -> None:
    step = row("a", 1e6, 1e3, repeat=n, estimate=estimate(whole, {"fixed": fixed, "memory": memory, "compute": compute}))
    found = stages_of_row(step)
    assert found is not None
    assert math.fsum(s.time_s for s in found.stages) == pytest.approx(whole * n, rel=1e-9, abs=1e-15)
    after = stages_of_row(replace(step, measured=measured(took)))
    assert after is not None
    assert math.fsum(s.time_s for s in after.stages) == pytest.approx(took * n, rel=1e-9, abs=1e-15)
    assert bars(after)[-1][2] == pytest.approx(took * n)


def test_the_whole_of_a_real_report_adds_up_and_is_its_estimate(made: Made) -> None:
    found = load_report(str(made("analyze", "w.yaml")))
    whole = stages_of(found)
    assert found.totals.estimate is not None
    assert found.totals.bound is not None
    assert math.fsum(s.time_s for s in whole.stages) == pytest.approx(found.totals.estimate.time_s)
    assert whole.stages[0].time_s == found.totals.bound.time_s
    fixed = next(s.time_s for s in whole.stages if s.name == "fixed costs")
    terms = [(r.estimate.terms, r.repeat) for r in found.rows if r.estimate]
    assert fixed == pytest.approx(sum((t["fixed"] + t.get("gap", 0)) * n for t, n in terms))


def test_without_an_estimate_nothing_is_explained_and_the_reason_is_said() -> None:
    step = row("a", 5e8, 1e3, measured=measured(15e-6), unavailable={"estimate": "no parameters"})
    assert named(step) == pytest.approx({"ideal": 5e-6, "beyond the bound": 10e-6})
    found = stages_of_row(step)
    assert found is not None
    assert (found.estimate_s, found.why) == (None, "no parameters")


def test_an_untrusted_measurement_is_not_the_end_of_a_waterfall() -> None:
    found = stages_of_row(row("a", 5e8, 1e3, measured=measured(15e-6, status="invalid")))
    assert found is not None
    assert found.measured_s is None


def test_an_unknown_step_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'attention'"):
        stages_of(report(row("attention", 1e9, 1e9)), "atention")


def test_bars_lie_where_their_seconds_are() -> None:
    """Ideal from 0 to 5 us over half as many pixels as the estimate of 10 us."""
    step = row("a", 5e8, 1e3, estimate=estimate(10e-6, {"fixed": 5e-6, "memory": 1e-6, "compute": 5e-6}))
    found = stages_of_row(step)
    assert found is not None
    assert bars(found) == [("ideal", 0.0, pytest.approx(5e-6), "total"), ("fixed costs", pytest.approx(5e-6), pytest.approx(10e-6), "more"),
                           ("estimate", 0.0, 10e-6, "total")]  # fmt: skip
    root = ET.fromstring(waterfall(found).svg())
    widths = [float(e.get("width", 0)) for e in root.iter() if "bar" in e.get("class", "").split()]
    assert widths[0] == pytest.approx(widths[2] / 2, abs=0.1)
    assert widths[1] == pytest.approx(widths[2] / 2, abs=0.1)


def test_what_is_faster_than_its_bound_goes_back() -> None:
    step = row("a", 1e3, 1e9, estimate=estimate(4e-4, {"fixed": 0.0, "memory": 4e-4, "compute": 0.0}))
    found = stages_of_row(step)
    assert found is not None
    assert bars(found)[1] == ("achievable rates", pytest.approx(1e-3), pytest.approx(4e-4), "less")
