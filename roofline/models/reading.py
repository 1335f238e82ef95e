"""Readings that families share: heads, windows, numbers formats, layer lists, modules for further tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.models.config import Config
from roofline.models.description import Attention, Experts, Feed, Layer, Mlp, Model

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "auto": "bf16"}
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model")
HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv")
MOST_LAYERS = 2000


def dtype_of(config: Config, default: str = "bf16") -> str:
    """The format that weights are computed in; bf16, with a note, where the file says nothing."""
    found = config.find("torch_dtype", "dtype")
    if found is None:
        if not any("dtype" in n for n in config.notes):
            config.notes.append(f"no dtype is stated: {default} is assumed")
        return default
    word = str(found.data).removeprefix("torch.")
    if word not in DTYPES:
        config.fail(found, f"dtype '{word}' is not known; known: {', '.join(DTYPES)}")
        return default
    return DTYPES[word]


def layer_count(config: Config) -> int:
    """How many layers."""
    count = config.integer(*LAYERS)
    if count > MOST_LAYERS:
        config.fail(config.find(*LAYERS), f"{count} layers; at most {MOST_LAYERS} are read")
        config.unread.update(LAYERS)
        return 1
    return count


def head_dim_of(config: Config, hidden: int, heads: int) -> int:
    """The stated width of a head, else hidden / heads, with a note that it was derived."""
    if config.find("head_dim") is None:
        if hidden % heads:
            said = f"hidden size {hidden} is not a multiple of {heads} heads and no head_dim is given"
            config.fail(config.find(*HEADS), said, of=(*HIDDEN, *HEADS))
        config.notes.append(f"head_dim is not stated: {hidden} / {heads} = {hidden // heads} is taken")
        return max(hidden // heads, 1)
    return config.integer("head_dim")


def attention(config: Config, **changes: Any) -> Attention:
    """Grouped attention as most decoders state it."""
    hidden, heads = config.integer(*HIDDEN), config.integer(*HEADS)
    kv_heads = config.integer(*KV_HEADS, default=heads)
    if heads % kv_heads:
        config.fail(config.find(*KV_HEADS), f"{heads} heads are not a multiple of {kv_heads} key and value heads", of=HEADS)
        kv_heads = heads
    head_dim = head_dim_of(config, hidden, heads)
    bias = config.flag("attention_bias", default=bool(changes.pop("bias", False)))
    share = config.number("partial_rotary_factor", config.number("rotary_pct", 1.0))
    rotary = int(min(share, 1.0) * head_dim) // 2 * 2
    given = {"v_head_dim": head_dim, "qkv_bias": bias, "out_bias": bias, "rotary": rotary, **changes}
    return Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, **given)


def windows(config: Config, layers: int, *, every: int = 0) -> list[int]:
    """The window of each layer: by ``layer_types``, else by a pattern in which each ``every``-th layer sees all, else of all."""
    size = config.integer("sliding_window", default=0, minimum=0)
    if not size and config.find("sliding_window") is not None:
        config.notes.append("sliding_window: 0 is taken as no window: every layer sees all keys")
    config.taken.add("layer_types")
    used = config.flag("use_sliding_window", default=True)
    types = config.items("layer_types", layers, of=LAYERS)
    if types is not None:
        known = {"sliding_attention": size, "full_attention": 0}
        for value in types:
            if str(value.data) not in known:
                config.fail(value, f"layer type '{value.data}' is not supported here; known: {', '.join(known)}")
        return [known.get(str(v.data), 0) for v in types]
    if not used or not size:
        return [0] * layers
    first = config.integer("max_window_layers", default=0, minimum=0) if "use_sliding_window" in config.entries else 0
    return [0 if (every and (i + 1) % every == 0) or i < first else size for i in range(layers)]


def mlp(config: Config, act: str = "silu", **changes: Any) -> Mlp:
    """A feed-forward as most decoders state it; ``act`` is the family's function where none is stated."""
    width = changes.pop("width", None) or config.integer("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size")
    bias = changes.pop("bias", None)
    return Mlp(width=width, bias=config.flag("mlp_bias") if bias is None else bias, activation=activation(config, act), **changes)


def activation(config: Config, default: str = "silu") -> str:
    """The function of the feed-forward, as an elementwise one."""
    named = ("hidden_act", "activation_function", "mlp_hidden_act", "activation")
    word = config.word("hidden_activation") or config.word(*named, default=default)
    names = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "quick_gelu": "gelu", "swish": "silu"}
    names |= {"relu2": "square", "swiglu": "silu"}
    found = names.get(word, word)
    known = ("silu", "gelu", "gelu_tanh", "relu", "square")
    if found not in known:
        config.fail(config.find("hidden_activation", *named), f"activation '{word}' is not supported")
        return "silu"
    return found


def with_windows(layer: Layer, sizes: list[int]) -> tuple[Layer, ...]:
    """The layer once for each window."""
    assert isinstance(layer.mixer, Attention)
    return tuple(replace(layer, mixer=replace(layer.mixer, window=size)) for size in sizes)


def decoder(config: Config, layers: tuple[Layer, ...], **changes: Any) -> Model:
    """The model around its layers."""
    given: dict[str, Any] = {
        "tied": config.flag("tie_word_embeddings", default=bool(changes.pop("tied", False))),
        "dtype": dtype_of(config),
        "context": config.integer("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", default=0, minimum=0),
        **changes,
    }
    return Model(
        name="",
        model_type=str(config.word("model_type")),
        hidden=config.integer(*HIDDEN),
        vocab=config.integer("vocab_size", "padded_vocab_size"),
        layers=layers,
        **given,
    )


def sparse_layers(config: Config, layers: int, dense: Feed, experts: Experts) -> list[Feed]:
    """Which layers choose among experts: after the first few, each n-th, by a list, or all but some."""
    first = config.integer("first_k_dense_replace", default=0, minimum=0)
    found = config.find("moe_layer_freq")
    if found is not None and isinstance(found.data, list):
        flags = config.items("moe_layer_freq", layers, of=LAYERS)
        return [experts if f.data else dense for f in flags] if flags else [experts] * layers
    step = config.integer("moe_layer_freq", "decoder_sparse_step", default=1)
    only = [v.data for v in config.items("mlp_only_layers") or []]
    offset = 1 if "decoder_sparse_step" in config.entries else 0
    return [experts if i >= first and (i + offset) % step == 0 and i not in only else dense for i in range(layers)]
