"""The time below which a measurement is refused: the work at the highest rates that the device could ever have."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.hardware.profile import Absent, Figure, Hardware
from roofline.ops.base import Work, work_of
from roofline.ops.elementwise import Elementwise
from roofline.ops.gemm import Gemm
from roofline.predict.bound import bound, machine_of
from roofline.predict.floor import MEASURED_SLACK, floor_s
from roofline.report.build import analyze
from roofline.report.model import MeasuredResult, Measurements, Row
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Step, Workload

H100 = load_hardware("h100-sxm")
PEAK, BOOST = 1.83e9, 1.98e9
PRODUCT = Gemm(m=8192, n=8192, k=8192, dtype="bf16")
STREAM = Elementwise(function="gelu", elements=2**28, dtype="bf16")
SMALL = Elementwise(function="gelu", elements=2**20, dtype="bf16")


def work(op: Gemm | Elementwise, hardware: Hardware = H100) -> Work:
    return work_of(op, machine_of(hardware))


def without_clocks() -> Hardware:
    return replace(H100, clocks={})


def measured_memory() -> Hardware:
    level = H100.levels["hbm"]
    assert isinstance(level.bandwidth, Figure)
    return replace(H100, levels={**H100.levels, "hbm": replace(level, bandwidth=replace(level.bandwidth, kind="measured"))})


def test_on_chip_work_may_be_done_at_boost_clock() -> None:
    assert floor_s(work(PRODUCT), H100) == pytest.approx(float(bound(work(PRODUCT), H100).time_s) * PEAK / BOOST)


def test_memory_does_not_follow_the_clock_of_the_processors() -> None:
    assert floor_s(work(STREAM), H100) == pytest.approx(float(bound(work(STREAM), H100).time_s))


def test_without_clocks_the_published_peaks_are_the_limit() -> None:
    assert floor_s(work(PRODUCT), without_clocks()) == pytest.approx(float(bound(work(PRODUCT), H100).time_s))


def test_a_boost_below_the_clock_of_the_peaks_makes_nothing_slower() -> None:
    slow = Figure(value=1.5e9, unit="Hz", kind="datasheet", source="x")
    odd = replace(H100, clocks={**H100.clocks, "boost": slow})
    assert floor_s(work(PRODUCT), odd) == pytest.approx(float(bound(work(PRODUCT), H100).time_s))


def test_a_measured_roof_may_be_beaten_by_its_scatter() -> None:
    assert floor_s(work(STREAM), measured_memory()) == pytest.approx(MEASURED_SLACK * floor_s(work(STREAM), H100))


def test_a_warm_cache_gives_what_it_holds_for_nothing() -> None:
    assert floor_s(work(SMALL), H100, warm=True) < 0.5 * floor_s(work(SMALL), H100)
    cold, warm = (floor_s(work(STREAM), H100, warm=w) for w in (False, True))
    assert cold - warm == pytest.approx(50 * 2**20 / 3.35e12, rel=0.05)


def test_a_cache_of_unknown_size_may_hold_everything() -> None:
    unknown = replace(H100, levels={**H100.levels, "l2": replace(H100.levels["l2"], size=Absent("not told"))})
    assert floor_s(work(STREAM, H100), unknown, warm=True) < 0.9 * floor_s(work(STREAM), H100, warm=True)


def test_nothing_to_do_takes_no_time() -> None:
    assert floor_s(work(replace(STREAM, elements=0)), H100, warm=True) == 0.0


@given(st.integers(1, 2**14), st.integers(1, 2**14), st.integers(1, 2**14), st.booleans())
def test_the_floor_is_never_above_the_bound(m: int, n: int, k: int, warm: bool) -> None:
    found = work(Gemm(m=m, n=n, k=k, dtype="bf16"))
    assert 0 <= floor_s(found, H100, warm=warm) <= float(bound(found, H100).time_s)


def row(op: Gemm | Elementwise, time_s: float, cache: str = "cold", status: str = "ok") -> Row:
    result = MeasuredResult(time_s=time_s, source="a run", status=status, conditions={"cache": cache})
    workload = Workload(name="w", steps=(Step(id="a", op=op),))
    return analyze(workload, H100, measured=Measurements(steps={"a": result})).rows[0]


def test_a_run_faster_than_the_floor_is_invalid_and_says_what_may_be_wrong() -> None:
    found = row(PRODUCT, 0.99 * floor_s(work(PRODUCT), H100)).measured
    assert found
    assert (found.status, found.faster_than_bound) == ("invalid", True)
    assert "the count, the profile or the run is wrong" in found.notes[-1]


def test_a_run_between_floor_and_bound_is_believed() -> None:
    found = row(PRODUCT, 0.97 * float(bound(work(PRODUCT), H100).time_s)).measured
    assert found
    assert (found.status, found.faster_than_bound, found.notes) == ("ok", False, ())


def test_a_small_warm_run_is_not_refused_for_what_the_cache_gave() -> None:
    fast = 0.7 * floor_s(work(SMALL), H100)
    warm, cold = (row(SMALL, fast, cache).measured for cache in ("warm", "cold"))
    assert warm
    assert cold
    assert (warm.status, cold.status) == ("ok", "invalid")


def test_an_interruption_stays_one() -> None:
    found = row(PRODUCT, 1e-9, status="interrupted").measured
    assert found
    assert (found.status, found.faster_than_bound) == ("interrupted", True)


def test_a_time_stated_in_a_workload_is_flagged_and_not_called_a_run() -> None:
    workload = Workload(name="w", steps=(Step(id="a", op=PRODUCT, measured_s=1e-9),))
    found = analyze(workload, H100).rows[0].measured
    assert found
    assert (found.status, found.faster_than_bound) == ("ok", True)
