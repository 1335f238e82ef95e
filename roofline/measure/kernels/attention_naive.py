"""Attention with the scores in memory: as plain torch code writes it, and torch's own composite form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from roofline.measure.allocate import Tensors
from roofline.measure.kernels.attention import causal, lower_right, refuse, scale_of
from roofline.measure.kernels.autograd import backward_of
from roofline.measure.kernels.precision import exactly
from roofline.ops.attention import Attention


def _products(tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Q, K, V as [batch x key heads, rows, width]: the query heads of a group are rows of one product, nothing is repeated."""
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    groups = k.shape[0] * k.shape[1]
    return q.reshape(groups, -1, q.shape[3]), k.flatten(0, 1), v.flatten(0, 1)


def _hidden(op: Attention, device: torch.device) -> torch.Tensor | None:
    """True where a score is masked, made on the spot as plain code does; nothing hidden where only a pass is wanted."""
    if causal(op) or op.window:
        return lower_right(op, device).logical_not_()
    return torch.zeros((), dtype=torch.bool, device=device) if op.mask or op.causal else None


def _probabilities(op: Attention, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """softmax of the scores, each step a kernel, as [batch x key heads, rows, keys]."""
    if op.scale_pass:
        s = torch.bmm(q, k.mT).mul_(scale_of(op))
    else:
        s = torch.baddbmm(q.new_empty(()), q, k.mT, beta=0, alpha=scale_of(op))
    hidden = _hidden(op, q.device)
    if hidden is not None:
        s.view(len(s), -1, int(op.q_len), s.shape[2]).masked_fill_(hidden, -torch.inf)
    return torch.softmax(s, -1)


def naive(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """O of Q, K, V, with the scale inside the product unless it has a pass of its own."""
    refuse(op, "naive")
    q, k, v = _products(tensors)
    out = tensors["o"].view(k.shape[0], -1, v.shape[2])

    def run() -> torch.Tensor:
        torch.bmm(_probabilities(op, q, k), v, out=out)
        return tensors["o"]

    return exactly(op, run)


def naive_backward(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """dV = P^T dO, dP = dO V^T, dS through the softmax (and the scale), dQ = dS K, dK = dS^T Q."""
    refuse(op, "naive")
    q, k, v = _products(tensors)
    p = exactly(op, lambda: _probabilities(op, q, k))()
    do, scale = tensors["do"].reshape(k.shape[0], -1, v.shape[2]), scale_of(op)

    def run() -> tuple[torch.Tensor, ...]:
        dv, dp = torch.bmm(p.mT, do), torch.bmm(do, v.mT)
        ds = torch.ops.aten._softmax_backward_data(dp, p, -1, p.dtype)
        if op.scale_pass:
            dq, dk = torch.bmm(ds.mul_(scale), k), torch.bmm(ds.mT, q)
        else:
            none = q.new_empty(())
            dq, dk = torch.baddbmm(none, ds, k, beta=0, alpha=scale), torch.baddbmm(none, ds.mT, q, beta=0, alpha=scale)
        return dq.view_as(tensors["q"]), dk.view_as(tensors["k"]), dv.view_as(tensors["v"])

    return exactly(op, run)


def _math(op: Attention, tensors: Tensors) -> tuple[torch.Tensor]:
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    masked = causal(op) and not (op.q_len == op.kv_len and not op.window)
    mask = lower_right(op, q.device) if masked else None
    grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    plain = causal(op) and mask is None
    with sdpa_kernel(SDPBackend.MATH):
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=plain, **grouped)
    return (out,)


def math(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """O of Q, K, V."""
    refuse(op, "math")
    return exactly(op, lambda: _math(op, tensors)[0])


def math_backward(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """dQ, dK, dV."""
    refuse(op, "math")
    forward: list[Callable[[], Any]] = []
    exactly(op, lambda: forward.append(backward_of(op, tensors, _math)))()
    return exactly(op, forward[0])
