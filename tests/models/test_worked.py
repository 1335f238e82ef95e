"""Families without a published file at full size: their keys with published exact counts, and counts worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

GPT2_XL = {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "vocab_size": 50257, "n_positions": 1024, "n_ctx": 1024}
GEMMA2 = {"model_type": "gemma2", "vocab_size": 256000, "sliding_window": 4096, "hidden_activation": "gelu_pytorch_tanh"}
KIMI_K2 = {
    "model_type": "kimi_k2", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 163840,
    "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "first_k_dense_replace": 1, "moe_layer_freq": 1, "topk_method": "noaux_tc", "tie_word_embeddings": False,
}  # fmt: skip
EXACT: dict[str, tuple[dict[str, Any], int]] = {
    "gpt2-xl": (GPT2_XL, 1_557_611_200),
    "gemma2-2b": (
        {**GEMMA2, "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
         "intermediate_size": 9216}, 2_614_341_888,
    ),
    "gemma2-9b": (
        {**GEMMA2, "hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
         "intermediate_size": 14336}, 9_241_705_984,
    ),
    "gemma2-27b": (
        {**GEMMA2, "hidden_size": 4608, "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
         "intermediate_size": 36864}, 27_227_128_320,
    ),
    "phi3-mini": (
        {"model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
         "intermediate_size": 8192, "vocab_size": 32064, "tie_word_embeddings": False}, 3_821_079_552,
    ),
    "gpt-oss-120b": (
        {"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
         "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088, "num_local_experts": 128, "num_experts_per_tok": 4,
         "attention_bias": True, "sliding_window": 128}, 116_829_156_672,
    ),
    "dbrx": (
        {"model_type": "dbrx", "d_model": 6144, "n_layers": 40, "n_heads": 48, "vocab_size": 100352, "max_seq_len": 32768,
         "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500000},
         "ffn_config": {"ffn_hidden_size": 10752, "moe_jitter_eps": 0.01, "moe_loss_weight": 0.05, "moe_num_experts": 16, "moe_top_k": 4}},
        131_596_523_520,
    ),
    "kimi-k2": (KIMI_K2, 1_026_408_232_448),
    "falcon-7b": (
        {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "vocab_size": 65024,
         "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False, "bias": False, "alibi": False},
        65024 * 4544 + 32 * (4544 * (4544 + 128) + 4544 * 4544 + 8 * 4544 * 4544 + 2 * 4544) + 2 * 4544,
    ),
    "gpt-neox-20b": (
        {"model_type": "gpt_neox", "hidden_size": 6144, "num_hidden_layers": 44, "num_attention_heads": 64, "intermediate_size": 24576,
         "vocab_size": 50432, "rotary_pct": 0.25, "hidden_act": "gelu_fast", "tie_word_embeddings": False},
        2 * 50432 * 6144 + 44 * (12 * 6144**2 + 13 * 6144) + 2 * 6144,
    ),
    "phi-2": (
        {"model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 10240,
         "vocab_size": 51200, "partial_rotary_factor": 0.4, "hidden_act": "gelu_new", "tie_word_embeddings": False},
        2_779_683_840,
    ),
    "glm4-9b": (
        {"model_type": "glm", "hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2,
         "head_dim": 128, "intermediate_size": 13696, "vocab_size": 151552, "attention_bias": True, "tie_word_embeddings": False,
         "partial_rotary_factor": 0.5}, 9_399_951_360,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_exact(name, counted):
    """The integer that is published, or the closed form beside it."""
    config, total = EXACT[name]
    assert counted(config).parameters.total == total


def test_active_of_kimi_k2(counted):
    """Stated as 32 billion: 8 of 384 experts, without the input embedding 31.7."""
    assert counted(KIMI_K2).parameters.active_without_embedding / 1e9 == pytest.approx(32, abs=0.5)


# --------------------------------------------------------------------------- case C02: the width of a head
QWEN3_4B = {
    "model_type": "qwen3", "hidden_size": 2560, "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "intermediate_size": 9728, "vocab_size": 151936, "torch_dtype": "bfloat16", "tie_word_embeddings": True,
}  # fmt: skip


def test_the_stated_width_of_a_head_holds(counted):
    """2 x 36 x 8 x 128 x 2 B, whatever hidden / heads is; without it 80 is derived and said to be."""
    assert counted(QWEN3_4B).kv_bytes_per_token == 147_456
    derived = counted({k: v for k, v in QWEN3_4B.items() if k != "head_dim"})
    assert derived.kv_bytes_per_token == 92_160
    assert "head_dim is not stated: 2560 / 32 = 80 is taken" in derived.notes
    assert not any("head_dim" in note for note in counted(QWEN3_4B).notes)


# --------------------------------------------------------------------------- case C07: a tied head multiplies all the same
def test_a_tied_head_costs_flop_and_no_parameters(counted):
    """The same FLOP, and a table fewer."""
    llama = {
        "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 64, "intermediate_size": 8192, "vocab_size": 128256, "torch_dtype": "bfloat16",
    }  # fmt: skip
    tied, untied = (counted({**llama, "tie_word_embeddings": t}) for t in (True, False))
    assert untied.parameters.total - tied.parameters.total == 262_668_288
    assert untied.flop_per_token == tied.flop_per_token
    layers = 16 * (2048 * (2048 + 2 * 512) + 2048 * 2048 + 3 * 2048 * 8192)
    assert tied.flop_per_token.weights == 2 * layers + 525_336_576


# --------------------------------------------------------------------------- windows, states, contexts
def test_windows_bound_attention_and_cache(counted):
    """Gemma 2: every second layer sees 4096 keys at most."""
    config, _ = EXACT["gemma2-2b"]
    short, long = (counted(config, context=n).flop_per_token.attention for n in (4096, 8192))
    one = 4 * 8 * 256 * 4096
    assert (short, long) == (26 * one, 13 * one + 13 * 2 * one)
    found = counted(config)
    assert found.kv_bytes_per_token == 2 * found.kv_bytes_per_token_unbounded == 26 * 2 * 4 * 256 * 2


def test_a_cache_in_another_format(counted):
    """Half the bytes in fp8."""
    assert counted(QWEN3_4B, kv_dtype="fp8").kv_bytes_per_token == 73_728


# --------------------------------------------------------------------------- layer lists
def test_which_layers_choose(counted):
    """Qwen3-MoE: each second layer has experts, but for those named dense."""
    config = {
        "model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4, "head_dim": 16, "vocab_size": 100,
        "intermediate_size": 128, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 2,
        "mlp_only_layers": [3],
    }  # fmt: skip
    parts = counted(config).parameters.by_part
    assert parts["experts"] == 2 * (8 * 3 * 64 * 32 + 64 * 8)  # layers 1 and 5
    assert parts["mlp"] == 4 * 3 * 64 * 128
