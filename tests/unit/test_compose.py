"""Steps in order, and steps that overlap across lanes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.predict.compose import Task, schedule


def test_steps_in_order_add_up() -> None:
    found = schedule([Task("a", 1, "compute"), Task("b", 2, "compute"), Task("c", 3, "link")])
    assert found.time_s == 6
    assert found.critical == ("a", "b", "c")
    assert not found.overlapped


def test_a_copy_that_waits_for_nothing_hides_behind_compute() -> None:
    found = schedule([Task("a", 5, "compute"), Task("load", 3, "copy", ()), Task("b", 1, "compute", ("a", "load"))])
    assert found.time_s == 6
    assert found.critical == ("a", "b")


def test_a_longer_copy_is_exposed_and_becomes_critical() -> None:
    found = schedule([Task("a", 5, "compute"), Task("load", 9, "copy", ()), Task("b", 1, "compute", ("a", "load"))])
    assert found.time_s == 10
    assert found.critical == ("load", "b")


def test_a_lane_runs_one_step_at_a_time() -> None:
    found = schedule([Task("x", 2, "copy", ()), Task("y", 3, "copy", ())])
    assert found.time_s == 5


def test_nothing_takes_no_time() -> None:
    assert schedule([]).time_s == 0


@given(st.lists(st.tuples(st.floats(0, 10), st.sampled_from(["compute", "copy", "link"]), st.booleans()), max_size=12))
def test_the_whole_lies_between_the_busiest_lane_and_the_sum(steps: list[tuple[float, str, bool]]) -> None:
    tasks = [Task(str(i), time, lane, () if free else None) for i, (time, lane, free) in enumerate(steps)]
    found = schedule(tasks)
    assert found.time_s <= sum(t.time_s for t in tasks) + 1e-9
    assert found.time_s >= max(found.lanes.values(), default=0) - 1e-9
    on_path = {t.id: t.time_s for t in tasks}
    assert sum(on_path[i] for i in found.critical) == pytest.approx(found.time_s)
