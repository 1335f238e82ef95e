"""The steps of what stands beside the text: an encoder, a vision tower with what joins it to the text, CLIP's pairs.

Weights of a vision tower are taken to be stored in the model's own format, also where those of the text are quantised, as published files
leave them. A stack is that of any model in a prefill (in training, with its backward passes), renamed; what ranks share of a vision tower
under a plan is said in `roofline.models.tower_params`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from roofline.models.collectives import collective, leave
from roofline.models.cross_steps import position_bias
from roofline.models.description import Piece, Pixels, Sound, Tower
from roofline.models.expansion import Expansion, Fields
from roofline.models.steps import in_file, layers_of
from roofline.models.tower_params import words_of
from roofline.models.training import trained
from roofline.plan.plan import Plan

BLENDED_FLOP = 2
"""Of each row from which a position is interpolated, an element: a product and a sum."""


def tower_steps(expansion: Expansion, tower: Tower) -> list[Fields]:
    """All steps of a tower and of what joins it to the text, named after it."""
    phase = "train" if expansion.training else "prefill"
    how = expansion.how if tower.counted else None
    own = replace(tower.model, dtype=expansion.model.dtype)
    inner = Expansion(model=own, phase=phase, how=how, attention=expansion.attention, plan=_plan(expansion))
    layers = [in_file(s, sort.name, len(sort.layers)) for sort in layers_of(inner) for s in sort.steps if s.get("axis") != "cp"]
    ends = [_stem(inner, tower, expansion.model.vocab), _behind(inner, tower)]
    first, last = (trained(inner, list(steps)) if expansion.training else list(steps) for steps in ends)
    steps = [*renamed([*first, *layers, *last], words_of(tower)), *_gathered(expansion, tower)]
    return [{**step, "part": "embedding"} for step in _named(tower.name, steps)]


def _plan(expansion: Expansion) -> Plan | None:
    """How a tower is spread: its rows are those of whole images, or sources, on every rank of cp, and its norms see all of them."""
    return replace(expansion.plan, sequence_parallel=False, context_kind="all_gather") if expansion.plan is not None else None


def renamed(steps: Iterable[Fields], words: Mapping[str, str]) -> Iterator[Fields]:
    """Steps with other names in their expressions; what says whether and where a step stands is left."""
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b")
    for step in steps:
        yield {k: pattern.sub(lambda m: words[m[0]], v) if isinstance(v, str) and k not in _SAID else v for k, v in step.items()}


_SAID = ("id", "op", "part", "tied_to", "pass", "function", "implementation", "axis", "when", "why")


def _named(name: str, steps: Iterable[Fields]) -> Iterator[Fields]:
    for step in steps:
        tied = {"tied_to": f"{name}/{step['tied_to']}"} if "tied_to" in step else {}
        yield {**step, "id": f"{name}/{step['id']}", **tied}


# --------------------------------------------------------------------------- in front
def _stem(inner: Expansion, tower: Tower, vocab: int) -> Iterator[Fields]:
    """What makes the rows of a tower: words of the text's vocabulary, patches or frames of sound, of which each rank makes all."""
    if isinstance(tower.stem, Pixels):
        yield from _pixels(inner, tower, tower.stem)
    elif isinstance(tower.stem, Sound):
        yield from _sound(tower, tower.stem)
    else:
        rows = f"ceil_div({vocab}, tp)" if inner.parallel else vocab
        yield {"id": "embedding", "op": "embedding", "tokens": "tokens", "vocab": rows, "hidden": tower.model.hidden}
        yield from leave(inner, "embedding")
    if tower.model.relative:
        yield from position_bias(inner)


def _sound(tower: Tower, stem: Sound) -> Iterator[Fields]:
    """Two convolutions in time, the second of which takes two frames to one, each with a gelu; a table of sinusoids."""
    hidden = tower.model.hidden
    for number, (channels, stride, length) in enumerate(((stem.mels, 1, "2 * seq"), (hidden, 2, "seq")), start=1):
        shape = {"batch": "batch", "in_channels": channels, "height": 1, "width": "2 * seq", "out_channels": hidden}
        taps = {"kernel": 1, "stride": 1, "kernel_w": 3, "stride_w": stride, "padding_w": 1, "bias": True}
        yield {"id": f"conv{number}", "op": "conv2d", **shape, **taps}
        yield {"id": f"conv{number}_activation", "op": "elementwise", "function": "gelu", "elements": f"batch * {length} * {hidden}"}
    yield {"id": "positions", "op": "embedding", "tokens": "tokens", "vocab": tower.model.positions, "hidden": hidden}


def _pixels(inner: Expansion, tower: Tower, stem: Pixels) -> Iterator[Fields]:
    """Patches of an image of fixed size by a convolution, others by a product; a class token, positions, a norm."""
    model = tower.model
    bias = {"bias": True} if stem.bias else {}
    if stem.size:
        shape = {"batch": "batch", "in_channels": stem.channels, "height": stem.size, "width": stem.size, "out_channels": model.hidden}
        yield {"id": "patch_embedding", "op": "conv2d", **shape, "kernel": stem.patch, "stride": stem.patch, **bias}
    else:
        taken = stem.channels * stem.frames * stem.patch**2
        yield {"id": "patch_embedding", "op": "gemm", "m": "batch * patches", "n": model.hidden, "k": taken, **bias}
    if stem.class_token:
        yield {"id": "class_token", "op": "custom", "read": "0 B", "weights": model.hidden}
    if model.positions:
        yield _positions(inner, tower, stem)
    if stem.norm:
        yield {"id": "pre_norm", "op": "layernorm", "rows": "tokens", "cols": model.hidden, "residual": True}


def _positions(inner: Expansion, tower: Tower, stem: Pixels) -> Fields:
    """Rows of a table, or a blend of several of them for each patch: every row of the table is then read once."""
    model, elements = tower.model, f"tokens * {tower.model.hidden}"
    if stem.blended == 1:
        return {"id": "positions", "op": "embedding", "tokens": "tokens", "vocab": model.positions, "hidden": model.hidden}
    return {
        "id": "positions", "op": "custom", "vector_flop": f"{BLENDED_FLOP * stem.blended} * {elements} FLOP", "read": "0 B",
        "write": f"{inner.element} * {elements} B", "weights": model.positions * model.hidden,
    }  # fmt: skip


# --------------------------------------------------------------------------- behind
def _behind(inner: Expansion, tower: Tower) -> Iterator[Fields]:
    """The final norm, and the pieces that lead to the text; what stands several times is repeated as a group."""
    if tower.model.final_norm:
        yield inner.norm("final_norm", residual=True)
    for piece in tower.pieces:
        if piece.op == "add" and inner.parallel:  # to states of the text, which has all images
            continue
        times = _times(piece)
        yield {**_piece(inner, piece), **times}
        if piece.split == "k" and inner.parallel:
            yield {**collective(f"{piece.name}_reduce", "all_reduce", "tp", f"{inner.element * piece.width} * {piece.rows}"), **times}


def _times(piece: Piece) -> Fields:
    return {"repeat": piece.times} if piece.times > 1 else {}


def _gathered(expansion: Expansion, tower: Tower) -> Iterator[Fields]:
    """Under a plan: the images of other ranks, where each has a share of them, and what layers of the text add to their states of all."""
    if not expansion.parallel or not isinstance(tower.stem, Pixels):
        return
    added = [replace(piece, rows="batch * images * image_tokens") for piece in tower.pieces if piece.op == "add"]
    width = expansion.model.hidden + sum(piece.width * piece.times for piece in added)
    gather = collective("images_gather", "all_gather", "tp", f"{expansion.element * width} * batch * images * image_tokens")
    yield {**gather, "ranks": "tp / image_ranks"}
    for piece in added:
        yield {**_piece(expansion, piece), **_times(piece)}


def _piece(inner: Expansion, piece: Piece) -> Fields:
    element, width = inner.element, inner.over(piece.width) if piece.split == "n" else piece.width
    elements = f"{piece.rows} * {width}"
    if piece.op == "gemm":
        bias = {"bias": True} if piece.bias else {}
        into = inner.over(piece.into) if piece.split == "k" else piece.into
        return {"id": piece.name, "op": "gemm", "m": piece.rows, "n": width, "k": into, **bias}
    if piece.op in ("layernorm", "rmsnorm"):
        return {"id": piece.name, "op": piece.op, "rows": piece.rows, "cols": piece.width}
    if piece.op == "pool":
        taken = f"{elements} * {piece.into}"
        moved = {"read": f"{element} * {taken} B", "write": f"{element} * {elements} B"}
        return {"id": piece.name, "op": "custom", "vector_flop": f"{taken} FLOP", **moved}
    return {"id": piece.name, "op": "elementwise", "function": piece.op, "elements": elements}


def into_text(expansion: Expansion) -> Fields:
    """Rows of the images take the place of the words that stand for them."""
    images = "batch * images" if expansion.parallel else "image_batch"
    elements = f"{images} * image_tokens * {expansion.model.hidden}"
    return {"id": "images_into_text", "op": "elementwise", "function": "copy", "elements": elements, "part": "embedding"}


def pairs(expansion: Expansion, tower: Tower) -> Iterator[Fields]:
    """CLIP: the projection of each text, both results scaled to length 1, and the product of all images with all texts."""
    width, hidden, size = tower.pieces[-1].width, expansion.model.hidden, expansion.element
    elements = f"(batch + image_batch) * {width}"
    yield {"id": "text_projection", "op": "gemm", "m": "batch", "n": width, "k": hidden, "part": "head"}
    yield {
        "id": "normalise", "part": "head", "op": "custom", "vector_flop": f"3 * {elements} FLOP", "sfu_ops": "batch + image_batch",
        "read": f"{size} * {elements} B", "write": f"{size} * {elements} B", "weights": 1,
    }  # fmt: skip
    yield {"id": "similarity", "op": "batched_gemm", "batch": 1, "m": "image_batch", "n": "batch", "k": width, "part": "head"}
