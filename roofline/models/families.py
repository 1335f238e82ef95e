"""Which architecture a configuration is of, and the reading of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from roofline.errors import did_you_mean
from roofline.models import dense, encoder, encoder_decoder, mixture, two_towers, vision
from roofline.models.config import Config
from roofline.models.consistency import contradictions
from roofline.models.description import Extra, Found, Model

FAMILIES: dict[str, Callable[[Config], Model]] = {
    "llama": dense.llama,
    "mistral": dense.llama,
    "qwen2": dense.qwen2,
    "qwen2_5_vl": dense.qwen2,
    "qwen3": dense.qwen3,
    "qwen3_vl": dense.qwen3,
    "qwen3_vl_text": dense.qwen3,
    "gemma": dense.gemma,
    "gemma2": dense.gemma2,
    "gemma3": dense.gemma3,
    "gemma3_text": dense.gemma3,
    "phi": dense.phi,
    "phi3": dense.phi3,
    "glm": dense.glm4,
    "glm4": dense.glm4,
    "falcon": dense.falcon,
    "mpt": dense.mpt,
    "opt": dense.opt,
    "gpt2": dense.gpt2,
    "gpt_neox": dense.gpt_neox,
    "nemotron-nas": dense.nemotron_nas,
    "mixtral": mixture.mixtral,
    "qwen2_moe": mixture.qwen_moe,
    "qwen3_moe": mixture.qwen_moe,
    "qwen3_vl_moe": mixture.qwen_moe,
    "qwen3_vl_moe_text": mixture.qwen_moe,
    "gpt_oss": mixture.gpt_oss,
    "dbrx": mixture.dbrx,
    "llama4": mixture.llama4,
    "llama4_text": mixture.llama4,
    "minimax_m2": mixture.minimax_m2,
    "mimo_v2_flash": mixture.mimo,
    "glm4_moe": mixture.glm4_moe,
    "deepseek_v2": mixture.deepseek,
    "deepseek_v3": mixture.deepseek,
    "deepseek_v32": mixture.deepseek,
    "kimi_k2": mixture.deepseek,
    "kimi_k25": mixture.deepseek,
    "glm_moe_dsa": mixture.deepseek,
    "qwen3_next": mixture.qwen_next,
    "qwen3_5": mixture.qwen_next,
    "qwen3_5_text": mixture.qwen_next,
    "qwen3_5_moe": mixture.qwen_next,
    "qwen3_5_moe_text": mixture.qwen_next,
    "nemotron_h": mixture.nemotron_h,
    "bert": encoder.bert,
    "vit": encoder.vit,
    "clip": two_towers.clip,
    "t5": encoder_decoder.t5,
    "mt5": encoder_decoder.t5,
    "whisper": encoder_decoder.whisper,
}
"""How each ``model_type`` is read."""

REFUSED: dict[str, dict[str, str]] = {
    "deepseek_v4": {
        "compress_ratios": "keys and values that a ratio of each layer compresses along the sequence",
        "hc_mult": "hyper-connections, which keep several residual streams",
        "o_groups": "an output product in groups of low rank",
        "num_hash_layers": "layers whose experts are chosen by a hash",
    }
}
"""Architectures that are known by name and not described, with the keys that make them what they are."""

OUTER = ("tie_word_embeddings", "torch_dtype", "dtype", "quantization_config")
"""Keys that may stand outside ``text_config`` and hold for what is inside."""


def describe(config: Config, name: str) -> Found:
    """The model that a configuration speaks of.

    Raises:
        InputError: an architecture or a key that is not understood, or values that contradict each other; all of them.
    """
    word = config.word("model_type")
    if word not in FAMILIES:
        found = config.find("model_type")
        said = f"architecture '{word}' is not supported" if word else "the configuration lacks 'model_type'"
        keys = REFUSED.get(word, {})
        near = did_you_mean(word, list(FAMILIES)) if word else "supported: " + ", ".join(sorted(FAMILIES))
        config.fail(found, f"{said}; {'it differs from those that are by the keys named here' if keys else near}")
        for key, why in keys.items():
            config.refuse(key, why)
        config.finish()
    model = FAMILIES[word](config) if word == "clip" else _with_text(config, word)
    config.taken.add("quantization_config")
    config.close()
    if not config.problems:
        for said in contradictions(model):
            config.fail(None, said)
    config.finish()
    return Found(replace(model, name=name, model_type=word, notes=tuple(dict.fromkeys(config.notes))), sorted(config.left))


def _with_text(config: Config, word: str) -> Model:
    """A model whose text part may be nested, with its vision tower."""
    inner = config.section("text_config")
    text = config if inner is None else inner
    if inner is not None:
        for key in OUTER:
            if key not in inner.entries and key in config.entries:
                inner.entries[key] = config.entries[key]
                config.taken.add(key)
        inner.taken.add("quantization_config")
        own = inner.word("model_type", default=word)
        if own not in FAMILIES:
            config.fail(inner.find("model_type"), f"architecture '{own}' is not supported; {did_you_mean(own, list(FAMILIES))}")
            config.finish()
        model = FAMILIES[own](inner)
        inner.close()
    else:
        model = FAMILIES[word](config)
    eyes = config.section("vision_config")
    if eyes is None:
        return model
    if word not in vision.TOWERS:
        config.fail(config.entries["vision_config"], f"the vision tower of '{word}' is not supported")
        return model
    tower = vision.TOWERS[word](eyes, model.hidden, config)
    eyes.close()
    text.notes.append(vision.UNSEEN)
    extra = Extra(name="vision_tower", part="vision", elements=vision.elements(tower))
    return replace(model, extras=(*model.extras, extra), towers=(*model.towers, tower))
