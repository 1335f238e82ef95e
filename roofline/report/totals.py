"""The totals of a report: sums, memory, the critical path, and the sentence that matters as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from roofline.hardware.profile import LEVELS, Hardware, si
from roofline.numeric import scalar
from roofline.predict.bound import COMPUTE
from roofline.predict.compose import Schedule, schedule
from roofline.report.counted import Counted
from roofline.report.estimated import NO_ESTIMATES, Estimates
from roofline.report.model import Headline, MeasuredResult, Memory, Row, TotalBound, Totals, arithmetic
from roofline.report.resident import UNCOUNTED, Resident, resident
from roofline.report.rows import NO_HARDWARE, NO_TIME


def totals_of(
    counted: Sequence[Counted],
    rows: Sequence[Row],
    hardware: Hardware | None,
    total: Schedule,
    whole: MeasuredResult | None = None,
    estimated: Estimates = NO_ESTIMATES,
) -> Totals:
    """Sums over all steps and repetitions, and what binds the whole."""
    flop = {e: sum(r.flop[e] * r.repeat for r in rows) for e in COMPUTE}
    moved = {level: sum(r.bytes[level] * r.repeat for r in rows) for level in LEVELS}
    links = sorted({name for r in rows for name in r.link_bytes})
    why = {"estimate": estimated.total_missing} if estimated.total_missing else {}
    if hardware is None:
        why |= dict.fromkeys(("estimate", "bound", "headline"), NO_HARDWARE)
    elif not total.time_s:
        why["headline"] = NO_TIME
    kept = resident((c.step, c.ops) for c in counted)
    memory = _memory(kept, hardware)
    if memory.fits is None and memory.available_bytes is not None:
        why["fits"] = UNCOUNTED
    measured = _achieved(whole or _total_measured(rows), rows, flop, moved)
    if measured is None:
        why["measured"] = "not every step was measured"
    return Totals(
        kernels=sum(r.kernels * r.repeat for r in rows),
        flop=flop,
        useful_flop=sum(r.useful_flop * r.repeat for r in rows),
        bytes=moved,
        link_bytes={name: sum(r.link_bytes.get(name, 0) * r.repeat for r in rows) for name in links},
        intensity_flop_per_byte={k: arithmetic(flop) / v if v else None for k, v in moved.items()},
        parameters=sum(r.parameters * r.repeat for r in rows),
        memory=memory,
        bound=_total_bound(counted, total) if hardware else None,
        estimate=estimated.total,
        measured=measured,
        headline=_headline(counted, total) if hardware and total.time_s else None,
        unavailable=why,
    )


def _total_measured(rows: Sequence[Row]) -> MeasuredResult | None:
    times = [r.measured.time_s * r.repeat for r in rows if r.measured and r.measured.time_s > 0]
    return MeasuredResult(time_s=sum(times), source="sum of the steps") if rows and len(times) == len(rows) else None


def _achieved(
    measured: MeasuredResult | None, rows: Sequence[Row], flop: dict[str, float], moved: dict[str, float]
) -> MeasuredResult | None:
    """What was reached over the whole: work over time, and of each resource the share of the time that it was needed."""
    if measured is None or not measured.time_s > 0:
        return measured
    needed: dict[str, float] = {}
    for row in rows:
        for name, time in (row.bound.per_resource_s if row.bound else {}).items():
            needed[name] = needed.get(name, 0.0) + time * row.repeat
    achieved = {name: amount / measured.time_s for name, amount in {**flop, **moved}.items() if amount}
    return replace(measured, achieved_per_s=achieved, share_of_peak={name: t / measured.time_s for name, t in needed.items() if t})


def _memory(found: Resident, hardware: Hardware | None) -> Memory:
    available = si(hardware.levels["hbm"].size) if hardware else None
    verdict, needed = scalar(found.verdict(available)), scalar(found.needed)
    fits = None if math.isnan(verdict) else verdict > 0
    return Memory(
        needed_bytes=needed,
        weight_bytes=scalar(found.weights),
        gathered_bytes=scalar(found.gathered),
        cache_bytes=scalar(found.caches),
        activation_bytes=scalar(found.activations),
        optimizer_bytes=scalar(found.states),
        available_bytes=available,
        shortfall_bytes=max(0, needed - available) if available is not None and fits is not None else None,
        fits=fits,
    )


def _by_limiter(counted: Sequence[Counted], total: Schedule) -> dict[str, float]:
    """Seconds on the critical path by the resource that limits the step."""
    found: dict[str, float] = {}
    for c in counted:
        if c.bound and c.bound.limiter and c.step.id in total.critical:
            found[c.bound.limiter] = found.get(c.bound.limiter, 0.0) + c.time_s
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _total_bound(counted: Sequence[Counted], total: Schedule) -> TotalBound:
    by_limiter = _by_limiter(counted, total)
    return TotalBound(
        time_s=total.time_s,
        no_overlap_s=sum(scalar(c.bound.no_overlap_s) * c.step.repeat for c in counted if c.bound),
        limiter=next(iter(by_limiter), None),
        by_limiter_s=by_limiter,
        critical_path=total.critical,
        lane_s=dict(total.lanes),
        overlapped=total.overlapped,
    )


def _headline(counted: Sequence[Counted], total: Schedule) -> Headline:
    by_limiter = _by_limiter(counted, total)
    resource = next(iter(by_limiter))
    relieved = schedule([c.task(c.without(resource)) for c in counted])
    on_path = [c for c in counted if c.step.id in total.critical]
    largest = max(on_path, key=lambda c: c.time_s)
    removed = schedule([c.task(0.0 if c is largest else c.time_s) for c in counted])
    left = [c for c in counted if c is not largest and c.time_s > 0 and c.step.id in removed.critical]
    return Headline(
        resource=resource,
        share=by_limiter[resource] / total.time_s,
        best_speedup=total.time_s / relieved.time_s if relieved.time_s else None,
        next_resource=_next_resource(counted, resource, relieved),
        step=largest.step.id,
        step_share=largest.time_s / total.time_s,
        step_limit_speedup=total.time_s / removed.time_s if removed.time_s else None,
        next_step=max(left, key=lambda c: c.time_s).step.id if left else None,
    )


def _next_resource(counted: Sequence[Counted], freed: str, relieved: Schedule) -> str | None:
    """The resource that limits most of the time once ``freed`` costs nothing."""
    times: dict[str, float] = {}
    for c in counted:
        if c.bound and c.step.id in relieved.critical:
            left = {name: scalar(t) for name, t in c.bound.per_resource_s.items() if name != freed and scalar(t) > 0}
            if left:
                limiter = max(left, key=lambda name: left[name])
                times[limiter] = times.get(limiter, 0.0) + left[limiter] * c.step.repeat
    return max(times, key=lambda name: times[name], default=None)
