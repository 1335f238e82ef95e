"""Workloads with some steps changed, taken out or put in; what waited for a step that is gone waits for what that waited for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from roofline.ops.base import Op
from roofline.workload.workload import Step


def swapped(steps: Iterable[Step], ops: Mapping[str, Op]) -> tuple[Step, ...]:
    """The steps, those named with other operators. A time that was measured of the old one is not one of the new."""
    return tuple(replace(s, op=ops[s.id], measured_s=None) if s.id in ops else s for s in steps)


def changed(op: Op, **values: object) -> Op:
    """The operator with other values of some fields, which it must have."""
    return replace(op, **values)  # type: ignore[type-var]


def without(steps: Sequence[Step], gone: Collection[str]) -> tuple[Step, ...]:
    """The steps but for those; weights that others shared with one of them belong to the first that did."""
    waits: dict[str, tuple[str, ...] | None] = {}
    heirs: dict[str, str] = {}
    found: list[Step] = []
    for before, step in zip((None, *steps), steps, strict=False):
        after = _inherited(step.after, waits)
        if step.after is None and before is not None and before.id in gone:
            after = waits[before.id]
        if step.id in gone:
            waits[step.id] = after
            continue
        tied = step.tied_to
        if tied in gone:
            tied = heirs.get(str(tied))
            heirs.setdefault(str(step.tied_to), step.id)
        found.append(replace(step, after=after, tied_to=tied))
    return tuple(found)


def _inherited(after: tuple[str, ...] | None, waits: Mapping[str, tuple[str, ...] | None]) -> tuple[str, ...] | None:
    if after is None:
        return None
    return tuple(dict.fromkeys(n for name in after for n in ((waits[name] or ()) if name in waits else (name,))))


def neighbours(steps: Sequence[Step]) -> Iterator[tuple[Step, Step]]:
    """Each step with the one that runs right behind it as often: nothing waits for the first but the second."""
    named = {name for s in steps for name in s.after or ()}
    for first, second in pairwise(steps):
        if second.after in (None, (first.id,)) and first.repeat == second.repeat and first.id not in named - set(second.after or ()):
            yield first, second


def block_ends(steps: Sequence[Step]) -> Iterator[tuple[Step, Step, Step | None]]:
    """Of each run of steps that repeat equally often, as the layers of a model do: its last and first step, and the one behind."""
    start = 0
    for i, step in enumerate(steps):
        behind = steps[i + 1] if i + 1 < len(steps) else None
        if behind is not None and behind.repeat == step.repeat:
            continue
        if step.repeat > 1 and i > start and all(s.after is None for s in steps[start : i + 1]):
            yield step, steps[start], behind
        start = i + 1


def fresh(name: str, steps: Iterable[Step]) -> str:
    """An id that no step has yet."""
    taken = {s.id for s in steps}
    while name in taken:
        name += "_"
    return name
