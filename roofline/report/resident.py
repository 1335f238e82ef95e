"""What the steps of a workload need in memory, as far as its rows say it; numbers, or arrays where steps hold arrays.

Weights and caches stay, and so do the states of an optimizer; of all else only the operands of the largest step are there at once. A
training step keeps more than that: gradients from one step to another, and what forward passes leave for their backward passes. No row
says what of it is there at the same time, so that a training workload may be known not to fit, and never to fit. Of weights that are
gathered for a while (``sharded_weights`` of an all-gather: ZeRO 3) a rank keeps its share, so that they are not said to stay; what other
gathers bring are activations, or weights that do stay (those that an optimizer of ZeRO 1 has updated).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from roofline.numeric import Number, largest, minimum, total, where
from roofline.ops.base import Op, TensorSpec
from roofline.records import dataclass
from roofline.workload.workload import Step

UNCOUNTED = (
    "gradients, and what the forward pass keeps for the backward pass, are in no row: of a model ask 'roofline memory MODEL --phase train'"
)
"""Why it cannot be said that a training step fits."""


@dataclass(frozen=True, slots=True)
class Resident:
    """Bytes: the weights of all steps and how much of them other ranks keep (``gathered``), caches and states of optimizers, which stay,
    and the operands of the largest step."""

    weights: Number
    gathered: Number
    caches: Number
    states: Number
    activations: Number
    training: bool

    @property
    def needed(self) -> Number:
        """The least that must be there."""
        return self.weights - self.gathered + self.caches + self.states + self.activations

    def verdict(self, available: float | None) -> Number:
        """1 where that is within so many bytes, 0 where it is not, and not a number where nobody can say: the size is not known, or a
        training step needs more than its rows hold."""
        return math.nan if available is None else where(self.needed <= available, math.nan if self.training else 1.0, 0.0)


def resident(steps: Iterable[tuple[Step, Sequence[Op]]]) -> Resident:
    """What these steps need, each given with the operators that it runs."""
    held = [(step, ops, step.op.tensors()) for step, ops in steps]
    training = any(step.direction != "forward" or step.op.family == "optimizer" for step, _, _ in held)
    weights = total(_of(tensors, "weight") * step.repeat for step, _, tensors in held if not step.tied_to)
    brought = total((_of(tensors, "out") - _of(tensors, "in")) * step.repeat for step, _, tensors in held if _sharded(step.op))
    return Resident(
        weights=weights,
        gathered=minimum(weights, brought),
        caches=total(_of(tensors, "cache") * step.repeat for step, _, tensors in held),
        states=total(_states(step.op) * step.repeat for step, _, _ in held if step.op.family == "optimizer"),
        activations=largest(_operands(op) for _, ops, _ in held for op in ops),
        training=training,
    )


def _of(tensors: Iterable[TensorSpec], role: str) -> Number:
    return total(t.bytes for t in tensors if t.role == role)


def _sharded(op: Op) -> bool:
    """Whether it brings weights together of which a rank keeps its share."""
    return bool(getattr(op, "sharded_weights", False))


def _operands(op: Op) -> Number:
    """What an operator has in memory beside what stays: of an optimizer's step its gradients, of weights brought together all of them."""
    if op.family == "optimizer":
        return _of(op.tensors(), "in")
    roles = ("out",) if _sharded(op) else ("in", "out", "inout")
    return total(t.bytes for t in op.tensors() if t.role in roles) + op.extra_memory_bytes()


def _states(op: Op) -> Number:
    """What an optimizer keeps beside the weights that the model computes with: those are the copy that its step writes, or else p."""
    copied = any(t.role == "out" for t in op.tensors())
    return total(t.bytes for t in op.tensors() if t.role == "inout" and (copied or t.name != "p"))
