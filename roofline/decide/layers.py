"""Steps of a model under a plan, timed: each sort of layer once, the embedding and the head, with exchanges on the cluster's tiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from roofline.decide.costs import Cost, Coster
from roofline.decide.times import AXIS_OF, PassTimes, Times, summed
from roofline.hardware.cluster import Cluster
from roofline.models.collectives import NEEDED
from roofline.models.description import Experts, Layer, Model
from roofline.models.expansion import Expansion, Fields
from roofline.models.feed_steps import routed
from roofline.models.whole import layers_of, outer_of
from roofline.numeric import Number, is_array, maximum, total, where
from roofline.ops import OPERATORS
from roofline.ops.collective import Collective
from roofline.ops.optimizer import OptimizerStep
from roofline.plan.network import Leg, collective
from roofline.plan.plan import Plan, groups
from roofline.plan.routed import Routed
from roofline.predict.estimate.timeline import NOTHING, Calls, LaunchedStep, Launches, in_order, launch, launched, layered
from roofline.spec.vectorised import operator_of, repeat_of
from roofline.workload.packed import halves

Pick = Callable[[Cost], Cost]
"""How a cost is read: as it is, or at an end of its band."""
_Kind = TypeVar("_Kind")
FEEDS = ("gemm", "grouped_gemm")
"""Operators whose backward pass is a gradient of the input and then one of the weights, which zero-bubble schedules move apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """How a host launches the kernels of one microbatch through the whole model, and then those of the optimizer; ``first_s`` is its
    time for the first of all. Exchanges that hide behind compute cost the host alone."""

    microbatch: Launches
    optimizer: Launches
    first_s: Number

    def idle_s(self, count: Number) -> Number:
        """How long a device with all layers waits for the host in a step of ``count`` microbatches."""
        step = self.microbatch.times(count).then(self.optimizer)
        return maximum(step.whole_s(self.first_s) - step.device_s, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A model's parts: seconds of each sort of layer and how many layers are of it, the embedding, the head, and one hop.

    ``issued`` is how a host launches all of it, None where that costs nothing.
    """

    layers: tuple[tuple[Times, int], ...]
    embedding: Times
    head: Times
    hop_s: Number
    issued: Issued | None = None

    @property
    def layer(self) -> Times:
        """The mean layer: stages hold sorts in the proportion of the whole model."""
        count = sum(n for _, n in self.layers)
        return summed((times, n / count if n < count else 1) for times, n in self.layers)

    def bare(self) -> Timed:
        """Without what was counted: all that the step's time needs."""
        layers = tuple((times.bare(), n) for times, n in self.layers)
        return replace(self, layers=layers, embedding=self.embedding.bare(), head=self.head.bare())


Memo = dict[tuple[object, ...], object]
"""What steps cost under one grid of degrees, by all that the cost depends on; a search keeps one for all words of a plan."""
_SAID = ("id", "part", "why", "when", "tied_to")
"""Keys that say what a step is for and change nothing about its cost."""


class Timer:
    """Times the steps of one expansion: of a model in a phase, under the words of a plan."""

    def __init__(self, expansion: Expansion, cluster: Cluster, coster: Coster) -> None:
        self.model: Model = expansion.model
        self.cluster, self.coster = cluster, coster
        self.sorts = layers_of(expansion)
        outer = outer_of(expansion)
        self.first = [f for f in outer if f.get("part") == "embedding"]
        self.last = [f for f in outer if f.get("part") not in ("embedding", "boundary")]
        self.hops = [f for f in outer if f.get("part") == "boundary"]

    def timed(self, plan: Plan, names: Mapping[str, Number], pick: Pick, memo: Memo | None = None, costs: Memo | None = None) -> Timed:
        """All parts, with the degrees of ``plan``; ``names`` are what the steps' expressions use. ``costs`` are kept for other picks."""
        one = _One(self, plan, names, pick, {} if memo is None else memo, costs)
        embedding = one.part(self.first, None)
        layers = [(one.part(list(s.steps), self.model.layers[s.layers[0]]), len(s.layers)) for s in self.sorts]
        head = one.part(self.last, None)
        parts = [(embedding, 1), *layers, (head, 1)]
        updating = one.optimizer(parts)
        return Timed(
            layers=tuple((part.times, n) for part, n in layers),
            embedding=embedding.times,
            head=head.times,
            hop_s=one.hop_s(self.hops),
            issued=_issued(embedding, layers, head, updating),
        )


@dataclass(slots=True)
class _Part:
    """A layer, the embedding or the head: its times, its steps as they are launched, and those that update its parameters."""

    times: Times
    launched: list[LaunchedStep]
    updates: list[Fields]


def _issued(embedding: _Part, layers: Sequence[tuple[_Part, int]], head: _Part, optimizer: Launches) -> Issued | None:
    """Everything in order; nothing where no step has a host that launches it."""
    steps = [s for part in (embedding, *(p for p, _ in layers), head) for s in part.launched]
    if not steps:
        return None
    inner = in_order(in_order(s.once.times(s.repeat) for s in part.launched).times(n) for part, n in layers)
    whole = layered(embedding.launched).then(inner).then(layered(head.launched))
    return Issued(microbatch=whole, optimizer=optimizer, first_s=steps[0].first_s)


@dataclass(frozen=True, slots=True)
class _Costed:
    """A step's operator and its repetitions, and what each operator of the forward and of the backward pass costs."""

    forward: tuple[Cost, ...]
    backward: tuple[Cost, ...]
    repeat: Number
    flop: Mapping[str, Number]
    resident_bytes: Number
    feeds: bool


@dataclass(frozen=True, slots=True)
class _Priced:
    """One pass of a step with its repetitions: seconds, of which ``weight_s`` for gradients of weights, and what was counted; and the
    kernels of one execution, if a host has to launch them."""

    seconds: Number
    weight_s: Number
    flop: Number
    matrix_s: Number
    memory_s: Number
    resident_bytes: Number
    by: Mapping[str, Number]
    repeat: Number
    calls: tuple[Calls, ...]


@dataclass(frozen=True, slots=True)
class _Sent:
    """An exchange with its repetitions: seconds, and those of a host that launches it."""

    seconds: Number
    host_s: Number | None


class _One:
    """One evaluation: a plan, the values of the names, how costs are read."""

    def __init__(self, timer: Timer, plan: Plan, names: Mapping[str, Number], pick: Pick, memo: Memo, costs: Memo | None) -> None:
        self.timer, self.plan, self.names, self.pick, self.memo = timer, plan, names, pick, memo
        self.costs = memo if costs is None else costs
        self.groups = groups(plan)

    def part(self, steps: list[Fields], layer: Layer | None) -> _Part:
        """Those steps together, but for the optimizer's."""
        found = _Part(Times(), [], [])
        before: Fields = {}
        for fields in steps:
            if "axis" in fields:
                self._exchanged(fields, layer, found)
            elif fields.get("when") == "step":
                found.updates.append(fields)
            else:
                self._computed(self._fed(before, fields), found)
            before = fields
        return found

    def _remembered(self, memo: Memo, key: tuple[object, ...], fields: Fields, make: Callable[[], _Kind]) -> _Kind:
        whole = (*key, *((k, v) for k, v in fields.items() if k not in _SAID))
        if whole not in memo:
            memo[whole] = make()
        return cast(_Kind, memo[whole])

    # ------------------------------------------------------------------ exchanges
    def exchange(self, fields: Fields, layer: Layer | None) -> _Sent:
        """One exchange, with its repetitions."""
        tokens = routed(layer.feed) if layer is not None and isinstance(layer.feed, Experts) and fields["axis"] == "ep" else None
        known = ("exchange", self.plan.order, tokens)
        return self._remembered(self.memo, known, fields, lambda: self._exchange(fields, tokens))

    def _exchange(self, fields: Fields, tokens: Routed | None) -> _Sent:
        op, repeat = operator_of(fields, self.names, self.timer.model.dtype), repeat_of(fields, self.names)
        assert isinstance(op, Collective)
        extra: dict[str, Any] = {}
        if tokens is not None:
            extra = {"copies": tokens, "node_limit": self.plan.node_limit}
            extra["imbalance"] = tokens.loaded(self.names["imbalance"], self.plan.ep)
            extra["least"] = self.timer.coster.kind == "bound"
        legs = collective(op.name, op.size, self.groups[str(fields["axis"])], self.timer.cluster, **extra)
        cost, there = self.pick(self.timer.coster.legs(legs)), op.ranks > 1  # a step may be of fewer ranks than its axis has
        host = where(there, total(c.host_s for c in cost.issued) * repeat, 0.0) if cost.issued else None
        return _Sent(where(there, cost.time_s * repeat, 0.0), host)

    def hop_s(self, steps: Sequence[Fields]) -> Number:
        """From one stage to the next, in these steps: parts of one exchange, so that a bound has them at once."""
        known = ("hop", self.plan.order, *(fields["size"] for fields in steps))
        return self._remembered(self.memo, known, {}, lambda: self._hop_s(steps))

    def _hop_s(self, steps: Sequence[Fields]) -> Number:
        legs: list[Leg] = []
        for fields in steps:
            op = operator_of(fields, self.names, self.timer.model.dtype)
            assert isinstance(op, Collective)
            legs += collective(op.name, op.size, self.groups[str(fields["axis"])], self.timer.cluster)
        # A single stage hands nothing on, though nothing may be known of a link between its ranks: for ever, none times, is no number.
        return where(self.plan.pp > 1, self.pick(self.timer.coster.legs(tuple(legs))).time_s, 0.0)

    def _exchanged(self, fields: Fields, layer: Layer | None, part: _Part) -> None:
        sent, found = self.exchange(fields, layer), part.times
        when, axis = fields.get("when"), AXIS_OF[str(fields["axis"])]
        if when == "step":
            if fields.get("why") == "weights":
                found.weights = found.weights + sent.seconds
            else:
                found.gradients = found.gradients + sent.seconds
            return
        for passes in _passes(fields, found):
            held = passes.needed if fields.get("why") == NEEDED else passes.exchanges
            held[axis] = held.get(axis, 0.0) + sent.seconds
            if sent.host_s is not None:
                passes.host = passes.host + sent.host_s
                waited = sent.seconds if held is passes.needed or axis not in self.plan.overlap else 0.0
                part.launched.append(LaunchedStep(str(fields["id"]), launch(sent.host_s, waited), sent.host_s))

    # ------------------------------------------------------------------ compute
    def _fed(self, before: Fields, fields: Fields) -> Fields:
        """The step; an activation that reads halves of what the step before wrote says so, as in a file."""
        if fields["op"] != "swiglu" or before.get("op") != "gemm" or before.get("repeat") != fields.get("repeat"):
            return fields
        known = ("halves", *before.items())
        ops = (operator_of(step, self.names, self.timer.model.dtype) for step in (before, fields))
        return {**fields, "packed": True} if self._remembered(self.memo, known, fields, lambda: halves(*ops)) else fields

    def _computed(self, fields: Fields, part: _Part) -> None:
        way, found = str(fields.get("pass", "forward")), part.times
        is_attention = OPERATORS[fields["op"]].family == "attention"
        if fields.get("when") == "backward":
            again = self._priced("forward", fields)
            found.backward.recompute = found.backward.recompute + again.seconds
            found.flop = found.flop + again.flop
            _launch(part, fields, [(again, found.backward)])
            return
        priced = [(self._priced(n, fields), p) for n, p in (("forward", found.forward), ("backward", found.backward)) if n in way]
        for one, passes in priced:
            _add(found, passes, one, is_attention)
        _launch(part, fields, priced)

    def _priced(self, way: str, fields: Fields) -> _Priced:
        return self._remembered(self.memo, (way,), fields, lambda: self._price(way, fields))

    def _price(self, way: str, fields: Fields) -> _Priced:
        costed: _Costed = self._remembered(self.costs, ("costs",), fields, lambda: self._cost(fields))
        repeat, forward = costed.repeat, way == "forward"
        costs = [self.pick(c) for c in (costed.forward if forward else costed.backward)]
        by: dict[str, Number] = {}
        for cost in costs:
            for name, seconds in cost.by.items():
                by[name] = by.get(name, 0.0) + seconds * repeat
        return _Priced(
            seconds=total(c.time_s for c in costs) * repeat,
            weight_s=costs[-1].time_s * repeat if not forward and costed.feeds and len(costs) > 1 else 0.0,
            flop=costed.flop[way] * repeat,
            matrix_s=total(c.matrix_s for c in costs) * repeat,
            memory_s=total(c.memory_s for c in costs) * repeat,
            resident_bytes=costed.resident_bytes * repeat if forward else 0.0,
            by=by,
            repeat=repeat,
            calls=tuple(call for cost in costs for call in cost.issued),
        )

    def _cost(self, fields: Fields) -> _Costed:
        """Both passes together, since what is possible at all is asked of the whole step."""
        op, way = operator_of(fields, self.names, self.timer.model.dtype), str(fields.get("pass", "forward"))
        ahead, back = ((op,) if "forward" in way else ()), (op.backward() if "backward" in way else ())
        costs = self.timer.coster.ops((*ahead, *back))
        return _Costed(
            forward=costs[: len(ahead)],
            backward=costs[len(ahead) :],
            repeat=repeat_of(fields, self.names),
            flop={"forward": total(o.counts().tensor for o in ahead), "backward": total(o.counts().tensor for o in back)},
            resident_bytes=total(t.moved_bytes for t in op.tensors() if t.role in ("weight", "cache")),
            feeds=op.name in FEEDS,
        )

    # ------------------------------------------------------------------ the optimizer
    def optimizer(self, parts: Sequence[tuple[_Part, int]]) -> Launches:
        """Give each part its share of the one step that updates all that a rank holds, and say how that step is launched.

        A stage's share is taken from a mean stage.
        """
        each = [(part, [self._updating(f) for f in part.updates], n) for part, n in parts if part.updates]
        every = total(total(op.parameters for op in ops) * n for _, ops, n in each) / self.plan.pp
        if not each:
            return NOTHING
        known = ("optimizer", *((str(f["parameters"]), n) for part, n in parts for f in part.updates))
        one = replace(each[0][1][0], parameters=every)
        cost = self.pick(self._remembered(self.costs, known, each[0][0].updates[0], lambda: self.timer.coster.ops((one,))[0]))
        for part, ops, _ in each:
            held = total(op.parameters for op in ops)
            part.times.optimizer = cost.time_s * (held / maximum(every, 1))
        return in_order(c.launches() for c in cost.issued)

    def _updating(self, fields: Fields) -> OptimizerStep:
        op = operator_of(fields, self.names, self.timer.model.dtype)
        assert isinstance(op, OptimizerStep)
        return op


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


def _launch(part: _Part, fields: Fields, priced: Sequence[tuple[_Priced, PassTimes]]) -> None:
    """Note how a host launches a step, and what that costs it in each pass."""
    calls = [call for one, _ in priced for call in one.calls]
    repeat = priced[0][0].repeat
    if not calls or (not is_array(repeat) and repeat < 1):
        return
    for one, passes in priced:
        passes.host = passes.host + total(c.host_s for c in one.calls) * repeat
    if is_array(repeat):
        first = launched(str(fields["id"]), calls)
        part.launched.append(replace(first, once=first.once.times(repeat)))
    else:
        part.launched.append(launched(str(fields["id"]), calls, int(repeat)))


def _passes(fields: Fields, found: Times) -> list[PassTimes]:
    """The passes that an exchange belongs to: as it says, else those of its step."""
    when = str(fields.get("when") or fields.get("pass", "forward"))
    return [p for name, p in (("forward", found.forward), ("backward", found.backward)) if name in when]
