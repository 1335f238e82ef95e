"""Whole layers under ZeRO: which are there at once, by hand for Llama 3 8B, and when nothing is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from roofline.models.description import Model
from roofline.models.memory import Memory, memory
from roofline.plan.job import Job
from roofline.plan.plan import Plan
from roofline.spec.model import load_model
from roofline.spec.vectorised import LANGUAGE

CONFIGS = Path(__file__).parent.parent / "data" / "hf_configs"
LAYER = 4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336 + 2 * 4096
TABLE = 128256 * 4096
HEAD = TABLE + 4096
"""Parameters of a layer of Llama 3 8B, of its embedding, and of its head with the final norm."""


@cache
def llama() -> Model:
    return load_model(str(CONFIGS / "llama-3-8b.json"))[0]


def train(plan: Plan, model: Model | None = None, *, seq: int = 4096, microbatches: int = 64, **job: Any) -> Memory:
    asked = Job(phase="train", batch=plan.dp * plan.microbatch * microbatches, seq=seq, **job)
    return memory(model or llama(), None, asked, plan, LANGUAGE)


def test_at_the_loss_the_weights_of_the_head_are_whole_and_nothing_else() -> None:
    """bf16, 2 B a weight; 12 B a logit. Its gradient comes with its backward pass, and the layer before it is asked for only then."""
    found = train(Plan(dp=8, zero=3))
    assert found.logits == 12 * 4096 * 128256
    assert found.gathered == 2 * HEAD


def test_few_tokens_make_the_backward_pass_of_the_head_the_largest_moment() -> None:
    """64 tokens of one layer: 2 B a logit are left of the logits when the gradient of the head is made, and the layer is gathered ahead."""
    one = replace(llama(), layers=llama().layers[:1])
    found = train(Plan(dp=8, zero=3), one, seq=64)
    assert found.logits == 2 * 64 * 128256
    assert found.gathered == 2 * HEAD + 2 * HEAD + 2 * LAYER
    assert train(Plan(dp=8, zero=2), one, seq=64).gathered == 2 * HEAD


def test_between_the_ends_two_layers_and_one_gradient_are_whole() -> None:
    """The first of four stages has neither head nor logits; eight replicas."""
    found = train(Plan(dp=8, pp=4, zero=3))
    assert (found.stage, found.logits) == (0, 0)
    assert found.gathered == 2 * LAYER + 2 * LAYER + 2 * LAYER
    assert train(Plan(dp=8, pp=4, zero=3, tp=2)).gathered == pytest.approx(6 * LAYER / 2, rel=1e-4)
    assert train(Plan(dp=8, pp=4, zero=3), gradient_dtype="fp32").gathered == (2 + 2 + 4) * LAYER
    assert train(Plan(dp=8, pp=4, zero=3), weight_dtype="fp32").gathered == 6 * LAYER  # as they are computed with


def test_a_stage_with_one_layer_gathers_no_other() -> None:
    found = train(Plan(dp=8, pp=32, zero=3), replace(llama(), vocab=1280))
    assert (found.stage, found.gathered) == (0, 2 * LAYER + 2 * LAYER)


def test_the_embedding_has_a_moment_of_its_own() -> None:
    """64 tokens of an encoder with four layers: what the layers keep is less than the table and its gradient are more than two layers. Then
    the layers have given it back, and the ids of the tokens are left."""
    model = replace(llama(), layers=llama().layers[:4], head=False)
    found = train(Plan(dp=8, zero=3), model, seq=64)
    assert found.gathered == 2 * TABLE + 2 * TABLE
    assert found.activations == 64 * 8


def test_stage_2_has_whole_gradients_and_never_gathers_weights() -> None:
    assert train(Plan(dp=8, pp=4, zero=2)).gathered == 2 * LAYER
    assert train(Plan(dp=8, zero=2)).gathered == 0  # at the loss, before the first of them
    assert train(Plan(dp=8, zero=1)).gathered == 0


def test_a_rank_that_shares_with_none_has_nothing_to_gather() -> None:
    assert train(Plan(zero=3)).gathered == 0
    assert train(Plan(cp=2, pp=4, zero=3)).gathered == 6 * LAYER


def test_experts_that_no_other_rank_holds_are_not_gathered() -> None:
    """Mixtral on eight ranks with an expert each: what is whole of a layer is attention, router and norms."""
    model = load_model(str(CONFIGS / "mixtral-8x7b-v0.1.json"))[0]
    dense, expert = 4096 * 6144 + 4096 * 4096 + 8 * 4096 + 2 * 4096, 3 * 4096 * 14336
    assert train(Plan(dp=8, ep=8, pp=4, zero=3), model).gathered == 6 * dense
    assert train(Plan(dp=8, ep=4, pp=4, zero=3), model).gathered == 6 * (dense + 2 * expert)


def test_a_tied_head_is_gathered_with_the_table() -> None:
    tied = replace(llama(), tied=True)
    assert train(Plan(dp=8, zero=3), tied).gathered == 2 * HEAD
    assert train(Plan(dp=8, zero=3), replace(tied, layers=tied.layers[:1]), seq=64).gathered == 4 * HEAD + 2 * LAYER


def test_frozen_weights_are_gathered_and_have_no_gradients() -> None:
    adapters = 16 * ((4096 + 6144) + (4096 + 4096) + (4096 + 2 * 14336) + (14336 + 4096))
    found = train(Plan(dp=8, pp=4, zero=3), trainable="lora", lora_rank=16)
    assert found.gathered == 4 * (LAYER + adapters) + 2 * adapters


def test_shares_of_states_stay_those_of_zero() -> None:
    """16 bytes a parameter over the ranks (arXiv 1910.02054), whatever is gathered beside them."""
    found = train(Plan(dp=8, zero=3))
    assert found.weights + found.gradients + found.optimizer == 16 * 8_030_261_248 / 8
