"""Softmax: FLOP, memory accesses, and the bytes that an H200 really moved."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.base import work_of
from roofline.ops.softmax import Softmax

VARIANTS = ("naive", "safe", "online")
SIZES = st.integers(1, 10**6)


@pytest.mark.parametrize(("implementation", "flop"), [("naive", 2), ("safe", 4), ("online", 5)])
def test_hand_worked_counts(implementation, flop):
    """3 rows of 256: 768 elements; online rescales twice a row."""
    counts = Softmax(rows=3, cols=256, dtype="bf16", implementation=implementation).counts()
    assert counts.vector == 768 * flop
    assert counts.sfu == 768 + (6 if implementation == "online" else 0)
    assert counts.tensor == 0


def test_accesses_are_those_of_the_online_softmax_paper():
    """arXiv 1805.02867: 3, 4 and 3 accesses an element."""
    ops = [Softmax(rows=1, cols=1, dtype="fp32", implementation=name) for name in VARIANTS]
    assert [sum(op.accesses_per_element(on_chip=False)) for op in ops] == [3, 4, 3]
    assert {op.accesses_per_element(on_chip=True) for op in ops} == {(1, 1)}


@pytest.mark.parametrize(("rows", "cols", "read", "written"), [(16384, 4096, 134e6, 116e6), (4096, 128256, 3065e6, 1053e6)])
def test_bytes_agree_with_counters_of_an_h200(h200, rows, cols, read, written):
    """Nsight Compute, torch.softmax in bf16."""
    assert Softmax(rows=rows, cols=cols, dtype="bf16").cached(h200).hbm == pytest.approx(read + written, rel=0.25)


@pytest.mark.parametrize("implementation", VARIANTS)
def test_long_rows_are_streamed_and_few_of_them_stay_in_l2(h200, implementation):
    """A row of 256512 B exceeds 227 KiB; 200 of them fit in 50 MiB, 264 do not."""
    op = Softmax(rows=4096, cols=128256, dtype="bf16", implementation=implementation)
    accesses = sum(op.accesses_per_element(on_chip=False))
    assert op.tiled(h200).hbm == op.cached(h200).hbm == accesses * 2 * 4096 * 128256
    few = replace(op, rows=200)
    assert few.tiled(h200).hbm == few.tiled(h200).l2 == accesses * 2 * 200 * 128256
    assert few.cached(h200).hbm == few.compulsory(h200).hbm == 2 * 2 * 200 * 128256


@given(rows=SIZES, cols=SIZES, implementation=st.sampled_from(VARIANTS))
def test_twice_the_rows_is_twice_the_work(rows, cols, implementation):
    """Counts and compulsory bytes are linear in rows."""
    op = Softmax(rows=rows, cols=cols, dtype="bf16", implementation=implementation)
    one, two = work_of(op, None), work_of(replace(op, rows=2 * rows), None)
    assert two.counts == one.counts + one.counts
    assert two.compulsory == one.compulsory + one.compulsory


def test_backward_reads_result_and_gradient():
    """3 e: y and dy in, dx out; dx = y (dy - sum y dy) as autograd has it."""
    torch = pytest.importorskip("torch")
    op = Softmax(rows=5, cols=7, dtype="fp32")
    (backward,) = op.backward()
    assert backward.compulsory(None).hbm == 3 * 4 * 5 * 7
    assert [t.name for t in op.saved()] == ["y"]
    x = torch.randn(5, 7, requires_grad=True)
    y, dy = torch.softmax(x, -1), torch.randn(5, 7)
    y.backward(dy)
    assert torch.allclose(x.grad, y * (dy - (y * dy).sum(-1, keepdim=True)), atol=1e-6)


@pytest.mark.parametrize("cols", [100, 128256])
@pytest.mark.parametrize("implementation", VARIANTS)
def test_arrays_give_the_same_bits(same_in_arrays, cols, implementation):
    """A sweep is the same formula."""
    same_in_arrays(Softmax(rows=300, cols=cols, dtype="bf16", implementation=implementation))
