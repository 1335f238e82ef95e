"""Grouped products: which experts are touched, and what moves and multiplies."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from roofline.ops.gemm import BatchedGemm, Gemm
from roofline.ops.grouped import GroupedGemm
from roofline.ops.launched import GroupedProduct

OP = GroupedGemm(tokens=3, experts=8, active=2, n=512, k=256, dtype="bf16")


def test_hand_worked():
    """3 tokens and 2 of 8: 8 (1 - 0.75^3) = 4.625 touched; 6 rows; bytes of A, of 4.625 matrices, of C."""
    assert OP.touched == 4.625
    assert OP.counts().tensor == 2 * 6 * 512 * 256
    assert OP.compulsory(None).hbm == 2 * (6 * 256 + 4.625 * 512 * 256 + 6 * 512)


def test_one_token_touches_its_own_and_many_touch_all():
    """2 at one token, and exactly their bytes; within a millionth of 8 at a thousand (case C06)."""
    assert replace(OP, tokens=1).touched == pytest.approx(2, rel=1e-15)
    assert replace(OP, tokens=1000).touched == pytest.approx(8, rel=1e-6)
    other = GroupedGemm(tokens=1, experts=384, active=8, n=2048, k=7168, dtype="bf16")
    assert other.tensors()[1].moved_bytes == 2 * 8 * 2048 * 7168


def test_touched_is_the_mean_of_random_choices():
    """An independent count: tokens that choose without replacement."""
    rng = random.Random(1)
    many = [len({e for _ in range(20) for e in rng.sample(range(60), 4)}) for _ in range(4000)]
    op = GroupedGemm(tokens=20, experts=60, active=4, n=8, k=8, dtype="bf16")
    assert op.touched == pytest.approx(sum(many) / len(many), rel=0.005)


def test_all_active_is_a_product_by_head():
    """As many active as there are: every matrix, the work of that many products."""
    op = GroupedGemm(tokens=7, experts=16, active=16, n=512, k=128, dtype="bf16")
    one = Gemm(m=7, n=512, k=128, dtype="bf16")
    assert op.counts().tensor == 16 * one.counts().tensor
    assert op.compulsory(None).hbm == 16 * one.compulsory(None).hbm


def test_quantised_weights_bring_their_scales():
    """Half a byte and a byte for 32, of all in memory and of those touched on the way."""
    op = replace(OP, weight_dtype="fp4", group_size=32, scale_bytes=1)
    weight = op.tensors()[1]
    assert weight.bytes == 8 * (512 * 256 // 2 + 512 * 256 // 32)
    assert weight.moved_bytes == 4.625 * (512 * 256 / 2 + 512 * 256 / 32)


def test_launched_as_one_kernel_over_those_touched():
    """Rows sorted by expert; bytes are those that the operator counts."""
    (kernel,) = OP.launched("engine")
    assert isinstance(kernel, GroupedProduct)
    assert (kernel.experts, kernel.chosen, kernel.rows) == (8, 4.625, 6)
    assert kernel.weight_bytes == 2 * 4.625 * 512 * 256
    assert kernel.read_bytes + kernel.write_bytes == OP.compulsory(None).hbm
    assert kernel.aligned is True


def test_loads_that_are_known():
    """Two of eight matrices get all six rows, one of them five."""
    op = replace(OP, chosen=2, fullest=5)
    assert op.check() is None
    assert op.touched == 2
    assert op.compulsory(None).hbm == 2 * (6 * 256 + 2 * 512 * 256 + 6 * 512)
    (kernel,) = op.launched("engine")
    assert (kernel.chosen, kernel.fullest) == (2, 5)


def test_the_fullest_of_random_choices():
    """An independent count: the most loaded of 64 experts, 4 of which each of 500 tokens picks."""
    rng = random.Random(2)
    most = []
    for _ in range(200):
        loads = [0] * 64
        for _ in range(500):
            for e in rng.sample(range(64), 4):
                loads[e] += 1
        most.append(max(loads))
    op = GroupedGemm(tokens=500, experts=64, active=4, n=8, k=8, dtype="bf16")
    assert op.most_rows == pytest.approx(sum(most) / len(most), rel=0.08)


def test_backward_is_twice_forward():
    """dA by expert, and dW for each."""
    op = replace(OP, tokens=4096)
    da, dw = op.backward()
    assert da.counts().tensor == dw.counts().tensor == op.counts().tensor
    assert isinstance(dw, BatchedGemm)
    assert dw.batch == 8


def test_more_active_than_there_are():
    """A sentence, not a count."""
    assert replace(OP, active=9).check() == "active 9 is more than experts 8"
    assert replace(OP, chosen=7).check() == "chosen 7 is more than the experts 8 or the rows 6 that are here"
    assert replace(OP, chosen=2, fullest=7).check() == "fullest 7 is more than all 6 rows, or less than their mean over 2 experts"
    assert replace(OP, chosen=2, fullest=2).check() == "fullest 2 is more than all 6 rows, or less than their mean over 2 experts"


def test_arrays_give_the_same_bits(same_in_arrays):
    """A sweep is the same formula."""
    same_in_arrays(replace(OP, tokens=40), integers=False)
