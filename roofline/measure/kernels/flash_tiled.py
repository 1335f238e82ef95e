"""FlashAttention of ours (`roofline.measure.kernels.triton_flash`) as a kernel of the operator attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from roofline.measure.allocate import Tensors
from roofline.measure.kernels import triton_flash
from roofline.measure.kernels.attention import causal, refuse, scale_of
from roofline.measure.kernels.triton_or_none import descriptor
from roofline.measure.kernels.tuning import Config, Launch, tuned
from roofline.ops.attention import Attention

WIDTHS = (16, 32, 64, 128)
"""Of a head: a power of two that the matrix unit takes and that leaves room for two blocks of keys."""
FORWARD = (
    {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 2},
    {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 3},
)
KEYS = (
    {"BLOCK_M": 64, "BLOCK_N": 128, "num_warps": 8, "num_stages": 2},
    {"BLOCK_M": 32, "BLOCK_N": 128, "num_warps": 8, "num_stages": 3},
)
QUERIES = (
    {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 2},
    {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
)
ROWS = 64
"""Rows of a block of the row sums."""


def _refuse(op: Attention) -> None:
    refuse(
        op,
        "flash_triton",
        **{
            "values of another width than keys": op.v_head_dim not in (0, op.head_dim),
            f"head_dim {op.head_dim}, only {', '.join(map(str, WIDTHS))}": op.head_dim not in WIDTHS,
            "a sliding window": bool(op.window > 0),
            "a causal mask over more queries than keys": causal(op) and bool(op.q_len > op.kv_len),
        },
    )


class _Shape:
    """Sizes of an attention as numbers, and the scale of the scores, also to base 2."""

    def __init__(self, op: Attention) -> None:
        self.head, self.q_len, self.kv_len = int(op.head_dim), int(op.q_len), int(op.kv_len)
        self.q_heads = int(op.batch * op.heads)
        self.group = int(op.heads // (op.kv_heads or op.heads))
        self.causal, self.scale = causal(op), scale_of(op)
        self.scale2 = self.scale / math.log(2)
        self.key = (op.dtype, self.q_heads, self.group, self.q_len, self.kv_len, self.head, self.causal)
        self.constants = {"HEAD": self.head, "CAUSAL": self.causal}

    def even(self, config: Config) -> bool:
        """Whether no block crosses the end of a head."""
        return self.q_len % int(config["BLOCK_M"]) == 0 and self.kv_len % int(config["BLOCK_N"]) == 0


def _forward(op: Attention, tensors: Tensors, lse: torch.Tensor) -> Launch:
    """Writes O and the log-sum-exp."""
    shape = _Shape(op)
    q, k, v = (tensors[name].view(-1, shape.head) for name in ("q", "k", "v"))

    def make(config: Config) -> Launch:
        m, n = config["BLOCK_M"], config["BLOCK_N"]
        tiles = [descriptor(t, (rows, shape.head)) for t, rows in ((q, m), (k, n), (v, n))]
        grid = (-(-shape.q_len // m), shape.q_heads)
        sizes = (shape.group, shape.q_len, shape.kv_len, shape.scale2)
        return lambda: triton_flash.forward[grid](*tiles, tensors["o"], lse, *sizes, **shape.constants, **config)

    return tuned(("flash", *shape.key), FORWARD, make, q.device)


def _row_of_queries(op: Attention, tensors: Tensors) -> torch.Tensor:
    """One fp32 number a query."""
    return torch.empty(tensors["q"].shape[:3], dtype=torch.float32, device=tensors["q"].device)


def flash_triton(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """O of Q, K, V; grouped heads as they are, the last query sees the last key."""
    _refuse(op)
    run = _forward(op, tensors, _row_of_queries(op, tensors))

    def call() -> torch.Tensor:
        run()
        return tensors["o"]

    return call


def flash_triton_backward(op: Attention, tensors: Tensors) -> Callable[[], Any]:
    """dQ, dK, dV from O and the log-sum-exp of a forward pass that runs now: row sums, a pass over keys, one over queries."""
    _refuse(op)
    shape, lse, delta = _Shape(op), _row_of_queries(op, tensors), _row_of_queries(op, tensors)
    _forward(op, tensors, lse)()
    q, k, v, o, do = (tensors[name] for name in ("q", "k", "v", "o", "do"))
    o = o.clone()  # what is read must not be what a check spoils
    dq, dk, dv = (torch.empty_like(t) for t in (q, k, v))
    sizes = (shape.group, shape.q_len, shape.kv_len, shape.scale, shape.scale2)

    def sums() -> None:
        grid = (-(-delta.numel() // ROWS),)
        triton_flash.row_sums[grid](o, do, delta, delta.numel(), HEAD=shape.head, BLOCK=ROWS)

    def over_keys(config: Config) -> Launch:
        grid, more = (-(-shape.kv_len // config["BLOCK_N"]), shape.q_heads // shape.group), {**shape.constants, "EVEN": shape.even(config)}
        return lambda: triton_flash.backward_keys[grid](q, k, v, do, lse, delta, dk, dv, *sizes, **more, **config)

    def over_queries(config: Config) -> Launch:
        grid, more = (-(-shape.q_len // config["BLOCK_M"]), shape.q_heads), {**shape.constants, "EVEN": shape.even(config)}
        return lambda: triton_flash.backward_queries[grid](q, k, v, do, lse, delta, dq, *sizes, **more, **config)

    sums()
    keys = tuned(("flash over keys", *shape.key), KEYS, over_keys, q.device)
    queries = tuned(("flash over queries", *shape.key), QUERIES, over_queries, q.device)

    def call() -> tuple[torch.Tensor, ...]:
        sums()
        keys()
        queries()
        return dq, dk, dv

    return call
