"""A model spread over devices: shares add up to the whole, and collectives carry what the closed forms of the literature say.

Independent of the expansion: FLOP of the unsplit model, weights by checkpoint names, and formulas of Megatron, ZeRO and ring attention.
"""

from __future__ import annotations

import re
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.decide.costs import RateCoster
from roofline.decide.evaluate import Evaluator, Subject
from roofline.models.count import summary
from roofline.models.expansion import Expansion, plan_names
from roofline.models.memory import memory
from roofline.models.sharded import layer_shares, outer_shares
from roofline.models.training import COLLECTIVES
from roofline.models.whole import layers_of, outer_of, steps_of
from roofline.models.write import workload_text
from roofline.plan.job import Job
from roofline.plan.plan import Plan
from roofline.spec.cluster import load_cluster
from roofline.spec.model import load_model
from roofline.spec.planned import Carrier, planned_text
from roofline.spec.vectorised import LANGUAGE, operator_of, ops_of, repeat_of, value_of
from tests.models.conftest import CONFIGS

DENSE, MIXTURE, LATENT = "llama-3-70b", "mixtral-8x7b", "deepseek-v3"
HIDDEN = {DENSE: 8192, MIXTURE: 4096}
KINDS = ("ring", "all_gather", "ulysses")
INFERENCE = ("prefill", "decode", "mixed")
FILES = [
    str(CONFIGS / f"{n}.json") for n in ("qwen3-next-80b-a3b", "nemotron-3-nano-30b-a3b", "llama-4-scout-17b-16e-instruct", "bert-large")
]
MODELS = [DENSE, MIXTURE, LATENT, "gpt-oss-20b", "gpt-22b", *FILES]


def expansion(name: str, phase: str, plan: Plan | None, **options: Any) -> Expansion:
    """A model in a phase under a plan."""
    model, how, _ = load_model(name)
    return Expansion(model=model, phase=phase, how=how, plan=plan, **options)


def names(plan: Plan, phase: str = "train", **sizes: Any) -> dict[str, Any]:
    """What its expressions use: one microbatch of 2 sequences of 8192 tokens, or 64 sequences of 4096 keys."""
    found = {**plan_names(plan), "batch": 2, "seq": 8192, **sizes}
    if phase == "decode":
        return {**found, "batch": 64, "context": 4096, "tokens": 64, **sizes}
    return {**found, "tokens": found["batch"] * found["seq"] / plan.cp}


def tensor_flop(exp: Expansion, known: dict[str, Any], *ops: str) -> float:
    """Matrix FLOP of the steps of these operators."""
    found = 0.0
    for step in steps_of(exp):
        if step["op"] in ops and repeat_of(step, known) > 0 and step.get("why") != "recompute":
            found += repeat_of(step, known) * sum(op.counts().tensor for op in ops_of(step, known, exp.model.dtype))
    return found


def sent(exp: Expansion, known: dict[str, Any], axis: str, *, layer: bool = True, why: tuple[str | None, ...] = (None,)) -> float:
    """Bytes that a rank sends along an axis in one layer (or outside the layers), forward and backward."""
    steps = layers_of(exp)[0].steps if layer else outer_of(exp)
    chosen = [s for s in steps if s.get("axis") == axis and s.get("why") in why]
    return sum(float(repeat_of(s, known) * op.link_bytes()[axis]) for s in chosen for op in ops_of(s, known))


# --------------------------------------------------------------------------- a plan of one device
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("phase", INFERENCE)
def test_a_plan_of_one_device_is_no_plan(name, phase):
    """The same file, whatever else the plan says; products of latents stand in another order."""
    try:
        plain = workload_text(expansion(name, phase, None), {})
    except Exception as refused:
        with pytest.raises(type(refused)):
            planned_text(expansion(name, phase, Plan()), {}, Carrier())
        return
    for kind in KINDS:
        for spread in (False, True):
            text = planned_text(expansion(name, phase, Plan(context_kind=kind, sequence_parallel=spread)), {}, Carrier())
            assert sorted(lines(text)) == sorted(lines(plain))


def lines(text: str) -> list[str]:
    """A file without its comments, two factors in a row multiplied and those of 1 left out."""
    plain = [line.replace(" * 1,", ",").replace("2 * 1 *", "2 *") for line in text.splitlines() if not line.startswith("#")]
    return [re.sub(r"\* (\d+) \* (\d+)\b", lambda m: f"* {int(m[1]) * int(m[2])}", line) for line in plain]


@pytest.mark.parametrize("name", [DENSE, MIXTURE, LATENT])
def test_training_on_one_device_has_the_same_products(name):
    """Training updates parameters part by part under a plan, so that only FLOP are compared."""
    known = names(Plan())
    products = ("gemm", "grouped_gemm", "attention")
    assert tensor_flop(expansion(name, "train", Plan()), known, *products) == tensor_flop(expansion(name, "train", None), known, *products)


# --------------------------------------------------------------------------- shares add up
@settings(deadline=None, max_examples=40)
@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    cp=st.sampled_from([1, 2, 4, 8]),
    kind=st.sampled_from(KINDS),
    spread=st.booleans(),
    phase=st.sampled_from(["train", "prefill"]),
)
def test_products_of_all_ranks_are_those_of_the_model(tp, cp, kind, spread, phase):
    """FLOP of one rank times ranks: exactly the unsplit products and causal attention, for every way to spread a sequence."""
    plan = Plan(tp=tp, cp=cp, context_kind=kind, sequence_parallel=spread)
    whole = tensor_flop(expansion(DENSE, phase, None), names(Plan()), "gemm", "attention")
    share = tensor_flop(expansion(DENSE, phase, plan), names(plan), "gemm", "attention")
    head = 0.0
    if phase == "prefill":  # the last token of a sequence lies on one rank of context parallelism
        head = 2 * 2 * 128256 * 8192 / tp
    assert (share - head) * tp * cp + head * tp == pytest.approx(whole, rel=1e-12)


@settings(deadline=None, max_examples=40)
@given(
    degrees=st.sampled_from([(8, 1, 8), (8, 8, 1), (4, 2, 2), (2, 8, 1), (1, 8, 1), (1, 1, 1), (2, 4, 1), (8, 2, 4)]),
    spread=st.booleans(),
)
def test_experts_of_all_ranks_do_the_work_of_all_tokens(degrees, spread):
    """Whatever shares experts: a rank's FLOP times tp are the model's, since a device of tp has 1 / tp of the tokens."""
    tp, ep, etp = degrees
    plan = Plan(tp=tp, ep=ep, etp=etp, dp=8, sequence_parallel=spread)
    whole = tensor_flop(expansion(MIXTURE, "train", None), names(Plan()), "grouped_gemm")
    assert tensor_flop(expansion(MIXTURE, "train", plan), names(plan), "grouped_gemm") * tp == pytest.approx(whole, rel=1e-12)


def test_the_fullest_rank_of_experts_has_more():
    """An imbalance of 1.5 is 1.5 times the rows."""
    even, skewed = (Plan(ep=8, dp=8, imbalance=i) for i in (1.0, 1.5))
    assert tensor_flop(expansion(MIXTURE, "train", skewed), names(skewed), "grouped_gemm") == 1.5 * tensor_flop(
        expansion(MIXTURE, "train", even), names(even), "grouped_gemm"
    )


def test_the_fullest_rank_of_experts_takes_in_more_by_hand():
    """DeepSeek-V3, 64 tokens to 8 of 256 experts, 7168 wide in bf16: 8 ranks hold 32 experts each, so that a token goes to
    8 (1 - C(224, 8) / C(256, 8)) = 5.29 of them, 7/8 of it to others; 1.25 times that to the fullest, which sends as much back. Two ranks
    that share each expert gather and scatter as many rows of their 128 tokens. No rank takes in more than each token once: 8 / 5.29."""
    exp = expansion(LATENT, "decode", Plan(ep=8, dp=64, etp=2, imbalance=1.25))
    found = {}
    for load in (1.0, 1.25, 2.0):
        known = names(Plan(ep=8, dp=64, etp=2, imbalance=load), "decode")
        sparse = next(s for s in layers_of(exp) if "moe" in s.name)
        found[load] = {s["id"]: operator_of(s, known).sent_bytes() for s in sparse.steps if s.get("axis") in ("ep", "etp")}
    rows = 8 * (1 - comb(224, 8) / comb(256, 8))
    assert rows == pytest.approx(5.2947, abs=1e-4)
    one_way, gathered = 64 * rows * 7168 * 2 * 7 / 8, 2 * 64 * rows * 7168 * 2 / 2
    each = {"dispatch": one_way, "experts_gather": gathered, "experts_scatter": gathered, "combine": one_way}
    assert found[1.0] == pytest.approx(each)
    assert found[1.25] == pytest.approx({name: 1.25 * size for name, size in each.items()})
    assert found[2.0] == pytest.approx({name: 8 / rows * size for name, size in each.items()})


def test_of_few_ranks_none_has_more_than_all():
    """A single rank of experts has all tokens, whatever is said of the fullest of many; two of them at most twice the mean."""
    for ep, load in ((1, 1.0), (2, 2.0), (8, 3.0)):
        assert plan_names(Plan(ep=ep, dp=8, imbalance=3.0))["imbalance"] == load
    alone, even = (expansion(MIXTURE, "train", Plan(dp=8, imbalance=i)) for i in (3.0, 1.0))
    assert tensor_flop(alone, names(Plan(dp=8, imbalance=3.0)), "grouped_gemm") == tensor_flop(even, names(Plan(dp=8)), "grouped_gemm")


def fullest_over_mean(experts: int, active: int, ep: int) -> float:
    """Every token to the same experts, as many of them as there can be on the first rank: what that rank takes in over the mean."""
    here = [sum(1 for e in range(active) if e // (experts // ep) == rank) for rank in range(ep)]
    return max(here) / (sum(here) / ep)


@pytest.mark.parametrize(("name", "experts", "active"), [(LATENT, 256, 8), (MIXTURE, 8, 2), (FILES[2], 16, 1), ("gpt-oss-20b", 32, 4)])
@pytest.mark.parametrize("ep", [1, 2, 4, 8])
def test_the_fullest_rank_has_no_more_than_different_experts_of_each_token(name, experts, active, ep):
    """DeepSeek-V3 on 64 ranks: four experts on each, so that a token leaves half of its eight copies there, 32 times the mean."""
    model = load_model(name)[0]
    limit = plan_names(Plan(ep=ep, dp=8, imbalance=1000.0), model)["imbalance"]
    assert limit == fullest_over_mean(experts, active, ep)
    assert plan_names(Plan(ep=64, dp=64, imbalance=1000.0), load_model(LATENT)[0])["imbalance"] == fullest_over_mean(256, 8, 64) == 32
    several = plan_names(Plan(ep=np.array([1.0, 8.0, 64.0]), dp=64, imbalance=1.5), model)["imbalance"]
    assert several.tolist() == [1, 1.5, 1.5]


def test_beyond_what_the_fullest_rank_can_have_nothing_changes():
    """Mixtral's tokens go to two of eight experts: of eight ranks one has at most four times the mean, in a file, a plan and its memory."""
    job = Job(phase="prefill", batch=8, seq=1024)
    model, how, _ = load_model(MIXTURE)
    cluster = load_cluster("dgx-h100")
    for stated, same in ((8.0, True), (3.0, False)):
        plans = [Plan(ep=8, dp=8, imbalance=i, microbatch=0) for i in (4.0, stated)]
        texts = [planned_text(Expansion(model=model, phase="prefill", how=how, plan=p), {}, Carrier(link="nvlink")) for p in plans]
        bodies = [text[text.index("params") :] for text in texts]
        times = [
            Evaluator(Subject(model=model, how=how, job=job, cluster=cluster), RateCoster(cluster.device)).evaluate(p).step_s for p in plans
        ]
        needed = [memory(model, how, job, p, LANGUAGE).needed for p in plans]
        assert [a == b for a, b in (bodies, times, needed)] == [same] * 3


@pytest.mark.parametrize("name", [*MODELS[:5], *FILES])
@pytest.mark.parametrize("plan", [Plan(), Plan(tp=2), Plan(tp=8, etp=8), Plan(tp=2, dp=4, ep=4, etp=2)])
def test_weights_of_the_steps_are_the_shares_by_checkpoint_name(name, plan):
    """Two counts of the parameters on a rank: operators of the steps, and names of weights."""
    exp = expansion(name, "prefill", plan)
    known = names(plan)
    for sort in layers_of(exp):
        shares = layer_shares(exp.model, exp.model.layers[sort.layers[0]])
        wanted = value_of(shares.dense, known) + value_of(shares.experts, known)
        assert sum(weights(s, known, exp) for s in sort.steps) == pytest.approx(wanted, rel=1e-12)
    outer = {part: value_of(s.dense, known) for part, s in outer_shares(exp.model).items()}
    tied = exp.model.tied and exp.model.head
    found = sum(weights(s, known, exp) for s in outer_of(exp) if "tied_to" not in s)
    assert found == pytest.approx(sum(outer.values()), rel=1e-12), tied


def weights(step: dict[str, Any], known: dict[str, Any], exp: Expansion) -> float:
    """Parameters of a step."""
    return float(sum(t.elements for t in operator_of(step, known, exp.model.dtype).tensors() if t.role == "weight"))


@pytest.mark.parametrize("name", [DENSE, MIXTURE, LATENT])
def test_all_ranks_together_hold_the_model(name):
    """On 8 devices that share experts: what is shared once, what is whole 8 times."""
    model, how, _ = load_model(name)
    one, spread = names(Plan()), names(Plan(tp=8, ep=8))
    total = sum(value_of(s.dense, one) + value_of(s.experts, one) for s in (layer_shares(model, x) for x in model.layers))
    outer = sum(value_of(s.dense, one) for s in outer_shares(model).values())
    assert total + outer == summary(model, how).parameters.total
    experts = sum(value_of(layer_shares(model, x).experts, spread) for x in model.layers)
    assert 8 * experts == sum(value_of(layer_shares(model, x).experts, one) for x in model.layers)


# --------------------------------------------------------------------------- tensor parallelism
@settings(deadline=None, max_examples=30)
@given(tp=st.sampled_from([1, 2, 4, 8, 16]), batch=st.integers(1, 8))
def test_a_layer_sums_four_times_over_ranks(tp, batch):
    """Megatron: 2 all-reduces forward and 2 backward of b h e, 8 b h e (t - 1) / t bytes sent by each rank."""
    plan = Plan(tp=tp)
    tokens = batch * 8192
    expected = 8 * tokens * HIDDEN[DENSE] * 2 * (tp - 1) / tp
    assert sent(expansion(DENSE, "train", plan), names(plan, batch=batch), "tp") == pytest.approx(expected)


@settings(deadline=None, max_examples=30)
@given(tp=st.sampled_from([1, 2, 4, 8, 16]), batch=st.integers(1, 8))
def test_sequence_parallelism_sends_the_same(tp, batch):
    """4 all-gathers and 4 reduce-scatters, and one gather more for each of the two products whose input is not kept."""
    plan = Plan(tp=tp, sequence_parallel=True)
    one = batch * 8192 * HIDDEN[DENSE] * 2 * (tp - 1) / tp
    exp, known = expansion(DENSE, "train", plan), names(plan, batch=batch)
    assert sent(exp, known, "tp") == pytest.approx(8 * one)
    assert sent(exp, known, "tp", why=("regather",)) == pytest.approx(2 * one)


def test_worked_by_hand():
    """One sequence of 8192 tokens of 16 KiB over 8 ranks: 7/8 of 128 MiB is 117,440,512 B, and 8 of these."""
    assert sent(expansion(DENSE, "train", Plan(tp=8)), names(Plan(tp=8), batch=1), "tp") == 8 * 117_440_512


def test_norms_see_a_share_of_the_tokens():
    """With sequence parallelism only."""
    for spread, rows in ((False, 16384), (True, 2048)):
        plan = Plan(tp=8, sequence_parallel=spread)
        norm = next(s for s in steps_of(expansion(DENSE, "train", plan)) if s["id"] == "mlp_norm")
        assert operator_of(norm, names(plan)).rows == rows


def test_key_heads_are_stored_again_beyond_one_a_rank():
    """8 heads on 16 ranks: one each, so that all ranks together hold twice the cache."""
    cache = {}
    for tp in (1, 8, 16):
        plan = Plan(tp=tp)
        step = next(s for s in steps_of(expansion(DENSE, "decode", plan)) if s["id"] == "attention")
        cache[tp] = tp * sum(t.bytes for t in operator_of(step, names(plan, "decode")).tensors() if t.role == "cache")
    assert cache[8] == cache[1]
    assert cache[16] == 2 * cache[1]


def test_layers_in_parallel_are_summed_once():
    """Falcon-like layers: attention and feed-forward add up on the ranks before one all-reduce."""
    model = {
        "model_type": "falcon", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 1000,
        "multi_query": False, "parallel_attn": True, "new_decoder_architecture": False, "bias": False, "alibi": False,
    }  # fmt: skip
    from roofline.models.config import Config, Value
    from roofline.spec.model import model_of

    def quiet(message: str) -> Any:
        raise AssertionError(message)

    config = Config({k: Value(v, quiet, quiet) for k, v in model.items()}, quiet)
    exp = Expansion(model=model_of(config, "m")[0], phase="prefill", plan=Plan(tp=8))
    assert [s["id"] for s in layers_of(exp)[0].steps if s.get("axis") == "tp"] == ["mlp_reduce"]


# --------------------------------------------------------------------------- context parallelism
@settings(deadline=None, max_examples=30)
@given(cp=st.sampled_from([1, 2, 4, 8]), tp=st.sampled_from([1, 8]))
def test_a_ring_passes_keys_and_values_on(cp, tp):
    """Forward (c - 1) / c of all keys and values of a rank's heads; backward these and their gradients: 3 times in all."""
    plan = Plan(tp=tp, cp=cp)
    whole = 2 * 8192 * (8 / tp) * 256 * 2
    assert sent(expansion(DENSE, "train", plan), names(plan), "cp") == pytest.approx(3 * whole * (cp - 1) / cp)


@settings(deadline=None, max_examples=20)
@given(cp=st.sampled_from([1, 2, 4, 8]))
def test_keys_gathered_and_heads_exchanged(cp):
    """Gathering: keys and values once each way. Ulysses: queries, keys, values and outputs once each way."""
    for kind, width in (("all_gather", cp * 2048), ("ulysses", 8192 + 2048 + 8192)):
        plan = Plan(cp=cp, context_kind=kind)
        expected = 2 * (2 * 8192 / cp) * width * 2 * (cp - 1) / cp
        assert sent(expansion(DENSE, "train", plan), names(plan), "cp") == pytest.approx(expected)


def test_keys_of_a_window_come_from_the_ranks_before():
    """gpt-oss: 128 keys in front of each of the two pieces of a rank, 8 heads of 128 numbers, once each way; never more than there are."""
    plan = Plan(cp=4)
    exp = expansion("gpt-oss-20b", "train", plan)
    local = next(s for s in layers_of(exp) if "local" in s.name)
    (step,) = [s for s in local.steps if s.get("axis") == "cp"]
    moved = {n: operator_of(step, names(plan, seq=n)).sent_bytes() for n in (8192, 64)}
    assert moved == {8192: 2 * 256 * 1024 * 2, 64: 2 * 48 * 1024 * 2}
    assert step["pass"] == "forward+backward"


def test_chunks_of_a_sequence_are_shared_whole():
    """Llama 4: 32768 tokens are 4 chunks of 8192, one for each of 4 ranks, and on 8 ranks half of these have none."""
    for cp, chunks in ((1, 4), (2, 2), (4, 1), (8, 1)):
        plan = Plan(cp=cp)
        exp = expansion(FILES[2], "prefill", plan)
        step = next(s for s in steps_of(exp) if s["id"] == "local_moe/attention")
        assert operator_of(step, names(plan, batch=1, seq=32768)).batch == chunks


def test_recurrent_layers_hand_their_state_on():
    """Qwen3-Next: 32 heads of 128 x 128 fp32 numbers a sequence, once, where ranks share a sequence."""
    for cp, moved in ((1, 0), (4, 2 * 4 * 32 * 128 * 128)):
        plan = Plan(cp=cp)
        exp, known = expansion(FILES[0], "prefill", plan), names(plan)
        delta = next(s for s in layers_of(exp) if "delta" in s.name)
        assert [operator_of(s, known).sent_bytes() for s in delta.steps if s.get("axis") == "cp"] == [moved]


def test_outside_the_layers():
    """The look-up is summed, the head's input gradient too; the loss takes three sums of one fp32 number a token (Megatron)."""
    plan = Plan(tp=8)
    exp, known = expansion(DENSE, "train", plan), names(plan)
    one = 2 * 16384 * 7 / 8  # an all-reduce of one byte a token
    hop, hop_of_64 = (ways * tokens * 16384 * 7 / 8 for ways, tokens in ((2, 16384), (1, 64)))  # what stages of tp ranks gather
    assert sent(exp, known, "tp", layer=False) == pytest.approx(one * (2 * 8192 * 2 + 3 * 4) + hop)
    assert sent(expansion(DENSE, "decode", plan), names(plan, "decode"), "tp", layer=False) == pytest.approx(
        2 * 64 * 7 / 8 * 8192 * 2 + 64 * 128_256 * 2 * 7 / 8 + hop_of_64
    )


def test_stages_send_hidden_states_on_and_gradients_back():
    """16 KiB a token each way, of which a rank sends its share; where each has all tokens the next stage gathers those of the others."""
    for spread, gathered in ((False, 2 * 16384 * 16384 * 7 / 8), (True, 0)):
        plan = Plan(tp=8, pp=4, sequence_parallel=spread)
        exp, known = expansion(DENSE, "train", plan), names(plan)
        assert sent(exp, known, "pp", layer=False) == 2 * 2048 * 16384
        hop = [s for s in outer_of(exp) if s["part"] == "boundary" and s["axis"] == "tp"]
        assert sum(op.link_bytes()["tp"] for s in hop for op in ops_of(s, known)) == gathered


def test_cached_keys_are_shared_and_answers_added_up():
    """Decoding on 4 context ranks: a quarter of the keys each. Each rank has parts of the answers of 64 tokens and 8 heads, 128 wide: it
    gathers an fp32 sum of each head and part from the others, and the scaled parts in bf16 are added up, 2 x 3/4 of them sent."""
    plan = Plan(tp=8, cp=4)
    exp, known = expansion(DENSE, "decode", plan), names(Plan(tp=8, cp=4), "decode")
    steps = {s["id"]: s for s in steps_of(exp)}
    assert operator_of(steps["attention"], known).kv_len == 1024
    sums, answers = (operator_of(steps[i], known) for i in ("context_sums", "context_reduce"))
    assert (sums.name, sums.size, sums.sent_bytes()) == ("all_gather", 4 * 64 * 8 * 4, 3 * 64 * 8 * 4)
    assert (answers.name, answers.size, answers.sent_bytes()) == ("all_reduce", 64 * 8 * 128 * 2, 3 * 64 * 8 * 128)
    ids = [s["id"] for s in steps_of(exp)]
    assert ids.index("attention") < ids.index("context_sums") < ids.index("context_reduce") < ids.index("o_proj")


def test_answers_of_a_latent_are_as_wide_as_it():
    """DeepSeek-V3 decodes in the latent: 512 numbers for each of 128 heads, 16 on a rank, before they are brought back to 128."""
    plan = Plan(tp=8, cp=4)
    steps = {s["id"].split("/")[-1]: s for s in steps_of(expansion(LATENT, "decode", plan))}
    assert operator_of(steps["context_reduce"], names(plan, "decode")).size == 64 * 16 * 512 * 2


def test_parts_of_an_answer_merge_into_the_whole():
    """What is exchanged is enough: parts scaled by the share of their sum of exponentials add up to attention over all keys."""
    rng = np.random.default_rng(0)
    scores, values = rng.normal(size=(3, 40)), rng.normal(size=(40, 8))
    parts = [slice(0, 10), slice(10, 20), slice(20, 30), slice(30, 40)]
    sums = np.stack([np.log(np.exp(scores[:, p]).sum(axis=1)) for p in parts])
    answers = [np.exp(scores[:, p] - s[:, None]) @ values[p] for p, s in zip(parts, sums, strict=True)]
    whole = np.log(np.exp(sums).sum(axis=0))
    merged = sum(np.exp(s - whole)[:, None] * a for s, a in zip(sums, answers, strict=True))
    assert merged == pytest.approx(np.exp(scores - whole[:, None]) @ values)


# --------------------------------------------------------------------------- experts
@settings(deadline=None, max_examples=30)
@given(ep=st.sampled_from([1, 8, 64, 256]), dispatch=st.sampled_from([None, "fp8"]))
def test_tokens_travel_to_their_experts_and_back(ep, dispatch):
    """T d h e (n - 1) / n each way, DeepSeek-V3: 8 of 256 experts, on d different ranks, 7168 wide; fp8 halves the way there."""
    plan = Plan(ep=ep, dp=256)
    exp, known = expansion(LATENT, "decode", plan, dispatch_dtype=dispatch), names(plan, "decode")
    sparse = next(s for s in layers_of(exp) if "moe" in s.name)
    moved = {s["id"]: operator_of(s, known).sent_bytes() for s in sparse.steps if s.get("axis") == "ep"}
    ranks = ep * (1 - comb(256 - 256 // ep, 8) / comb(256, 8))
    one_way = 64 * ranks * 7168 * 2 * (ep - 1) / ep
    assert moved == pytest.approx({"dispatch": one_way / (2 if dispatch else 1), "combine": one_way})


@settings(deadline=None, max_examples=20)
@given(ep=st.sampled_from([1, 2, 8, 32]), batch=st.integers(1, 200))
def test_experts_touched_by_the_tokens_of_all_their_ranks(ep, batch):
    """A rank holds E / n experts, each missed with probability (1 - k / E) by each token of the n ranks."""
    plan = Plan(ep=ep, dp=32)
    exp, known = expansion(LATENT, "decode", plan), names(plan, "decode", batch=batch, tokens=batch)
    step = next(s for s in steps_of(exp) if s["id"].endswith("experts_down"))
    op = operator_of(step, known)
    assert op.touched == pytest.approx(256 / ep * (1 - (1 - 8 / 256) ** (batch * ep)))
    assert op.rows == batch * 8


def test_shared_by_tp_alone_a_mixture_sums_as_a_dense_layer_does():
    """etp = tp, ep = 1, tokens on all ranks: a reduce-scatter and an all-gather are one all-reduce."""
    plan = Plan(tp=8, etp=8)
    known = names(plan)
    one = 2 * 8192 * HIDDEN[MIXTURE] * 2 * 7 / 8
    exp = expansion(MIXTURE, "prefill", plan)
    assert sent(exp, known, "etp") == one
    assert sent(exp, known, "ep") == 0
    assert sent(exp, known, "tp") == 2 * one + one  # attention's all-reduce, and the gather of tokens


# --------------------------------------------------------------------------- data parallelism
@settings(deadline=None, max_examples=30)
@given(dp=st.sampled_from([1, 2, 8, 64]), zero=st.sampled_from([0, 1, 2, 3]), gradient=st.sampled_from([None, "fp32"]))
def test_gradients_and_weights_between_replicas(dp, zero, gradient):
    """All-reduce 2 g P; ZeRO 1 and 2 reduce-scatter g P and gather 2 P; ZeRO 3 gathers twice: 2 P more, 1.5 times at 2 bytes."""
    plan = Plan(tp=8, dp=dp, zero=zero)
    exp, known = expansion(DENSE, "train", plan, gradient_dtype=gradient), names(plan)
    parameters = 855_638_016 / 8 + 2 * 8192
    g, ring = 4 if gradient else 2, (dp - 1) / dp
    expected = {0: 2 * g, 1: g + 2, 2: g + 2, 3: g + 4}[zero] * parameters * ring
    assert sent(exp, known, "data", why=("gradients", "weights")) == pytest.approx(expected)


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_the_optimizer_updates_what_a_rank_owns(zero):
    """All of the share of a rank, or a part of it from ZeRO 1 on."""
    plan = Plan(tp=8, dp=16, zero=zero)
    exp, known = expansion(DENSE, "train", plan), names(plan)
    found = 0.0
    for step in steps_of(exp):
        if step["op"] == "adamw":
            assert step["when"] == "step"
            found += repeat_of(step, known) * operator_of(step, known).parameters
    held = sum(value_of(layer_shares(exp.model, x).dense, known) for x in exp.model.layers)
    held += sum(value_of(s.dense, known) for s in outer_shares(exp.model).values())
    assert found == pytest.approx(held / (16 if zero else 1), rel=1e-6)


# --------------------------------------------------------------------------- recomputation
def test_full_recomputation_runs_every_forward_step_again():
    """One more forward pass of the layers: 4/3 of their FLOP, and their sums over ranks again."""
    plain, again = (expansion("gpt-22b", "train", Plan(tp=8, recompute=r), attention="naive") for r in ("none", "full"))
    known = names(Plan(tp=8), seq=2048)

    def layer(exp: Expansion, why: str | None) -> float:
        steps = [s for s in layers_of(exp)[0].steps if s.get("why") == why and s["op"] in ("gemm", "attention")]
        return sum(float(op.counts().tensor) for s in steps for op in ops_of(s, known, exp.model.dtype))

    assert layer(again, "recompute") == pytest.approx(layer(plain, None) / 3)
    assert sent(again, known, "tp", why=("recompute",)) == pytest.approx(sent(plain, known, "tp") / 2)


@pytest.mark.parametrize(("attention", "more"), [("naive", 1 / (3 + 18 * 6144 / 2048)), ("flash", 0)])
def test_selective_recomputation_is_attention_again_where_its_scores_were_kept(attention, more):
    """Korthikanti: s / 6h of the layer's products without attention; 4 b s^2 h of 72 b s h^2 (1 + s / 6h). Flash adds nothing."""
    exp = expansion("gpt-22b", "train", Plan(tp=8, recompute="selective"), attention=attention)
    known = names(Plan(tp=8), seq=2048)
    steps = layers_of(exp)[0].steps
    steps = tuple(s for s in steps if repeat_of(s, known) > 0)
    extra = sum(operator_of(s, known).counts().tensor for s in steps if s.get("why") == "recompute" and s["op"] == "attention")
    base = [s for s in steps if s["op"] in ("gemm", "attention") and s.get("why") is None]
    assert extra / sum(op.counts().tensor for s in base for op in ops_of(s, known)) == pytest.approx(more)


# --------------------------------------------------------------------------- many plans at once
@pytest.mark.parametrize(("name", "phase"), [(DENSE, "train"), (LATENT, "train"), (LATENT, "decode"), (MIXTURE, "prefill")])
def test_arrays_of_plans_are_each_plan_by_itself(name, phase):
    """Every step of a few hundred plans: the same FLOP, bytes and sent bytes as one at a time."""
    plans = [Plan(tp=t, cp=c, dp=8, ep=e, etp=1) for t in (1, 2, 8) for c in (1, 2) for e in (1, 4, 8)]
    exp = expansion(name, phase, Plan(zero=1, recompute="full") if phase == "train" else Plan())
    single = [names(p, phase) for p in plans]
    many = {k: np.array([float(n[k]) for n in single]) for k in single[0]}
    for step in steps_of(exp):
        together = [total_of(op) for op in ops_of(step, many, exp.model.dtype)]
        for i, known in enumerate(single):
            alone = [total_of(op) for op in ops_of(step, known, exp.model.dtype)]
            for a, b in zip(together, alone, strict=True):
                assert [float(np.broadcast_to(x, len(plans))[i]) for x in a] == pytest.approx([float(y) for y in b], rel=1e-12)


def total_of(op: Any) -> list[Any]:
    """FLOP, bytes, sent bytes."""
    return [op.counts().tensor, op.counts().vector, op.compulsory(None).hbm, *op.link_bytes().values()]


def test_every_collective_names_its_group():
    """A key of the groups of a plan."""
    from roofline.plan.plan import groups

    for name in (DENSE, MIXTURE, LATENT):
        for step in steps_of(expansion(name, "train", Plan(zero=3, sequence_parallel=True))):
            assert (step["op"] in COLLECTIVES) == ("axis" in step)
            if "axis" in step:
                assert (
                    value_of(step["ranks"], plan_names(Plan(tp=8, cp=2, dp=16, ep=32)))
                    == groups(Plan(tp=8, cp=2, dp=16, ep=32))[step["axis"]].size
                    or step["axis"] == "pp"
                )
