"""Encoder-decoders on several devices: what a rank computes, exchanges and keeps of both stacks and of the source."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.decide.utilisation import model_flop
from roofline.models.count import summary
from roofline.numeric import scalar
from roofline.plan.job import Job
from roofline.plan.plan import Plan
from tests.models.test_encoder_decoder import LARGE, SMALL, TINY
from tests.models.test_encoder_decoder import model as of_keys
from tests.models.towers import flop, kept, steps, totals


@pytest.mark.parametrize("phase", ["encode", "prefill", "decode"])
@pytest.mark.parametrize("keys", [SMALL, TINY, {**SMALL, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}])
def test_one_rank_of_an_encoder_decoder_does_too(keys: dict[str, Any], phase: str) -> None:
    """In each phase."""
    plain, planned = (totals(of_keys(keys), {"batch": 2, "source": 77}, phase, plan) for plan in (None, Plan()))
    assert (planned.flop, planned.bytes, planned.parameters) == (plain.flop, plain.bytes, plain.parameters)


@pytest.mark.parametrize("keys", [SMALL, LARGE])
@pytest.mark.parametrize("phase", ["encode", "prefill", "decode"])
def test_ranks_share_an_encoder_and_a_decoder(keys: dict[str, Any], phase: str) -> None:
    """Products and scores of four ranks together; Whisper's convolutions are on each, vocabularies are padded."""
    given_ = {"batch": 2, "source": 64}
    one, many = (steps(of_keys(keys), Plan(tp=n), given_, phase) for n in (1, 4))
    apart = ("encoder/conv", "lm_head")
    shared = [flop(found, "") - sum(flop(found, n) for n in apart) for found in (one, many)]
    assert shared[1] * 4 == shared[0] > 0
    assert flop(many, "encoder/conv") == flop(one, "encoder/conv")


def test_attention_to_a_source_is_summed_over_ranks() -> None:
    """T5-small on four ranks: 2 heads of 64 each, one sum a layer behind the output, of 2 bytes for each of 512 elements of a token."""
    found = steps(of_keys(SMALL), Plan(tp=4), {"batch": 3, "seq": 7, "source": 50})
    assert (found["cross_q_proj"].op.n, found["cross_kv_proj"].op.n, found["cross_o_proj"].op.k) == (128, 256, 128)
    assert (found["cross_attention"].op.heads, found["cross_attention"].op.kv_heads) == (2, 2)
    assert (found["cross_reduce"].op.size, found["cross_reduce"].repeat) == (2 * 21 * 512, 6)
    assert sum(t.elements for t in found["position_bias"].op.tensors() if t.role == "weight") == 32 * 8 // 4


@pytest.mark.parametrize("keys", [SMALL, LARGE])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_model_flop_of_an_encoder_decoder(keys: dict[str, Any], phase: str) -> None:
    """Keys of the source once, its scores for each token: what the steps execute, by the rule of full attention but for the causal half."""
    model, length = of_keys(keys), {"prefill": "seq", "decode": "context"}[phase]
    job = Job(phase=phase, batch=3, source=70, **{length: 40})
    executed = totals(model, {"batch": 3, "source": 70, length: 40}, phase).flop["tensor"]
    width = model.layers[0].mixer.heads * model.layers[0].mixer.head_dim  # type: ignore[union-attr]
    hidden = 4 * len(model.layers) * width * 3 * 40 * 20 if phase == "prefill" else 0
    assert scalar(model_flop(model, job, "full")) == executed + hidden


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("keys", [SMALL, LARGE], ids=["t5", "whisper"])
def test_a_rank_of_an_encoder_decoder_keeps_what_both_hold(keys: dict[str, Any], tp: int) -> None:
    """The encoder of words looks them up in the table of the decoder, which is padded to whole ranks."""
    model, plan = of_keys(keys), Plan(tp=tp)
    both = sum(totals(model, {"batch": 2}, phase, plan).parameters for phase in ("encode", "prefill"))
    table = -(-model.vocab // tp) * model.hidden if keys is SMALL else 0
    assert kept(model, plan, phase="prefill", batch=2, seq=64).weights == 2 * (both - table)


@settings(deadline=None, max_examples=10)
@given(tp=st.sampled_from([1, 2, 4]), batch=st.integers(1, 8), context=st.integers(1, 448), source=st.integers(1, 1500))
def test_both_caches_are_kept(tp: int, batch: int, context: int, source: int) -> None:
    """Of the text and of the source, each rank its heads."""
    model = of_keys(LARGE)
    found, own = summary(model), kept(model, Plan(tp=tp), phase="decode", batch=batch, context=context, source=source)
    assert own.kv_cache * tp == batch * (context * found.kv_bytes_per_token + source * found.kv_bytes_per_source_token)


def test_an_encoder_and_its_decoder_are_resident() -> None:
    """T5-small on two ranks: all but norms is shared."""
    norms = (6 * 2 + 6 * 3 + 2) * 512
    assert kept(of_keys(SMALL), Plan(tp=2), phase="decode", context=9).weights == 2 * ((60_506_624 - norms) / 2 + norms)


def test_the_time_to_the_first_token_needs_the_encoder(run: Any, written: Any) -> None:
    """A prefill of the decoder is none; its report says why."""
    asked = ("plan", written(LARGE), "--phase", "prefill", "-C", "dgx-h100", "--plan", "tp=2", "--set", "batch=8", "--set", "seq=4")
    found = json.loads(run(*asked, "--format", "json").stdout)
    assert (found["job"]["source"], found["rates"]["ttft_s"]) == (1500, None)
    assert "the encoder runs before" in found["unavailable"]["ttft_s"]
