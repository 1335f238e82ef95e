"""Which part of a model's weights one rank holds: how each tensor is split, and which layers are on its stage.

Queries, keys, values, gate and up are split by columns, the output and down by rows (Shoeybi et al. 2019, arXiv 1909.08053), embedding
and head by the vocabulary; norms, routers, low-rank projections into a latent and biases behind a sum are held by all ranks of tp. A head
of keys is held by more than one rank where there are more ranks than heads. Experts are spread over ep, each over etp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace

from roofline.dtypes import dtype as find_dtype
from roofline.models.description import Attention, Layer, Model, Tower
from roofline.models.quantised import Quantisation, stored
from roofline.models.weights import Weight, layer_weights, outer_weights, shared_by
from roofline.numeric import Number, ceil_div, each, is_array, maximum, where
from roofline.ops.base import whole
from roofline.plan.pipeline import layers_of_stages
from roofline.plan.plan import Plan

WHOLE_NAMES = frozenset(
    """
    router q_a_proj kv_a_proj_with_mqa q_a_layernorm kv_a_layernorm wq_b wk weights_proj shared_expert_gate
    q_a_proj.bias kv_a_proj_with_mqa.bias router.bias o_proj.bias down_proj.bias out_proj.bias
    """.split()  # noqa: SIM905
)
"""Ends of the paths of tensors that each rank of tp holds in full."""
NORMS = ("self_attn.q_norm", "self_attn.k_norm", "self_attn.indexer.k_norm", "linear_attn.norm")
"""Norms inside a layer that are held in full, unless they span a whole row of heads."""
KEYS = ("k_proj", "v_proj", "k_proj.bias", "v_proj.bias")
LAST = ("norm", "lm_head", "lm_head.bias")
SEEN, SHARED = "vision_tower", "vision_tower.shared"
"""The weights of a vision tower as a model counts them, and those of them that ranks may share."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What ranks of tp may not divide evenly: heads of keys, rows of the vocabulary, which are padded, and a vision tower."""

    kv_heads: int
    vocab: int
    eyes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """An amount (of parameters or bytes) by how it is split: held whole, over tp, by heads of keys, by experts.

    ``row`` is the amount a row of the vocabulary, ``alone`` that of biases behind an expert's last product, which etp does not split;
    ``eyes`` is that of a vision tower which tp splits if it divides the tower.
    """

    whole: Number = 0
    tensor: Number = 0
    keys: Number = 0
    row: Number = 0
    expert: Number = 0
    alone: Number = 0
    eyes: Number = 0

    def __add__(self, other: Split) -> Split:
        return Split(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def __mul__(self, times: Number) -> Split:
        return Split(**{f.name: getattr(self, f.name) * times for f in fields(self)})

    def dense(self, plan: Plan, sizes: Sizes) -> Number:
        """What a rank holds of all but the experts."""
        rows = self.row * ceil_div(sizes.vocab, plan.tp)
        seen = self.eyes / where(sizes.eyes % plan.tp == 0, plan.tp, 1)
        return self.whole + self.tensor / plan.tp + self.keys * keys_share(plan, sizes.kv_heads) + rows + seen

    def experts(self, plan: Plan) -> Number:
        """What a rank holds of the experts."""
        return self.expert / (plan.ep * plan.etp) + self.alone / plan.ep


def keys_share(plan: Plan, kv_heads: int) -> Number:
    """The share of the key heads on a rank: 1 / tp, and never less than one head.

    >>> keys_share(Plan(tp=16), 8)
    0.125
    """
    return maximum(1 / plan.tp, 1 / max(kv_heads, 1))


def sizes_of(model: Model) -> Sizes:
    """Those of a model: the fewest heads of keys of any layer, which are the first to be held twice; 1 where there is none."""
    heads = (layer.mixer.kv_heads for layer in model.layers if isinstance(layer.mixer, Attention))
    return Sizes(min(heads, default=1), model.vocab, shared_by(model.eyes) if model.eyes else 1)


def kind_of(weight: Weight, layer: Layer | None = None) -> str:
    """How a tensor is split: the name of a field of `Split`."""
    path = weight.path.removeprefix("encoder.")
    path = path.split(".", 2)[2] if path.startswith("layers.") else path
    if path in ("embed_tokens", "lm_head", "lm_head.bias"):
        return "row"
    if path == SHARED:
        return "eyes"
    if ".experts." in path:
        return "alone" if path.endswith("down_proj.bias") else "expert"
    parts = path.split(".")
    name = ".".join(parts[-2:]) if parts[-1] == "bias" else parts[-1]
    if name in KEYS:
        return "keys"
    if path in NORMS:
        rows = layer is not None and isinstance(layer.mixer, Attention) and layer.mixer.qk_norm == "row"
        return "tensor" if rows else "whole"
    inside = parts[0] in ("self_attn", "encoder_attn", "mlp", "linear_attn", "mixer", "relative_attention_bias")
    return "tensor" if inside and name not in WHOLE_NAMES else "whole"


Measure = Callable[[Weight], Number]
"""What is counted of a weight: its parameters, or bytes."""


def parameters(weight: Weight) -> Number:
    """All numbers of a tensor."""
    return weight.elements


def stored_bytes(model: Model, how: Quantisation | None, weight_dtype: str | None) -> Measure:
    """Bytes of a weight as it is stored: as its files say, or matrices in ``weight_dtype`` where that is given."""

    def measure(weight: Weight) -> Number:
        if weight_dtype is not None:
            return weight.elements * find_dtype(weight_dtype if weight.linear else model.dtype).bytes
        ((_, dtype, scales),) = stored([weight], how, model.dtype)
        return weight.elements * find_dtype(dtype).bytes + scales

    return measure


def split_of(weights: Iterable[Weight], measure: Measure, model: Model, layer: Layer | None = None) -> Split:
    """The weights by how they are split."""
    found: dict[str, Number] = {}
    for weight in weights:
        kind = kind_of(weight, layer)
        amount = measure(weight) / model.vocab if kind == "row" else measure(weight)
        found[kind] = found.get(kind, 0) + whole(amount)
    return Split(**found)


# --------------------------------------------------------------------------- stages
@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the pipeline: its index, how many layers of each sort it holds, and whether (1 or 0) it is the first and the last.

    Under DualPipe a device holds two stages, and this is their mean.
    """

    index: Number
    counts: tuple[Number, ...]
    first: Number
    last: Number


def sorts_of(model: Model) -> tuple[Layer, ...]:
    """Each sort of layer once, in the order of the model."""
    return tuple(dict.fromkeys(model.layers))


def stages_of(model: Model, plan: Plan) -> tuple[Stage, ...]:
    """The stages that may be the fullest: the first, the heaviest between, the last; one where there is no pipeline.

    A stage between may have no layers, where there are two stages. Layers of several sorts are taken to lie on stages in their order,
    also where a stage holds several chunks. DualPipe pairs each stage with the one as far from the other end.
    """
    sorts, pp = sorts_of(model), plan.pp
    alone = where(pp == 1, 1, 0)
    if not is_array(pp) and alone:
        return (Stage(0, tuple(model.layers.count(s) for s in sorts), 1, 1),)
    held: list[tuple[Number, ...]]
    if len(sorts) == 1:
        every = len(model.layers)
        one, several, end = layers_of_stages(plan, every)
        held = [(where(pp > 1, one, every),), (where(pp > 2, several, 0),), (where(pp > 1, end, every),)]
        between: Number = 1
    else:
        found, width = each(_windows(model, sorts), pp), len(sorts)
        held = [found[i * width : (i + 1) * width] for i in range(3)]
        between = found[-1]
    if plan.schedule == "dualpipe":
        ends = tuple((a + b) / 2 for a, b in zip(held[0], held[2], strict=True))
        return (Stage(0, ends, 0.5, 0.5), Stage(between, held[1], 0, 0))
    return (Stage(0, held[0], 1, alone), Stage(between, held[1], 0, 0), Stage(pp - 1, held[2], alone, 1))


def _windows(model: Model, sorts: tuple[Layer, ...]) -> Callable[[int], tuple[int, ...]]:
    """For a number of stages: layers of each sort on the first, the heaviest between and the last, and the index of that between."""
    order = [sorts.index(layer) for layer in model.layers]
    sizes = [sum(w.elements for w in layer_weights(model, sort)) for sort in sorts]
    seen: dict[int, tuple[int, ...]] = {}

    def counts(part: list[int]) -> tuple[int, ...]:
        return tuple(part.count(i) for i in range(len(sorts)))

    def windows(pp: int) -> tuple[int, ...]:
        if pp not in seen:
            first, held, last = (int(n) for n in layers_of_stages(Plan(pp=pp), len(order))) if pp > 1 else (len(order),) * 3
            between = [order[first + i * held : first + (i + 1) * held] for i in range(pp - 2)] or [[]]
            heaviest = max(range(len(between)), key=lambda i: sum(sizes[sort] for sort in between[i]))
            ends = counts(order[:first]), counts(order[len(order) - last :])
            seen[pp] = (*ends[0], *counts(between[heaviest]), *ends[1], heaviest + 1)
        return seen[pp]

    return windows


@dataclass(frozen=True, slots=True)
class Splits:
    """The weights of a model by where they are: each sort of layer, before the first layer, behind the last."""

    layers: tuple[Split, ...]
    before: Split
    behind: Split
    table: Split

    def on(self, stage: Stage, tied: bool) -> Split:
        """Those of a stage; a head tied to the embedding has a copy of it where these are on two stages."""
        found = Split()
        for split, count in zip(self.layers, stage.counts, strict=True):
            found = found + split * count
        table = self.table * (stage.last * where(stage.first > 0, 0, 1)) if tied else Split()
        return found + self.before * stage.first + self.behind * stage.last + table


def splits_of(model: Model, measure: Measure) -> Splits:
    """All weights, by place and by how they are split."""
    outer = [part for w in outer_weights(model) for part in (_of_tower(w, model.eyes) if model.eyes and w.path == SEEN else (w,))]
    behind = [w for w in outer if w.path in LAST or w.part == "pooler"]
    return Splits(
        layers=tuple(split_of(layer_weights(model, sort), measure, model, sort) for sort in sorts_of(model)),
        before=split_of([w for w in outer if w not in behind], measure, model),
        behind=split_of(behind, measure, model),
        table=split_of([w for w in outer if w.path == "embed_tokens"], measure, model),
    )


def _of_tower(weight: Weight, tower: Tower) -> tuple[Weight, Weight]:
    """A tower's weights: those that ranks share, as they do those of any layer, and those that each has (stem, norms, single products)."""
    layers = sum(w.elements for x in tower.model.layers for w in layer_weights(tower.model, x) if kind_of(w, x) in ("tensor", "keys"))
    pieces = sum(p.times * p.width * (p.into + int(p.bias and p.split == "n")) for p in tower.pieces if p.split and p.op == "gemm")
    return replace(weight, path=SHARED, columns=layers + pieces), replace(weight, columns=weight.elements - layers - pieces)
