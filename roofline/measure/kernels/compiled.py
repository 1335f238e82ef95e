"""Kernels that torch.compile generates from the expressions of the eager ones; compilation happens at the first call."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch.nn import functional

from roofline.measure.allocate import Tensors
from roofline.measure.kernels import elementwise as eager
from roofline.measure.kernels.autograd import Compute
from roofline.measure.kernels.rows import rmsnorm_of
from roofline.ops.base import Op


def _compiled(op: Op, tensors: Tensors, compute: Compute) -> Callable[[], Any]:
    """Compiled for these shapes and run once, so that no later call, and no capture, compiles."""
    inputs = dict(tensors)

    def expression(given: Tensors) -> Any:
        return compute(op, given)

    call = torch.compile(_with_code_of_its_own(expression), dynamic=False, fullgraph=True)
    call(inputs)
    return lambda: call(inputs)


def _with_code_of_its_own(function: Callable[[Tensors], Any]) -> Callable[[Tensors], Any]:
    """A copy whose code object is another: torch counts recompilations by it, and gives up after eight shapes of one."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__, None, function.__closure__)


def elementwise(op: Any, tensors: Tensors) -> Callable[[], Any]:
    """y of x."""
    return _compiled(op, tensors, eager.elementwise_of)


def swiglu(op: Any, tensors: Tensors) -> Callable[[], Any]:
    """silu(gate) up."""
    return _compiled(op, tensors, eager.swiglu_of)


def rotary(op: Any, tensors: Tensors) -> Callable[[], Any]:
    """q and k rotated."""
    return _compiled(op, tensors, eager.rotary_of)


def rmsnorm(op: Any, tensors: Tensors) -> Callable[[], Any]:
    """The sum, if there is one, and y."""
    return _compiled(op, tensors, rmsnorm_of)


def _cross_entropy(op: Any, tensors: Tensors) -> tuple[torch.Tensor]:
    return (functional.cross_entropy(tensors["logits"].float(), tensors["targets"], reduction="none"),)


def cross_entropy(op: Any, tensors: Tensors) -> Callable[[], Any]:
    """loss of each token in fp32."""
    return _compiled(op, tensors, _cross_entropy)
