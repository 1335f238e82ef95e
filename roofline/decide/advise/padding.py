"""Dimensions of products rounded up to what the kernels take in one go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from roofline.decide.advise.rewrite import swapped
from roofline.decide.advise.situation import EXACT, Change, Situation
from roofline.numeric import is_array
from roofline.ops.base import Op
from roofline.ops.elementwise import Swiglu
from roofline.ops.embedding import Embedding
from roofline.ops.gemm import Gemm
from roofline.ops.loss import CrossEntropy
from roofline.workload.workload import Step

MULTIPLES = (8, 64, 128)
"""Of elements: rows that start at a multiple of 16 bytes, those of a cache line, those of a tile."""


def padded(now: Situation) -> Iterator[Change]:
    """n and k of every product, and m, to multiples; a vocabulary is padded in the loss and in the table as well."""
    for multiple in MULTIPLES:
        for dims in (("n", "k"), ("m",)):
            ops, sizes = _padded(now, dims, multiple)
            if not ops:
                continue
            result = now.with_steps(swapped(now.workload.steps, ops), tuple(_settings(now.workload.steps, ops)))
            yield Change(
                key=f"pad-{''.join(dims)}-{multiple}",
                rule="padding",
                title=f"pad {', '.join(sizes)}",
                exactness=EXACT,
                result=result,
                conditions=("weights and activations are padded with zeros once, and what lies beyond is left out of the results",),
                check=tuple(c for c in (now.command(result),) if c),
            )


def _settings(steps: Sequence[Step], ops: Mapping[str, Op]) -> Iterator[str]:
    """The overrides that give the padded operators; an activation that reads halves of a padded product has to be told so."""
    for before, step in zip((None, *steps), steps, strict=False):
        if step.id in ops:
            old, new = step.op, ops[step.id]
            sizes = (name for name in ("m", "n", "k", "vocab") if getattr(new, name, None) != getattr(old, name, None))
            yield from (f"{step.id}.{name}={getattr(new, name)}" for name in sizes)
        elif before is not None and before.id in ops and isinstance(step.op, Swiglu) and step.op.packed:
            yield f"{step.id}.packed=true"


def _padded(now: Situation, dims: tuple[str, ...], multiple: int) -> tuple[dict[str, Op], list[str]]:
    ops: dict[str, Op] = {}
    vocabularies: dict[int, int] = {}
    sizes: list[str] = []
    for s in now.workload.steps:
        if not isinstance(s.op, Gemm) or is_array(s.op.m, s.op.n, s.op.k):
            continue
        old = {name: int(getattr(s.op, name)) for name in dims}
        new = {name: -(-value // multiple) * multiple for name, value in old.items()}
        if new != old:
            ops[s.id] = replace(s.op, **new)  # type: ignore[arg-type]
            vocabularies |= {old[name]: new[name] for name in old if name == "n"}
            sizes += [f"{s.id}.{name} {old[name]} -> {new[name]}" for name in old if old[name] != new[name]]
    for s in now.workload.steps:
        if (
            isinstance(s.op, (CrossEntropy, Embedding))
            and not is_array(s.op.vocab)
            and vocabularies.get(int(s.op.vocab), s.op.vocab) != s.op.vocab
        ):
            ops[s.id] = replace(s.op, vocab=vocabularies[int(s.op.vocab)])
    return ops, sizes
