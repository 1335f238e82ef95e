"""Weights, gradients and optimizer states a parameter, and their shards under ZeRO."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import UsageError
from roofline.models.memory_states import OPTIMIZERS, Each, model_state, optimizer_bytes

MIXED = Each(2, 2, 12)
PARAMETERS = st.floats(1e3, 1e13)
RANKS = st.integers(1, 100_000)


def test_mixed_precision_adam_is_16_bytes_a_parameter_worked_by_hand() -> None:
    # bf16 weight 2, bf16 gradient 2, fp32 master 4, m 4, v 4.
    assert 2 + 2 + optimizer_bytes("adamw", "bf16") == 16
    assert model_state(1000, 1, 0, MIXED).total == 16_000


def test_a_weight_in_fp32_is_its_own_master() -> None:
    assert optimizer_bytes("adamw", "fp32") == 8
    assert optimizer_bytes("sgd", "fp32") == 0


def test_megatrons_distributed_optimizer_is_stage_1_with_fp32_gradients() -> None:
    """6 + 12 / dp bytes a parameter, 18 without it (Megatron-LM, theoretical_memory_usage.py)."""
    for ranks in (1, 8, 64):
        assert model_state(1.0, ranks, 1, Each(2, 4, 12)).total == pytest.approx(6 + 12 / ranks)
    assert model_state(1.0, 8, 0, Each(2, 4, 12)).total == 18


@given(PARAMETERS, RANKS)
def test_a_higher_stage_never_needs_more(parameters: float, ranks: int) -> None:
    totals = [float(model_state(parameters, ranks, stage, MIXED).total) for stage in range(4)]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(totals))


@given(PARAMETERS, RANKS)
def test_all_shards_of_stage_3_are_one_whole(parameters: float, ranks: int) -> None:
    assert ranks * model_state(parameters, ranks, 3, MIXED).total == pytest.approx(model_state(parameters, 1, 0, MIXED).total)


@given(PARAMETERS, st.lists(RANKS, min_size=1, max_size=5), st.integers(0, 3))
def test_arrays_give_what_numbers_give(parameters: float, ranks: list[int], stage: int) -> None:
    found = model_state(parameters, np.array(ranks, dtype=np.float64), stage, MIXED).total
    each = [model_state(parameters, n, stage, MIXED).total for n in ranks]
    assert np.broadcast_to(found, len(ranks)).tolist() == each


def test_an_unknown_optimizer_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'adamw'"):
        optimizer_bytes("adam", "bf16")
    assert set(OPTIMIZERS) == {"adamw", "adamw_bf16", "sgd", "sgd_momentum"}
