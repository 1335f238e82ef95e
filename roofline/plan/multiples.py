"""The values that the rules of plans (`roofline.plan.validate`) let a size of a job have, for whoever looks for the largest."""

from __future__ import annotations

import math

from roofline.numeric import scalar
from roofline.plan.validate import Case, together


def allowed(case: Case, size: str) -> tuple[int, int]:
    """``before`` and ``step``: the rules let the size be ``before + n * step`` for whole n from 1, as far as divisions go.

    ``size`` is a size of all devices together: batch, chunk, seq or context. Where the plan asks nothing of it any whole number is allowed.

    >>> from roofline.plan.job import Job
    >>> from roofline.plan.plan import Plan
    >>> from roofline.plan.validate import Shape
    >>> case = Case(plan=Plan(tp=2, cp=3, dp=4), job=Job(phase="decode", context=12), shape=Shape(layers=8, heads=8, kv_heads=8))
    >>> allowed(case, "batch"), allowed(case, "context"), allowed(case, "chunk")
    ((0, 4), (0, 1), (0, 1))
    """
    plan, job = case.plan, case.job
    if job.phase == "mixed" and size in ("batch", "chunk"):
        return 0, int(plan.dp * plan.pp)
    if size == "batch":
        return 0, int(scalar(together(case)))
    if size != "seq" or job.phase not in ("prefill", "train"):
        return 0, 1
    twice = 2 if case.shape.causal and plan.context_kind != "ulysses" else 1
    pieces = int(twice * plan.cp) if plan.cp != 1 else 1
    step = math.lcm(pieces, int(plan.tp * plan.cp)) if plan.sequence_parallel else pieces
    beside = int(scalar(job.images * job.image_tokens)) if job.phase == "prefill" else 0
    return int(scalar(job.cached)) - beside % step, step
