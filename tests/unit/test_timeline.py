"""Launched kernels to a whole: worked by hand, against a simulation kernel by kernel, and laws that hold for any of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.predict.compose import Task, schedule
from roofline.predict.estimate.timeline import NOTHING, LaunchedStep, Launches, in_order, launch, timeline

Kernel = tuple[float, float]
"""Host and device seconds."""


def step(name: str, *kernels: Kernel, repeat: int = 1, lane: str = "compute", after: tuple[str, ...] | None = None) -> LaunchedStep:
    """A step that launches these kernels."""
    first = kernels[0][0] if kernels else 0.0
    return LaunchedStep(name, in_order(launch(h, d) for h, d in kernels), first, repeat, lane, after)


def simulated(kernels: list[Kernel]) -> float:
    """When the last kernel ends, one kernel after the other."""
    host = device = 0.0
    for issue, busy in kernels:
        host += issue
        device = max(host, device) + busy
    return device


class TestByHand:
    def test_a_host_that_is_too_slow_decides(self) -> None:
        """Issued at 10, 20, 30; each runs for 2: the last ends at 32, 22 after the first was issued; the host needs 30."""
        found = timeline([step("a", (10, 2), (10, 2), (10, 2))])
        assert (found.time_s, found.device_s, found.host_s) == (30, 6, 30)
        assert found.launch_bound
        assert found.idle_s == 24

    def test_a_device_that_is_too_slow_decides(self) -> None:
        """Issued at 1, 2, 3; each runs for 10: from 1 to 31, 30 after the first was issued."""
        found = timeline([step("a", (1, 10), (1, 10), (1, 10))])
        assert (found.time_s, found.device_s, found.host_s) == (30, 30, 3)
        assert not found.launch_bound
        assert found.idle_s == 0

    def test_the_host_runs_ahead_while_the_device_is_busy(self) -> None:
        """Issued at 1, 6, 11, 16; the first runs from 1 to 21, the three short ones follow without a gap: 24, less the first 1."""
        assert timeline([step("long", (1, 20)), step("short", (5, 1), repeat=3)]).time_s == 23

    def test_short_kernels_before_a_long_one_are_waited_for(self) -> None:
        """Issued at 5, 10, 15, 16: the long one can start only then, and ends at 36, 31 after the first was issued."""
        assert timeline([step("short", (5, 1), repeat=3), step("long", (1, 20))]).time_s == 31

    def test_steps_that_repeat_are_layers(self) -> None:
        """Two layers of a kernel of (1, 20) and one of (10, 1). Issued at 1, 11, 12, 22: ends at 21, 22, 42, 43; less 1: 42.
        All long ones before all short ones would be issued at 1, 2, 12, 22, and end at 21, 41, 42, 43."""
        assert timeline([step("long", (1, 20), repeat=2), step("short", (10, 1), repeat=2)]).time_s == 42

    def test_short_ones_first_tell_layers_from_blocks(self) -> None:
        """Short (10, 1) then long (1, 20), twice. In layers issued at 10, 11, 21, 22: ends 11, 31, 32, 52, less 10: 42.
        In blocks it would be issued at 10, 20, 21, 22: ends 11, 21, 41, 61, less 10: 51."""
        assert timeline([step("short", (10, 1), repeat=2), step("long", (1, 20), repeat=2)]).time_s == 42

    def test_a_step_that_repeats_twice_a_layer_is_shared_out(self) -> None:
        """Four norms over two layers: two in each, so the host sees norm norm product, norm norm product."""
        norms, product = step("norms", (10, 1), repeat=4), step("product", (1, 20), repeat=2)
        one = [(10.0, 1.0), (10.0, 1.0), (1.0, 20.0)]
        assert timeline([norms, product, step("x", (1, 1), repeat=2)]).time_s == simulated([*one, (1, 1)] * 2) - 10

    def test_layers_of_another_sort_follow(self) -> None:
        """Three of (10, 1), then two of (1, 20): issued at 10, 20, 30, 31, 32, the long ones run from 31 to 71, less the first 10: 61.
        Were they one sort, two layers would hold both, and start their long ones at 11 and 31: 52, the third short one 53, less 10."""
        assert timeline([step("dense/short", (10, 1), repeat=3), step("moe/long", (1, 20), repeat=2)]).time_s == 61
        assert timeline([step("short", (10, 1), repeat=3), step("long", (1, 20), repeat=2)]).time_s == 43

    def test_what_does_not_divide_follows_at_the_end(self) -> None:
        """Five norms over two layers: the fifth is the final one."""
        layer = [(3.0, 1.0), (3.0, 1.0), (1.0, 20.0), (1.0, 2.0)]
        steps = [step("norms", (3, 1), repeat=5), step("product", (1, 20), repeat=2), step("x", (1, 2), repeat=2)]
        assert timeline(steps).time_s == simulated([*layer, *layer, (3.0, 1.0)]) - 3

    def test_lanes_overlap_and_share_the_host(self) -> None:
        """The copy is issued at 2 and runs to 32; the product is issued at 5 and runs to 25; the sum waits for both."""
        steps = [
            step("copy", (2, 30), lane="copy", after=()),
            step("product", (3, 20), after=()),
            step("sum", (1, 4), after=("copy", "product")),
        ]
        found = timeline(steps)
        assert (found.time_s, found.device_s, found.host_s) == (34, 34, 6)
        assert found.critical == ("copy", "sum")

    def test_an_overlapped_step_waits_for_the_host(self) -> None:
        """The second is issued at 13, when the first is long done, and ends at 15, before the host has been paid for from 10 on:
        the host's own 13 count. The third is issued at 14, starts at 15 and ends at 65, 55 after the first was issued."""
        steps = [step("first", (10, 1), lane="copy", after=()), step("second", (3, 2), after=())]
        assert timeline(steps).time_s == 13
        assert timeline([*steps, step("third", (1, 50), after=("second",))]).time_s == 55

    def test_a_step_without_after_waits_for_the_one_before_in_any_lane(self) -> None:
        """The copies are issued at 1 and 31, and end at 41, since the host is late; the product follows to 46, though its lane was
        free all the time and it was issued at 32; less the first 1."""
        steps = [step("copies", (1, 10), (30, 10), lane="copy", after=()), step("product", (1, 5))]
        assert timeline(steps).time_s == 45

    def test_nothing(self) -> None:
        assert timeline([]).time_s == 0
        assert timeline([step("empty")]).time_s == 0
        assert launch(1, 2).times(0) == NOTHING


COSTS = st.integers(0, 40).map(float)
"""Whole numbers, whose sums are exact in any order."""
KERNELS = st.lists(st.tuples(COSTS, COSTS), min_size=1, max_size=6)
STEPS = st.lists(st.tuples(KERNELS, st.integers(1, 5)), min_size=1, max_size=6)


def steps_of(drawn: list[tuple[list[Kernel], int]]) -> list[LaunchedStep]:
    return [step(f"s{i}", *kernels, repeat=repeat) for i, (kernels, repeat) in enumerate(drawn)]


class TestLaws:
    @given(KERNELS, st.integers(1, 30))
    def test_the_closed_form_of_repetitions_is_the_simulation(self, kernels: list[Kernel], count: int) -> None:
        assert in_order(launch(*k) for k in kernels).times(count).chain_s == simulated(kernels * count)

    @given(KERNELS, KERNELS)
    def test_sequences_compose(self, first: list[Kernel], second: list[Kernel]) -> None:
        both = in_order(launch(*k) for k in first).then(in_order(launch(*k) for k in second))
        assert both == in_order(launch(*k) for k in first + second)
        assert both.chain_s == simulated(first + second)

    @given(STEPS)
    def test_a_whole_is_no_shorter_than_either_side_nor_than_any_step(self, drawn: list[tuple[list[Kernel], int]]) -> None:
        found = timeline(steps_of(drawn))
        assert found.time_s >= max(found.host_s, found.device_s)
        for kernels, repeat in drawn:
            assert found.time_s >= repeat * max(sum(h for h, _ in kernels), sum(d for _, d in kernels))

    @given(STEPS)
    def test_a_whole_is_no_longer_than_both_sides_in_turn(self, drawn: list[tuple[list[Kernel], int]]) -> None:
        found = timeline(steps_of(drawn))
        assert found.time_s <= found.host_s + found.device_s

    @given(STEPS)
    def test_a_free_host_never_makes_it_slower(self, drawn: list[tuple[list[Kernel], int]]) -> None:
        free = [([(0.0, d) for _, d in kernels], repeat) for kernels, repeat in drawn]
        graph = timeline(steps_of(free))
        assert graph.time_s == graph.device_s == timeline(steps_of(drawn)).device_s <= timeline(steps_of(drawn)).time_s
        assert not graph.launch_bound

    @given(STEPS)
    def test_a_device_without_work_leaves_the_cost_of_the_host(self, drawn: list[tuple[list[Kernel], int]]) -> None:
        idle = [([(h, 0.0) for h, _ in kernels], repeat) for kernels, repeat in drawn]
        assert timeline(steps_of(idle)).time_s == timeline(steps_of(idle)).host_s

    @given(STEPS, st.lists(st.sampled_from(["compute", "copy", "link"]), min_size=6, max_size=6))
    def test_overlap_without_a_host_is_the_schedule_of_bounds(self, drawn: list[tuple[list[Kernel], int]], lanes: list[str]) -> None:
        steps = [
            step(f"s{i}", *((0.0, d) for _, d in kernels), repeat=n, lane=lane, after=(f"s{i // 2}",) if i % 2 else ())
            for i, ((kernels, n), lane) in enumerate(zip(drawn, lanes, strict=False))
        ]
        alone = schedule([Task(s.id, float(s.once.times(s.repeat).device_s), s.lane, s.after) for s in steps])
        assert timeline(steps).time_s == pytest.approx(alone.time_s)
        assert timeline(steps).critical == alone.critical


def test_arrays_go_through_the_same_lines() -> None:
    import numpy as np

    both = launch(np.array([10.0, 1.0]), np.array([2.0, 9.0])).times(3)
    assert isinstance(both, Launches)
    assert list(both.chain_s) == [simulated([(10, 2)] * 3), simulated([(1, 9)] * 3)]  # type: ignore[arg-type]
