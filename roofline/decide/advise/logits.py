"""Logits of the positions that somebody reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.decide.advise.rewrite import swapped
from roofline.decide.advise.situation import EXACT, Change, Situation
from roofline.ops.attention import Attention
from roofline.ops.base import Op
from roofline.ops.embedding import Embedding
from roofline.ops.gemm import Gemm


def last_position(now: Situation) -> Iterator[Change]:
    """The vocabulary product of each sequence's last position alone, where a prompt is read and nothing is trained."""
    steps = now.workload.steps
    tables = [s.op for s in steps if isinstance(s.op, Embedding)]
    attentions = [s.op for s in steps if isinstance(s.op, Attention)]
    if now.training or not tables or not attentions or any(s.op.family == "loss" for s in steps):
        return
    table, batch = tables[0], attentions[0].batch
    ops: dict[str, Op] = {
        s.id: replace(s.op, m=batch) for s in steps if isinstance(s.op, Gemm) and s.op.n == table.vocab and s.op.m == table.tokens > batch
    }
    if ops:
        result = now.with_steps(swapped(steps, ops), tuple(f"{i}.m={batch}" for i in ops))
        yield Change(
            key="last-logits",
            rule="logits",
            title="logits of each sequence's last position only",
            exactness=EXACT,
            result=result,
            conditions=("only the next token is wanted, no score of the prompt's own tokens",),
            check=tuple(c for c in (now.command(result),) if c),
        )
