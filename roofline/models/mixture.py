"""Families with mixtures of experts, with latent attention, and hybrids of attention with recurrent layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from roofline.models.config import Config
from roofline.models.description import (
    Attention,
    DeltaNet,
    Experts,
    Indexer,
    LatentAttention,
    Layer,
    Mamba2,
    Mixer,
    Mlp,
    Model,
)
from roofline.models.reading import HEADS, HIDDEN, LAYERS, activation, attention, decoder, layer_count, mlp, sparse_layers, windows

EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
ACTIVE = ("num_experts_per_tok", "experts_per_token", "moe_top_k")


def experts(config: Config, **changes: Any) -> Experts:
    """Experts as most families state them."""
    given: dict[str, Any] = {"width": config.integer("moe_intermediate_size", "intermediate_size"), **changes}
    config.taken.add("intermediate_size")
    return Experts(experts=config.integer(*EXPERTS), active=config.integer(*ACTIVE), activation=activation(config), **given)


def mixtral(config: Config) -> Model:
    """Every layer chooses."""
    count = layer_count(config)
    mixer, feed = attention(config), experts(config)
    layers = [Layer(mixer=replace(mixer, window=w), feed=feed) for w in windows(config, count)]
    return decoder(config, tuple(layers))


def qwen_moe(config: Config) -> Model:
    """Qwen2 (biases, a shared expert with a gate) and Qwen3 (norms of queries and keys)."""
    old, count = config.word("model_type").startswith("qwen2"), layer_count(config)
    mixer = replace(attention(config), qkv_bias=True, out_bias=False) if old else attention(config, qk_norm="head")
    shared = config.integer("shared_expert_intermediate_size", default=0, minimum=0)
    dense = mlp(config)
    feeds = sparse_layers(config, count, dense, experts(config, shared_width=shared, shared_gate=shared > 0))
    sizes = windows(config, count)
    return decoder(config, tuple(Layer(mixer=replace(mixer, window=w), feed=f) for w, f in zip(sizes, feeds, strict=True)))


def gpt_oss(config: Config) -> Model:
    """Biases on all products, the router and the experts, a sink for each head, windows in every second layer."""
    count = layer_count(config)
    mixer = attention(config, bias=True, sinks=True)
    feed = experts(config, bias=True, router_bias=True)
    every = 0 if "layer_types" in config.entries else 2
    return decoder(config, tuple(Layer(mixer=replace(mixer, window=w), feed=feed) for w in windows(config, count, every=every)))


def dbrx(config: Config) -> Model:
    """Layer norms without bias; attention and experts in maps of their own."""
    hidden, heads = config.integer(*HIDDEN), config.integer(*HEADS)
    inner, ffn = config.section("attn_config"), config.section("ffn_config")
    if inner is None or ffn is None:
        config.fail(None, "the configuration lacks 'attn_config' or 'ffn_config'")
        return decoder(config, ())
    kv_heads, head_dim = inner.integer("kv_n_heads", default=1), hidden // heads
    mixer = Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim, rotary=head_dim)
    feed = Experts(experts=ffn.integer("moe_num_experts"), active=ffn.integer("moe_top_k"), width=ffn.integer("ffn_hidden_size"))
    ffn.taken.update(("moe_loss_weight", "moe_jitter_eps", "moe_normalize_expert_weights", "uniform_expert_assignment"))
    inner.close()
    ffn.close()
    return decoder(config, (Layer(mixer=mixer, feed=feed),) * layer_count(config), norm="layernorm")


def llama4(config: Config) -> Model:
    """Each n-th layer has experts and a shared one, others a wider feed-forward; three of four layers see their chunk only."""
    count, step = layer_count(config), config.integer("interleave_moe_layer_step", default=1)
    listed = [v.data for v in config.items("moe_layers") or []]
    mixer = attention(config)
    config.taken.add("use_qk_norm")  # a norm without weights
    config.taken.add("attn_temperature_tuning")
    width = config.integer("intermediate_size")
    feed = experts(config, width=width, shared_width=width)
    dense = Mlp(width=config.integer("intermediate_size_mlp"))
    chunk = config.integer("attention_chunk_size", default=0, minimum=0)
    nope = [v.data for v in config.items("no_rope_layers") or []]
    whole = [not r for r in nope] if len(nope) == count else [(i + 1) % 4 == 0 for i in range(count)]
    config.taken.add("no_rope_layer_interval")
    layers = []
    for i in range(count):
        chosen = i in listed if listed else (i + 1) % step == 0
        one = replace(mixer, window=0 if whole[i] else chunk, chunked=not whole[i] and chunk > 0, rotary=0 if whole[i] else mixer.rotary)
        layers.append(Layer(mixer=one, feed=feed if chosen else dense))
    return decoder(config, tuple(layers))


def minimax_m2(config: Config) -> Model:
    """Queries and keys normalised over all heads at once, a correction of the router, modules for further tokens."""
    count = layer_count(config)
    mixer = attention(config)
    if config.flag("use_qk_norm"):
        mixer = replace(mixer, qk_norm="row" if config.word("qk_norm_type", default="per_layer") == "per_layer" else "head")
    config.refuse("shared_intermediate_size", "a shared expert in minimax_m2")
    rotary = config.integer("rotary_dim", default=mixer.head_dim)
    feed = experts(config, router_bias=config.flag("use_routing_bias"))
    layer = Layer(mixer=replace(mixer, rotary=rotary), feed=feed)
    further = config.integer("num_mtp_modules", default=0, minimum=0) if config.flag("use_mtp") else 0
    further *= config.integer("mtp_transformer_layers", default=1, minimum=0)
    config.taken.add("attn_type_list")
    return decoder(config, (layer,) * count, mtp=(layer,) * further)


def mimo(config: Config) -> Model:
    """Layers that see a window have heads of their own numbers and a sink; which they are is a list."""
    count = layer_count(config)
    config.taken.update(("sliding_window_size", "attention_chunk_size", "n_shared_experts"))
    config.refuse("n_shared_experts", "shared experts in mimo_v2_flash")
    full = attention(config, v_head_dim=config.integer("v_head_dim"), sinks=config.flag("add_full_attention_sink_bias"))
    local = Attention(
        heads=config.integer("swa_num_attention_heads", default=full.heads),
        kv_heads=config.integer("swa_num_key_value_heads", default=full.kv_heads),
        head_dim=config.integer("swa_head_dim", default=full.head_dim),
        v_head_dim=config.integer("swa_v_head_dim", default=full.v_head_dim),
        sinks=config.flag("add_swa_attention_sink_bias"),
        window=config.integer("sliding_window"),
        rotary=full.rotary,
    )
    dense = mlp(config)
    feeds = sparse_layers(config, count, dense, experts(config, router_bias=True))
    listed = config.items("hybrid_layer_pattern", count, of=LAYERS)
    pattern = [bool(v.data) for v in listed] if listed else [False] * count
    return decoder(config, tuple(Layer(mixer=local if p else full, feed=f) for p, f in zip(pattern, feeds, strict=True)))


def glm4_moe(config: Config) -> Model:
    """Biased queries, keys and values, experts behind a few dense layers, one shared expert."""
    count = layer_count(config)
    mixer = attention(config, qk_norm="head" if config.flag("use_qk_norm") else "none")
    dense = mlp(config)
    shared = config.integer("n_shared_experts", default=0, minimum=0)
    chosen = experts(config, router_bias=True)
    feeds = sparse_layers(config, count, dense, replace(chosen, shared_width=shared * chosen.width))
    layers = tuple(Layer(mixer=replace(mixer, out_bias=False), feed=f) for f in feeds)
    further = config.integer("num_nextn_predict_layers", default=0, minimum=0)
    return decoder(config, layers, mtp=layers[-1:] * further)


def deepseek(config: Config) -> Model:
    """Latent attention, a few dense layers, experts with shared ones; an indexer where attention is sparse."""
    count, word = layer_count(config), config.word("model_type")
    config.taken.update(("num_key_value_heads", "head_dim", "qk_head_dim", "scale_fmt"))
    index = None
    if config.find("index_topk") is not None:
        index = Indexer(
            heads=config.integer("index_n_heads"), head_dim=config.integer("index_head_dim"), top_k=config.integer("index_topk")
        )
    mixer = LatentAttention(
        heads=config.integer(*HEADS),
        q_rank=config.integer("q_lora_rank", default=0, minimum=0),
        rank=config.integer("kv_lora_rank"),
        nope=config.integer("qk_nope_head_dim"),
        rope=config.integer("qk_rope_head_dim"),
        v_head_dim=config.integer("v_head_dim"),
        bias=config.flag("attention_bias"),
        indexer=index,
    )
    chosen = experts(config, router_bias=word != "deepseek_v2" and config.word("topk_method", default="noaux_tc") == "noaux_tc")
    shared = config.integer("n_shared_experts", default=0, minimum=0) * chosen.width
    feeds = sparse_layers(config, count, mlp(config), replace(chosen, shared_width=shared))
    layers = tuple(Layer(mixer=mixer, feed=f) for f in feeds)
    further = config.integer("num_nextn_predict_layers", default=0, minimum=0)
    return decoder(config, layers, mtp=layers[-1:] * further)


# --------------------------------------------------------------------------- hybrids
def qwen_next(config: Config) -> Model:
    """Qwen3-Next and Qwen3.5: gated delta rule in most layers, gated attention in each n-th; experts or a feed-forward."""
    count = layer_count(config)
    config.flag("attn_output_gate", default=True)
    full = attention(config, qk_norm="head", gate=True)
    delta = DeltaNet(
        key_heads=config.integer("linear_num_key_heads"),
        value_heads=config.integer("linear_num_value_heads"),
        key_dim=config.integer("linear_key_head_dim"),
        value_dim=config.integer("linear_value_head_dim"),
        conv=config.integer("linear_conv_kernel_dim"),
    )
    every = config.integer("full_attention_interval", default=4)
    types = config.items("layer_types", count, of=LAYERS)
    whole = [v.data == "full_attention" for v in types] if types else [(i + 1) % every == 0 for i in range(count)]
    config.taken.update(("use_sliding_window", "sliding_window"))
    shared = config.integer("shared_expert_intermediate_size", default=0, minimum=0)
    dense = mlp(config)
    feeds: list[Any] = [dense] * count
    if config.find(*EXPERTS) is not None:
        feeds = sparse_layers(config, count, dense, experts(config, shared_width=shared, shared_gate=shared > 0))
    config.taken.add("mlp_only_layers")
    layers = tuple(Layer(mixer=full if w else delta, feed=f) for w, f in zip(whole, feeds, strict=True))
    config.refuse("mtp_use_dedicated_embeddings", "an embedding of its own for further tokens")
    further = config.integer("mtp_num_hidden_layers", default=0, minimum=0)
    return decoder(config, layers, mtp=(Layer(mixer=full, feed=layers[-1].feed),) * further if layers else ())


def nemotron_h(config: Config) -> Model:
    """A pattern of single parts: M is Mamba-2, * attention, - a feed-forward, E experts; each behind one norm."""
    count = layer_count(config)
    pattern = config.word("hybrid_override_pattern")
    where = config.find("hybrid_override_pattern")
    if len(pattern) != count or set(pattern) - set("M*-E"):
        config.fail(where, f"hybrid_override_pattern must have one of M, *, - and E for each of {count} layers", of=LAYERS)
    bias = config.flag("use_bias")
    mamba = Mamba2(
        heads=config.integer("mamba_num_heads"),
        head_dim=config.integer("mamba_head_dim"),
        groups=config.integer("n_groups"),
        state=config.integer("ssm_state_size"),
        conv=config.integer("conv_kernel", default=4),
        conv_bias=config.flag("use_conv_bias", default=True),
        bias=config.flag("mamba_proj_bias", default=bias),
    )
    config.taken.update(("expand", "chunk_size", "moe_latent_size"))
    config.refuse("moe_latent_size", "experts of a latent width")
    parts: dict[str, tuple[Mixer | None, Any]] = {"M": (mamba, None), "-": (None, mlp(config, "square", gated=False))}
    if "*" in pattern:
        parts["*"] = (replace(attention(config), rotary=0), None)
    if "E" in pattern:
        wide = config.integer("moe_shared_expert_intermediate_size", default=0, minimum=0)
        shared = wide * config.integer("n_shared_experts", default=1, minimum=0)
        parts["E"] = (None, experts(config, gated=False, router_bias=True, shared_width=shared))
    layers = [Layer(mixer=parts[c][0], feed=parts[c][1], norms=1) for c in pattern if c in parts]
    return decoder(config, tuple(layers))
