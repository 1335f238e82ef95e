"""From seconds of layers to the step of a plan: stages, what hides behind what, the pipeline, and what happens once a step.

The slowest stage sets the pace. Exchanges are waited for unless the plan says that their axis overlaps; then compute of the same pass
covers them, in the order tp, ep, cp, data, each second of compute once. A ring of context parallelism has only attention to hide
behind; gathered keys and values and Ulysses' exchanges lie before attention and are waited for, and so are the parts of an answer
over cached keys that ranks share. Gradients hide behind the backward
pass of the last microbatch (with ZeRO 2, which keeps a share of them only, of each), weights gathered after the optimizer behind the
forward pass of the first. Between stages a microbatch's way is waited for while the pipeline fills and drains; else it runs beside the
next microbatch, if pp overlaps.

The parts of a step add up to it, which tests hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roofline.decide.times import EXCHANGES, HOST, WAITS, PassTimes, Times, more
from roofline.numeric import Number, is_array, maximum, minimum, total, where
from roofline.plan.pipeline import Passes, bubble_s
from roofline.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage and one microbatch: seconds of both passes with what is waited for, which ``exposed`` gives by axis."""

    times: Times
    forward_s: Number
    backward_s: Number
    exposed: Mapping[str, Number]

    @property
    def passes(self) -> Passes:
        """As the pipeline sees it."""
        return Passes(forward_s=self.forward_s, backward_s=self.backward_s, weight_s=self.times.backward.weight)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a step is made of, in seconds; they add up to ``step_s``. ``exposed`` is what is waited for, by axis."""

    compute_s: Number
    recompute_s: Number
    bubble_s: Number
    exposed: Mapping[str, Number]
    optimizer_s: Number

    @property
    def step_s(self) -> Number:
        """The whole."""
        return self.compute_s + self.recompute_s + self.bubble_s + self.optimizer_s + total(self.exposed.values())

    def named(self) -> dict[str, Number]:
        """The parts by the names that reports use, in their order."""
        exposed = {f"exposed_{axis}": seconds for axis, seconds in self.exposed.items()}
        return {
            "compute": self.compute_s,
            "recompute": self.recompute_s,
            "bubble": self.bubble_s,
            **exposed,
            "optimizer": self.optimizer_s,
        }


def exposed(passes: PassTimes, plan: Plan) -> dict[str, Number]:
    """What is waited for in a pass, by axis."""
    found: dict[str, Number] = {}
    cover = passes.compute + passes.recompute
    attention = passes.attention * (1 - 1 / plan.cp)
    for axis in EXCHANGES:
        if axis not in passes.exchanges:
            continue
        needed = passes.exchanges[axis]
        if axis not in plan.overlap or (axis == "cp" and plan.context_kind != "ring"):
            found[axis] = needed
            continue
        hidden = minimum(needed, minimum(attention, cover) if axis == "cp" else cover)
        found[axis] = needed - hidden
        cover = cover - hidden
    for axis, seconds in passes.needed.items():
        found[axis] = found.get(axis, 0.0) + seconds
    if is_array(passes.host) or passes.host > 0:
        found[HOST] = maximum(passes.host - passes.compute - passes.recompute - total(found.values()), 0.0)
    return found


def layer_passes(layer: Times, plan: Plan) -> Stage:
    """A layer with what it waits for."""
    forward, backward = exposed(layer.forward, plan), exposed(layer.backward, plan)
    waited = {axis: forward.get(axis, 0.0) + backward.get(axis, 0.0) for axis in WAITS if axis in forward or axis in backward}
    return Stage(
        times=layer,
        forward_s=layer.forward.compute + layer.forward.recompute + total(forward.values()),
        backward_s=layer.backward.compute + layer.backward.recompute + total(backward.values()),
        exposed=waited,
    )


def stage_of(parts: list[tuple[Stage, Number]]) -> Stage:
    """So many of each layer, and the embedding or the head, as one stage."""
    times = Times()
    waited: dict[str, Number] = {}
    forward: Number = 0.0
    backward: Number = 0.0
    for part, count in parts:
        times = times.plus(part.times, count)
        forward, backward = more(forward, part.forward_s, count), more(backward, part.backward_s, count)
        for axis, seconds in part.exposed.items():
            waited[axis] = more(waited.get(axis, 0.0), seconds, count)
    return Stage(times=times, forward_s=forward, backward_s=backward, exposed=waited)


def slowest_of(parts: Sequence[Stage], stages: Sequence[tuple[Number, ...]]) -> Stage:
    """The stage that sets the pace, element by element where plans are arrays. ``stages`` say how much of each part a stage holds."""
    held = stages[0]
    longest = _both_s(parts, held)
    for stage in stages[1:]:
        seconds = _both_s(parts, stage)
        later = seconds > longest
        held = tuple(where(later, a, b) for a, b in zip(stage, held, strict=True))
        longest = where(later, seconds, longest)
    return stage_of(list(zip(parts, held, strict=True)))


def _both_s(parts: Sequence[Stage], held: tuple[Number, ...]) -> Number:
    seconds: Number = 0.0
    for part, share in zip(parts, held, strict=True):
        if not (isinstance(share, int) and share == 0):
            seconds = more(seconds, part.forward_s + part.backward_s, share)
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What the stages are: the slowest, the sum over all, seconds of one hop between two, and how many microbatches pass.

    ``idle_s`` is how long a single stage waits for the host in the whole step, None where no host launches kernels one by one.
    """

    slowest: Stage
    all_forward_s: Number
    all_backward_s: Number
    all_weight_s: Number
    hop_s: Number
    count: Number
    idle_s: Number | None = None

    def waited(self, plan: Plan) -> dict[str, Number]:
        """What the slowest stage waits for in all microbatches, by axis.

        The host runs ahead from kernel to kernel, which is known of a single stage as a whole; of several each part, whose microbatches
        follow each other, is taken to need the longer of its two sides.
        """
        found = {axis: seconds * self.count for axis, seconds in self.slowest.exposed.items()}
        if self.idle_s is not None:
            found[HOST] = where(plan.pp == 1, self.idle_s, found.get(HOST, 0.0))
        return found


def trained(pipeline: Pipeline, plan: Plan) -> Parts:
    """The parts of a training step."""
    slow, count = pipeline.slowest, pipeline.count
    mean = Passes(
        forward_s=pipeline.all_forward_s / plan.pp,
        backward_s=pipeline.all_backward_s / plan.pp,
        weight_s=pipeline.all_weight_s / plan.pp,
    )
    waited = pipeline.waited(plan)
    waited["pp"] = waited.get("pp", 0.0) + _hops(pipeline, plan)
    once = slow.times
    # A rank that keeps only its share of gradients (ZeRO 2) has to give away the others' after each microbatch.
    times: Number = count if plan.zero == 2 else 1
    if "data" in plan.overlap:
        late = times * maximum(once.gradients - slow.backward_s, 0.0) + maximum(once.weights - slow.forward_s, 0.0)
    else:
        late = times * once.gradients + once.weights
    waited["data"] = waited.get("data", 0.0) + late
    return _parts(slow, count, waited, bubble_s(plan, slow.passes, mean), once.optimizer)


def served(pipeline: Pipeline, plan: Plan) -> Parts:
    """The parts of a prefill: equal parts of the batch follow each other through the stages and over the hops between them.

    With the hops these are a row of machines that work on alike pieces one after the other: the first piece passes all of them, and each
    further one is done as much later as the slowest of them takes. A hop that does not overlap holds up the stage that sends.
    """
    slow, count, hop = pipeline.slowest, pipeline.count, pipeline.hop_s
    later = maximum(hop - slow.forward_s, 0.0) if "pp" in plan.overlap else hop
    waited = pipeline.waited(plan)
    waited["pp"] = waited.get("pp", 0.0) + (plan.pp - 1) * hop + where(plan.pp > 1, (count - 1) * later, 0.0)
    return _parts(slow, count, waited, maximum(pipeline.all_forward_s - slow.forward_s, 0.0), 0.0)


def decoded(pipeline: Pipeline, plan: Plan) -> Parts:
    """The parts of a round: one token of every sequence, in at most as many microbatches as there are stages.

    A microbatch comes again when it has passed all stages and hops, and a stage or a hop when it has had all microbatches: the longest of
    these is the round. What goes back to the first stage is the number of a token for each sequence, which takes no time here.
    """
    slow, count, hop = pipeline.slowest, pipeline.count, pipeline.hop_s
    busy, passed = count * slow.forward_s, pipeline.all_forward_s
    hops = where(plan.pp > 1, count * hop, 0.0)
    longest = maximum(passed + (plan.pp - 1) * hop, maximum(busy, hops) if "pp" in plan.overlap else busy + hops)
    waited = pipeline.waited(plan)
    waited["pp"] = waited.get("pp", 0.0) + (longest - maximum(busy, passed))
    return _parts(slow, count, waited, maximum(passed - busy, 0.0), 0.0)


def _parts(slow: Stage, count: Number, waited: Mapping[str, Number], bubble: Number, optimizer: Number) -> Parts:
    forward, backward = slow.times.forward, slow.times.backward
    return Parts(
        compute_s=(forward.compute + backward.compute) * count,
        recompute_s=(forward.recompute + backward.recompute) * count,
        bubble_s=bubble,
        exposed={axis: waited[axis] for axis in WAITS if axis in waited},
        optimizer_s=optimizer,
    )


def _hops(pipeline: Pipeline, plan: Plan) -> Number:
    """Waiting for microbatches of training on their way between stages.

    The last stage has its first microbatch after p - 1 hops, and the first stage hears of the last as many later; DualPipe feeds both
    ends, and those in the middle wait for p / 2 - 1. If pp overlaps, links work beside stages: pieces pass one in the time of the slowest
    stage or of a hop, whichever is longer, so that each further one is later by what the hop takes more. Else a hop holds up the stage
    that sends, twice a piece between others, though for the first to arrive and the last to leave that is the wait already counted.
    """
    hop = pipeline.hop_s
    chunks = plan.virtual if plan.schedule == "interleaved" else 1
    ends = maximum(plan.pp - 2, 0) if plan.schedule == "dualpipe" else 2 * (plan.pp - 1)
    if "pp" in plan.overlap:
        later = (chunks * pipeline.count - 1) * maximum(hop - pipeline.slowest.passes.both_s / chunks, 0.0)
    else:  # of two stages one sends only forwards, the other back, but for what goes from a chunk to the next
        between = plan.pp > 2
        sent = where(between, 2 * chunks, 2 * chunks - 1) * pipeline.count
        later = maximum(sent - where(between, 3, 1), 0) * hop
    return where(plan.pp > 1, ends * hop + later, 0.0)
