"""Predictions for the rows of measured tables, and how far they lie off by file, operator and size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roofline import __version__
from roofline.errors import RooflineError
from roofline.fit.batches import Batch, batches
from roofline.fit.split import PARTS, divided
from roofline.fit.tables import Row, Table
from roofline.hardware.profile import Hardware
from roofline.ops.base import work_of
from roofline.predict.bound import bound, kind_of, machine_of
from roofline.predict.estimate.base import REGIMES
from roofline.predict.estimate.estimator import LAUNCH_BOUND_S, Estimator, KernelEstimate
from roofline.report.accuracy import Accuracy, BoundErrors, Errors, FileRead, Group, RowError, Used

SCHEMA = 1
WORST = 10
"""Rows that are listed as the worst."""
MOST_FASTER = 100
"""Most rows listed as faster than their bound; all are counted."""
REGIME_RULE = (
    f"launch: a bound below {LAUNCH_BOUND_S * 1e6:g} us; else memory or compute, by the resource that bounds; link where a link does"
)

Numbers = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(slots=True)
class Predicted:
    """Predictions for rows, in their order; NaN where there is none, ``why`` says the reason.

    ``details`` holds the kernels of each row's batch and the row's place among them, for who asks about a single row.
    """

    rows: Sequence[Row]
    measured_s: Numbers = field(init=False)
    bound_s: Numbers = field(init=False)
    estimate_s: Numbers = field(init=False)
    low_s: Numbers = field(init=False)
    high_s: Numbers = field(init=False)
    regime: list[str | None] = field(init=False)
    why: list[str | None] = field(init=False)
    bound_why: list[str | None] = field(init=False)
    details: list[tuple[tuple[KernelEstimate, ...], int] | None] = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is predicted yet."""
        count = len(self.rows)
        self.measured_s = np.array([row.time_s for row in self.rows], dtype=np.float64)
        self.bound_s, self.estimate_s, self.low_s, self.high_s = (np.full(count, np.nan) for _ in range(4))
        self.regime, self.why, self.bound_why, self.details = [None] * count, [None] * count, [None] * count, [None] * count


def predict(rows: Sequence[Row], hardware: Hardware) -> Predicted:
    """The bound and the estimate of every row on the device."""
    found = Predicted(rows)
    estimators: dict[str, Estimator] = {}
    for batch in batches(rows):
        _bounds(batch, hardware, found)
        _estimates(batch, hardware, estimators, found)
    return found


def _bounds(batch: Batch, hardware: Hardware, found: Predicted) -> None:
    at, machine = list(batch.at), machine_of(hardware)
    try:
        bounds = [bound(work_of(op, machine), hardware) for op in batch.ops]
    except RooflineError as err:
        for i in at:
            found.bound_why[i] = str(err)
        return
    times = np.broadcast_to(np.asarray(sum(b.time_s for b in bounds), dtype=np.float64), len(at))
    found.bound_s[at] = times
    first = np.broadcast_to(np.asarray(bounds[0].limiter), len(at))
    for i, time, limiter in zip(at, times, first, strict=True):
        found.regime[i] = "launch" if time < LAUNCH_BOUND_S else kind_of(str(limiter))


def _estimates(batch: Batch, hardware: Hardware, estimators: dict[str, Estimator], found: Predicted) -> None:
    at = list(batch.at)
    try:
        if batch.execution not in estimators:
            estimators[batch.execution] = Estimator(hardware, batch.execution)
        estimator = estimators[batch.execution]
        kernels = tuple(k for op in batch.ops for k in estimator.op(op).kernels)
        hosts = [estimator.host(k.kernel) for k in kernels]
    except RooflineError as err:
        for i in at:
            found.why[i] = str(err)
        return
    # Calls in a row from Python: the device idles where the host cannot keep up; both are nothing inside a graph.
    host, gaps = sum(h.host_s for h in hosts), sum(h.gap_s for h in hosts)
    for name, into in (("time_s", found.estimate_s), ("low_s", found.low_s), ("high_s", found.high_s)):
        device = gaps + sum(np.asarray(getattr(k, name), dtype=np.float64) for k in kernels)
        into[at] = np.maximum(host, device) + [found.rows[i].lead_s for i in at]
    for place, i in enumerate(at):
        found.details[i] = (kernels, place)


# --------------------------------------------------------------------------- groups
def accuracy(tables: Sequence[Table], hardware: Hardware, part: str | None = None) -> Accuracy:
    """How far bound and estimate lie off the tables' times; of all rows, or of one of `PARTS`."""
    rows = [row for table in tables for row in table.rows]
    if part is not None:
        rows = divided(rows)[PARTS.index(part)]
    found = predict(rows, hardware)
    return Accuracy(
        schema=SCHEMA,
        tool=f"roofline {__version__}",
        hardware=hardware.name,
        part=part,
        regimes=REGIME_RULE,
        files=tuple(FileRead(file=t.file, rows=len(t.rows), skipped=t.skipped) for t in tables),
        groups=_groups(found),
        worst=tuple(_row(found, i) for i in _worst(found)),
        faster_than_bound=tuple(_row(found, int(i)) for i in np.flatnonzero(_faster(found))[:MOST_FASTER]),
    )


def _groups(found: Predicted) -> tuple[Group, ...]:
    """For each file and operator all rows, then those of each regime that occurs."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for i, row in enumerate(found.rows):
        kinds.setdefault((row.file, row.operator), []).append(i)
    groups = []
    for (file, operator), members in kinds.items():
        groups.append(_group(found, file, operator, None, members))
        for regime in (*REGIMES, "link"):
            inside = [i for i in members if found.regime[i] == regime]
            if inside:
                groups.append(_group(found, file, operator, regime, inside))
    return tuple(groups)


def _group(found: Predicted, file: str, operator: str, regime: str | None, members: list[int]) -> Group:
    measured = found.measured_s[members]
    inside = (found.low_s[members] <= measured) & (measured <= found.high_s[members])
    estimate = errors(found.estimate_s[members], measured, inside, [found.why[i] for i in members])
    bounds = errors(found.bound_s[members], measured, None, [found.bound_why[i] for i in members])
    return Group(
        file=file,
        operator=operator,
        regime=regime,
        rows=len(members),
        estimate=Errors(**estimate),
        bound=BoundErrors(**bounds, faster_than_bound=int(_faster(found)[members].sum())),
    )


def errors(predicted: Numbers, measured: Numbers, inside: Any, why: Sequence[str | None]) -> dict[str, Any]:
    """The fields of `Errors` over rows that have a prediction above 0; the reason where some or all have none."""
    there = predicted > 0
    missing = int((~there).sum())
    reason = f"{missing} of {len(why)} rows: " + next((w for w in why if w), "nothing to do") if missing else None
    if not there.any():
        names = ("mape", "median_ape", "bias", "p90_ape", "in_band")
        return {"count": 0, **dict.fromkeys(names), "reason": reason}
    ratio = predicted[there] / measured[there]
    ape = np.abs(ratio - 1)
    return {
        "count": int(there.sum()),
        "mape": float(ape.mean()),
        "median_ape": float(np.median(ape)),
        "bias": float(np.exp(np.log(ratio).mean())),
        "p90_ape": float(np.quantile(ape, 0.9)),
        "in_band": None if inside is None else float(inside[there].mean()),
        "reason": reason,
    }


# --------------------------------------------------------------------------- single rows
def _faster(found: Predicted) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return found.measured_s < found.bound_s


def _worst(found: Predicted) -> list[int]:
    """The rows farthest off, by the factor: twice and half are as bad."""
    there = np.flatnonzero(found.estimate_s > 0)
    off = np.abs(np.log(found.estimate_s[there] / found.measured_s[there]))
    return [int(i) for i in there[np.argsort(-off, kind="stable")[:WORST]]]


def _row(found: Predicted, i: int) -> RowError:
    row, detail = found.rows[i], found.details[i]
    estimate, least = (float(v) if v > 0 else None for v in (found.estimate_s[i], found.bound_s[i]))
    shown = {**row.fields, **({} if row.direction == "forward" else {"pass": row.direction})}
    return RowError(
        file=row.file,
        line=row.line,
        operator=row.operator,
        execution=row.execution,
        fields=shown,
        measured_s=row.time_s,
        estimated_s=estimate,
        bound_s=least,
        ratio=(estimate or least or 0) / row.time_s,
        regime=found.regime[i],
        terms=_terms(*detail) if detail else {},
        parameters=_used(detail[0]) if detail else (),
    )


def _terms(kernels: Sequence[KernelEstimate], place: int) -> dict[str, float]:
    """The terms of all kernels of a row, added up by name."""
    sums: dict[str, float] = {}
    for kernel in kernels:
        for name, part in kernel.terms.items():
            value = np.asarray(part, dtype=np.float64)
            sums[name] = sums.get(name, 0.0) + float(value if value.ndim == 0 else value[place])
    return sums


def _used(kernels: Sequence[KernelEstimate]) -> tuple[Used, ...]:
    sets = {k.parameters.name: Used(name=k.parameters.name, device=k.parameters.device, prior=k.prior) for k in kernels}
    return tuple(sets.values())
