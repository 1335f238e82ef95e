"""Attention that a trace or a workload has as its parts: a batch of products, a softmax, a batch of products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from roofline.decide.advise.rewrite import without
from roofline.decide.advise.situation import ROUNDING, Change, Situation
from roofline.numeric import scalar
from roofline.ops.attention import Attention
from roofline.ops.elementwise import Dropout, Elementwise
from roofline.ops.gemm import BatchedGemm
from roofline.ops.softmax import Softmax
from roofline.workload.workload import Step


@dataclass(frozen=True, slots=True)
class Parts:
    """The steps of one attention: the product of the scores, what sweeps over them, the product with the values."""

    scores: Step
    sweeps: tuple[Step, ...]
    output: Step

    def attention(self) -> Attention:
        """The same as one operator; all scores are computed, since the parts do not say what a mask hides."""
        first, last = self.scores.op, self.output.op
        assert isinstance(first, BatchedGemm)
        assert isinstance(last, BatchedGemm)
        return Attention(
            batch=1, heads=first.batch, q_len=first.m, kv_len=first.n, head_dim=first.k, v_head_dim=last.n, dtype=first.dtype
        )  # fmt: skip


def flash_of_parts(now: Situation) -> Iterator[Change]:
    """The parts of each attention as one streamed kernel."""
    steps = now.workload.steps
    found = list(parts_of(steps))
    if not found:
        return
    gone = {s.id for p in found for s in (*p.sweeps, p.scores)}
    ops = {p.output.id: p.attention() for p in found}
    left = [replace(s, op=ops[s.id], measured_s=None) if s.id in ops else s for s in without(steps, gone)]
    yield Change(
        key="flash-parts",
        rule="flash",
        title=f"flash attention instead of {', '.join(s.id for s in (found[0].scores, *found[0].sweeps, found[0].output))}",
        exactness=ROUNDING,
        result=now.with_steps(left),
        conditions=(
            "these steps are softmax(Q K^T) V, and nothing else reads the scores",
            "all scores are counted: a causal mask, which the parts do not show, doubles what the kernel gains",
        ),
        check=(f"roofline ingest trace after.pt.trace.json.gz -H {now.hardware.name}",),
    )


def parts_of(steps: Sequence[Step]) -> Iterator[Parts]:
    """Each softmax between two batches of products of its scores, with nothing but sweeps over the scores between them."""
    for i, step in enumerate(steps):
        if not isinstance(step.op, Softmax):
            continue
        before, first = _until_product(steps[:i][::-1], step)
        behind, last = _until_product(steps[i + 1 :], step)
        if first is None or last is None:
            continue
        a, b, size = first.op, last.op, (scalar(step.op.rows), scalar(step.op.cols))
        assert isinstance(a, BatchedGemm)
        assert isinstance(b, BatchedGemm)
        fits = (scalar(a.batch * a.m), scalar(a.n)) == size and (scalar(b.batch * b.m), scalar(b.k)) == size
        if fits and scalar(a.batch) == scalar(b.batch):
            yield Parts(first, (*before[::-1], step, *behind), last)


def _until_product(steps: Sequence[Step], softmax: Step) -> tuple[list[Step], Step | None]:
    """The sweeps up to the nearest batch of products; no product where something else comes before it."""
    assert isinstance(softmax.op, Softmax)
    elements = scalar(softmax.op.rows * softmax.op.cols)
    sweeps: list[Step] = []
    for step in steps:
        if step.repeat != softmax.repeat or step.direction != "forward" or softmax.direction != "forward":
            return sweeps, None
        if isinstance(step.op, BatchedGemm):
            return sweeps, step
        if not isinstance(step.op, (Elementwise, Dropout)) or scalar(step.op.elements) != elements:
            return sweeps, None
        sweeps.append(step)
    return sweeps, None
