"""Convolution, channels last, which is what tensor cores take without rearranging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofline.measure.allocate import Tensors
from roofline.measure.kernels.precision import exactly
from roofline.ops.conv import Conv2d


def _geometry(op: Conv2d) -> dict[str, list[int]]:
    """Stride, padding and dilation of both axes."""
    width = {"stride": op.stride_w or op.stride, "dilation": op.dilation_w or op.dilation}
    width["padding"] = op.padding if op.padding_w < 0 else op.padding_w
    return {name: [int(getattr(op, name)), int(width[name])] for name in ("stride", "padding", "dilation")}


def _lay_out(tensors: Tensors, names: tuple[str, ...]) -> list[torch.Tensor]:
    """These tensors channels last, put back in their place."""
    for name in names:
        tensors[name] = tensors[name].to(memory_format=torch.channels_last)
    return [tensors[name] for name in names]


def conv2d(op: Conv2d, tensors: Tensors) -> Callable[[], Any]:
    """y = w * x, plus a bias; torch has no form that writes into a given y."""
    x, w = _lay_out(tensors, ("x", "w"))
    bias, g, groups = tensors.get("bias"), _geometry(op), int(op.groups)
    return exactly(op, lambda: torch.nn.functional.conv2d(x, w, bias, g["stride"], g["padding"], g["dilation"], groups))


def conv2d_backward(op: Conv2d, tensors: Tensors) -> Callable[[], Any]:
    """dx and dw, and the gradient of a bias."""
    x, w, dy = _lay_out(tensors, ("x", "w", "dy"))
    g, bias = _geometry(op), [int(op.out_channels)] if op.bias else None
    rest = (bias, g["stride"], g["padding"], g["dilation"], False, [0, 0], int(op.groups), [True, True, op.bias])

    def gradients() -> tuple[torch.Tensor, ...]:
        found = torch.ops.aten.convolution_backward(dy, x, w, *rest)
        return tuple(found) if op.bias else tuple(found[:2])

    return exactly(op, gradients)
