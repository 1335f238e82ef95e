"""Triton where it is installed; elsewhere names with which modules of Triton kernels can still be imported and listed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import torch

triton: Any = None
tl: Any = None
with suppress(ImportError):  # nothing here can run then, and `roofline.measure.needs` says so
    triton, tl = import_module("triton"), import_module("triton.language")


def jit(function: Any) -> Any:
    """The kernel, or without Triton the function as it is."""
    return function if triton is None else triton.jit(function)


__all__ = ["descriptor", "jit", "tl", "triton", "type_of"]


def descriptor(tensor: torch.Tensor, block: Sequence[int]) -> Any:
    """A tensor with contiguous rows as TMA copies blocks of it."""
    return import_module("triton.tools.tensor_descriptor").TensorDescriptor.from_tensor(tensor, list(block))


def type_of(dtype: torch.dtype) -> Any:
    """Triton's name of one of torch's dtypes."""
    return {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}[dtype]
