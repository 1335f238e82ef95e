"""The params of what stands beside the text: images and their patches, or the source of an encoder; and the names that its steps use.

Steps of a tower are written as those of any model and then renamed: its sequences are images, or sources.
"""

from __future__ import annotations

from roofline.models.description import Model, Pixels, Tower

SIDE = 1024
"""Pixels a side of an image until somebody says otherwise, at most, in whole multiples of what a tower takes."""
LONGEST = 4096

Params = dict[str, int | str]


def beside(model: Model, phase: str, images: bool) -> Tower | None:
    """The tower whose rows the steps of this phase need: the encoder, or the eyes where there are images (CLIP and encode always)."""
    if model.encoder is not None:
        return model.encoder
    return model.eyes if images or phase == "encode" or model.model_type == "clip" else None


def tower_params(tower: Tower, batch: str, images: str = "images") -> Params:
    """Those of a tower alone: of ``batch`` sources, or of the images that ``images`` says."""
    if not isinstance(tower.stem, Pixels):
        source = tower.model.positions or tower.model.context or LONGEST
        return {"source": min(source, LONGEST), "source_tokens": f"{batch} * source"}
    stem = tower.stem
    found: Params = {"images": 1}
    if stem.size:
        found["patches"] = str((stem.size // stem.patch) ** 2)
    else:
        side = max(SIDE // stem.unit, 1) * stem.unit
        found |= {"image_height": side, "image_width": side}
        square = stem.patch * stem.merged  # images are scaled to whole squares
        found["patches"] = f"ceil_div(image_height, {square}) * ceil_div(image_width, {square}) * {stem.merged**2}"
    if images != "images":
        found["image_tokens"] = tower.tokens
    return {**found, "image_batch": images, "image_rows": f"image_batch * {rows_of(stem)}"}


def rows_of(stem: Pixels) -> str:
    """Rows of one image: its patches, and a class token."""
    return "(patches + 1)" if stem.class_token else "patches"


def words_of(tower: Tower) -> dict[str, str]:
    """What the names in the steps of any model mean in a tower's."""
    if isinstance(tower.stem, Pixels):
        return {"tokens": "image_rows", "batch": "image_batch", "seq": rows_of(tower.stem)}
    return {"tokens": "source_tokens", "seq": "source"}


def with_images(params: Params, tower: Tower) -> Params:
    """A prefill whose sequences have images in them: ``seq`` is their text, ``length`` all of it."""
    added = tower_params(tower, "batch", "batch * images")
    own = {k: v for k, v in params.items() if k != "tokens"}
    return {**own, **added, "length": "seq + images * image_tokens", "tokens": "batch * length"}


def with_source(params: Params, tower: Tower) -> Params:
    """Sequences of a decoder, each with a source of its own."""
    own = {k: v for k, v in params.items() if k != "tokens"}
    return {**own, **tower_params(tower, "batch"), "tokens": params["tokens"]}


def encode_params(model: Model, tower: Tower) -> Params:
    """A tower alone."""
    if model.encoder is not None or model.model_type == "clip":
        shared = {} if model.encoder is None else {"batch": 1}
        return {**shared, **tower_params(tower, "batch")}
    return {"batch": 1, **tower_params(tower, "batch", "batch * images")}
