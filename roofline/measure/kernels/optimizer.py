"""The fused optimizer step of torch, called below `torch.optim` so that one call is one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors
from roofline.measure.constants import ADAM_EPSILON, ADAM_STEP, BETAS, LEARNING_RATE, WEIGHT_DECAY
from roofline.ops.optimizer import AdamW


def adamw(op: AdamW, tensors: Tensors) -> Callable[[], Any]:
    """p, m, v, in place; gradients in another format are converted and a copy for the model is written by kernels of their own."""
    p, m, v, g = (tensors[name] for name in ("p", "m", "v", "g"))
    copy = tensors.get("copy")
    if m.dtype is not p.dtype:
        raise UsageError("kernel 'adamw' keeps m and v in the format of p")
    step = torch.full((), float(ADAM_STEP), device=p.device)
    options = {"lr": LEARNING_RATE, "beta1": BETAS[0], "beta2": BETAS[1], "weight_decay": WEIGHT_DECAY, "eps": ADAM_EPSILON}

    def run() -> tuple[torch.Tensor, ...]:
        gradient = g if g.dtype is p.dtype else g.to(p.dtype)
        torch.ops.aten._fused_adamw_([p], [gradient], [m], [v], [], [step], **options, amsgrad=False, maximize=False)
        return (p, m, v) if copy is None else (p, m, v, copy.copy_(p))

    return run
