"""What a measure command runs: kernels by name or the steps of a workload, each distinct one once, then the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from roofline.errors import UsageError
from roofline.measure.base import Device, Procedure
from roofline.measure.registry import default_kernel, find
from roofline.measure.run import Case, measure_op, measure_sequence
from roofline.measure.spec import KernelSpec
from roofline.report.model import Input, MeasuredResult, Measurements
from roofline.spec.workload import load_workload, one_step
from roofline.workload.workload import Step, Workload

WHOLE = "the whole sequence"
Step_ = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The workload, the case of each step, and whether the whole is run as well."""

    workload: Workload
    cases: tuple[Case, ...]
    whole: bool
    inputs: tuple[Input, ...] = ()

    @property
    def names(self) -> list[str]:
        """What progress is told about."""
        return [*(c.id for c in self.cases), *([WHOLE] if self.whole else [])]


def plan_of(workload: str | None, kernels: Sequence[str], overrides: Sequence[str], direction: str | None, device_kind: str) -> Plan:
    """The plan of a command line.

    Raises:
        UsageError: neither or both of a workload and kernels, or a step that no kernel runs.
        InputError: problems in the workload or in the fields given.
    """
    if bool(workload) == bool(kernels):
        raise UsageError("give either a workload or --kernel NAME; 'roofline kernels' lists the kernels")
    if workload is None:
        return _of_kernels(kernels, overrides, direction, device_kind)
    if direction is not None:
        raise UsageError("--pass goes with --kernel; in a workload each step has its own 'pass'")
    found = load_workload(workload, overrides)
    cases = tuple(Case(id=s.id, spec=default_kernel(s.op), op=s.op, direction=s.direction) for s in found.steps)
    return Plan(workload=found, cases=cases, whole=True, inputs=(Input(role="workload", path=workload, sha256=found.sha256),))


def _of_kernels(names: Sequence[str], overrides: Sequence[str], direction: str | None, device_kind: str) -> Plan:
    cases: list[Case] = []
    steps: list[Step] = []
    for name in names:
        spec = find(name)
        step = replace(_step_of(spec, overrides, direction, device_kind), id=_id(name, [s.id for s in steps]))
        steps.append(step)
        cases.append(Case(id=step.id, spec=spec, op=step.op, direction=step.direction))
    workload = Workload(name=f"kernel {', '.join(names)}", steps=tuple(steps))
    return Plan(workload=workload, cases=tuple(cases), whole=False)


def _step_of(spec: KernelSpec, overrides: Sequence[str], direction: str | None, device_kind: str) -> Step:
    """The kernel's example (a small one on a CPU) with the fields given, read like any step."""
    shape: Mapping[str, Any] = spec.small if device_kind == "cpu" else spec.example
    given = dict(word.partition("=")[::2] for word in overrides)
    values = {**shape, **spec.fields, **given, **({"pass": direction} if direction else {})}
    words = [f"{k}={_text(v)}" for k, v in values.items() if v is not None]
    (step,) = one_step(spec.op, words).steps
    changed = [f for f in spec.fields if getattr(step.op, f) != spec.fields[f]]
    if changed:
        raise UsageError(f"--set {changed[0]}: kernel '{spec.name}' is what it is by {changed[0]} = {_text(spec.fields[changed[0]])}")
    return step


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _id(name: str, taken: Sequence[str]) -> str:
    plain = "".join(c if c.isalnum() or c in "_-" else "_" for c in name)
    return plain if plain not in taken else f"{plain}_{sum(t.startswith(plain) for t in taken) + 1}"


# --------------------------------------------------------------------------- running it
def run_plan(plan: Plan, device: Device, procedure: Procedure, step: Step_) -> Measurements:
    """Measure every distinct case once, then the whole sequence; Ctrl-C keeps what is complete."""
    found: dict[tuple[Any, ...], MeasuredResult] = {}
    results: dict[str, MeasuredResult] = {}
    whole: MeasuredResult | None = None
    try:
        for case in plan.cases:
            key = _key(case)
            if key not in found:
                found[key] = measure_op(case, device, procedure, progress=lambda share, c=case: step(c.id, share))  # type: ignore[misc]
            results[case.id] = found[key]
            step(case.id, 1.0)
            if found[key].status == "interrupted":
                break
        else:
            whole = _whole(plan, device, procedure, step)
    except KeyboardInterrupt:
        pass
    return Measurements(steps=results, whole=whole, environment=environment(device))


def _key(case: Case) -> tuple[Any, ...]:
    return (case.spec.name, case.direction, type(case.op).__name__, *((f.name, getattr(case.op, f.name)) for f in fields(case.op)))  # type: ignore[arg-type]


def _whole(plan: Plan, device: Device, procedure: Procedure, step: Step_) -> MeasuredResult | None:
    if not plan.whole:
        return None
    pairs = [(case, s.repeat) for case, s in zip(plan.cases, plan.workload.steps, strict=True)]
    found = measure_sequence(pairs, device, procedure, progress=lambda share: step(WHOLE, share))
    step(WHOLE, 1.0)
    return found


def environment(device: Device) -> dict[str, str | int | float | bool | None]:
    """What the device is, for the only part of a report that may depend on the host."""
    info = device.info
    return {"device": info.name, "device_kind": info.kind, "device_uuid": info.uuid, **dict(info.facts)}
