"""From a workload and a device to the report: count, bound, compose, and say what matters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from roofline import __version__
from roofline.hardware.profile import Hardware
from roofline.predict.compose import schedule
from roofline.predict.estimate.host import HOST_SET
from roofline.report.conventions import conventions
from roofline.report.counted import Counted, count
from roofline.report.estimated import estimates
from roofline.report.model import SCHEMA, Input, Measurements, Notice, Report, Row, Totals
from roofline.report.rows import NO_HARDWARE, row_of
from roofline.report.shape import encode
from roofline.report.totals import totals_of
from roofline.workload.packed import fed
from roofline.workload.workload import Workload


def analyze(
    workload: Workload,
    hardware: Hardware | None,
    inputs: Sequence[Input] = (),
    *,
    measured: Measurements | None = None,
) -> Report:
    """The report of a workload on a device, or of its counts alone without one.

    ``measured`` are results of running the steps; without them a step's own ``measured`` time stands.

    Raises:
        UsageError: a step has no backward pass, or the device lacks a dtype or link that a step needs.
    """
    counted = [count(step, hardware, workload.traffic) for step in fed(workload.steps)]
    total = schedule([c.task(c.time_s) for c in counted])
    found = measured or Measurements()
    expected = estimates(counted, hardware, workload.execution, found)
    rows = tuple(row_of(c, hardware, workload.traffic, total, found.steps.get(c.step.id), expected) for c in counted)
    totals = totals_of(counted, rows, hardware, total, found.whole, expected)
    return Report(
        schema=SCHEMA,
        tool=f"roofline {__version__}",
        workload=workload.name,
        inputs=tuple(inputs),
        hardware=_snapshot(hardware, rows, totals) if hardware else None,
        params=dict(workload.params),
        conventions=conventions(workload, hardware),
        rows=rows,
        totals=totals,
        environment=dict(found.environment),
        warnings=tuple(_warnings(counted, rows, totals, hardware, workload)),
    )


def _snapshot(hardware: Hardware, rows: Sequence[Row], totals: Totals) -> dict[str, Any]:
    """The profile as it was; of its parameters, which are many, those that were used."""
    used = {name for e in (*(r.estimate for r in rows), totals.estimate) if e for name in e.parameters}
    fitted, priors = ({n: sets[n] for n in sets if n in used} for sets in (hardware.fitted, hardware.priors))
    found: dict[str, Any] = encode(replace(hardware, fitted=fitted, priors=priors))
    found.pop("path")
    return found


def _warnings(
    counted: Sequence[Counted], rows: Sequence[Row], totals: Totals, hardware: Hardware | None, workload: Workload
) -> Iterator[Notice]:
    if hardware is None:
        yield Notice(code="W001", message=f"{NO_HARDWARE}: only FLOP, bytes and intensity are given")
    if totals.memory.fits is False:
        yield Notice(code="W002", message="the workload does not fit the device's memory")
    for name, why in _unrated(counted, workload.traffic).items():
        yield Notice(code="W003", message=f"{name} has no rate on {hardware.name if hardware else '?'} and cannot bind: {why}")
    for row in rows:
        if row.measured and row.measured.faster_than_bound:
            yield Notice(
                code="W004",
                message=f"{row.id} was measured faster than its bound: the count, the profile or the measurement is wrong "
                "(a working set that stays in L2, a sparse peak, a smaller shape)",
            )
        if row.estimate and row.estimate.raised:
            yield Notice(
                code="W006",
                message=f"{row.id}: the parameters give less than the device needs even from a full cache, so its estimate is "
                f"raised to that: {', '.join(n for n in row.estimate.parameters if n != HOST_SET)} do not hold here",
            )
    if workload.traffic != "compulsory":
        yield Notice(code="W005", message=f"times are taken from {workload.traffic} bytes: they are not a lower bound")


def _unrated(counted: Sequence[Counted], traffic: str) -> dict[str, str]:
    """Resources that are needed and have no published rate. An inner level that moves no more than HBM cannot bind."""
    missing = {name: why for c in counted if c.bound for name, why in c.bound.missing.items()}
    return {name: why for name, why in missing.items() if traffic != "compulsory" or name not in ("l2", "smem")}
