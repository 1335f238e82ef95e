"""A wrong kernel does not get through, and a right one does. Each fault is injected."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from roofline.errors import MissingCapabilityError
from roofline.measure import check as checking
from roofline.measure.allocate import allocate
from roofline.measure.check import FAILED, check, compare_outputs, reference, small_op, tolerance
from roofline.measure.registry import KERNELS, default_kernel
from roofline.ops.attention import Attention
from roofline.ops.base import Op
from roofline.ops.custom import Custom
from roofline.ops.elementwise import Dropout
from roofline.ops.gemm import Gemm

GEMM = Gemm(m=24, n=32, k=40, dtype="fp32")


@pytest.fixture
def run(monkeypatch):
    """The check of a builder that is no module's."""

    def checked(build, op: Op = GEMM, direction="forward"):
        monkeypatch.setattr(checking, "prepare", lambda spec, op, tensors, direction, device: build(op, tensors))
        return check(default_kernel(op), op, "cpu", direction)

    return checked


def test_a_right_product_passes_with_its_error_and_tolerance(run):
    result = run(lambda op, t: lambda: t["a"] @ t["w"])
    assert result.passed
    assert 0 < result.error < result.tolerance == 2e-5


def _stale(op, t):
    result = t["a"] @ t["w"]
    return lambda: result


def _once(op, t):
    """Computes at the first call and gives the same thing back ever after."""
    kept = []

    def call():
        kept.append(t["a"] @ t["w"])
        return kept[0]

    return call


FAULTS = {
    "zeros": lambda op, t: lambda: torch.zeros_like(t["c"]),
    "nan": lambda op, t: lambda: t["a"] @ t["w"] * torch.nan,
    "inf": lambda op, t: lambda: t["a"] @ t["w"] * torch.inf,
    "one-nan": lambda op, t: lambda: (t["a"] @ t["w"]).index_fill(0, torch.tensor([3]), torch.nan),
    "nothing-written": lambda op, t: lambda: t["c"],
    "none": lambda op, t: lambda: None,
    "shape": lambda op, t: lambda: (t["a"] @ t["w"])[:1],
    "two": lambda op, t: lambda: (t["a"] @ t["w"], t["c"]),
    "half-precision": lambda op, t: lambda: (t["a"].bfloat16() @ t["w"].bfloat16()).float(),
    "one-element": lambda op, t: lambda: (t["a"] @ t["w"]).index_put((torch.tensor(1), torch.tensor(2)), torch.tensor(0.0)),
    "stale": _stale,
    "memoised": _once,
}


@pytest.mark.parametrize("build", FAULTS.values(), ids=list(FAULTS))
def test_a_wrong_kernel_fails(run, build):
    result = run(build)
    assert not result.passed
    assert math.isfinite(result.error)


@pytest.mark.parametrize("build", [_stale, _once])
def test_an_output_that_does_not_follow_its_inputs_is_said_to_be_that(run, build):
    assert "does not follow" in run(build).against


def test_a_backward_kernel_that_forgets_a_gradient_or_its_scale_fails(run):
    op = Attention(batch=1, heads=2, q_len=8, kv_len=8, head_dim=8, dtype="fp32", implementation="naive")

    def gradients(op, t, scale=1.0, keep=3):
        exact = reference(op, t, "backward")
        return lambda: tuple(g.float() * scale for g in exact[:keep])

    assert run(gradients, op, "backward").passed
    assert not run(lambda op, t: gradients(op, t, scale=1.01), op, "backward").passed
    assert not run(lambda op, t: gradients(op, t, keep=2), op, "backward").passed


def test_attention_that_forgets_its_mask_fails(run):
    op = Attention(batch=1, heads=2, q_len=8, kv_len=8, head_dim=8, dtype="bf16", causal=True)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    assert run(lambda op, t: lambda: sdpa(t["q"], t["k"], t["v"], is_causal=True), op).passed
    assert not run(lambda op, t: lambda: sdpa(t["q"], t["k"], t["v"]), op).passed


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_dropout_that_keeps_the_wrong_share_fails(run, share):
    def build(op, t):
        def call():
            mask = torch.rand(t["x"].shape) < share
            return mask, t["x"] * mask / (1 - op.p)

        return call

    assert run(build, Dropout(elements=4000, dtype="fp32", p=0.5)).passed == (share == 0.5)


def test_dropout_that_forgets_to_scale_fails(run):
    def build(op, t):
        def call():
            mask = torch.rand(t["x"].shape) < 0.5
            return mask, t["x"] * mask

        return call

    assert not run(build, Dropout(elements=4000, dtype="fp32", p=0.5)).passed


def test_a_tf32_product_that_is_too_exact_was_plain_fp32_and_fails(run):
    op = replace(GEMM, dtype="tf32")

    def rounded(t):  # to 10 bits of mantissa, as TF32 rounds its factors
        return (t.view(torch.int32) & ~0x1FFF).view(torch.float32)

    assert run(lambda op, t: lambda: rounded(t["a"]) @ rounded(t["w"]), op).passed
    result = run(lambda op, t: lambda: t["a"] @ t["w"], op)
    assert not result.passed
    assert "plain fp32 ran" in result.against


def test_an_operator_without_a_reference_says_so():
    with pytest.raises(MissingCapabilityError, match="no float64 reference"):
        reference(Custom(dtype="bf16"), {})


# --------------------------------------------------------------------------- comparing
def test_the_error_is_relative_to_the_largest_value_of_each_output():
    expected = (torch.tensor([100.0, 0.0]), torch.tensor([1.0]))
    assert compare_outputs((torch.tensor([100.0, 1.0]), torch.tensor([1.0])), expected) == pytest.approx(0.01)
    assert compare_outputs((torch.tensor([100.0, 0.0]), torch.tensor([1.5])), expected) == pytest.approx(0.5)


def test_expected_zeros_must_be_met_exactly():
    zeros = (torch.zeros(3),)
    assert compare_outputs(torch.zeros(3), zeros) == 0
    assert compare_outputs(torch.full((3,), 1e-9), zeros) == FAILED


def test_data_that_is_only_moved_must_arrive_unchanged():
    assert tolerance(small_of("transpose")) == 0
    assert tolerance(small_of("embedding")) == 0
    assert tolerance(small_of("gemm")) == 2e-5


def small_of(name):
    from roofline.ops.registry import OPERATORS

    spec = KERNELS[name]
    return OPERATORS[spec.op](**{**spec.small, **spec.fields})


# --------------------------------------------------------------------------- the reference itself
def test_the_attention_reference_is_that_of_torch_for_each_head():
    op = Attention(batch=2, heads=4, kv_heads=2, q_len=5, kv_len=9, head_dim=8, dtype="fp32", causal=True, window=4)
    t = allocate(op, "cpu")
    rows, keys = torch.arange(5)[:, None] + 4, torch.arange(9)[None]
    mask = (keys <= rows) & (keys > rows - 4)
    q, k, v = (t[n].double() for n in ("q", "k", "v"))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    assert compare_outputs(reference(op, t), (expected,)) < 1e-12


def test_the_adamw_reference_is_a_step_of_torch_optim():
    from roofline.measure import constants as c

    op = small_of("adamw")
    t = allocate(op, "cpu")
    p = t["p"].double().requires_grad_()
    p.grad = t["g"].double()
    adam = torch.optim.AdamW([p], lr=c.LEARNING_RATE, betas=c.BETAS, eps=c.ADAM_EPSILON, weight_decay=c.WEIGHT_DECAY)
    state = {"step": torch.tensor(c.ADAM_STEP - 1.0), "exp_avg": t["m"].double(), "exp_avg_sq": t["v"].double()}
    adam.state[p].update(state)
    adam.step()
    assert compare_outputs(reference(op, t)[:1], (p.detach(),)) < 1e-12


@pytest.mark.parametrize("momentum", [False, True])
def test_the_sgd_reference_is_a_step_of_torch_optim(momentum):
    from roofline.measure import constants as c

    op = replace(small_of("sgd"), momentum=momentum)
    t = allocate(op, "cpu")
    p = t["p"].double().requires_grad_()
    p.grad = t["g"].double()
    descent = torch.optim.SGD([p], lr=c.LEARNING_RATE, momentum=c.MOMENTUM if momentum else 0.0)
    if momentum:
        descent.state[p]["momentum_buffer"] = t["m"].double()
    descent.step()
    kept = (descent.state[p]["momentum_buffer"],) if momentum else ()
    assert compare_outputs(reference(op, t), (p.detach(), *kept)) < 1e-12


# --------------------------------------------------------------------------- small shapes
def test_a_small_shape_keeps_what_chooses_the_code():
    op = Attention(batch=64, heads=32, kv_heads=8, q_len=512, kv_len=8192, head_dim=128, dtype="bf16", causal=True, window=4096)
    small = small_op(KERNELS["flash"], op)
    assert (small.batch, small.heads, small.kv_heads, small.q_len, small.kv_len) == (2, 4, 2, 32, 64)
    assert (small.head_dim, small.dtype, small.causal, small.window) == (128, "bf16", True, 24)
    multi_head = small_op(KERNELS["flash"], replace(op, heads=3, kv_heads=3, q_len=8192))
    assert (multi_head.heads, multi_head.kv_heads, multi_head.q_len) == (3, 3, 64)


def test_a_small_shape_is_never_larger_and_always_valid():
    assert small_op(KERNELS["gemm"], Gemm(m=8192, n=17, k=5, dtype="bf16", bias=True)) == Gemm(m=48, n=17, k=5, dtype="bf16", bias=True)
    conv = replace(small_of("conv2d"), in_channels=96, out_channels=192, groups=96, kernel=7, height=500, dilation=3, width=30, padding=0)
    small = small_op(KERNELS["conv2d"], conv)
    assert small.check() is None
    assert (small.in_channels, small.out_channels, small.groups, small.kernel, small.height, small.width) == (96, 96, 96, 7, 19, 19)


@pytest.mark.parametrize("spec", KERNELS.values(), ids=list(KERNELS))
def test_the_small_shape_of_each_example_is_small(spec):
    from roofline.ops.registry import OPERATORS

    small = small_op(spec, OPERATORS[spec.op](**{**spec.example, **spec.fields}))
    assert small.check() is None
    assert spec.fits(small)
    assert sum(t.bytes for t in small.tensors()) < 2e6


def test_where_a_bounded_shape_contradicts_itself_the_small_one_stands():
    op = replace(small_of("softmax"), rows=4096)
    refusing = type("Refusing", (type(op),), {"check": lambda self: "too few rows" if self.rows == 48 and self.cols != 80 else None})
    odd = refusing(rows=4096, cols=70, dtype="bf16", implementation="online")
    assert (small_op(KERNELS["softmax"], odd).cols, small_op(KERNELS["softmax"], odd).dtype) == (80, "bf16")
