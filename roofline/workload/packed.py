"""What a step knows of the one before it: halves of one tensor.

A product that computes gate and up together leaves both in one tensor, a half each. Eager kernels that read such halves cannot
take a row in vectors and need up to twice the time, so the activation has to know how it is fed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from roofline.numeric import anywhere
from roofline.ops.base import Op
from roofline.ops.elementwise import Swiglu
from roofline.ops.gemm import Gemm
from roofline.workload.workload import Step


def fed(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The steps, with each gated activation marked ``packed`` that follows the product for its gate and up."""
    given = tuple(steps)
    return (*given[:1], *(_fed(before, step) for before, step in pairwise(given)))


def _fed(before: Step, step: Step) -> Step:
    """The step, marked if the one before wrote gate and up as one tensor."""
    follows = step.after is None or before.id in step.after
    if follows and before.repeat == step.repeat and isinstance(step.op, Swiglu) and halves(before.op, step.op):
        return replace(step, op=replace(step.op, packed=True))
    return step


def halves(before: Op, gated: Op) -> bool:
    """Whether a product writes, as halves of one tensor, what a gated activation reads."""
    if not (isinstance(before, Gemm) and isinstance(gated, Swiglu)):
        return False
    return not (anywhere(before.m != gated.rows) or anywhere(before.n != 2 * gated.cols))
