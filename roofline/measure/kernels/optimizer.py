"""The fused optimizer steps of torch, called below `torch.optim` so that one call is one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors
from roofline.measure.constants import ADAM_EPSILON, ADAM_STEP, BETAS, LEARNING_RATE, MOMENTUM, WEIGHT_DECAY
from roofline.ops.optimizer import AdamW, Sgd


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


def sgd(op: Sgd, tensors: Tensors) -> Callable[[], Any]:
    """p, and its momentum where there is one, in place; conversions as in `adamw`."""
    p, g, copy = tensors["p"], tensors["g"], tensors.get("copy")
    moving = [tensors["m"]] if op.momentum else []
    if moving and moving[0].dtype is not p.dtype:
        raise UsageError("kernel 'sgd' keeps m in the format of p")
    options = {"weight_decay": 0.0, "momentum": MOMENTUM if moving else 0.0, "lr": LEARNING_RATE, "dampening": 0.0}

    def run() -> tuple[torch.Tensor, ...]:
        gradient = g if g.dtype is p.dtype else g.to(p.dtype)
        torch.ops.aten._fused_sgd_([p], [gradient], moving, **options, nesterov=False, maximize=False, is_first_step=False)
        return (p, *moving) if copy is None else (p, *moving, copy.copy_(p))

    return run
