"""Softmax and RMS norm of ours (`roofline.measure.kernels.triton_rows`) as kernels of their operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from roofline.measure.allocate import Tensors
from roofline.measure.constants import EPSILON
from roofline.measure.kernels import triton_rows
from roofline.measure.kernels.tuning import Config, Launch, tuned
from roofline.ops.norm import RmsNorm
from roofline.ops.softmax import Softmax

MOST_HELD = 32768
"""Columns of a row that a program keeps in its registers: 64 a thread with 16 warps."""
STREAMED = 4096
"""Columns of a step of a row that is streamed."""


def _configs(cols: int) -> Sequence[Config]:
    """Blocks of a whole row while it fits, with 8 to 32 columns a thread; else steps."""
    if cols > MOST_HELD:
        return ({"BLOCK": STREAMED, "num_warps": 8}, {"BLOCK": 2 * STREAMED, "num_warps": 16})
    block = max(16, 1 << (cols - 1).bit_length())
    warps = sorted({min(16, max(1, block // (32 * each))) for each in (8, 16, 32)})
    return tuple({"BLOCK": block, "num_warps": n} for n in warps)


def softmax_triton(op: Softmax, tensors: Tensors) -> Callable[[], Any]:
    """y of x, the maximum and the sum in one sweep."""
    x, y = tensors["x"], tensors["y"]
    rows, cols = int(op.rows), int(op.cols)
    kernel = triton_rows.softmax_row if cols <= MOST_HELD else triton_rows.softmax_online

    def make(config: Config) -> Launch:
        return lambda: kernel[(rows,)](x, y, cols, **config)

    run = tuned(("softmax", op.dtype, rows, cols), _configs(cols), make, x.device)

    def call() -> torch.Tensor:
        run()
        return y

    return call


def rmsnorm_triton(op: RmsNorm, tensors: Tensors) -> Callable[[], Any]:
    """y, and the sum with the residual where there is one, in one kernel."""
    x, y, gamma = tensors["x"], tensors["y"], tensors["gamma"]
    residual, total = tensors.get("residual", x), tensors.get("sum", y)  # without a residual neither is touched
    rows, cols, fused = int(op.rows), int(op.cols), bool(op.residual)
    kernel = triton_rows.rmsnorm_row if cols <= MOST_HELD else triton_rows.rmsnorm_streamed

    def make(config: Config) -> Launch:
        return lambda: kernel[(rows,)](x, residual, gamma, total, y, cols, EPSILON, RESIDUAL=fused, **config)

    run = tuned(("rmsnorm", op.dtype, rows, cols, fused), _configs(cols), make, x.device)

    def call() -> tuple[torch.Tensor, ...]:
        run()
        return (total, y) if fused else (y,)

    return call
