"""Cached prefixes under plans: what `analyze` counts of the same steps, bytes and FLOP by hand, and what a prefix may not meet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from roofline.decide.costs import coster_of
from roofline.decide.evaluate import Evaluator, Subject
from roofline.decide.search import search
from roofline.decide.space import space_of
from roofline.decide.utilisation import model_flop
from roofline.models.expansion import Expansion
from roofline.models.memory import memory
from roofline.models.shape import case_of, shape_of
from roofline.models.write import workload_text
from roofline.numeric import scalar
from roofline.plan.plan import Plan
from roofline.plan.validate import problems
from roofline.report.build import analyze
from roofline.spec.model import load_model
from roofline.spec.source import Source
from roofline.spec.vectorised import LANGUAGE
from roofline.spec.workload import read_workload
from tests.decide.models import DENSE, MIXED, cluster, subject

KEYS = 2 * 4 * 64 * 2
"""Bytes of the keys and values of a token in a layer of the small model: 4 heads of 64, in two bytes."""


def judged(asked: Subject, plan: Plan) -> Any:
    return Evaluator(asked, coster_of("bound", cluster())).evaluate(plan)


PREFILL = {"batch": 4, "seq": 2048, "cached": 1536}
CHUNKED = {"chunk": 512, "cached": 1536, "batch": 4, "context": 3000}


# --------------------------------------------------------------------------- independent counts
@pytest.mark.parametrize(("phase", "sizes"), [("prefill", PREFILL), ("mixed", CHUNKED)])
@pytest.mark.parametrize("layers", [(DENSE,) * 4, (DENSE, MIXED, MIXED)])
def test_one_device_takes_what_analyze_says_of_the_imported_steps(phase: str, sizes: dict[str, int], layers: Any) -> None:
    asked = subject(phase, layers, **sizes)
    params = {"decode_batch" if phase == "mixed" and name == "batch" else name: value for name, value in sizes.items()}
    text = workload_text(Expansion(model=asked.model, phase=phase, cached=phase == "prefill"), params)
    report = analyze(read_workload(Source("w.yaml", text)), cluster().device)
    found = judged(asked, Plan())
    assert report.totals.bound is not None
    assert found.step_s == pytest.approx(sum(r.bound.time_s * r.repeat for r in report.rows if r.bound), rel=1e-12)
    assert found.flop == pytest.approx(report.totals.flop["tensor"], rel=1e-12)


@pytest.mark.parametrize("name", ["deepseek-v3", "gpt-oss-20b"])
def test_latents_and_windows_behind_a_prefix_are_the_imported_steps_too(name: str) -> None:
    model, how, _ = load_model(name)
    asked = replace(subject("prefill", **PREFILL), model=model, how=how)
    text = workload_text(Expansion(model=model, how=how, phase="prefill", cached=True), PREFILL)
    report = analyze(read_workload(Source("w.yaml", text)), cluster().device)
    found = judged(asked, Plan())
    assert found.step_s == pytest.approx(sum(r.bound.time_s * r.repeat for r in report.rows if r.bound), rel=1e-12)
    assert found.flop == pytest.approx(report.totals.flop["tensor"], rel=1e-12)


# --------------------------------------------------------------------------- by hand
@pytest.mark.parametrize(("phase", "sizes"), [("prefill", PREFILL), ("mixed", CHUNKED)])
def test_what_is_executed_is_what_the_mathematics_needs(phase: str, sizes: dict[str, int]) -> None:
    """Flash attention computes no more than the mask asks for. A triangle is half a square, half a key a query less than the rule."""
    asked = subject(phase, **sizes)
    queries = 4 * 512 if phase == "prefill" else 512
    triangles = 4 * 8 * 16 * 64 * queries / 2
    assert judged(asked, Plan(tp=2)).flop == scalar(model_flop(asked.model, asked.job, "causal")) - triangles


def test_keys_of_the_prefix_are_read_and_held() -> None:
    """8 layers: 4 prompts of 2048 keys are held; of a chunk its own 512 and 1536 before, beside 4 sequences of 3000."""
    held = [
        memory(asked.model, None, asked.job, Plan(), LANGUAGE).kv_cache
        for asked in (subject("prefill", **PREFILL), subject("mixed", **CHUNKED))
    ]
    assert held == [8 * KEYS * 4 * 2048, 8 * KEYS * (512 + 1536 + 4 * 3000)]
    asked = subject("mixed", **CHUNKED)
    without = replace(asked, job=replace(asked.job, cached=0))
    assert judged(asked, Plan()).resident_bytes - judged(without, Plan()).resident_bytes == 8 * KEYS * 1536


def test_only_tokens_behind_the_prefix_are_worked_on() -> None:
    """A quarter of the prompts' tokens are left: activations, exchanges and products are a quarter of those of whole prompts."""
    asked, whole = subject("prefill", **PREFILL), subject("prefill", **{**PREFILL, "cached": 0})
    work = [memory(s.model, None, s.job, Plan(), LANGUAGE).activations for s in (asked, whole)]
    assert work[0] == work[1] / 4
    waited = [judged(s, Plan(tp=4)).parts.exposed["tp"] for s in (asked, whole)]
    assert waited[0] == pytest.approx(waited[1] / 4, rel=0.01)  # the logits of 4 tokens are the same in both
    assert asked.job.tokens == whole.job.tokens / 4
    times = [judged(replace(asked, job=replace(asked.job, cached=n)), Plan()).step_s for n in (0, 512, 1024, 1536, 2047)]
    assert times == sorted(times, reverse=True)


# --------------------------------------------------------------------------- rules and searches
def test_a_prefix_is_not_spread_over_context_parallelism() -> None:
    asked = subject("prefill", **PREFILL)
    for plan in (Plan(cp=2), Plan(cp=2, context_kind="ulysses")):
        assert [p.axis for p in problems(case_of(asked.model, plan, asked.job))] == ["cp"]
    broken = problems(case_of(asked.model, Plan(), replace(asked.job, cached=2048)))
    assert [p.message for p in broken] == ["cached 2048 leaves no token of seq 2048 to compute: it is at most 2047"]


def test_sequence_parallelism_splits_the_tokens_that_are_computed() -> None:
    asked = subject("prefill", **{**PREFILL, "cached": 2045})
    found = problems(case_of(asked.model, Plan(tp=2, sequence_parallel=True), asked.job))
    assert [p.message for p in found] == ["3 tokens do not divide by tp 2 x cp 1, as sequence parallelism needs"]


@pytest.mark.parametrize(("phase", "sizes"), [("prefill", PREFILL), ("mixed", CHUNKED)])
def test_a_search_finds_each_plan_as_it_is_judged_alone(phase: str, sizes: dict[str, int]) -> None:
    asked, coster = subject(phase, **sizes), coster_of("bound", cluster())
    found = search(asked, (4,), coster, space_of(asked.job, shape_of(asked.model), asked.attention), top=50)
    assert found.best
    assert all(one.plan.cp == 1 for one in found.best)
    for one in found.best:
        alone = Evaluator(asked, coster).evaluate(one.plan)
        assert one.step_s == pytest.approx(scalar(alone.step_s), rel=1e-12)
        assert one.memory_bytes == pytest.approx(scalar(memory(asked.model, None, asked.job, one.plan, LANGUAGE).needed), rel=1e-12)
