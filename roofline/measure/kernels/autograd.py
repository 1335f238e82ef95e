"""Backward passes by way of autograd, where torch has no function of its own for them that could be called directly.

Autograd runs on the stream of its forward pass, which has been left by then, so that these cannot be captured in a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofline.measure.allocate import Tensors, differentiable, is_real, results
from roofline.ops.base import Op

Compute = Callable[[Any, Tensors], tuple[torch.Tensor, ...]]
"""A kernel's mathematics in plain torch: results in the order of the operator's outputs."""


def backward_of(op: Op, tensors: Tensors, compute: Compute) -> Callable[[], Any]:
    """Gradients of the inputs and weights; the forward pass runs now, once."""
    names = [t.name for t in differentiable(op)]
    leaves = {name: tensors[name].detach().requires_grad_() for name in names}
    outputs = compute(op, {**tensors, **leaves})
    real = [(out, f"d{spec.name}") for out, spec in zip(outputs, results(op), strict=True) if is_real(spec)]
    gradients = [tensors[name].to(out.dtype) for out, name in real]
    return lambda: torch.autograd.grad([out for out, _ in real], list(leaves.values()), gradients, retain_graph=True)
