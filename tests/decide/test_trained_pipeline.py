"""Hops of a training pipeline held against its events: stages and links, each of which does one thing at a time in its order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.decide.compose import Pipeline, Stage, trained
from roofline.decide.times import PassTimes, Times
from roofline.plan.plan import Plan

FORWARD, BACKWARD = "forward", "backward"


def pipeline(stages: int, forward: float, backward: float, hop: float, count: int) -> Pipeline:
    """Equal stages."""
    times = Times(forward=PassTimes(compute=forward), backward=PassTimes(compute=backward))
    stage = Stage(times=times, forward_s=forward, backward_s=backward, exposed={})
    whole = (stages * forward, stages * backward)
    return Pipeline(slowest=stage, all_forward_s=whole[0], all_backward_s=whole[1], all_weight_s=0.0, hop_s=hop, count=count)


def order(ahead: int, count: int) -> list[tuple[str, int]]:
    """What a stage does: so many forward passes, then a backward and a forward pass by turns, then the backward passes that are left."""
    found = [(FORWARD, i) for i in range(min(ahead, count))]
    for i in range(count):
        found.append((BACKWARD, i))
        if ahead + i < count:
            found.append((FORWARD, ahead + i))
    return found


def events(stages: int, forward: float, backward: float, hop: float, count: int, *, more: int = 0, overlap: bool = True) -> float:
    """When the last backward pass is done. 1F1B has p - i microbatches in flight on stage i; ``more`` for each stage behind it.

    Links take one microbatch at a time each way; without overlap the stage that sends stands still meanwhile.
    """
    seconds = {FORWARD: forward, BACKWARD: backward}
    orders = [order(stages - s + more * (stages - 1 - s), count) for s in range(stages)]
    free = [0.0] * stages
    links = {(way, s): 0.0 for way in seconds for s in range(stages)}
    ready = {(FORWARD, 0, i): 0.0 for i in range(count)}
    left = [list(one) for one in orders]
    while any(left):
        for s in range(stages):
            while left[s] and (left[s][0][0], s, left[s][0][1]) in ready:
                way, i = left[s].pop(0)
                free[s] = max(free[s], ready[way, s, i]) + seconds[way]
                to = s + 1 if way == FORWARD else s - 1
                if to == stages:
                    ready[BACKWARD, s, i] = free[s]
                elif to >= 0 and overlap:
                    links[way, s] = ready[way, to, i] = max(links[way, s], free[s]) + hop
                elif to >= 0:
                    free[s] = ready[way, to, i] = free[s] + hop
    return max(free)


sizes = st.integers(1, 20).map(float)


@given(stages=st.integers(2, 6), forward=sizes, backward=sizes, hop=st.integers(0, 60).map(float), extra=st.integers(0, 14))
def test_a_step_is_no_longer_than_any_order_of_its_events(stages: int, forward: float, backward: float, hop: float, extra: int) -> None:
    """Whatever the number of microbatches in flight: nothing can be faster than the bound, also where hops take longer than stages."""
    count = stages + extra
    least = trained(pipeline(stages, forward, backward, hop, count), Plan(pp=stages)).step_s
    for more in (0, 1, 2, 3, count):
        assert least <= events(stages, forward, backward, hop, count, more=more) * (1 + 1e-12)


@given(stages=st.integers(2, 6), forward=sizes, share=st.floats(0, 1), extra=st.integers(0, 14))
def test_hops_hide_behind_stages_with_more_microbatches_in_flight(stages: int, forward: float, share: float, extra: int) -> None:
    """Two more for each stage behind are enough; with those of 1F1B alone a stage waits for what it has sent to come back."""
    backward, count = 2 * forward, stages + extra
    hop = share * (forward + backward)
    found = trained(pipeline(stages, forward, backward, hop, count), Plan(pp=stages)).step_s
    assert found == pytest.approx(events(stages, forward, backward, hop, count, more=2), rel=1e-12)
    assert found <= events(stages, forward, backward, hop, count) * (1 + 1e-12)


def test_two_stages_and_their_events_by_hand() -> None:
    """Twelve microbatches of 1 + 2 s, hops of 1 s: 13 turns and two hops. With two in flight on the first stage its third forward pass
    waits for the first to come back, a round of 8 s for two microbatches: ten seconds more in all. With a third it never waits."""
    assert trained(pipeline(2, 1.0, 2.0, 1.0, 12), Plan(pp=2)).step_s == 13 * 3 + 2
    assert [events(2, 1.0, 2.0, 1.0, 12, more=more) for more in (0, 1)] == [51, 41]


@given(stages=st.integers(2, 6), forward=sizes, backward=sizes, hop=st.integers(0, 60).map(float), extra=st.integers(0, 14))
def test_hops_that_hold_up_the_sender_take_what_their_events_take(
    stages: int, forward: float, backward: float, hop: float, extra: int
) -> None:
    count = stages + extra
    found = trained(pipeline(stages, forward, backward, hop, count), Plan(pp=stages, overlap=())).step_s
    assert found == pytest.approx(events(stages, forward, backward, hop, count, overlap=False), rel=1e-12)
