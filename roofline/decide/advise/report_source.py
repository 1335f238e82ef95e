"""A report as the start of advice: its rows are operators with their fields again, and its measured times are kept."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.decide.advise.measured import Measured
from roofline.errors import InputError, Problem, UsageError
from roofline.ops import OPERATORS
from roofline.ops.base import Op
from roofline.ops.stored import StoredError, stored
from roofline.report.estimated import execution_of
from roofline.report.model import MeasuredResult, Report, Row
from roofline.report.store import MOST_BYTES
from roofline.spec.source import ListNode, MapNode, Node, parse, read_source
from roofline.workload.workload import EXECUTIONS, TRAFFIC, Step, Workload

USABLE = ("ok", "throttled")


def workload_of_report(report: Report, path: str) -> Workload:
    """The workload that the report is of, as far as its rows tell.

    Raises:
        InputError: a row that is no operator with its fields.
        UsageError: steps that overlap, of which a report does not say what waits for what.
    """
    if report.totals.bound and report.totals.bound.overlapped:
        raise UsageError(f"{path}: its steps overlap, and a report does not say what waits for what; give the workload file")
    problems: list[Problem] = []
    steps = [s for i, row in enumerate(report.rows) if (s := _step(row, i, report, path, problems)) is not None]
    if problems:
        raise InputError(problems)
    execution = report.conventions.get("execution", "").partition(";")[0]
    traffic = report.conventions.get("traffic", "").partition(":")[0]
    return Workload(
        name=report.workload,
        steps=tuple(steps),
        params=dict(report.params),
        execution=execution_of(_one(report), execution if execution in EXECUTIONS else "eager"),
        traffic=traffic if traffic in TRAFFIC else "compulsory",
        path=path,
    )


def _one(report: Report) -> MeasuredResult | None:
    """A measurement that says how kernels were launched: that of the whole, else of the first row that has one."""
    rows = (r.measured for r in report.rows if r.measured and r.measured.conditions)
    return report.totals.measured if report.totals.measured and report.totals.measured.conditions else next(rows, None)


def _step(row: Row, i: int, report: Report, path: str, problems: list[Problem]) -> Step | None:
    op = _operator(row, i, path, problems)
    if op is None:
        return None
    shared = row.parameters == 0 and any(t.role == "weight" and t.elements for t in op.tensors())
    tied = next((r.id for r in report.rows[:i] if r.op == row.op), row.id) if shared else None
    return Step(id=row.id, op=op, repeat=row.repeat, direction=row.direction, tied_to=tied)


def _operator(row: Row, i: int, path: str, problems: list[Problem]) -> Op | None:
    try:
        return stored(row.op, row.fields)
    except StoredError as err:
        keys = ("fields", err.field) if err.field else ("fields",) if row.op in OPERATORS else ("op",)
        problems.append(_at(path, i, keys, str(err)))
        return None


def _at(path: str, i: int, keys: tuple[str, ...], message: str) -> Problem:
    """The problem where the row stands in the file."""
    place = ".".join((f"rows[{i}]", *keys))
    try:
        node: Node = parse(read_source(path, max_bytes=MOST_BYTES))
    except InputError:  # larger than the reader that keeps places takes
        return Problem(path, 0, 0, f"{place}: {message}")
    for name in ("rows", i, *keys):
        if isinstance(node, MapNode) and name in node.entries:
            node = node.entries[str(name)].value
        elif isinstance(node, ListNode) and isinstance(name, int) and name < len(node.items):
            node = node.items[name]
    return node.problem(f"{place}: {message}")


def measured_of_report(report: Report) -> Measured | None:
    """The measured whole with the share of each step; None where nothing usable was measured.

    A whole run as one is divided in proportion to the steps run alone, which then add up to it.
    """
    times = dict(_measured_rows(report))
    complete = len(times) == len(report.rows) and bool(times)
    whole = report.totals.measured
    if whole and whole.status in USABLE and whole.time_s > 0:
        together = sum(times.values())
        return Measured(whole_s=whole.time_s, steps_s={i: t * whole.time_s / together for i, t in times.items()} if complete else {})
    return Measured(whole_s=sum(times.values()), steps_s=times) if complete else None


def _measured_rows(report: Report) -> Iterator[tuple[str, float]]:
    for row in report.rows:
        if row.measured and row.measured.status in USABLE and row.measured.time_s > 0:
            yield row.id, row.measured.time_s * row.repeat
