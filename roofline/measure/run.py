"""From an operator to a measured result: check the kernel, make its inputs, time it, check it again.

Memory that does not suffice is the result of that case and not the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from roofline.errors import MeasurementInvalidError
from roofline.measure.allocate import allocated_bytes, copies
from roofline.measure.base import Device, OutOfDeviceMemory, Procedure, Reading, Runner, Timing
from roofline.measure.check import check, small_op
from roofline.measure.registry import prepare
from roofline.measure.rotation import input_sets, rotation_verified
from roofline.measure.spec import KernelSpec
from roofline.measure.timing import measure
from roofline.ops.base import Op
from roofline.report.model import CheckResult, MeasuredResult

Progress = Callable[[float], None]
DIRECTIONS = {"forward": ("forward",), "backward": ("backward",), "forward+backward": ("forward", "backward")}


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


def measure_op(case: Case, device: Device, procedure: Procedure, *, seed: int = 0, progress: Progress | None = None) -> MeasuredResult:
    """Time one kernel; what goes wrong with it alone is the status of its result.

    The kernel is compared with a float64 reference before it is timed, and again with new inputs afterwards.

    Raises:
        UsageError, MissingCapabilityError: the kernel cannot run this operator on this device.
        KeyboardInterrupt: before the first complete sample.
    """
    before = _checked(case, device, seed)
    if not before.passed:
        return _untimed(case, "invalid", f"output off by {before.error:.3g}, allowed {before.tolerance:.3g} ({before.against})", before)
    try:
        result = _timed(case, device, procedure, seed, progress)
    except OutOfDeviceMemory as err:
        device.empty_cache()
        return _untimed(case, "oom", str(err) or "out of device memory", before)
    except MeasurementInvalidError as err:
        return _untimed(case, "failed", str(err), before)
    after = _checked(case, device, seed + 100)
    if not after.passed:
        return replace(result, status="invalid", check=after, notes=(*result.notes, "the output was wrong after timing"))
    return replace(result, check=max(before, after, key=lambda c: c.error))


def _checked(case: Case, device: Device, seed: int) -> CheckResult:
    small = small_op(case.spec, case.op)
    found = [check(case.spec, small, place(device), direction, seed + 1) for direction in case.passes]
    return min(found, key=lambda c: (c.passed, -c.error))


def place(device: Device) -> str:
    """torch's name of the device."""
    return "cpu" if device.info.kind == "cpu" else f"cuda:{getattr(device, 'index', 0)}"


def call_of(case: Case, tensors: dict[str, Any], where: str) -> Callable[[], Any]:
    """One callable that runs the case once on these tensors."""
    calls = [prepare(case.spec, case.op, tensors, direction, where) for direction in case.passes]
    return calls[0] if len(calls) == 1 else lambda: [call() for call in calls]


def _timed(case: Case, device: Device, procedure: Procedure, seed: int, progress: Progress | None) -> MeasuredResult:
    where, last = place(device), case.passes[-1]
    set_bytes = float(allocated_bytes(case.op, last))
    sets = input_sets(set_bytes, device.info.l2_bytes, device.free_bytes(), procedure.cache)
    launch = _launch(case, device, procedure)
    with _Contained(device):
        tensors = copies(case.op, where, sets, seed, last)
        calls = [call_of(case, t, where) for t in tensors]
    prepared: list[Runner] = []

    def runner(repeats: int) -> Runner:
        prepared.append(device.prepare(calls, repeats, launch))
        return prepared[-1]

    timing = measure(device, runner, procedure, progress=progress)
    rotation = rotation_verified(prepared[-1], sets, set_bytes, device.info.l2_bytes)
    notes = () if procedure.cache == "warm" or rotation.cold else (f"not cold: {rotation.reason}",)
    return result_of(timing, device, procedure, launch, kernel=case.spec.name, notes=notes)


def _launch(case: Case, device: Device, procedure: Procedure) -> str:
    """As asked for, but from Python where there are no graphs or the backward pass cannot be captured."""
    captured = device.info.kind != "cpu" and ("backward" not in case.passes or case.spec.capture_backward)
    return procedure.launch if captured else "eager"


class _Contained:
    """Turns torch's running out of memory into ours, whatever is being made."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        import torch

        if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
            raise OutOfDeviceMemory(str(error).split("\n")[0]) from None


# --------------------------------------------------------------------------- the whole sequence
def measure_sequence(
    cases: Sequence[tuple[Case, int]], device: Device, procedure: Procedure, *, seed: int = 0, progress: Progress | None = None
) -> MeasuredResult:
    """All cases in order, each as often as it repeats, as one run: what they take together and not their sum.

    Repetitions of a case run on the same tensors; the whole sequence is warmed and timed as one call.
    """
    where = place(device)
    try:
        with _Contained(device):
            calls = list(_sequence(cases, where, seed))
        launch = procedure.launch if device.info.kind != "cpu" and all(c.spec.capture_backward for c, _ in cases) else "eager"
        sequence = replace(procedure, cache="warm")
        timing = measure(device, lambda repeats: device.prepare(calls, repeats, launch), sequence, progress=progress)
    except OutOfDeviceMemory as err:
        device.empty_cache()
        return MeasuredResult(time_s=0.0, source="a run of the whole sequence", status="oom", notes=(str(err),))
    except MeasurementInvalidError as err:
        return MeasuredResult(time_s=0.0, source="a run of the whole sequence", status="failed", notes=(str(err),))
    one = replace(result_of(timing, device, sequence, launch, kernel="sequence"), source="a run of the whole sequence")
    return scaled(one, len(calls))


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
        samples_s=timing.samples_s,
        blocks=timing.blocks,
        interval_s=(timing.low_s, timing.high_s),
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


def _untimed(case: Case, status: str, why: str, checked: CheckResult) -> MeasuredResult:
    return MeasuredResult(time_s=0.0, source="no time", status=status, notes=(why,), check=checked, conditions={"kernel": case.spec.name})
