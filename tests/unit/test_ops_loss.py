"""Cross entropy: one sweep when fused, a chain of fp32 passes when not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.base import work_of
from roofline.ops.loss import CrossEntropy

SIZES = st.integers(1, 10**6)
OPS = [CrossEntropy(tokens=10, vocab=100, dtype=d, fused=f) for d in ("bf16", "fp32") for f in (False, True)]


def test_fused_hand_worked():
    """10 x 100 bf16: 2000 B of logits, 10 targets of 8 B, 10 losses of 4 B; 5 FLOP and an exp a logit; nothing else."""
    work = work_of(CrossEntropy(tokens=10, vocab=100, dtype="bf16", fused=True), None)
    assert (work.counts.vector, work.counts.sfu) == (5000, 1000)
    assert (work.compulsory.hbm, work.kernels, work.extra_memory_bytes) == (2000 + 80 + 40, 1, 0)


def test_unfused_hand_worked():
    """Cast 2000 + 4000, log-softmax 4000 + 4000, gather 10 values of 4 B, targets, losses; 8000 B of scratch."""
    work = work_of(CrossEntropy(tokens=10, vocab=100, dtype="bf16"), None)
    assert (work.counts.vector, work.counts.sfu) == (4000, 1000)
    assert (work.compulsory.hbm, work.kernels, work.extra_memory_bytes) == (14000 + 40 + 80 + 40, 3, 8000)


def test_logits_already_in_the_scratch_format_are_not_cast():
    """Two kernels, one scratch tensor."""
    for op in (CrossEntropy(tokens=10, vocab=100, dtype=d, scratch_dtype=d) for d in ("fp32", "bf16")):
        assert [p.name for p in op.passes()] == ["log_softmax", "nll"]
        assert work_of(op, None).extra_memory_bytes == op.tensors()[0].bytes


def test_scratch_of_a_real_vocabulary_is_4_gb_each():
    """8192 tokens of 128,256 classes in fp32 (reference notes: 4.2 GB)."""
    op = CrossEntropy(tokens=8192, vocab=128256, dtype="bf16")
    assert work_of(op, None).extra_memory_bytes == 2 * 4 * 8192 * 128256


def test_safe_log_softmax_streams_long_rows_three_times(h200):
    """A row of 513 KB in fp32; short rows are read once."""
    op = CrossEntropy(tokens=4096, vocab=128256, dtype="bf16")
    assert op.tiled(h200).hbm - op.compulsory(h200).hbm == 2 * 4 * 4096 * 128256
    assert op.cached(h200).hbm == op.tiled(h200).hbm
    fused = replace(op, fused=True)
    assert fused.cached(h200) == fused.tiled(h200) == fused.compulsory(h200)


def test_small_scratch_stays_in_l2(h200):
    """Only logits, targets and losses reach HBM when both scratch tensors fit."""
    op = CrossEntropy(tokens=100, vocab=1000, dtype="bf16")
    assert op.cached(h200).hbm == op.tensors()[0].bytes + 800 + 400


@given(tokens=SIZES, vocab=SIZES, fused=st.booleans())
def test_twice_the_tokens_is_twice_the_work_both_ways(tokens, vocab, fused):
    """Forward and backward are linear in tokens."""
    op = CrossEntropy(tokens=tokens, vocab=vocab, dtype="bf16", fused=fused)
    twice = replace(op, tokens=2 * tokens)
    for one, two in zip((op, *op.backward()), (twice, *twice.backward()), strict=True):
        assert two.counts() == one.counts() + one.counts()
        assert two.compulsory(None) == one.compulsory(None) + one.compulsory(None)


@pytest.mark.parametrize("op", OPS, ids=str)
def test_backward_ends_in_the_gradient_of_the_logits(op):
    """In the format of the logits; the unfused chain has as many kernels as the forward one."""
    backward = op.backward()
    assert len(backward) == len(op.passes())
    assert [(t.name, t.bytes) for t in backward[-1].writes] == [("dlogits", op.tensors()[0].bytes)]
    assert sum(b.counts().vector for b in backward) == 3 * 1000


def test_gradient_formula_is_right():
    """dlogits = (exp(z - log sum) - onehot) dloss, with the log-sum kept for each token."""
    torch = pytest.importorskip("torch")
    logits, targets = torch.randn(10, 100, requires_grad=True), torch.randint(100, (10,))
    torch.nn.functional.cross_entropy(logits, targets, reduction="sum").backward()
    log_sum = torch.logsumexp(logits, -1, keepdim=True)
    onehot = torch.nn.functional.one_hot(targets, 100)
    assert torch.allclose(logits.grad, torch.exp(logits - log_sum) - onehot, atol=1e-6)
    kept = {t.name: t for t in OPS[3].saved()}
    assert kept["log_sum"].elements == log_sum.numel()
    assert kept["log_sum"].bytes == log_sum.nbytes


@pytest.mark.parametrize("op", OPS, ids=str)
@pytest.mark.parametrize("vocab", [100, 128256])
def test_arrays_give_the_same_bits(same_in_arrays, op, vocab):
    """A sweep is the same formula."""
    same_in_arrays(replace(op, vocab=vocab))
