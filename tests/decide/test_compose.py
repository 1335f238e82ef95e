"""Composition from seconds of layers: by hand, what hides behind what, parts that add up, arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.decide.compose import Parts, Pipeline, decoded, exposed, layer_passes, served, slowest_of, trained
from roofline.decide.evaluate import held_by_stages, pipeline_of
from roofline.decide.layers import Timed
from roofline.decide.rows import taken
from roofline.decide.times import PassTimes, Times, summed
from roofline.plan.plan import OVERLAPS, Plan

LAYER = Times(
    forward=PassTimes(compute=4.0, attention=1.0, exchanges={"tp": 1.0}),
    backward=PassTimes(compute=8.0, attention=2.0, weight=3.0, exchanges={"tp": 2.0}),
    optimizer=0.5,
    gradients=10.0,
    weights=4.0,
)
HEAD = Times(forward=PassTimes(compute=2.0), backward=PassTimes(compute=4.0, weight=2.0), optimizer=0.25, gradients=1.0)
EMBEDDING = Times(forward=PassTimes(compute=1.0), optimizer=0.25, gradients=1.0)


def timed(layer: Times = LAYER, hop_s: float = 0.125) -> Timed:
    return Timed(layers=((layer, 8),), embedding=EMBEDDING, head=HEAD, hop_s=hop_s)


def step(plan: Plan, count: float, layer: Times = LAYER, hop_s: float = 0.125) -> Parts:
    return trained(pipeline_of(timed(layer, hop_s), plan, 8, count)[0], plan)


# --------------------------------------------------------------------------- by hand
def test_one_device_by_hand() -> None:
    """Eight layers of 12 s and 3 s of waiting, the ends 7 s; three microbatches; gradients hide behind 8 x 10 + 4 s of backward pass."""
    parts = step(Plan(), 3)
    assert parts.compute_s == 3 * (8 * 12 + 6 + 1)
    assert parts.exposed == {"tp": 3 * 8 * 3.0, "data": 0.0, "pp": 0.0}
    assert parts.bubble_s == 0
    assert parts.optimizer_s == 8 * 0.5 + 0.5
    assert parts.step_s == 3 * (8 * 15 + 7) + 4.5


def test_two_stages_by_hand() -> None:
    """The last holds four layers and the head, 4 x 15 + 6 = 66 s; the first 61 s. The step: four of the slowest, once the other, hops."""
    parts = step(Plan(pp=2), 4)
    assert parts.compute_s == 4 * (4 * 12 + 6)
    assert parts.exposed["tp"] == 4 * 4 * 3
    assert parts.bubble_s == 61
    assert parts.exposed["pp"] == 2 * 1 * 0.125  # one hop forward and one back while it fills and drains
    assert parts.exposed["data"] == max(4 * 10 + 1 - (4 * 10 + 4), 0) + max(4 * 4 - (4 * 5 + 2), 0) == 0
    assert parts.step_s == 4 * 66 + 61 + 0.25 + 4 * 0.5 + 0.25


def test_gradients_that_do_not_overlap_are_waited_for() -> None:
    parts = step(Plan(pp=2, overlap=("pp",)), 4)
    assert parts.exposed["data"] == 4 * 10 + 1 + 4 * 4
    slow = replace(LAYER, gradients=100.0)
    assert step(Plan(pp=2), 4, slow).exposed["data"] == 4 * 100 + 1 - (4 * 10 + 4)


def test_sharded_gradients_are_exchanged_after_each_microbatch() -> None:
    """ZeRO 2 keeps no sum of its own: four exchanges, each beside a backward pass of 44 s; ZeRO 1 sums first and exchanges once."""
    slow = replace(LAYER, gradients=100.0)
    assert step(Plan(pp=2, zero=2), 4, slow).exposed["data"] == 4 * (4 * 100 + 1 - 44)
    assert step(Plan(pp=2, zero=1), 4, slow).exposed["data"] == 4 * 100 + 1 - 44
    assert step(Plan(pp=2, zero=2, overlap=()), 4).exposed["data"] == 4 * (4 * 10 + 1) + 4 * 4


def test_hops_that_do_not_overlap_are_waited_for_each_time() -> None:
    """Two ways for each of four microbatches, beside those of fill and drain; interleaving sends each chunk."""
    assert step(Plan(pp=2, overlap=()), 4).exposed["pp"] == 0.25 + 2 * 4 * 0.125
    assert step(Plan(pp=2, virtual=2, schedule="interleaved", overlap=()), 4).exposed["pp"] == 0.25 + 2 * 2 * 4 * 0.125
    assert step(Plan(pp=2), 4, hop_s=100.0).exposed["pp"] == 200 + 2 * 4 * (100 - 33)


def test_what_hides_behind_compute_by_hand() -> None:
    """Compute of 4 s, of which attention is 1: the tp exchange takes 1 of it, experts 2, the ring its attention, weights the rest."""
    passes = PassTimes(compute=4.0, attention=1.0, exchanges={"tp": 1.0, "ep": 2.0, "cp": 3.0, "data": 5.0})
    nothing = {"tp": 1.0, "ep": 2.0, "cp": 3.0, "data": 5.0}
    assert exposed(passes, Plan(cp=2, overlap=())) == nothing
    assert exposed(passes, Plan(cp=2, overlap=OVERLAPS)) == {"tp": 0.0, "ep": 0.0, "cp": 2.5, "data": 4.5}
    assert exposed(passes, Plan(cp=2, overlap=("cp", "data")))["data"] == 1.5
    # The first of four hops' attention is on the rank's own keys; gathered keys lie before attention.
    assert exposed(passes, Plan(cp=4, overlap=("cp",)))["cp"] == 3 - 0.75
    assert exposed(passes, Plan(cp=2, overlap=("cp",), context_kind="all_gather"))["cp"] == 3.0


def test_recomputation_covers_exchanges_of_the_backward_pass_and_is_a_part_of_its_own() -> None:
    layer = replace(LAYER, backward=replace(LAYER.backward, recompute=4.0))
    parts = step(Plan(), 2, layer)
    assert parts.recompute_s == 2 * 8 * 4
    assert step(Plan(overlap=("tp",)), 2, layer).exposed["tp"] == 0


def test_decode_keeps_all_stages_busy_with_as_many_microbatches() -> None:
    """Two stages of 20 and 22 s and two microbatches: a token of each sequence takes two of the slower, and two hops."""
    layer = Times(forward=PassTimes(compute=5.0))
    pipeline = pipeline_of(
        Timed(layers=((layer, 8),), embedding=Times(), head=Times(forward=PassTimes(compute=2.0)), hop_s=0.5), Plan(pp=2), 8, 2
    )[0]
    assert decoded(pipeline, Plan(pp=2)).step_s == 2 * 22 + 2 * 0.5
    alone = replace(pipeline, count=1)  # a single sequence passes both
    assert decoded(alone, Plan(pp=2)).step_s == 20 + 22 + 1.0
    assert served(replace(pipeline, count=3), Plan(pp=2)).step_s == 3 * 22 + 20 + 0.5


def test_dualpipe_pairs_the_ends() -> None:
    """A device holds the first and the last stage: half of the embedding and of the head each way."""
    assert held_by_stages(Plan(pp=4, schedule="dualpipe"), 8) == [(2, 0, 0), (2, 0.5, 0.5)]
    assert held_by_stages(Plan(pp=4), 8) == [(2, 0, 0), (2, 1, 0), (2, 0, 1)]
    assert held_by_stages(Plan(), 8) == [(8, 1, 1)]


def test_sums_of_times() -> None:
    both = summed([(LAYER, 2), (HEAD, 1)])
    assert (both.forward.compute, both.backward.weight, both.gradients) == (10.0, 8.0, 21.0)
    assert both.forward.exchanges == {"tp": 2.0}


# --------------------------------------------------------------------------- what holds for all
seconds = st.floats(0, 1e3)
axes = st.dictionaries(st.sampled_from(["tp", "ep", "cp", "data"]), seconds)
overlaps = st.lists(st.sampled_from(OVERLAPS), unique=True).map(tuple)


@st.composite
def layers(draw: st.DrawFn) -> Times:
    def one() -> PassTimes:
        compute = draw(seconds)
        part = st.floats(0, 1)
        return PassTimes(
            compute=compute, recompute=draw(seconds), attention=compute * draw(part), weight=compute * draw(part) / 2, exchanges=draw(axes)
        )

    return Times(forward=one(), backward=one(), optimizer=draw(seconds), gradients=draw(seconds), weights=draw(seconds))


plans = st.builds(
    Plan,
    pp=st.sampled_from([1, 2, 4, 8]),
    cp=st.sampled_from([1, 2, 8]),
    schedule=st.sampled_from(["1f1b", "zero_bubble", "interleaved"]),
    overlap=overlaps,
)


@given(layer=layers(), plan=plans, count=st.integers(1, 64), hop=seconds)
def test_the_parts_add_up_and_none_is_negative(layer: Times, plan: Plan, count: int, hop: float) -> None:
    parts = step(plan, count, layer, hop)
    named = parts.named()
    assert sum(named.values()) == pytest.approx(parts.step_s)
    assert all(s >= 0 for s in named.values())


@given(layer=layers(), plan=plans, count=st.integers(1, 64), hop=seconds)
def test_overlap_never_makes_a_step_longer(layer: Times, plan: Plan, count: int, hop: float) -> None:
    hidden = step(replace(plan, overlap=OVERLAPS), count, layer, hop).step_s
    some = step(plan, count, layer, hop).step_s
    waited = step(replace(plan, overlap=()), count, layer, hop).step_s
    # Under a zero-bubble schedule a longer pass can leave less idle time, so that only the others are ordered.
    if plan.schedule != "zero_bubble":
        assert hidden <= some * (1 + 1e-9) + 1e-9
        assert some <= waited * (1 + 1e-9) + 1e-9


@given(layer=layers(), plan=plans)
def test_what_is_waited_for_is_at_most_the_exchange_and_at_least_what_compute_cannot_cover(layer: Times, plan: Plan) -> None:
    passes = layer.forward
    found = exposed(passes, plan)
    assert set(found) == set(passes.exchanges)
    for axis, waited in found.items():
        assert 0 <= waited <= passes.exchanges[axis]
    hidden = sum(passes.exchanges.values()) - sum(found.values())
    assert hidden <= passes.compute + passes.recompute + 1e-6


@given(
    layer=layers(), stages=st.lists(st.sampled_from([1, 2, 4, 8]), min_size=2, max_size=5), schedule=st.sampled_from(["1f1b", "dualpipe"])
)
def test_arrays_give_what_each_plan_gives(layer: Times, stages: list[int], schedule: str) -> None:
    many: Any = np.array(stages, dtype=np.float64)
    found = step(Plan(pp=many, schedule=schedule), 16, layer)
    for at, pp in enumerate(stages):
        one = step(Plan(pp=pp, schedule=schedule), 16, layer)
        for name, value in one.named().items():
            assert np.broadcast_to(found.named()[name], len(stages))[at] == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_rows_of_arrays_however_deep() -> None:
    pipeline: Pipeline = pipeline_of(timed(), Plan(pp=np.array([1.0, 2.0, 4.0])), 8, 16)[0]
    two = taken(pipeline, np.array([2, 0]))
    assert list(two.slowest.forward_s) == [pipeline.slowest.forward_s[2], pipeline.slowest.forward_s[0]]  # type: ignore[arg-type, index]
    assert two.hop_s == pipeline.hop_s
    assert taken((1, "x", {"a": np.arange(3.0)}), [1])[2]["a"].tolist() == [1.0]


def test_the_slowest_stage_is_the_one_that_sets_the_pace() -> None:
    parts = [layer_passes(t, Plan()) for t in (LAYER, EMBEDDING, HEAD)]
    assert slowest_of(parts, [(4, 0, 0), (4, 1, 0), (4, 0, 1)]).passes.both_s == 4 * 15 + 6
    assert slowest_of(parts, [(5, 0, 0), (3, 1, 0), (3, 0, 1)]).passes.both_s == 75
