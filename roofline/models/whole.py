"""All steps of the file of a model in order: what stands beside the text, its embedding, layers and head; and the weights they hold."""

from __future__ import annotations

from roofline.models.count import all_weights
from roofline.models.expansion import Expansion, Fields
from roofline.models.steps import steps_of
from roofline.models.tower_params import beside
from roofline.models.tower_steps import into_text, pairs, renamed, tower_steps
from roofline.models.two_towers import PAIRS
from roofline.models.weights import Weight

OF_SOURCE = (".encoder_attn.k_proj", ".encoder_attn.v_proj")
"""Weights that make keys and values of the source, which a decoding step finds in the cache."""


def written_steps(expansion: Expansion) -> list[Fields]:
    """The steps of a phase on one device.

    Raises:
        UsageError: a phase that this model does not have.
    """
    text = steps_of(expansion)
    tower = beside(expansion.model, expansion.phase, expansion.images)
    if tower is None:
        return text
    if expansion.phase == "encode":
        return tower_steps(expansion, tower)
    if tower.counted:
        return _source_in_front(text, tower_steps(expansion, tower)) if expansion.training else text
    if expansion.model.model_type == "clip":
        return [*tower_steps(expansion, tower), *text, *pairs(expansion, tower)]
    found = list(renamed(text, {"seq": "length"}))
    behind = next(i for i, step in enumerate(found) if step["id"] == "embedding") + 1
    return [*tower_steps(expansion, tower), *found[:behind], into_text(expansion), *found[behind:]]


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
