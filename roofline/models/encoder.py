"""Encoders of text and of images."""

from __future__ import annotations

from roofline.models.config import Config
from roofline.models.description import Attention, Extra, Layer, Mlp, Model
from roofline.models.reading import activation, decoder, dtype_of, layer_count


def encoder_layer(
    hidden: int, heads: int, width: int, *, act: str = "gelu", gated: bool = False, rotary: int = 0, causal: bool = False
) -> Layer:
    """A layer with biases everywhere, whose tokens all see each other unless it is causal."""
    wide = hidden // heads
    mixer = Attention(
        heads=heads, kv_heads=heads, head_dim=wide, v_head_dim=wide, qkv_bias=True, out_bias=True, rotary=rotary, causal=causal
    )
    return Layer(mixer=mixer, feed=Mlp(width=width, gated=gated, bias=True, activation=act))


def bert(config: Config) -> Model:
    """Encoder and pooler; the head that predicts masked words is left out."""
    config.refuse("add_cross_attention", "cross attention")
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    layer = encoder_layer(hidden, heads, config.integer("intermediate_size"), act=activation(config, "gelu"))
    types = config.integer("type_vocab_size", default=2)
    config.notes.append("counted: encoder and pooler, no head")
    return decoder(
        config,
        (layer,) * layer_count(config),
        kind="encoder",
        norm="layernorm",
        norm_bias=True,
        final_norm=False,
        head=False,
        positions=config.integer("max_position_embeddings"),
        embedding_norm=True,
        extras=(
            Extra(name="token_types", part="embedding", elements=types * hidden),
            Extra(name="pooler", part="pooler", elements=hidden * (hidden + 1)),
        ),
    )


def vit(config: Config) -> Model:
    """Encoder of image patches with a class token; pooler and classifier are left out."""
    hidden, heads, size, patch = (config.integer(n) for n in ("hidden_size", "num_attention_heads", "image_size", "patch_size"))
    channels = config.integer("num_channels", default=3)
    config.flag("qkv_bias", default=True)
    config.taken.update(("encoder_stride", "pooler_output_size", "pooler_act"))
    patches = (size // patch) ** 2
    layer = encoder_layer(hidden, heads, config.integer("intermediate_size"), act=activation(config, "gelu"))
    config.notes.append("counted: encoder, no pooler, no classifier")
    return Model(
        name="",
        model_type="vit",
        kind="encoder",
        hidden=hidden,
        vocab=0,
        layers=(layer,) * layer_count(config),
        norm="layernorm",
        norm_bias=True,
        head=False,
        positions=patches + 1,
        extras=(
            Extra(name="patch_embedding", part="embedding", elements=hidden * (channels * patch * patch + 1)),
            Extra(name="class_token", part="embedding", elements=hidden),
        ),
        dtype=dtype_of(config),
        image=(channels, size, patch),
    )
