"""Kernels over rows: softmax, the norms, cross entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from roofline.measure.allocate import Tensors, torch_dtype
from roofline.measure.constants import EPSILON
from roofline.measure.kernels.autograd import backward_of
from roofline.ops.loss import CrossEntropy
from roofline.ops.norm import LayerNorm, RmsNorm
from roofline.ops.softmax import Softmax


def softmax(op: Softmax, tensors: Tensors) -> Callable[[], Any]:
    """y of x."""
    x, y = tensors["x"], tensors["y"]
    return lambda: torch.ops.aten._softmax.out(x, 1, False, out=y)


def softmax_backward(op: Softmax, tensors: Tensors) -> Callable[[], Any]:
    """dx from y and dy."""
    x, dy = tensors["x"], tensors["dy"]
    y, dx = torch.softmax(x, 1), torch.empty_like(x)
    return lambda: torch.ops.aten._softmax_backward_data.out(dy, y, 1, x.dtype, grad_input=dx)


def _summed(op: LayerNorm | RmsNorm, tensors: Tensors) -> tuple[torch.Tensor, ...]:
    """What is normalised: x, or its sum with the residual, which is a result of its own."""
    return (tensors["x"] + tensors["residual"],) if op.residual else ()


def layernorm_of(op: LayerNorm, tensors: Tensors) -> tuple[torch.Tensor, ...]:
    """The sum, if there is one, and y."""
    sums = _summed(op, tensors)
    x = sums[0] if sums else tensors["x"]
    return (*sums, functional.layer_norm(x, x.shape[-1:], tensors["gamma"], tensors.get("beta"), EPSILON))


def layernorm(op: LayerNorm, tensors: Tensors) -> Callable[[], Any]:
    """y, after the sum; torch has no form that writes into a given y."""
    return lambda: layernorm_of(op, tensors)


def layernorm_backward(op: LayerNorm, tensors: Tensors) -> Callable[[], Any]:
    """dx and the gradients of the weights."""
    return backward_of(op, tensors, layernorm_of)


def rmsnorm_of(op: RmsNorm, tensors: Tensors) -> tuple[torch.Tensor, ...]:
    """The sum, if there is one, and y."""
    sums = _summed(op, tensors)
    x = sums[0] if sums else tensors["x"]
    return (*sums, functional.rms_norm(x, x.shape[-1:], tensors["gamma"], EPSILON))


def rmsnorm(op: RmsNorm, tensors: Tensors) -> Callable[[], Any]:
    """y, after the sum."""
    return lambda: rmsnorm_of(op, tensors)


def rmsnorm_backward(op: RmsNorm, tensors: Tensors) -> Callable[[], Any]:
    """dx and the gradient of the gain."""
    return backward_of(op, tensors, rmsnorm_of)


def cross_entropy_of(op: CrossEntropy, tensors: Tensors) -> tuple[torch.Tensor]:
    """loss of each token, from logits in the scratch format."""
    logits = tensors["logits"].to(torch_dtype(op.scratch_dtype)) if op.casts else tensors["logits"]
    return (functional.cross_entropy(logits, tensors["targets"], reduction="none"),)


def cross_entropy(op: CrossEntropy, tensors: Tensors) -> Callable[[], Any]:
    """loss, in the scratch format."""
    return lambda: cross_entropy_of(op, tensors)


def cross_entropy_backward(op: CrossEntropy, tensors: Tensors) -> Callable[[], Any]:
    """dlogits."""
    return backward_of(op, tensors, cross_entropy_of)
