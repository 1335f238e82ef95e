"""Rules of plans: each is broken by a plan of its own, with the sentence that says what to change; masks agree with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.plan.job import Job
from roofline.plan.plan import CONTEXT_KINDS, SCHEDULES, Plan
from roofline.plan.validate import RULES, Case, Shape, problems, verdicts

BIG = Shape(layers=126, heads=128, kv_heads=8)
EXPERTS = Shape(layers=32, heads=32, kv_heads=8, experts=8, width=14336)
TRAIN = Job(phase="train", batch=2048, seq=8192)
FILL, STEP = Job(phase="prefill", batch=64, seq=8192), Job(phase="decode", batch=64, context=8192)
BOTH = Job(phase="mixed", batch=64, context=8192, chunk=512)
GOOD = Plan(tp=8, pp=16, dp=64, uneven=True)


STRADDLE = (Plan(tp=6, dp=4), Plan(tp=6), Plan(tp=4, dp=4))


def broken(plan: Plan, shape: Shape = BIG, job: Job = TRAIN, **rest: Any) -> dict[str, str]:
    """Reasons with their sentences."""
    return {p.reason: p.message for p in problems(Case(plan=plan, job=job, shape=shape, **rest))}


def test_a_good_plan_breaks_no_rule() -> None:
    assert broken(GOOD, devices=8192, node_ranks=8) == {}


def test_the_product_names_each_degree_and_what_would_fill_the_devices() -> None:
    said = broken(Plan(tp=8, cp=16, pp=16, dp=4, uneven=True), devices=16384)
    assert said == {
        "product of degrees is not the devices": "tp 8 x cp 16 x pp 16 x dp 4 is 8,192 devices, not 16,384; dp=8 would use them all"
    }
    said = broken(Plan(tp=8, pp=2, uneven=True), devices=100)
    assert "tp x cp x pp = 16 must divide 100" in said["product of degrees is not the devices"]


@pytest.mark.parametrize(
    ("plan", "shape", "job", "reason", "part"),
    [
        (Plan(tp=48, dp=2), BIG, TRAIN, "heads by tp", "128 heads do not divide by tp 48"),
        (Plan(tp=3), Shape(layers=4, heads=12, kv_heads=8), TRAIN, "kv heads by tp", "8 kv heads and tp 3"),
        (Plan(pp=16), BIG, TRAIN, "layers by stages", "'uneven' lets the first and last hold 2 fewer together"),
        (Plan(pp=50, uneven=True), BIG, TRAIN, "layers by stages", "stages x virtual that do: 1, 2, 3, 6, 7"),
        (Plan(dp=3), BIG, TRAIN, "batch by dp x microbatch", "a batch of 2048 does not divide by dp 3 x microbatch 1 = 3"),
        (Plan(dp=3), BIG, Job(phase="decode", batch=4, context=64), "batch by dp x microbatch", "a batch of 4 does not divide by dp 3"),
        (Plan(pp=2, dp=2048), BIG, TRAIN, "fewer microbatches than stages", "1 microbatches cannot fill pp 2 stages"),
        (Plan(pp=2, dp=1024, schedule="dualpipe"), BIG, TRAIN, "fewer microbatches than stages", "cannot fill twice pp 2 stages"),
        (Plan(pp=2, virtual=3), BIG, TRAIN, "virtual stages without interleaving", "virtual 3 needs schedule=interleaved, not 1f1b"),
        (Plan(virtual=3, schedule="interleaved"), BIG, TRAIN, "virtual stages without interleaving", "need pp > 1"),
        (
            Plan(pp=3, virtual=2, schedule="interleaved"),
            BIG,
            TRAIN,
            "microbatches by stages, interleaved",
            "2048 microbatches do not divide by pp 3",
        ),
        (Plan(pp=3, schedule="dualpipe"), BIG, TRAIN, "DualPipe needs pairs", "an even number of stages (pp 3)"),
        (Plan(cp=3), BIG, TRAIN, "tokens by cp", "8192 tokens do not divide into 2 x cp 3 pieces, which balance a causal mask"),
        (Plan(cp=3), replace(BIG, causal=False), TRAIN, "tokens by cp", "do not divide into cp 3 pieces"),
        (
            Plan(tp=128, cp=128, sequence_parallel=True),
            BIG,
            TRAIN,
            "tokens by tp x cp, sequence parallel",
            "8192 tokens do not divide by tp 128 x cp 128",
        ),
        (Plan(tp=16, cp=16, context_kind="ulysses"), BIG, TRAIN, "heads by tp x cp, Ulysses", "128 heads do not divide by tp 16 x cp 16"),
        (Plan(tp=4, ep=8), EXPERTS, TRAIN, "ep x etp by ranks of a stage", "ep 8 x etp 1 = 8 does not divide tp x cp x dp = 4"),
        (Plan(tp=4, ep=4, etp=2), EXPERTS, TRAIN, "ep x etp by ranks of a stage", "ep 4 x etp 2 = 8 does not divide tp x cp x dp = 4"),
        (Plan(dp=16, ep=16), EXPERTS, TRAIN, "experts by ep", "8 experts do not divide by ep 16"),
        (Plan(dp=2, ep=2), BIG, TRAIN, "experts by ep", "the model has no experts to spread"),
        (Plan(tp=0), BIG, TRAIN, "a degree below 1", "at least 1"),
        (Plan(pp=2, dp=2, microbatch=3), BIG, FILL, "batch by dp x microbatch", "a batch of 64 does not divide by dp 2 x microbatch 3 = 6"),
        (Plan(microbatch=2), BIG, FILL, "microbatch where a step has none", "microbatch 2 needs pp > 1 in prefill"),
        (
            Plan(pp=2, microbatch=2),
            BIG,
            STEP,
            "microbatch where a step has none",
            "a decode step goes in as many parts as there are stages",
        ),
        (Plan(pp=2, schedule="dualpipe"), BIG, FILL, "a schedule of training", "schedule=dualpipe is of training"),
        (Plan(cp=2), BIG, BOTH, "a mixed step under cp", "cp 2 of a mixed step"),
        (
            Plan(pp=6),
            BIG,
            BOTH,
            "batch and chunk of a mixed step by dp x pp",
            "batch 64 and chunk 512 of a mixed step: no multiple of dp 1 x pp 6 = 6",
        ),
    ],
)
def test_each_rule_has_a_plan_that_breaks_it(plan: Plan, shape: Shape, job: Job, reason: str, part: str) -> None:
    if plan.tp == 0:
        rule = next(r for r in RULES if r.reason == reason)
        case = Case(plan=plan, job=job, shape=shape)
        assert not rule.holds(case)
        assert part in rule.says(case)
        return
    assert part in broken(plan, shape, job)[reason]


def test_a_causal_mask_needs_two_pieces_a_rank_and_others_one() -> None:
    """8190 tokens are two pieces and not four."""
    job = Job(phase="train", batch=2048, seq=8190)
    assert "tokens by cp" in broken(Plan(cp=2), BIG, job)
    assert broken(Plan(cp=2), replace(BIG, causal=False), job) == {}
    assert broken(Plan(cp=2, context_kind="ulysses"), BIG, job) == {}


def test_tp_beyond_a_node_is_a_warning_and_no_error() -> None:
    (found,) = problems(Case(plan=Plan(tp=16), job=TRAIN, shape=BIG, node_ranks=8))
    assert (found.axis, found.fatal) == ("tp", False)
    assert found.message == "tp 16 reaches beyond a node of 8: its exchanges take the slower network"


def test_tp_that_does_not_divide_a_node_is_a_warning_where_a_group_straddles() -> None:
    """Of four groups of 6 on nodes of 8 two do; a single one, and those of 4, do not."""
    shape = Shape(layers=4, heads=24, kv_heads=24)
    reasons = {plan: [p.message for p in problems(Case(plan=plan, job=TRAIN, shape=shape, node_ranks=8))] for plan in STRADDLE}
    assert [len(said) for said in reasons.values()] == [1, 0, 0]
    assert reasons[STRADDLE[0]][0].startswith("tp 6 does not divide a node of 8")


@pytest.mark.parametrize("job", [FILL, STEP, BOTH])
def test_serving_in_stages_breaks_no_rule(job: Job) -> None:
    parts = 4 if job.phase == "prefill" else 1
    assert broken(Plan(tp=8, pp=2, dp=4, microbatch=parts), BIG, job) == {}
    if job.phase == "prefill":
        assert broken(Plan(pp=2, dp=4, microbatch=0), BIG, job) == {}
    else:  # one that somebody wrote is none of the step's, and is not passed over in silence
        assert "microbatch 1 is of training and prefill" in broken(Plan(pp=2), BIG, job, stated=True)["microbatch where a step has none"]


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert len(broken(Plan(tp=48, pp=50, dp=3, virtual=2), devices=8)) >= 5


degree = st.sampled_from([1, 2, 3, 4, 6, 8, 16])


@given(
    rows=st.lists(st.tuples(degree, degree, degree, degree, degree, degree), min_size=1, max_size=6),
    schedule=st.sampled_from(SCHEDULES),
    context=st.sampled_from(CONTEXT_KINDS),
    parallel=st.booleans(),
    uneven=st.booleans(),
    shape=st.sampled_from([BIG, EXPERTS]),
    job=st.sampled_from([TRAIN, FILL, STEP, BOTH]),
)
def test_a_mask_says_of_each_plan_what_its_own_verdict_says(
    rows: list[tuple[int, ...]], schedule: str, context: str, parallel: bool, uneven: bool, shape: Shape, job: Job
) -> None:
    names = ("tp", "cp", "pp", "dp", "ep", "microbatch" if job is FILL else "virtual")
    words: dict[str, Any] = {"schedule": schedule, "context_kind": context, "sequence_parallel": parallel, "uneven": uneven}
    many: dict[str, Any] = {name: np.array([r[i] for r in rows], dtype=np.float64) for i, name in enumerate(names)}
    masks = {
        reason: np.broadcast_to(holds, len(rows)) for reason, holds in verdicts(Case(plan=Plan(**many, **words), job=job, shape=shape))
    }
    for at, row in enumerate(rows):
        one = broken(Plan(**dict(zip(names, row, strict=True)), **words), shape, job)
        assert {reason for reason, mask in masks.items() if not mask[at]} == set(one)
