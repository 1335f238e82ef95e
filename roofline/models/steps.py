"""A model to the steps of an ordinary workload: what one prefill, decoding step or training step computes.

Layers of one sort are written once with ``repeat``; times add up, so that their order among other sorts does not matter. Products
are those that engines launch: one for queries, keys and values, one for gate and up. Residual additions are part of the norm behind
them. Left out: sampling, and the gather that brings tokens to their experts, which the products of the experts read in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from roofline.models.collectives import boundary, collective, enter, leave
from roofline.models.count import all_weights
from roofline.models.cross_steps import cross_steps, position_bias
from roofline.models.description import Attention, DeltaNet, Experts, LatentAttention, Layer, Mamba2, Mlp, Model
from roofline.models.expansion import Expansion, Fields
from roofline.models.feed_steps import feed_steps
from roofline.models.mixer_steps import mixer_steps
from roofline.models.phases import sequences
from roofline.models.sharded import Shares, layer_shares, outer_shares
from roofline.models.training import adapter_parameters, again, check_targets, has_weights, optimizer, trained, updates


@dataclass(frozen=True, slots=True)
class LayerSort:
    """Layers that are alike: a name to put before their steps (empty where all are), which they are, and the steps of one."""

    name: str
    layers: tuple[int, ...]
    steps: tuple[Fields, ...]


def in_file(step: Fields, prefix: str, times: int) -> Fields:
    """A step of one layer as that of so many: named after its sort, ``repeat`` and ``pass`` behind the operator's own keys."""
    own = {k: v for k, v in step.items() if k not in ("repeat", "pass")}
    direction = {"pass": step["pass"]} if "pass" in step else {}
    return {**own, "id": prefix + step["id"], **_tie(prefix, step), **repeated(step, times), **direction}


def _tie(prefix: str, step: Fields) -> Fields:
    return {"tied_to": prefix + step["tied_to"]} if "tied_to" in step else {}


def repeated(step: Fields, times: int) -> Fields:
    """The key ``repeat`` of a step of so many equal layers, the last key of all; none for a single one."""
    own = step.get("repeat", 1)
    if own == 1:
        return {"repeat": times} if times > 1 else {}
    return {"repeat": f"{times} * ({own})" if times > 1 else own}


def layers_of(expansion: Expansion) -> list[LayerSort]:
    """Each sort of layer with its steps, in the order in which they first come."""
    found: dict[Layer, list[int]] = {}
    for index, layer in enumerate(expansion.model.layers):
        found.setdefault(layer, []).append(index)
    names = _layer_names(list(found))
    return [
        LayerSort(names[layer], tuple(which), tuple({**s, "part": "layer"} for s in layer_steps(expansion, layer)))
        for layer, which in found.items()
    ]


def outer_of(expansion: Expansion) -> list[Fields]:
    """Everything outside the layers, each step with its part of the model."""
    first, last = list(_first(expansion)), list(_last(expansion))
    loss: list[Fields] = []
    ending: list[Fields] = []
    if expansion.training:
        first, last = trained(expansion, first), trained(expansion, last)
        loss = list(_loss(expansion))
        if expansion.parallel:
            shares = outer_shares(expansion.model)
            if expansion.lora is None:
                first += _named("embedding_", updates(expansion, shares["embedding"]))
                last += _named("head_", updates(expansion, shares["head"]))
        else:
            ending = [{**optimizer(expansion, "optimizer", _trained_parameters(expansion)), "part": "optimizer"}]
    guessed = list(_module(expansion)) if expansion.mtp else []
    parts = (("embedding", first), ("head", [*last, *guessed]), ("loss", loss))
    marked = [{**step, "part": part} for part, steps in parts for step in steps]
    return [*marked, *boundary(expansion), *ending]


def _named(prefix: str, steps: Iterator[Fields]) -> list[Fields]:
    return [{**s, "id": prefix + s["id"]} for s in steps]


def _trained_parameters(expansion: Expansion) -> int:
    """What the optimizer updates: all that is written, or the adapters alone."""
    if expansion.lora is None:
        return written_parameters(expansion.model)
    found = 0
    for sort in layers_of(expansion):
        found += len(sort.layers) * sum(s["n"] * s["k"] for s in sort.steps if s.get("why") == "adapter")
    return found


def _loss(expansion: Expansion) -> Iterator[Fields]:
    """Cross entropy of logits of which a rank has a share of the vocabulary: three sums over ranks (Megatron) of fp32 numbers."""
    model = expansion.model
    if not model.head:
        return
    vocab = f"ceil_div({model.vocab}, tp)" if expansion.parallel else model.vocab
    yield {"id": "loss", "op": "cross_entropy", "tokens": "tokens", "vocab": vocab, "pass": "forward+backward"}
    if expansion.parallel:
        yield {**collective("loss_reduce", "all_reduce", "tp", "4 * tokens", when="forward"), "repeat": 3}


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
        vocab = f"ceil_div({model.vocab}, tp)" if expansion.parallel else model.vocab
        yield {"id": "embedding", "op": "embedding", "tokens": "tokens", "vocab": vocab, "hidden": model.hidden}
        yield from leave(expansion, "embedding")
    if model.positions:
        yield {"id": "positions", "op": "embedding", "tokens": "tokens", "vocab": model.positions, "hidden": model.hidden}
    if model.relative:
        yield from position_bias(expansion)
    for extra in model.extras:
        if extra.name == "token_types":
            yield {"id": extra.name, "op": "embedding", "tokens": "tokens", "vocab": extra.elements // model.hidden, "hidden": model.hidden}
    if model.embedding_norm:
        yield expansion.norm("embedding_norm", expansion.spread)


def _last(expansion: Expansion) -> Iterator[Fields]:
    """The final norm and the product with the vocabulary: of the last token of a sequence, in training of all, of drafts each."""
    model = expansion.model
    if model.final_norm:
        yield expansion.norm("final_norm", expansion.spread, residual=True)
    for extra in model.extras:
        if extra.part == "pooler":
            yield expansion.product("pooler", "pooler", model.hidden, model.hidden, rows="batch", bias=True)
    if model.head:
        yield from _head(expansion, "tokens" if expansion.training or expansion.draft else sequences(expansion))


def _head(expansion: Expansion, rows: str) -> Iterator[Fields]:
    """Ranks share the vocabulary; to choose a token all logits come together."""
    model = expansion.model
    own_bias = model.head_bias and model.tied  # a step shares all of its weights or none
    bracketed = f"({rows})" if " " in rows else rows
    yield from enter(expansion, "head", rows=bracketed)
    wide = f"ceil_div({model.vocab}, tp)"
    bias = model.head_bias and not own_bias
    head = expansion.product("lm_head", "lm_head", model.vocab, model.hidden, rows=rows, bias=bias, wide=wide)
    yield {**head, **({"tied_to": "embedding"} if model.tied else {})}
    if own_bias:
        yield {"id": "lm_head_bias", "op": "custom", "read": "0 B", "weights": wide if expansion.parallel else model.vocab}
    if expansion.parallel and not expansion.training:
        yield collective("logits_gather", "all_gather", "tp", f"{expansion.element} * {bracketed} * ceil_div({model.vocab}, tp) * tp")


def _module(expansion: Expansion) -> Iterator[Fields]:
    """The modules that guess further tokens (MTP): for each draft token one of them, the last again where there are fewer.

    Each joins the hidden state with the embedding of the token before, and shares embedding and head with the model (DeepSeek-V3).
    """
    model, one = expansion.model, replace(expansion, draft=0, mtp=False)
    for number in range(expansion.draft):
        which = min(number, len(model.mtp) - 1)
        prefix = f"mtp{number + 1}/"
        for step in module_steps(one, model.mtp[which]):
            named = {k: v if k == "repeat" else _of_batch(v) for k, v in step.items()}
            tied = {"tied_to": f"mtp{which + 1}/{step['id']}"} if which < number and has_weights(step) else _tie(prefix, step)
            shared = (
                {"tied_to": {"embedding": "embedding", "lm_head": "lm_head"}[step["id"]]} if step["id"] in ("embedding", "lm_head") else {}
            )
            if "lm_head" in shared.values() and model.tied:
                shared = {"tied_to": "embedding"}
            yield {**named, "id": prefix + step["id"], **tied, **shared}


def _of_batch(value: object) -> object:
    """A module computes one token of each sequence."""
    return re.sub(r"\btokens\b", "batch", value) if isinstance(value, str) else value


def module_steps(expansion: Expansion, layer: Layer) -> Iterator[Fields]:
    """The steps of a module: the embedding of a token, two norms, the product that joins, a layer, a norm, the head."""
    model = expansion.model
    vocab = f"ceil_div({model.vocab}, tp)" if expansion.parallel else model.vocab
    yield {"id": "embedding", "op": "embedding", "tokens": "tokens", "vocab": vocab, "hidden": model.hidden}
    yield from leave(expansion, "embedding")
    yield expansion.norm("enorm", expansion.spread)
    yield expansion.norm("hnorm", expansion.spread)
    yield expansion.product("eh_proj", "eh_proj", model.hidden, 2 * model.hidden, rows=expansion.spread)
    yield from _forward(expansion, layer)
    yield expansion.norm("shared_head_norm", expansion.spread, residual=True)
    yield from _head(expansion, "tokens")


def layer_steps(expansion: Expansion, layer: Layer) -> list[Fields]:
    """The steps of one layer, with what training and a plan add."""
    found = list(_forward(expansion, layer))
    if not expansion.training:
        return found
    check_targets(expansion, found)
    found = trained(expansion, found)
    found += again(expansion, list(found))
    if expansion.parallel:
        own = Shares(adapter_parameters(found)) if expansion.lora else layer_shares(expansion.model, layer)
        found += updates(expansion, own)
    return found


def _forward(expansion: Expansion, layer: Layer) -> Iterator[Fields]:
    """The forward steps of one layer. Parts that are computed in parallel are summed over ranks together."""
    norms, parallel = layer.norms - int(layer.cross is not None), layer.parallel and isinstance(layer.feed, Mlp)
    before_mixer = layer.mixer is not None and norms > 0
    before_feed = layer.feed is not None and norms > int(before_mixer)
    after = norms - int(before_mixer) - int(before_feed)
    if before_mixer:
        yield expansion.norm("attention_norm", expansion.spread, residual=True)
    if layer.mixer is not None:
        if not isinstance(layer.mixer, LatentAttention):
            yield from enter(expansion, "attention")
        yield from mixer_steps(expansion, layer.mixer)
        if not parallel:
            yield from leave(expansion, "attention")
    if after > 0 and layer.mixer is not None:
        yield expansion.norm("post_attention_norm", expansion.spread)
    if layer.cross is not None:
        yield expansion.norm("cross_norm", expansion.spread, residual=True)
        yield from cross_steps(expansion, layer.cross)
    if layer.feed is not None:
        if norms > int(before_mixer):
            yield expansion.norm("mlp_norm", expansion.spread, residual=not layer.parallel)
        if isinstance(layer.feed, Mlp) and (before_feed or not parallel):
            yield from enter(expansion, "mlp")
        yield from feed_steps(expansion, layer.feed)
    if isinstance(layer.feed, Mlp):
        yield from leave(expansion, "mlp")
    if after > 1:
        yield expansion.norm("post_mlp_norm", expansion.spread)
    if layer.parallel:
        elements = f"{expansion.spread} * {expansion.model.hidden}"
        yield {"id": "parallel_sum", "op": "elementwise", "function": "add", "elements": elements}
