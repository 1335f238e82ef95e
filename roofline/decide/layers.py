"""Steps of a model under a plan, timed: each sort of layer once, the embedding and the head, with exchanges on the cluster's tiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from roofline.decide.costs import Cost, Coster
from roofline.decide.times import AXIS_OF, PassTimes, Times, summed
from roofline.hardware.cluster import Cluster
from roofline.models.description import Experts, Layer, Model
from roofline.models.expansion import Expansion, Fields
from roofline.models.steps import layers_of, outer_of
from roofline.numeric import Number, total, where
from roofline.ops import OPERATORS
from roofline.ops.base import Op
from roofline.ops.collective import Collective
from roofline.plan.network import collective
from roofline.plan.plan import Plan, groups
from roofline.spec.vectorised import operator_of, repeat_of

Pick = Callable[[Cost], Number]
"""Which end of a cost is summed: the time itself, or an end of its band."""
Update = Callable[[Op], Op]
"""From the step of an optimizer as written to the one that a job runs."""
_Kind = TypeVar("_Kind")
FEEDS = ("gemm", "grouped_gemm")
"""Operators whose backward pass is a gradient of the input and then one of the weights, which zero-bubble schedules move apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A model's parts: seconds of each sort of layer and how many layers are of it, the embedding, the head, and one hop."""

    layers: tuple[tuple[Times, int], ...]
    embedding: Times
    head: Times
    hop_s: Number

    @property
    def layer(self) -> Times:
        """The mean layer: stages hold sorts in the proportion of the whole model."""
        count = sum(n for _, n in self.layers)
        return summed((times, n / count if n < count else 1) for times, n in self.layers)

    def bare(self) -> Timed:
        """Without what was counted: all that the step's time needs."""
        layers = tuple((times.bare(), n) for times, n in self.layers)
        return Timed(layers=layers, embedding=self.embedding.bare(), head=self.head.bare(), hop_s=self.hop_s)


Memo = dict[tuple[object, ...], object]
"""What steps cost under one grid of degrees, by all that the cost depends on; a search keeps one for all words of a plan."""
_SAID = ("id", "part", "why", "when", "tied_to")
"""Keys that say what a step is for and change nothing about its cost."""


class Timer:
    """Times the steps of one expansion: of a model in a phase, under the words of a plan.
    ``optimizer`` makes of the written step the one that the job runs."""

    def __init__(self, expansion: Expansion, cluster: Cluster, coster: Coster, optimizer: Update) -> None:
        self.model: Model = expansion.model
        self.cluster, self.coster, self.optimizer = cluster, coster, optimizer
        self.sorts = layers_of(expansion)
        self.outer = outer_of(expansion)

    def timed(self, plan: Plan, names: Mapping[str, Number], pick: Pick, memo: Memo | None = None) -> Timed:
        """All parts, with the degrees of ``plan``; ``names`` are what the steps' expressions use."""
        one = _One(self, plan, names, pick, {} if memo is None else memo)
        layers = []
        for sort in self.sorts:
            layer = self.model.layers[sort.layers[0]]
            layers.append((one.times(list(sort.steps), layer), len(sort.layers)))
        first = [f for f in self.outer if f.get("part") == "embedding"]
        last = [f for f in self.outer if f.get("part") not in ("embedding", "boundary")]
        hops = [f for f in self.outer if f.get("part") == "boundary"]
        return Timed(
            layers=tuple(layers),
            embedding=one.times(first, None),
            head=one.times(last, None),
            hop_s=total(one.exchange(f, None) for f in hops),
        )


@dataclass(frozen=True, slots=True)
class _Priced:
    """One pass of a step with its repetitions: seconds, of which ``weight_s`` for gradients of weights, and what was counted."""

    seconds: Number
    weight_s: Number
    flop: Number
    matrix_s: Number
    memory_s: Number
    resident_bytes: Number
    by: Mapping[str, Number]


class _One:
    """One evaluation: a plan, the values of the names, which end of costs."""

    def __init__(self, timer: Timer, plan: Plan, names: Mapping[str, Number], pick: Pick, memo: Memo) -> None:
        self.timer, self.plan, self.names, self.pick, self.memo = timer, plan, names, pick, memo
        self.groups = groups(plan)

    def times(self, steps: list[Fields], layer: Layer | None) -> Times:
        """Those steps together."""
        found = Times()
        for fields in steps:
            if "axis" in fields:
                self._exchanged(fields, layer, found)
            else:
                self._computed(fields, found)
        return found

    def _remembered(self, key: tuple[object, ...], fields: Fields, make: Callable[[], _Kind]) -> _Kind:
        whole = (*key, *((k, v) for k, v in fields.items() if k not in _SAID))
        if whole not in self.memo:
            self.memo[whole] = make()
        return cast(_Kind, self.memo[whole])

    # ------------------------------------------------------------------ exchanges
    def exchange(self, fields: Fields, layer: Layer | None) -> Number:
        """Seconds of one exchange, with its repetitions."""
        experts = layer.feed.active if layer is not None and isinstance(layer.feed, Experts) and fields["axis"] == "ep" else 0
        return self._remembered(("exchange", self.plan.order, experts), fields, lambda: self._exchange(fields, experts))

    def _exchange(self, fields: Fields, experts: int) -> Number:
        op = operator_of(fields, self.names, self.timer.model.dtype)
        assert isinstance(op, Collective)
        extra: dict[str, Number] = {"copies": experts, "node_limit": self.plan.node_limit} if experts else {}
        legs = collective(op.name, op.size, self.groups[str(fields["axis"])], self.timer.cluster, **extra)
        return self.pick(self.timer.coster.legs(legs)) * repeat_of(fields, self.names)

    def _exchanged(self, fields: Fields, layer: Layer | None, found: Times) -> None:
        seconds = self.exchange(fields, layer)
        when, axis = fields.get("when"), AXIS_OF[str(fields["axis"])]
        if when == "step":
            if fields.get("why") == "weights":
                found.weights = found.weights + seconds
            else:
                found.gradients = found.gradients + seconds
            return
        for passes in _passes(fields, found):
            passes.exchanges[axis] = passes.exchanges.get(axis, 0.0) + seconds

    # ------------------------------------------------------------------ compute
    def _computed(self, fields: Fields, found: Times) -> None:
        when, way = fields.get("when"), str(fields.get("pass", "forward"))
        if when == "step":
            found.optimizer = found.optimizer + self._priced("step", fields).seconds
            return
        is_attention = OPERATORS[fields["op"]].family == "attention"
        if when == "backward":
            again = self._priced("forward", fields)
            found.backward.recompute = found.backward.recompute + again.seconds
            found.flop = found.flop + again.flop
            return
        for name, passes in (("forward", found.forward), ("backward", found.backward)):
            if name in way:
                _add(found, passes, self._priced(name, fields), is_attention)

    def _priced(self, way: str, fields: Fields) -> _Priced:
        return self._remembered((way,), fields, lambda: self._price(way, fields))

    def _price(self, way: str, fields: Fields) -> _Priced:
        op, repeat = operator_of(fields, self.names, self.timer.model.dtype), repeat_of(fields, self.names)
        if way == "step":
            op = self.timer.optimizer(op)
        ops = op.backward() if way == "backward" else (op,)
        costs = [self.timer.coster.op(part) for part in ops]
        by: dict[str, Number] = {}
        for cost in costs:
            for name, seconds in cost.by.items():
                by[name] = by.get(name, 0.0) + seconds * repeat
        moves_weights = way == "backward" and op.name in FEEDS and len(costs) > 1
        return _Priced(
            seconds=total(self.pick(c) for c in costs) * repeat,
            weight_s=self.pick(costs[-1]) * repeat if moves_weights else 0.0,
            flop=total(part.counts().tensor for part in ops) * repeat,
            matrix_s=total(c.matrix_s for c in costs) * repeat,
            memory_s=total(c.memory_s for c in costs) * repeat,
            resident_bytes=total(t.moved_bytes for t in op.tensors() if t.role in ("weight", "cache")) * repeat
            if way == "forward"
            else 0.0,
            by=by,
        )


def _add(found: Times, passes: PassTimes, priced: _Priced, is_attention: bool) -> None:
    passes.compute = passes.compute + priced.seconds
    passes.weight = passes.weight + priced.weight_s
    if is_attention:
        passes.attention = passes.attention + priced.seconds
    found.flop = found.flop + priced.flop
    found.tensor_s = found.tensor_s + priced.matrix_s
    found.memory_s = found.memory_s + priced.memory_s
    found.resident_bytes = found.resident_bytes + priced.resident_bytes
    for name, seconds in priced.by.items():
        found.by[name] = found.by.get(name, 0.0) + seconds


def _passes(fields: Fields, found: Times) -> list[PassTimes]:
    """The passes that an exchange belongs to: as it says, else those of its step."""
    when = str(fields.get("when") or fields.get("pass", "forward"))
    return [p for name, p in (("forward", found.forward), ("backward", found.backward)) if name in when]


def one_replica(plan: Plan, batch: Number) -> Plan:
    """The plan with the sequences of a serving microbatch: a replica's batch over its stages, at least one."""
    share = batch / (plan.dp * plan.pp)
    return replace(plan, microbatch=where(share >= 1, share, 1))
