"""Families of dense decoders: one function each, from a configuration to a model."""

from __future__ import annotations

from dataclasses import replace

from roofline.models.config import Config
from roofline.models.description import Attention, Layer, Mlp, Model
from roofline.models.reading import HEADS, HIDDEN, LAYERS, attention, decoder, head_dim_of, layer_count, mlp, windows, with_windows


def llama(config: Config) -> Model:
    """Llama, Mistral and all that differ in numbers only."""
    count = layer_count(config)
    layer = Layer(mixer=attention(config), feed=mlp(config))
    return decoder(config, with_windows(layer, windows(config, count)))


def qwen2(config: Config) -> Model:
    """Biases on queries, keys and values, none on the output."""
    count = layer_count(config)
    layer = Layer(mixer=replace(attention(config), qkv_bias=True, out_bias=False), feed=mlp(config))
    return decoder(config, with_windows(layer, windows(config, count)))


def qwen3(config: Config) -> Model:
    """Queries and keys normalised by head."""
    count = layer_count(config)
    layer = Layer(mixer=attention(config, qk_norm="head"), feed=mlp(config))
    return decoder(config, with_windows(layer, windows(config, count)))


def gemma(config: Config) -> Model:
    """Tied; gelu in place of silu."""
    layer = Layer(mixer=attention(config), feed=mlp(config, "gelu_tanh"))
    return decoder(config, (layer,) * layer_count(config), tied=True)


def gemma2(config: Config) -> Model:
    """Four norms a layer, every second layer sees all."""
    count = layer_count(config)
    layer = Layer(mixer=attention(config), feed=mlp(config, "gelu_tanh"), norms=4)
    return decoder(config, with_windows(layer, windows(config, count, every=2)), tied=True)


def gemma3(config: Config) -> Model:
    """Four norms a layer, queries and keys normalised by head, every sixth layer sees all."""
    count = layer_count(config)
    every = config.integer("sliding_window_pattern", "_sliding_window_pattern", default=6)
    layer = Layer(mixer=attention(config, qk_norm="head"), feed=mlp(config, "gelu_tanh"), norms=4)
    return decoder(config, with_windows(layer, windows(config, count, every=every)), tied=True)


def phi3(config: Config) -> Model:
    """As Llama; its products for queries, keys and values, and for gate and up, are fused, which changes no count."""
    count = layer_count(config)
    layer = Layer(mixer=attention(config), feed=mlp(config))
    return decoder(config, with_windows(layer, windows(config, count)))


def phi(config: Config) -> Model:
    """Parallel parts behind one layer norm, biases everywhere, a biased head."""
    config.refuse("qk_layernorm", "norms of queries and keys in phi")
    layer = Layer(mixer=attention(config, bias=True), feed=mlp(config, "gelu", gated=False, bias=True), norms=1, parallel=True)
    return decoder(config, (layer,) * layer_count(config), norm="layernorm", norm_bias=True, head_bias=True)


def glm4(config: Config) -> Model:
    """Biases on queries, keys and values; glm4 has four norms, glm two."""
    norms = 4 if config.word("model_type") == "glm4" else 2
    mixer = attention(config)
    layer = Layer(mixer=replace(mixer, out_bias=False), feed=mlp(config), norms=norms)
    return decoder(config, (layer,) * layer_count(config))


def falcon(config: Config) -> Model:
    """Attention and feed-forward in parallel; one key head, or groups in the new architecture, whose layers have two norms."""
    config.refuse("alibi", "alibi in falcon")
    config.refuse("num_ln_in_parallel_attn", "another number of norms")
    new, parallel, bias = config.flag("new_decoder_architecture"), config.flag("parallel_attn", default=True), config.flag("bias")
    hidden, heads = config.integer(*HIDDEN), config.integer(*HEADS)
    grouped = config.integer("num_kv_heads", "n_head_kv", default=heads)
    one_key_head = config.flag("multi_query", default=True)
    kv_heads = grouped if new else 1 if one_key_head else heads
    head_dim = head_dim_of(config, hidden, heads)
    mixer = Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim, qkv_bias=bias, out_bias=bias, rotary=head_dim)
    width = config.integer("ffn_hidden_size", default=4 * hidden)
    feed = Mlp(width=width, gated=False, bias=bias, activation="gelu")
    layer = Layer(mixer=mixer, feed=feed, norms=2 if new or not parallel else 1, parallel=parallel)
    return decoder(config, (layer,) * layer_count(config), tied=True, norm="layernorm", norm_bias=True)


def mpt(config: Config) -> Model:
    """Layer norms and products without bias, gelu, alibi or learnt positions, tied."""
    hidden, heads = config.integer(*HIDDEN), config.integer(*HEADS)
    inner = config.section("attn_config")
    kv_heads, alibi = heads, False
    if inner is not None:
        alibi = inner.flag("alibi")
        kv_heads = inner.integer("kv_n_heads", default=1 if inner.word("attn_type") == "multiquery_attention" else heads)
        inner.refuse("qk_ln", "norms of queries and keys in mpt")
        inner.close()
    bias = not config.flag("no_bias", default=True)
    head_dim = hidden // heads
    learnt = config.flag("learned_pos_emb", default=True) and not alibi
    mixer = Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim, qkv_bias=bias, out_bias=bias)
    width = int(config.number("expansion_ratio", 4) * hidden)
    layer = Layer(mixer=mixer, feed=Mlp(width=width, gated=False, bias=bias, activation="gelu"))
    config.taken.add("norm_type")
    positions = config.integer("max_seq_len", default=2048) if learnt else 0
    return decoder(config, (layer,) * layer_count(config), tied=True, norm="layernorm", norm_bias=bias, positions=positions)


def opt(config: Config) -> Model:
    """Learnt positions with two rows more than there are positions, biases everywhere, relu, tied."""
    hidden = config.integer(*HIDDEN)
    if config.integer("word_embed_proj_dim", default=hidden) != hidden:
        config.refuse("word_embed_proj_dim", "an embedding of another width than the layers")
    if not config.flag("do_layer_norm_before", default=True):
        config.fail(config.find("do_layer_norm_before"), "layer norm behind the parts is not supported for opt")
    bias = config.flag("enable_bias", default=True)
    config.taken.update(("_remove_final_layer_norm", "layer_norm_elementwise_affine"))
    mixer = replace(attention(config, bias=bias), rotary=0)
    feed = mlp(config, "relu", gated=False, bias=bias)
    positions = config.integer("max_position_embeddings", default=2048) + 2
    layers = (Layer(mixer=mixer, feed=feed),) * layer_count(config)
    return decoder(config, layers, tied=True, norm="layernorm", norm_bias=True, positions=positions)


def gpt2(config: Config) -> Model:
    """Learnt positions, biases everywhere, gelu, tied."""
    hidden = config.integer(*HIDDEN)
    config.refuse("add_cross_attention", "cross attention")
    inner = config.integer("n_inner", "intermediate_size", default=4 * hidden)
    mixer = replace(attention(config, bias=True), rotary=0)
    feed = mlp(config, "gelu_tanh", width=inner, gated=False, bias=True)
    positions = config.integer("n_positions", "max_position_embeddings", default=1024)
    return decoder(
        config, (Layer(mixer=mixer, feed=feed),) * layer_count(config), tied=True, norm="layernorm", norm_bias=True, positions=positions
    )


def gpt_neox(config: Config) -> Model:
    """Two layer norms feed parallel parts, biases everywhere, an untied head."""
    parallel = config.flag("use_parallel_residual", default=True)
    layer = Layer(mixer=attention(config, bias=True), feed=mlp(config, "gelu", gated=False, bias=True), parallel=parallel)
    return decoder(config, (layer,) * layer_count(config), norm="layernorm", norm_bias=True)


def nemotron_nas(config: Config) -> Model:
    """Llama whose layers differ: attention with so many heads a group or none, a feed-forward of its own width or none."""
    hidden, heads, count = config.integer(*HIDDEN), config.integer(*HEADS), layer_count(config)
    config.taken.update(("num_key_value_heads", "intermediate_size"))
    head_dim = head_dim_of(config, hidden, heads)
    bias = config.flag("attention_bias")
    layers = []
    for block in config.items("block_configs", count, of=LAYERS) or []:
        if not isinstance(block.data, dict):
            config.fail(block, "expected a map of attention and ffn")
            break
        one = config.within(block, "block_configs.")
        mixer, feed = one.section("attention"), one.section("ffn")
        own: Attention | None = None
        wide: Mlp | None = None
        if mixer is not None and not mixer.flag("no_op"):
            for name in ("replace_with_linear", "sparsify", "num_sink_tokens", "window_length"):
                mixer.refuse(name, "attention that is replaced or windowed")
            kv_heads = max(heads // mixer.integer("n_heads_in_group"), 1)
            own = Attention(
                heads=heads, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim, qkv_bias=bias, out_bias=bias, rotary=head_dim
            )
        if feed is not None and not feed.flag("no_op"):
            feed.refuse("replace_with_linear", "a feed-forward that is replaced")
            width = int(2 * feed.number("ffn_mult", 0.0) * hidden / 3)
            wide = Mlp(width=-(-width // 256) * 256, bias=config.flag("mlp_bias"))
        layers.append(Layer(mixer=own, feed=wide, norms=int(own is not None) + int(wide is not None)))
    return decoder(config, tuple(layers))
