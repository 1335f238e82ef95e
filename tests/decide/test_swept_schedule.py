"""The critical path of arrays is at every point that of `roofline.predict.compose.schedule`, ties included."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from roofline.decide.swept_schedule import SweptTask, critical_path
from roofline.predict.compose import Task, schedule

POINTS = 4


@st.composite
def tasks(draw: st.DrawFn) -> list[SweptTask]:
    """Steps of three lanes, each after some of those before it, with small whole times above 0 that often tie."""
    found: list[SweptTask] = []
    for i in range(draw(st.integers(1, 6))):
        times = np.array(draw(st.lists(st.integers(1, 3), min_size=POINTS, max_size=POINTS)), dtype=np.float64)
        before = [t.id for t in found]
        after = draw(st.none() | st.lists(st.sampled_from(before), unique=True).map(tuple)) if before else draw(st.sampled_from([None, ()]))
        found.append(SweptTask(f"s{i}", times, draw(st.sampled_from(["compute", "copy", "link"])), after))
    return found


@examples(max_examples=200, deadline=None)
@given(tasks())
def test_every_point_has_the_schedule_of_its_own_times(found: list[SweptTask]) -> None:
    whole, on_path = critical_path(found)
    for point in range(POINTS):
        one = schedule([Task(t.id, float(np.asarray(t.time_s)[point]), t.lane, t.after) for t in found])
        assert np.broadcast_to(whole, POINTS)[point] == one.time_s
        assert {i for i, mask in on_path.items() if np.broadcast_to(mask, POINTS)[point]} == set(one.critical)
