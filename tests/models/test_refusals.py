"""What is not understood is refused by name and place; what changes nothing is ignored and listed; nothing ends in a traceback."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from roofline.errors import InputError, RooflineError
from roofline.models.count import summary
from roofline.models.expansion import PHASES, Expansion
from roofline.models.write import workload_text
from roofline.spec.model import load_model
from roofline.spec.source import Source
from roofline.spec.workload import read_workload
from tests.models.conftest import CONFIGS

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "vocab_size": 1000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({**LLAMA, "model_type": "llamma"}, r":2:16: architecture 'llamma' is not supported; did you mean 'llama'"),
        ({**LLAMA, "model_type": "qwen9"}, r"did you mean 'qwen3' or 'qwen2'"),
        ({"hidden_size": 64}, r"lacks 'model_type'; supported: bert, clip"),
        ({**LLAMA, "num_cross_attention_layers": 3}, r":8:2: 'num_cross_attention_layers' may change the architecture"),
        ({**LLAMA, "num_hidden_layers": "many"}, r":4:23: 'num_hidden_layers' must be a whole number"),
        ({**LLAMA, "num_hidden_layers": 2.5}, r"'num_hidden_layers' must be a whole number"),
        ({**LLAMA, "num_key_value_heads": 3}, r"4 heads are not a multiple of 3 key and value heads"),
        ({**LLAMA, "hidden_size": 66}, r"hidden size 66 is not a multiple of 4 heads and no head_dim is given"),
        ({**LLAMA, "hidden_act": "sinus"}, r"activation 'sinus' is not supported"),
        ({**LLAMA, "torch_dtype": "float13"}, r"dtype 'float13' is not known"),
        ({**LLAMA, "layer_types": ["full_attention"]}, r"'layer_types' must be a list with one entry for each of 2 layers"),
        ({**LLAMA, "layer_types": ["full_attention", "dreaming"]}, r"layer type 'dreaming' is not supported"),
        ({**LLAMA, "vision_config": {"depth": 3}}, r"the vision tower of 'llama' is not supported"),
        ({**LLAMA, "num_hidden_layers": 10**6}, r"1000000 layers; at most 2000"),
        ({**LLAMA, "quantization_config": {"quant_method": "magic"}}, r"quantisation 'magic' is not supported; supported: fp8"),
        ({k: v for k, v in LLAMA.items() if k != "intermediate_size"}, r"lacks 'intermediate_size'"),
    ],
)
def test_refused(config, said, written):
    """With the file, the line and the column."""
    with pytest.raises(InputError, match=said):
        load_model(written(config))


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("mixtral-8x7b-v0.1", {"num_experts_per_tok": 9}, "9 active experts are more than 8"),
        ("minimax-m2.5", {"rotary_dim": 63}, "63 rotated elements of a head must be even and at most its 128"),
        ("minimax-m2.5", {"rotary_dim": 256}, "256 rotated elements of a head must be even"),
        ("deepseek-v3", {"qk_rope_head_dim": 63}, "qk_rope_head_dim 63 is odd"),
        ("mpt-7b", {"expansion_ratio": 0}, "a feed-forward has no width"),
        ("vit-base-patch16-224-in21k", {"image_size": 8}, "an image of 8 holds no patch of 16"),
        ("qwen3-next-80b-a3b", {"linear_num_value_heads": 24}, "24 value heads are not a multiple of 16 key heads"),
        ("bert-base-uncased", {"hidden_size": 8}, "12 heads are more than the hidden size has elements"),
        ("nemotron-3-nano-30b-a3b", {"hybrid_override_pattern": "MX"}, "must have one of M"),
    ],
)
def test_contradictions(name, change, said, written):
    """Sizes that no step could have are refused when the file is read."""
    config = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    with pytest.raises(InputError, match=said):
        load_model(written({**config, **change}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": "x"}, ["'hidden_size' must be a whole number"]),
        ({"hidden_size": None}, ["lacks 'hidden_size'"]),
        ({"num_attention_heads": 0, "num_key_value_heads": 2}, ["'num_attention_heads' must be a whole number"]),
        ({"num_key_value_heads": -2}, ["'num_key_value_heads' must be a whole number"]),
        ({"num_hidden_layers": 0, "layer_types": ["full_attention"] * 3}, ["'num_hidden_layers' must be a whole number"]),
        ({"num_hidden_layers": 10**6, "layer_types": ["full_attention"] * 3}, ["1000000 layers"]),
        ({"hidden_size": 66, "num_hidden_layers": 0}, ["'num_hidden_layers' must be", "hidden size 66 is not a multiple of 4 heads"]),
    ],
)
def test_what_follows_from_an_unread_number_is_not_said(change, said, written):
    """A number that is taken in the place of one that cannot be read makes no second message; what else is wrong is said."""
    with pytest.raises(InputError) as found:
        load_model(written({**LLAMA, "num_attention_heads": 4, **change}))
    messages = [p.message for p in found.value.problems]
    assert len(messages) == len(said)
    assert all(any(part in message for message in messages) for part in said)


def test_all_problems_at_once(written):
    """One run shows everything."""
    with pytest.raises(InputError) as found:
        load_model(written({**LLAMA, "hidden_act": "sinus", "torch_dtype": "float13", "moe_layers_extra": 2}))
    assert len(found.value.problems) == 3


@pytest.mark.parametrize("value", [None, False, 0, [], {}, ""])
def test_a_key_that_says_nothing_is_ignored(value, written):
    """Absent things change nothing, whatever they are called."""
    _, _, ignored = load_model(written({**LLAMA, "num_cross_attention_layers": value}))
    assert ignored == ("num_cross_attention_layers",)


def test_ignored_keys_are_listed(written, run):
    """Under -v, on stderr, with their path."""
    config = written({**LLAMA, "bos_token_id": 1, "rope_theta": 10000.0})
    assert "ignored keys: bos_token_id, rope_theta" in run("model", "show", config, "-v").stderr
    assert "ignored" not in run("model", "show", config).stderr


def test_no_key_is_passed_over():
    """Of a plain published file: exactly those that change no count are ignored."""
    _, _, ignored = load_model(str(CONFIGS / "llama-3.1-8b.json"))
    assert ignored == (
        "architectures", "attention_dropout", "bos_token_id", "eos_token_id", "initializer_range", "pretraining_tp", "rms_norm_eps",
        "rope_scaling", "rope_theta", "transformers_version", "use_cache",
    )  # fmt: skip


STRANGE = (None, True, "x", -1, 0, 1, 7, 2.5, 1e300, 10**30, [], [1], ["a", None], {}, {"a": 1}, "re:(a+)+$", "float32")


@pytest.mark.parametrize("path", sorted(p for p in CONFIGS.glob("*.json") if p.stem != "golden"), ids=lambda p: p.stem)
def test_strange_values_are_errors_or_models(path, written):
    """Any value anywhere: a model that can be counted and written, or an error for a person."""
    rng = random.Random(path.stem)
    whole = json.loads(path.read_text(encoding="utf-8"))
    for _ in range(25):
        changed = json.loads(json.dumps(whole))
        place = changed
        while True:
            key = rng.choice(list(place))
            if not isinstance(place[key], dict) or not place[key] or rng.random() < 0.2:
                break
            place = place[key]
        place[key] = rng.choice(STRANGE)
        try:
            model, how, _ = load_model(written(changed))
        except RooflineError:
            continue
        assert summary(model, how).parameters.total > 0
        try:
            text = workload_text(Expansion(model=model, phase=rng.choice(PHASES), how=how), {})
        except RooflineError:
            continue
        assert read_workload(Source("w.yaml", text)).steps


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"model_type": "llama"', '{"a": 1, "a": 2}'])
def test_not_a_configuration(text, tmp_path):
    """Refused by the same reading as every file."""
    (tmp_path / "m.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        load_model(str(tmp_path / "m.json"))


def test_nothing_is_fetched():
    """A name of a repository is a file that is not there."""
    with pytest.raises(InputError, match="no such file"):
        load_model("meta-llama/Llama-3.1-8B")
