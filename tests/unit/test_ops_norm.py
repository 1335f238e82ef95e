"""Layer and RMS norm: counts, residual, weights, and the bytes that an H200 really moved."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.base import work_of
from roofline.ops.norm import LayerNorm, RmsNorm

BOTH = (LayerNorm, RmsNorm)
SIZES = st.integers(1, 10**6)


def test_hand_worked_counts():
    """10 rows of 64: 8 and 4 FLOP an element, one root a row; the residual adds one FLOP, no beta saves one."""
    shape = {"rows": 10, "cols": 64, "dtype": "bf16"}
    assert (LayerNorm(**shape).counts().vector, LayerNorm(**shape).counts().sfu) == (8 * 640, 10)
    assert LayerNorm(**shape, bias=False).counts().vector == 7 * 640
    assert (RmsNorm(**shape).counts().vector, RmsNorm(**shape).counts().sfu) == (4 * 640, 10)
    assert RmsNorm(**shape, residual=True).counts().vector == 5 * 640


class Counted(np.ndarray):
    """An array that counts the element operations done on it, those on whole matrices only."""

    flop = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        """Do the operation on plain arrays and add the elements it works on."""
        plain = [np.asarray(i) for i in inputs]
        result = getattr(ufunc, method)(*plain, **kwargs)
        Counted.flop += max(np.size(i) for i in plain) if max(np.ndim(i) for i in plain) > 1 else 0
        return np.asarray(result).view(Counted)


@pytest.mark.parametrize(
    ("op", "formula"),
    [
        (LayerNorm, lambda x, m, r, g, b: (np.add.reduce(x, 1), np.add.reduce(np.square(x - m), 1), (x - m) * r * g + b)),
        (RmsNorm, lambda x, m, r, g, b: (np.add.reduce(np.square(x), 1), x * r * g)),
    ],
)
def test_flop_are_those_of_the_formula_in_numpy(op, formula):
    """Mean, variance and result written out, with numpy counting the elements that it works on."""
    Counted.flop = 0
    formula(np.ones((10, 64)).view(Counted), *(np.float64(1),) * 4)
    assert op(rows=10, cols=64, dtype="fp32").counts().vector == Counted.flop


def test_an_unfused_layer_norm_reads_x_once_for_each_sweep():
    """10 x 64 bf16: three reads of x and one write of y, statistics of 40 B written once and read three times, weights once."""
    op = LayerNorm(rows=10, cols=64, dtype="bf16", implementation="unfused")
    assert op.compulsory(None).hbm == 4 * 1280 + 2 * 128 + (2 + 3) * 40
    fused = replace(op, implementation="fused")
    assert sum((p.counts for p in op.passes()), type(op.counts())()) == op.counts() == fused.counts()
    assert [k.kind for k in op.launched("graph")] == ["reduction", "reduction", "elementwise"]
    assert op.launched("compiled") == fused.launched("compiled")
    with_sum = replace(op, residual=True)
    assert with_sum.compulsory(None).hbm - op.compulsory(None).hbm == 3 * 1280


def test_hand_worked_bytes():
    """10 x 64 bf16: 1280 B a matrix, 128 B a vector."""
    shape = {"rows": 10, "cols": 64, "dtype": "bf16"}
    assert LayerNorm(**shape).compulsory(None).hbm == 2 * 1280 + 2 * 128
    assert RmsNorm(**shape).compulsory(None).hbm == 2 * 1280 + 128
    assert RmsNorm(**shape, residual=True).compulsory(None).hbm == 4 * 1280 + 128


@pytest.mark.parametrize(
    ("norm", "rows", "cols", "read", "written"),
    [
        (LayerNorm, 16384, 4096, 136e6, 114e6),
        (RmsNorm, 16384, 4096, 137e6, 114e6),
        (LayerNorm, 4096, 128256, 2103e6, 1054e6),
        (RmsNorm, 4096, 128256, 2102e6, 1053e6),
    ],
)
def test_bytes_agree_with_counters_of_an_h200(h200, norm, rows, cols, read, written):
    """Nsight Compute, torch layer_norm and rms_norm in bf16."""
    assert norm(rows=rows, cols=cols, dtype="bf16").cached(h200).hbm == pytest.approx(read + written, rel=0.25)


@pytest.mark.parametrize("norm", BOTH)
@pytest.mark.parametrize("residual", [False, True])
def test_long_rows_are_read_once_more(h200, norm, residual):
    """The second sweep reads x, or the sum, again."""
    op = norm(rows=4096, cols=128256, dtype="bf16", residual=residual)
    assert op.tiled(h200).hbm - op.compulsory(h200).hbm == 2 * 4096 * 128256
    assert replace(op, cols=4096).tiled(h200) == replace(op, cols=4096).compulsory(h200)


@given(rows=SIZES, cols=SIZES, norm=st.sampled_from(BOTH), residual=st.booleans())
def test_twice_the_columns_is_twice_the_bytes(rows, cols, norm, residual):
    """Every tensor is a row or a matrix of rows; only the roots stay the same."""
    op = norm(rows=rows, cols=cols, dtype="bf16", residual=residual)
    one, two = work_of(op, None), work_of(replace(op, cols=2 * cols), None)
    assert two.compulsory == one.compulsory + one.compulsory
    assert two.counts.vector == 2 * one.counts.vector
    assert two.counts.sfu == one.counts.sfu


@pytest.mark.parametrize(("norm", "statistics"), [(LayerNorm, 2), (RmsNorm, 1)])
@pytest.mark.parametrize("residual", [False, True])
def test_backward_needs_what_was_normalised_and_its_statistics(norm, statistics, residual):
    """Reads x, dy, gamma and 4 or 8 bytes a row, writes dx and a gradient for each weight."""
    op = norm(rows=10, cols=64, dtype="bf16", residual=residual)
    (backward,) = op.backward()
    weights = [t.name for t in op.tensors() if t.role == "weight"]
    assert op.saved()[0].name == ("sum" if residual else "x")
    assert sum(t.bytes for t in op.saved()) == 1280 + 4 * 10 * statistics
    assert [t.name for t in backward.writes] == ["dx", *(f"d{name}" for name in weights)]
    matrices = 4 if residual else 3
    assert backward.compulsory(None).hbm == matrices * 1280 + 40 * statistics + 128 * (1 + len(weights))


def test_statistics_are_those_that_torch_saves():
    """native_layer_norm returns mean and rstd, one of each a row, in fp32 for a bf16 input on the GPU."""
    torch = pytest.importorskip("torch")
    _, mean, rstd = torch.native_layer_norm(torch.randn(10, 64), (64,), None, None, 1e-5)
    kept = LayerNorm(rows=10, cols=64, dtype="fp32").saved()[1:]
    assert [t.elements for t in kept] == [mean.numel(), rstd.numel()]
    assert {t.bytes for t in kept} == {mean.nbytes}


@pytest.mark.parametrize("norm", BOTH)
@pytest.mark.parametrize("cols", [100, 128256])
def test_arrays_give_the_same_bits(same_in_arrays, norm, cols):
    """A sweep is the same formula."""
    same_in_arrays(norm(rows=300, cols=cols, dtype="bf16", residual=True))
