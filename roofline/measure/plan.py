"""What a measure command runs: kernels by name or the steps of a workload, each distinct one once, then the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from roofline.errors import MissingCapabilityError, UsageError
from roofline.measure.base import Device, Procedure
from roofline.measure.interrupt import Interruption
from roofline.measure.registry import default_kernel, find, require
from roofline.measure.run import Case, Watcher, measure_in_turns, measure_op, measure_sequence, no_whole, place
from roofline.measure.spec import KernelSpec
from roofline.measure.watch import ThreadWatch
from roofline.ops.registry import OPERATORS
from roofline.report.model import Input, MeasuredResult, Measurements
from roofline.spec.workload import load_workload, one_step
from roofline.workload.workload import Step, Workload

WHOLE = "the whole sequence"
NOT_REACHED = "not measured: interrupted before"
TIMED = ("ok", "throttled")
Step_ = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The workload, the case of each step, and whether the whole is run as well."""

    workload: Workload
    cases: tuple[Case, ...]
    whole: bool
    inputs: tuple[Input, ...] = ()
    in_turns: bool = False

    @property
    def names(self) -> list[str]:
        """What progress is told about."""
        return [*(c.id for c in self.cases), *([WHOLE] if self.whole else [])]


def plan_of(
    workload: str | None, kernels: Sequence[str], overrides: Sequence[str], direction: str | None, device_kind: str, op: str | None = None
) -> Plan:
    """The plan of a command line. ``op`` is the operator of a kernel of the user's.

    Raises:
        UsageError: neither or both of a workload and kernels, or a step that no kernel runs.
        InputError: problems in the workload or in the fields given.
    """
    if bool(workload) == bool(kernels):
        raise UsageError("give either a workload or --kernel NAME; 'roofline kernels' lists the kernels")
    if workload is None:
        return _of_kernels(kernels, _given(overrides), direction, device_kind, op)
    if direction is not None:
        raise UsageError("--pass goes with --kernel; in a workload each step has its own 'pass'")
    found = load_workload(workload, overrides)
    cases = tuple(_case_of(step) for step in found.steps)
    return Plan(workload=found, cases=cases, whole=True, inputs=(Input(role="workload", path=workload, sha256=found.sha256),))


def _case_of(step: Step) -> Case:
    try:
        return Case(id=step.id, spec=default_kernel(step.op), op=step.op, direction=step.direction)
    except UsageError as err:
        raise UsageError(f"step '{step.id}': {err}") from None


def _of_kernels(names: Sequence[str], given: Mapping[str, str], direction: str | None, device_kind: str, op: str | None) -> Plan:
    found = [(name, find(name, op)) for name in names]
    shapes = [spec.example if device_kind == "cuda" else spec.small for _, spec in found]
    return _of_specs(found, shapes, given, direction, f"kernel {', '.join(names)}")


def plan_of_specs(
    specs: Sequence[tuple[str, KernelSpec]], overrides: Sequence[str], direction: str | None, *, shape: Mapping[str, Any], title: str
) -> Plan:
    """A plan of kernels, each under a name, that all run at one shape, with the fields of ``overrides`` in it.

    Raises:
        UsageError, InputError: as `plan_of`.
    """
    return _of_specs(specs, [shape] * len(specs), _given(overrides), direction, title)


def _of_specs(
    specs: Sequence[tuple[str, KernelSpec]],
    shapes: Sequence[Mapping[str, Any]],
    given: Mapping[str, str],
    direction: str | None,
    title: str,
) -> Plan:
    cases: list[Case] = []
    steps: list[Step] = []
    for (name, spec), shape in zip(specs, shapes, strict=True):
        step = replace(_step_of(spec, shape, given, direction), id=_id(name, [s.id for s in steps]))
        steps.append(step)
        cases.append(Case(id=step.id, spec=spec, op=step.op, direction=step.direction))
    return Plan(workload=Workload(name=title, steps=tuple(steps)), cases=tuple(cases), whole=False)


def _given(words: Sequence[str]) -> dict[str, str]:
    """The fields of ``--set``."""
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals or not value:
            raise UsageError(f"--set '{word}' is not key=value, such as m=4096")
        if key in ("id", "op", "measured", "repeat", "after", "tied_to"):
            raise UsageError(f"--set {key}: set fields of the kernel's operator, such as m=4096")
        if key in found:
            raise UsageError(f"--set {key} is given twice")
        found[key] = value
    return found


def _step_of(spec: KernelSpec, shape: Mapping[str, Any], given: Mapping[str, str], direction: str | None) -> Step:
    """The kernel at a shape, its example or (where there is no GPU) a small one, with the fields given, read like any step."""
    values = {**shape, **spec.fields, **given, **({"pass": direction} if direction else {})}
    units = {f.name: f" {f.metadata['unit']}" for f in fields(OPERATORS[spec.op]) if "unit" in f.metadata}  # type: ignore[arg-type]
    words = [f"{k}={_text(v)}{units.get(k, '') if isinstance(v, int) else ''}" for k, v in values.items() if v is not None and v != ""]
    (step,) = one_step(spec.op, words).steps
    changed = [f for f in spec.fields if getattr(step.op, f) != spec.fields[f]]
    if changed:
        raise UsageError(f"--set {changed[0]}: kernel '{spec.name}' is what it is by {changed[0]} = {_text(spec.fields[changed[0]])}")
    return step


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _id(name: str, taken: Sequence[str]) -> str:
    """A step id for a kernel: its name in plain letters, numbered where it was given before."""
    plain = "".join(c if (c.isascii() and c.isalnum()) or c in "_-" else "_" for c in name)
    numbered = [plain, *(f"{plain}_{n}" for n in range(2, len(taken) + 2))]
    return next(each for each in numbered if each not in taken)


def require_kernels(plan: Plan, device: Device) -> None:
    """Refuse a plan of which a step cannot run here before the first is measured.

    Raises:
        UsageError, MissingCapabilityError: the kernel does not run this operator, or needs what is not there.
    """
    for case in plan.cases:
        try:
            for direction in case.passes:
                require(case.spec, case.op, direction, place(device))
        except (UsageError, MissingCapabilityError) as err:
            raise err if len(plan.cases) == 1 else type(err)(f"step '{case.id}': {err}") from None


# --------------------------------------------------------------------------- running it
@dataclass(kw_only=True)
class _Run:
    """A plan under way, and what it found so far."""

    plan: Plan
    device: Device
    procedure: Procedure
    step: Step_
    watch: Watcher
    found: dict[tuple[Any, ...], MeasuredResult] = field(default_factory=dict)
    whole: MeasuredResult | None = None

    def work(self) -> None:
        """Every distinct case once, then the whole."""
        for case in self.plan.cases:
            if _key(case) not in self.found:
                self.found[_key(case)] = measure_op(
                    case, self.device, self.procedure, progress=partial(self.step, case.id), watch=self.watch
                )
            self.step(case.id, 1.0)
            if self.found[_key(case)].status == "interrupted":
                raise KeyboardInterrupt
        if self.plan.whole:
            self.whole = self._whole()
            self.step(WHOLE, 1.0)

    def _whole(self) -> MeasuredResult:
        """The sequence as one run; not with a kernel in it that cannot be timed by itself."""
        bad = next(((c.id, r) for c in self.plan.cases if (r := self.found[_key(c)]).status not in TIMED), None)
        if bad:
            return no_whole(bad[1].status, f"not run: {bad[0]} is {bad[1].status}")
        pairs = [(case, s.repeat) for case, s in zip(self.plan.cases, self.plan.workload.steps, strict=True)]
        return measure_sequence(pairs, self.device, self.procedure, progress=partial(self.step, WHOLE), watch=self.watch)

    def results(self, interrupted: bool) -> Measurements:
        """What was found; where the run was interrupted, what was not reached says so."""
        steps = {c.id: self.found[_key(c)] for c in self.plan.cases if _key(c) in self.found}
        whole = self.whole
        if interrupted:
            steps = {c.id: steps.get(c.id) or _not_reached(c) for c in self.plan.cases}
            whole = whole or (no_whole("interrupted", NOT_REACHED) if self.plan.whole else None)
        return Measurements(steps=steps, whole=whole, environment=environment(self.device))


def run_plan(
    plan: Plan, device: Device, procedure: Procedure, step: Step_, *, watch: Watcher = ThreadWatch, stop: Interruption | None = None
) -> Measurements:
    """Measure every distinct case once, then the whole sequence; Ctrl-C keeps what is complete.

    Kernels in turns are one measurement, of which an interruption leaves nothing.
    """
    guard = stop or Interruption()
    if plan.in_turns:
        return _turns(plan, device, procedure, guard, watch)

    def checked_step(name: str, share: float) -> None:
        guard.check()
        step(name, share)

    run = _Run(plan=plan, device=device, procedure=procedure, step=checked_step, watch=watch)
    return run.results(guard.during(run.work))


def plan_in_turns(plan: Plan) -> Plan:
    """The plan with its kernels in one session.

    Raises:
        UsageError: there are not several kernels to compare.
    """
    if plan.whole or len(plan.cases) < 2:
        raise UsageError("--in-turns compares kernels: give --kernel twice or more, and no workload")
    return replace(plan, in_turns=True)


def _turns(plan: Plan, device: Device, procedure: Procedure, guard: Interruption, watch: Watcher) -> Measurements:
    """Short samples, many in a round: the more often the kernels alternate, the more alike is what disturbs them."""
    turns = replace(procedure, blocks=20, fewest_samples=600, shortest_s=0.0)
    found: list[MeasuredResult] = []
    if guard.during(lambda: found.extend(measure_in_turns(plan.cases, device, turns, "turns", watch=watch))):
        found = [_not_reached(case) for case in plan.cases]
    steps = {case.id: result for case, result in zip(plan.cases, found, strict=True)}
    return Measurements(steps=steps, environment=environment(device))


def _not_reached(case: Case) -> MeasuredResult:
    return MeasuredResult(time_s=0.0, source="no time", status="interrupted", notes=(NOT_REACHED,), conditions={"kernel": case.spec.name})


def _key(case: Case) -> tuple[Any, ...]:
    return (case.spec.name, case.direction, type(case.op).__name__, *((f.name, getattr(case.op, f.name)) for f in fields(case.op)))  # type: ignore[arg-type]


def environment(device: Device) -> dict[str, str | int | float | bool | None]:
    """What the device is, for the only part of a report that may depend on the host."""
    info = device.info
    return {"device": info.name, "device_kind": info.kind, "device_uuid": info.uuid, **dict(info.facts)}
