"""Monarch matrices and the Monarch Mixer layer in plain torch: batched products, permuting copies, torch.fft."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors
from roofline.measure.kernels.fft_conv import fft_conv
from roofline.ops.m2 import MonarchMixer
from roofline.ops.monarch import Monarch

Convolution = Callable[[Any, Tensors], Callable[[], Any]]
PARTS = ("u", "pre_gate", "post_gate")


def monarch(op: Monarch, tensors: Tensors) -> Callable[[], Any]:
    """y of x: for each factor a batched product over its blocks and a copy that permutes."""
    weights = [tensors[t.name] for t in op.factors()]

    def run() -> torch.Tensor:
        x = tensors["x"]
        for i, w in enumerate(weights):
            found = torch.bmm(x.view(len(x), len(w), -1).transpose(0, 1), w).permute(1, 2, 0)
            last = i == len(weights) - 1
            x = tensors["y"].view(found.shape).copy_(found).view_as(x) if last else found.contiguous().view_as(x)
        return x

    return run


# --------------------------------------------------------------------------- the layer
def m2(op: MonarchMixer, tensors: Tensors) -> Callable[[], Any]:
    """y of x: projections and block products by bmm, the convolution by torch.fft, GELU a kernel of its own."""
    mixed = torch.empty_like(tensors["y"])
    inside = mix(op, tensors, fft_conv, mixed)

    def run() -> torch.Tensor:
        inside()
        h = torch.ops.aten.gelu_(by_blocks(mixed, tensors["w_up"]))
        return by_blocks(h, tensors["w_down"], tensors["y"])

    return run


def by_blocks(x: torch.Tensor, w: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """x[..., channels] times a block-diagonal matrix [blocks, deep, wide]; one block is a plain product."""
    blocks, deep, wide = w.shape
    y = x.new_empty((*x.shape[:-1], blocks * wide)) if out is None else out
    rows = x.reshape(-1, blocks, deep).transpose(0, 1)
    torch.bmm(rows, w, out=y.view(-1, blocks, wide).transpose(0, 1))
    return y


def mix(op: MonarchMixer, tensors: Tensors, convolution: Convolution, out: torch.Tensor) -> Callable[[], None]:
    """The part along the sequence, into ``out`` [batch, seq, hidden]: projections around the convolution of [batch, hidden, seq]."""
    if op.projections and op.projection_blocks != 1:
        raise UsageError("kernels of m2 run dense projections: projection_blocks must be 1")
    batch, shape = int(op.batch), (int(op.batch), int(op.hidden), int(op.seq))
    parts = {name: tensors[name] if name in tensors else out.new_empty(shape) for name in PARTS}
    parts.update({"k": tensors["k"], "y": out.new_empty(shape)})
    inside = convolution(op.convolution(), parts)

    def run() -> None:
        if not op.projections:
            inside()
            out.copy_(parts["y"].mT)
            return
        columns = tensors["w_project_in"][0].t().expand(batch, -1, -1).chunk(3, 1)
        for name, w in zip(PARTS, columns, strict=True):
            torch.bmm(w, tensors["x"].mT, out=parts[name])
        inside()
        torch.bmm(parts["y"].mT, tensors["w_project_out"].expand(batch, -1, -1), out=out)

    return run
