"""The commands that say what would fit in place of what does not: for a report of a plan, and for one of a workload on one device."""

from __future__ import annotations

import shlex

from roofline.errors import RooflineError
from roofline.report.model import Input, Report
from roofline.report.plan import PlanReport
from roofline.report.resident import resident
from roofline.spec.find import find_workload
from roofline.spec.sizes import SAME
from roofline.spec.source import MapNode, parse, read_source
from roofline.spec.workload import read_workload
from roofline.workload.workload import Workload


def of_plan(plan: PlanReport) -> str | None:
    """What finds the smallest change with which a plan fits; None where its report does not say how to ask."""
    return shlex.join(("roofline", "memory", *plan.memory_words)) if plan.memory_words else None


def of_analyze(report: Report) -> str | None:
    """What finds the most that fits of a workload: its largest batch, or of a model's training step what would fit; None where the file is
    not what the report was made of, has no batch, or trains without saying which model."""
    files = {given.role: given for given in report.inputs}
    found = _read(files["workload"], report) if {"workload", "hardware"} <= files.keys() else None
    if found is None:
        return None
    workload, changed = found
    path, device = files["workload"].path, ("-H", files["hardware"].path)
    if resident((step, step.ops()) for step in workload.steps).training:
        root = parse(read_source(str(find_workload(path))))
        model = isinstance(root, MapNode) and "model" in root.entries
        return shlex.join(("roofline", "memory", path, *_set(changed), *device)) if model else None
    batch = next((name for name in reversed(SAME["batch"][0]) if name in workload.params), None)
    if batch is None:
        return None
    others = {name: value for name, value in changed.items() if name != batch}
    return shlex.join(("roofline", "analyze", path, *_set(others), *device, "--largest", batch))


def _set(params: dict[str, int]) -> list[str]:
    return [word for name, value in params.items() for word in ("--set", f"{name}={value}")]


def _read(file: Input, report: Report) -> tuple[Workload, dict[str, int]] | None:
    """The workload of a report, and the params that were set for it: each that is not what the file makes of those before it.

    A report comes from anywhere, so that a file which it names is read as a workload only if its text is what the report says.
    """
    changed: dict[str, int] = {}
    if file.path == "-":
        return None
    try:
        source = read_source(str(find_workload(file.path)))
        while Input.of_text(file.role, file.path, source.text) == file:
            workload = read_workload(source, [f"{name}={value}" for name, value in changed.items()])
            other = next((name for name, value in workload.params.items() if report.params.get(name) != value), None)
            wanted = None if other is None else report.params.get(other)
            if other is None:
                return workload, changed
            if other in changed or not isinstance(wanted, int):
                return None
            changed[other] = wanted
    except RooflineError:  # the file is gone, or what was set is no param
        pass
    return None
