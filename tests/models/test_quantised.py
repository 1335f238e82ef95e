"""Bytes of weights as they are stored: formats, scales, and what stays as it was."""

from __future__ import annotations

import json

import pytest

from roofline.errors import InputError
from roofline.models.count import summary
from roofline.spec.model import load_model
from tests.models.conftest import CONFIGS

SMALL = {
    "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4, "head_dim": 64, "intermediate_size": 512,
    "vocab_size": 1000, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip
LINEAR = 4 * 256 * 256 + 3 * 256 * 512
OTHER = 2 * 1000 * 256 + 3 * 256


def sizes(name):
    """Bytes by format of a published configuration."""
    model, how, _ = load_model(str(CONFIGS / f"{name}.json"))
    return summary(model, how).weight_bytes_by_dtype


def test_fp8_in_blocks(counted):
    """128 x 128 share 4 bytes; embedding, norms and head stay."""
    found = counted({**SMALL, "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}})
    assert found.weight_bytes_by_dtype == {"bf16": 2 * OTHER, "fp8_e4m3": LINEAR, "scales": LINEAR // 128**2 * 4}


def test_four_bits_in_groups(counted):
    """GPTQ and AWQ: half a byte and two bytes for 128."""
    for method, keys in (("gptq", {"bits": 4, "group_size": 128}), ("awq", {"w_bit": 4, "q_group_size": 128})):
        found = counted({**SMALL, "quantization_config": {"quant_method": method, **keys}})
        assert found.weight_bytes_by_dtype == {"bf16": 2 * OTHER, "int4": LINEAR // 2, "scales": LINEAR // 128 * 2}


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        (["lm_head", "model.layers.0.mlp.down_proj"], 256 * 512),
        (["lm_head", "model.layers.*.self_attn"], 4 * 256 * 256),
        (["lm_head", "down_proj"], 256 * 512),
        (["lm_head", "model.layers.1.mlp.down_proj"], 0),
    ],
)
def test_modules_that_stay(counted, names, kept):
    """By full name, by pattern, by the name of a module; a layer that is not there changes nothing."""
    found = counted({**SMALL, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": names}})
    assert found.weight_bytes_by_dtype["fp8_e4m3"] == LINEAR - kept


def compressed(ignore):
    """A block of compressed-tensors with int4 in groups of 32."""
    weights = {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group"}
    groups = {"group_0": {"weights": weights, "targets": ["Linear"], "input_activations": None}}
    return {"quant_method": "compressed-tensors", "config_groups": groups, "ignore": ignore}


def test_patterns_of_compressed_tensors(counted):
    """Regular expressions with alternatives."""
    found = counted({**SMALL, "quantization_config": compressed(["lm_head", r"re:.*self_attn.*", r"re:.*mlp\.(gate|up)_proj.*"])})
    assert found.weight_bytes_by_dtype["int4"] == 256 * 512 // 2
    assert found.weight_bytes_by_dtype["scales"] == 256 * 512 // 32 * 2


@pytest.mark.parametrize("pattern", ["re:(a+)+$", "re:(.*)*x", "re:[", "re:" + ".*" * 9])
def test_a_pattern_that_could_stall_is_refused(written, pattern):
    """A file from elsewhere is not let loose on a backtracking matcher."""
    with pytest.raises(InputError, match="pattern is not understood"):
        load_model(written({**SMALL, "quantization_config": compressed([pattern])}))


def test_mxfp4_takes_experts_only():
    """gpt-oss-20b: 19.1 billion weights of experts in half a byte and a byte for 32; all else bf16. The checkpoint has 13.76 GB."""
    experts = 24 * 32 * 3 * 2880 * 2880
    assert sizes("gpt-oss-20b")["fp4"] == experts // 2
    assert sizes("gpt-oss-20b")["scales"] == experts // 32
    assert sizes("gpt-oss-20b")["bf16"] == 2 * (20_914_757_184 - experts)


def test_deepseek_in_fp8():
    """Everything linear but the router and the head."""
    kept = 2 * 129280 * 7168 + 58 * (7168 * 256 + 256) + 61 * (2 * 7168 + 1536 + 512) + 7168
    assert sizes("deepseek-v3")["bf16"] == 2 * kept
    assert sizes("deepseek-v3")["fp8_e4m3"] == 671_026_419_200 - kept


def test_the_file_beside_the_configuration():
    """modelopt says FP8 and an FP8 cache in a file of its own; the head and the embedding stay."""
    model, how, _ = load_model(str(CONFIGS / "llama-3.1-70b-instruct-fp8-modelopt.json"))
    found = summary(model, how)
    assert found.weight_bytes_by_dtype["bf16"] == 2 * (2 * 128256 * 8192 + 161 * 8192)
    assert (found.kv_dtype, found.kv_bytes_per_token) == ("fp8", 163_840)


def test_without_the_file_weights_are_as_computed(tmp_path):
    """The configuration alone says nothing of FP8."""
    name = "llama-3.1-70b-instruct-fp8-modelopt.json"
    (tmp_path / name).write_text((CONFIGS / name).read_text(encoding="utf-8"), encoding="utf-8")
    model, how, _ = load_model(str(tmp_path / name))
    assert how is None
    assert set(summary(model, how).weight_bytes_by_dtype) == {"bf16"}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}), encoding="utf-8")
    assert load_model(str(tmp_path / name))[1].name == "nvfp4"


def test_layers_named_one_by_one():
    """Llama 4 Scout: attention and router of every layer, and the vision tower, are named; only feed-forwards are fp8."""
    ffn = 48 * (16 + 1) * 3 * 5120 * 8192
    assert sizes("llama-4-scout-fp8-dynamic")["fp8_e4m3"] == ffn
