"""Cost of tokens by batch: the larger the batch, the cheaper the token and the longer each user waits for the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from roofline.decide.economics import NO_POWER, TOOL, inverse, per_million
from roofline.decide.rates import UNKNOWN_MEMORY, refuse_beyond, tokens_of_plan
from roofline.decide.sweep import Asked, Grid
from roofline.errors import MissingCapabilityError, UsageError
from roofline.report.cost import COST_SCHEMA, Amount, Fleet, ServingPoint, ServingReport
from roofline.report.model import Input, Notice, Scalar
from roofline.report.plan import PlanReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A decoding step of a batch: the tokens that it makes, its time, and bytes of a device: needed, and there where that is known."""

    batch: float
    tokens: float
    step_s: Amount
    needed_bytes: float
    available_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The batches of one workload on one sort of device, all of one kind of time. ``plan`` is how they are spread, None on one device."""

    workload: str
    hardware: str
    plan: str | None
    time_kind: str
    steps: tuple[Step, ...]
    warnings: tuple[Notice, ...] = ()
    inputs: tuple[Input, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """The most time a token of a user may take, and the first of them; the time that the first takes, and what that is of."""

    tpot_s: float | None = None
    ttft_s: float | None = None
    first_s: float | None = None
    first_source: str | None = None


def of_grid(asked: Asked, grid: Grid, names: tuple[str, str], params: Mapping[str, Scalar], inputs: tuple[Input, ...]) -> Decoded:
    """The batches of a sweep over one number, with the names of the workload and of the device, and its params at the first batch.

    Raises:
        UsageError: more than one axis, tokens that are not said, or more of them than guesses allow.
    """
    if len(asked.axes) != 1 or not asked.axes[0].numeric:
        raise UsageError("serving varies one thing, the batch: give --set batch=1..512:x2 and no other list")
    if any(math.isnan(t) or t <= 0 for t in grid.figures["tokens"].tolist()):
        raise UsageError("say how many tokens a step makes with --tokens, such as --tokens batch")
    estimated = not any(math.isnan(t) for t in grid.figures["estimate_s"].tolist())
    ends = ("estimate_s", "estimate_low_s", "estimate_high_s") if estimated else ("bound_s",)

    def step(i: int) -> Step:
        figures = {name: float(values[i]) for name, values in grid.figures.items()}
        said = not math.isnan(figures["fits"])  # of a training step nobody can say that it fits
        batch = float(asked.axes[0].values[i])
        refuse_beyond(figures["tokens"], {**params, asked.axes[0].key: batch}, f"--tokens {asked.tokens}")
        return Step(
            batch=batch,
            tokens=figures["tokens"],
            step_s=Amount(**dict(zip(("value", "low", "high"), (figures[name] for name in ends), strict=False))),
            needed_bytes=figures["memory_bytes"],
            available_bytes=figures["memory_size"] if said else None,
        )

    return Decoded(
        workload=names[0],
        hardware=names[1],
        plan=None,
        time_kind="estimate" if estimated else "bound",
        steps=tuple(step(i) for i in range(len(asked.axes[0].values))),
        inputs=inputs,
        unavailable=dict(grid.unavailable),
    )


def of_plans(plans: Sequence[PlanReport], inputs: tuple[Input, ...], tokens: str | None = None) -> Decoded:
    """The batches of plans that differ in nothing else; ``tokens`` are those of a step where a plan does not know its own.

    Raises:
        MissingCapabilityError: a plan has no time at the kind of cost that was asked.
    """

    def step(found: PlanReport) -> Step:
        if found.time is None:
            raise MissingCapabilityError(f"a step has no time: {found.unavailable.get('time', 'it says no more')}")
        batch = found.job["batch"]
        assert isinstance(batch, (int, float))
        return Step(
            batch=batch,
            tokens=tokens_of_plan(found, tokens, f"{found.model} under {found.plan}"),
            step_s=Amount(value=found.time.step_s, low=found.time.low_s, high=found.time.high_s),
            needed_bytes=found.memory.needed_bytes,
            available_bytes=found.memory.available_bytes,
        )

    steps, first = tuple(step(p) for p in plans), plans[0]
    kind = first.time.kind if first.time else ""
    said = tuple(dict.fromkeys(notice for p in plans for notice in p.warnings))
    return Decoded(
        workload=first.model, hardware=first.cluster, plan=first.plan, time_kind=kind, steps=steps, warnings=said, inputs=inputs
    )  # fmt: skip


def serving(decoded: Decoded, fleet: Fleet, goals: Goals) -> ServingReport:
    """Each batch of a decoding step, and the cheapest that fits the memory and keeps the times wanted.

    The devices of the fleet work on a step together; a user gets tokens / batch of them a step.

    Raises:
        UsageError: a goal for the first token, of whose time nothing is known.
    """
    if goals.ttft_s is not None and goals.first_s is None:
        raise UsageError("--ttft needs the time of a prefill: give --prefill REPORT, or --prompt TOKENS with a model under a plan")
    points = tuple(_point(step, fleet, goals) for step in decoded.steps)
    allowed = [p for p in points if p.fits is not False and p.meets_target]
    why = {} if fleet.watts_per_device is not None else {"joules": NO_POWER}
    reason = decoded.unavailable.get("fits", f"{decoded.hardware} states no size of its memory")
    unknown = f"whether batches fit is not known: {reason}"
    return ServingReport(
        schema=COST_SCHEMA,
        kind="serving_cost",
        tool=TOOL,
        inputs=decoded.inputs,
        workload=decoded.workload,
        hardware=decoded.hardware,
        plan=decoded.plan,
        time_kind=decoded.time_kind,
        fleet=fleet,
        target_tpot_s=goals.tpot_s,
        target_ttft_s=goals.ttft_s,
        ttft_s=goals.first_s,
        ttft_source=goals.first_source,
        points=points,
        best=min(allowed, key=lambda p: p.usd_per_million.value, default=None),
        warnings=(*decoded.warnings, *([Notice(code=UNKNOWN_MEMORY, message=unknown)] if any(p.fits is None for p in points) else [])),
        unavailable=why | dict(decoded.unavailable),
    )


def _point(step: Step, fleet: Fleet, goals: Goals) -> ServingPoint:
    rate = inverse(step.step_s, step.tokens)
    cost = per_million(fleet, rate)
    # A step that makes a token of each sequence takes that long a token to the last bit, so that a goal of just that is kept.
    tpot_s, size = step.step_s.value * (step.batch / step.tokens), step.available_bytes
    quick = goals.ttft_s is None or (goals.first_s is not None and goals.first_s <= goals.ttft_s)
    return ServingPoint(
        batch=step.batch,
        step_s=step.step_s,
        tokens_per_s_per_user=1 / tpot_s,
        tokens_per_s_per_device=rate.value / fleet.devices,
        usd_per_million=cost.usd,
        joules_per_million=cost.joules,
        fits=None if size is None else step.needed_bytes <= size,
        shortfall_bytes=None if size is None else max(0.0, step.needed_bytes - size),
        meets_target=quick and (goals.tpot_s is None or tpot_s <= goals.tpot_s),
    )
