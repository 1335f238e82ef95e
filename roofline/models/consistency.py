"""What a described model must be for its steps to exist: sizes of at least 1, heads that divide, widths that are even."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.models.description import Attention, DeltaNet, Experts, LatentAttention, Layer, Mlp, Model, Pixels, Tower

LARGEST_SIDE = 2**16
"""Pixels a side that no image has."""


def contradictions(model: Model) -> Iterator[str]:
    """A sentence for each thing that cannot be."""
    if not model.layers:
        yield "the model has no layers"
    if model.image[0] and model.image[1] < model.image[2]:
        yield f"an image of {model.image[1]} holds no patch of {model.image[2]}"
    for layer in dict.fromkeys((*model.layers, *model.mtp)):
        yield from _layer(layer)
    for tower in model.towers:
        yield from _tower(tower)


def _tower(tower: Tower) -> Iterator[str]:
    """What cannot be of the layers beside the text, and of the images that they look at."""
    stem = tower.stem
    if not tower.model.layers:
        yield f"the {tower.name} has no layers"
    if isinstance(stem, Pixels) and stem.size and stem.size < stem.patch:
        yield f"an image of {stem.size} holds no patch of {stem.patch}"
    if isinstance(stem, Pixels) and stem.patch * stem.merged > LARGEST_SIDE:
        yield f"squares of {stem.patch} x {stem.merged} pixels a side are larger than images are"
    for layer in dict.fromkeys(tower.model.layers):
        yield from (f"{tower.name}: {said}" for said in _layer(layer))


def _layer(layer: Layer) -> Iterator[str]:
    mixer, feed = layer.mixer, layer.feed
    if isinstance(mixer, Attention):
        yield from _attention(mixer)
    elif isinstance(mixer, LatentAttention) and mixer.rope % 2:
        yield f"qk_rope_head_dim {mixer.rope} is odd, but elements are rotated in pairs"
    elif isinstance(mixer, DeltaNet) and mixer.value_heads % mixer.key_heads:
        yield f"{mixer.value_heads} value heads are not a multiple of {mixer.key_heads} key heads"
    width = feed.width if isinstance(feed, (Mlp, Experts)) else 1
    if width < 1:
        yield "a feed-forward has no width"
    if isinstance(feed, Experts) and feed.active > feed.experts:
        yield f"{feed.active} active experts are more than {feed.experts}"


def _attention(a: Attention) -> Iterator[str]:
    if a.head_dim < 1:
        yield f"{a.heads} heads are more than the hidden size has elements"
    if a.heads % max(a.kv_heads, 1):
        yield f"{a.heads} heads are not a multiple of {a.kv_heads} key and value heads"
    if a.rotary % 2 or a.rotary > a.head_dim:
        yield f"{a.rotary} rotated elements of a head must be even and at most its {a.head_dim}"
