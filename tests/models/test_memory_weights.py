"""The share of a model's weights that one rank holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError
from roofline.models.count import all_weights
from roofline.models.description import Attention, Model
from roofline.models.expansion import plan_names
from roofline.models.memory_weights import Sizes, kind_of, parameters, sizes_of, sorts_of, splits_of, stages_of, stored_bytes
from roofline.models.sharded import layer_shares, outer_shares
from roofline.models.weights import Weight
from roofline.numeric import Number
from roofline.plan.plan import Plan
from roofline.spec.model import load_model
from roofline.spec.plan import written
from roofline.spec.vectorised import value_of

CONFIGS = Path(__file__).parent.parent / "data" / "hf_configs"
DECODERS = (
    "llama-3-70b",
    "qwen3-8b",
    "mixtral-8x7b-v0.1",
    "deepseek-v3",
    "gpt-oss-20b",
    "qwen3-next-80b-a3b",
    "gemma-3-27b-it",
    "opt-1.3b",
)


def model(name: str) -> Model:
    return load_model(str(CONFIGS / f"{name}.json"))[0]


def held(found: Model, plan: Plan) -> list[float]:
    """Parameters of a rank on each stage that is looked at."""
    splits = splits_of(found, parameters)
    own = [splits.on(stage, found.tied) for stage in stages_of(found, plan)]
    return [float(o.dense(plan, sizes_of(found)) + o.experts(plan)) for o in own]


@pytest.mark.parametrize("name", DECODERS)
def test_one_device_holds_every_parameter_once(name: str) -> None:
    found = model(name)
    assert held(found, Plan()) == [sum(w.elements for w in all_weights(found))]


def test_llama_70b_on_8_ranks_worked_by_hand() -> None:
    """Products and tables by 8 (8 heads of keys: one each), norms in full: 2 a layer and one at the end, 8192 wide."""
    products = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672) + 2 * 128256 * 8192
    assert held(model("llama-3-70b"), Plan(tp=8)) == [products / 8 + (2 * 80 + 1) * 8192]


def test_beyond_one_head_of_keys_a_rank_keys_are_stored_again() -> None:
    found = model("llama-3-70b")
    keys = 80 * 2 * 8192 * 1024
    norms = (2 * 80 + 1) * 8192
    rest = sum(w.elements for w in all_weights(found)) - keys - norms
    assert held(found, Plan(tp=16)) == [rest / 16 + keys / 8 + norms]


def evaluated(text: str, plan: Plan) -> Number:
    return value_of(text, plan_names(plan))


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda p: p.stem)
@pytest.mark.parametrize("plan", [Plan(), Plan(tp=8, etp=8), Plan(tp=16, ep=8, dp=4), Plan(tp=2, ep=2, etp=2, dp=2)], ids=written)
def test_a_rank_holds_what_the_sharded_steps_say(path: Path, plan: Plan) -> None:
    """Counted apart, as the expressions of the optimizer's steps."""
    try:
        found = load_model(str(path))[0]
    except InputError:
        pytest.skip("refused, or no configuration of a model")
    if any(extra.part == "vision" for extra in found.extras):
        pytest.skip("the steps leave vision towers out")
    splits, sizes = splits_of(found, parameters), sizes_of(found)
    for sort, split in zip(sorts_of(found), splits.layers, strict=True):
        shares = layer_shares(found, sort)
        own = sizes if not isinstance(sort.mixer, Attention) else Sizes(sort.mixer.kv_heads, found.vocab)
        assert split.dense(plan, own) == pytest.approx(evaluated(shares.dense, plan), rel=1e-12)
        assert split.experts(plan) == pytest.approx(evaluated(shares.experts, plan), rel=1e-12)
    outer = outer_shares(found)
    assert splits.before.dense(plan, sizes) == pytest.approx(evaluated(outer["embedding"].dense, plan), rel=1e-12)
    assert splits.behind.dense(plan, sizes) == pytest.approx(evaluated(outer["head"].dense, plan), rel=1e-12)


def test_experts_lie_on_ep_ranks_and_the_rest_does_not() -> None:
    found = model("mixtral-8x7b-v0.1")
    experts = 32 * 8 * 3 * 4096 * 14336
    (whole,), (spread,) = held(found, Plan()), held(found, Plan(ep=8, dp=8))
    assert whole - spread == experts * 7 / 8
    assert held(found, Plan(ep=4, etp=2, dp=8)) == [spread]


def test_the_first_stage_has_the_embedding_and_the_last_the_head() -> None:
    first, middle, last = held(model("llama-3-70b"), Plan(pp=8))
    table = 128256 * 8192
    assert first - middle == table
    assert last - middle == table + 8192


def test_a_tied_head_on_another_stage_is_a_copy() -> None:
    found = model("gemma-3-27b-it")
    assert found.tied
    first, _, last = (splits_of(found, parameters).on(s, True) for s in stages_of(found, Plan(pp=2)))
    assert first.row == last.row == found.hidden


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("pp", [2, 4, 7])
def test_no_layer_is_lost_between_stages(name: str, pp: int) -> None:
    found = model(name)
    stages = stages_of(found, Plan(pp=pp))
    counts = [sum(s.counts) for s in stages]
    assert counts[0] + (pp - 2) * counts[1] + counts[2] == len(found.layers)


BLIND = [name for name in DECODERS if model(name).eyes is None]
"""More ranks than a vision tower has heads keep it whole."""


@given(st.sampled_from(BLIND), st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([1, 2, 4]))
def test_more_tensor_parallel_never_needs_more_weights(name: str, tp: int, pp: int) -> None:
    before, after = held(model(name), Plan(tp=tp, pp=pp)), held(model(name), Plan(tp=2 * tp, pp=pp))
    assert all(a <= b for a, b in zip(after, before, strict=True))
    assert after[0] * 2 >= before[0]


@pytest.mark.parametrize("name", ["llama-3-70b", "deepseek-v3"])
def test_arrays_of_plans_give_what_single_plans_give(name: str) -> None:
    found = model(name)
    grid = [(tp, pp) for tp in (1, 2, 8, 16) for pp in (1, 2, 4, 5)]
    tp, pp = (np.array(column, dtype=np.float64) for column in zip(*grid, strict=True))
    plan = Plan(tp=tp, pp=pp)
    splits = splits_of(found, parameters)
    own = [splits.on(stage, found.tied) for stage in stages_of(found, plan)]
    most = np.max([np.broadcast_to(o.dense(plan, sizes_of(found)) + o.experts(plan), tp.shape) for o in own], axis=0)
    assert most.tolist() == pytest.approx([max(held(found, Plan(tp=t, pp=p))) for t, p in grid], rel=1e-15)


def test_bytes_are_those_of_the_stored_format_or_of_the_one_asked_for() -> None:
    found, how, _ = load_model(str(CONFIGS / "qwen3-32b-fp8.json"))
    matrix, norm = Weight("layers.0.mlp.up_proj", "mlp", 5120, 25600, linear=True), Weight("norm_0", "norms", 1, 5120)
    as_stored, asked = stored_bytes(found, how, None), stored_bytes(found, how, "int4")
    assert as_stored(matrix) == 5120 * 25600 + 4 * 40 * 200
    assert as_stored(norm) == 2 * 5120
    assert asked(matrix) == 5120 * 25600 / 2
    assert asked(norm) == 2 * 5120


def test_what_is_behind_a_sum_or_in_front_of_a_split_is_held_by_all() -> None:
    kinds = {path: kind_of(Weight(f"layers.3.{path}", "", 2, 2)) for path in (
        "self_attn.q_proj", "self_attn.q_proj.bias", "self_attn.k_proj", "self_attn.o_proj", "self_attn.o_proj.bias", "mlp.router",
        "mlp.experts.0.up_proj", "mlp.shared_experts.up_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj", "norm_0",
    )}  # fmt: skip
    assert kinds == {
        "self_attn.q_proj": "tensor", "self_attn.q_proj.bias": "tensor", "self_attn.k_proj": "keys", "self_attn.o_proj": "tensor",
        "self_attn.o_proj.bias": "whole", "mlp.router": "whole", "mlp.experts.0.up_proj": "expert", "mlp.shared_experts.up_proj": "tensor",
        "self_attn.kv_a_proj_with_mqa": "whole", "self_attn.kv_b_proj": "tensor", "norm_0": "whole",
    }  # fmt: skip
