"""The params of what stands beside the text: images and their patches, or the source of an encoder; and the names that its steps use.

Steps of a tower are written as those of any model and then renamed: its sequences are images, or sources.

Under a plan a vision tower runs on the first stage. Where tp divides its heads and inner widths, ranks share its products as they share
those of the text. Else each has the whole tower and a share of the images, whose rows are then gathered. These are the modes ``weights``
and ``data`` of vLLM's option ``mm_encoder_tp_mode`` (`Qwen2_5_VisionAttention` in its models/qwen2_5_vl.py divides heads by ranks without
a rest in the first, `run_dp_sharded_vision_model` in its models/vision.py takes ceil(images / ranks) a rank in the second).
``image_ranks`` is tp in the first and 1 in the second.
"""

from __future__ import annotations

from dataclasses import replace

from roofline.errors import UsageError
from roofline.models.count import mixer_flop
from roofline.models.description import IMAGES, ROWS, SEEN, Model, Pixels, Tower
from roofline.models.weights import shared_by, tower_weights
from roofline.numeric import Number, anywhere, ceil_div, scalar, total, where
from roofline.plan.job import Job

SIDE = 1024
"""Pixels a side of an image until somebody says otherwise, at most, in whole multiples of what a tower takes."""
LONGEST = 4096

NO_EYES = "'{}' has no vision tower in its configuration, so that it takes no images"
Params = dict[str, int | str]


def beside(model: Model, phase: str, images: bool) -> Tower | None:
    """The tower whose rows the steps of this phase need: the encoder, or the eyes where there are images (CLIP and encode always)."""
    if model.encoder is not None:
        return model.encoder
    return model.eyes if images or phase == "encode" or model.model_type == "clip" else None


def tower_params(tower: Tower, batch: str, images: str = "images", *, parallel: bool = False) -> Params:
    """Those of a tower alone: of ``batch`` sources, or of the images that ``images`` says, of which a rank may have a share."""
    if not isinstance(tower.stem, Pixels):
        return {"source": _source(tower), "source_tokens": f"{batch} * source"}
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
    if parallel:
        found["image_ranks"] = f"1 + (tp - 1) * (1 - min({shared_by(tower)} % tp, 1))"
        images = f"ceil_div({images}, tp / image_ranks)"
    return {**found, "image_batch": images, "image_rows": f"image_batch * {rows_of(stem)}"}


def _source(tower: Tower) -> int:
    """Tokens of a source until somebody says otherwise."""
    return min(tower.model.positions or tower.model.context or LONGEST, LONGEST)


def rows_of(stem: Pixels) -> str:
    """Rows of one image: its patches, and a class token."""
    return "(patches + 1)" if stem.class_token else "patches"


def words_of(tower: Tower) -> dict[str, str]:
    """What the names in the steps of any model mean in a tower's; under a plan without context parallelism, as the rules of plans ask."""
    if isinstance(tower.stem, Pixels):
        return {"tokens": "image_rows", "batch": "image_batch", "seq": rows_of(tower.stem), "tp": "image_ranks", "cp": "1"}
    return {"tokens": "source_tokens", "seq": "source", "cp": "1"}


def with_images(params: Params, tower: Tower, *, parallel: bool = False) -> Params:
    """A prefill whose sequences have images in them: ``seq`` is their text, ``length`` all of it."""
    added = tower_params(tower, "batch", "batch * images", parallel=parallel)
    own = {k: v for k, v in params.items() if k != "tokens"}
    return {**own, **added, "length": "seq + images * image_tokens", "tokens": "batch * length"}


def with_source(params: Params, tower: Tower) -> Params:
    """Sequences of a decoder, each with a source of its own."""
    own = {k: v for k, v in params.items() if k != "tokens"}
    return {**own, **tower_params(tower, "batch"), "tokens": params["tokens"]}


def encode_params(model: Model, tower: Tower, *, parallel: bool = False) -> Params:
    """A tower alone."""
    if model.encoder is not None or model.model_type == "clip":
        shared = {} if model.encoder is None else {"batch": 1}
        return {**shared, **tower_params(tower, "batch")}
    return {"batch": 1, **tower_params(tower, "batch", "batch * images", parallel=parallel)}


# --------------------------------------------------------------------------- of a job, as numbers
def own_length(model: Model) -> dict[str, int]:
    """The tokens of a sequence where the model alone says them: the patches of an image of one size, and a class token."""
    return {"seq": model.positions} if model.image[0] else {}


def require_length(model: Model, seq: Number) -> None:
    """Refuse another length of a sequence than the one that the model has.

    Raises:
        UsageError: with both.
    """
    own = own_length(model).get("seq")
    if own is not None and anywhere(seq != own):
        raise UsageError(f"seq: an image of '{model.model_type}' has {own} positions, no more and no fewer; leave it out")


def with_towers(model: Model, job: Job) -> Job:
    """The job with what a model has beside its text: the tokens of a source where nobody says them, the pixels of images, and the rows
    that the text sees of one.

    Raises:
        UsageError: a source or images of a model without a tower for them, pixels of images that have one size, or without images, or
            another length than that of the model's images.
    """
    if job.phase in ("train", "prefill"):
        require_length(model, job.seq)
    if model.encoder is not None:
        return replace(_with_pixels(model, job), source=where(job.source > 0, job.source, _source(model.encoder)))
    if anywhere(job.source > 0):
        raise UsageError(f"'{model.model_type}' has no encoder, and no source: leave out source")
    return _with_pixels(model, job)


def _with_pixels(model: Model, job: Job) -> Job:
    tower, stated = model.eyes, anywhere(job.image_height > 0) or anywhere(job.image_width > 0)
    if not anywhere(job.images > 0):
        if stated:
            raise UsageError("image_height and image_width are those of images: add --set images=1")
        return job
    if tower is None:
        raise UsageError(NO_EYES.format(model.model_type))
    stem = tower.stem
    assert isinstance(stem, Pixels)
    if stem.size:
        if stated:
            raise UsageError(f"images of '{model.model_type}' are {stem.size} pixels a side: leave out image_height and image_width")
        return replace(job, image_tokens=int(tower.tokens))
    side = max(SIDE // stem.unit, 1) * stem.unit
    height, width = (where(pixels > 0, pixels, side) for pixels in (job.image_height, job.image_width))
    found = replace(job, image_height=height, image_width=width)
    return replace(found, image_tokens=_patches(stem, found) // stem.merged**2)


def _patches(stem: Pixels, job: Job) -> Number:
    """Patches of an image; those of any resolution are scaled to whole squares of merged patches."""
    if stem.size:
        return (stem.size // stem.patch) ** 2
    square = stem.patch * stem.merged
    return ceil_div(job.image_height, square) * ceil_div(job.image_width, square) * stem.merged**2


def image_flop(model: Model, job: Job, *, attention: bool = True) -> Number:
    """Matrix FLOP of one image of a job in the tower and what leads from it to the text, counted from the weights; 0 without images."""
    tower = model.eyes
    if tower is None or not anywhere(job.images > 0):
        return 0
    stem = tower.stem
    assert isinstance(stem, Pixels)
    patches = _patches(stem, job)
    rows = patches + int(stem.class_token)
    seen = {ROWS: rows, SEEN: job.image_tokens, IMAGES: 1}
    of_piece = {piece.name: seen[piece.rows] for piece in tower.pieces}
    first = 2 * patches * stem.channels * stem.frames * stem.patch**2 * tower.model.hidden
    products = total(w.flop * of_piece.get(w.path, rows) for w in tower_weights(tower))
    scores = total(rows * mixer_flop(layer.mixer, int(scalar(rows))) for layer in tower.model.layers) if attention else 0
    return first + products + scores
