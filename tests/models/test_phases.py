"""Phases beside plain prefill, decode and training: a cached prefix, mixed steps, drafts, pages, adapters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import UsageError
from roofline.models.count import summary
from roofline.models.expansion import Expansion, Lora
from roofline.models.training import TARGETS
from roofline.models.write import workload_text
from roofline.ops.pages import whole_pages
from roofline.report.build import analyze
from roofline.spec.model import load_model
from roofline.spec.source import Source
from roofline.spec.workload import read_workload

DENSE, LATENT, WINDOWS = "llama-3-8b", "deepseek-v3", "gpt-oss-20b"
CACHE = 131_072
"""Bytes a token of Llama-3-8B: 32 layers, 8 heads, keys and values of 128, 2 bytes."""


def workload(name: str, phase: str, given_: dict[str, int], **options: Any) -> Any:
    """The workload of a model with options of its expansion."""
    model, how, _ = load_model(name)
    return read_workload(Source("w.yaml", workload_text(Expansion(model=model, phase=phase, how=how, **options), given_)))


def totals(name: str, phase: str, given_: dict[str, int], **options: Any) -> Any:
    """Its totals."""
    return analyze(workload(name, phase, given_, **options), None).totals


def steps(name: str, phase: str, given_: dict[str, int], **options: Any) -> dict[str, Any]:
    """Its operators by id."""
    return {s.id: s.op for s in workload(name, phase, given_, **options).steps}


# --------------------------------------------------------------------------- a cached prefix
@settings(deadline=None, max_examples=8)
@given(seq=st.integers(4, 400), share=st.floats(0.01, 0.99))
def test_a_prefix_and_the_rest_are_the_whole_prompt(seq, share):
    """FLOP of a prefill of the prefix plus those of the rest behind it: the whole, but for logits, which each computes once."""
    cached = 2 + int(share * (seq - 4))  # a single query counts all keys that it sees, not the mean of a triangle
    head = 2 * 4096 * 128256
    whole = totals(DENSE, "prefill", {"seq": seq}).useful_flop - head
    first = totals(DENSE, "prefill", {"seq": cached}).useful_flop - head
    rest = totals(DENSE, "prefill", {"seq": seq, "cached": cached}, cached=True).useful_flop - head
    # Continuous triangles: q^2 / 2 scores of a prefix, and its rows in full for each token behind it.
    assert first + rest == pytest.approx(whole, rel=1e-9)


def test_the_prefix_stays_in_the_cache():
    """All keys of the prompt are resident: 131,072 B a token."""
    found = totals(DENSE, "prefill", {"seq": 4096, "cached": 1024, "batch": 3}, cached=True)
    assert found.memory.cache_bytes == 3 * 4096 * CACHE


def test_a_latent_prefix_is_expanded_again():
    """Keys and values of all 4096 rows are made from their latents, though only 1024 tokens are new."""
    found = steps(LATENT, "prefill", {"seq": 4096, "cached": 3072}, cached=True)
    assert found["latent_moe/kv_b_proj"].m == 4096
    assert found["latent_moe/q_a_proj"].m == 1024


# --------------------------------------------------------------------------- chunks beside decoding
def test_a_mixed_step_reads_the_weights_once_for_both():
    """A chunk of 512 and 32 decoding sequences: 544 rows a product, two launches of attention."""
    found = steps(DENSE, "mixed", {"chunk": 512, "decode_batch": 32, "context": 8192, "cached": 1024})
    assert found["qkv_proj"].m == 544
    assert found["lm_head"].m == 33
    prefill, decode = found["attention_prefill"], found["attention_decode"]
    assert (prefill.batch, prefill.q_len, prefill.kv_len, prefill.causal) == (1, 512, 1536, True)
    assert (decode.batch, decode.q_len, decode.kv_len) == (32, 1, 8192)


@settings(deadline=None, max_examples=8)
@given(chunk=st.integers(1, 2000), batch=st.integers(1, 64), cached=st.integers(1, 5000))
def test_a_mixed_step_has_the_flop_of_its_parts(chunk, batch, cached):
    """Prefill behind a prefix, and decoding, computed apart: the same FLOP; and the weights of one of them."""
    mixed = totals(DENSE, "mixed", {"chunk": chunk, "decode_batch": batch, "context": 700, "cached": cached})
    prefill = totals(DENSE, "prefill", {"seq": chunk + cached, "cached": cached}, cached=True)
    decode = totals(DENSE, "decode", {"batch": batch, "context": 700})
    assert mixed.useful_flop == pytest.approx(prefill.useful_flop + decode.useful_flop, rel=1e-9)
    assert mixed.memory.cache_bytes == prefill.memory.cache_bytes + decode.memory.cache_bytes
    assert mixed.memory.weight_bytes == decode.memory.weight_bytes


def test_latent_attention_mixes_its_two_forms():
    """Expanded for the chunk, absorbed for what decodes, and the weights that both use counted once."""
    model, how, _ = load_model(LATENT)
    found = totals(LATENT, "mixed", {"chunk": 256, "decode_batch": 8, "context": 1000, "cached": 1000})
    assert found.parameters == summary(model, how).parameters.total
    assert found.memory.cache_bytes == (1256 + 8 * 1000) * summary(model, how).kv_bytes_per_token


def test_windows_bound_what_decodes_and_what_a_chunk_sees():
    """gpt-oss: 128 keys in every second layer."""
    found = steps(WINDOWS, "mixed", {"chunk": 512, "decode_batch": 4, "context": 4096, "cached": 2048})
    assert found["local_moe/attention_prefill"].window == 128
    assert found["local_moe/attention_decode"].kv_len == 128
    assert found["full_moe/attention_decode"].kv_len == 4096


# --------------------------------------------------------------------------- drafts
def test_draft_tokens_are_verified_in_one_step():
    """3 drafts: 4 tokens of each sequence in every product, and logits of all 4; keys are read once."""
    found, plain = (steps(DENSE, "decode", {"batch": 16, "context": 4096}, **o) for o in ({"draft": 3}, {}))
    assert found["qkv_proj"].m == found["lm_head"].m == 64
    assert (found["attention"].q_len, found["attention"].kv_len, found["attention"].causal) == (4, 4096, True)
    cached = [sum(t.moved_bytes for t in s["attention"].tensors() if t.role == "cache") for s in (found, plain)]
    assert cached[0] == cached[1]


def test_modules_that_guess_have_their_weights_once():
    """DeepSeek-V3 has one module: a second draft token runs it again, and 11.5 billion parameters come once."""
    model, how, _ = load_model(LATENT)
    counted = summary(model, how).parameters
    for drafts in (1, 2):
        assert totals(LATENT, "decode", {"batch": 4}, draft=drafts, mtp=True).parameters == counted.total + counted.mtp
    one, two = (totals(LATENT, "decode", {"batch": 4}, draft=d, mtp=True).kernels for d in (1, 2))
    assert two > one
    assert not [i for i in steps(LATENT, "decode", {}, draft=1) if i.startswith("mtp")]


# --------------------------------------------------------------------------- pages
@given(keys=st.integers(0, 10**6), page=st.integers(0, 512))
def test_pages_are_whole_and_the_last_is_the_only_one_that_is_not_full(keys, page):
    """At least the keys, less than a page more."""
    held = whole_pages(keys, page)
    assert held == keys if page == 0 else keys <= held < keys + page and held % page == 0


@pytest.mark.parametrize(("name", "a_token"), [(DENSE, CACHE), (LATENT, 61 * 576 * 2)])
def test_a_paged_cache_keeps_whole_pages_and_reads_what_is_there(name, a_token):
    """100 keys in pages of 64 are kept as 128; no byte more is read."""
    paged, plain = (totals(name, "decode", {"batch": 5, "context": 100}, page=p) for p in (64, 0))
    assert paged.memory.cache_bytes == 5 * 128 * a_token
    assert plain.memory.cache_bytes == 5 * 100 * a_token
    assert paged.bytes["hbm"] == plain.bytes["hbm"]


# --------------------------------------------------------------------------- adapters
def test_adapters_beside_frozen_weights():
    """Rank 16 beside the four products of Llama-3-70B: 80 x 16 x (18,432 + 16,384 + 65,536 + 36,864) parameters."""
    lora = Lora(rank=16, targets=TARGETS)
    found = steps("llama-3-70b", "train", {"seq": 128}, lora=lora)
    assert found["optimizer"].parameters == 175_636_480
    assert len(found["qkv_proj"].backward()) == 1
    assert len(found["qkv_proj_lora_b"].backward()) == 2


def test_a_frozen_embedding_has_no_backward_pass():
    """Nothing in front of the first adapter needs a gradient."""
    lora = Lora(rank=8, targets=("o_proj",))
    directions = {s.id: s.direction for s in workload(DENSE, "train", {}, lora=lora).steps}
    assert directions["embedding"] == "forward"
    assert directions["lm_head"] == "forward+backward"


# --------------------------------------------------------------------------- what does not go together
@pytest.mark.parametrize(
    ("name", "phase", "options", "said"),
    [
        (DENSE, "decode", {"cached": True}, "a cached prefix is of a prefill"),
        (DENSE, "prefill", {"draft": 2}, "draft tokens are of a decoding step"),
        (LATENT, "decode", {"mtp": True}, "add how many, such as --draft 1"),
        (DENSE, "decode", {"draft": 1, "mtp": True}, "'llama-3-8b' has no modules that guess further tokens"),
        (DENSE, "decode", {"lora": Lora(rank=8, targets=TARGETS)}, "use --phase train"),
        (DENSE, "train", {"page": 16}, "pages are of a cache, which this phase lacks"),
        (
            DENSE,
            "train",
            {"lora": Lora(rank=8, targets=("k_proj",))},
            "no product of a layer is called 'k_proj'.*did you mean 'qkv_proj' or 'o_proj'",
        ),
    ],
)
def test_refused(name, phase, options, said):
    """With what to do instead."""
    with pytest.raises(UsageError, match=said):
        workload(name, phase, {}, **options)


def test_states_are_no_keys():
    """Recurrent layers have neither a prefix to reuse nor drafts to verify here."""
    from tests.models.conftest import CONFIGS

    with pytest.raises(UsageError, match="keep a state, not keys"):
        workload(str(CONFIGS / "qwen3-next-80b-a3b.json"), "mixed", {})
