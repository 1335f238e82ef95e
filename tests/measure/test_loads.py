"""Rows of a grouped product land where the operator says, and its kernels follow them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import UsageError
from roofline.fit.routing import routed
from roofline.measure.allocate import allocate
from roofline.measure.check import check, small_op
from roofline.measure.loads import ends, loads
from roofline.measure.registry import KERNELS, prepare
from roofline.ops.base import work_of
from roofline.ops.grouped import GroupedGemm

BOTH = [KERNELS["grouped_gemm"], KERNELS["grouped_gemm_looped"]]


def experts(**fields) -> GroupedGemm:
    return GroupedGemm(**{"dtype": "fp32", "n": 16, "k": 32, "active": 1, **fields})


def test_loads_of_few_experts_by_hand() -> None:
    """Nine rows over three experts, five of them in the fullest: two others share four; a balanced one gives each three."""
    assert sorted(loads(experts(tokens=9, experts=3, chosen=3, fullest=5))) == [1, 3, 5]
    assert loads(experts(tokens=9, experts=3, chosen=3, fullest=3)) == [3, 3, 3]
    assert loads(experts(tokens=7, experts=3, active=3)) == [7, 7, 7]


@given(
    tokens=st.integers(1, 3000),
    experts_=st.sampled_from((1, 2, 8, 60, 128, 256)),
    active=st.integers(1, 8),
    ranks=st.sampled_from((1, 2)),
    exponent=st.sampled_from((None, 1.2, 2.5)),
)
def test_loads_are_what_the_operator_says(tokens, experts_, active, ranks, exponent) -> None:
    """Independent count: rows, experts with rows and the fullest of a simulated router come back out of the loads."""
    if active > experts_ or experts_ % ranks:
        return
    got = routed(tokens, experts_, active, ranks, exponent)
    op = experts(tokens=got.rows, experts=experts_ // ranks, chosen=got.chosen, fullest=min(got.fullest, got.rows - got.chosen + 1))
    found = loads(op)
    assert (sum(found), len(found), sum(n > 0 for n in found), max(found)) == (op.rows, op.held, got.chosen, op.fullest)


@given(tokens=st.integers(1, 500), experts_=st.integers(2, 64), active=st.integers(1, 8), ranks=st.integers(1, 4))
def test_a_random_choice_moves_no_fewer_weights_than_are_counted(tokens, experts_, active, ranks) -> None:
    """Else a measurement could beat its bound."""
    op = experts(tokens=tokens, experts=experts_ * ranks, active=min(active, experts_ * ranks), ranks=ranks)
    found = loads(op)
    assert (sum(found), len(found)) == (op.rows, op.held)
    moved = work_of(op, None).compulsory.hbm - 4 * op.rows * (op.n + op.k)
    assert moved <= 4 * op.n * op.k * sum(n > 0 for n in found)


def test_a_fullest_expert_that_starves_the_others_is_refused() -> None:
    with pytest.raises(UsageError, match="fullest 10 of 10 rows leaves none for one of 3 chosen experts; at most 8 do"):
        loads(experts(tokens=10, experts=4, chosen=3, fullest=10))


@pytest.mark.parametrize("spec", BOTH, ids=lambda s: s.name)
@pytest.mark.parametrize(
    "uneven",
    [{}, {"chosen": 4, "fullest": 20}, {"active": 6}, {"tokens": 9, "active": 1, "chosen": 3, "fullest": 5}],
    ids=["random", "uneven", "all", "one_row"],
)
def test_kernels_follow_the_loads(spec, uneven) -> None:
    op = GroupedGemm(**{**spec.small, **uneven})
    assert check(spec, op, "cpu").passed


def test_rows_of_one_expert_do_not_see_the_weights_of_another() -> None:
    op = experts(tokens=12, experts=4, chosen=3, fullest=6)
    tensors = allocate(op, "cpu")
    call = prepare(BOTH[0], op, tensors)
    before = call().clone()
    tensors["w"][2] = 0
    first, last = [0, *ends(op)][2:4]
    changed = (call() != before).any(1)
    assert changed.tolist() == [first <= row < last for row in range(12)]


def test_a_check_keeps_what_the_routing_is_like() -> None:
    """Uneven loads, experts without rows: both are there at the small shape too, on one device."""
    large = GroupedGemm(tokens=4096, experts=64, active=1, n=4096, k=4096, dtype="bf16", chosen=40, fullest=1000)
    small = small_op(BOTH[0], large)
    assert small.check() is None
    assert small.chosen < small.held
    assert small.fullest > small.rows / small.chosen
    assert small_op(BOTH[0], replace(large, chosen=0, fullest=0, ranks=8)).ranks == 1


@pytest.mark.parametrize("fields", [{"bias": True}, {"weight_dtype": "fp8"}, {"out_dtype": "fp32", "dtype": "bf16"}])
def test_what_torch_has_no_grouped_product_of_is_refused(fields) -> None:
    op = GroupedGemm(**{**BOTH[0].small, **fields})
    with pytest.raises(UsageError, match="grouped products run here"):
        prepare(BOTH[0], op, allocate(op, "cpu"))


@pytest.mark.gpu
@pytest.mark.parametrize("uneven", [{}, {"chosen": 5, "fullest": 300}], ids=["random", "uneven"])
def test_one_grouped_kernel_gives_what_a_loop_gives(uneven) -> None:
    op = GroupedGemm(tokens=512, experts=8, active=1, n=256, k=512, dtype="bf16", **uneven)
    made = [prepare(spec, op, allocate(op, "cuda", 3), device="cuda")() for spec in BOTH]
    assert torch.allclose(*(c.float() for c in made), rtol=2e-2, atol=0.5)
