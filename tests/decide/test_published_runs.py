"""Eight published training runs beside the plan model at stated efficiencies: mean error at most 3.5 %, and no worse than Calculon's."""

from __future__ import annotations

import pytest

from benchmarks.megatron_runs import CALCULON_MEAN, CALCULON_MOST, OUTPUT, Run, errors, lines, mean_error, predicted, published
from roofline.decide.evaluate import Evaluator
from roofline.numeric import scalar
from roofline.plan.validate import Case, problems
from roofline.spec.plan import read_plan

RUNS, SHARES = published()


def test_mean_error_at_stated_efficiencies() -> None:
    found = errors(RUNS, SHARES)
    assert len(found) == 8
    assert mean_error(found) <= 0.035 < CALCULON_MEAN
    assert max(map(abs, found)) < 0.05 < CALCULON_MOST


@pytest.mark.parametrize("run", [pytest.param(r, id=f"{r.model}-{r.kind}") for r in RUNS])
def test_no_published_run_beats_the_bound(run: Run) -> None:
    from roofline.decide.costs import coster_of

    plan = read_plan(run.plan).plan
    bound = Evaluator(run.subject, coster_of("bound", run.subject.cluster)).evaluate(plan)
    assert 0.3 < scalar(bound.step_s) / run.measured_s < 1


@pytest.mark.parametrize("run", [pytest.param(r, id=f"{r.model}-{r.kind}") for r in RUNS])
def test_the_plans_of_the_paper_obey_the_rules(run: Run) -> None:
    from roofline.models.shape import shape_of

    read = read_plan(run.plan)
    case = Case(plan=read.plan, job=run.subject.job, shape=shape_of(run.subject.model), node_ranks=run.subject.cluster.node_ranks)
    assert problems(case) == []


def test_computing_everything_again_is_a_third_more_and_attention_alone_little() -> None:
    by = {(r.model, r.kind): predicted(r, SHARES).parts for r in RUNS}
    for model in {r.model for r in RUNS}:
        full, selective = by[model, "full"], by[model, "selective"]
        assert 0.3 < full.recompute_s / full.compute_s < 0.37
        assert 0.01 < selective.recompute_s / selective.compute_s < 0.08


def test_the_committed_page_is_current() -> None:
    assert OUTPUT.read_text(encoding="utf-8") == "\n".join(lines()) + "\n"
