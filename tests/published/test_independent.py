"""Counts of the operators beside counts of somebody else: torch's FLOP counter, an einsum, the bytes of real tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from roofline.ops import OPERATORS
from roofline.ops.attention import Attention
from roofline.ops.base import Op
from roofline.ops.conv import Conv2d
from roofline.ops.gemm import BatchedGemm, Gemm

SHAPES = [(1, 1, 1), (128, 128, 128), (16, 28672, 4096), (4095, 7, 513)]


def tensor(*shape: int) -> torch.Tensor:
    """A tensor without storage: shapes decide a FLOP count, not values."""
    return torch.empty(shape, device="meta", dtype=torch.bfloat16, requires_grad=True)


def counted(run: Callable[[], Any], backward: bool = False) -> tuple[int, int]:
    """FLOP of the forward and of the backward pass as torch counts them."""
    with FlopCounterMode(display=False) as forward:
        result = run()
    with FlopCounterMode(display=False) as gradient:
        if backward:
            result.sum().backward()
    return forward.get_total_flops(), gradient.get_total_flops()


def flop(*ops: Op) -> int:
    """Matrix FLOP of the operators."""
    return int(sum(op.counts().tensor for op in ops))


# --------------------------------------------------------------------------- torch's FLOP counter
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_gemm_flop_are_those_of_torch_forward_and_backward(m: int, n: int, k: int) -> None:
    op = Gemm(m=m, n=n, k=k, dtype="bf16")
    a, w = tensor(m, k), tensor(n, k)
    assert counted(lambda: functional.linear(a, w), backward=True) == (flop(op), flop(*op.backward()))


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_batched_gemm_flop_are_those_of_torch_forward_and_backward(m: int, n: int, k: int) -> None:
    op = BatchedGemm(batch=6, m=m, n=n, k=k, dtype="bf16")
    a, b = tensor(6, m, k), tensor(6, k, n)
    assert counted(lambda: torch.bmm(a, b), backward=True) == (flop(op), flop(*op.backward()))


@pytest.mark.parametrize(
    "fields",
    [
        {"kernel": 3, "padding": 1},
        {"kernel": 7, "padding": 3, "stride": 2},
        {"kernel": 3, "padding": 2, "dilation": 2},
        {"kernel": 3, "padding": 1, "groups": 4},
        {"kernel": 5, "kernel_w": 3, "padding": 2, "padding_w": 0, "stride": 3, "stride_w": 1},
    ],
)
def test_conv2d_flop_are_those_of_torch(fields: dict[str, int]) -> None:
    op = Conv2d(batch=2, in_channels=8, out_channels=12, height=29, width=31, dtype="bf16", **fields)
    x, w = tensor(2, 8, 29, 31), tensor(12, 8 // fields.get("groups", 1), fields["kernel"], fields.get("kernel_w", fields["kernel"]))
    pair = {name: (fields.get(name, 0), fields.get(f"{name}_w", fields.get(name, 0))) for name in ("stride", "padding", "dilation")}
    arguments = {name: value for name, value in pair.items() if value != (0, 0)}
    forward, _ = counted(lambda: functional.conv2d(x, w, groups=fields.get("groups", 1), **arguments))  # type: ignore[arg-type]
    assert forward == flop(op)


@pytest.mark.parametrize("kernel", [1, 3])
def test_conv2d_gradients_take_the_flop_that_torch_counts(kernel: int) -> None:
    op = Conv2d(batch=2, in_channels=8, out_channels=12, height=29, width=31, kernel=kernel, padding=kernel // 2, dtype="bf16")
    x, w = tensor(2, 8, 29, 31), tensor(12, 8, kernel, kernel)
    assert counted(lambda: functional.conv2d(x, w, padding=kernel // 2), backward=True) == (flop(op), flop(*op.backward()))


@pytest.mark.parametrize(("q_len", "kv_len", "heads"), [(128, 128, 4), (1, 4096, 8), (64, 256, 1)])
def test_flash_attention_flop_are_those_of_torch(q_len: int, kv_len: int, heads: int) -> None:
    shape = {"batch": 2, "heads": heads, "q_len": q_len, "kv_len": kv_len, "head_dim": 64}
    op = Attention(**shape, dtype="bf16")
    q, k, v = tensor(2, heads, q_len, 64), tensor(2, heads, kv_len, 64), tensor(2, heads, kv_len, 64)
    forward = torch.ops.aten._scaled_dot_product_flash_attention
    assert counted(lambda: forward(q, k, v)) == (flop(op), 0)


def test_flash_attention_backward_recomputes_as_torch_counts_it() -> None:
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    q, kv = (2, 4, 128, 64), (2, 4, 512, 64)
    op = Attention(batch=2, heads=4, q_len=128, kv_len=512, head_dim=64, dtype="bf16")
    assert sdpa_flop_count(q, kv, kv) == flop(op)
    assert sdpa_backward_flop_count(q, q, kv, kv) == flop(*op.backward())


# --------------------------------------------------------------------------- what plain code does
def naive_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """As a textbook writes it."""
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bhqk,bhkd->bhqd", torch.softmax(scores, -1), v)


@pytest.mark.parametrize("causal", [False, True])
def test_naive_attention_executes_the_flop_of_two_einsums(causal: bool) -> None:
    """Plain code multiplies what a causal mask then hides."""
    op = Attention(batch=2, heads=3, q_len=40, kv_len=72, head_dim=16, v_head_dim=24, dtype="bf16", implementation="naive", causal=causal)
    q, k, v = tensor(2, 3, 40, 16), tensor(2, 3, 72, 16), tensor(2, 3, 72, 24)
    assert counted(lambda: naive_attention(q, k, v), backward=True) == (flop(op), flop(*op.backward()))


@pytest.mark.parametrize(("q_len", "kv_len", "window"), [(64, 64, 0), (48, 80, 0), (64, 64, 16), (1, 33, 0), (1, 33, 8), (40, 64, 20)])
def test_causal_flop_are_those_of_the_pairs_a_mask_keeps(q_len: int, kv_len: int, window: int) -> None:
    """Half the square, as benchmarks count it, leaves out half of each query's last key: at most half a key a query."""
    op = Attention(batch=1, heads=1, q_len=q_len, kv_len=kv_len, head_dim=8, dtype="bf16", causal=True, window=window)
    own = torch.arange(q_len)[:, None] + (kv_len - q_len)
    key = torch.arange(kv_len)[None, :]
    kept = (key <= own) & ((own - key < window) if window else torch.tensor(True))
    assert 0 <= int(kept.sum()) - op.scores() <= q_len / 2


# --------------------------------------------------------------------------- bytes of real tensors
def bytes_of(*tensors: torch.Tensor) -> int:
    """What the tensors occupy."""
    return sum(t.nbytes for t in tensors)


def _bf16(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bfloat16)


def _attention_tensors() -> tuple[torch.Tensor, ...]:
    q, k, v = _bf16(2, 8, 40, 16), _bf16(2, 2, 72, 16), _bf16(2, 2, 72, 16)
    out = naive_attention(q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1))
    return q, k, v, out, torch.logsumexp(torch.ones(2, 8, 40, 72), -1)


def _with_result(run: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (*inputs, run(*inputs))


EXECUTED: dict[str, tuple[dict[str, Any], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "gemm": ({"m": 48, "n": 80, "k": 112}, lambda: _with_result(functional.linear, _bf16(48, 112), _bf16(80, 112))),
    "batched_gemm": ({"batch": 3, "m": 8, "n": 5, "k": 7}, lambda: _with_result(torch.bmm, _bf16(3, 8, 7), _bf16(3, 7, 5))),
    "attention": ({"batch": 2, "heads": 8, "kv_heads": 2, "q_len": 40, "kv_len": 72, "head_dim": 16}, _attention_tensors),
    "softmax": ({"rows": 6, "cols": 50}, lambda: _with_result(lambda x: torch.softmax(x, -1), _bf16(6, 50))),
    "layernorm": (
        {"rows": 6, "cols": 50},
        lambda: _with_result(lambda x, w, b: functional.layer_norm(x, (50,), w, b), _bf16(6, 50), _bf16(50), _bf16(50)),
    ),
    "rmsnorm": ({"rows": 6, "cols": 50}, lambda: _with_result(lambda x, w: functional.rms_norm(x, (50,), w), _bf16(6, 50), _bf16(50))),
    "elementwise": ({"function": "add", "elements": 99}, lambda: _with_result(torch.add, _bf16(99), _bf16(99))),
    "transpose": ({"rows": 6, "cols": 50}, lambda: _with_result(lambda x: x.t().contiguous(), _bf16(6, 50))),
    "reduction": ({"rows": 6, "cols": 50}, lambda: _with_result(lambda x: x.sum(-1), _bf16(6, 50))),
    "conv2d": (
        {"batch": 2, "in_channels": 4, "height": 9, "width": 11, "out_channels": 6, "kernel": 3, "stride": 2, "groups": 2},
        lambda: _with_result(lambda x, w: functional.conv2d(x, w, stride=2, groups=2), _bf16(2, 4, 9, 11), _bf16(6, 2, 3, 3)),
    ),
}
"""Fields of an operator, and the tensors that torch reads and writes for them."""


@pytest.mark.parametrize("name", list(EXECUTED))
def test_compulsory_bytes_are_those_of_the_tensors_read_and_written(name: str) -> None:
    fields, run = EXECUTED[name]
    op = OPERATORS[name](dtype="bf16", **fields)  # type: ignore[call-arg]
    assert op.compulsory(None).hbm == bytes_of(*run())


def test_naive_compulsory_bytes_are_those_of_each_pass() -> None:
    """Every pass reads its operands and writes its result: the scores are moved six times, eight with a mask."""
    op = Attention(batch=1, heads=2, q_len=8, kv_len=12, head_dim=4, dtype="bf16", implementation="naive", scale_pass=True)
    q, k, v = _bf16(1, 2, 8, 4), _bf16(1, 2, 12, 4), _bf16(1, 2, 12, 4)
    s = q @ k.transpose(-1, -2)
    scaled = s * 0.5
    p = torch.softmax(scaled, -1)
    moved = [(q, k, s), (s, scaled), (scaled, p), (p, v, p @ v)]
    assert op.compulsory(None).hbm == sum(bytes_of(*tensors) for tensors in moved)
