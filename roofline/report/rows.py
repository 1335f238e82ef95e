"""One row of the report from one counted step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from roofline.hardware.profile import LEVELS, Figure, Hardware, Value, si
from roofline.numeric import Number, scalar
from roofline.ops.base import TensorSpec, Traffic, Work, field_values
from roofline.predict.bound import COMPUTE, Bound, resource_work, traffic_of
from roofline.predict.compose import Schedule
from roofline.predict.floor import floor_s
from roofline.report.collectives import moved_bytes
from roofline.report.counted import Counted
from roofline.report.estimated import NO_ESTIMATES, Estimates
from roofline.report.model import BoundResult, MeasuredResult, Row, arithmetic

NO_HARDWARE = "no hardware profile was named; add -H NAME"
NO_TIME = "no step takes any time"
IMPOSSIBLE = (
    "faster than the {:.4g} s that the device needs at its highest clock: the count, the profile or the run is wrong (data that "
    "stays in the cache, a sparse peak, another device, a kernel that does not do all of the work)"
)

Placed = Mapping[str, tuple[Number, Value]]


def row_of(
    c: Counted,
    hardware: Hardware | None,
    traffic: str,
    total: Schedule,
    measured: MeasuredResult | None = None,
    estimated: Estimates = NO_ESTIMATES,
) -> Row:
    """The row of a step: its work, its bound, its estimate, and its share of the whole."""
    work, step = c.work, c.step
    placed = resource_work(work, hardware, traffic) if hardware else None
    flop = {e: scalar(placed[e][0] if placed else getattr(work.counts, e)) for e in COMPUTE}
    moved = _levels(traffic_of(work, traffic))
    weights = _tensors(c, "weight")
    return Row(
        id=step.id,
        op=step.op.name,
        direction=step.direction,
        dtype=work.dtype,
        fields=field_values(step.op),
        repeat=step.repeat,
        kernels=int(scalar(work.kernels)),
        flop=flop,
        useful_flop=scalar(work.useful_flop),
        bytes=moved,
        traffic={k: None if getattr(work, k) is None else _levels(getattr(work, k)) for k in ("compulsory", "tiled", "cached")},
        link_bytes={name: scalar(n) for name, n in work.link_bytes.items()},
        intensity_flop_per_byte=_intensity(flop, moved),
        ridge_flop_per_byte=_ridges(work, hardware) if hardware else dict.fromkeys(LEVELS),
        bound=_bound_result(c.bound) if c.bound else None,
        estimate=estimated.rows.get(step.id),
        measured=_measured(c, measured, placed, _floor(work, hardware, measured)),
        share=c.time_s / total.time_s if total.time_s else None,
        parameters=0 if step.tied_to else sum(int(scalar(t.elements)) for t in weights),
        weight_bytes=0 if step.tied_to else sum(scalar(t.bytes) for t in weights),
        cache_bytes=sum(scalar(t.bytes) for t in _tensors(c, "cache")),
        extra_memory_bytes=scalar(work.extra_memory_bytes),
        saved_bytes=sum(scalar(t.bytes) for t in step.op.saved()) if step.direction != "forward" else 0,
        unavailable=_row_unavailable(c, hardware, total, measured is not None, estimated.missing),
    )


def _row_unavailable(
    c: Counted, hardware: Hardware | None, total: Schedule, measured: bool, no_estimate: Mapping[str, str]
) -> dict[str, str]:
    why = {"estimate": no_estimate[c.step.id]} if c.step.id in no_estimate else {}
    if hardware is None:
        why |= dict.fromkeys(("estimate", "bound", "share"), NO_HARDWARE)
    elif not total.time_s:
        why["share"] = NO_TIME
    if c.work.cached is None:
        why["traffic"] = NO_HARDWARE if hardware is None else f"{hardware.name} states no size for every level"
    if c.step.measured_s is None and not measured:
        why["measured"] = "not measured"
    return why


def _tensors(c: Counted, role: str) -> list[TensorSpec]:
    """Tensors of that role of the forward operator: backward ones read the same."""
    return [t for t in c.step.op.tensors() if t.role == role]


def _levels(traffic: Traffic) -> dict[str, float]:
    return {level: scalar(getattr(traffic, level)) for level in LEVELS}


def _intensity(flop: Mapping[str, float], moved: Mapping[str, float]) -> dict[str, float | None]:
    """FLOP of the engine that the ridge belongs to over bytes; None where no bytes move."""
    work = arithmetic(flop)
    return {level: work / moved[level] if moved[level] else None for level in LEVELS}


def _ridges(work: Work, hardware: Hardware) -> dict[str, float | None]:
    """Intensity at which the engine that does most of the arithmetic and the level take equally long."""
    if work.counts.tensor:
        peak = si(hardware.matrix_engine(work.dtype)[1])
    else:
        peak = si(hardware.vector_rate("fp64" if work.dtype == "fp64" else "fp32"))
    rates = {level: si(hardware.levels[level].bandwidth) for level in LEVELS}
    return {level: peak / rate if peak and rate else None for level, rate in rates.items()}


def _bound_result(b: Bound) -> BoundResult:
    time = scalar(b.time_s)
    second = scalar(b.per_resource_s[b.next]) if b.next else None
    return BoundResult(
        time_s=time,
        no_overlap_s=scalar(b.no_overlap_s),
        limiter=b.limiter,
        next=b.next,
        tied=bool(b.tied),
        headroom=time / second if second else None,
        per_resource_s={name: scalar(t) for name, t in b.per_resource_s.items()},
        missing=dict(b.missing),
    )


def _floor(work: Work, hardware: Hardware | None, measured: MeasuredResult | None) -> float:
    warm = measured is not None and measured.conditions.get("cache") == "warm"
    return scalar(floor_s(work, hardware, warm=warm)) if hardware else 0.0


def _measured(c: Counted, run: MeasuredResult | None, placed: Placed | None, floor: float) -> MeasuredResult | None:
    """A run's result, or the time stated in the workload, with what it achieved of each rate.

    ``floor`` is the time below which it cannot be true.
    """
    stated = None if c.step.measured_s is None else MeasuredResult(time_s=c.step.measured_s, source="the workload file")
    found = run or stated
    if found is None or not found.time_s > 0:
        return found
    amounts = {name: scalar(amount) for name, (amount, _) in (placed or {}).items() if scalar(amount)}
    amounts |= moved_bytes(c.step.op, c.step.direction)
    rates = {name: rate.value if isinstance(rate, Figure) else None for name, (_, rate) in (placed or {}).items()}
    achieved = {name: amount / found.time_s for name, amount in amounts.items()}
    if run and run.status in ("ok", "throttled") and run.time_s < floor:
        found = replace(run, status="invalid", notes=(*run.notes, IMPOSSIBLE.format(floor)))
    return replace(
        found,
        achieved_per_s=achieved,
        share_of_peak={name: achieved[name] / peak if (peak := rates.get(name)) else None for name in amounts},
        faster_than_bound=found.time_s < floor,
    )
