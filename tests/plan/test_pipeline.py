"""Pipelines: formulas by hand, beside a simulation of the schedules stage by stage, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.plan import pipeline
from roofline.plan.job import Job
from roofline.plan.pipeline import (
    Passes,
    boundaries,
    boundary_bytes,
    bubble_fraction,
    bubble_s,
    idle_fraction,
    in_flight,
    layers_of_stages,
    microbatch,
    microbatches,
    weight_copies,
)
from roofline.plan.plan import SCHEDULES, Plan

ONE = Passes(forward_s=1.0, backward_s=2.0, weight_s=1.0)


# --------------------------------------------------------------------------- by hand
@pytest.mark.parametrize(
    ("schedule", "virtual", "idle"),
    [
        ("1f1b", 1, 7 * 3),  # (p - 1)(F + B)
        ("interleaved", 3, 7 * 3 / 3),  # over v
        ("zero_bubble", 1, 7 * (1 + 2 - 2)),  # (p - 1)(F + B - 2 W)
        ("dualpipe", 1, 3 * (1 + 2 * 2 - 3)),  # (p / 2 - 1)(F + 2 B - 3 W)
    ],
)
def test_the_bubble_of_eight_stages(schedule: str, virtual: int, idle: float) -> None:
    assert bubble_s(Plan(pp=8, schedule=schedule, virtual=virtual), ONE, ONE) == pytest.approx(idle)


def test_llama_3_at_8192_devices() -> None:
    """Sixteen stages and 32 microbatches: 15 / 32 of ideal time, and an eighth of that with eight chunks a stage."""
    count = microbatches(Plan(dp=64), 2048)
    assert count == 32
    assert bubble_fraction(Plan(pp=16), count) == pytest.approx(15 / 32)
    assert bubble_fraction(Plan(pp=16, schedule="interleaved", virtual=8), count) == pytest.approx(15 / 256)


@pytest.mark.parametrize(
    ("schedule", "virtual", "held"), [("1f1b", 1, 8), ("zero_bubble", 1, 8), ("interleaved", 2, 8 + 7 / 2), ("dualpipe", 1, 9)]
)
def test_microbatches_in_flight(schedule: str, virtual: int, held: float) -> None:
    plan = Plan(pp=8, schedule=schedule, virtual=virtual)
    assert in_flight(plan, 64) == held
    assert in_flight(plan, 3) == 3  # there are no more


def test_dualpipe_holds_two_copies_of_its_weights() -> None:
    assert [weight_copies(Plan(pp=8, schedule=s)) for s in SCHEDULES] == [1, 1, 1, 2]


def test_bytes_over_a_boundary_are_shared_by_the_ranks_of_a_tensor_parallel_group() -> None:
    assert boundary_bytes(Plan(tp=8), 8192, 16384, 2) == 8192 * 16384 * 2 / 8
    assert boundaries(Plan(pp=4), 32, both_ways=True) == 64
    assert boundaries(Plan(pp=4, schedule="interleaved", virtual=3), 32, both_ways=False) == 96


def test_llama_3_takes_a_layer_each_from_the_first_and_the_last_stage() -> None:
    assert layers_of_stages(Plan(pp=16, uneven=True), 126) == (7, 8, 7)
    assert layers_of_stages(Plan(pp=16, virtual=8, uneven=True), 126) == (7, 8, 7)
    assert layers_of_stages(Plan(pp=4), 32) == (8, 8, 8)
    assert layers_of_stages(Plan(pp=4, uneven=True), 31) == (7, 8, 8)


@pytest.mark.parametrize(
    ("phase", "stated", "size", "idle"),
    [
        ("prefill", 4, 4, 3 / 4),  # four parts of four over four stages: 4 + 3 turns, of which 4 are work
        ("prefill", 1, 1, 3 / 16),
        ("prefill", 0, 1, 3 / 16),  # left open, to whoever looks for the quickest
        ("decode", 1, 4, 0),
        ("mixed", 1, 4, 0),
    ],
)
def test_the_microbatch_of_a_serving_step(phase: str, stated: int, size: int, idle: float) -> None:
    """Sixteen sequences a replica."""
    plan, job = Plan(pp=4, dp=2, microbatch=stated), Job(phase=phase, batch=32, chunk=4096)
    assert microbatch(plan, job) == size
    assert idle_fraction(plan, job) == idle
    assert microbatch(Plan(dp=2, microbatch=stated), job) == 16  # without stages all of them at once
    assert idle_fraction(Plan(dp=2), job) == 0
    assert pipeline.chunk(plan, job) == 4096 / 8


def test_a_token_of_fewer_sequences_than_stages_leaves_stages_idle() -> None:
    """Two sequences on four stages: a round is four passes, and each stage works for two of them."""
    assert idle_fraction(Plan(pp=4), Job(phase="decode", batch=2)) == (4 - 2) / 2
    assert idle_fraction(Plan(pp=4), Job(phase="train", batch=8)) == bubble_fraction(Plan(pp=4), 8)


# --------------------------------------------------------------------------- an independent count
def one_forward_one_backward(stage: int, stages: int, count: int) -> Iterator[tuple[str, int]]:
    """The order of a stage: enough forward passes to fill what is behind it, then one of each."""
    ahead = min(stages - stage, count)
    yield from (("F", i) for i in range(ahead))
    for i in range(count):
        yield "B", i
        if ahead + i < count:
            yield "F", ahead + i


def interleaved(stage: int, stages: int, count: int, chunks: int) -> Iterator[tuple[str, int]]:
    """Megatron's order: microbatches in groups of as many as there are stages, each group through all chunks."""
    order = [(group + i, chunk) for group in range(0, count, stages) for chunk in range(chunks) for i in range(stages)]
    back = [(i, chunks - 1 - chunk) for i, chunk in order]
    ahead = min((stages - stage - 1) * 2 + (chunks - 1) * stages + 1, len(order))
    yield from (("F", i * chunks + chunk) for i, chunk in order[:ahead])
    for at, (i, chunk) in enumerate(back):
        yield "B", i * chunks + chunk
        if ahead + at < len(order):
            i, chunk = order[ahead + at]
            yield "F", i * chunks + chunk


def simulated_s(stages: int, count: int, chunks: int, forward_s: float, backward_s: float) -> float:
    """When the last stage is done: each stage in its order, each pass after the one that feeds it."""
    orders = [
        list(one_forward_one_backward(s, stages, count) if chunks == 1 else interleaved(s, stages, count, chunks)) for s in range(stages)
    ]
    done: dict[tuple[str, int, int], float] = {}
    free, next_ = [0.0] * stages, [0] * stages
    last = stages * chunks - 1
    while any(next_[s] < len(orders[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            while next_[s] < len(orders[s]):
                kind, one = orders[s][next_[s]]
                i, chunk = divmod(one, chunks)
                place = chunk * stages + s
                if kind == "F":
                    fed = 0.0 if place == 0 else done.get(("F", i, place - 1))
                else:
                    fed = done.get(("F", i, last)) if place == last else done.get(("B", i, place + 1))
                if fed is None:
                    break
                free[s] = max(free[s], fed) + (forward_s if kind == "F" else backward_s) / chunks
                done[kind, i, place] = free[s]
                next_[s] += 1
                moved = True
        assert moved, "the orders wait for each other"
    return max(free)


@pytest.mark.parametrize(
    ("stages", "count", "chunks"), [(1, 4, 1), (2, 2, 1), (4, 8, 1), (8, 8, 1), (5, 17, 1), (4, 8, 2), (4, 16, 3), (3, 9, 4)]
)
def test_the_simulated_schedule_takes_ideal_time_and_the_bubble(stages: int, count: int, chunks: int) -> None:
    plan = Plan(pp=stages, virtual=chunks, schedule="interleaved" if chunks > 1 else "1f1b")
    ideal = count * ONE.both_s
    assert simulated_s(stages, count, chunks, 1.0, 2.0) == pytest.approx(ideal + bubble_s(plan, ONE, ONE))


# --------------------------------------------------------------------------- what holds for all
times = st.floats(1e-6, 1e3)


@given(
    schedule=st.sampled_from(SCHEDULES),
    pp=st.integers(1, 64),
    virtual=st.integers(1, 8),
    forward=times,
    ratio=st.floats(1, 3),
    share=st.floats(0, 1),
)
def test_a_bubble_is_never_negative_and_none_is_longer_than_that_of_1f1b(
    schedule: str, pp: int, virtual: int, forward: float, ratio: float, share: float
) -> None:
    """The weights' gradients are no more than half of a backward pass, as those of products are."""
    backward = forward * ratio
    passes = Passes(forward_s=forward, backward_s=backward, weight_s=backward / 2 * share)
    idle = bubble_s(Plan(pp=pp, schedule=schedule, virtual=virtual), passes, passes)
    plain = bubble_s(Plan(pp=pp), passes, passes)
    assert idle >= 0
    assert plain == pytest.approx((pp - 1) * passes.both_s)
    assert idle <= plain * (1 + 1e-12)


@given(pp=st.lists(st.integers(1, 64), min_size=1, max_size=8), schedule=st.sampled_from(SCHEDULES), count=st.integers(1, 512))
def test_arrays_give_the_same_bits(pp: list[int], schedule: str, count: int) -> None:
    many: Any = np.array(pp, dtype=np.float64)
    found = bubble_fraction(Plan(pp=many, schedule=schedule), count)
    held = in_flight(Plan(pp=many, schedule=schedule), count)
    for i, one in enumerate(pp):
        assert found[i] == bubble_fraction(Plan(pp=one, schedule=schedule), count)  # type: ignore[index]
        assert held[i] == in_flight(Plan(pp=one, schedule=schedule), count)  # type: ignore[index]


@given(layers=st.integers(1, 200), pp=st.integers(2, 64), virtual=st.integers(1, 6))
def test_the_layers_of_all_stages_add_up(layers: int, pp: int, virtual: int) -> None:
    chunks = pp * virtual
    most = -(-layers // chunks)
    if most * chunks - layers > 2 * most:
        return  # no plan: the first and the last chunk cannot give so many
    first, middle, last = layers_of_stages(Plan(pp=pp, virtual=virtual, uneven=True), layers)
    assert first + (pp - 2) * middle + last == layers
    assert min(first, last) >= 0
