"""Fewer passes over memory: chains of elementwise functions, residual additions and norms, activations behind products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.decide.advise.fused import Fused, becomes_one_kernel, compiled, joined
from roofline.decide.advise.rewrite import block_ends, fresh, neighbours, swapped, without
from roofline.decide.advise.situation import ROUNDING, Change, Situation
from roofline.numeric import scalar
from roofline.ops.base import Op
from roofline.ops.elementwise import Dropout, Elementwise, Rotary, Swiglu
from roofline.ops.gemm import ACTIVATIONS, Gemm
from roofline.ops.launched import fuses
from roofline.ops.loss import CrossEntropy
from roofline.ops.norm import LayerNorm, RmsNorm
from roofline.workload.workload import Step

STREAMS = (Elementwise, Dropout, Swiglu, Rotary, LayerNorm, RmsNorm)
CHAINED = (Elementwise, Dropout, Swiglu)
WRITTEN = "one kernel is written by hand or by a compiler; its time is that of the compiler's kernels"


def check_by_trace(now: Situation) -> tuple[str, ...]:
    """How a change is checked that no override of a workload expresses."""
    return (f"roofline ingest trace after.pt.trace.json.gz -H {now.hardware.name}",)


def one_kernel_each(now: Situation) -> Iterator[Change]:
    """Rotary embeddings, gated activations and norms with a residual, each as one kernel where torch launches several."""
    if fuses(now.workload.execution):
        return
    ops = {s.id: compiled(s.id, s.op) for s in now.workload.steps if isinstance(s.op, STREAMS) and becomes_one_kernel(s.op)}
    if ops:
        yield Change(
            key="one-kernel",
            rule="fuse",
            title=f"one kernel each for {', '.join(dict.fromkeys(op.label for op in ops.values() if isinstance(op, Fused)))}",
            exactness=ROUNDING,
            result=now.with_steps(swapped(now.workload.steps, ops)),
            conditions=(WRITTEN,),
            check=check_by_trace(now),
        )


def elementwise_chains(now: Situation) -> Iterator[Change]:
    """Neighbouring elementwise functions of equally many elements as one kernel; the result keeps the last one's id."""
    steps, gone, merged = list(now.workload.steps), [], []
    ops: dict[str, Op] = {}
    for first, second in neighbours(steps):
        before = ops.get(first.id, first.op)
        plain = isinstance(first.op, (*CHAINED, Fused)) and isinstance(second.op, CHAINED)
        if not plain or first.direction != second.direction or _is_stored(first.op):
            continue
        together = joined((first.id, before), (second.id, second.op))
        if together is not None:
            ops.pop(first.id, None)
            ops[second.id] = together
            gone.append(first.id)
            merged.append(f"{first.id} into {second.id}")
    if ops:
        yield Change(
            key="fuse-elementwise",
            rule="fuse",
            title=f"fuse {', '.join(merged)}",
            exactness=ROUNDING,
            result=now.with_steps(without(swapped(steps, ops), gone)),
            conditions=(f"no other step reads the result of {', '.join(gone)}", WRITTEN),
            check=check_by_trace(now),
        )


STORED = ("add", "copy", "fill")
"""Functions whose result others read as well: a residual sum, the next addition; a copy is made to be kept."""


def _is_stored(op: Op) -> bool:
    return isinstance(op, Elementwise) and op.function in STORED


def residual_norms(now: Situation) -> Iterator[Change]:
    """A residual addition in the norm behind it; that at the end of a layer in the first norm of the next one."""
    steps = now.workload.steps
    pairs = [(a, b) for a, b in neighbours(steps) if _adds_before(a, b)]
    swaps = {b.id: _with_residual(now, b) for _, b in pairs}
    gone = [a.id for a, _ in pairs]
    left = swapped(steps, swaps)
    for last, first, behind in block_ends(steps):
        if last.id in gone or first.id in swaps or not _adds_before(last, first):
            continue
        if behind is None or not _adds_before(last, behind) or behind.after is not None:
            continue  # who reads the last sum is not known
        left = _across_layers(now, left, first.id, behind.id)
        gone.append(last.id)
        swaps[first.id] = first.op
    if gone:
        yield Change(
            key="fuse-residual",
            rule="fuse",
            title=f"residual additions {', '.join(gone)} inside the norms behind them",
            exactness=ROUNDING,
            result=now.with_steps(without(left, gone)),
            conditions=("the norm's kernel writes the sum as well as its result", WRITTEN),
            check=check_by_trace(now),
        )


def _adds_before(add: Step, norm: Step) -> bool:
    one, other = add.op, norm.op
    if not (isinstance(one, Elementwise) and one.function == "add" and isinstance(other, (LayerNorm, RmsNorm))):
        return False
    same = scalar(one.elements) == scalar(other.rows * other.cols) and one.dtype == other.dtype and one.out_dtype in (None, one.dtype)
    return same and not other.residual and add.direction == norm.direction and scalar(one.inputs) in (0, 2)


def _with_residual(now: Situation, step: Step) -> Op:
    assert isinstance(step.op, (LayerNorm, RmsNorm))
    op = replace(step.op, residual=True)
    return op if fuses(now.workload.execution) else compiled(step.id, op)


def _across_layers(now: Situation, steps: tuple[Step, ...], first: str, behind: str) -> tuple[Step, ...]:
    """The first layer's norm has no addition before it and stands apart; all others and the norm behind the layers have one."""
    found: list[Step] = []
    for step in steps:
        if step.id == first:
            found.append(replace(step, id=fresh(f"{first}_of_first", steps), repeat=1))
            found.append(replace(step, op=_with_residual(now, step), repeat=step.repeat - 1, after=None))
        else:
            found.append(replace(step, op=_with_residual(now, step)) if step.id == behind else step)
    return tuple(found)


def activations(now: Situation) -> Iterator[Change]:
    """An activation in the epilogue of the product before it."""
    swaps: dict[str, Op] = {}
    gone = []
    for a, b in neighbours(now.workload.steps):
        product, act = a.op, b.op
        if not (isinstance(product, Gemm) and isinstance(act, Elementwise) and act.function in ACTIVATIONS):
            continue
        if (
            product.activation == "none"
            and scalar(act.elements) == scalar(product.m * product.n)
            and a.direction == b.direction == "forward"
        ):
            swaps[a.id] = replace(product, activation=act.function)
            gone.append(b.id)
    if swaps:
        yield Change(
            key="fuse-activation",
            rule="fuse",
            title=f"{', '.join(gone)} in the epilogue of the product before",
            exactness=ROUNDING,
            result=now.with_steps(without(swapped(now.workload.steps, swaps), gone)),
            conditions=("the library's product has that epilogue; nothing else reads what the product gave before it",),
            check=check_by_trace(now),
        )


def losses(now: Situation) -> Iterator[Change]:
    """Cross entropy in one online sweep, which keeps no probabilities of the size of the logits."""
    ops = {s.id: replace(s.op, fused=True) for s in now.workload.steps if isinstance(s.op, CrossEntropy) and not s.op.fused}
    if ops:
        result = now.with_steps(swapped(now.workload.steps, ops), tuple(f"{name}.fused=true" for name in ops))
        yield Change(
            key="fused-loss",
            rule="fused loss",
            title="cross entropy in one sweep over the logits",
            exactness=ROUNDING,
            result=result,
            conditions=("sums are fp32 and online; probabilities are formed again in the backward pass",),
            check=tuple(c for c in (now.command(result),) if c),
        )
