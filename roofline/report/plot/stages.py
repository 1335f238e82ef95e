"""Why a step takes longer than its bound: the terms of its estimate as stages that add up to it, then what is not explained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from roofline.errors import UsageError, did_you_mean
from roofline.predict.estimate.host import HOST_SET
from roofline.report.model import EstimateResult, Report, Row
from roofline.report.plot.marks import TRUSTED

SERIAL = ("fixed", "gap", "prepare")
"""Terms that nothing overlaps: start and end of kernels, gaps between them, quantising an operand before a product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: seconds that it adds (negative where it takes some off), and what they are."""

    name: str
    time_s: float
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of a step, all its repetitions, or of the whole. They add up to ``estimate_s``, with the last to ``measured_s``.

    Without an estimate there are the ideal and what is not explained; ``why`` says why it is null.
    """

    of: str
    stages: tuple[Stage, ...]
    estimate_s: float | None
    measured_s: float | None
    why: str | None = None


IDEAL = "the bound: the largest of work over published rate"
WORDS = {
    "achievable rates": "rates that kernels reach instead of the published ones; below 0 where operands stay in L2",
    "tiles and waves": "whole tiles, partial waves of blocks, the latency of a block",
    "fixed costs": "start and end of kernels, gaps between them",
    "not overlapped": "what of the shorter of memory and arithmetic nothing hides",
    "host": "the device waits for the host to issue kernels",
    "between steps": "the whole beside the sum of its steps: overlap, gaps, what each leaves in L2 to the next",
    "unexplained": "measured beside the estimate",
    "beyond the bound": "measured beside the bound; there is no estimate to explain it",
}


def stages_of_row(row: Row) -> Stages | None:
    """The stages of a row, all repetitions; None without a bound."""
    if row.bound is None:
        return None
    times = row.repeat
    measured = row.measured.time_s * times if row.measured and row.measured.status in TRUSTED and row.measured.time_s > 0 else None
    parts = _parts(row.estimate, row.bound.time_s) if row.estimate else {}
    return _stages(
        row.id,
        row.bound.time_s * times,
        {name: time * times for name, time in parts.items()},
        row.estimate.time_s * times if row.estimate else None,
        measured,
        row.unavailable.get("estimate"),
    )


def stages_of(report: Report, step: str | None = None) -> Stages:
    """The stages of the whole, or of one step.

    Raises:
        UsageError: no such step, or no bound to begin with.
    """
    if step is not None:
        row = report.row(step)
        if row is None:
            raise UsageError(f"no step is called '{step}'; {did_you_mean(step, [r.id for r in report.rows])}")
        found = stages_of_row(row)
    else:
        found = _whole(report)
    if found is None:
        raise UsageError("the report has no device, so that there is no bound; write it again with 'roofline analyze ... -H PROFILE'")
    return found


def _whole(report: Report) -> Stages | None:
    """Sums over the rows; what the whole's own estimate adds to them stands between the steps."""
    totals = report.totals
    if totals.bound is None:
        return None
    ideal, parts = totals.bound.time_s, {}
    if totals.estimate:
        rows = [(r, _parts(r.estimate, r.bound.time_s)) for r in report.rows if r.estimate and r.bound]
        parts = {name: math.fsum(p[name] * r.repeat for r, p in rows) for name in (rows[0][1] if rows else {})}
        parts["between steps"] = totals.estimate.time_s - ideal - math.fsum(parts.values())
    measured = totals.measured
    return _stages(
        report.workload,
        ideal,
        parts,
        totals.estimate.time_s if totals.estimate else None,
        measured.time_s if measured and measured.status in TRUSTED and measured.time_s > 0 else None,
        totals.unavailable.get("estimate"),
    )


def _stages(of: str, ideal: float, parts: Mapping[str, float], estimate: float | None, measured: float | None, why: str | None) -> Stages:
    found = [Stage(name="ideal", time_s=ideal, said=IDEAL)]
    found += [Stage(name=name, time_s=time, said=WORDS[name]) for name, time in parts.items() if time]
    if measured is not None:
        before, name = (estimate, "unexplained") if estimate is not None else (ideal, "beyond the bound")
        found.append(Stage(name=name, time_s=measured - before, said=WORDS[name]))
    return Stages(of=of, stages=tuple(found), estimate_s=estimate, measured_s=measured, why=None if estimate is not None else why)


def _parts(found: EstimateResult, bound_s: float) -> dict[str, float]:
    """What one execution takes beyond its bound. ``power`` is the rate that a product's arithmetic sustains, a part of its compute."""
    sets = list(_sets(found))
    rates = math.fsum(max(t.get("memory", 0.0), t.get("power", t.get("compute", 0.0))) for t in sets)
    busy = math.fsum(max(t.get("memory", 0.0), t.get("compute", 0.0), t.get("block", 0.0)) for t in sets)
    serial = math.fsum(found.terms.get(name, 0.0) for name in SERIAL)
    host = found.time_s - found.device_s if 0 < found.device_s < found.time_s else 0.0
    parts = {"achievable rates": rates - bound_s, "tiles and waves": busy - rates, "fixed costs": serial, "host": host}
    parts["not overlapped"] = found.time_s - bound_s - math.fsum(parts.values())
    return parts


def _sets(found: EstimateResult) -> Iterator[Mapping[str, float]]:
    """The terms of each sort of kernel on the device: memory and arithmetic overlap within a kernel."""
    kernels = [share.terms for name, share in found.parameters.items() if name != HOST_SET]
    yield from kernels or [found.terms]
