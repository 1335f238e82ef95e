"""A plan: how the work of a model is spread over devices. Degrees may be numbers, or float64 arrays when many plans are looked at."""

from __future__ import annotations

from dataclasses import dataclass

from roofline.numeric import Number
from roofline.plan.placement import Group

AXES = ("tp", "cp", "pp", "dp", "ep", "etp")
"""Tensor, context, pipeline and data parallel; experts over ranks, and each expert over ranks."""
ORDERS = ("tp-cp-pp-dp", "tp-cp-dp-pp")
"""Axes from neighbouring devices outwards: Llama 3's order, and Megatron's default."""
CONTEXT_KINDS = ("ring", "all_gather", "ulysses")
SCHEDULES = ("1f1b", "interleaved", "zero_bubble", "dualpipe")
RECOMPUTE = ("none", "selective", "full")
OVERLAPS = ("tp", "cp", "pp", "ep", "data")
"""Axes whose exchange can be said to run beside compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How work is spread. The devices are ``tp * cp * pp * dp``.

    Experts are spread over ``ep`` of the ``tp * cp * dp`` devices of a stage, each over ``etp`` of them (ep * etp divides that
    product). ``sequence_parallel`` splits what tensor parallelism leaves whole (norms, residuals) along tokens, so that each all-reduce
    becomes a reduce-scatter and an all-gather. ``zero`` is the ZeRO stage over dp (and cp): 1 shards optimizer states, 2 gradients too, 3
    weights too (FSDP). ``virtual`` are chunks of layers a stage holds, ``microbatch`` the sequences of one microbatch on a replica, which 0
    leaves open in prefill; ``recompute`` is what the backward pass computes again. ``imbalance`` is the load of the fullest rank of experts
    over the mean. ``uneven`` lets the first and the last chunk of layers hold fewer than the others; ``overlap`` names the axes whose
    exchange runs beside compute, so that only what compute does not cover is waited for.
    """

    tp: Number = 1
    cp: Number = 1
    pp: Number = 1
    dp: Number = 1
    ep: Number = 1
    etp: Number = 1
    sequence_parallel: bool = False
    context_kind: str = "ring"
    zero: int = 0
    virtual: Number = 1
    schedule: str = "1f1b"
    microbatch: Number = 1
    recompute: str = "none"
    order: str = "tp-cp-pp-dp"
    imbalance: Number = 1.0
    node_limit: Number = 0
    uneven: bool = False
    overlap: tuple[str, ...] = ("cp", "pp", "data")

    @property
    def devices(self) -> Number:
        """All devices."""
        return self.tp * self.cp * self.pp * self.dp


ONE = Plan()
"""A single device."""


def groups(plan: Plan) -> dict[str, Group]:
    """The group of each axis, and ``data``: the ranks that share weights (cp x dp), over which gradients are added.

    Experts take ep neighbours of a stage, whichever axes these are (etp innermost), and ``expert_data`` are the ranks that hold the same
    expert. A stage is no row of neighbours where the pipeline comes before data parallelism: its devices are those of tp x cp, and then
    again past the other stages.

    >>> groups(Plan(tp=8, pp=4, dp=2))["dp"].stride
    32
    """
    found: dict[str, Group] = {}
    stride: Number = 1
    for axis in plan.order.split("-"):
        size = getattr(plan, axis)
        found[axis] = Group(size=size, stride=stride, blocks=plan.devices / (size * stride))
        stride = stride * size
    found["data"] = _of_stage(plan, plan.cp * plan.dp, plan.tp)
    found["etp"] = _of_stage(plan, plan.etp, 1)
    found["ep"] = _of_stage(plan, plan.ep, plan.etp)
    found["expert_data"] = _of_stage(plan, plan.tp * plan.cp * plan.dp / (plan.ep * plan.etp), plan.ep * plan.etp)
    return found


def _of_stage(plan: Plan, size: Number, stride: Number) -> Group:
    """Ranks that lie ``stride`` apart among those of one stage, wherever the devices of other stages are."""
    if plan.order.endswith("pp"):
        return Group(size=size, stride=stride, blocks=plan.devices / (size * stride))
    blocks = plan.tp * plan.cp * plan.dp / (size * stride)
    return Group(size=size, stride=stride, blocks=blocks, row=plan.tp * plan.cp, stages=plan.pp)
