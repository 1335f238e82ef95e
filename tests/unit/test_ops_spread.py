"""Fields that spread or freeze an operator: experts over ranks, frozen weights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.gemm import Gemm
from roofline.ops.grouped import GroupedGemm

MIXTURE = {"experts": 256, "active": 8, "n": 4096, "k": 7168, "dtype": "bf16"}


@given(tokens=st.integers(1, 10_000), ranks=st.sampled_from([1, 2, 8, 64, 256]))
def test_ranks_hold_and_do_a_share_each(tokens, ranks):
    """Of experts, of rows, and of those touched; rows are rounded up to whole ones."""
    whole, share = GroupedGemm(tokens=tokens, **MIXTURE), GroupedGemm(tokens=tokens, ranks=ranks, **MIXTURE)
    assert share.held * ranks == 256
    assert share.touched * ranks == pytest.approx(whole.touched)
    assert whole.rows <= share.rows * ranks < whole.rows + ranks
    weight = share.tensors()[1]
    assert weight.elements * ranks == whole.tensors()[1].elements


def test_worked_by_hand():
    """64 tokens on each of 64 ranks, 8 of 256 experts a token: 4 experts here, 512 rows, and the chance to miss one is 1e-57."""
    op = GroupedGemm(tokens=64 * 64, ranks=64, **MIXTURE)
    assert (op.held, op.rows) == (4, 512)
    assert op.touched == pytest.approx(4)
    assert op.counts().tensor == 2 * 512 * 4096 * 7168


@pytest.mark.parametrize("op", [Gemm(m=64, n=512, k=256, dtype="bf16"), GroupedGemm(tokens=64, **MIXTURE)])
def test_frozen_weights_cost_half_the_backward_pass_and_keep_no_input(op):
    """The gradient of the input only: as many FLOP as forward."""
    from dataclasses import replace

    frozen = replace(op, frozen=True)
    back = frozen.backward()
    assert sum(o.counts().tensor for o in op.backward()) == pytest.approx(2 * op.counts().tensor)
    assert sum(o.counts().tensor for o in back) == op.counts().tensor
    assert op.saved()
    assert not frozen.saved()
    assert frozen.counts() == op.counts()
