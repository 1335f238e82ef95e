"""The values of a size that the rules of plans allow: exactly those that the rules themselves let pass."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from roofline.plan.job import Job
from roofline.plan.multiples import allowed
from roofline.plan.plan import CONTEXT_KINDS, Plan
from roofline.plan.validate import RULES, Case, Shape

DIVIDING = (
    "batch by dp x microbatch",
    "batch and chunk of a mixed step by dp x pp",
    "tokens by cp",
    "tokens by tp x cp, sequence parallel",
    "a cached prefix of the whole prompt",
)
SHAPE = Shape(layers=24, heads=24, kv_heads=24)


def passes(case: Case) -> bool:
    """Whether the rules that divide sizes hold."""
    return all(rule.holds(case) for rule in RULES if rule.reason in DIVIDING)


degrees = st.integers(1, 4)


@given(
    plan=st.builds(
        Plan, tp=degrees, cp=degrees, pp=degrees, dp=degrees, microbatch=st.integers(1, 3), sequence_parallel=st.booleans(),
        context_kind=st.sampled_from(CONTEXT_KINDS),
    ),
    phase=st.sampled_from(("prefill", "decode", "mixed", "train")),
    causal=st.booleans(),
    images=st.integers(0, 2),
    cached=st.integers(0, 9),
)  # fmt: skip
def test_the_allowed_values_are_those_that_obey(plan: Plan, phase: str, causal: bool, images: int, cached: int) -> None:
    if phase in ("decode", "mixed"):
        plan = replace(plan, microbatch=1)
    if phase == "mixed":
        plan = replace(plan, cp=1)
    alone = plan.cp == 1 and phase == "prefill"  # where a prefix and images are described
    job = Job(phase=phase, cached=cached if alone else 0, images=images if alone else 0, image_tokens=5 if alone else 0)
    many = 24 * plan.devices * plan.microbatch  # divides by all that a plan may ask
    for size in ("batch", "chunk", "seq", "context"):
        before, step = allowed(Case(plan=plan, job=job, shape=replace(SHAPE, causal=causal)), size)
        usual = {"batch": many, "chunk": many, "context": 2 * many, "seq": 2 * many - job.images * job.image_tokens + job.cached}
        tried = range(1, before + 3 * step + 1)
        cases = (Case(plan=plan, job=replace(job, **{**usual, size: n}), shape=replace(SHAPE, causal=causal)) for n in tried)
        obey = {n for n, case in zip(tried, cases, strict=True) if passes(case)}
        assert obey == {before + step, before + 2 * step, before + 3 * step}


@given(dp=degrees, pp=degrees, microbatch=st.integers(0, 3))
def test_a_batch_has_whole_parts_on_every_replica(dp: int, pp: int, microbatch: int) -> None:
    """A prefill through stages, by hand: dp replicas of as many parts of so many prompts; parts left open are of one at least."""
    assume(pp > 1)
    case = Case(plan=Plan(dp=dp, pp=pp, microbatch=microbatch), job=Job(phase="prefill"), shape=SHAPE)
    assert allowed(case, "batch") == (0, dp * max(microbatch, 1))
