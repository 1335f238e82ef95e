"""The band of an estimated step: each set of parameters at its ends, the rest as they are, as far as the step follows.

Kernels of one set err together, different sets as independent ones: what they change adds up as squares, as in a report
(`roofline.report.estimated.device_band`). A step is composed of sums and maxima of seconds, so that it is as many times longer as all
of them are; the host errs with the device.
"""

from __future__ import annotations

import math
from dataclasses import replace

from roofline.decide.costs import Cost, EstimateCoster
from roofline.decide.evaluate import Evaluator
from roofline.decide.layers import Memo, Pick
from roofline.numeric import scalar
from roofline.plan.plan import Plan

LOW, HIGH = 0, 1


def band_s(evaluator: Evaluator, coster: EstimateCoster, plan: Plan) -> tuple[float, float]:
    """Seconds of the step of a settled plan at the low and at the high end of what 90 % of measurements fall into."""
    costs: Memo = {}

    def step_s(pick: Pick) -> float:
        return scalar(evaluator.read(pick, costs).evaluate(plan).step_s)

    kernels = step_s(_kernels)
    ends = []
    for side, host in zip((LOW, HIGH), coster.host_ends(), strict=True):
        changes = (step_s(_at_end(name, side)) - kernels for name in sorted(coster.sets))
        change = math.hypot(*changes) / kernels if kernels else 0.0
        ends.append(step_s(_scaled(host, 1 + change if side == HIGH else 1 - change)))
    return ends[LOW], ends[HIGH]


def _kernels(cost: Cost) -> Cost:
    """What has a band: kernels, without the time between them and without the host."""
    return replace(cost, time_s=cost.time_s - cost.gap_s, gap_s=0.0, issued=())


def _at_end(name: str, side: int) -> Pick:
    def pick(cost: Cost) -> Cost:
        kernels, width = _kernels(cost), cost.widths.get(name, (0.0, 0.0))[side]
        return replace(kernels, time_s=kernels.time_s + (width if side == HIGH else -width))

    return pick


def _scaled(host: float, device: float) -> Pick:
    def pick(cost: Cost) -> Cost:
        return replace(cost, time_s=cost.time_s * device, issued=tuple(c.scaled(host, device) for c in cost.issued))

    return pick
