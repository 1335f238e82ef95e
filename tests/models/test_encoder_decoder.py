"""Encoder-decoders: counts of the published models, and the work of each phase by closed forms of T5 and Whisper.

Configurations hold the keys of the published files of these models (google-t5 and google/flan-t5, Apache-2.0; openai/whisper, MIT), written
here, none copied. Their totals are the publishers'; each also follows from the sizes by hand.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError, RooflineError, UsageError
from roofline.models.config import Config
from roofline.models.count import summary
from roofline.models.description import Model
from roofline.models.expansion import PHASES, Expansion, Lora
from roofline.models.training import TARGETS
from roofline.models.whole import parameters_in
from roofline.models.write import workload_text
from roofline.plan.plan import Plan
from roofline.report.build import analyze
from roofline.spec.model import config_of, model_of
from roofline.spec.source import Source, parse
from roofline.spec.workload import read_workload
from tests.models.test_refusals import STRANGE

SMALL = {
    "model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_heads": 8, "num_layers": 6, "vocab_size": 32128, "n_positions": 512,
    "relative_attention_num_buckets": 32, "is_encoder_decoder": True, "dropout_rate": 0.1, "layer_norm_epsilon": 1e-6,
    "task_specific_params": {"summarization": {"max_length": 200}},
}  # fmt: skip
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "relative_attention_max_distance": 128}
TINY = {
    "model_type": "whisper", "d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6,
    "decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, "num_mel_bins": 80, "max_source_positions": 1500,
    "max_target_positions": 448, "vocab_size": 51865, "num_hidden_layers": 4, "is_encoder_decoder": True, "scale_embedding": False,
    "activation_function": "gelu", "torch_dtype": "float32", "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0,
}  # fmt: skip
LARGE = {
    **TINY, "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32, "encoder_attention_heads": 20, "decoder_attention_heads": 20,
    "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_mel_bins": 128, "vocab_size": 51866, "num_hidden_layers": 32,
    "torch_dtype": "float16",
}  # fmt: skip
PUBLISHED = {
    "t5-small": (SMALL, 60_506_624),
    "t5-base": ({**SMALL, "d_model": 768, "d_ff": 3072, "num_heads": 12, "num_layers": 12}, 222_903_552),
    "t5-large": ({**SMALL, "d_model": 1024, "d_ff": 4096, "num_heads": 16, "num_layers": 24}, 737_668_096),
    "flan-t5-base": ({**SMALL, **GATED, "d_model": 768, "num_heads": 12, "num_layers": 12, "num_decoder_layers": 12}, 247_577_856),
    "t5-v1.1-xxl": ({**SMALL, **GATED, "d_model": 4096, "d_ff": 10240, "num_heads": 64, "num_layers": 24}, 11_135_332_352),
    "whisper-tiny": (TINY, 37_760_640),
    "whisper-large-v3": (LARGE, 1_543_490_560),
}
"""Keys, and all parameters as published; Whisper's with the sinusoids that it stores."""


def config_of_keys(keys: dict[str, Any]) -> Config:
    """Keys as a configuration."""
    return config_of(parse(Source("m.json", json.dumps(keys, indent=1))))


def model(keys: dict[str, Any]) -> Model:
    """The model of these keys."""
    return model_of(config_of_keys(keys), "m")[0]


def workload(keys: dict[str, Any], phase: str, given_: dict[str, int], **options: Any) -> Any:
    """Its workload in a phase."""
    return read_workload(Source("w.yaml", workload_text(Expansion(model=model(keys), phase=phase, **options), given_)))


def steps(keys: dict[str, Any], phase: str, given_: dict[str, int], **options: Any) -> dict[str, Any]:
    """Its steps by id."""
    return {s.id: s for s in workload(keys, phase, given_, **options).steps}


def totals(keys: dict[str, Any], phase: str, given_: dict[str, int], **options: Any) -> Any:
    """Its totals."""
    return analyze(workload(keys, phase, given_, **options), None).totals


# --------------------------------------------------------------------------- counts
@pytest.mark.parametrize("name", PUBLISHED)
def test_total_is_the_published_integer(name):
    """Encoder, decoder, the attention between them, tables of positions."""
    keys, total = PUBLISHED[name]
    found = summary(model(keys)).parameters
    assert found.total == sum(found.by_part.values()) == total


def test_parts_by_hand():
    """t5-small: 6 layers of 4 h^2 + 2 h f + 2 h, one table of 32 x 8 and a norm; the decoder's attention to it 4 h^2 a layer."""
    parts = summary(model(SMALL)).parameters.by_part
    assert parts["encoder"] == 6 * (4 * 512**2 + 2 * 512 * 2048 + 2 * 512) + 32 * 8 + 512 == 18_881_280
    assert parts["cross_attention"] == 6 * 4 * 512**2
    assert parts["attention"] == 6 * 4 * 512**2 + 32 * 8
    assert parts["head"] == 0


def test_keys_have_no_bias_in_whisper():
    """An attention of 4 h^2 weights has 3 h biases."""
    assert summary(model(TINY)).parameters.by_part["cross_attention"] == 4 * (4 * 384**2 + 3 * 384)


def test_what_is_kept_of_a_token_and_of_a_source_token():
    """Whisper large: 32 layers, keys and values of 1280 in 2 bytes, for each of both."""
    found = summary(model(LARGE))
    assert found.kv_bytes_per_token == found.kv_bytes_per_source_token == 32 * 2 * 1280 * 2
    assert found.layers == 64


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_phase_holds_the_weights_it_uses(name):
    """Training all; the decoder is the rest beside the encoder, and a decoding step is without what makes keys of the source."""
    keys, total = PUBLISHED[name]
    own = model(keys)
    held = {phase: totals(keys, phase, {}).parameters for phase in ("encode", "prefill", "decode", "train")}
    assert held == {phase: parameters_in(Expansion(model=own, phase=phase)) for phase in held}
    shared = own.vocab * own.hidden if own.model_type == "t5" else 0
    assert held["train"] == total
    assert held["encode"] + held["prefill"] == total + shared
    cross = own.layers[0].cross
    assert cross is not None
    biases = cross.heads * cross.v_head_dim if cross.qkv_bias else 0
    assert held["prefill"] - held["decode"] == len(own.layers) * (2 * own.hidden * cross.heads * cross.head_dim + biases)


def test_the_optimizer_updates_all():
    """Also the encoder."""
    assert steps(SMALL, "train", {})["optimizer"].op.parameters == 60_506_624


# --------------------------------------------------------------------------- work
@settings(deadline=None, max_examples=10)
@given(batch=st.integers(1, 9), source=st.integers(1, 700), seq=st.integers(2, 700))
def test_flop_of_t5_by_closed_form(batch, source, seq):
    """2 FLOP a weight and row: the encoder's on the source, keys of the source once, the rest on the prompt; 4 h d a score."""
    h, f, vocab, layers = 512, 2048, 32128, 6
    encoder = batch * layers * (2 * source * (4 * h * h + 2 * h * f) + 4 * source * source * h)
    given_ = {"batch": batch, "source": source}
    assert totals(SMALL, "encode", given_).useful_flop == encoder
    products = 2 * seq * (4 * h * h + 2 * h * h + 2 * h * f) + 2 * source * 2 * h * h
    scores = 4 * h * (seq * seq / 2 + seq * source)  # half of the square is causal, in the convention of the operator
    decoder = batch * (layers * (products + scores) + 2 * h * vocab)
    assert totals(SMALL, "prefill", {**given_, "seq": seq}).useful_flop == pytest.approx(decoder, rel=1e-12)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_decoding_step_has_the_flop_of_a_token(name):
    """From the weights, an independent count: neither the encoder nor keys of the source are passed again."""
    keys, _ = PUBLISHED[name]
    own = model(keys)
    source = own.encoder.model.positions or 300  # Whisper's is that of 30 s
    found = totals(keys, "decode", {"context": 300, "source": source}).useful_flop
    assert found == summary(own, context=300).flop_per_token.total


def test_training_is_the_encoder_and_the_decoder_forward_and_backward():
    """Three times the products of both, where only one position a sequence has logits in a prefill."""
    given_ = {"batch": 2, "source": 64, "seq": 32}

    def products(phase: str) -> float:
        rows = analyze(workload(SMALL, phase, {k: v for k, v in given_.items() if phase != "encode" or k != "seq"}), None).rows
        return sum(r.flop["tensor"] * r.repeat for r in rows if r.op == "gemm")

    more_logits = 2 * (32 - 1) * 2 * 512 * 32128
    assert products("train") == 3 * (products("encode") + products("prefill") + more_logits)


@settings(deadline=None, max_examples=10)
@given(batch=st.integers(1, 64), context=st.integers(1, 448), source=st.integers(1, 1500))
def test_the_cache_is_that_of_the_text_and_of_the_source(batch, context, source):
    """Both are read for each token, whatever the batch."""
    found = summary(model(LARGE))
    cached = totals(LARGE, "decode", {"batch": batch, "context": context, "source": source}).memory.cache_bytes
    assert cached == batch * (context * found.kv_bytes_per_token + source * found.kv_bytes_per_source_token)


def test_30_seconds_are_3000_frames_and_1500_rows():
    """The first convolution keeps the length, the second halves it: 2 x 3 taps x channels FLOP a result."""
    found = steps(TINY, "encode", {})
    one, two = found["encoder/conv1"].op, found["encoder/conv2"].op
    assert (one.out_height, one.out_width, two.out_width) == (1, 3000, 1500)
    assert one.counts().tensor == 2 * 3000 * 384 * 80 * 3
    assert two.counts().tensor == 2 * 1500 * 384 * 384 * 3
    assert found["encoder/attention"].op.kv_len == 1500


def test_the_source_is_seen_whole_and_the_prompt_up_to_a_token():
    """Attention to the source has no mask, and its keys are made of the source."""
    found = steps(SMALL, "prefill", {"batch": 3, "seq": 7, "source": 50})
    assert (found["cross_attention"].op.q_len, found["cross_attention"].op.kv_len, found["cross_attention"].op.causal) == (7, 50, False)
    assert found["attention"].op.causal
    assert not steps(SMALL, "encode", {})["encoder/attention"].op.causal
    assert (found["cross_kv_proj"].op.m, found["cross_kv_proj"].op.n) == (150, 1024)
    assert not [name for name in steps(SMALL, "decode", {}) if name.startswith(("cross_kv", "cross_k_", "cross_v", "encoder"))]


def test_drafts_meet_the_source_at_once():
    """2 drafts: 3 queries a sequence, on both caches."""
    found = steps(TINY, "decode", {"batch": 4}, draft=2)
    assert (found["cross_attention"].op.q_len, found["attention"].op.q_len, found["cross_q_proj"].op.m) == (3, 3, 12)


def test_a_table_is_stored_once():
    """The encoder's words, the decoder's and the head."""
    found = steps(SMALL, "train", {})
    assert (found["embedding"].tied_to, found["lm_head"].tied_to) == ("encoder/embedding", "embedding")
    assert steps(PUBLISHED["flan-t5-base"][0], "train", {})["lm_head"].tied_to is None


# --------------------------------------------------------------------------- position biases
def test_biases_are_added_inside_the_kernel():
    """An addition a score of 6 layers with 8 heads, and a table of 256 numbers; causal scores are half."""
    found = steps(SMALL, "prefill", {"batch": 2, "seq": 100})["position_bias"].op
    assert found.counts().vector == 6 * 8 * 2 * 100 * 101 / 2
    assert sum(t.elements for t in found.tensors() if t.role == "weight") == 256
    assert steps(SMALL, "encode", {"batch": 2, "source": 100})["encoder/position_bias"].op.counts().vector == 6 * 8 * 2 * 100 * 100


def test_biases_are_looked_up_once_and_added_in_a_pass_of_their_own():
    """Materialised: a row of 8 for each pair, once a stack, and a read and a write of the scores more in each layer but the causal ones,
    which have such a pass already."""
    found = steps(SMALL, "encode", {"batch": 2, "source": 100}, attention="naive")
    lookup, attention = found["encoder/position_bias"].op, found["encoder/attention"].op
    assert (lookup.tokens, lookup.vocab, lookup.hidden) == (100 * 100, 32, 8)
    assert attention.mask
    assert not steps(SMALL, "prefill", {}, attention="naive")["cross_attention"].op.mask
    assert not steps(SMALL, "encode", {}).get("encoder/attention").op.mask


# --------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("phase", "options", "said"),
    [
        ("train", {"plan": Plan(tp=2)}, "'t5' has an encoder, the exchange of whose gradients"),
        ("mixed", {}, "'t5' has a source a sequence"),
        ("prefill", {"cached": True}, "'t5' has a source a sequence"),
        ("train", {"lora": Lora(rank=4, targets=TARGETS)}, "adapters of the encoder-decoder 't5'"),
        ("prefill", {"images": True}, "'t5' has no vision tower"),
    ],
)
def test_what_does_not_go_together(phase, options, said):
    """In a sentence."""
    with pytest.raises(UsageError, match=said):
        workload(SMALL, phase, {}, **options)


def test_a_search_leaves_out_plans_of_half_a_model(run, written, tmp_path):
    """And of training, whose exchanges are not described, at its place."""
    written(SMALL)
    for phase in ("decode", "train"):
        (tmp_path / f"{phase}.yaml").write_text(f"schema: 1\nmodel: m.json\nphase: {phase}\n", encoding="utf-8")
    words = ("--cluster", "dgx-h100", "--devices", "8", "--set", "batch=8", "--format", "json")
    found = json.loads(run("search", str(tmp_path / "decode.yaml"), *words).stdout)
    assert found["infeasible"]["an encoder and its decoder on stages"] > 0
    assert not [one for one in found["best"] if "pp" in one["plan"] or "cp" in one["plan"]]
    result = run("search", str(tmp_path / "train.yaml"), *words, code=2)
    assert "train.yaml:3:8: 't5' has an encoder, the exchange of whose gradients" in result.stderr


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({**SMALL, "feed_forward_proj": "gated-tanh"}, "activation 'gated-tanh' is not supported"),
        ({**SMALL, "num_layers": 10**6}, "1000000 layers; at most 2000"),
        ({**SMALL, "is_encoder_decoder": False}, "an encoder of T5 alone is not supported"),
        ({**SMALL, "num_memory_layers": 2}, "'num_memory_layers' may change the architecture"),
        ({**TINY, "encoder_attention_heads": 500}, "encoder: 500 heads are more than the hidden size"),
        ({k: v for k, v in TINY.items() if k != "num_mel_bins"}, "lacks 'num_mel_bins'"),
    ],
)
def test_configurations_that_are_refused(keys, said):
    """Before there are steps."""
    with pytest.raises(InputError, match=said):
        model(keys)


@pytest.mark.parametrize("name", ["t5-small", "flan-t5-base", "whisper-tiny"])
def test_strange_values_are_errors_or_models(name):
    """Any value anywhere: steps with the parameters that are counted, or an error for a person."""
    rng, (keys, _) = random.Random(name), PUBLISHED[name]
    for _ in range(25):
        try:
            own = model({**keys, rng.choice(list(keys)): rng.choice(STRANGE)})
            expansion = Expansion(model=own, phase=rng.choice(PHASES), attention=rng.choice(("flash", "naive")))
            text = workload_text(expansion, {})
        except RooflineError:
            continue
        assert analyze(read_workload(Source("w.yaml", text)), None).totals.parameters == parameters_in(expansion)


# --------------------------------------------------------------------------- the command
def test_from_a_workload_to_a_report(report, written, tmp_path):
    """A model in place of steps, with a source of its own length."""
    written(TINY)
    (tmp_path / "w.yaml").write_text("schema: 1\nmodel: m.json\nphase: encode\nparams: {batch: 8}\n", encoding="utf-8")
    found = report("analyze", str(tmp_path / "w.yaml"), "-H", "h100-sxm", "--set", "source=750")["totals"]
    assert found["parameters"] == 8_208_384
    assert found["bound"]["time_s"] > 0


def test_show_names_both_caches(run, written):
    """And how many layers are whose."""
    shown = run("model", "show", written(LARGE)).stdout
    assert "Cache: 163,840 B a token (fp16), 163,840 B a token of the source." in shown
    assert "32 layers of the encoder and 32 of the decoder" in shown
