"""All steps of a model in order: what stands beside the text, its embedding, layers and head; and the weights they hold."""

from __future__ import annotations

from dataclasses import replace

from roofline.models import steps
from roofline.models.count import all_weights
from roofline.models.expansion import Expansion, Fields
from roofline.models.phases import refuse
from roofline.models.steps import LayerSort, in_file
from roofline.models.tower_params import beside
from roofline.models.tower_steps import into_text, pairs, renamed, tower_steps
from roofline.models.training import COLLECTIVES
from roofline.models.two_towers import PAIRS
from roofline.models.weights import OF_SOURCE, Weight

LENGTH = {"seq": "length"}
"""Of a text with images in it, ``seq`` are the words alone."""


def steps_of(expansion: Expansion) -> list[Fields]:
    """All steps in order, of one rank under a plan: of one microbatch and all layers, whatever its stages are.

    Raises:
        UsageError: a phase that this model does not have.
    """
    refuse(expansion)
    outer = outer_of(expansion)
    layers = [in_file(step, sort.name, len(sort.layers)) for sort in layers_of(expansion) for step in sort.steps]
    first = [s for s in outer if s["part"] == "embedding"]
    return [*first, *layers, *(s for s in outer if s["part"] != "embedding")]


def layers_of(expansion: Expansion) -> list[LayerSort]:
    """Each sort of layer of the text with its steps, in the order in which they first come; none where a tower is alone."""
    if expansion.phase == "encode":
        return []
    sorts = steps.layers_of(expansion)
    if not _sees(expansion):
        return sorts
    return [replace(sort, steps=tuple(renamed(sort.steps, LENGTH))) for sort in sorts]


def outer_of(expansion: Expansion) -> list[Fields]:
    """Everything outside the layers of the text, each step with its part of the model: a tower is in front, with the embedding."""
    tower = beside(expansion.model, expansion.phase, expansion.images)
    if tower is None:
        return steps.outer_of(expansion)
    if expansion.phase == "encode":
        return tower_steps(expansion, tower)
    text = steps.outer_of(expansion)
    if tower.counted:
        return _source_in_front(text, tower_steps(expansion, tower)) if expansion.training else text
    if not _sees(expansion):
        return [*tower_steps(expansion, tower), *text, *pairs(expansion, tower)]
    found = list(renamed(text, LENGTH))
    behind = 1 + max(i for i, s in enumerate(found) if s["id"].startswith("embedding") and s["op"] in ("embedding", *COLLECTIVES))
    return [*tower_steps(expansion, tower), *found[:behind], into_text(expansion), *found[behind:]]


def _sees(expansion: Expansion) -> bool:
    """Whether sequences of the text have images in them."""
    return expansion.images and expansion.phase == "prefill" and expansion.model.model_type != "clip"


def _source_in_front(text: list[Fields], encoder: list[Fields]) -> list[Fields]:
    """An encoder of words looks them up in the table of the decoder, whose weights are then its own."""
    if not any(step["id"] == "encoder/embedding" for step in encoder):
        return [*encoder, *text]
    return [*encoder, *({**s, "tied_to": "encoder/embedding"} if s["id"] == "embedding" else s for s in text)]


def parameters_in(expansion: Expansion) -> int:
    """Parameters that the steps of this phase hold."""
    return sum(w.elements for w in all_weights(expansion.model) if _held(expansion, w))


def _held(expansion: Expansion, weight: Weight) -> bool:
    model, phase = expansion.model, expansion.phase
    if weight.part == "vision":
        seen = beside(model, phase, expansion.images) is not None
        return seen and (phase != "encode" or weight.path != PAIRS)
    if phase == "encode":
        words = model.encoder is not None and model.encoder.stem is None
        return weight.part == "encoder" or (words and weight.path == "embed_tokens")
    if weight.part == "encoder":
        return expansion.training
    return not (expansion.decoding and any(name in weight.path for name in OF_SOURCE))
