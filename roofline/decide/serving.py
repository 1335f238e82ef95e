"""Cost of tokens by batch: the larger the batch, the cheaper the token and the longer each user waits for the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping

from roofline.decide.economics import NO_POWER, TOOL, inverse, per_million
from roofline.decide.sweep import Asked, Grid
from roofline.errors import UsageError
from roofline.report.cost import COST_SCHEMA, Amount, Fleet, ServingPoint, ServingReport
from roofline.report.model import Input


def serving(
    asked: Asked,
    grid: Grid,
    fleet: Fleet,
    *,
    tpot_s: float | None,
    ttft_s: float | None,
    prefill_s: float | None,
    names: Mapping[str, str],
    inputs: tuple[Input, ...],
) -> ServingReport:
    """Each batch of a decoding step, and the cheapest that fits the memory and keeps the times wanted.

    ``asked`` varies one number, the batch of a step, and says the tokens that a step makes; the workload is that of one of the fleet's
    devices, which work on the step together. A user gets tokens / batch of them a step. ``prefill_s`` is the time to the first token,
    held to ``ttft_s``. ``names`` are those of the workload and of the device.

    Raises:
        UsageError: more than one axis, tokens that are not said, or a time to the first token that nothing was given for.
    """
    if len(asked.axes) != 1 or not asked.axes[0].numeric:
        raise UsageError("serving varies one thing, the batch: give --set batch=1..512:x2 and no other list")
    if any(math.isnan(t) or t <= 0 for t in grid.figures["tokens"].tolist()):
        raise UsageError("say how many tokens a step makes with --tokens, such as --tokens batch")
    if ttft_s is not None and prefill_s is None:
        raise UsageError("--ttft needs the time of a prefill: give --prefill REPORT")
    estimated = not any(math.isnan(t) for t in grid.figures["estimate_s"].tolist())
    quick = ttft_s is None or (prefill_s is not None and prefill_s <= ttft_s)
    points = tuple(_point(asked, grid, fleet, i, estimated, tpot_s, quick) for i in range(len(asked.axes[0].values)))
    allowed = [p for p in points if p.fits is not False and p.meets_target]
    why = {} if fleet.watts_per_device is not None else {"joules": NO_POWER}
    return ServingReport(
        schema=COST_SCHEMA,
        kind="serving_cost",
        tool=TOOL,
        inputs=inputs,
        workload=names["workload"],
        hardware=names["hardware"],
        time_kind="estimate" if estimated else "bound",
        fleet=fleet,
        target_tpot_s=tpot_s,
        target_ttft_s=ttft_s,
        ttft_s=prefill_s,
        points=points,
        best=min(allowed, key=lambda p: p.usd_per_million.value, default=None),
        unavailable=why | dict(grid.unavailable),
    )


def _point(asked: Asked, grid: Grid, fleet: Fleet, i: int, estimated: bool, tpot_s: float | None, quick: bool) -> ServingPoint:
    batch, tokens = float(asked.axes[0].values[i]), float(grid.figures["tokens"][i])
    ends = ("estimate_s", "estimate_low_s", "estimate_high_s")
    seconds = [float(grid.figures[name][i]) for name in (ends if estimated else ("bound_s",))]
    step = Amount(**dict(zip(("value", "low", "high"), seconds, strict=False)))
    rate = inverse(step, tokens)
    cost = per_million(fleet, rate)
    size = float(grid.figures["memory_size"][i])
    user = rate.value / batch
    return ServingPoint(
        batch=batch,
        step_s=step,
        tokens_per_s_per_user=user,
        tokens_per_s_per_device=rate.value / fleet.devices,
        usd_per_million=cost.usd,
        joules_per_million=cost.joules,
        fits=None if math.isnan(size) else bool(grid.figures["memory_bytes"][i] <= size),
        meets_target=quick and (tpot_s is None or 1 / user <= tpot_s),
    )
