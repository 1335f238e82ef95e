"""Tensors for kernels: the operator's bytes, fair values, and new ones where they lie."""

from __future__ import annotations

import pytest
import torch

from roofline.errors import UsageError
from roofline.measure.allocate import TORCH_DTYPES, allocate, allocated_bytes, copies, differentiable, refill, torch_dtype
from roofline.measure.registry import KERNELS
from roofline.ops.attention import Attention
from roofline.ops.elementwise import Elementwise
from roofline.ops.embedding import Embedding
from roofline.ops.gemm import Gemm
from roofline.ops.memory import Copy
from roofline.ops.optimizer import AdamW
from roofline.ops.registry import OPERATORS

OPS = [pytest.param(OPERATORS[s.op](**{**s.small, **s.fields}), id=s.name) for s in KERNELS.values()]


@pytest.mark.parametrize("op", OPS)
def test_the_tensors_hold_exactly_the_bytes_that_the_operator_counts(op):
    tensors = allocate(op, "cpu")
    tensors.pop("host", None)
    expected = sum(t.bytes for t in op.tensors())
    assert sum(t.nbytes for t in tensors.values()) == allocated_bytes(op) == expected
    assert {n: tuple(t.shape) for n, t in tensors.items()} == {t.name: t.shape for t in op.tensors()}


def test_a_backward_pass_also_gets_the_gradient_of_each_result():
    op = Attention(batch=1, heads=2, q_len=4, kv_len=4, head_dim=8, dtype="bf16")
    tensors = allocate(op, "cpu", direction="backward")
    assert tensors["do"].shape == tensors["o"].shape
    assert allocated_bytes(op, "backward") == sum(t.nbytes for t in tensors.values())
    assert [t.name for t in differentiable(op)] == ["q", "k", "v"]


@pytest.mark.parametrize("name", ["fp6", "fp4", "int4"])
def test_formats_without_torch_tensors_are_refused(name):
    with pytest.raises(UsageError, match=f"no tensors of {name}"):
        torch_dtype(name)


@pytest.mark.parametrize("name", TORCH_DTYPES)
def test_each_format_has_the_size_that_we_count(name):
    from roofline.dtypes import dtype

    assert torch_dtype(name).itemsize == dtype(name).bytes


def test_inputs_are_standard_normal_and_outputs_are_unusable():
    tensors = allocate(Gemm(m=300, n=10, k=300, dtype="bf16"), "cpu")
    a = tensors["a"].double()
    assert (abs(float(a.mean())) < 0.02, abs(float(a.std()) - 1) < 0.02) == (True, True)
    assert bool(tensors["c"].isnan().all())


def test_quantised_inputs_are_normal_numbers_rounded():
    a = allocate(Gemm(m=300, n=16, k=300, dtype="fp8"), "cpu")["a"]
    assert (a.dtype, abs(float(a.double().std()) - 1) < 0.02) == (torch.float8_e4m3fn, True)


def test_integers_fill_their_range():
    a = allocate(Gemm(m=300, n=16, k=300, dtype="int8"), "cpu")["a"]
    assert (int(a.min()), int(a.max())) == (-128, 127)


def test_ids_are_all_different_until_the_vocabulary_is_used_up():
    ids = allocate(Embedding(tokens=250, vocab=100, hidden=2, dtype="fp32"), "cpu")["ids"]
    assert [len(set(part.tolist())) for part in ids.split(100)] == [100, 100, 50]


@pytest.mark.parametrize("function", ["log", "sqrt", "rsqrt", "div"])
def test_functions_with_a_pole_get_inputs_away_from_it(function):
    x = allocate(Elementwise(function=function, elements=1000, dtype="fp32"), "cpu")["x"]
    assert float(x.min()) >= 0.25


def test_second_moments_are_positive():
    assert float(allocate(AdamW(parameters=1000, dtype="fp32"), "cpu")["v"].min()) > 0


def test_the_same_seed_gives_the_same_values_and_copies_differ():
    op = Gemm(m=8, n=8, k=8, dtype="fp32")
    one, other = copies(op, "cpu", 2)
    assert not torch.equal(one["a"], other["a"])
    assert torch.equal(one["a"], allocate(op, "cpu", 0)["a"])
    assert torch.equal(other["w"], allocate(op, "cpu", 1)["w"])


def test_new_values_are_written_where_a_tensor_lies_and_as_it_lies():
    op = Gemm(m=8, n=4, k=8, dtype="fp32")
    tensors = allocate(op, "cpu")
    tensors["w"] = tensors["w"].t().contiguous().t()
    place, old = tensors["w"].data_ptr(), tensors["w"].clone()
    tensors["c"].zero_()
    refill(op, tensors, 5)
    assert (tensors["w"].data_ptr(), tensors["w"].stride()) == (place, (1, 8))
    assert not torch.equal(tensors["w"], old)
    assert bool(tensors["c"].isnan().all())


def test_a_copy_over_a_link_has_a_host_side_that_is_not_device_memory():
    op = Copy(dtype="int8", write=100, over="pcie")
    tensors = allocate(op, "cpu")
    assert tensors["host"].shape == tensors["payload"].shape
    assert not torch.equal(tensors["host"], tensors["payload"])
    assert allocated_bytes(op) == 100


@pytest.mark.gpu
def test_the_host_side_is_pinned_where_there_is_a_gpu():
    assert allocate(Copy(dtype="int8", write=100, over="pcie"), "cuda")["host"].is_pinned()
