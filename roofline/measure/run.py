"""From an operator to a measured result: check the kernel, make its inputs, time it, check it again.

What goes wrong with one kernel, be it memory that does not suffice or an exception of its own, is the result of that case and
not the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePath
from statistics import median
from traceback import extract_tb
from typing import Any, TypeVar

from roofline.errors import MeasurementInvalidError, RooflineError
from roofline.measure.allocate import allocated_bytes, copies
from roofline.measure.base import Device, OutOfDeviceMemory, Procedure, Reading, Runner, Timing
from roofline.measure.check import FAILED, check, small_op
from roofline.measure.cuda import out_of_memory
from roofline.measure.registry import prepare
from roofline.measure.rotation import input_sets, rotation_verified
from roofline.measure.spec import KernelSpec
from roofline.measure.timing import measure
from roofline.measure.together import measure_together
from roofline.measure.touched import touched_sets
from roofline.measure.watch import ThreadWatch, Watch
from roofline.numeric import scalar
from roofline.ops.base import Op
from roofline.report.model import CheckResult, MeasuredResult
from roofline.units import Dimension, format_quantity

Found = TypeVar("Found")
Progress = Callable[[float], None]
Watcher = Callable[[Device], Watch]
DIRECTIONS = {"forward": ("forward",), "backward": ("backward",), "forward+backward": ("forward", "backward")}
WHOLE_SOURCE = "a run of the whole sequence"
FRESH_INPUTS = 100
"""Added to the seed for the check after timing, so that it meets values that the kernel has not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel of one operator; ``direction`` is forward, backward, or forward+backward as one call."""

    id: str
    spec: KernelSpec
    op: Op
    direction: str = "forward"

    @property
    def passes(self) -> tuple[str, ...]:
        """The directions that one call runs."""
        return DIRECTIONS[self.direction]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Where and how cases are measured."""

    device: Device
    procedure: Procedure
    seed: int = 0
    progress: Progress | None = None
    watch: Watcher = ThreadWatch


def measure_op(
    case: Case, device: Device, procedure: Procedure, *, seed: int = 0, progress: Progress | None = None, watch: Watcher = ThreadWatch
) -> MeasuredResult:
    """Time one kernel; what goes wrong with it alone is the status of its result.

    The kernel is compared with a float64 reference before it is timed, and again with new inputs afterwards.

    Raises:
        UsageError, MissingCapabilityError: the kernel cannot run this operator on this device.
        KeyboardInterrupt: before the first complete sample.
    """
    how = Conditions(device=device, procedure=procedure, seed=seed, progress=progress, watch=watch)
    found = contained(device, lambda: _checked_and_timed(case, how))
    return found if isinstance(found, MeasuredResult) else _untimed(case, *found)


def _checked_and_timed(case: Case, how: Conditions) -> MeasuredResult:
    before = _checked(case, how.device, how.seed)
    if not before.passed:
        return _untimed(case, "invalid", _wrong(before), before)
    found = contained(how.device, lambda: _timed(case, how))
    if not isinstance(found, MeasuredResult):
        return _untimed(case, *found, before)
    return found if found.status == "interrupted" else _checked_again(case, how, replace(found, check=before))


def _checked_again(case: Case, how: Conditions, result: MeasuredResult) -> MeasuredResult:
    """The result with the worse of both checks; an interruption here loses the check and not the samples."""
    try:
        after = _checked(case, how.device, how.seed + FRESH_INPUTS)
    except KeyboardInterrupt:
        return replace(result, status="interrupted", notes=(*result.notes, "interrupted before its output was checked again"))
    if not after.passed:
        return replace(result, status="invalid", check=after, notes=(*result.notes, f"after timing, {_wrong(after)}"))
    return replace(result, check=max(result.check or after, after, key=lambda c: c.error))


def _checked(case: Case, device: Device, seed: int) -> CheckResult:
    small = small_op(case.spec, case.op)
    found = [check(case.spec, small, place(device), direction, seed + 1) for direction in case.passes]
    return min(found, key=lambda c: (c.passed, -c.error))


def _wrong(found: CheckResult) -> str:
    if found.error >= FAILED:
        return f"its output is of another shape than that of the {found.against}, or not finite"
    return f"its output is off by {found.error:.3g}, allowed {found.tolerance:.3g} ({found.against})"


def place(device: Device) -> str:
    """torch's name of the device; one that is neither, such as a scripted one, computes on the CPU."""
    return f"cuda:{getattr(device, 'index', 0)}" if device.info.kind == "cuda" else "cpu"


# --------------------------------------------------------------------------- what may go wrong with one case
def contained(device: Device, work: Callable[[], Found]) -> Found | tuple[str, str]:
    """The work's result, or a status and the reason where it failed. What the user must repair is raised."""
    try:
        return work()
    except MeasurementInvalidError as err:
        failure = "failed", str(err)
    except RooflineError:
        raise
    except Exception as err:
        failure = ("oom", _first_line(err) or "out of device memory") if _lacks_memory(err) else ("failed", _said(err))
    with suppress(Exception):  # out here nothing holds the tensors any more; a broken device cannot even free
        device.empty_cache()
    return failure


def _lacks_memory(error: Exception) -> bool:
    on_host = any(words in str(error) for words in ("can't allocate memory", "not enough memory"))
    return isinstance(error, (OutOfDeviceMemory, MemoryError)) or out_of_memory(error) or (isinstance(error, RuntimeError) and on_host)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")


def _said(error: Exception) -> str:
    """The error in a line, and where in the kernel it came from: often the kernel is the user's."""
    frames = [f for f in extract_tb(error.__traceback__) if "-packages" not in f.filename]
    where = f" ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return ": ".join(filter(None, (type(error).__name__, _first_line(error)))) + where


def _require_memory(device: Device, needed: float, brought: float) -> None:
    """Refuse what cannot fit. A GPU says no by itself; a system that promises memory and cannot keep it ends the process."""
    free = device.free_bytes()
    needed += 0 if device.info.kind == "cuda" else brought
    if free is not None and needed > free:
        raise OutOfDeviceMemory(f"out of device memory: {_bytes(needed)} are needed and {_bytes(free)} are free")


def _bytes(amount: float) -> str:
    return format_quantity(amount, Dimension.BYTES, ascii=True)


def _set_bytes(case: Case) -> tuple[float, float]:
    """Bytes of one set of tensors, and of what a call on it brings along: outputs are kept, and kernels need memory of their own."""
    results = sum(float(scalar(t.bytes)) for t in case.op.tensors() if t.role in ("out", "inout"))
    kept = sum(float(scalar(t.bytes)) for t in case.op.saved()) if "backward" in case.passes else 0.0
    return float(allocated_bytes(case.op, case.passes[-1])), results + kept + float(scalar(case.op.extra_memory_bytes()))


# --------------------------------------------------------------------------- timing one case
def call_of(case: Case, tensors: dict[str, Any], where: str) -> Callable[[], Any]:
    """One callable that runs the case once on these tensors."""
    calls = [prepare(case.spec, case.op, tensors, direction, where) for direction in case.passes]
    return calls[0] if len(calls) == 1 else lambda: [call() for call in calls]


def _timed(case: Case, how: Conditions) -> MeasuredResult:
    device, where, free = how.device, place(how.device), how.device.free_bytes()
    set_bytes, brought = _set_bytes(case)
    _require_memory(device, set_bytes, brought)
    room = None if free is None or not set_bytes else free * set_bytes / (set_bytes + brought)
    p = how.procedure
    sets = input_sets(set_bytes, device.info.l2_bytes, room, p.cache, caches=p.caches, most=p.most_sets)
    tensors = copies(case.op, where, sets, how.seed, case.passes[-1])
    runners = _Runners(case, how, tensors, [call_of(case, t, where) for t in tensors])
    timing = measure(device, runners.prepare, how.procedure, progress=how.progress, watch=how.watch)
    notes = (*_launch_notes(case, how), *runners.notes(set_bytes))
    return result_of(timing, device, how.procedure, runners.launch, kernel=case.spec.name, notes=notes)


def measure_in_turns(
    cases: Sequence[Case], device: Device, procedure: Procedure, session: str, *, seed: int = 0, watch: Watcher = ThreadWatch
) -> list[MeasuredResult]:
    """Time several kernels in turns, so that a comparison of them is not one of what else the device did meanwhile.

    ``session`` is a name that their results share; inputs are warm. Each kernel is held against its reference before.
    What goes wrong with one, or does not fit together, is the status of all: there is nothing to compare then.
    """
    how = Conditions(device=device, procedure=replace(procedure, cache="warm"), seed=seed, progress=None, watch=watch)
    found = contained(device, lambda: _in_turns(cases, how, session))
    return [_untimed(case, *found) for case in cases] if isinstance(found, tuple) else found


def _in_turns(cases: Sequence[Case], how: Conditions, session: str) -> list[MeasuredResult]:
    device, seed = how.device, how.seed
    checks = [_checked(case, device, seed) for case in cases]
    for case, checked in zip(cases, checks, strict=True):
        if not checked.passed:
            raise MeasurementInvalidError(f"{case.id}: {_wrong(checked)}")
    runners = []
    for i, case in enumerate(cases):
        tensors = copies(case.op, place(device), 1, seed + i, case.passes[-1])
        runners.append(_Runners(case, how, tensors, [call_of(case, t, place(device)) for t in tensors]))
    timings = measure_together(device, [r.prepare for r in runners], how.procedure, watch=how.watch)
    found = []
    for case, runner, timing, checked in zip(cases, runners, timings, checks, strict=True):
        one = result_of(timing, device, how.procedure, runner.launch, kernel=case.spec.name)
        found.append(replace(one, check=checked, conditions={**one.conditions, "session": session}))
    return found


class _Runners:
    """Prepares runners of a case, and remembers of the last one how many input sets it really went through."""

    def __init__(self, case: Case, how: Conditions, tensors: Sequence[dict[str, Any]], calls: Sequence[Callable[[], Any]]) -> None:
        self.how, self.tensors, self.calls = how, tensors, calls
        self.launch = launch_of(case, how.device, how.procedure)
        self.written = [t.name for t in case.op.tensors() if t.role == "out"]
        self.last: Runner | None = None
        self.touched: int | None = None

    def prepare(self, repeats: int) -> Runner:
        """A runner that goes so many times through the sets."""
        self.last = self.how.device.prepare(self.calls, repeats, self.launch)
        try:
            self.touched = touched_sets(self.last, self.tensors, self.written) if self.how.procedure.cache == "cold" else None
        except BaseException:
            self.last.close()
            raise
        return self.last

    def notes(self, set_bytes: float) -> tuple[str, ...]:
        """Why the cache was not cold, where it should have been."""
        if self.how.procedure.cache == "warm" or self.last is None:
            return ()
        found = rotation_verified(
            self.last, len(self.tensors), set_bytes, self.how.device.info.l2_bytes, touched=self.touched, caches=self.how.procedure.caches
        )
        return () if found.cold else (f"not cold: {found.reason}",)


def launch_of(case: Case, device: Device, procedure: Procedure) -> str:
    """As asked for, but from Python where there are no graphs or the backward pass cannot be captured."""
    captured = device.info.kind != "cpu" and all(case.spec.captured(direction) for direction in case.passes)
    return procedure.launch if captured else "eager"


def _launch_notes(case: Case, how: Conditions) -> tuple[str, ...]:
    """Where another launch was used than asked for."""
    if how.device.info.kind == "cpu" or launch_of(case, how.device, how.procedure) == how.procedure.launch:
        return ()
    return ("launched from Python: its backward pass cannot be captured in a graph",)


# --------------------------------------------------------------------------- the whole sequence
def measure_sequence(
    cases: Sequence[tuple[Case, int]],
    device: Device,
    procedure: Procedure,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    watch: Watcher = ThreadWatch,
) -> MeasuredResult:
    """All cases in order, each as often as it repeats, as one run: what they take together and not their sum.

    Repetitions of a case run on the same tensors; the whole sequence is warmed and timed as one call.

    Raises:
        KeyboardInterrupt: before the first complete sample.
    """
    how = Conditions(device=device, procedure=replace(procedure, cache="warm"), seed=seed, progress=progress, watch=watch)
    found = contained(device, lambda: _whole(cases, how))
    return found if isinstance(found, MeasuredResult) else no_whole(*found)


def no_whole(status: str, why: str) -> MeasuredResult:
    """The whole sequence without a time."""
    return MeasuredResult(time_s=0.0, source=WHOLE_SOURCE, status=status, notes=(why,))


def _whole(cases: Sequence[tuple[Case, int]], how: Conditions) -> MeasuredResult:
    needed = [_set_bytes(case) for case, _ in cases]
    _require_memory(how.device, sum(own for own, _ in needed), max(brought for _, brought in needed))
    calls = list(_sequence(cases, place(how.device), how.seed))
    launches = {launch_of(case, how.device, how.procedure) for case, _ in cases}
    launch = "eager" if "eager" in launches else how.procedure.launch
    timing = measure(
        how.device, lambda repeats: how.device.prepare(calls, repeats, launch), how.procedure, progress=how.progress, watch=how.watch
    )
    one = result_of(timing, how.device, how.procedure, launch, kernel="sequence")
    return replace(scaled(one, len(calls)), source=WHOLE_SOURCE)


def _sequence(cases: Sequence[tuple[Case, int]], where: str, seed: int) -> Iterator[Callable[[], Any]]:
    for i, (case, repeat) in enumerate(cases):
        tensors = copies(case.op, where, 1, seed + i, case.passes[-1])[0]
        call = call_of(case, tensors, where)
        for _ in range(repeat):
            yield call


def scaled(result: MeasuredResult, calls: int) -> MeasuredResult:
    """A result per call as a result for so many calls."""
    return replace(
        result,
        time_s=result.time_s * calls,
        samples_s=tuple(s * calls for s in result.samples_s or ()),
        interval_s=tuple(s * calls for s in result.interval_s or ()),
    )


# --------------------------------------------------------------------------- results
def result_of(
    timing: Timing, device: Device, procedure: Procedure, launch: str, *, kernel: str, notes: tuple[str, ...] = ()
) -> MeasuredResult:
    """A finished timing as a result of the report."""
    facts = device.info.facts
    return MeasuredResult(
        time_s=timing.median_s,
        source=f"measured on {device.info.name}",
        samples_s=tuple(float(f"{s:.9g}") for s in timing.samples_s),  # a clock of 0.5 us has no more digits
        blocks=timing.blocks,
        interval_s=_within(timing),
        status=timing.status,
        conditions={
            "kernel": kernel,
            "device": device.info.name,
            "cache": procedure.cache,
            "launch": launch,
            "mode": procedure.mode,
            "calls_per_sample": timing.calls_per_sample,
            "input_sets": timing.input_sets,
            **{k: facts[k] for k in ("threads",) if k in facts},
        },
        clocks=clocks_of(timing.readings),
        notes=(*timing.notes, *notes),
    )


def _within(timing: Timing) -> tuple[float, float]:
    """The interval of the median, which lies among the samples whatever the resampling of few blocks says."""
    return max(timing.low_s, min(timing.samples_s)), min(timing.high_s, max(timing.samples_s))


def clocks_of(readings: Sequence[Reading]) -> dict[str, float | None]:
    """Clocks, power and temperature over the run."""
    return {
        "sm_mhz_median": _over(readings, "sm_mhz", median),
        "sm_mhz_min": _over(readings, "sm_mhz", min),
        "memory_mhz_median": _over(readings, "memory_mhz", median),
        "power_w_max": _over(readings, "power_w", max),
        "temperature_c_max": _over(readings, "temperature_c", max),
    }


def _over(readings: Sequence[Reading], name: str, summary: Callable[[list[float]], float]) -> float | None:
    values = [v for r in readings if (v := getattr(r, name)) is not None]
    return summary(values) if values else None


def _untimed(case: Case, status: str, why: str, checked: CheckResult | None = None) -> MeasuredResult:
    return MeasuredResult(time_s=0.0, source="no time", status=status, notes=(why,), check=checked, conditions={"kernel": case.spec.name})
