"""Encoder-decoders: T5 and Whisper. The decoder is the model, the encoder a tower whose result every layer of the decoder attends to."""

from __future__ import annotations

from dataclasses import replace

from roofline.models.config import Config
from roofline.models.description import Attention, Extra, Layer, Mlp, Model, Sound, Tower
from roofline.models.reading import MOST_LAYERS, activation, dtype_of

TAPS = 3
"""Of each convolution in time in front of Whisper's encoder (Radford et al., arXiv 2212.04356, figure 1)."""


def _depth(config: Config, *names: str, default: int | None = None) -> int:
    count = config.integer(*names, default=default)
    if count > MOST_LAYERS:
        config.fail(config.find(*names), f"{count} layers; at most {MOST_LAYERS} are read")
        return 1
    return count


def _notes(config: Config, encoder: int, decoder: int) -> None:
    said = "weights that a phase does not use are not among its steps"
    config.notes.append(f"{encoder} layers of the encoder and {decoder} of the decoder; {said}")


def t5(config: Config) -> Model:
    """T5 and its v1.1, which has gates and a head of its own (Raffel et al., arXiv 1910.10683): rms norms, relative positions only."""
    hidden, heads, wide = config.integer("d_model"), config.integer("num_heads"), config.integer("d_kv")
    count = _depth(config, "num_layers", "num_hidden_layers")
    behind = _depth(config, "num_decoder_layers", default=count)
    if not config.flag("is_encoder_decoder", default=True):
        config.fail(config.find("is_encoder_decoder"), "an encoder of T5 alone is not supported")
    feed, buckets = _t5_feed(config), config.integer("relative_attention_num_buckets", default=32)
    config.taken.update(("relative_attention_max_distance", "scalable_attention"))
    mixer = Attention(heads=heads, kv_heads=heads, head_dim=wide, v_head_dim=wide)
    near = Layer(mixer=replace(mixer, causal=False), feed=feed)
    layer = Layer(mixer=mixer, feed=feed, norms=3, cross=replace(mixer, causal=False))
    longest, dtype = config.integer("n_positions", default=0, minimum=0), dtype_of(config)
    if not longest:
        config.notes.append("no length is stated: positions are relative, and no table bounds them")
    _notes(config, count, behind)
    encoder = Model(
        name="encoder", model_type="t5", kind="encoder", hidden=hidden, vocab=0, layers=(near,) * count, head=False, relative=buckets,
        dtype=dtype, context=longest,
    )  # fmt: skip
    return Model(
        name="",
        model_type="t5",
        hidden=hidden,
        vocab=config.integer("vocab_size"),
        layers=(layer,) * behind,
        tied=config.flag("tie_word_embeddings", default=True),
        relative=buckets,
        dtype=dtype,
        context=longest,
        towers=(Tower(name="encoder", model=encoder, counted=True),),
    )


def _t5_feed(config: Config) -> Mlp:
    """relu, or a gate beside it: ``feed_forward_proj`` is a function, or a function behind 'gated-'."""
    said = config.word("feed_forward_proj", default="relu")
    gated, function = said.startswith("gated-"), said.removeprefix("gated-")
    config.taken.update(("dense_act_fn", "is_gated_act"))
    known = {"relu": "relu", "gelu": "gelu_tanh" if gated else "gelu", "gelu_new": "gelu_tanh", "silu": "silu"}
    if function not in known:
        config.fail(config.find("feed_forward_proj"), f"activation '{said}' is not supported")
    return Mlp(width=config.integer("d_ff"), gated=gated, activation=known.get(function, "relu"))


def whisper(config: Config) -> Model:
    """Whisper: two convolutions over a spectrogram, sinusoids stored as a table, layer norms, keys without a bias, a tied head."""
    hidden, mels = config.integer("d_model"), config.integer("num_mel_bins")
    count, behind = _depth(config, "encoder_layers"), _depth(config, "decoder_layers")
    config.taken.update(("num_hidden_layers", "classifier_proj_size", "use_weighted_layer_sum", "scale_embedding", "median_filter_width"))
    config.taken.update(("encoder_layerdrop", "decoder_layerdrop", "is_encoder_decoder", "max_length"))
    act, dtype = activation(config, "gelu"), dtype_of(config)
    near = _whisper_attention(hidden, config.integer("encoder_attention_heads"), causal=False)
    own = _whisper_attention(hidden, config.integer("decoder_attention_heads"), causal=True)
    source, longest = config.integer("max_source_positions"), config.integer("max_target_positions")
    _notes(config, count, behind)
    feeds = [Mlp(width=config.integer(f"{side}_ffn_dim"), gated=False, bias=True, activation=act) for side in ("encoder", "decoder")]
    convolutions = [hidden * (into * TAPS + 1) for into in (mels, hidden)]
    encoder = Model(
        name="encoder", model_type="whisper", kind="encoder", hidden=hidden, vocab=0, norm="layernorm", norm_bias=True, head=False,
        layers=(Layer(mixer=near, feed=feeds[0]),) * count, positions=source, dtype=dtype, context=source,
        extras=tuple(Extra(name=f"conv{i + 1}", part="encoder", elements=n) for i, n in enumerate(convolutions)),
    )  # fmt: skip
    return Model(
        name="",
        model_type="whisper",
        hidden=hidden,
        vocab=config.integer("vocab_size"),
        layers=(Layer(mixer=own, feed=feeds[1], norms=3, cross=replace(own, causal=False)),) * behind,
        tied=config.flag("tie_word_embeddings", default=True),
        norm="layernorm",
        norm_bias=True,
        positions=longest,
        dtype=dtype,
        context=longest,
        towers=(Tower(name="encoder", model=encoder, stem=Sound(mels=mels), counted=True),),
    )


def _whisper_attention(hidden: int, heads: int, *, causal: bool) -> Attention:
    wide = hidden // heads
    return Attention(heads=heads, kv_heads=heads, head_dim=wide, v_head_dim=wide, qkv_bias=True, out_bias=True, k_bias=False, causal=causal)
