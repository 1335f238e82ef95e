"""Attention without scores in memory, by backend: FlashAttention, cuDNN, memory-efficient.

torch's operators of each backend are called directly: no dispatcher can then take another backend, a backward pass runs alone
and can be captured, and the host cost is that of the backend. Their causal masks differ when there are more keys than
queries: FlashAttention aligns the last query with the last key, as `roofline.ops.attention` means it; the others align
the first ones and are refused here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors
from roofline.ops.attention import Attention

aten = torch.ops.aten
_WIDEST_HEAD = 256
"""Of torch's FlashAttention."""


def causal(op: Attention) -> bool:
    """Whether anything is masked; a single query sees every key."""
    return op.causal and bool(op.q_len > 1)


def scale_of(op: Attention) -> float:
    """1 / sqrt(d)."""
    return 1 / math.sqrt(op.head_dim)


def refuse(op: Attention, kernel: str, **unless: bool) -> None:
    """Say no to what no kernel here computes, and to what this one does not.

    Raises:
        UsageError: with what it is.
    """
    reasons = {
        "dropout": op.dropout > 0,
        "K and V in another dtype": op.kv_dtype not in (None, op.dtype),
        "split keys given by kv_splits (torch chooses them itself)": bool(op.kv_splits != 1),
        **unless,
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise UsageError(f"kernel '{kernel}' cannot run {', '.join(found)}; name your own with --kernel module:function")


def _only_square(op: Attention) -> dict[str, bool]:
    """What backends with a mask from the first key on cannot run."""
    return {
        "a causal mask over more keys than queries": causal(op) and bool(op.q_len != op.kv_len),
        "a sliding window": bool(op.window > 0),
    }


def _inputs(tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return tensors["q"], tensors["k"], tensors["v"]


# --------------------------------------------------------------------------- FlashAttention
def _check_flash(op: Attention, on_gpu: bool) -> None:
    refuse(
        op,
        "flash",
        **{
            "values of another width than keys": op.v_head_dim not in (0, op.head_dim),
            f"head_dim {op.head_dim}: multiples of 8 up to {_WIDEST_HEAD}": on_gpu and bool(op.head_dim % 8 or op.head_dim > _WIDEST_HEAD),
        },
    )


def lower_right(op: Attention, device: torch.device) -> torch.Tensor:
    """True where a query sees a key: the last query sees the last key, and a window of keys if there is one."""
    q, k = int(op.q_len), int(op.kv_len)
    seen = torch.ones(q, k, dtype=torch.bool, device=device).tril(k - q)
    return seen.triu(k - q - int(op.window) + 1) if op.window else seen


def flash(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """O of Q, K, V; grouped heads and cached keys as they are."""
    q, k, v = _inputs(tensors)
    _check_flash(op, q.is_cuda)
    if not q.is_cuda:
        options = _cpu_options(op, q.device)
        return lambda: aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, **options)[0]
    forward = _windowed(op, tensors) if op.window else _whole(op, tensors)
    return lambda: forward()[0]


def _cpu_options(op: Attention, device: torch.device) -> dict[str, Any]:
    """On a CPU is_causal aligns the first query and key, so that other shapes take a mask."""
    square = bool(op.q_len == op.kv_len) and not op.window
    masked = (causal(op) or bool(op.window)) and not square
    mask = lower_right(op, device) if masked else None
    bias = None if mask is None else torch.zeros(mask.shape).masked_fill_(~mask, -torch.inf)
    return {"is_causal": causal(op) and square, "attn_mask": bias, "scale": scale_of(op)}


def _whole(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    q, k, v = _inputs(tensors)
    masked, scale = causal(op), scale_of(op)
    return lambda: aten._scaled_dot_product_flash_attention(q, k, v, 0.0, masked, False, scale=scale)


def _windowed(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """The form with a window takes [batch, length, heads, width]."""
    q, k, v = (t.transpose(1, 2) for t in _inputs(tensors))
    lengths, scale, left = (int(op.q_len), int(op.kv_len)), scale_of(op), int(op.window) - 1
    rest = (None, None, *lengths, 0.0, causal(op), False)

    def forward() -> tuple[torch.Tensor, ...]:
        out = aten._flash_attention_forward(q, k, v, *rest, scale=scale, window_size_left=left, window_size_right=0)
        return (out[0].transpose(1, 2),)

    return forward


def flash_backward(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """dQ, dK, dV from O and the log-sum-exp of a forward pass that runs now."""
    q, k, v = _inputs(tensors)
    _check_flash(op, q.is_cuda)
    refuse(op, "flash", **{"a sliding window backwards": bool(op.window)})
    do = tensors["do"]
    if not q.is_cuda:
        return _flash_backward_on_cpu(op, tensors)
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = _whole(op, tensors)()
    rest = (out, lse, cum_q, cum_k, max_q, max_k, 0.0, causal(op), seed, offset)
    scale = scale_of(op)
    return lambda: aten._scaled_dot_product_flash_attention_backward(do, q, k, v, *rest, scale=scale)


def _flash_backward_on_cpu(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    q, k, v = _inputs(tensors)
    options = _cpu_options(op, q.device)
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, **options)
    masked = options.pop("is_causal")
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
    return lambda: backward(tensors["do"], q, k, v, out, lse, 0.0, masked, **options)


# --------------------------------------------------------------------------- cuDNN
def _cudnn(op: Attention, tensors: Tensors, keep: bool) -> Callable[[], Any]:
    refuse(op, "cudnn", **_only_square(op))
    q, k, v = _inputs(tensors)
    masked, scale = causal(op), scale_of(op)
    return lambda: aten._scaled_dot_product_cudnn_attention(q, k, v, None, keep, 0.0, masked, False, scale=scale)


def cudnn(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """O of Q, K, V."""
    forward = _cudnn(op, tensors, keep=False)
    return lambda: forward()[0]


def cudnn_backward(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """dQ, dK, dV."""
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = _cudnn(op, tensors, keep=True)()
    rest = (out, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal(op))
    backward, inputs, scale = aten._scaled_dot_product_cudnn_attention_backward, _inputs(tensors), scale_of(op)
    return lambda: backward(tensors["do"], *inputs, *rest, scale=scale)


# --------------------------------------------------------------------------- memory-efficient
def _efficient(op: Attention, tensors: Tensors, keep: bool) -> Callable[[], Any]:
    grouped = {"grouped heads": op.kv_heads not in (0, op.heads)}
    refuse(op, "efficient", **_only_square(op), **grouped)
    q, k, v = _inputs(tensors)
    masked, scale = causal(op), scale_of(op)
    return lambda: aten._scaled_dot_product_efficient_attention(q, k, v, None, keep, 0.0, masked, scale=scale)


def efficient(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """O of Q, K, V; fp32 by three products in TF32 on units that have it, whether or not the process allows TF32."""
    forward = _efficient(op, tensors, keep=False)
    return lambda: forward()[0]


def efficient_backward(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """dQ, dK, dV."""
    out, lse, seed, offset = _efficient(op, tensors, keep=True)()
    rest = (None, out, lse, seed, offset, 0.0, [True, True, True, False], causal(op))
    backward, inputs, scale = aten._scaled_dot_product_efficient_attention_backward, _inputs(tensors), scale_of(op)
    return lambda: backward(tensors["do"], *inputs, *rest, scale=scale)[:3]
