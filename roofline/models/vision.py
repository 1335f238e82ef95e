"""The vision towers of decoders that also see, and CLIP's: from their keys to layers, stems and what joins them to the text.

Rows are written in the params of a tower: ``image_batch`` images of ``patches`` patches each (``image_rows`` in all), of which the text
sees ``image_tokens``. Windows are squares of patches that see each other; where an image's sides are no whole multiples of theirs, all but
the last are taken as full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from roofline.models.config import Config
from roofline.models.description import IMAGES, ROWS, SEEN, Attention, Layer, Model, Piece, Pixels, Tower
from roofline.models.encoder import encoder_layer
from roofline.models.reading import MOST_LAYERS, activation, layer_count
from roofline.models.weights import tower_weights

UNSEEN = "the vision tower is counted among the parameters and no step of the import"
"""Said of a model whose steps are those of its text."""


def tower(layers: tuple[Layer, ...], hidden: int, stem: Pixels, *pieces: Piece, tokens: str, **changes: Any) -> Tower:
    """A tower of that width; layer norms with beta and a final norm unless changed."""
    given: dict[str, Any] = {"norm": "layernorm", "norm_bias": True, **changes}
    model = Model(name="vision", model_type="vision", kind="encoder", hidden=hidden, vocab=0, layers=layers, head=False, **given)
    return Tower(name="vision", model=model, stem=stem, pieces=pieces, tokens=tokens)


def elements(seen: Tower) -> int:
    """Parameters of a tower, with its stem and what joins it to the text."""
    stem, hidden = seen.stem, seen.model.hidden
    assert isinstance(stem, Pixels)
    first = hidden * (stem.channels * stem.frames * stem.patch**2 + int(stem.bias) + int(stem.class_token) + 2 * int(stem.norm))
    return first + sum(w.elements for w in tower_weights(seen))


def _plain(v: Config, *, act: str = "gelu", rotary: bool = False, size: int | None = None) -> tuple[tuple[Layer, ...], int, Pixels]:
    """Layers with biases everywhere, their width, and images of one size, the family's ``size`` where none is stated."""
    hidden, heads = v.integer("hidden_size"), v.integer("num_attention_heads")
    turned = hidden // heads if rotary else 0
    layer = encoder_layer(hidden, heads, v.integer("intermediate_size"), act=activation(v, act), rotary=turned)
    pixels = Pixels(
        channels=v.integer("num_channels", default=3), patch=v.integer("patch_size"), size=v.integer("image_size", default=size)
    )
    return (layer,) * layer_count(v), hidden, pixels


def _depth(v: Config, name: str) -> int:
    """How many layers, under another name than that of text models."""
    count = v.integer(name)
    if count > MOST_LAYERS:
        v.fail(v.find(name), f"{count} layers; at most {MOST_LAYERS} are read")
        return 1
    return count


def _patches(stem: Pixels) -> int:
    return (stem.size // stem.patch) ** 2


def clip(v: Config, width: int) -> Tower:
    """CLIP: norms before the layers and, of the class token alone, behind them; a projection to ``width``."""
    layers, hidden, stem = _plain(v)
    pieces = (Piece("post_norm", "layernorm", IMAGES, hidden), Piece("projection", "gemm", IMAGES, width, hidden))
    pixels = replace(stem, class_token=True, norm=True)
    return tower(layers, hidden, pixels, *pieces, tokens="1", final_norm=False, positions=_patches(stem) + 1)


def siglip(v: Config, text_hidden: int, outer: Config) -> Tower:
    """Gemma 3: SigLIP, whose patches are pooled to so many an image; a norm and a projection."""
    layers, hidden, stem = _plain(v, act="gelu_tanh", size=224)
    v.refuse("vision_use_head", "a pooling head of SigLIP")
    patches, seen = _patches(stem), outer.integer("mm_tokens_per_image", default=256)
    if patches % seen:
        v.fail(outer.find("mm_tokens_per_image") or v.find("image_size"), f"{patches} patches cannot be pooled to {seen} rows of an image")
    pieces = (
        Piece("pool", "pool", SEEN, hidden, max(patches // seen, 1)),
        Piece("soft_norm", "rmsnorm", SEEN, hidden),
        Piece("projection", "gemm", SEEN, text_hidden, hidden),
    )
    return tower(layers, hidden, replace(stem, bias=True), *pieces, tokens=str(seen), positions=patches)


def llama4(v: Config, text_hidden: int, outer: Config) -> Tower:
    """Llama 4: a ViT with rotary positions beside learnt ones, pixels shuffled into an adapter of two products, a projection."""
    layers, hidden, stem = _plain(v, rotary=True)
    into, out = v.integer("projector_input_dim"), v.integer("projector_output_dim")
    ratio = max(v.number("pixel_shuffle_ratio", 0.5), 0.01)
    shuffled, seen = round(hidden / ratio**2), max(round(_patches(stem) * ratio**2), 1)
    v.refuse("multi_modal_projector_bias", "a biased projector")
    v.taken.update(("vision_feature_layer", "vision_feature_select_strategy", "projector_dropout"))
    pieces = (
        Piece("pixel_shuffle", "copy", SEEN, shuffled),
        Piece("adapter_in", "gemm", SEEN, into, shuffled, split="n"),
        Piece("adapter_activation", "gelu", SEEN, into, split="n"),
        Piece("adapter_out", "gemm", SEEN, out, into, split="k"),
        Piece("adapter_activation2", "gelu", SEEN, out),
        Piece("projection", "gemm", SEEN, text_hidden, v.integer("vision_output_dim")),
    )
    pixels = replace(stem, class_token=True, norm=True)
    return tower(layers, hidden, pixels, *pieces, tokens=str(seen), positions=_patches(stem) + 1)


def _merger(name: str, merged: int, out: int, *, norm: Piece, times: int = 1) -> tuple[Piece, ...]:
    """A norm, and two products with biases that take patches merged into one row to the text's width."""
    return (
        norm,
        Piece(f"{name}_in", "gemm", SEEN, merged, merged, bias=True, times=times, split="n"),
        Piece(f"{name}_activation", "gelu", SEEN, merged, times=times, split="n"),
        Piece(f"{name}_out", "gemm", SEEN, out, merged, bias=True, times=times, split="k"),
    )


def qwen(v: Config, text_hidden: int, outer: Config) -> Tower:
    """Qwen VL: patches in space and time, merged into the text's width; 2.5 sees windows, 3 has positions and further mergers."""
    hidden, patch = v.integer("hidden_size"), v.integer("patch_size", "spatial_patch_size")
    v.taken.update(("spatial_patch_size", "tokens_per_second", "in_chans"))
    channels, side = v.integer("in_channels", "in_chans", "in_channel", default=3), v.integer("spatial_merge_size", default=2)
    old = v.word("model_type") in ("", "qwen2_5_vl")
    heads, count, out = v.integer("num_heads"), _depth(v, "depth"), v.integer("out_hidden_size", default=text_hidden)
    act = activation(v, "silu" if old else "gelu_tanh")
    layer = encoder_layer(hidden, heads, v.integer("intermediate_size"), act=act, gated=old, rotary=hidden // heads)
    layers = _windowed(v, layer, count, patch)
    merged, seen = hidden * side**2, f"patches / {side**2}"
    frames = v.integer("temporal_patch_size", default=2)
    unit = max(patch * side, v.integer("window_size", default=0, minimum=0) if old else 0)
    if old:
        norm = Piece("merger_norm", "rmsnorm", ROWS, hidden)
        pixels = Pixels(channels=channels, patch=patch, unit=unit, merged=side, frames=frames)
        return tower(layers, hidden, pixels, *_merger("merger", merged, out, norm=norm), tokens=seen, norm="rmsnorm", final_norm=False)
    pixels = Pixels(channels=channels, patch=patch, unit=unit, merged=side, frames=frames, bias=True, blended=4)
    pieces = _merger("merger", merged, out, norm=Piece("merger_norm", "layernorm", ROWS, hidden))
    further = len(v.items("deepstack_visual_indexes") or [])
    if further:
        norm = Piece("deepstack_norm", "layernorm", SEEN, merged, times=further)
        pieces += _merger("deepstack", merged, out, norm=norm, times=further)
        pieces += (Piece("deepstack_add", "add", SEEN, out, times=further),)
    positions = v.integer("num_position_embeddings", default=0, minimum=0)
    return tower(layers, hidden, pixels, *pieces, tokens=seen, positions=positions, final_norm=False)


def _windowed(v: Config, layer: Layer, count: int, patch: int) -> tuple[Layer, ...]:
    """Layers whose patches see those of their window, but for the layers that see the whole image."""
    pixels, whole = v.integer("window_size", default=0, minimum=0), v.items("fullatt_block_indexes")
    if not pixels or whole is None:
        return (layer,) * count
    seen = {index.data for index in whole}
    assert isinstance(layer.mixer, Attention)
    wide = max(pixels // patch, 1) ** 2
    local = replace(layer, mixer=replace(layer.mixer, window=wide, chunked=True))
    return tuple(layer if i in seen else local for i in range(count))


def kimi(v: Config, text_hidden: int, outer: Config) -> Tower:
    """Kimi K2.5: MoonViT with interpolated positions and rotated ones, patches merged behind a norm."""
    hidden, patch, heads = v.integer("vt_hidden_size"), v.integer("patch_size"), v.integer("vt_num_attention_heads")
    layer = encoder_layer(hidden, heads, v.integer("vt_intermediate_size"), act="gelu_tanh", rotary=hidden // heads)
    positions = v.integer("init_pos_emb_height") * v.integer("init_pos_emb_width")
    v.taken.update(("init_pos_emb_time", "merge_type", "mm_projector_type", "pos_emb_type", "video_attn_type", "projector_hidden_act"))
    v.taken.update(("projector_ln_eps", "text_hidden_size"))
    kernel = [x.data for x in v.items("merge_kernel_size", 2) or []] or [2, 2]
    if not all(isinstance(k, int) and 0 < k <= MOST_LAYERS for k in kernel) or kernel[0] != kernel[1]:
        v.fail(v.find("merge_kernel_size"), "'merge_kernel_size' must be two equal whole numbers")
        kernel = [2, 2]
    side = int(kernel[0])
    wide, merged = v.integer("mm_hidden_size", default=hidden), hidden * side**2
    pieces = _merger("projector", merged, text_hidden, norm=Piece("projector_norm", "layernorm", ROWS, wide))
    pixels = Pixels(channels=3, patch=patch, unit=patch * side, merged=side, bias=True, blended=16)
    layers = (layer,) * _depth(v, "vt_num_hidden_layers")
    return tower(layers, hidden, pixels, *pieces, tokens=f"patches / {side**2}", positions=positions)


TOWERS: dict[str, Callable[[Config, int, Config], Tower]] = {
    "gemma3": siglip,
    "llama4": llama4,
    "qwen2_5_vl": qwen,
    "qwen3_vl": qwen,
    "qwen3_vl_moe": qwen,
    "qwen3_5": qwen,
    "qwen3_5_moe": qwen,
    "kimi_k25": kimi,
}
"""Vision towers by the type of the model around them, from their own keys, the text's width and the keys around both."""
