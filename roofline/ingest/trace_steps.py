"""The recognised operators of a trace as steps, and as the text of a workload file that ``analyze`` and ``diff`` go on from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from roofline.errors import UsageError
from roofline.ingest.aten import Mapped
from roofline.report.trace import TraceReport, TraceRow
from roofline.spec.find import hardware_names
from roofline.spec.workload import MOST_STEPS
from roofline.workload.workload import Step

NO_LINK = "no link was named for it; add --link NAME"
NO_HOST_LINK = "its link to the host is not known; name a profile with -H"


def steps_of(report: TraceReport) -> tuple[Step, ...]:
    """The recognised operators, each sort once with how often it ran and the mean time of a run, in order of their ids' first use.

    Collectives are among them only where a link was named, since none is recorded. An operator that several of ours stand for
    gives as many steps, without a time.
    """
    return tuple(step for _, steps in _steps(report) for step in steps)


def _steps(report: TraceReport) -> Iterator[tuple[TraceRow, list[Step]]]:
    for row in sorted(report.rows, key=lambda r: r.order):
        if row.work and not _missing_link(row):
            alone = len(row.work) == 1
            yield row, [_step(row, i, alone) for i in range(len(row.work))]


def _missing_link(row: TraceRow) -> bool:
    return any(w.fields.get("over") == "" for w in row.work)


def _step(row: TraceRow, i: int, alone: bool) -> Step:
    work = row.work[i]
    mapped = Mapped(work.op, dict(work.fields), work.direction)  # type: ignore[arg-type]
    return Step(
        id=row.id if alone else f"{row.id}/{i + 1}",
        op=mapped.build(),
        repeat=row.calls,
        direction=work.direction,
        measured_s=row.time_s / row.calls if alone and row.time_s else None,
    )


def workload_of(report: TraceReport, name: str) -> str:
    """The workload file of what was recognised; what was not is said in its comments.

    Raises:
        UsageError: nothing was recognised, or more than a workload may hold.
    """
    found = list(_steps(report))
    if not found:
        raise UsageError("--workload: no operator of the trace was recognised, so that there is nothing to write")
    if sum(len(steps) for _, steps in found) > MOST_STEPS:
        raise UsageError(f"--workload: more than {MOST_STEPS} different operators; choose fewer steps with --steps")
    lines = [*_comments(report), "schema: 1", f"name: {json.dumps(name)}"]
    if report.hardware in hardware_names():  # a file's profile can only be named on the command line
        lines.append(f"hardware: {report.hardware}")
    lines.append("steps:")
    for row, steps in found:
        for step, work in zip(steps, row.work, strict=True):
            lines.append(f"  - {_flow(_keys(step, work.fields))}")
    return "\n".join(lines) + "\n"


def _comments(report: TraceReport) -> Iterator[str]:
    covered = "no kernels" if report.coverage is None else f"{100 * report.coverage:.1f} % of the GPU time of {report.kernels} kernels"
    yield "# Written by 'roofline ingest trace': operators with equal arguments stand once, with repeat and the mean time of a run."
    yield f"# The work of {covered} is known; the rest is not in here."
    for row in [r for r in report.rows if r.note][:20]:
        yield f"# {row.id}: {row.note}"
    left = [(r, r.unknown or (NO_HOST_LINK if r.lane == "copy" else NO_LINK)) for r in report.rows if not r.work or _missing_link(r)]
    for row, reason in left[:20]:
        yield f"# left out: {_plain(row.name)[:60]}, {row.calls} calls, {row.time_s:.6g} s ({reason})"
    if len(left) > 20:
        yield f"# left out: {len(left) - 20} more, {sum(r.time_s for r, _ in left[20:]):.6g} s"


def _keys(step: Step, fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"id": step.id, "op": step.op.name}
    if step.direction != "forward":
        found["pass"] = step.direction
    if step.repeat != 1:
        found["repeat"] = step.repeat
    found |= {key: _worded(step, key, value) for key, value in fields.items()}
    if step.measured_s:
        found["measured"] = f"{step.measured_s * 1e6:.9g} us"
    return found


def _worded(step: Step, key: str, value: Any) -> Any:
    """Amounts carry their unit in a file."""
    from dataclasses import fields

    declared = next(f for f in fields(step.op) if f.name == key)  # type: ignore[arg-type]
    unit = declared.metadata.get("unit")
    return f"{value:.17g} {unit}" if unit and not isinstance(value, str) else value


def _flow(values: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in values.items()) + "}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"{value:.17g}" if isinstance(value, float) else str(value)
    return json.dumps(str(value))


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() and c.isascii() else "?" for c in text)
