"""Operators run as one kernel, as a compiler or a person writes it: what lies between them never reaches memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from roofline.numeric import scalar
from roofline.ops.base import Counts, Op, Pass, TensorSpec
from roofline.ops.launched import Launched, Stream

ROWS = ("layernorm", "rmsnorm", "softmax", "cross_entropy")
"""Operators that reduce along rows, whose fused kernels hold a row."""
ONE_ALREADY = ("adamw", "sgd")
"""Operators whose kernels beside the first convert formats: fusing those is another implementation."""


class Composite(Op):
    """An operator made of others."""

    def grow(self, source: str, scales: Mapping[str, tuple[str, ...]], factor: int) -> Op:
        """The same of so many times the batch; ``scales`` are the fields in proportion to it by step."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class Fused(Composite):
    """Some operators as one kernel: reads what comes from outside of them, writes what leaves them, computes all of it.

    ``parts`` run one after the other; ``sources`` are the ids of the steps that they were. The operators of the backward pass
    stay apart from each other.
    """

    name: ClassVar[str] = "fused"
    family: ClassVar[str] = "fused"
    parts: ClassVar[tuple[Op, ...]] = ()
    sources: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[tuple[TensorSpec, ...]] = ()
    writes: ClassVar[tuple[TensorSpec, ...]] = ()

    label: str
    dtype: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fused) and (self.parts, self.reads, self.writes) == (other.parts, other.reads, other.writes)

    def __hash__(self) -> int:
        return hash((self.parts, self.reads, self.writes))

    def tensors(self) -> tuple[TensorSpec, ...]:
        """What comes in and what goes out."""
        return (*self.reads, *self.writes)

    def counts(self) -> Counts:
        """The arithmetic of all parts."""
        return sum((p.counts() for p in self.parts), Counts())

    def passes(self) -> tuple[Pass, ...]:
        """One."""
        return (Pass("fused", self.reads, self.writes, self.counts()),)

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """One kernel of a compiler, whatever the rest of the workload is run by; of a single part, the one that it makes of that."""
        if len(self.parts) == 1:
            return self.parts[0].launched("engine" if execution == "engine" else "compiled")
        if any(p.name in ROWS for p in self.parts):
            return (self.passes()[0].stream("fused_rows", self.dtype),)
        elements = max((t.elements for t in self.writes), key=lambda n: scalar(n))
        return (replace(self.passes()[0].stream("fused", self.dtype), rows=1, cols=elements),)

    def saved(self) -> tuple[TensorSpec, ...]:
        """What the parts keep."""
        return tuple(t for p in self.parts for t in p.saved())

    def backward(self) -> tuple[Op, ...]:
        """The gradients of the parts, the last one's first, each as one kernel where one can be made of it."""
        return tuple(compiled("", op) for p in reversed(self.parts) for op in p.backward())

    def grow(self, source: str, scales: Mapping[str, tuple[str, ...]], factor: int) -> Op:
        """Made again from its parts."""
        parts = [(i, grown(i, p, scales, factor)) for i, p in _parts(source, self)]
        made = parts[0][1] if len(parts) > 1 else compiled(*parts[0])
        for part in parts[1:]:
            again = joined((parts[0][0], made), part)
            assert again is not None, "what fitted together does so at any size"
            made = again
        return made


def fused(parts: Sequence[tuple[str, Op]], reads: Sequence[TensorSpec], writes: Sequence[TensorSpec]) -> Fused:
    """Operators, each with the id of its step, as one kernel with these operands."""
    label = "+".join(op.name or getattr(op, "label", "kernel") for _, op in parts)
    found = Fused(label=label, dtype=parts[-1][1].dtype)
    # Not fields: a report's row shows the fields of an operator, which are plain values.
    own = {"parts": tuple(op for _, op in parts), "sources": tuple(i for i, _ in parts), "reads": tuple(reads), "writes": tuple(writes)}
    for key, value in own.items():
        object.__setattr__(found, key, value)
    return found


def compiled(source: str, op: Op) -> Op:
    """The operator as the one kernel that a compiler makes of it; itself where none does, or where it launches one anyhow."""
    if isinstance(op, Fused) or not becomes_one_kernel(op):
        return op
    reads = tuple(t for t in op.tensors() if t.role != "out")
    writes = tuple(t for t in op.tensors() if t.role in ("out", "inout"))
    return fused(((source, op),), reads, writes)


def becomes_one_kernel(op: Op) -> bool:
    """Whether a compiler makes one streaming kernel of what eager torch runs as several."""
    together = op.launched("compiled")
    several = sum(k.calls for k in op.launched("eager")) > 1
    return several and len(together) == 1 and isinstance(together[0], Stream) and op.name not in ONE_ALREADY


def joined(first: tuple[str, Op], second: tuple[str, Op]) -> Fused | None:
    """Two operators as one kernel, the second reading the first one's result from registers; None where they do not fit together.

    The result must be as large as an operand of the second, or be one of those stacked in it, and in its format.
    """
    given, wanted = first[1].tensors(), second[1].tensors()
    result = next((t for t in reversed(given) if t.role == "out"), None)
    fed = next((i for i, t in enumerate(wanted) if result and t.role == "in" and _holds(t, result)), None)
    if result is None or fed is None:
        return None
    left = scalar(wanted[fed].elements) - scalar(result.elements)
    reads = [t for t in given if t.role != "out"]
    reads += [replace(wanted[fed], shape=(int(left),))] if left else []
    reads += [t for i, t in enumerate(wanted) if t.role != "out" and i != fed]
    return fused((*_parts(*first), *_parts(*second)), reads, [t for t in wanted if t.role == "out"])


def _parts(source: str, op: Op) -> tuple[tuple[str, Op], ...]:
    return tuple(zip(op.sources, op.parts, strict=True)) if isinstance(op, Fused) else ((source, op),)


def _holds(operand: TensorSpec, result: TensorSpec) -> bool:
    if operand.dtype != result.dtype or operand.touched is not None:
        return False
    size, whole = scalar(result.elements), scalar(operand.elements)
    stacked = operand.name == "x" and len(operand.shape) == 2 and scalar(operand.shape[-1]) == size
    return whole == size or (stacked and whole % size == 0)


def grown(source: str, op: Op, scales: Mapping[str, tuple[str, ...]], factor: int) -> Op:
    """The operator of a step for so many times the batch: its fields that are in proportion to it multiplied."""
    if isinstance(op, Composite):
        return op.grow(source, scales, factor)
    names = {f.name for f in fields(op)}  # type: ignore[arg-type]
    return replace(op, **{f: getattr(op, f) * factor for f in scales.get(source, ()) if f in names})  # type: ignore[type-var]
