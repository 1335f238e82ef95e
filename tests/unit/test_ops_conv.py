"""Convolution: output shape and FLOP against torch, published cases, and an H200's counters."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofline.ops.conv import Conv2d

STEM = Conv2d(batch=1, in_channels=3, height=224, width=224, out_channels=64, kernel=7, stride=2, padding=3, dtype="fp16")
BODY = Conv2d(batch=64, in_channels=64, height=56, width=56, out_channels=64, kernel=3, padding=1, dtype="bf16")


def test_the_first_convolution_of_a_resnet():
    """112 x 112 results of 64 filters of 3 x 7 x 7; x 150,528, w 9,408 and y 802,816 elements of 2 bytes."""
    assert (STEM.out_height, STEM.out_width) == (112, 112)
    assert STEM.counts().tensor == 236_027_904
    assert STEM.compulsory(None).hbm == 1_925_504


def test_groups_divide_the_input_channels_of_a_filter():
    """Three groups of one input and 21 filters."""
    op = replace(STEM, groups=3, out_channels=63)
    assert op.counts().tensor == 2 * 63 * 112 * 112 * 1 * 49
    assert op.tensors()[1].shape == (63, 1, 7, 7)


def test_bias_is_one_addition_a_result():
    """And one more element of a weight for each filter."""
    op = replace(STEM, bias=True)
    assert op.counts().vector == 64 * 112 * 112
    assert op.compulsory(None).hbm == 1_925_504 + 128


AXES = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3))


@settings(deadline=None)  # the first case imports torch
@given(height=st.integers(1, 12), width=st.integers(1, 12), rows=AXES, columns=AXES, groups=st.sampled_from([1, 2]))
def test_shape_and_flop_are_those_of_torch(height, width, rows, columns, groups):
    """The result of nn.functional.conv2d and torch's FLOP counter, rectangular and dilated."""
    torch = pytest.importorskip("torch")
    counter = pytest.importorskip("torch.utils.flop_counter").FlopCounterMode(display=False)
    named = dict(zip(("kernel", "stride", "padding", "dilation"), rows, strict=True))
    named |= dict(zip(("kernel_w", "stride_w", "padding_w", "dilation_w"), columns, strict=True))
    op = Conv2d(batch=2, in_channels=4, height=height, width=width, out_channels=6, groups=groups, dtype="fp32", **named)
    assume(op.check() is None)
    x, w = (torch.randn(t.shape) for t in op.tensors()[:2])
    with counter:
        y = torch.nn.functional.conv2d(x, w, None, *zip(rows[1:], columns[1:], strict=True), groups)
    assert tuple(y.shape) == op.tensors()[-1].shape
    assert counter.get_total_flops() == op.counts().tensor
    rest = w.nbytes + y.nbytes
    assert rest + touched_bytes(torch, op, x, w) <= op.compulsory(None).hbm <= rest + x.nbytes


def touched_bytes(torch, op, x, w):
    """Bytes of x that some window reads, by the gradient of a sum of positive products."""
    x = torch.ones_like(x, requires_grad=True)
    named = {"stride": (op.stride, op.stride_w), "padding": (op.padding, op.padding_w), "dilation": (op.dilation, op.dilation_w)}
    torch.nn.functional.conv2d(x, torch.ones_like(w), None, *named.values(), op.groups).sum().backward()
    return int((x.grad != 0).sum()) * 4


def test_a_strided_one_by_one_shortcut_reads_a_quarter_of_its_input():
    """56 x 56 positions of 256 channels, of which a stride of 2 touches 28 x 28."""
    op = Conv2d(batch=1, in_channels=256, height=56, width=56, out_channels=512, kernel=1, stride=2, dtype="bf16")
    assert op.tensors()[0].moved_bytes * 4 == op.tensors()[0].bytes


def test_flop_are_those_of_an_einsum_over_windows():
    """Unfolded windows times filters, 2 FLOP for each multiply-add that numpy names."""
    x = np.lib.stride_tricks.sliding_window_view(np.zeros((2, 3, 8, 8)), (3, 3), axis=(2, 3))
    macs = np.prod([*x.shape, 5])  # b c i j u v, and the filters
    op = Conv2d(batch=2, in_channels=3, height=8, width=8, out_channels=5, kernel=3, dtype="fp32")
    assert op.counts().tensor == 2 * macs


@given(batch=st.integers(1, 512), filters=st.integers(1, 512))
def test_twice_the_images_is_twice_the_work(batch, filters):
    """All but the weights."""
    op = replace(STEM, batch=batch, out_channels=filters)
    twice = replace(op, batch=2 * batch)
    assert twice.counts() == op.counts() + op.counts()
    weights = op.tensors()[1].bytes
    assert twice.compulsory(None).hbm - weights == 2 * (op.compulsory(None).hbm - weights)


@pytest.mark.parametrize("op", [STEM, BODY, replace(STEM, groups=3, out_channels=63, bias=True)], ids=["stem", "body", "groups"])
def test_both_backward_products_are_as_large_as_the_forward_one(op):
    """The gradient of x reads dy and w, that of w reads x and dy."""
    dgrad, wgrad = op.backward()
    assert dgrad.counts().tensor == wgrad.counts().tensor == op.counts().tensor
    x, w, y = op.tensors()[0], op.tensors()[1], op.tensors()[-1]
    assert [t.bytes for t in dgrad.tensors()] == [y.bytes, w.bytes, x.bytes]
    assert [t.bytes for t in wgrad.tensors()][:3] == [x.bytes, y.bytes, w.bytes]
    assert [t.name for t in wgrad.writes] == (["dw", "dbias"] if op.bias else ["dw"])


def test_traffic_agrees_with_counters_of_an_h200(h200):
    """Nsight Compute, cuDNN's implicit GEMM: 25.8 MB read (y stays in L2), 198.7 MB at L2 with fills; 14.8 GFLOP exactly."""
    assert BODY.counts().tensor == 14_797_504_512
    traffic = BODY.cached(h200)
    assert traffic.hbm - BODY.tensors()[-1].bytes == pytest.approx(25_836_800, rel=0.01)
    assert traffic.l2 == pytest.approx(198_689_600, rel=0.25)
    assert BODY.compulsory(h200).hbm <= traffic.hbm <= BODY.tiled(h200).hbm


def test_operands_too_large_for_l2_are_read_again(h200):
    """1.2 GB of filters cannot stay; a depthwise product feeds each group from its own channels."""
    wide = replace(BODY, in_channels=8192, out_channels=8192)
    assert wide.cached(h200).hbm == wide.tiled(h200).hbm > wide.compulsory(h200).hbm
    depthwise = replace(BODY, groups=64)
    assert depthwise.product().n == 1
    assert depthwise.counts().tensor * 64 == BODY.counts().tensor


def test_contradictions_are_refused():
    """Groups that do not divide, windows that do not fit, in scalars and in arrays."""
    assert "groups" in replace(STEM, groups=2).check()
    assert "empty" in replace(STEM, kernel=300).check()
    assert "empty" in replace(STEM, width=1, padding_w=0).check()
    assert "groups" in replace(STEM, groups=np.array([1.0, 2.0])).check()
    assert STEM.check() is None


@pytest.mark.parametrize("op", [STEM, BODY, replace(BODY, groups=2, bias=True), replace(STEM, kernel_w=3, padding_w=0, stride_w=1)])
def test_arrays_give_the_same_bits(same_in_arrays, op):
    """A sweep is the same formula."""
    same_in_arrays(op)
