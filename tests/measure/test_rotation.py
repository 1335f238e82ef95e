"""How many input sets make a cache cold, and whether a sample went through all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roofline.measure.timing import input_sets, rotation_verified
from roofline.testing import FakeDevice, FakeRunner


def test_sets_together_hold_three_caches() -> None:
    assert input_sets(10e6, 50e6, 100e9, "cold") == 15


def test_two_at_least_while_one_is_smaller_than_three_caches() -> None:
    assert input_sets(149e6, 50e6, 100e9, "cold") == 2


def test_one_of_three_caches_suffices() -> None:
    assert input_sets(150e6, 50e6, 100e9, "cold") == 1


def test_half_of_the_free_memory_is_the_limit() -> None:
    assert input_sets(10e6, 50e6, 100e6, "cold") == 5


def test_never_fewer_than_one() -> None:
    assert input_sets(10e9, 50e9, 1e9, "cold") == 1


def test_warm_is_one() -> None:
    assert input_sets(1e3, 50e6, 100e9, "warm") == 1


def test_a_cache_of_unknown_size_is_taken_for_a_large_one() -> None:
    assert input_sets(100e6, None, None, "cold") * 100e6 >= 3 * 2**28


@given(st.floats(1, 1e12), st.floats(1, 1e9), st.floats(0, 1e12))
def test_cold_where_there_is_room(set_bytes: float, l2: float, free: float) -> None:
    sets = input_sets(set_bytes, l2, free, "cold")
    found = rotation_verified(FakeRunner(FakeDevice(), sets, 1, "graph"), sets, set_bytes, l2)
    assert found.cold or sets == 1024 or (sets + 1) * set_bytes > free / 2


def test_a_runner_that_touches_only_the_first_sets_is_found_out() -> None:
    runner = FakeRunner(FakeDevice(touches=2), 15, 3, "graph")
    found = rotation_verified(runner, 15, 10e6, 50e6)
    assert (found.distinct, found.cold) == (2, False)
    assert "only 2 of 15" in found.reason


def test_what_the_caller_saw_changing_counts_most() -> None:
    runner = FakeRunner(FakeDevice(), 15, 1, "graph")
    assert rotation_verified(runner, 15, 10e6, 50e6).cold
    assert not rotation_verified(runner, 15, 10e6, 50e6, touched=10).cold


def test_too_small_sets_are_said_to_be_warm() -> None:
    runner = FakeRunner(FakeDevice(), 1024, 1, "graph")
    found = rotation_verified(runner, 1024, 1e3, 50e6)
    assert not found.cold
    assert "less than 3 caches" in found.reason
