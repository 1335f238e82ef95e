"""Pipelines: how long stages idle, what they send to each other, and how many microbatches they hold, by schedule.

Sources: 1F1B and its interleaving from Narayanan et al. 2021 (arXiv 2104.04473, section 2.2); zero bubble (ZB-H1, 1P) and DualPipe as
tabulated by DeepSeek-V3 (arXiv 2412.19437, table 2). F is the forward pass of a microbatch on a stage, B its whole backward pass,
W the part of B that makes gradients of weights:

    1F1B          (p - 1) (F + B)             interleaved   (p - 1) (F + B) / v
    zero bubble   (p - 1) (F + B - 2 W)       DualPipe      (p / 2 - 1) (2 B + F - 3 W)

DualPipe's overlapped pair of a forward and a backward pass takes F + B here: what it hides is communication, not arithmetic.

In serving only forward passes follow each other through the stages. A prefill sends a replica's prompts through them in equal parts, and
idles for (p - 1) F while they fill and drain. A decode or mixed step is a round in which each part passes all stages, and a part may only
come again when its token is there: with as many parts as stages none is idle, with fewer each waits for p - m passes.
All take numbers or float64 arrays, except for the schedule, which is a word.
"""

from __future__ import annotations

from dataclasses import dataclass

from roofline.numeric import Number, maximum, minimum, where
from roofline.plan.job import Job
from roofline.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Seconds of one microbatch on a stage: ``forward_s``, ``backward_s`` in whole, and ``weight_s`` of it for gradients of weights."""

    forward_s: Number
    backward_s: Number = 0.0
    weight_s: Number = 0.0

    @property
    def both_s(self) -> Number:
        """Forward and backward."""
        return self.forward_s + self.backward_s


def microbatches(plan: Plan, batch: Number) -> Number:
    """How many microbatches a replica runs a step: ``batch`` sequences over dp, by the sequences of one.

    >>> microbatches(Plan(dp=64, microbatch=1), 2048)
    32.0
    """
    return batch / (plan.dp * plan.microbatch)


def microbatch(plan: Plan, job: Job) -> Number:
    """Sequences of one microbatch on a replica.

    In training those of the plan. A prefill goes through several stages in the plan's parts, of one sequence where it leaves them open (0),
    and through a single stage whole. A decode or mixed step has a part for each stage, of at least one sequence.

    >>> plan = Plan(pp=4, dp=2, microbatch=4)
    >>> microbatch(plan, Job(phase="prefill", batch=16)), microbatch(plan, Job(phase="decode", batch=16))
    (4, 2.0)
    """
    if job.phase == "train":
        return plan.microbatch
    replica = job.batch / plan.dp
    if job.phase == "prefill":
        return where(plan.pp > 1, maximum(plan.microbatch, 1), replica)
    return maximum(replica / plan.pp, 1)


def left_open(plan: Plan, job: Job) -> bool:
    """Whether a plan of single numbers leaves the parts of a prefill to whoever looks for the quickest."""
    return job.phase == "prefill" and isinstance(plan.microbatch, int) and plan.microbatch == 0 and bool(plan.pp > 1)


def chunk(plan: Plan, job: Job) -> Number:
    """Prompt tokens of a microbatch of a mixed step: each part of each replica has a chunk of a prompt of its own.

    >>> chunk(Plan(pp=2, dp=2), Job(phase="mixed", batch=64, context=4096, chunk=2048))
    512.0
    """
    return job.chunk / (plan.dp * plan.pp)


def bubble_s(plan: Plan, slowest: Passes, mean: Passes) -> Number:
    """Seconds a step in which the slowest stage waits for others: the pipeline filling and draining.

    ``mean`` is the average over all stages. Between fill and drain the slowest stage never waits; the fill and the drain take the other
    stages' passes once, which with equal stages are the formulas above.

    >>> float(bubble_s(Plan(pp=8), Passes(forward_s=1.0, backward_s=2.0), Passes(forward_s=1.0, backward_s=2.0)))
    21.0
    """
    if plan.schedule == "zero_bubble":
        return maximum(plan.pp * _without_weights(mean, 2) - _without_weights(slowest, 2), 0.0)
    if plan.schedule == "dualpipe":
        idle = mean.forward_s + 2 * mean.backward_s - 3 * mean.weight_s
        return maximum(plan.pp / 2 - 1, 0) * maximum(idle, 0.0)
    others = plan.pp * mean.both_s - slowest.both_s
    return maximum(others, 0.0) / (plan.virtual if plan.schedule == "interleaved" else 1)


def _without_weights(passes: Passes, times: int) -> Number:
    return passes.both_s - times * passes.weight_s


def bubble_fraction(plan: Plan, count: Number, *, backward: float = 2.0, weight: float = 1.0) -> Number:
    """The bubble over the ideal time of ``count`` microbatches, for equal stages; backward and weight in forward passes.

    >>> float(bubble_fraction(Plan(pp=8), 8))
    0.875
    """
    one = Passes(forward_s=1.0, backward_s=backward, weight_s=weight)
    return bubble_s(plan, one, one) / (count * one.both_s)


def idle_fraction(plan: Plan, job: Job) -> Number:
    """Idle over ideal time of equal stages in a step of the job: the schedule's formula in training, in prefill (p - 1) / m of forward
    passes, in decode and mixed steps (p - m) / m where there are fewer microbatches m than stages.

    >>> float(idle_fraction(Plan(pp=4, microbatch=2), Job(phase="prefill", batch=16)))
    0.375
    """
    count = job.batch / (plan.dp * microbatch(plan, job))
    if job.phase == "train":
        return bubble_fraction(plan, count)
    if job.phase == "prefill":
        return (plan.pp - 1) / count
    return maximum(plan.pp - count, 0) / count


def in_flight(plan: Plan, count: Number) -> Number:
    """Microbatches whose activations the fullest stage holds, in activations of all its layers.

    1F1B and zero bubble p; interleaved p + (p - 1) / v (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.3); DualPipe p + 1; never
    more than there are.
    """
    held: Number = plan.pp
    if plan.schedule == "interleaved":
        held = plan.pp + (plan.pp - 1) / plan.virtual
    elif plan.schedule == "dualpipe":
        held = plan.pp + 1
    return minimum(held, maximum(count, 1))


def weight_copies(plan: Plan) -> int:
    """How many stages' weights a device holds: two under DualPipe, which feeds microbatches from both ends."""
    return 2 if plan.schedule == "dualpipe" else 1


def boundary_bytes(plan: Plan, tokens: Number, hidden: Number, element_bytes: float) -> Number:
    """Bytes that a rank sends over one boundary for the ``tokens`` of a microbatch on it, one direction.

    The ranks of a tensor-parallel group hold the same activations and each sends its share of them (Narayanan et al., section 4.1).
    """
    return tokens * hidden * element_bytes / plan.tp


def boundaries(plan: Plan, count: Number, *, both_ways: bool) -> Number:
    """How often a stage between others sends a microbatch on: ``count`` times for each of its chunks, in training back as well."""
    chunks = plan.virtual if plan.schedule == "interleaved" else 1
    return count * chunks * (2 if both_ways else 1)


def layers_of_stages(plan: Plan, layers: Number) -> tuple[Number, Number, Number]:
    """Layers of the first stage, of one between, and of the last; with an uneven split the first and last chunk hold fewer.

    >>> layers_of_stages(Plan(pp=16, uneven=True), 126)
    (7, 8, 7)
    """
    chunks = plan.pp * plan.virtual
    most = -(-layers // chunks)
    missing = most * chunks - layers
    first = -(-missing // 2)
    middle = most * plan.virtual
    return middle - first, middle, middle - (missing - first)
