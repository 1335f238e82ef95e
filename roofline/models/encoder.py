"""Encoders of text and images, and the vision towers of decoders that also see."""

from __future__ import annotations

from roofline.models.config import Config
from roofline.models.description import Attention, Extra, Layer, Mlp, Model
from roofline.models.reading import activation, decoder, dtype_of, layer_count
from roofline.models.weights import layer_weights


def encoder_layer(hidden: int, heads: int, width: int, *, act: str = "gelu", gated: bool = False, head_dim: int = 0) -> Layer:
    """A layer with layer norms and biases everywhere, whose tokens all see each other."""
    wide = head_dim or hidden // heads
    mixer = Attention(heads=heads, kv_heads=heads, head_dim=wide, v_head_dim=wide, qkv_bias=True, out_bias=True, causal=False)
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


def clip(config: Config) -> Model:
    """Two towers with a projection each and a learnt scale; counted, with the text tower as the model."""
    text, vision = config.section("text_config"), config.section("vision_config")
    if text is None or vision is None:
        config.fail(None, "the configuration lacks 'text_config' or 'vision_config'")
        return decoder(config, ())
    width = config.integer("projection_dim", default=512)
    for part in (text, vision):
        part.integer("projection_dim", default=width)
        part.flag("tie_word_embeddings")
    hidden = text.integer("hidden_size")
    layer = encoder_layer(hidden, text.integer("num_attention_heads"), text.integer("intermediate_size"))
    elements = _clip_vision(vision) + width * (hidden + vision.integer("hidden_size")) + 1
    config.notes.append("counted: both towers, projections and the scale; position ids are a buffer and no parameter")
    model = Model(
        name="",
        model_type="clip",
        kind="encoder",
        hidden=hidden,
        vocab=text.integer("vocab_size"),
        layers=(layer,) * layer_count(text),
        norm="layernorm",
        norm_bias=True,
        head=False,
        positions=text.integer("max_position_embeddings"),
        extras=(Extra(name="vision_tower", part="vision", elements=elements),),
        dtype=dtype_of(config),
    )
    text.close()
    vision.close()
    return model


# --------------------------------------------------------------------------- towers
def _tower(layer: Layer, count: int, hidden: int, norm: str = "layernorm") -> int:
    """Parameters of the layers of a tower."""
    model = Model(name="", model_type="", hidden=hidden, vocab=0, layers=(), norm=norm, norm_bias=True)
    return count * sum(w.elements for w in layer_weights(model, layer))


def _clip_vision(v: Config) -> int:
    hidden, patch = v.integer("hidden_size"), v.integer("patch_size")
    patches = (v.integer("image_size") // patch) ** 2
    layer = encoder_layer(hidden, v.integer("num_attention_heads"), v.integer("intermediate_size"))
    stem = hidden * v.integer("num_channels", default=3) * patch**2 + hidden + (patches + 1) * hidden
    return stem + 4 * hidden + _tower(layer, layer_count(v), hidden)


def siglip(v: Config, text_hidden: int) -> int:
    """Gemma 3: SigLIP, a norm and a projection."""
    hidden, patch = v.integer("hidden_size"), v.integer("patch_size")
    v.refuse("vision_use_head", "a pooling head of SigLIP")
    patches = (v.integer("image_size", default=224) // patch) ** 2
    layer = encoder_layer(hidden, v.integer("num_attention_heads"), v.integer("intermediate_size"))
    stem = hidden * (v.integer("num_channels", default=3) * patch**2 + 1) + patches * hidden
    return stem + 2 * hidden + _tower(layer, layer_count(v), hidden) + hidden + hidden * text_hidden


def llama4_vision(v: Config, text_hidden: int) -> int:
    """Llama 4: a ViT with rotary positions beside learnt ones, pixels shuffled into an adapter, a projection."""
    hidden, patch = v.integer("hidden_size"), v.integer("patch_size")
    patches = (v.integer("image_size") // patch) ** 2
    layer = encoder_layer(hidden, v.integer("num_attention_heads"), v.integer("intermediate_size"))
    stem = hidden * v.integer("num_channels", default=3) * patch**2 + hidden + (patches + 1) * hidden
    into, out = v.integer("projector_input_dim"), v.integer("projector_output_dim")
    shuffled = round(hidden / max(v.number("pixel_shuffle_ratio", 0.5), 0.01) ** 2)
    v.refuse("multi_modal_projector_bias", "a biased projector")
    v.taken.update(("vision_feature_layer", "vision_feature_select_strategy", "projector_dropout"))
    adapter = shuffled * into + into * out + v.integer("vision_output_dim") * text_hidden
    return stem + 4 * hidden + _tower(layer, layer_count(v), hidden) + adapter


def qwen_vision(v: Config, text_hidden: int) -> int:
    """Qwen VL: patches in space and time, merged two by two into the text width; Qwen3 with positions and further mergers."""
    hidden, patch = v.integer("hidden_size"), v.integer("patch_size", "spatial_patch_size")
    v.taken.update(("spatial_patch_size", "window_size", "fullatt_block_indexes", "tokens_per_second", "in_chans"))
    channels = v.integer("in_channels", "in_chans", "in_channel", default=3)
    merged = hidden * v.integer("spatial_merge_size", default=2) ** 2
    old = v.word("model_type") in ("", "qwen2_5_vl")
    layer = encoder_layer(hidden, v.integer("num_heads"), v.integer("intermediate_size"), gated=old)
    count, out = v.integer("depth"), v.integer("out_hidden_size", default=text_hidden)
    pixels = channels * v.integer("temporal_patch_size", default=2) * patch**2
    merger = merged * (merged + 1) + (merged + 1) * out
    if old:
        return hidden * pixels + _tower(layer, count, hidden, "rmsnorm") + hidden + merger
    further = len(v.items("deepstack_visual_indexes") or [])
    positions = v.integer("num_position_embeddings", default=0, minimum=0) * hidden
    tower = hidden * (pixels + 1) + positions + _tower(layer, count, hidden)
    return tower + 2 * hidden + merger + further * (2 * merged + merger)


def kimi_vision(v: Config, text_hidden: int) -> int:
    """Kimi K2.5: MoonViT with interpolated positions, patches merged two by two behind a norm."""
    hidden, patch = v.integer("vt_hidden_size"), v.integer("patch_size")
    layer = encoder_layer(hidden, v.integer("vt_num_attention_heads"), v.integer("vt_intermediate_size"))
    positions = v.integer("init_pos_emb_height") * v.integer("init_pos_emb_width") * hidden
    v.taken.update(("init_pos_emb_time", "merge_type", "mm_projector_type", "pos_emb_type", "video_attn_type", "projector_hidden_act"))
    v.taken.update(("projector_ln_eps", "text_hidden_size"))
    kernel = [x.data for x in v.items("merge_kernel_size", 2) or []] or [2, 2]
    if not all(isinstance(k, int) and k > 0 for k in kernel):
        v.fail(v.find("merge_kernel_size"), "'merge_kernel_size' must be two whole numbers")
        kernel = [2, 2]
    merged = hidden * int(kernel[0]) * int(kernel[1])
    wide = v.integer("mm_hidden_size", default=hidden)
    projector = 2 * wide + merged * (merged + 1) + (merged + 1) * text_hidden
    return hidden * (3 * patch**2 + 1) + positions + _tower(layer, v.integer("vt_num_hidden_layers"), hidden) + 2 * hidden + projector


TOWERS = {
    "gemma3": siglip,
    "llama4": llama4_vision,
    "qwen2_5_vl": qwen_vision,
    "qwen3_vl": qwen_vision,
    "qwen3_vl_moe": qwen_vision,
    "qwen3_5": qwen_vision,
    "qwen3_5_moe": qwen_vision,
    "kimi_k25": kimi_vision,
}
"""Vision towers by the type of the model around them: their parameters, with what joins them to the text model."""
