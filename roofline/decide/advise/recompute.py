"""Activations computed again in the backward pass instead of kept: memory for time, and a larger batch for the memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from roofline.decide.advise.batch import larger_batch
from roofline.decide.advise.fused import Composite, grown
from roofline.decide.advise.rewrite import fresh
from roofline.decide.advise.situation import EXACT, Change, Situation
from roofline.numeric import Number, ceil_div, total
from roofline.ops.base import Counts, Machine, Op, Pass, TensorSpec, Traffic
from roofline.ops.launched import Launched
from roofline.workload.workload import Step

BOTH = "forward+backward"


@dataclass(frozen=True, kw_only=True, eq=False)
class Recomputed(Composite):
    """An operator as it is, whose forward pass keeps ``kept`` instead of what it usually keeps."""

    name: ClassVar[str] = "recomputed"
    inner: ClassVar[Op]
    kept: ClassVar[tuple[TensorSpec, ...]] = ()

    label: str
    dtype: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recomputed) and (self.inner, self.kept) == (other.inner, other.kept)

    def __hash__(self) -> int:
        return hash((self.inner, self.kept))

    @property
    def lane(self) -> str:
        """That of the operator."""
        return self.inner.lane

    def tensors(self) -> tuple[TensorSpec, ...]:
        """Those of the operator."""
        return self.inner.tensors()

    def counts(self) -> Counts:
        """Those of the operator."""
        return self.inner.counts()

    def useful_flop(self) -> Number:
        """Those of the operator; what is computed again is a step of its own."""
        return self.inner.useful_flop()

    def passes(self) -> tuple[Pass, ...]:
        """Those of the operator."""
        return self.inner.passes()

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """Those of the operator."""
        return self.inner.launched(execution)

    def compulsory(self, machine: Machine | None) -> Traffic:
        """Those of the operator."""
        return self.inner.compulsory(machine)

    def tiled(self, machine: Machine) -> Traffic:
        """Those of the operator."""
        return self.inner.tiled(machine)

    def cached(self, machine: Machine) -> Traffic:
        """Those of the operator."""
        return self.inner.cached(machine)

    def link_bytes(self) -> Mapping[str, Number]:
        """Those of the operator."""
        return self.inner.link_bytes()

    def extra_memory_bytes(self) -> Number:
        """That of the operator."""
        return self.inner.extra_memory_bytes()

    def saved(self) -> tuple[TensorSpec, ...]:
        """What is kept all the same."""
        return self.kept

    def backward(self) -> tuple[Op, ...]:
        """Those of the operator."""
        return self.inner.backward()

    def grow(self, source: str, scales: Mapping[str, tuple[str, ...]], factor: int) -> Op:
        """What is kept are activations, which grow with the batch."""
        kept = tuple(replace(t, shape=(t.shape[0] * factor, *t.shape[1:])) for t in self.kept)
        return _recomputed(grown(source, self.inner, scales, factor), kept)


def _recomputed(op: Op, kept: tuple[TensorSpec, ...]) -> Recomputed:
    found = Recomputed(label=op.name, dtype=op.dtype)
    object.__setattr__(found, "inner", op)  # not a field: a report's row shows plain values
    object.__setattr__(found, "kept", kept)
    return found


def recompute(now: Situation) -> Iterator[Change]:
    """Layers of a training step that keep their input alone, and the larger batch that then fits."""
    steps = now.workload.steps
    layers = [s for s in steps if s.repeat > 1 and s.direction == BOTH and not isinstance(s.op, Recomputed)]
    if not layers or any(s.after is not None for s in steps):
        return
    result = now.with_steps(_steps(steps, layers))
    condition = "each layer keeps its input; one layer at a time has all of its activations again"
    check = (f"roofline ingest trace after.pt.trace.json.gz -H {now.hardware.name}",)
    title = f"recompute {len(layers)} steps of each layer in the backward pass"
    yield Change(key="recompute", rule="recomputation", title=title, exactness=EXACT, result=result, conditions=(condition,), check=check)
    if now.batch is None:
        return
    fields = {**now.batch.fields, **{f"{s.id}_again": now.batch.fields.get(s.id, ()) for s in layers}}
    for change in larger_batch(replace(result, batch=replace(now.batch, fields=fields))):
        if change.result is not None:
            yield replace(
                change,
                key=f"recompute+{change.key}",
                rule="recomputation",
                title=f"{title}, and {change.title}",
                conditions=(condition, *change.conditions),
                check=check,
            )


def _steps(steps: Sequence[Step], layers: Sequence[Step]) -> tuple[Step, ...]:
    """Each layer's steps twice forward; its first one keeps its input and its share of the one layer that is whole."""
    wanted = {s.id for s in layers}
    live = total(t.bytes for s in layers for t in s.op.saved())
    first = layers[0]
    share = TensorSpec("one_layer", (ceil_div(live, first.repeat),), "int8", "in")
    found: list[Step] = []
    for s in steps:
        if s.id not in wanted:
            found.append(s)
            continue
        kept = (*first.op.saved()[:1], share) if s is first else ()
        found.append(replace(s, op=_recomputed(s.op, kept), measured_s=None))
        found.append(Step(id=fresh(f"{s.id}_again", steps), op=s.op, repeat=s.repeat, tied_to=s.id))
    return tuple(found)
