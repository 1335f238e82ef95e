"""The search beside a plain enumeration of every plan, one by one: the same plans, the same best, the same front, counts that add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.decide.costs import coster_of
from roofline.decide.evaluate import Evaluator, Subject
from roofline.decide.pareto import front
from roofline.decide.rank import difference, report_of, why
from roofline.decide.search import NO_ROOM, NO_TIME, SAME, Candidate, Found, search
from roofline.decide.space import Space, fixed, grid, space_of
from roofline.errors import UsageError
from roofline.models.memory import memory
from roofline.models.memory_saved import Kept
from roofline.models.shape import shape_of
from roofline.numeric import scalar
from roofline.plan.plan import Plan
from roofline.plan.validate import Case, problems
from roofline.predict.estimate.estimator import NoParameters
from roofline.report.shape import encode
from roofline.spec.plan import read_plan, written
from roofline.spec.vectorised import LANGUAGE
from tests.decide.models import DENSE, MIXED, STATED, cluster, subject

NARROW = Space(zero=(0, 2), recompute=("none", "full"), context_kind=("ring", "ulysses"))


def stated() -> Any:
    return coster_of("efficiency", cluster(), shares=STATED)


def searched(asked: Subject, devices: int, space: Space, **rest: Any) -> Found:
    return search(asked, (devices,), stated(), space, **rest)


# --------------------------------------------------------------------------- the independent count
def every_plan(asked: Subject, devices: int, space: Space) -> Iterator[Plan]:
    """Plans in loops: those that obey the rules and are not the same as another in other words."""
    shape = shape_of(asked.model)
    divisors = [d for d in range(1, devices + 1) if devices % d == 0]
    experts = [e for e in range(1, shape.experts + 1) if shape.experts % e == 0] or [1]
    for tp, cp, pp, micro, ep in product(divisors, divisors, divisors, [1, 2, 4, 8, 16, 32, 64], experts):
        if devices % (tp * cp * pp):
            continue
        dp = devices // (tp * cp * pp)
        for schedule, sp, context, zero, recompute, order in product(
            space.schedule, (False, True), space.context_kind, space.zero, space.recompute, space.order
        ):
            chunks = range(2, 17) if schedule == "interleaved" else [1]
            for virtual, etp in product(chunks, {1, tp} if shape.experts else {1}):
                plan = Plan(
                    tp=tp, cp=cp, pp=pp, dp=dp, ep=ep, etp=etp, microbatch=micro, virtual=virtual, sequence_parallel=sp,
                    context_kind=context, zero=zero, schedule=schedule, recompute=recompute, order=order, uneven=True,
                )  # fmt: skip
                same = (sp and tp == 1) or (context != "ring" and cp == 1) or (zero and cp * dp == 1) or (schedule != "1f1b" and pp == 1)
                same = same or (order != "tp-cp-pp-dp" and (pp == 1 or dp == 1))
                if same or any(p.fatal for p in problems(Case(plan=plan, job=asked.job, shape=shape, devices=devices))):
                    continue
                yield replace(plan, uneven=shape.layers % (pp * virtual) != 0)


@pytest.mark.parametrize("layers", [(DENSE,) * 4, (DENSE, MIXED)])
def test_an_estimated_search_leaves_out_plans_over_links_of_which_nothing_is_known(layers: Any) -> None:
    """Two nodes, one by one: plans within a node have the time that they have by themselves, the others are counted."""
    asked = subject("decode", layers, batch=16)
    space = space_of(asked.job, shape_of(asked.model), "flash")
    coster = coster_of("estimate", cluster(), execution="engine")
    found = search(asked, (16,), coster, space, top=1000)
    judge = Evaluator(asked, coster_of("estimate", cluster(), execution="engine"))
    costs: dict[str, float] = {}
    without = set()
    for plan in every_plan(asked, 16, replace(space, zero=(0,))):
        if plan.microbatch == 1:
            try:
                costs[written(plan)] = scalar(judge.evaluate(plan).step_s)
            except NoParameters:
                without.add(written(plan))
    assert {written(c.plan): c.step_s for c in found.best}.items() <= {name: pytest.approx(s) for name, s in costs.items()}.items()
    assert found.best[0].step_s == pytest.approx(min(costs.values()))
    assert (found.counted.feasible, found.counted.infeasible[NO_TIME]) == (len(costs), len(without))
    assert len(without) > 10
    said = report_of(found, asked, (16,), coster, "time").warnings[-1].message
    assert "over infiniband with 'roofline calibrate --links'" in said


def test_where_no_plan_has_an_estimate_the_refusal_says_what_to_do() -> None:
    asked = subject("decode", (DENSE,) * 4, batch=16)
    only = fixed(space_of(asked.job, shape_of(asked.model), "flash"), Plan(tp=16), ("tp",))
    with pytest.raises(NoParameters, match=r"calibrate --links.*--efficiency"):
        search(asked, (16,), coster_of("estimate", cluster(), execution="engine"), only)


@pytest.mark.parametrize("layers", [(DENSE,) * 4, (DENSE, MIXED)])
def test_the_search_finds_what_looking_at_each_plan_finds(layers: Any) -> None:
    asked = subject("train", layers, batch=8)
    space = replace(NARROW, schedule=("1f1b", "interleaved", "dualpipe"), zero=(0, 3), context_kind=("ring",), recompute=("none",))
    found = searched(asked, 4, space, top=1000)
    plans = list(every_plan(asked, 4, space))
    judge, kept = Evaluator(asked, stated()), Kept()
    costs = {written(p): scalar(judge.evaluate(p).step_s) for p in plans}
    bytes_ = {written(p): scalar(memory(asked.model, None, asked.job, p, LANGUAGE, kept=kept).needed) for p in plans}
    fitting = [name for name in costs if bytes_[name] <= 80e9]
    assert len(fitting) > 100
    assert found.counted.feasible == len(fitting)
    assert found.counted.infeasible.get(NO_ROOM, 0) == len(plans) - len(fitting)
    assert found.best[0].step_s == pytest.approx(min(costs[n] for n in fitting), rel=1e-12)
    for one in found.best:
        assert one.step_s == pytest.approx(costs[written(one.plan)], rel=1e-12)
        assert one.memory_bytes == pytest.approx(bytes_[written(one.plan)], rel=1e-12)
        assert sum(one.parts_s.values()) == pytest.approx(one.step_s)
    for one in found.pareto:
        beaten = [n for n in fitting if costs[n] < one.step_s * (1 - 1e-9) and bytes_[n] < one.memory_bytes * (1 - 1e-9)]
        assert not beaten, (written(one.plan), beaten[:3])


def test_the_counts_add_up_and_the_best_are_in_order() -> None:
    asked = subject(batch=64)
    found = searched(asked, 32, space_of(asked.job, shape_of(asked.model), "flash"), top=50)
    counted = found.counted
    assert counted.looked_at == counted.feasible + sum(counted.infeasible.values())
    assert counted.infeasible[SAME] > 0
    steps = [c.step_s for c in found.best]
    assert steps == sorted(steps)
    assert len(set(steps)) == len(steps) == 50
    ends = [(c.step_s, c.memory_bytes) for c in found.pareto]
    assert ends == sorted(ends)
    assert [m for _, m in ends] == sorted((m for _, m in ends), reverse=True)
    assert found.pareto[0].step_s == steps[0]


def test_plans_over_several_nodes_take_alone_what_the_search_says_in_either_order() -> None:
    asked = subject("train", (DENSE, MIXED) * 2, batch=64)
    read = read_plan("pp=2,microbatch=1")
    space = fixed(replace(NARROW, schedule=("1f1b",), zero=(0, 3), recompute=("none",)), read.plan, read.nodes)
    found = searched(asked, 32, space, top=400)
    assert {c.plan.order for c in found.best} == {"tp-cp-pp-dp", "tp-cp-dp-pp"}
    judge = Evaluator(asked, stated())
    for c in found.best:
        assert c.step_s == pytest.approx(scalar(judge.evaluate(c.plan).step_s), rel=1e-12)


def test_what_does_not_fit_is_no_plan_but_a_count() -> None:
    asked = subject(batch=64)
    space = Space(zero=(0,), recompute=("none",), schedule=("1f1b",))
    none = searched(asked, 8, space, reserve=80e9)
    assert none.best == none.pareto == ()
    assert none.counted.infeasible[NO_ROOM] > 0
    report = report_of(none, asked, (8,), stated(), "time")
    assert report.why is None


def test_objectives() -> None:
    asked = subject(batch=64)
    space = replace(NARROW, schedule=("1f1b",))
    sizes = (8, 32)
    by = {name: search(asked, sizes, stated(), space, objective=name, top=20) for name in ("time", "cost", "memory")}
    assert by["time"].best[0].devices == 32
    assert by["cost"].best[0].device_s <= by["time"].best[0].device_s
    assert [c.device_s for c in by["cost"].best] == sorted(c.device_s for c in by["cost"].best)
    assert by["memory"].best[0].memory_bytes == min(c.memory_bytes for c in by["time"].pareto)
    with pytest.raises(UsageError, match="known: time, cost, memory"):
        search(asked, (8,), stated(), space, objective="money")


def test_serving_searches_without_what_only_training_has() -> None:
    asked = subject("decode", batch=64)
    found = searched(asked, 8, space_of(asked.job, shape_of(asked.model), "flash"), top=100)
    assert found.best
    assert {(c.plan.zero, c.plan.recompute, c.plan.schedule, c.plan.virtual) for c in found.best} == {(0, "none", "1f1b", 1)}


@pytest.mark.parametrize(("phase", "sizes"), [("prefill", {"batch": 72, "seq": 512}), ("mixed", {"batch": 64, "chunk": 256})])
def test_a_search_of_serving_finds_what_looking_at_each_plan_finds(phase: str, sizes: dict[str, int]) -> None:
    """Meshes of eight devices in loops; in prefill with parts of any number of prompts where there are stages, and whole where there are
    none."""
    asked = subject(phase, (DENSE,) * 8, **sizes)
    found = searched(asked, 8, replace(space_of(asked.job, shape_of(asked.model), "flash"), order=("tp-cp-pp-dp",)), top=1000)
    judge, shape = Evaluator(asked, stated()), shape_of(asked.model)
    costs: dict[str, float] = {}
    for tp, cp, pp, sp, kind in product([1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8], (False, True), ("ring", "all_gather", "ulysses")):
        dp, several = 8 / (tp * cp * pp), phase == "prefill" and pp > 1
        if dp < 1 or (sp and tp == 1) or (kind != "ring" and cp == 1):
            continue
        for parts in range(1, 73) if several else [1]:
            plan = Plan(tp=tp, cp=cp, pp=pp, dp=int(dp), microbatch=parts, sequence_parallel=sp, context_kind=kind)
            if not any(p.fatal for p in problems(Case(plan=plan, job=asked.job, shape=shape, devices=8))):
                costs[written(plan, phase)] = scalar(judge.evaluate(plan).step_s)
    assert found.counted.feasible == len(costs)
    assert {name.count("microbatch=") for name in costs if "pp=" in name} == ({1} if phase == "prefill" else {0})
    for one in found.best:
        assert one.step_s == pytest.approx(costs[written(one.plan, phase)], rel=1e-12)
    assert found.best[0].step_s == pytest.approx(min(costs.values()), rel=1e-12)
    report = report_of(found, asked, (8,), stated(), "time")
    assert [one.plan for one in report.best] == [written(one.plan, phase) for one in found.best]
    assert f"beats {report.best[1].plan} by" in str(report.why)


def test_a_step_that_has_no_parts_of_its_own_takes_none_that_are_stated() -> None:
    asked = subject("decode", batch=64)
    read = read_plan("microbatch=1")
    with pytest.raises(UsageError, match="a decode step goes in as many parts as there are stages"):
        searched(asked, 8, fixed(space_of(asked.job, shape_of(asked.model), "flash"), read.plan, read.nodes))


def test_selective_recomputation_is_searched_where_scores_are_kept() -> None:
    asked = subject(attention="naive")
    shape = shape_of(asked.model)
    assert space_of(asked.job, shape, "naive").recompute == ("none", "selective", "full")
    assert space_of(asked.job, shape, "flash").recompute == ("none", "full")


def test_what_a_user_states_stays_fixed() -> None:
    asked = subject(batch=64)
    read = read_plan("tp=4,zero=1,sp,order=tp-cp-dp-pp,recompute=full,context=ulysses,overlap=tp+data,microbatch=2")
    space = fixed(space_of(asked.job, shape_of(asked.model), "flash"), read.plan, read.nodes)
    found = searched(asked, 32, space, top=100)
    assert found.best
    for c in found.best:
        p = c.plan
        assert (p.tp, p.zero, p.sequence_parallel, p.recompute, p.overlap, p.microbatch) == (4, 1, True, "full", ("tp", "data"), 2)
    chunked = read_plan("pp=2,virtual=2")
    narrow = fixed(space_of(asked.job, shape_of(asked.model), "flash"), chunked.plan, chunked.nodes)
    found = searched(asked, 8, narrow, top=10)
    assert {(c.plan.schedule, c.plan.virtual, c.plan.pp) for c in found.best} == {("interleaved", 2, 2)}


@pytest.mark.parametrize(
    "words", ["cp=1", "tp=1,sp", "pp=1,schedule=zero_bubble", "pp=1,order=tp-cp-dp-pp", "cp=1,dp=1,zero=3", "cp=1,context=ulysses"]
)
def test_a_stated_word_that_changes_nothing_is_no_reason_to_leave_a_plan_out(words: str) -> None:
    for phase in ("train", "decode"):
        asked = subject(phase, batch=64)
        read = read_plan(words)
        space = fixed(space_of(asked.job, shape_of(asked.model), "flash"), read.plan, read.nodes)
        assert searched(asked, 8, space, top=3).best, (words, phase)


def test_the_grid_holds_every_mesh_once() -> None:
    asked = subject()
    columns = grid(32, asked.job, shape_of(asked.model), Space())
    meshes = Counter(zip(*(columns[n] for n in ("tp", "cp", "pp", "dp", "microbatch")), strict=True))
    assert set(meshes.values()) == {1}
    assert len(meshes) == 56 * 7  # ordered ways to write 2^5 as four factors, with seven sizes of a microbatch
    assert all(tp * cp * pp * dp == 32 for tp, cp, pp, dp, _ in meshes)


# --------------------------------------------------------------------------- the front and the reason
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30))
def test_the_front_is_what_comparing_all_pairs_leaves(points: list[tuple[int, int]]) -> None:
    first, second = (np.array([p[i] for p in points], dtype=np.float64) for i in (0, 1))
    left = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    found = [points[i] for i in front(first, second)]
    assert found == sorted(left)


def candidate(parts: dict[str, float], memory_bytes: float = 1e9, devices: int = 8, **plan: Any) -> Candidate:
    return Candidate(plan=Plan(**plan), devices=devices, step_s=sum(parts.values()), parts_s=parts, memory_bytes=memory_bytes)


def test_why_names_what_is_gained_and_what_is_paid() -> None:
    best = candidate({"compute": 4.0, "bubble": 0.5, "exposed_tp": 0.25}, tp=4)
    next_ = candidate({"compute": 4.0, "bubble": 0.25, "exposed_tp": 0.75}, tp=8)
    assert difference(best, next_) == {"compute": 0.0, "bubble": -0.25, "exposed_tp": 0.5}
    assert why(best, next_, "time") == "It beats tp=8 by 5.0 %: 500.0 ms tensor parallel less, against 250.0 ms bubble more."
    assert why(best, replace(next_, devices=16), "cost").startswith(
        "It beats tp=8 by 52.5 % of device time: 500.0 ms tensor parallel less and 8 devices in place of 16"
    )
    small = candidate({"compute": 5.0}, 0.5e9, tp=2)
    assert why(small, best, "memory") == "It needs 500.0 MB a device less than tp=4, for a step 5.3 % longer."


def test_the_report_says_the_same_twice() -> None:
    asked = subject(batch=64)
    space = replace(NARROW, schedule=("1f1b", "interleaved"))
    one, two = (encode(report_of(searched(asked, 16, space), asked, (16,), stated(), "time")) for _ in range(2))
    assert one == two
    assert one["best"][0]["mfu"] < 0.6
    assert sum(one["difference_s"].values()) == pytest.approx(one["best"][1]["step_s"] - one["best"][0]["step_s"])
