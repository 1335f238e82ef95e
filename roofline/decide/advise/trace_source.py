"""A trace's report as the start of advice: recognised operators as steps, their time on the critical path, the rest as it is."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.decide.advise.measured import Measured
from roofline.errors import UsageError
from roofline.report.trace import TraceReport
from roofline.workload.workload import Step, Workload

WAITS_FOR_HOST = ("host", "launch")
"""Causes of idle time that a captured graph takes away."""


def workload_of_trace(report: TraceReport, steps: Sequence[Step], name: str) -> Workload:
    """The recognised operators in the order of their first use. They were launched from Python unless all came from graphs.

    Raises:
        UsageError: nothing was recognised.
    """
    if not steps:
        raise UsageError(f"{name}: no operator of the trace was recognised; record with shapes (record_shapes=True)")
    waits = report.critical_path.waiting_s
    eager = not waits.get("graph", 0.0) or any(waits.get(cause, 0.0) > waits["graph"] for cause in WAITS_FOR_HOST)
    return Workload(name=name, steps=tuple(steps), execution="eager" if eager else "graph", path=name)


def measured_of_trace(report: TraceReport, steps: Sequence[Step]) -> Measured | None:
    """The critical path with the time of each recognised operator on it; an operator that several steps stand for has no time."""
    whole = report.critical_path
    if not whole.time_s > 0:
        return None
    ids = {s.id for s in steps}
    times = {r.id: r.path_s for r in report.rows if r.id in ids}
    host = sum(whole.waiting_s.get(cause, 0.0) for cause in WAITS_FOR_HOST)
    return Measured(whole_s=whole.time_s, steps_s=times, host_s=host, launches=report.kernels)
