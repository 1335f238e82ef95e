"""Every weight of a model under the name that checkpoints give it, so that counts and quantisation speak of the same tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from roofline.models.description import (
    Attention,
    DeltaNet,
    Experts,
    Feed,
    LatentAttention,
    Layer,
    Mamba2,
    Mixer,
    Mlp,
    Model,
    Tower,
)

PARTS = ("embedding", "attention", "mlp", "experts", "norms", "head")
"""Parts of every answer, in this order; others (vision, pooler ...) follow where a model has them."""
OF_SOURCE = (".encoder_attn.k_proj", ".encoder_attn.v_proj")
"""Weights that make keys and values of a source, once, which a decoding step finds in the cache."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A tensor, or as many equal ones as ``copies``: ``rows`` by ``columns``, or a vector with one row.

    ``linear`` tells a matrix that quantisation may take; ``active`` is the share of it that a token passes; ``looked_up`` marks
    tables from which rows are read, which multiply nothing; ``passes`` is 0 where a token of the text does not pass it, since it belongs
    to an encoder or makes keys of the source.
    """

    path: str
    part: str
    rows: int
    columns: int
    copies: int = 1
    linear: bool = False
    active_copies: int = -1
    looked_up: bool = False
    passes: int = 1

    @property
    def elements(self) -> int:
        """All numbers."""
        return self.rows * self.columns * self.copies

    @property
    def active(self) -> int:
        """Those that belong to the experts a token passes."""
        return self.rows * self.columns * (self.copies if self.active_copies < 0 else self.active_copies)

    @property
    def flop(self) -> int:
        """FLOP a token: 2 for each weight of a matrix that it passes."""
        return 2 * self.passes * self.active if self.rows > 1 and not self.looked_up else 0


def _matrix(path: str, part: str, into: int, out: int, bias: bool = False) -> Iterator[Weight]:
    """A linear map and its bias."""
    yield Weight(path, part, into, out, linear=True)
    if bias:
        yield Weight(f"{path}.bias", part, 1, out)


def attention_weights(a: Attention, hidden: int) -> Iterator[Weight]:
    """Queries (twice as wide with an output gate), keys, values, output, norms of queries and keys, sinks."""
    part = "attention"
    yield from _matrix("self_attn.q_proj", part, hidden, a.heads * a.head_dim * (2 if a.gate else 1), a.qkv_bias)
    yield from _matrix("self_attn.k_proj", part, hidden, a.kv_heads * a.head_dim, a.qkv_bias and a.k_bias)
    yield from _matrix("self_attn.v_proj", part, hidden, a.kv_heads * a.v_head_dim, a.qkv_bias)
    yield from _matrix("self_attn.o_proj", part, a.heads * a.v_head_dim, hidden, a.out_bias)
    if a.qk_norm != "none":
        wide = a.qk_norm == "row"
        yield Weight("self_attn.q_norm", "norms", 1, a.head_dim * (a.heads if wide else 1))
        yield Weight("self_attn.k_norm", "norms", 1, a.head_dim * (a.kv_heads if wide else 1))
    if a.sinks:
        yield Weight("self_attn.sinks", part, 1, a.heads)


def cross_weights(a: Attention | None, hidden: int) -> Iterator[Weight]:
    """Attention over an encoder's result; its keys and values are made once a source, and not for each token."""
    for weight in attention_weights(a, hidden) if a else ():
        path = weight.path.replace("self_attn", "encoder_attn")
        once = path.startswith(("encoder_attn.k_proj", "encoder_attn.v_proj"))
        yield replace(weight, path=path, part="cross_attention", passes=0 if once else 1)


def latent_weights(a: LatentAttention, hidden: int) -> Iterator[Weight]:
    """Low-rank queries, the latent with its rotary key, what expands it, the output, and the indexer."""
    part, query = "attention", a.heads * (a.nope + a.rope)
    if a.q_rank:
        yield from _matrix("self_attn.q_a_proj", part, hidden, a.q_rank, a.bias)
        yield Weight("self_attn.q_a_layernorm", "norms", 1, a.q_rank)
        yield from _matrix("self_attn.q_b_proj", part, a.q_rank, query)
    else:
        yield from _matrix("self_attn.q_proj", part, hidden, query)
    yield from _matrix("self_attn.kv_a_proj_with_mqa", part, hidden, a.rank + a.rope, a.bias)
    yield Weight("self_attn.kv_a_layernorm", "norms", 1, a.rank)
    yield from _matrix("self_attn.kv_b_proj", part, a.rank, a.heads * (a.nope + a.v_head_dim))
    yield from _matrix("self_attn.o_proj", part, a.heads * a.v_head_dim, hidden, a.bias)
    if a.indexer:
        i = a.indexer
        yield from _matrix("self_attn.indexer.wq_b", part, a.q_rank or hidden, i.heads * i.head_dim)
        yield from _matrix("self_attn.indexer.wk", part, hidden, i.head_dim)
        yield Weight("self_attn.indexer.k_norm", "norms", 1, 2 * i.head_dim)
        yield Weight("self_attn.indexer.weights_proj", part, hidden, i.heads)


def delta_weights(d: DeltaNet, hidden: int) -> Iterator[Weight]:
    """One product for queries, keys, values and gate, one for the two rates, a short convolution, rates, norm, output."""
    part, keys, values = "attention", d.key_heads * d.key_dim, d.value_heads * d.value_dim
    yield from _matrix("linear_attn.in_proj_qkvz", part, hidden, 2 * keys + 2 * values)
    yield Weight("linear_attn.in_proj_ba", part, hidden, 2 * d.value_heads, linear=True)
    yield Weight("linear_attn.conv1d", part, d.conv, 2 * keys + values)
    yield Weight("linear_attn.A_log", part, 1, d.value_heads)
    yield Weight("linear_attn.dt_bias", part, 1, d.value_heads)
    yield Weight("linear_attn.norm", "norms", 1, d.value_dim)
    yield from _matrix("linear_attn.out_proj", part, values, hidden)


def mamba_weights(m: Mamba2, hidden: int) -> Iterator[Weight]:
    """One product for gate, input, B, C and steps, a short convolution, rates, norm, output."""
    part, conv = "attention", m.width + 2 * m.groups * m.state
    yield from _matrix("mixer.in_proj", part, hidden, m.width + conv + m.heads, m.bias)
    yield Weight("mixer.conv1d", part, m.conv, conv)
    if m.conv_bias:
        yield Weight("mixer.conv1d.bias", part, 1, conv)
    for name in ("A_log", "D", "dt_bias"):
        yield Weight(f"mixer.{name}", part, 1, m.heads)
    yield Weight("mixer.norm", "norms", 1, m.width)
    yield from _matrix("mixer.out_proj", part, m.width, hidden, m.bias)


def mlp_weights(m: Mlp, hidden: int, path: str = "mlp", part: str = "mlp") -> Iterator[Weight]:
    """Gate, up, down."""
    if m.gated:
        yield from _matrix(f"{path}.gate_proj", part, hidden, m.width, m.bias)
    yield from _matrix(f"{path}.up_proj", part, hidden, m.width, m.bias)
    yield from _matrix(f"{path}.down_proj", part, m.width, hidden, m.bias)


def expert_weights(e: Experts, hidden: int) -> Iterator[Weight]:
    """Router, experts, and those that every token passes."""
    part = "experts"
    yield Weight("mlp.router", part, hidden, e.experts)
    if e.router_bias:
        yield Weight("mlp.router.bias", part, 1, e.experts)
    for name, into, out in (("gate", hidden, e.width), ("up", hidden, e.width), ("down", e.width, hidden)):
        if name == "gate" and not e.gated:
            continue
        yield Weight(f"mlp.experts.0.{name}_proj", part, into, out, e.experts, True, e.active)
        if e.bias:
            yield Weight(f"mlp.experts.0.{name}_proj.bias", part, 1, out, e.experts, False, e.active)
    if e.shared_width:
        yield from mlp_weights(Mlp(width=e.shared_width, gated=e.gated), hidden, "mlp.shared_experts", part)
    if e.shared_gate:
        yield Weight("mlp.shared_expert_gate", part, hidden, 1)


def mixer_weights(mixer: Mixer | None, hidden: int) -> Iterator[Weight]:
    """Those of any mixer."""
    if isinstance(mixer, Attention):
        return attention_weights(mixer, hidden)
    if isinstance(mixer, LatentAttention):
        return latent_weights(mixer, hidden)
    if isinstance(mixer, DeltaNet):
        return delta_weights(mixer, hidden)
    return mamba_weights(mixer, hidden) if mixer else iter(())


def feed_weights(feed: Feed | None, hidden: int) -> Iterator[Weight]:
    """Those of any feed-forward."""
    if isinstance(feed, Mlp):
        return mlp_weights(feed, hidden)
    return expert_weights(feed, hidden) if feed else iter(())


def layer_weights(model: Model, layer: Layer) -> list[Weight]:
    """All of a layer."""
    norms = [Weight(f"norm_{i}", "norms", 1, model.norm_width) for i in range(layer.norms)]
    mixers = (*mixer_weights(layer.mixer, model.hidden), *cross_weights(layer.cross, model.hidden))
    return [*norms, *mixers, *feed_weights(layer.feed, model.hidden)]


def outer_weights(model: Model) -> Iterator[Weight]:
    """Those outside the layers; a tied head is the embedding used again and is yielded by nobody."""
    if model.vocab:
        yield Weight("embed_tokens", "embedding", model.vocab, model.hidden, looked_up=True)
    if model.positions:
        yield Weight("embed_positions", "embedding", model.positions, model.hidden, looked_up=True)
    if model.embedding_norm:
        yield Weight("embedding_norm", "norms", 1, model.norm_width)
    if model.final_norm:
        yield Weight("norm", "norms", 1, model.norm_width)
    if model.head and not model.tied:
        yield Weight("lm_head", "head", model.hidden, model.vocab, linear=True)
    if model.head_bias:
        yield Weight("lm_head.bias", "head", 1, model.vocab)
    if model.relative:
        yield Weight("relative_attention_bias", "attention", model.relative, heads_of(model), looked_up=True)
    for extra in model.extras:
        yield Weight(extra.name, extra.part, 1, extra.elements)
    for tower in model.towers:
        if tower.counted:
            for weight in tower_weights(tower):
                yield replace(weight, path=f"{tower.name}.{weight.path}", part=tower.name, passes=0)


def heads_of(model: Model) -> int:
    """Query heads of the first layer with softmax attention, 0 where there is none."""
    return next((layer.mixer.heads for layer in model.layers if isinstance(layer.mixer, Attention)), 0)


def shared_by(tower: Tower) -> int:
    """What a number of ranks must divide to share a tower's products: heads, inner widths, and widths of the products behind it."""
    mixers, feeds = ((layer.mixer for layer in tower.model.layers), (layer.feed for layer in tower.model.layers))
    heads = (m.heads for m in mixers if isinstance(m, Attention))
    return math.gcd(*heads, *(f.width for f in feeds if isinstance(f, Mlp)), *(p.width for p in tower.pieces if p.split == "n"))


def tower_weights(tower: Tower) -> Iterator[Weight]:
    """Those of a tower: what is outside its layers, each layer, and the norms and products that follow."""
    yield from outer_weights(tower.model)
    for index, layer in enumerate(tower.model.layers):
        for weight in layer_weights(tower.model, layer):
            yield replace(weight, path=f"layers.{index}.{weight.path}")
    for piece in tower.pieces:
        if piece.op == "gemm":
            yield Weight(piece.name, tower.name, piece.into, piece.width, piece.times, linear=True)
        if piece.op in ("rmsnorm", "layernorm") or piece.bias:
            yield Weight(f"{piece.name}.vector", tower.name, 1, piece.width * (2 if piece.op == "layernorm" else 1), piece.times)


def module_weights(model: Model, layer: Layer) -> list[Weight]:
    """Those of a module that predicts a further token: a layer, the product that joins two states, and three norms."""
    joined = Weight("eh_proj", "mtp", 2 * model.hidden, model.hidden, linear=True)
    norms = [Weight(name, "mtp", 1, model.norm_width) for name in ("enorm", "hnorm", "shared_head.norm")]
    return [joined, *norms, *layer_weights(model, layer)]
