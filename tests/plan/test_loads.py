"""Loads of experts that cannot be are refused where a plan states them; a search leaves each plan as much as it can have."""

from __future__ import annotations

from itertools import product

import pytest

from roofline.plan.job import Job
from roofline.plan.loads import beyond, fullest
from roofline.plan.plan import Plan
from roofline.plan.validate import Case, Shape


def said(plan: Plan, node_ranks: int = 8, choices: float = 32) -> list[tuple[str, str]]:
    shape = Shape(layers=8, heads=64, kv_heads=8, experts=256, choices=choices)
    found = beyond(Case(plan=plan, job=Job(phase="decode", context=64), shape=shape, node_ranks=node_ranks))
    return [(p.axis, p.message) for p in found if p.fatal]


def test_a_limit_is_of_the_nodes_that_hold_the_ranks() -> None:
    """64 ranks lie in 8 nodes; every eighth device of 64 too, and where nodes are not known no number is wrong."""
    for plan in (Plan(dp=64, ep=64), Plan(dp=64, ep=8, etp=8)):
        assert [bool(said(Plan(dp=plan.dp, ep=plan.ep, etp=plan.etp, node_limit=n))) for n in (0, 1, 8, 9, 100)] == [False] * 3 + [True] * 2
    assert said(Plan(dp=64, ep=64, node_limit=9))[0][0] == "node_limit"
    assert "lie in 8 of" in said(Plan(dp=64, ep=64, node_limit=9))[0][1]
    assert not said(Plan(dp=64, ep=64, node_limit=100), node_ranks=0)


@pytest.mark.parametrize("ep", [1, 2, 64])
def test_an_imbalance_is_at_most_what_a_rank_can_have(ep: int) -> None:
    """256 experts, 8 a token: all of two ranks' rows, and 32 times the mean of 64."""
    most = {1: 1, 2: 2, 64: 32}[ep]
    assert not said(Plan(dp=64, ep=ep, imbalance=float(most)))
    assert [axis for axis, _ in said(Plan(dp=64, ep=ep, imbalance=most + 0.5))] == ["imbalance"]
    assert f"at most {most} times the mean" in said(Plan(dp=64, ep=ep, imbalance=most + 0.5))[0][1]


def test_the_most_is_what_the_worst_choice_of_experts_leaves() -> None:
    """Every token to the same experts, as many on the first rank as there can be."""
    for experts, active, ranks in product((8, 16, 64), (1, 2, 4), (1, 2, 4, 8)):
        here = min(active, experts // ranks)
        assert fullest(ranks, experts / active) == here / (active / ranks)


def test_a_model_without_experts_is_asked_nothing() -> None:
    assert not said(Plan(dp=8, imbalance=3.0, node_limit=4), choices=0)
