"""Where time went: gaps and their causes, the critical path, overlap, and what a change would be worth."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.errors import UsageError
from roofline.ingest.trace_report import ingest_trace
from roofline.ingest.trace_select import chosen
from roofline.ingest.trace_time import common, length, union
from roofline.report.trace import TraceReport
from roofline.spec.hardware import load_hardware
from tests.ingest.traces import Made, product

US = 1e-6


def report(folder: Path, made: Made, **how: object) -> TraceReport:
    return ingest_trace(made.write(folder), **how)  # type: ignore[arg-type]


# --------------------------------------------------------------------------- why the device idled
def two(launched: float, call: str = "cudaLaunchKernel") -> Made:
    """A kernel from 10 to 20, and one from 50 to 60 launched at a time."""
    made = Made()
    made.kernel("first", 10, 10, launched=1)
    made.kernel("second", 50, 10, launched=launched, call=call)
    return made


@pytest.mark.parametrize(
    ("launched", "cause"),
    [(48, "host"), (20, "host"), (19.5, "launch"), (15, "device"), (2, "device")],
)
def test_a_gap_by_when_the_next_kernel_was_launched(tmp_path: Path, launched: float, cause: str) -> None:
    """After the device had run dry at 20, while it did, or before."""
    found = report(tmp_path, two(launched))
    assert found.idle.by_cause_s == {cause: pytest.approx(30 * US)}
    assert found.idle.longest[0].before == "second"
    assert found.idle.longest[0].start_s == pytest.approx(10 * US)


@pytest.mark.parametrize("call", ["cudaDeviceSynchronize", "hipStreamSynchronize", "cudaEventSynchronize"])
def test_a_host_that_waited_for_the_device(tmp_path: Path, call: str) -> None:
    """It blocked before the device ran dry and until then: not slow, but in step. One that blocked later did not wait for it."""
    made = two(40)
    made.event("cuda_runtime", call, 5, 16, 1, correlation=900)
    assert report(tmp_path, made).idle.by_cause_s == {"sync": pytest.approx(30 * US)}
    late = two(40)
    late.event("cuda_runtime", call, 25, 1, 1, correlation=900)
    elsewhere = two(40)
    elsewhere.event("cuda_runtime", call, 5, 16, 9, correlation=900)
    assert [list(report(tmp_path, m).idle.by_cause_s) for m in (late, elsewhere)] == [["host"], ["host"]]


def test_a_host_that_waited_for_data(tmp_path: Path) -> None:
    """Most of the time before the launch lay in a data loader; a short look into one is no cause."""
    for spent, cause in ((18.0, "data_loading"), (3.0, "host")):
        made = two(40)
        made.event("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 21, spent, 1)
        assert list(report(tmp_path, made).idle.by_cause_s) == [cause]


def test_a_launch_that_was_not_recorded(tmp_path: Path) -> None:
    made = Made()
    made.kernel("first", 10, 10)
    made.kernel("second", 50, 10)
    assert report(tmp_path, made).idle.by_cause_s == {"unknown": pytest.approx(30 * US)}


# --------------------------------------------------------------------------- overlap and path
def test_overlap_by_hand(tmp_path: Path) -> None:
    """Communication from 10 to 40 beside computation from 0 to 20 and 35 to 50: 15 us alone, 15 us hidden."""
    made = Made()
    made.kernel("work", 0, 20, launched=-5)
    made.kernel("work", 35, 15, launched=-4)
    made.kernel("ncclDevKernel_AllReduce", 10, 30, launched=-3, stream=20)
    found = report(tmp_path, made)
    talk = found.overlap
    assert (talk.communication_s, talk.compute_s) == (pytest.approx(30 * US), pytest.approx(35 * US))
    assert (talk.both_s, talk.exposed_s) == (pytest.approx(15 * US), pytest.approx(15 * US))
    assert (found.busy_s, found.gpu_time_s) == (pytest.approx(50 * US), pytest.approx(65 * US))
    assert [(s.stream, s.busy_s) for s in found.streams] == [(7, pytest.approx(35 * US)), (20, pytest.approx(30 * US))]


def test_the_path_takes_the_stream_that_was_waited_for(tmp_path: Path) -> None:
    """A short and a long kernel side by side, then one that begins when the long one ends: the short one is off the path."""
    made = Made()
    made.kernel("start", 0, 10, launched=-9)
    made.kernel("short", 10, 5, launched=-8)
    made.kernel("long", 10, 30, launched=-7, stream=8)
    made.kernel("end", 42, 10, launched=-6)
    found = report(tmp_path, made)
    assert {r.name: r.path_s for r in found.rows} == {
        "start": pytest.approx(10 * US),
        "short": 0,
        "long": pytest.approx(30 * US),
        "end": pytest.approx(10 * US),
    }
    path = found.critical_path
    assert (path.time_s, path.gpu_s, path.off_path_s) == (pytest.approx(52 * US), pytest.approx(50 * US), pytest.approx(5 * US))
    assert path.waiting_s == {"device": pytest.approx(2 * US)}


def test_dependent_launches_overlap_and_still_follow_each_other(tmp_path: Path) -> None:
    """The second starts 2 us before the first ends, on one stream: both are on the path, the first for 8 us of its 10."""
    made = Made()
    made.kernel("first", 0, 10, launched=-9)
    made.kernel("second", 8, 10, launched=-8)
    found = report(tmp_path, made)
    assert {r.name: r.path_s for r in found.rows} == {"first": pytest.approx(8 * US), "second": pytest.approx(10 * US)}
    assert found.critical_path.time_s == pytest.approx(found.window_s) == pytest.approx(18 * US)


def test_ranking_is_amdahl_on_the_path(tmp_path: Path) -> None:
    """A product of 200 us at 69.5 % of its roof and 100 us waiting for the host: 1 / (1 - f), and 1 / (1 - f + f r)."""
    made = Made()
    product(made, 4096, 4096, 4096, 0, length=200.0)
    product(made, 4096, 4096, 4096, 300, launched=290, length=200.0)
    found = report(tmp_path, made, hardware=load_hardware("h200-sxm"))
    work, wait = found.ranking
    roof = 2 * 4096**3 / 989.4e12 / 200e-6
    assert (work.part, work.fraction, wait.part, wait.fraction) == ("mm", pytest.approx(0.8), "waiting: host", pytest.approx(0.2))
    assert (work.limit_speedup, wait.limit_speedup) == (pytest.approx(5), pytest.approx(1.25))
    assert work.roof_speedup == pytest.approx(1 / (0.2 + 0.8 * roof), rel=1e-3)
    assert wait.roof_speedup is None


EVENTS = st.lists(
    st.tuples(st.floats(0, 1000), st.floats(0, 100), st.integers(1, 3), st.integers(0, 1), st.one_of(st.none(), st.floats(-50, 1000))),
    min_size=1,
    max_size=25,
)


@given(EVENTS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_times_add_up(tmp_path: Path, events: list[tuple[float, float, int, int, float | None]]) -> None:
    """Busy and idle fill the windows, whatever runs beside what; no part is longer than the whole; a path is a chain."""
    made = Made()
    for start, time, stream, device, launched in events:
        made.kernel("k" if stream < 3 else "nccl", start, time, launched=launched, stream=stream, device=device)
    found = report(tmp_path, made)
    near = {"rel": 1e-9, "abs": 1e-12}
    assert found.busy_s + found.idle.time_s == pytest.approx(found.window_s, **near)
    assert sum(found.idle.by_cause_s.values()) == pytest.approx(found.idle.time_s, **near)
    assert found.busy_s <= found.gpu_time_s + 1e-12
    path = found.critical_path
    assert path.gpu_s + sum(path.waiting_s.values()) == pytest.approx(path.time_s, **near)
    assert sum(r.path_s for r in found.rows) == pytest.approx(path.gpu_s, **near)
    assert path.time_s <= found.window_s + 1e-12
    assert all(0 <= r.path_s <= r.time_s + 1e-12 for r in found.rows)
    assert found.overlap.communication_s == pytest.approx(found.overlap.both_s + found.overlap.exposed_s, **near)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12),
)
def test_unions_count_whole_units_once(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    """Against sets of unit steps."""
    spans = [union((s, s + n) for s, n in side) for side in (a, b)]
    sets = [{t for s, n in side for t in range(s, s + n)} for side in (a, b)]
    assert [length(s) for s in spans] == [len(s) for s in sets]
    assert common(*spans) == len(sets[0] & sets[1])


# --------------------------------------------------------------------------- steps
@pytest.mark.parametrize("words", ["x", "3-1", "", "1-", "-1", "1,,2", "1-2-3", "\u0661"])
def test_steps_that_are_no_numbers(words: str) -> None:
    with pytest.raises(UsageError, match="no step number"):
        chosen(words, [1, 2, 3])


def test_a_step_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no step 9; it has 1, 2"):
        chosen("1,9", [1, 2])


def test_steps_that_were_not_marked_cannot_be_chosen() -> None:
    with pytest.raises(UsageError, match="marks no steps"):
        chosen("1", [])


def test_a_kernel_belongs_to_the_step_that_launched_it(tmp_path: Path) -> None:
    """It may well run in the next one."""
    made = Made()
    for number, start in ((1, 0), (2, 100)):
        made.event("user_annotation", f"ProfilerStep#{number}", start, 100, 1)
    made.kernel("early", 60, 20, launched=50)
    made.kernel("late", 120, 20, launched=95)
    made.kernel("second", 150, 20, launched=140)
    made.kernel("behind", 250, 20, launched=240)
    assert [(s.number, s.kernels) for s in report(tmp_path, made).steps] == [(1, 2), (2, 1)]
    assert {r.name for r in report(tmp_path, made, steps="1").rows} == {"early", "late"}
    assert report(tmp_path, made, steps="1-2").kernels == 3
    assert report(tmp_path, made).kernels == 4
