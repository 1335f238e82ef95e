"""Attention over a latent: one row a key, read once, and its intensity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofline.ops.attention import Attention
from roofline.ops.latent import LatentAttention

OP = LatentAttention(batch=1, heads=128, q_len=1, kv_len=4096, rank=512, rope=64, dtype="bf16")


def test_hand_worked():
    """DeepSeek-V3: 576 numbers a key in bf16, 2 (2 x 512 + 64) FLOP a head and key."""
    q, latent, o = OP.tensors()
    assert latent.bytes == 4096 * 576 * 2
    assert OP.counts().tensor == 128 * 4096 * 2 * 1088
    assert OP.compulsory(None).hbm == latent.bytes + q.bytes + o.bytes


def test_intensity_of_a_long_context():
    """2 H (2 rank + rope) / (rank + rope) / 2 B: 241.8 at 128 heads, twice that for two queries (published for the kernel)."""
    long = replace(OP, kv_len=10**7)
    assert long.counts().tensor / long.compulsory(None).hbm == pytest.approx(241.8, rel=1e-3)
    two = replace(long, q_len=2)
    assert two.counts().tensor / two.compulsory(None).hbm == pytest.approx(483.6, rel=1e-3)


def test_the_arithmetic_of_attention_with_one_head_of_keys():
    """The same FLOP; the value is not stored beside the key."""
    plain = Attention(batch=1, heads=128, kv_heads=1, q_len=1, kv_len=4096, head_dim=576, v_head_dim=512, cache=True, dtype="bf16")
    assert OP.counts() == plain.counts()
    k, v = plain.tensors()[1:3]
    assert OP.tensors()[1].bytes == k.bytes == k.bytes + v.bytes - 2 * 4096 * 512


def test_rows_that_are_picked():
    """Sparse: 2048 of 4096 rows move and multiply, all are kept; two queries may pick different ones."""
    sparse = replace(OP, top_k=2048)
    assert sparse.counts().tensor * 2 == OP.counts().tensor
    assert sparse.tensors()[1].moved_bytes * 2 == sparse.tensors()[1].bytes == OP.tensors()[1].bytes
    assert replace(sparse, q_len=2).tensors()[1].moved_bytes == OP.tensors()[1].bytes
    assert replace(OP, top_k=9999).counts() == OP.counts()


def test_arrays_give_the_same_bits(same_in_arrays):
    """A sweep is the same formula."""
    same_in_arrays(replace(OP, batch=2, top_k=512))
