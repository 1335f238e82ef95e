"""Memory of intermediates that live at the same time, where an operator is a long chain of passes."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.numeric import Number, maximum, total
from roofline.ops.base import Pass, TensorSpec


def peak_scratch_bytes(passes: Sequence[Pass]) -> Number:
    """Most bytes of scratch tensors that any pass finds alive: from the pass that first writes one to the last that uses it."""
    tensors: dict[str, TensorSpec] = {}
    span: dict[str, tuple[int, int]] = {}
    for at, step in enumerate(passes):
        for tensor in (*step.reads, *step.writes):
            if tensor.role == "scratch":
                tensors.setdefault(tensor.name, tensor)
                span[tensor.name] = (span.get(tensor.name, (at, at))[0], at)
    peak: Number = 0
    for at in range(len(passes)):
        peak = maximum(peak, total(tensors[name].bytes for name, (first, last) in span.items() if first <= at <= last))
    return peak
