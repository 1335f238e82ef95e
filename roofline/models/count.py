"""A model in numbers: parameters by part, active and apart, bytes by format, cache and FLOP a token; conventions named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from roofline.dtypes import dtype as find_dtype
from roofline.models.description import Attention, DeltaNet, LatentAttention, Mamba2, Model
from roofline.models.quantised import Quantisation, stored
from roofline.models.weights import OF_SOURCE, PARTS, Weight, layer_weights, module_weights, outer_weights

CONVENTIONS = {
    "total": "every weight once; a head tied to the embedding is counted once; modules for further tokens (MTP) and buffers are apart",
    "active": "as total, with only the experts that one token passes; input embedding and head both counted",
    "active_without_embedding": "as active, without the input embedding",
    "flop": "forward; weights: products a token passes; attention: over the context given, latent attention in its expanded form",
    "kv_bytes_per_token": "keys and values of every layer that caches, while the context is shorter than its windows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Counts of parameters; ``by_part`` adds up to ``total``, ``mtp`` is apart from it."""

    total: int
    active: int
    active_without_embedding: int
    by_part: dict[str, int]
    mtp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopPerToken:
    """Forward FLOP of one token: products with weights, attention over ``context`` keys, and their sum."""

    weights: int
    attention: int
    total: int
    context: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What `roofline model show` answers. ``kv_bytes_per_token_unbounded`` leaves out layers whose cache a window bounds.

    ``kv_bytes_per_source_token`` are the keys and values that cross-attention keeps of each token of an encoder's input, and ``layers``
    counts the layers of such an encoder too.
    """

    name: str
    model_type: str
    layers: int
    parameters: Parameters
    quantisation: str | None
    weight_bytes: int
    weight_bytes_by_dtype: dict[str, int]
    kv_dtype: str
    kv_bytes_per_token: int
    kv_bytes_per_token_unbounded: int
    kv_bytes_per_source_token: int
    state_bytes_per_sequence: int
    flop_per_token: FlopPerToken
    conventions: dict[str, str]
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = field(default=())


def summary(
    model: Model, how: Quantisation | None = None, *, context: int = 4096, kv_dtype: str | None = None, ignored: tuple[str, ...] = ()
) -> Summary:
    """The model in numbers. ``kv_dtype`` is the format of cached keys and values; that of the model unless its files say otherwise."""
    weights = list(all_weights(model))
    cache = kv_dtype or (how.kv_dtype if how else None) or model.dtype
    by_dtype: Counter[str] = Counter()
    for weight, dtype, scales in stored(weights, how, model.dtype):
        by_dtype[dtype] += int(weight.elements * find_dtype(dtype).bytes)
        if scales:
            by_dtype["scales"] += scales
    cached = cache_elements(model)
    size = find_dtype(cache).bytes
    return Summary(
        name=model.name,
        model_type=model.model_type,
        layers=len(model.layers) + (len(model.encoder.model.layers) if model.encoder else 0),
        parameters=parameters(model, weights),
        quantisation=how.name if how else None,
        weight_bytes=sum(by_dtype.values()),
        weight_bytes_by_dtype=dict(sorted(by_dtype.items())),
        kv_dtype=cache,
        kv_bytes_per_token=int(size * sum(n for n, _ in cached)),
        kv_bytes_per_token_unbounded=int(size * sum(n for n, window in cached if not window)),
        kv_bytes_per_source_token=int(size * sum(_kept(layer.cross) for layer in model.layers)),
        state_bytes_per_sequence=sum(state_bytes(model, layer.mixer) for layer in model.layers),
        flop_per_token=flop_per_token(model, weights, context),
        conventions=CONVENTIONS,
        notes=model.notes,
        ignored=ignored,
    )


def all_weights(model: Model) -> Iterator[Weight]:
    """Each weight with its full path, layer by layer; modules apart left out."""
    for weight in outer_weights(model):
        yield weight
    for index, layer in enumerate(model.layers):
        for weight in layer_weights(model, layer):
            yield replace(weight, path=f"layers.{index}.{weight.path}")


def parameters(model: Model, weights: list[Weight]) -> Parameters:
    """All counts of parameters."""
    by_part: Counter[str] = Counter()
    for weight in weights:
        by_part[weight.part] += weight.elements
    active = sum(w.active for w in weights)
    embedding = 0 if model.tied else model.vocab * model.hidden
    parts = {part: by_part.pop(part, 0) for part in PARTS}
    return Parameters(
        total=sum(w.elements for w in weights),
        active=active,
        active_without_embedding=active - embedding,
        by_part={**parts, **dict(sorted(by_part.items()))},
        mtp=sum(w.elements for layer in model.mtp for w in module_weights(model, layer)),
    )


def cache_elements(model: Model) -> list[tuple[int, int]]:
    """For each layer that caches: numbers a token, and the window that bounds how many tokens stay (0 for none)."""
    found = []
    for layer in model.layers if model.kind == "decoder" else ():
        mixer = layer.mixer
        if isinstance(mixer, Attention):
            found.append((_kept(mixer), mixer.window))
        elif isinstance(mixer, LatentAttention):
            found.append((mixer.rank + mixer.rope + (mixer.indexer.head_dim if mixer.indexer else 0), 0))
    return found


def _kept(a: Attention | None) -> int:
    """Numbers of keys and values a token."""
    return a.kv_heads * (a.head_dim + a.v_head_dim) if a else 0


def state_bytes(model: Model, mixer: object) -> int:
    """Bytes a layer keeps for a sequence whatever its length: fp32 states, and the last inputs of its convolution."""
    size = int(find_dtype(model.dtype).bytes)
    if isinstance(mixer, DeltaNet):
        rows = 2 * mixer.key_heads * mixer.key_dim + mixer.value_heads * mixer.value_dim
        return 4 * mixer.value_heads * mixer.key_dim * mixer.value_dim + size * rows * (mixer.conv - 1)
    if isinstance(mixer, Mamba2):
        return 4 * mixer.width * mixer.state + size * (mixer.width + 2 * mixer.groups * mixer.state) * (mixer.conv - 1)
    return 0


def flop_per_token(model: Model, weights: list[Weight], context: int, source: int = 0) -> FlopPerToken:
    """Forward FLOP of the last token of a context behind a ``source``; if not given, of the encoder's table, or as long as the text."""
    products = sum(w.flop for w in weights) + (2 * model.vocab * model.hidden if model.tied and model.head else 0)
    source = source or (model.encoder.model.positions if model.encoder else 0)
    attention = sum(mixer_flop(layer.mixer, context) + mixer_flop(layer.cross, source or context) for layer in model.layers)
    return FlopPerToken(weights=products, attention=attention, total=products + attention, context=context)


def flop_per_source_token(weights: list[Weight]) -> int:
    """Forward FLOP of the keys and values that a decoder makes of each token of its source."""
    return sum(2 * w.elements for w in weights if w.rows > 1 and any(name in w.path for name in OF_SOURCE))


def mixer_flop(mixer: object, context: int) -> int:
    """FLOP a token of a mixer beside its products with weights."""
    if isinstance(mixer, Attention):
        keys = min(mixer.window, context) if mixer.window else context
        return 2 * mixer.heads * (mixer.head_dim + mixer.v_head_dim) * keys
    if isinstance(mixer, LatentAttention):
        index = mixer.indexer
        keys = min(index.top_k, context) if index else context
        scores = 2 * index.heads * index.head_dim * context if index else 0
        return 2 * mixer.heads * (mixer.nope + mixer.rope + mixer.v_head_dim) * keys + scores
    if isinstance(mixer, DeltaNet):
        return 6 * mixer.value_heads * mixer.key_dim * mixer.value_dim
    return 6 * mixer.width * mixer.state if isinstance(mixer, Mamba2) else 0
