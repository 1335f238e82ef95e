"""What ZeRO brings together on each rank for a while: the weights of whole layers (stage 3), and whole gradients (stages 2 and 3).

A unit is a layer, the embedding, or the head. While one is at work its weights are whole, and so are those of the unit gathered ahead of
it: the next one in the forward pass, the one before it in the backward pass, as torch.distributed.fsdp prefetches one unit and as
`roofline.decide.compose` lets the gather hide behind the unit before. The gradient of a unit is whole until it has been reduced and
scattered. A rank's own shares stay beside all of that. DeepSpeed's stage 3 keeps up to ``stage3_max_live_parameters`` whole, which is more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from roofline.models.description import Model
from roofline.models.memory_states import Each
from roofline.models.memory_weights import Sizes, Split, Splits, Stage, sorts_of
from roofline.numeric import Number, largest, maximum, where
from roofline.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a model's layers by their sorts: that of the first and of the last, and which lies in front of which."""

    first: int
    last: int
    neighbours: tuple[tuple[int, int], ...]


def order_of(model: Model) -> Order:
    """The order of its layers."""
    sorts = {layer: number for number, layer in enumerate(sorts_of(model))}
    found = [sorts[layer] for layer in model.layers]
    return Order(found[0], found[-1], tuple(sorted(set(pairwise(found)))))


@dataclass(frozen=True, slots=True)
class Unit:
    """Bytes of a layer, an embedding or a head that are whole while it is at work."""

    weights: Number
    gradients: Number


@dataclass(frozen=True, slots=True)
class Units:
    """A layer of each sort, the embedding and the head."""

    layers: tuple[Unit, ...]
    embedding: Unit
    head: Unit


def units_of(plan: Plan, splits: Splits, sizes: Sizes, tied: bool, each: Each, added: tuple[Number, ...], adapter: Each) -> Units:
    """What ranks share of each unit.

    ``each`` are the bytes of a weight and of its gradient as ranks exchange them (a frozen weight has no gradient); ``added`` are the
    parameters of adapters on a layer of each sort, ``adapter`` the bytes of those.
    """

    def unit(split: Split, extra: Number = 0) -> Unit:
        count, more = _shared(plan, split, sizes), where(plan.cp * plan.dp > 1, extra, 0)
        weights = count * each.weight + more * adapter.weight if plan.zero == 3 else 0
        return Unit(weights, count * each.gradient + more * adapter.gradient)

    layers = tuple(unit(split, more) for split, more in zip(splits.layers, added, strict=True))
    return Units(layers, unit(splits.before), unit(splits.behind + splits.table if tied else splits.behind))


@dataclass(frozen=True, slots=True)
class Gathered:
    """Bytes of what is whole at four moments of a step: the loss, and the backward pass of the head, of a layer, and of the embedding."""

    layer: Number = 0
    loss: Number = 0
    head: Number = 0
    embedding: Number = 0


def gathered(units: Units, order: Order, stage: Stage) -> Gathered:
    """What is whole on a stage.

    At the loss that are the weights of the head, which stay whole between its two passes, as they would be gathered again at once; its
    gradient and the layer in front of it come with its backward pass. Before the backward pass of the embedding the layers have given
    back what they kept, so that its moment is one of its own; its forward pass has the first layer gathered ahead.
    """
    first, last = (where(stage.counts[at] > 0, units.layers[at].weights, 0) for at in (order.first, order.last))
    head, embedding = units.head, units.embedding
    return Gathered(
        layer=largest(_at_layers(units.layers, stage, order.neighbours)),
        loss=where(stage.last > 0, head.weights, 0),
        head=where(stage.last > 0, head.weights + head.gradients + last, 0),
        embedding=where(stage.first > 0, embedding.weights + maximum(embedding.gradients, first), 0),
    )


def _shared(plan: Plan, split: Split, sizes: Sizes) -> Number:
    """Parameters of a unit of which a rank has a share; those that no other rank has are not exchanged."""
    experts = plan.tp * plan.cp * plan.dp / (plan.ep * plan.etp)
    return where(plan.cp * plan.dp > 1, split.dense(plan, sizes), 0) + where(experts > 1, split.experts(plan), 0)


def _at_layers(layers: tuple[Unit, ...], stage: Stage, neighbours: Iterable[tuple[int, int]]) -> Iterable[Number]:
    """Each layer at work alone, and with the one that is gathered meanwhile, which lies in front of it."""
    for unit, count in zip(layers, stage.counts, strict=True):
        yield where(count > 0, unit.weights + unit.gradients, 0)
    for before, at in neighbours:
        both = stage.counts[at] > 1 if before == at else (stage.counts[at] > 0) & (stage.counts[before] > 0)
        yield where(both, layers[at].weights + layers[at].gradients + layers[before].weights, 0)
