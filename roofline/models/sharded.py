"""Parameters of one rank under a plan, as expressions in its degrees: those of a layer, of the embedding and of the head.

Ranks of tensor parallelism share what `roofline.models.mixer_steps` and `feed_steps` share: heads, inner widths, rows of the vocabulary.
Norms, routers, latents and indexers are the same on all. Dense weights are equal on ``cp * dp`` ranks (the group ``data``), experts on
``tp * cp * dp / (ep * etp)`` (``expert_data``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline.models.description import Attention, Layer, Model
from roofline.models.weights import Weight, layer_weights, outer_weights

WHOLE = (
    "norm", "self_attn.q_norm", "self_attn.k_norm", "self_attn.q_a_proj", "self_attn.q_a_layernorm", "self_attn.kv_a_proj_with_mqa",
    "self_attn.kv_a_layernorm", "self_attn.indexer", "linear_attn.norm", "mlp.router", "mlp.shared_expert_gate", "embed_positions",
    "embedding_norm",
)  # fmt: skip
"""Beginnings of the names of weights that every tensor-parallel rank has whole."""
WHOLE_BIASES = ("self_attn.o_proj.bias", "mlp.down_proj.bias", "mixer.out_proj.bias")
"""Biases behind a sum over ranks, added once."""
KEYS = ("self_attn.k_proj", "self_attn.v_proj")
VOCABULARY = ("embed_tokens", "lm_head")


@dataclass(frozen=True, slots=True)
class Shares:
    """Expressions of the parameters on one rank: those that ``data`` ranks have alike, and those of experts; "0" for none."""

    dense: str
    experts: str = "0"


def layer_shares(model: Model, layer: Layer) -> Shares:
    """Of one layer."""
    weights = layer_weights(model, layer)
    kv_heads = layer.mixer.kv_heads if isinstance(layer.mixer, Attention) else 1
    experts = [w for w in weights if ".experts." in w.path]
    dense = [w for w in weights if ".experts." not in w.path]
    return Shares(_sum(dense, kv_heads, layer), _experts(experts))


def outer_shares(model: Model) -> dict[str, Shares]:
    """Of the embedding (with positions and what belongs to it) and of the head (with the final norm); a tied head is no more."""
    found: dict[str, list[Weight]] = {"embedding": [], "head": []}
    for weight in outer_weights(model):
        if weight.part != "vision":
            found["head" if weight.path.startswith(("lm_head", "norm")) or weight.part == "pooler" else "embedding"].append(weight)
    return {part: Shares(_outer(weights)) for part, weights in found.items()}


def _sum(weights: Iterable[Weight], kv_heads: int, layer: Layer) -> str:
    whole = shared = keys = 0
    for w in weights:
        if w.path.startswith(KEYS):
            keys += w.elements
        elif _is_whole(w, layer):
            whole += w.elements
        else:
            shared += w.elements
    terms = [f"{shared} / tp"] if shared else []
    if keys:
        terms.append(f"max({kv_heads} / tp, 1) * {keys // kv_heads}")
    return " + ".join([*terms, *([str(whole)] if whole or not terms else [])])


def _is_whole(w: Weight, layer: Layer) -> bool:
    if isinstance(layer.mixer, Attention) and layer.mixer.qk_norm == "row" and w.path.startswith(("self_attn.q_norm", "self_attn.k_norm")):
        return False
    return w.path.startswith(WHOLE) or w.path in WHOLE_BIASES


def _experts(weights: Iterable[Weight]) -> str:
    """Matrices and the biases of their shared width over both degrees, other biases over ranks of experts only."""
    both = alone = 0
    for w in weights:
        if w.path.endswith("down_proj.bias"):
            alone += w.elements
        else:
            both += w.elements
    terms = [f"{both} / (ep * etp)"] if both else []
    return " + ".join([*terms, *([f"{alone} / ep"] if alone else [])]) or "0"


def _outer(weights: Iterable[Weight]) -> str:
    """Rows of the vocabulary, padded to whole ranks, and what is whole."""
    terms: list[str] = []
    whole = 0
    for w in weights:
        if w.path.startswith(VOCABULARY):
            rows, width = (w.rows, w.columns) if w.path == "embed_tokens" else (w.columns, w.rows)
            terms.append(f"ceil_div({rows}, tp) * {width}")
        else:
            whole += w.elements
    return " + ".join([*terms, *([str(whole)] if whole or not terms else [])])
