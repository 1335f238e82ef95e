"""Keys, values and states kept of a sequence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.models.count import cache_elements
from roofline.models.description import Attention, Layer, Model
from roofline.models.memory_cache import kv_bytes, state_bytes
from roofline.plan.plan import Plan
from roofline.spec.model import load_model

CONFIGS = Path(__file__).parent.parent / "data" / "hf_configs"
GROUPED = Layer(mixer=Attention(heads=32, kv_heads=8, head_dim=128, v_head_dim=128), feed=None)
WINDOWED = Layer(mixer=Attention(heads=32, kv_heads=8, head_dim=128, v_head_dim=128, window=1024), feed=None)
SIZES = st.integers(1, 200_000)


def model(name: str) -> Model:
    return load_model(str(CONFIGS / f"{name}.json"))[0]


def kept(found: Model, plan: Plan, tokens: int, page: int = 0) -> float:
    return sum(float(kv_bytes(layer, plan, tokens, "bf16", page)) for layer in found.layers)


def test_a_token_of_8_heads_of_128_is_4096_bytes_a_layer() -> None:
    assert kv_bytes(GROUPED, Plan(), 1, "bf16") == 2 * 8 * 128 * 2 == 4096
    assert kv_bytes(GROUPED, Plan(), 1, "fp8") == 2048


def test_heads_of_keys_are_split_as_far_as_there_are_any() -> None:
    amounts = {tp: kv_bytes(GROUPED, Plan(tp=tp), 100, "bf16") for tp in (1, 4, 8, 16, 32)}
    assert amounts == {1: 409600, 4: 102400, 8: 51200, 16: 51200, 32: 51200}


def test_a_latent_is_held_by_every_rank_of_tp_and_split_over_cp() -> None:
    found = model("deepseek-v3")
    assert kept(found, Plan(), 1) == kept(found, Plan(tp=8), 1) == 70_272
    assert kept(found, Plan(cp=4), 4096) == 70_272 * 1024


def test_a_window_bounds_what_stays() -> None:
    assert kv_bytes(WINDOWED, Plan(), 500, "bf16") == kv_bytes(GROUPED, Plan(), 500, "bf16")
    assert kv_bytes(WINDOWED, Plan(), 50_000, "bf16") == kv_bytes(GROUPED, Plan(), 1024, "bf16")


def test_pages_are_kept_whole() -> None:
    assert kv_bytes(GROUPED, Plan(), 17, "bf16", 16) == kv_bytes(GROUPED, Plan(), 32, "bf16")
    assert kv_bytes(GROUPED, Plan(), 32, "bf16", 16) == kv_bytes(GROUPED, Plan(), 32, "bf16")


@given(SIZES, st.sampled_from([1, 16, 64, 256]))
def test_pages_add_less_than_one_page(tokens: int, page: int) -> None:
    plain, paged = kv_bytes(GROUPED, Plan(), tokens, "bf16"), kv_bytes(GROUPED, Plan(), tokens, "bf16", page)
    assert 0 <= paged - plain < page * 4096


@given(st.sampled_from(["llama-3-70b", "gpt-oss-20b", "deepseek-v3", "qwen3-next-80b-a3b"]), SIZES)
def test_all_layers_together_are_the_models_own_count(name: str, tokens: int) -> None:
    """Counted apart: numbers a token and window of each layer, from `roofline model show`."""
    found = model(name)
    counted = sum(2 * n * (min(tokens, window) if window else tokens) for n, window in cache_elements(found))
    assert kept(found, Plan(), tokens) == counted


def test_states_do_not_grow_and_are_split_by_heads() -> None:
    found = model("qwen3-next-80b-a3b")
    whole = sum(float(state_bytes(found, layer, Plan())) for layer in found.layers)
    # 36 gated delta layers: 32 states of 128 x 128 in fp32, and three inputs of a convolution of 2 x 2048 + 4096 channels in bf16.
    assert whole == 36 * (4 * 32 * 128 * 128 + 2 * 8192 * 3)
    assert sum(float(state_bytes(found, layer, Plan(tp=4))) for layer in found.layers) == pytest.approx(whole / 4)
