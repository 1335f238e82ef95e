"""A model to the steps of an ordinary workload: what one prefill, decoding step or training step computes.

Layers of one sort are written once with ``repeat``; times add up, so that their order among other sorts does not matter. Products
are those that engines launch: one for queries, keys and values, one for gate and up. Residual additions are part of the norm behind
them. Left out: sampling, and the gather that brings tokens to their experts, which the products of the experts read in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from roofline.errors import UsageError
from roofline.models.count import all_weights
from roofline.models.description import Attention, DeltaNet, Experts, LatentAttention, Layer, Mamba2, Mlp, Model
from roofline.models.expansion import Expansion, Fields
from roofline.models.mixer_steps import mixer_steps


def params_of(model: Model, phase: str) -> dict[str, int | str]:
    """The params of the workload, which the command line may change: batch, seq and context."""
    length = min(model.context or 4096, 4096)
    if model.image[0]:
        return {"batch": 1, "seq": model.positions, "tokens": "batch * seq"}
    if phase == "decode":
        return {"batch": 1, "context": length, "tokens": "batch"}
    return {"batch": 1, "seq": length, "tokens": "batch * seq"}


def steps_of(expansion: Expansion) -> list[Fields]:
    """All steps in order.

    Raises:
        UsageError: a phase that this model does not have.
    """
    model = expansion.model
    if model.kind == "encoder" and expansion.decoding:
        raise UsageError(f"'{model.model_type}' is an encoder and decodes nothing; use --phase prefill or train")
    if model.model_type == "clip":
        raise UsageError("clip has two towers of different lengths, which no single workload describes; 'roofline model show' counts it")
    counts: dict[Layer, int] = {}
    for layer in model.layers:
        counts[layer] = counts.get(layer, 0) + 1
    names = _layer_names(list(counts))
    found = list(chain(_first(expansion), *(_layer(expansion, layer, names[layer], n) for layer, n in counts.items()), _last(expansion)))
    return found if expansion.phase != "train" else _trained(expansion, found)


def _trained(expansion: Expansion, steps: list[Fields]) -> list[Fields]:
    """The same forward and backward, the loss, and the optimizer."""
    if any("recurrence" in s["id"] or "index_scores" in s["id"] for s in steps):
        raise UsageError(
            f"no backward pass of the recurrent layers or the indexer of '{expansion.model.model_type}' is known; use prefill or decode"
        )
    both = {"pass": "forward+backward"}
    found = [s if s["op"] == "custom" or s.get("function") == "add" else {**s, **both} for s in steps]
    if expansion.model.head:
        found.append({"id": "loss", "op": "cross_entropy", "tokens": "tokens", "vocab": expansion.model.vocab, **both})
    return [*found, {"id": "optimizer", "op": "adamw", "parameters": written_parameters(expansion.model)}]


def written_parameters(model: Model) -> int:
    """Parameters of the steps: all but those of a vision tower."""
    return sum(w.elements for w in all_weights(model) if w.part != "vision")


def _layer_names(layers: list[Layer]) -> dict[Layer, str]:
    """A prefix for each sort of layer, none where there is one sort."""
    if len(layers) == 1:
        return {layers[0]: ""}
    found: dict[Layer, str] = {}
    for layer in layers:
        base = "_".join(_sorts(layer)) or "empty"
        taken = set(found.values())
        name = base if f"{base}/" not in taken else next(f"{base}{i}" for i in range(2, 10**4) if f"{base}{i}/" not in taken)
        found[layer] = f"{name}/"
    return found


def _sorts(layer: Layer) -> Iterator[str]:
    mixer, feed = layer.mixer, layer.feed
    if isinstance(mixer, Attention):
        yield "local" if mixer.window else "full"
    elif mixer is not None:
        yield {LatentAttention: "latent", DeltaNet: "delta", Mamba2: "mamba"}[type(mixer)]
    if feed is not None:
        yield "moe" if isinstance(feed, Experts) else "dense"


def _first(expansion: Expansion) -> Iterator[Fields]:
    """The embedding, or the patches of an image."""
    model = expansion.model
    if model.image[0]:
        channels, size, patch = model.image
        shape = {"batch": "batch", "in_channels": channels, "height": size, "width": size, "out_channels": model.hidden}
        yield {"id": "patch_embedding", "op": "conv2d", **shape, "kernel": patch, "stride": patch, "bias": True}
        yield {"id": "class_token", "op": "custom", "read": "0 B", "weights": model.hidden}
    else:
        yield {"id": "embedding", "op": "embedding", "tokens": "tokens", "vocab": model.vocab, "hidden": model.hidden}
    if model.positions:
        yield {"id": "positions", "op": "embedding", "tokens": "tokens", "vocab": model.positions, "hidden": model.hidden}
    for extra in model.extras:
        if extra.name == "token_types":
            yield {"id": extra.name, "op": "embedding", "tokens": "tokens", "vocab": extra.elements // model.hidden, "hidden": model.hidden}
    if model.embedding_norm:
        yield expansion.norm("embedding_norm")


def _last(expansion: Expansion) -> Iterator[Fields]:
    """The final norm and the product with the vocabulary: of the last token of a sequence, in training of all."""
    model = expansion.model
    if model.final_norm:
        yield expansion.norm("final_norm", residual=True)
    for extra in model.extras:
        if extra.part == "pooler":
            yield expansion.product("pooler", "pooler", model.hidden, model.hidden, rows="batch", bias=True)
    if model.head:
        rows = "tokens" if expansion.phase == "train" else "batch"
        own_bias = model.head_bias and model.tied  # a step shares all of its weights or none
        head = expansion.product("lm_head", "lm_head", model.vocab, model.hidden, rows=rows, bias=model.head_bias and not own_bias)
        yield {**head, **({"tied_to": "embedding"} if model.tied else {})}
        if own_bias:
            yield {"id": "lm_head_bias", "op": "custom", "read": "0 B", "weights": model.vocab}


def _layer(expansion: Expansion, layer: Layer, prefix: str, repeat: int) -> Iterator[Fields]:
    """The steps of one sort of layer."""
    norms = layer.norms
    before_mixer = layer.mixer is not None and norms > 0
    after = norms - int(before_mixer) - int(layer.feed is not None and norms - int(before_mixer) > 0)
    found: list[Fields] = []
    if before_mixer:
        found.append(expansion.norm("attention_norm", residual=True))
    if layer.mixer is not None:
        found += mixer_steps(expansion, layer.mixer)
    if after > 0 and layer.mixer is not None:
        found.append(expansion.norm("post_attention_norm"))
    if layer.feed is not None:
        if norms > int(before_mixer):
            found.append(expansion.norm("mlp_norm", residual=not layer.parallel))
        found += feed_steps(expansion, layer.feed)
    if after > 1:
        found.append(expansion.norm("post_mlp_norm"))
    if layer.parallel:
        found.append({"id": "parallel_sum", "op": "elementwise", "function": "add", "elements": f"tokens * {expansion.model.hidden}"})
    for step in found:
        yield {**step, "id": prefix + step["id"], **({"repeat": repeat} if repeat > 1 else {})}


# --------------------------------------------------------------------------- feed-forward
def feed_steps(expansion: Expansion, feed: Mlp | Experts) -> Iterator[Fields]:
    """The steps of any feed-forward."""
    return _mlp(expansion, feed) if isinstance(feed, Mlp) else _experts(expansion, feed)


def _mlp(expansion: Expansion, m: Mlp, name: str = "", path: str = "mlp") -> Iterator[Fields]:
    hidden = expansion.model.hidden
    up = f"{name}{'gate_up' if m.gated else 'up'}_proj"
    yield expansion.product(up, f"layers.0.{path}.up_proj", (1 + m.gated) * m.width, hidden, bias=m.bias)
    yield from _activation(m.activation, m.gated, "tokens", m.width, name)
    yield expansion.product(f"{name}down_proj", f"layers.0.{path}.down_proj", hidden, m.width, bias=m.bias)


def _activation(function: str, gated: bool, rows: str, width: int, name: str) -> Iterator[Fields]:
    if gated and function == "silu":
        yield {"id": f"{name}swiglu", "op": "swiglu", "rows": rows, "cols": width}
        return
    elements = f"{rows} * {width}"
    yield {"id": f"{name}activation", "op": "elementwise", "function": function, "elements": elements}
    if gated:
        yield {"id": f"{name}gated", "op": "elementwise", "function": "mul", "elements": elements}


def _experts(expansion: Expansion, e: Experts) -> Iterator[Fields]:
    hidden, base = expansion.model.hidden, "layers.0.mlp.experts.0"
    yield expansion.product("router", "layers.0.mlp.router", e.experts, hidden, bias=e.router_bias, kept=True)
    chosen = {"op": "grouped_gemm", "tokens": "tokens", "experts": e.experts, "active": e.active}
    biased = {"bias": True} if e.bias else {}
    wide = (1 + e.gated) * e.width
    up = {**biased, **_scaled(expansion, expansion.formats(f"{base}.up_proj", hidden, wide))}
    down = {**biased, **_scaled(expansion, expansion.formats(f"{base}.down_proj", e.width, hidden))}
    yield {"id": f"experts_{'gate_up' if e.gated else 'up'}", **chosen, "n": wide, "k": hidden, **up}
    yield from _activation(e.activation, e.gated, f"tokens * {e.active}", e.width, "experts_")
    yield {"id": "experts_down", **chosen, "n": hidden, "k": e.width, **down}
    combined = {"function": "add", "elements": f"tokens * {hidden}", "inputs": e.active}
    yield {"id": "experts_combine", "op": "elementwise", **combined}
    if e.shared_width:
        shared = Mlp(width=e.shared_width, gated=e.gated, activation=e.activation)
        yield from _mlp(expansion, shared, "shared_", "mlp.shared_experts")
    if e.shared_gate:
        yield expansion.product("shared_gate", "layers.0.mlp.shared_expert_gate", 1, hidden, kept=True)


def _scaled(expansion: Expansion, formats: Fields) -> Fields:
    """With the size of a scale where it is not 2 bytes."""
    if "group_size" in formats and expansion.how is not None and expansion.how.scale_bytes != 2:
        return {**formats, "scale_bytes": expansion.how.scale_bytes}
    return formats
