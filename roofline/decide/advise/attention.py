"""Flash attention in place of the materialised form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from roofline.decide.advise.rewrite import swapped, without
from roofline.decide.advise.situation import ROUNDING, Change, Situation
from roofline.ops.attention import Attention
from roofline.ops.base import Op
from roofline.ops.elementwise import Elementwise
from roofline.workload.workload import Step

MASKED = "efficient"
"""The kernel of torch that takes any additive mask; flash takes none but the causal one."""


def flash(now: Situation) -> Iterator[Change]:
    """Every materialised attention streamed, without the copies that only the batched products of that form need."""
    steps = now.workload.steps
    naive = {s.id: s.op for s in steps if isinstance(s.op, Attention) and s.op.implementation == "naive"}
    if not naive:
        return
    ops = {name: _streamed(op) for name, op in naive.items()}
    copies = layout_copies(steps)
    left = without(swapped(steps, ops), copies)
    settings = tuple(w for name, op in ops.items() for w in _settings(name, naive[name], op)) if not copies else None
    result = now.with_steps(left, settings)
    conditions = ["a kernel of that sort exists for the head width and the mask; sums are formed in another order"]
    if copies:
        conditions.append(
            f"{', '.join(copies)} only lay heads together for the batched products: the streamed kernel reads them where they are"
        )
    one = next(iter(ops.values()))
    yield Change(
        key="flash",
        rule="flash",
        title="flash attention instead of materialised scores",
        exactness=ROUNDING,
        result=result,
        conditions=tuple(conditions),
        check=tuple(c for c in (now.command(result), kernel_command("flash", one)) if c),
    )


def _streamed(op: Attention) -> Attention:
    masked = op.mask and not op.causal
    return replace(op, implementation=MASKED if masked else "flash", scale_pass=False)


def _settings(name: str, old: Attention, new: Attention) -> Iterator[str]:
    yield f"{name}.implementation={new.implementation}"
    if old.scale_pass:
        yield f"{name}.scale_pass=false"


def layout_copies(steps: Sequence[Step]) -> tuple[str, ...]:
    """Copies right before or behind a materialised attention that are as large as its queries or its output."""
    found = []
    for first, second in pairwise(steps):
        for attention, copy in ((first, second), (second, first)):
            if isinstance(attention.op, Attention) and attention.op.implementation == "naive" and _copies(copy, attention):
                found.append(copy.id)
    return tuple(dict.fromkeys(found))


def _copies(step: Step, attention: Step) -> bool:
    one, other = step.op, attention.op
    if not (isinstance(one, Elementwise) and isinstance(other, Attention)) or one.function != "copy" or step.repeat != attention.repeat:
        return False
    sizes = {t.elements for t in other.tensors() if t.name in ("q", "o")}
    return one.out_dtype in (None, one.dtype) and one.elements in sizes


def kernel_command(kernel: str, op: Op) -> str:
    """The command line that measures one kernel of an operator at its dimensions."""
    from dataclasses import MISSING, fields

    said = []
    for f in fields(op):  # type: ignore[arg-type]
        value = getattr(op, f.name)
        if f.name != "implementation" and value not in (None, "") and (f.default is MISSING or value != f.default):
            said.append(f"--set {f.name}={str(value).lower() if isinstance(value, bool) else value}")
    return " ".join(["roofline measure --kernel", kernel, *said])
