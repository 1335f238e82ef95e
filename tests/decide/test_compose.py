"""Composition from seconds of layers: by hand, what hides behind what, parts that add up, arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.decide.compose import Parts, Pipeline, Stage, decoded, exposed, layer_passes, served, slowest_of, trained
from roofline.decide.evaluate import held_by_stages, pipeline_of
from roofline.decide.layers import Issued, Timed
from roofline.decide.rows import taken
from roofline.decide.times import PassTimes, Times, summed
from roofline.plan.plan import OVERLAPS, Plan
from roofline.predict.estimate.timeline import NOTHING, launch

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
    """Each of two stages sends one way: four microbatches, the first or last of them while it fills or drains; of four stages those between
    send both ways. Interleaving sends each chunk, and from the last stage of one to the first of the next."""
    assert step(Plan(pp=2, overlap=()), 4).exposed["pp"] == 0.25 + (4 - 1) * 0.125
    assert step(Plan(pp=4, overlap=()), 4).exposed["pp"] == 6 * 0.125 + (2 * 4 - 3) * 0.125
    assert step(Plan(pp=2, virtual=2, schedule="interleaved", overlap=()), 4).exposed["pp"] == 0.25 + (3 * 4 - 1) * 0.125


def test_a_hop_that_takes_longer_than_a_stage_sets_the_pace() -> None:
    """The slower stage takes 66 s both ways: each of the three microbatches behind the first is 34 s later over hops of 100 s."""
    assert step(Plan(pp=2), 4, hop_s=100.0).exposed["pp"] == 200 + 3 * (100 - 66)
    assert step(Plan(pp=2), 4, hop_s=50.0).exposed["pp"] == 100
    twice = step(Plan(pp=2, virtual=2, schedule="interleaved"), 4, hop_s=50.0)
    assert twice.exposed["pp"] == 100 + 7 * (50 - 33)  # eight pieces of half a stage
    assert step(Plan(pp=2, schedule="dualpipe"), 4, hop_s=0.125).exposed["pp"] == 0  # each end has its own to start with


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


def test_what_is_needed_at_once_hides_behind_nothing() -> None:
    """A ring of 3 s beside attention of 4 s leaves nothing to wait for on many ranks; parts of an answer that are added up do."""
    ring = PassTimes(compute=4.0, attention=4.0, exchanges={"cp": 2.0})
    assert exposed(ring, Plan(cp=2)) == {"cp": 0.0}
    assert exposed(replace(ring, needed={"cp": 0.5}), Plan(cp=2, overlap=OVERLAPS)) == {"cp": 0.5}
    parts = step(Plan(cp=2), 3, replace(LAYER, forward=replace(LAYER.forward, needed={"cp": 0.25})))
    assert parts.exposed["cp"] == 3 * 8 * 0.25


def test_recomputation_covers_exchanges_of_the_backward_pass_and_is_a_part_of_its_own() -> None:
    layer = replace(LAYER, backward=replace(LAYER.backward, recompute=4.0))
    parts = step(Plan(), 2, layer)
    assert parts.recompute_s == 2 * 8 * 4
    assert step(Plan(overlap=("tp",)), 2, layer).exposed["tp"] == 0


def test_decode_keeps_all_stages_busy_with_as_many_microbatches() -> None:
    """Two stages of 20 and 22 s and a hop of 0.5 s: a microbatch comes again after 42.5 s, the slower stage has both of two after 44 s."""
    layer = Times(forward=PassTimes(compute=5.0))
    pipeline = pipeline_of(
        Timed(layers=((layer, 8),), embedding=Times(), head=Times(forward=PassTimes(compute=2.0)), hop_s=0.5), Plan(pp=2), 8, 2
    )[0]
    assert decoded(pipeline, Plan(pp=2)).step_s == 2 * 22
    assert decoded(replace(pipeline, hop_s=4.0), Plan(pp=2)).step_s == 20 + 22 + 4
    assert decoded(replace(pipeline, hop_s=100.0), Plan(pp=2)).step_s == 2 * 100  # the hop is busiest of all
    alone = replace(pipeline, count=1)  # a single sequence passes both, and what comes back is the number of a token
    assert decoded(alone, Plan(pp=2)).step_s == 20 + 22 + 0.5
    assert decoded(pipeline, Plan(pp=2, overlap=())).step_s == 2 * (22 + 0.5)
    assert served(replace(pipeline, count=3), Plan(pp=2)).step_s == 3 * 22 + 20 + 0.5


def test_a_host_that_falls_behind_by_hand() -> None:
    """Layers of 5 s that a host needs 6 s to launch, a head of 2 s that takes it 1 s: two stages of 4 x 6 and of 4 x 6 + 2 s. A single
    stage is known as a whole: its last layer is issued at 48 and ends at 53, the head at 55, 49 s after the first layer was issued."""
    layer, head = (Times(forward=PassTimes(compute=device, host=host)) for host, device in ((6.0, 5.0), (1.0, 2.0)))
    issued = Issued(microbatch=launch(6.0, 5.0).times(8).then(launch(1.0, 2.0)), optimizer=NOTHING, first_s=6.0)
    part = Timed(layers=((layer, 8),), embedding=Times(), head=head, hop_s=0.0, issued=issued)
    staged = served(pipeline_of(part, Plan(pp=2), 8, 3)[0], Plan(pp=2))
    assert (staged.step_s, staged.bubble_s, staged.exposed["host"]) == (3 * 26 + 24, 24, 3 * 4)
    alone = served(pipeline_of(part, Plan(), 8, 1)[0], Plan())
    assert (alone.step_s, alone.exposed["host"]) == (49, 49 - 42)
    assert alone.named()["exposed_host"] == 7


def test_a_prefill_of_sixteen_prompts_over_four_stages_by_hand() -> None:
    """A prompt takes a stage 1 s. Four parts of four pass four stages in 4 + 3 turns of 4 s; sixteen of one in 16 + 3 turns of 1 s."""
    fours, ones = ((4.0, 4), (1.0, 16))
    for seconds, count in (fours, ones):
        parts = served(row_of([seconds] * 4, 0.0, count), Plan(pp=4))
        assert parts.step_s == (count + 3) * seconds
        assert parts.bubble_s == 3 * seconds
    assert served(row_of([1.0] * 4, 0.25, 16), Plan(pp=4)).step_s == 19 + 3 * 0.25
    assert served(row_of([1.0] * 4, 2.0, 16), Plan(pp=4)).step_s == 4 + 3 * 2 + 15 * 2  # the hop is what the parts wait for
    assert served(row_of([1.0] * 4, 0.25, 16), Plan(pp=4, overlap=())).step_s == 19 + (3 + 15) * 0.25


# --------------------------------------------------------------------------- an independent count of serving
def row_of(stages: list[float], hop_s: float, count: int) -> Pipeline:
    """A pipeline of stages that take so long."""
    slow = Times(forward=PassTimes(compute=max(stages)))
    stage = Stage(times=slow, forward_s=max(stages), backward_s=0.0, exposed={})
    return Pipeline(slowest=stage, all_forward_s=sum(stages), all_backward_s=0.0, all_weight_s=0.0, hop_s=hop_s, count=count)


def machines(stages: list[float], hop_s: float, overlap: bool) -> list[float]:
    """What works on a microbatch, one after the other: stages and the links between them, or stages that send by themselves."""
    if not overlap:
        return [s + hop_s for s in stages[:-1]] + stages[-1:]
    return [s for stage in stages[:-1] for s in (stage, hop_s)] + stages[-1:]


def when_done(row: list[float], count: int, rounds: int) -> list[list[float]]:
    """For each round and microbatch, when the last machine is done with it: a machine works on one at a time, in their order, and a
    microbatch starts a round when it is done with the one before."""
    free = [0.0] * len(row)
    ready = [0.0] * count
    found = []
    for _ in range(rounds):
        for i in range(count):
            at = ready[i]
            for m, seconds in enumerate(row):
                at = free[m] = max(at, free[m]) + seconds
            ready[i] = at
        found.append(list(ready))
    return found


whole = st.integers(1, 40).map(float)
rows = st.lists(whole, min_size=2, max_size=6)


@given(stages=rows, hop=st.integers(0, 60).map(float), count=st.integers(1, 20))
def test_a_prefill_takes_what_its_events_take(stages: list[float], hop: float, count: int) -> None:
    found = served(row_of(stages, hop, count), Plan(pp=len(stages)))
    assert found.step_s == pytest.approx(when_done(machines(stages, hop, True), count, 1)[0][-1], rel=1e-12)
    assert all(s >= 0 for s in found.named().values())
    held_up = served(row_of(stages, hop, count), Plan(pp=len(stages), overlap=())).step_s
    done = when_done(machines(stages, hop, False), count, 1)[0][-1]
    assert done <= held_up * (1 + 1e-12)
    if stages[-1] < max(stages):  # where the last is the slowest it sends nothing, and what it receives is what it waits for
        assert held_up == pytest.approx(done, rel=1e-12)


@given(stages=rows, hop=st.integers(0, 60).map(float), data=st.data())
def test_a_round_of_decode_takes_what_its_events_take_in_the_long_run(stages: list[float], hop: float, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(stages)))
    found = decoded(row_of(stages, hop, count), Plan(pp=len(stages)))
    ends = when_done(machines(stages, hop, True), count, 120)
    assert found.step_s == pytest.approx((ends[-1][-1] - ends[-61][-1]) / 60, rel=1e-9)
    assert all(s >= 0 for s in found.named().values())


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
