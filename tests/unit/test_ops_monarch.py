"""Monarch matrices and the Monarch Mixer layer: weights and FLOP of the dense matrix that they stand for, counted in numpy."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from roofline.ops.base import work_of
from roofline.ops.fft_conv import FftConv
from roofline.ops.gemm import Gemm
from roofline.ops.launched import Stream
from roofline.ops.m2 import MonarchMixer
from roofline.ops.monarch import Monarch
from roofline.predict.estimate.paths import PATHS

SMALL = Monarch(rows=5, n=16, dtype="fp32")
M2 = MonarchMixer(batch=2, seq=1024, hidden=64, dtype="bf16")


# --------------------------------------------------------------------------- Monarch matrices
def test_hand_worked_numbers():
    """16 = 4 x 4: two factors of 4 blocks of 4 x 4; 5 rows x 16 x 4 multiply-adds each; 5 x 16 numbers a pass."""
    assert [w.shape for w in SMALL.factors()] == [(4, 4, 4)] * 2
    assert SMALL.counts().tensor == 2 * 2 * 5 * 16 * 4
    assert SMALL.compulsory(None).hbm == 4 * (8 * 80 + 2 * 64)
    assert replace(SMALL, implementation="fused").compulsory(None).hbm == 4 * (2 * 80 + 2 * 64)


def applied(x, factors):
    """A Monarch product with numpy: blocks, then the transposition of blocks and elements; and its multiply-adds."""
    macs = 0
    for w in factors:
        blocks, width, _ = w.shape
        x = x.reshape(len(x), blocks, width)
        x, macs = np.einsum("rbi,bio->rbo", x, w), macs + x.shape[0] * w.size
        x = x.transpose(0, 2, 1).reshape(len(x), blocks * width)
    return x, macs


@pytest.mark.parametrize(("n", "order"), [(16, 2), (24, 2), (64, 3), (2048, 2)])
def test_it_is_a_dense_matrix_of_fewer_weights(n, order):
    """Two factors make every output depend on every input; FLOP are two for each multiply-add that numpy does."""
    op = Monarch(rows=n, n=n, dtype="fp32", order=order)
    rng = np.random.default_rng(3)
    dense, macs = applied(np.eye(n), [rng.uniform(1, 2, w.shape) for w in op.factors()])
    assert np.all(dense != 0)
    assert op.counts().tensor == 2 * macs
    assert sum(w.elements for w in op.factors()) == n * sum(op.block_widths()) < n * n


@pytest.mark.parametrize(("n", "order"), [(1024, 2), (4096, 2), (4096, 3), (2**15, 3)])
def test_weights_are_p_n_to_the_p_plus_one_over_p(n, order):
    """The published count, where n has an even root; half that root fewer FLOP than a dense matrix at order 2."""
    op = Monarch(rows=128, n=n, dtype="bf16", order=order)
    weights = sum(w.elements for w in op.factors())
    assert weights == pytest.approx(order * n ** ((order + 1) / order), rel=1e-12)
    dense = Gemm(m=128, n=n, k=n, dtype="bf16").counts().tensor
    assert dense / op.counts().tensor == pytest.approx(n ** (1 - 1 / order) / order, rel=1e-12)


def test_flop_are_those_of_torch():
    """Batched products and permuting copies, as the measured tables have them, under torch's counter."""
    torch = pytest.importorskip("torch")
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    op = Monarch(rows=8, n=2048, dtype="fp32")
    x, w1, w2 = torch.randn(8, 2048), *(torch.randn(w.shape) for w in op.factors())
    with counter:
        y = torch.bmm(x.view(8, 32, 64).transpose(0, 1), w1).permute(2, 1, 0)
        y = torch.bmm(y, w2).permute(1, 2, 0).reshape(8, 2048)
    assert counter.get_total_flops() == op.counts().tensor
    expected, _ = applied(x.double().numpy(), [w1.double().numpy(), w2.double().numpy()])
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-3, atol=1e-3)


@given(rows=st.integers(1, 4096), n=st.integers(4, 4096), order=st.sampled_from([2, 3]))
def test_fusing_saves_all_that_lies_between(rows, n, order):
    """Each pass but the fused one reads and writes the rows; the weights are the same."""
    op = Monarch(rows=rows, n=n, dtype="bf16", order=order)
    assume(op.check() is None)
    fused = replace(op, implementation="fused")
    assert op.compulsory(None).hbm - fused.compulsory(None).hbm == (4 * order - 2) * rows * n * 2
    assert op.counts() == fused.counts()
    assert fused.extra_memory_bytes() == 0 < op.extra_memory_bytes()


def test_kernels_are_batched_products_and_permuting_copies():
    """A copy waits for all rows of a block before it comes back to a line, the last one for the blocks of a row."""
    first, mixed, second, last = Monarch(rows=1000, n=1024, dtype="bf16").launched("graph")
    assert {(k.batch, k.m, k.n, k.k) for k in (first, second)} == {(32, 1000, 32, 32)}
    assert (mixed.kind, mixed.rows, last.rows) == ("permute", 32 * 1000, 32)
    assert mixed.rows * mixed.cols == last.rows * last.cols == 1000 * 1024
    assert [k.kind for k in Monarch(rows=8, n=64, dtype="bf16", implementation="fused").launched("graph")] == ["monarch"]


@pytest.mark.parametrize(
    ("rows", "n", "paths"),
    [
        (8192, 256, (4, 1)),  # 4 MB in L2; 16 lines for half a warp
        (16384, 1024, (4, 2)),  # 34 MB in L2 as a whole
        (8192, 4096, (5, 2)),  # 34 MB of 67 between two visits
        (16384, 4096, (6, 2)),  # 67 MB of 134
        (1024, 16384, (4, 3)),  # 8 MB of 34; 128 lines are too many for a warp's share of L1
        (16384, 16384, (7, 3)),  # 134 MB of 537, with rows of 256 bytes
    ],
)
def test_permuting_copies_take_the_path_on_which_lines_wait(rows, n, paths):
    """Six regimes that eager copies on an H200 showed, from 2 to 27 ps an element."""
    copies = [k for k in Monarch(rows=rows, n=n, dtype="bf16").launched("graph") if isinstance(k, Stream)]
    assert tuple(last_path(k) for k in copies) == paths


def last_path(kernel):
    """The number of the path that a kernel takes."""
    return max((i for i, taken in enumerate(PATHS[kernel.kind](kernel), 2) if taken), default=1)


def test_fused_tiles_read_the_factors_again_unless_they_stay_in_l2(h200):
    """n = 16384: 8 MiB of factors, tiles of three rows."""
    op = Monarch(rows=300, n=16384, dtype="bf16", implementation="fused")
    assert op.fused_rows(h200) == 227 * 1024 // (2 * 16384 * 2) == 3
    assert op.tiled(h200).hbm - op.compulsory(h200).hbm == 99 * 2 * 16384 * 128 * 2
    assert op.cached(h200).hbm == op.compulsory(h200).hbm


def test_gradients_are_two_products_for_each():
    """Of x and of the blocks, the last factor first."""
    back = Monarch(rows=8, n=2048, dtype="bf16").backward()
    assert [op.counts().tensor for op in back] == [2 * 8 * 2048 * 32] * 2 + [2 * 8 * 2048 * 64] * 2


def test_what_does_not_factor_is_refused():
    """A prime, or three factors of twice a prime."""
    assert "does not factor into 2" in replace(SMALL, n=13).check()
    assert "does not factor into 3" in replace(SMALL, n=26, order=3).check()
    assert "order must be 2 or 3" in replace(SMALL, order=4).check()
    assert "same in all cases" in replace(SMALL, order=np.array([2.0, 3.0])).check()
    assert SMALL.check() is None


# --------------------------------------------------------------------------- Monarch Mixer
def test_hand_worked_layer():
    """2048 tokens of 64: projections to 192 and back from 64, four blocks of 16 x 64 and of 64 x 16; 2048 = 64 x 32 along the sequence."""
    products = 2 * 2048 * (64 * 192 + 64 * 64 + 2 * 4 * 16 * 64)
    assert M2.counts().tensor == products + 16 * 2048 * (64 + 32) * 2 * 64
    assert sum(t.elements for t in M2.tensors() if t.role == "weight") == 64 * 192 + 64 * 64 + 2 * 4 * 16 * 64 + 64 * 2048 * 2


def test_a_layer_is_its_parts():
    """Counts and compulsory bytes of the products, the gated convolution and the GELU, one after the other."""
    conv = FftConv(batch=2, channels=64, seq=1024, dtype="bf16", implementation="flash", gated=True, spectrum=True)
    parts = [*M2.products().values(), conv, M2.activation()]
    assert sum((p.counts() for p in parts), type(M2.counts())()) == M2.counts()
    assert sum(p.compulsory(None).hbm for p in parts) == M2.compulsory(None).hbm
    assert sum(len(p.launched("graph")) for p in parts) == len(M2.launched("graph")) == 6


@given(blocks=st.sampled_from([1, 2, 4, 8, 16]), batch=st.integers(1, 16))
def test_more_blocks_are_fewer_weights_and_flop(blocks, batch):
    """Those of the MLP fall with the number of blocks."""
    dense, op = (replace(M2, batch=batch, blocks=b, projections=False) for b in (1, blocks))
    conv = op.convolution().counts().tensor
    assert (dense.counts().tensor - conv) == blocks * (op.counts().tensor - conv)
    assert work_of(op, None).compulsory.hbm <= work_of(dense, None).compulsory.hbm


def test_without_projections_u_and_the_gates_are_inputs():
    """Three tensors in, and the first product is that of the MLP."""
    op = replace(M2, projections=False)
    assert [t.name for t in op.tensors() if t.role == "in"] == ["u", "pre_gate", "post_gate"]
    assert [p.name for p in op.passes()] == ["flash", "up", "gelu", "down"]
    assert len(op.backward()) == 2 + 1 + 2 + 1


def test_blocks_and_lengths_that_do_not_fit_are_refused():
    """In the words of the part that refuses."""
    assert "blocks must divide" in replace(M2, blocks=5).check()
    assert "projection_blocks must divide" in replace(M2, projection_blocks=5).check()
    assert "2^n complex numbers" in replace(M2, seq=1000).check()
    assert replace(M2, seq=1000, implementation="cufft").check() is None


@pytest.mark.parametrize("op", [SMALL, replace(SMALL, implementation="fused"), M2, replace(M2, implementation="cufft", projections=False)])
def test_arrays_give_the_same_bits(same_in_arrays, op):
    """A sweep is the same formula."""
    same_in_arrays(op, integers=False)
