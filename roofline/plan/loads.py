"""What a plan says of experts' loads that cannot be: of a search, which varies the ranks, each plan has as much of it as it can."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.numeric import Number, minimum
from roofline.plan.plan import groups
from roofline.plan.validate import Case, PlanProblem


def fullest(ranks: Number, choices: Number) -> Number:
    """The most that the fullest of so many ranks of experts has over the mean: all there is, or as many experts
    of a token as it holds, which are different ones.

    ``choices`` are experts / active: so many sets of a token's experts make all of them.

    >>> fullest(2, 256 / 8), fullest(64, 256 / 8)
    (2, 32.0)
    """
    return minimum(ranks, choices)


def beyond(case: Case) -> Iterator[PlanProblem]:
    """An imbalance that no rank can have and a limit of more nodes than there are, in a single plan of a model with experts."""
    plan, choices = case.plan, case.shape.choices
    if not choices:
        return
    most = fullest(plan.ep, choices)
    if plan.imbalance > most:
        why = "all there is" if most == plan.ep else "since the experts of a token differ"
        said = f"imbalance {plan.imbalance:g}: the fullest of ep {plan.ep:g} ranks has at most {most:g} times the mean, {why}"
        yield PlanProblem("imbalance", "imbalance beyond what a rank can have", said)
    nodes = groups(plan)["ep"].lie(case.node_ranks).domains if case.node_ranks else plan.node_limit
    if plan.node_limit > nodes:
        said = f"node_limit {plan.node_limit:g}: ep {plan.ep:g} ranks of experts lie in {nodes:g} of the cluster's nodes; leave it out"
        yield PlanProblem("node_limit", "more nodes than experts lie in", said)
