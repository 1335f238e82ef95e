"""What a rank keeps: activations against closed forms of the literature, stages, schedules, serving, and arrays of plans."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError, UsageError
from roofline.models.description import Attention, Layer, Mlp, Model
from roofline.models.expansion import Expansion, plan_names
from roofline.models.memory import PARTS, Memory, memory, needed_bytes
from roofline.models.memory_saved import Kept, Saved, saved_of
from roofline.models.memory_weights import stages_of
from roofline.models.steps import layers_of
from roofline.models.tower_params import own_length
from roofline.plan.job import Job
from roofline.plan.plan import Plan
from roofline.spec.model import load_model
from roofline.spec.vectorised import LANGUAGE, operator_of

CONFIGS = Path(__file__).parent.parent / "data" / "hf_configs"
GPT_KEPT = Kept(attention="naive", dropout=True)
GIB = 2**30
STATISTICS = 16
"""Bytes a token and layer of the mean and the deviation, fp32, of two layer norms, which the closed forms leave out."""


def gpt(layers: int, hidden: int, heads: int, vocab: int = 51200) -> Model:
    """A GPT with gelu, four times as wide inside, biases and layer norms."""
    size = hidden // heads
    mixer = Attention(heads=heads, kv_heads=heads, head_dim=size, v_head_dim=size, qkv_bias=True, out_bias=True)
    layer = Layer(mixer=mixer, feed=Mlp(width=4 * hidden, gated=False, bias=True, activation="gelu"))
    return Model(
        name="gpt", model_type="gpt2", hidden=hidden, vocab=vocab, layers=(layer,) * layers, tied=True, norm="layernorm", norm_bias=True,
        positions=2048, context=2048,
    )  # fmt: skip


@cache
def published(name: str) -> Model:
    return load_model(str(CONFIGS / f"{name}.json"))[0]


def layer_saved(model: Model, seq: int, batch: int, plan: Plan, kept: Kept = GPT_KEPT) -> Saved:
    """What one layer keeps of a microbatch."""
    names = {**plan_names(plan), "batch": batch, "seq": seq, "tokens": batch * seq / plan.cp, "context": 0}
    steps = layers_of(Expansion(model=model, phase="train", plan=plan, attention=kept.attention))[0].steps
    return saved_of(steps, lambda step, given: operator_of(step, given, model.dtype), names, plan, kept)


def train(model: Model, plan: Plan, *, seq: int = 2048, microbatches: int = 64, kept: Kept = GPT_KEPT, **job: Any) -> Memory:
    asked = Job(phase="train", batch=plan.dp * plan.microbatch * microbatches, seq=seq, **job)
    return memory(model, None, asked, plan, LANGUAGE, kept=kept)


def serve(model: Model, plan: Plan, **job: Any) -> Memory:
    return memory(model, None, Job(**job), plan, LANGUAGE)


# --------------------------------------------------------------------------- a layer, by hand and by the closed forms
def test_a_layer_of_llama_3_8b_worked_by_hand() -> None:
    """Flash, SwiGLU, rms norms, no dropout, a token in bf16.

    Both norms 2 h each and 4 B of statistic each; the input of qkv 2 h; q 2 h, k and v 2 x 1024 each, 4 B for each of 32 heads; the
    input of o 2 h; the input of gate and up 2 h; gate and up 2 x 2 F; the input of down 2 F.
    """
    h, f = 4096, 14336
    by_hand = 2 * (2 * h + 4) + 2 * h + (2 * h + 2 * 2 * 1024 + 4 * 32) + 2 * h + 2 * h + 2 * 2 * f + 2 * f
    assert by_hand == 139_400
    assert layer_saved(published("llama-3-8b"), 4096, 1, Plan(), Kept()) == Saved(4096 * by_hand, 0)


SHAPES = st.tuples(st.sampled_from([16, 32, 64]), st.sampled_from([64, 128]), st.sampled_from([256, 1024, 2048]), st.integers(1, 4))
DEGREES = st.sampled_from([1, 2, 8])


@given(SHAPES, DEGREES)
def test_a_layer_of_gpt_is_korthikantis_closed_form(shape: tuple[int, int, int, int], t: int) -> None:
    """Table 2 of arXiv 2205.05198: tensor parallel, with sequence parallelism, and with selective recomputation."""
    a, size, s, b = shape
    h = a * size
    unit, model = s * b * h, gpt(1, h, a)
    square = 5 * a * s / (h * t)
    plain, spread = Plan(tp=t), Plan(tp=t, sequence_parallel=True)
    assert layer_saved(model, s, b, plain).all == pytest.approx(unit * (10 + 24 / t + square) + STATISTICS * s * b)
    assert layer_saved(model, s, b, spread).all == pytest.approx(unit * (34 / t + square) + STATISTICS * s * b / t)
    assert layer_saved(model, s, b, spread).kept("selective") == pytest.approx(unit * 34 / t + STATISTICS * s * b / t)


@given(SHAPES, DEGREES)
def test_flash_attention_keeps_what_selective_recomputation_keeps_and_a_number_a_row(shape: tuple[int, int, int, int], t: int) -> None:
    a, size, s, b = shape
    model, plan = gpt(1, a * size, a), Plan(tp=t, sequence_parallel=True)
    selective, flash = layer_saved(model, s, b, plan).kept("selective"), layer_saved(model, s, b, plan, Kept(dropout=True)).all
    assert flash - selective == pytest.approx(4 * a * s * b / t)


def test_without_dropout_two_masks_and_three_of_five_parts_of_the_scores_are_gone() -> None:
    with_, without = layer_saved(gpt(1, 2048, 16), 1024, 2, Plan()), layer_saved(gpt(1, 2048, 16), 1024, 2, Plan(), Kept(attention="naive"))
    assert with_.scores - without.scores == 3 * 16 * 1024**2 * 2
    assert (with_.all - with_.scores) - (without.all - without.scores) == 2 * 1024 * 2 * 2048


def test_a_relu_keeps_its_result_alone_which_the_next_product_keeps_too() -> None:
    """Gelu keeps what it was given as well: 4 h numbers a token more."""
    gelu = gpt(1, 2048, 16)
    layer = gelu.layers[0]
    assert isinstance(layer.feed, Mlp)
    relu = replace(gelu, layers=(replace(layer, feed=replace(layer.feed, activation="relu")),))
    assert layer_saved(gelu, 1024, 1, Plan()).all - layer_saved(relu, 1024, 1, Plan()).all == 1024 * 4 * 2048 * 2


def test_parallel_parts_behind_one_norm_have_one_input() -> None:
    """A second norm keeps its input, 8 B of statistics, and an input of its own for the feed-forward."""
    model = gpt(1, 2048, 16)
    one, two = (replace(model, layers=(replace(model.layers[0], parallel=True, norms=n),)) for n in (1, 2))
    assert layer_saved(two, 1024, 1, Plan()).all - layer_saved(one, 1024, 1, Plan()).all == 1024 * (2 * 2048 + 8 + 2 * 2048)


@pytest.mark.parametrize("ids", [("q_a_proj", "kv_a_proj"), ("router",)])
def test_inputs_that_only_a_share_of_the_tokens_has_are_not_split_again(ids: tuple[str, ...]) -> None:
    """The latents of DeepSeek and its router are computed of the tokens of a rank under sequence parallelism."""
    model, plan = published("deepseek-v3"), Plan(tp=8, etp=8, sequence_parallel=True)
    names = {**plan_names(plan), "batch": 1, "seq": 4096, "tokens": 4096, "context": 0}
    steps = layers_of(Expansion(model=model, phase="train", plan=plan))[-1].steps
    chosen = [s for s in steps if str(s["id"]).rsplit("/", 1)[-1] in ids]
    assert len(chosen) == len(ids)
    assert saved_of(chosen, operator_of, names, plan, Kept()).all == 2 * 4096 * 7168 / 8


# --------------------------------------------------------------------------- published models
PAPER = {"22B": (48, 6144, 64, 4, 1), "175B": (96, 12288, 96, 1, 8), "530B": (105, 20480, 128, 1, 35), "1T": (128, 25600, 160, 1, 64)}
TOTALS = {"22B": (317, 59, 40, 9.6, 4.5), "175B": (257, 52, 32, 9.6, 4.5), "530B": (402, 86, 50, 17, 8.2), "1T": (613, 131, 77, 27, 12.5)}
WAYS = (
    {"tp": 1},
    {"tp": 8},
    {"tp": 8, "sequence_parallel": True},
    {"tp": 8, "sequence_parallel": True, "recompute": "selective"},
    {"tp": 8, "recompute": "full"},
)


@pytest.mark.parametrize("name", PAPER)
@pytest.mark.parametrize("way", range(5))
def test_activations_of_the_papers_models_in_gib(name: str, way: int) -> None:
    """The layers' part on the first stage, which holds p microbatches: as much as all layers keep of one.

    What is behind the layers is there at the loss, and gone where the layer that is computed again needs more.
    """
    layers, h, heads, b, p = PAPER[name]
    plan = Plan(pp=p, microbatch=b, **WAYS[way])
    found = train(gpt(layers, h, heads), plan)
    tokens = b * 2048
    dropped = tokens * h / (8 if plan.sequence_parallel else 1)
    ends = p * (dropped + 8 * tokens) + (2 * 2 * h + 8) * tokens / (8 if plan.sequence_parallel else 1) * (found.logits > 0)
    positions = p * 8 * tokens
    assert found.in_flight == p
    assert (found.activations - ends - positions) / GIB == pytest.approx(TOTALS[name][way], rel=0.03)


def test_parameters_gradients_and_states_of_the_22b_model_are_its_share_of_16_bytes() -> None:
    model = gpt(48, 6144, 64)
    one, eight = (train(model, Plan(tp=t)) for t in (1, 8))
    count = 48 * (12 * 6144**2 + 13 * 6144) + (51200 + 2048) * 6144 + 2 * 6144
    assert one.weights + one.gradients + one.optimizer == 16 * count
    assert 1 / 8 < eight.weights / one.weights < 1.01 / 8


# --------------------------------------------------------------------------- stages and schedules
LLAMA = "llama-3-70b"


def test_each_stage_of_1f1b_holds_a_microbatch_less_than_the_one_before() -> None:
    """The last one holds one, and the logits; a short pipeline's last stage can be the fullest."""
    found = train(published(LLAMA), Plan(tp=8, pp=8), seq=8192, kept=Kept())
    assert (found.stage, found.in_flight) == (0, 8)
    few = train(published(LLAMA), Plan(tp=8, pp=8), seq=8192, microbatches=2, kept=Kept())
    assert few.in_flight == 2
    assert few.activations == pytest.approx(found.activations / 4)


def test_interleaving_holds_more_by_the_published_factor() -> None:
    """1 + (p - 1) / (p m) with m chunks a stage (arXiv 2205.05198, section 4.2.3)."""
    plain, chunked = (
        train(published(LLAMA), Plan(tp=8, pp=8, schedule=s, virtual=v), kept=Kept()) for s, v in (("1f1b", 1), ("interleaved", 5))
    )
    assert chunked.activations / plain.activations == pytest.approx(1 + 7 / (8 * 5))


def test_interleaved_stages_hold_two_chunks_less_than_the_one_before() -> None:
    """126 layers in 16 chunks of 8, the first and the last of 7: 15 x 11.5 on the first stage against 16 x 10.5 on the next."""
    plan = Plan(tp=8, pp=8, dp=64, zero=1, schedule="interleaved", virtual=2, uneven=True)
    found = train(published("llama-3.1-405b"), plan, seq=8192, kept=Kept())
    assert (found.stage, found.in_flight) == (0, 8 + 7 / 2)
    assert found.logits == 0


def test_layers_of_several_sorts_lie_on_stages_in_their_order() -> None:
    """DeepSeek-V3: 3 dense layers and 58 with experts; of 4 stages of 16 the first holds the dense ones, and the ends three fewer."""
    first, between, last = stages_of(published("deepseek-v3"), Plan(pp=4, uneven=True))
    assert (first.counts, between.counts, last.counts) == ((3, 11), (0, 16), (0, 15))
    assert (first.index, between.index, last.index) == (0, 1, 3)


def test_experts_are_shared_by_the_ranks_that_hold_the_same_ones_only() -> None:
    """Eight replicas, an expert each: ZeRO 3 shards the rest over eight and has nothing left to shard of experts."""
    experts = 32 * 8 * 3 * 4096 * 14336
    found = train(published("mixtral-8x7b-v0.1"), Plan(dp=8, ep=8, zero=3), kept=Kept())
    assert found.weights == 2 * ((46_702_792_704 - experts) / 8 + experts / 8)
    assert train(published("mixtral-8x7b-v0.1"), Plan(dp=8, ep=4, zero=3), kept=Kept()).weights == found.weights
    assert train(published("mixtral-8x7b-v0.1"), Plan(dp=8, ep=8), kept=Kept()).weights == 2 * (46_702_792_704 - experts * 7 / 8)


def test_dualpipe_has_every_parameter_twice_and_one_microbatch_more() -> None:
    """The first device holds the first and the last stage: both tables, and the layers of two stages (arXiv 2412.19437, table 2)."""
    model = published(LLAMA)
    plain, dual = (train(model, Plan(tp=8, pp=8, schedule=s), kept=Kept()) for s in ("1f1b", "dualpipe"))
    table, norm = 128256 * 8192 / 8, 8192
    assert dual.in_flight == plain.in_flight + 1 == 9
    assert dual.weights == 2 * plain.weights + 2 * norm
    assert plain.weights - table * 2 == pytest.approx((dual.weights - 2 * norm - 2 * table * 2) / 2)
    assert dual.logits > 0


def test_what_is_computed_again_and_the_logits_are_not_there_at_once() -> None:
    """One stage: at the loss the logits and what is behind the layers, which are more than a layer computed again; with a vocabulary of a
    hundredth of Llama's it is the layer."""
    model = published("llama-3-8b")
    found = train(model, Plan(recompute="full"), seq=4096, kept=Kept())
    head = 4096 * (2 * 4096 + 4 + 2 * 4096)
    assert found.activations == 32 * 4096 * 4096 * 2 + 8 * 4096 + head
    assert (found.recomputed, found.logits) == (0, pytest.approx(12 * 4096 * 128256, rel=1e-4))
    small = train(replace(model, vocab=1280), Plan(recompute="full"), seq=4096, kept=Kept())
    assert small.activations == found.activations - head
    assert (small.recomputed, small.logits) == (4096 * (139_400 - 2 * 4096), 0)


def test_sequence_parallelism_splits_the_inputs_that_full_recomputation_keeps() -> None:
    whole, split = (train(published("llama-3-8b"), Plan(tp=8, sequence_parallel=s, recompute="full"), kept=Kept()) for s in (False, True))
    tokens = 2048
    outer = [found.activations - 32 * tokens * 4096 * 2 / (8 if found is split else 1) for found in (whole, split)]
    assert outer == [tokens * (8 + 4 * 4096 + 4), tokens * (8 + (4 * 4096 + 4) / 8)]


def test_selective_recomputation_has_the_scores_of_one_layer_again() -> None:
    """5 a s^2 b bytes over tp with dropout; nothing with flash attention, which keeps none."""
    plan = Plan(tp=8, microbatch=4, pp=2, recompute="selective")
    assert train(gpt(48, 6144, 64), plan).recomputed == 5 * 64 * 2048**2 * 4 / 8
    assert train(gpt(48, 6144, 64), plan, kept=Kept(dropout=True)).recomputed == 0


def test_logits_are_those_of_the_loss_and_split_by_the_vocabulary() -> None:
    one, eight = (train(published("llama-3-8b"), Plan(tp=t), seq=4096, kept=Kept()).logits for t in (1, 8))
    assert one >= 2 * 2 * 4096 * 128256
    assert eight == pytest.approx(one / 8, rel=1e-3)


def test_a_ring_keeps_the_keys_of_its_own_tokens_only() -> None:
    whole, ring, gathered = (
        layer_saved(published("llama-3-8b"), 8192, 1, Plan(cp=c, context_kind=k), Kept()).all
        for c, k in ((1, "ring"), (4, "ring"), (4, "all_gather"))
    )
    assert ring == gathered == pytest.approx(whole / 4)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda p: p.stem)
def test_every_model_has_an_answer_or_a_reason(path: Path) -> None:
    try:
        model, how, _ = load_model(str(path))
    except InputError:
        return
    recurrent = any(type(layer.mixer).__name__ in ("DeltaNet", "Mamba2") or getattr(layer.mixer, "indexer", None) for layer in model.layers)
    for phase in ("train", "prefill", "decode"):
        job = Job(phase=phase, batch=2, seq=own_length(model).get("seq", 1024), context=1024)
        if model.model_type == "clip" or (model.kind == "encoder" and phase == "decode") or (recurrent and phase == "train"):
            with pytest.raises(UsageError, match=r"no backward pass|encoder|clip"):
                memory(model, how, job, Plan(tp=2, etp=2), LANGUAGE)
            continue
        found = memory(model, how, job, Plan(tp=2, etp=2), LANGUAGE)
        assert all(getattr(found, part) >= 0 for part in PARTS)
        assert found.weights > 0
        assert (found.gradients > 0) == (phase == "train")


# --------------------------------------------------------------------------- adapters
def test_frozen_weights_have_neither_gradients_nor_states() -> None:
    """Rank 16 beside qkv, o, gate and up, down: r (in + out) each, on 32 layers of Llama 3 8B."""
    found = train(published("llama-3-8b"), Plan(), kept=Kept(), trainable="lora", lora_rank=16)
    h, qkv, f = 4096, 6144, 14336
    adapters = 32 * 16 * ((h + qkv) + (h + h) + (h + 2 * f) + (f + h))
    assert found.gradients == 2 * adapters
    assert found.optimizer == 12 * adapters
    assert found.weights == 2 * (8_030_261_248 + adapters)


# --------------------------------------------------------------------------- serving
def test_a_stage_works_on_one_part_at_a_time_and_keeps_the_cache_of_all() -> None:
    """Sixteen prompts over four stages: operands of one part of four; left open of one, which is the least; without stages of all."""
    model = published(LLAMA)

    def filled(**plan: Any) -> Memory:
        return serve(model, Plan(tp=2, **plan), phase="prefill", batch=16, seq=512)

    one, four, open_, whole = filled(pp=4), filled(pp=4, microbatch=4), filled(pp=4, microbatch=0), filled(microbatch=0)
    assert four.activations == 4 * one.activations == 4 * open_.activations
    assert whole.activations == 16 * one.activations
    assert four.kv_cache == one.kv_cache == whole.kv_cache / 4
    decoded = [serve(model, Plan(pp=pp), phase="decode", batch=64, context=512).activations for pp in (1, 4)]
    assert decoded[0] == 4 * decoded[1]


def test_each_part_of_a_mixed_step_keeps_its_chunk_of_a_prompt() -> None:
    """Four parts of 2 sequences and 128 tokens: keys of 4 x 1024 + 2 x (128 + 64 cached) tokens a replica, half of the layers a stage."""
    model = published(LLAMA)
    found = serve(model, Plan(pp=2, dp=2), phase="mixed", batch=8, context=1024, chunk=512, cached=64)
    assert found.kv_cache == 40 * 4096 * (4 * 1024 + 2 * (128 + 64))
    assert found.activations == serve(model, Plan(), phase="mixed", batch=2, context=1024, chunk=128, cached=64).activations


def test_the_cache_of_case_c01_is_4_gib() -> None:
    mixer = Attention(heads=32, kv_heads=8, head_dim=128, v_head_dim=128)
    layers = (Layer(mixer=mixer, feed=Mlp(width=14336)),) * 32
    model = Model(name="c01", model_type="llama", hidden=4096, vocab=32000, layers=layers)
    assert serve(model, Plan(), phase="decode", batch=4, context=8192).kv_cache == 4_294_967_296
    full = replace(model, layers=(Layer(mixer=replace(mixer, kv_heads=32), feed=Mlp(width=14336)),) * 32)
    assert serve(full, Plan(), phase="decode", batch=4, context=8192).kv_cache == 4 * 4_294_967_296


def test_a_prefill_fills_the_cache_that_decoding_then_reads() -> None:
    model = published(LLAMA)
    filled = serve(model, Plan(tp=8), phase="prefill", batch=4, seq=2048)
    read = serve(model, Plan(tp=8), phase="decode", batch=4, context=2048)
    assert filled.kv_cache == read.kv_cache == 4 * 2048 * 327_680 / 8
    assert filled.weights == read.weights
    assert filled.activations > read.activations


def test_a_prefill_keeps_the_residual_beside_its_largest_step() -> None:
    """SwiGLU of Llama 3 8B reads gate and up and writes their product, 3 x 14336 numbers a token, while the sum of 4096 waits; with
    sequence parallelism a rank has its share of that sum, and of decoding the head with its logits is the largest step."""
    model, tokens = published("llama-3-8b"), 4 * 2048
    found = serve(model, Plan(), phase="prefill", batch=4, seq=2048)
    assert found.activations == 2 * tokens * (3 * 14336 + 4096)
    whole, split = (serve(model, Plan(tp=2, sequence_parallel=s), phase="prefill", batch=4, seq=2048).activations for s in (False, True))
    assert whole - split == 2 * tokens * 4096 / 2
    assert serve(model, Plan(tp=8), phase="prefill", batch=4, seq=2048).activations == 2 * tokens * 4 * 4096  # a norm, which adds to it
    assert serve(model, Plan(), phase="decode", batch=4, context=2048).activations == 2 * 4 * (4096 + 128256)


def test_a_mixed_step_has_the_cache_of_both() -> None:
    model = published("llama-3-8b")
    both = serve(model, Plan(), phase="mixed", batch=8, context=4096, chunk=512)
    assert both.kv_cache == 131_072 * (8 * 4096 + 512)


def test_replicas_and_stages_share_the_cache() -> None:
    model = published(LLAMA)
    one = serve(model, Plan(tp=8), phase="decode", batch=64, context=8192).kv_cache
    assert serve(model, Plan(tp=8, dp=4), phase="decode", batch=64, context=8192).kv_cache == one / 4
    assert serve(model, Plan(tp=8, pp=4), phase="decode", batch=64, context=8192).kv_cache == one / 4


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown phase 'tune'"):
        serve(published("llama-3-8b"), Plan(), phase="tune")


# --------------------------------------------------------------------------- properties
MODELS = st.sampled_from(["llama-3-8b", LLAMA, "mixtral-8x7b-v0.1", "deepseek-v3", "gpt-oss-20b"])


def with_tp(plan: Plan, tp: int, model: Model) -> Plan:
    experts = any(type(layer.feed).__name__ == "Experts" for layer in model.layers)
    return replace(plan, tp=tp, etp=tp if experts else 1)


@settings(deadline=None, max_examples=40)
@given(MODELS, st.sampled_from([1, 2, 4]), st.sampled_from(["none", "selective", "full"]), st.booleans(), st.integers(0, 3))
def test_more_tensor_parallel_never_needs_more(name: str, tp: int, recompute: str, spread: bool, zero: int) -> None:
    """In all, and of each state; what is at work may be of another moment, the backward pass of a layer and not the loss."""
    model = published(name)
    plan = Plan(dp=2, recompute=recompute, sequence_parallel=spread, zero=zero)
    before, after = (train(model, with_tp(plan, t, model), kept=Kept()) for t in (tp, 2 * tp))
    assert all(getattr(after, n) <= getattr(before, n) * (1 + 1e-12) for n in ("weights", "gradients", "optimizer", "needed"))


@settings(deadline=None, max_examples=30)
@given(MODELS, st.sampled_from([1, 2, 8]), st.sampled_from([1, 2, 4]))
def test_sharding_and_recomputation_only_save(name: str, tp: int, dp: int) -> None:
    model = published(name)
    needed = [train(model, with_tp(Plan(dp=dp, zero=z), tp, model), kept=Kept()).needed for z in range(4)]
    assert needed == sorted(needed, reverse=True)
    kept = [train(model, with_tp(Plan(recompute=r), tp, model)).activations for r in ("none", "selective", "full")]
    assert kept[0] > kept[1] > kept[2]


def grid(*columns: tuple[int, ...]) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    return [np.array(column, dtype=np.float64) for column in zip(*product(*columns), strict=True)]


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3"])
@pytest.mark.parametrize(("recompute", "zero"), [("none", 1), ("full", 1), ("none", 3), ("full", 3), ("full", 2)])
def test_arrays_of_plans_and_jobs_give_what_single_ones_give(name: str, recompute: str, zero: int) -> None:
    model = published(name)
    tp, pp, dp, microbatch = grid((1, 8), (1, 2, 4), (1, 16), (1, 2))
    words: dict[str, Any] = {"zero": zero, "uneven": True, "recompute": recompute}

    def shapes(t: Any, p: Any, d: Any, m: Any) -> Plan:
        return Plan(tp=t, etp=t, pp=p, dp=d, microbatch=m, **words)

    job = Job(phase="train", batch=1024, seq=4096)
    many = memory(model, None, job, shapes(tp, pp, dp, microbatch), LANGUAGE)
    sums = needed_bytes(model, None, job, shapes(tp, pp, dp, microbatch), LANGUAGE, Kept(), None)
    assert np.broadcast_to(sums, tp.shape).tolist() == np.broadcast_to(many.needed, tp.shape).tolist()
    for i, row in enumerate(zip(tp, pp, dp, microbatch, strict=True)):
        one = memory(model, None, job, shapes(*(int(v) for v in row)), LANGUAGE)
        for part in (*PARTS, "in_flight", "stage"):
            assert np.broadcast_to(getattr(many, part), tp.shape)[i] == pytest.approx(getattr(one, part), rel=1e-12), part


def test_arrays_of_batches_and_contexts_give_what_single_ones_give() -> None:
    model = published("gpt-oss-20b")
    batch, context = grid((1, 7, 64), (100, 8192))
    many = serve(model, Plan(), phase="decode", batch=batch, context=context)
    each = [serve(model, Plan(), phase="decode", batch=int(b), context=int(c)).needed for b, c in zip(batch, context, strict=True)]
    assert np.broadcast_to(many.needed, batch.shape).tolist() == pytest.approx(each, rel=1e-12)
