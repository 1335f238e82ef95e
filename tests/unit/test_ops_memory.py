"""Reduction, transpose and copy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.base import work_of
from roofline.ops.memory import Copy, Reduction, Transpose

SIZES = st.integers(1, 10**6)


@pytest.mark.parametrize(("function", "vector", "kept"), [("sum", 600, 0), ("mean", 610, 0), ("max", 600, 80)])
def test_reduction_hand_worked(function, vector, kept):
    """10 rows of 60 bf16 summed to fp32: 1200 B read, 40 B written; a maximum keeps where it was."""
    op = Reduction(rows=10, cols=60, dtype="bf16", function=function, out_dtype="fp32")
    assert (op.counts().vector, op.compulsory(None).hbm) == (vector, 1240)
    (backward,) = op.backward()
    assert sum(t.bytes for t in op.saved()) == kept
    assert backward.compulsory(None).hbm == kept + 40 + 1200


def test_summing_2_to_the_30_floats_takes_four_gib():
    """fast.cu's reduction: 3,240 GB/s of an H100 is 1.33 ms."""
    hbm = Reduction(rows=1, cols=2**30, dtype="fp32").compulsory(None).hbm
    assert hbm == 2**32 + 4
    assert hbm / 3240e9 == pytest.approx(1.326e-3, rel=1e-3)


def test_transpose_hand_worked(h200):
    """4096^2 bf16 on an H200: 33.6 MB read, the rest of 33.6 MB written; L1 saw 570,425,344 B, 2 + 32 an element."""
    op = Transpose(rows=4096, cols=4096, dtype="bf16")
    assert op.compulsory(h200).hbm == op.cached(h200).hbm == 2 * 2 * 4096**2
    assert op.tiled(h200).l2 == 570_425_344
    staged = replace(op, implementation="staged").tiled(h200)
    assert (staged.l2, staged.smem) == (2 * 2 * 4096**2, 2 * 2 * 4096**2)


@pytest.mark.parametrize(("n", "time_s"), [(4096, 122.424e-6), (16384, 1692.416e-6)])
def test_sectors_of_a_strided_transpose_explain_its_time(h200, n, time_s):
    """Measured on an H200: both sizes move their sectors through L2 at 4.6 to 5.5 TB/s, HBM at a tenth of its rate."""
    assert 4.5e12 < Transpose(rows=n, cols=n, dtype="bf16").tiled(h200).l2 / time_s < 5.5e12


def test_transposing_back_is_the_backward():
    """The shape of the result is that of numpy's."""
    op = Transpose(rows=3, cols=5, dtype="fp32")
    assert op.tensors()[1].shape == np.zeros((3, 5)).T.shape
    assert op.backward()[0].backward() == (op,)


def test_copy_counts_both_directions_on_one_memory():
    """2 GiB read and 2 GiB written in 1.5 ms are 2,863 GB/s, and 2 GB each 2,667 GB/s."""
    by_bytes = Copy(dtype="int8", read=2 * 2**30, write=2 * 2**30)
    assert by_bytes.compulsory(None).hbm == 4_294_967_296
    assert by_bytes.compulsory(None).hbm / 1.5e-3 == pytest.approx(2863.3e9, rel=1e-4)
    assert Copy(dtype="bf16", elements=2**30).compulsory(None).hbm == 4_294_967_296
    assert isinstance(Copy(dtype="int8", read=2e9, write=2e9).compulsory(None).hbm, int)


@pytest.mark.parametrize("fields", [{"elements": 500}, {"read": 1000}, {"write": 1000}, {"read": 1000, "write": 1000}])
def test_copy_over_a_link_moves_its_bytes_once_on_each(fields):
    """1000 B: on the link one way, in this memory once, in the lane of copies."""
    op = Copy(dtype="bf16", over="pcie", **fields)
    work = work_of(op, None)
    assert work.link_bytes == {"pcie": 1000}
    assert work.compulsory.hbm == 1000
    assert op.lane == "copy"
    assert op.backward()[0].link_bytes() == {"pcie": 1000}


def test_copy_within_the_device_is_a_kernel():
    """No link, the compute lane, and no kernel backward."""
    op = Copy(dtype="bf16", elements=10)
    assert (op.link_bytes(), op.lane, op.backward()) == ({}, "compute", ())


def test_copy_contradictions_are_refused():
    """Elements and bytes; neither."""
    assert "not both" in Copy(dtype="bf16", elements=1, read=1).check()
    assert "give elements" in Copy(dtype="bf16").check()
    assert Copy(dtype="bf16", write=1).check() is None


@given(rows=SIZES, cols=SIZES)
def test_twice_the_rows_is_twice_the_work(rows, cols):
    """All three are linear."""
    for op in (Reduction(rows=rows, cols=cols, dtype="bf16", function="mean"), Transpose(rows=rows, cols=cols, dtype="bf16")):
        twice = replace(op, rows=2 * rows)
        assert twice.counts() == op.counts() + op.counts()
        assert twice.compulsory(None) == op.compulsory(None) + op.compulsory(None)
    assert Copy(dtype="fp4", elements=2 * rows).compulsory(None).hbm == 2 * Copy(dtype="fp4", elements=rows).compulsory(None).hbm


@pytest.mark.parametrize(
    "op",
    [
        *(Reduction(rows=10, cols=60, dtype="bf16", function=f) for f in ("sum", "mean", "max")),
        *(Transpose(rows=10, cols=60, dtype="bf16", implementation=i) for i in ("strided", "staged")),
        Copy(dtype="bf16", elements=100),
        Copy(dtype="bf16", read=100, write=50, over="pcie"),
    ],
    ids=lambda op: op.name,
)
def test_arrays_give_the_same_bits(same_in_arrays, op):
    """A sweep is the same formula."""
    same_in_arrays(op)
