"""Keys of a plan that somebody wrote and that the phase, the model or the other keys leave without use: they say what does not happen."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from roofline.plan.plan import ONE
from roofline.plan.validate import Case, PlanProblem


@dataclass(frozen=True, slots=True)
class Unused:
    """``idle`` tells where the key changes nothing of a plan, ``says`` why."""

    key: str
    idle: Callable[[Case], bool]
    says: Callable[[Case], str]


def unused(case: Case, stated: Collection[str]) -> list[PlanProblem]:
    """The ``stated`` keys of a single plan that would change nothing, in the order of the rules; each is fatal.

    >>> from roofline.plan.job import Job
    >>> from roofline.plan.plan import Plan
    >>> from roofline.plan.validate import Shape
    >>> case = Case(plan=Plan(zero=1), job=Job(phase="decode", context=64), shape=Shape(layers=8, heads=8, kv_heads=8))
    >>> [(p.axis, p.message) for p in unused(case, ["zero"])]
    [('zero', 'zero=1 is of training: a decode step has no gradients and no states of an optimizer to share')]
    """
    return [PlanProblem(r.key, f"{r.key} without use", r.says(case)) for r in UNUSED if r.key in stated and r.idle(case)]


def _serves(case: Case) -> bool:
    return case.job.phase != "train"


def _one_stage(case: Case) -> bool:
    """DualPipe, and chunks of a stage, are refused on a single one for what they are."""
    p = case.plan
    return p.schedule != ONE.schedule and bool((p.pp == 1) & (p.virtual == 1)) and (_serves(case) or p.schedule != "dualpipe")


def _says_schedule(case: Case) -> str:
    said = f"schedule={case.plan.schedule}"
    return f"{said} is of training" if _serves(case) else f"{said} needs pp > 1: a single stage has no pipeline"


def _exchanges(case: Case) -> bool:
    return bool(case.plan.cp == 1) or case.job.phase == "decode"


def _says_context(case: Case) -> str:
    said = f"context={case.plan.context_kind}"
    if case.job.phase == "decode":
        return f"{said} is of prompts: ranks that share the keys of a decode step exchange parts of its answers, whatever is said here"
    return f"{said} needs cp > 1: no other rank has tokens of a sequence"


def _needs_experts(key: str) -> Callable[[Case], str]:
    return lambda case: f"{key}: the model has no experts; leave it out"


UNUSED = (
    Unused(
        "zero",
        lambda c: _serves(c) and c.plan.zero != ONE.zero,
        lambda c: f"zero={c.plan.zero} is of training: a {c.job.phase} step has no gradients and no states of an optimizer to share",
    ),
    Unused(
        "recompute",
        lambda c: _serves(c) and c.plan.recompute != ONE.recompute,
        lambda c: f"recompute={c.plan.recompute} is of training: a {c.job.phase} step has no backward pass to compute anything again for",
    ),
    Unused("schedule", _one_stage, _says_schedule),
    Unused("context", _exchanges, _says_context),
    Unused("imbalance", lambda c: not c.shape.experts and c.plan.imbalance != ONE.imbalance, _needs_experts("imbalance")),
    Unused("node_limit", lambda c: not c.shape.experts and c.plan.node_limit != ONE.node_limit, _needs_experts("node_limit")),
)
