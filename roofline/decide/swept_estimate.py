"""Estimates of a workload whose dimensions are arrays: `roofline.report.estimated` at every point at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.decide.swept_bound import SweptStep
from roofline.decide.swept_schedule import SweptTask, critical_path
from roofline.errors import InputError, RooflineError
from roofline.hardware.profile import Hardware
from roofline.numeric import Number, anywhere, maximum, minimum, total
from roofline.predict.estimate.estimator import Estimator, HostCost, KernelEstimate
from roofline.predict.estimate.host import HOST_SET
from roofline.predict.estimate.issue import calls_of, raised
from roofline.predict.estimate.timeline import CLOSE, LaunchedStep, end_of_overlapped, launched, layered

LIMITERS = ("fixed", "memory", "compute", "host")
"""What decides an estimate, by number; -1 is nothing."""


@dataclass(frozen=True, slots=True)
class SweptEstimate:
    """The estimate of the whole at every point, its band, and the number of what decides it among `LIMITERS`."""

    time_s: Number
    low_s: Number
    high_s: Number
    limiter: Any


@dataclass(frozen=True, slots=True)
class _Kernels:
    """One execution of a step as launched, as `roofline.report.estimated.StepKernels`."""

    swept: SweptStep
    kernels: tuple[KernelEstimate, ...]
    hosts: tuple[HostCost, ...]
    factor: Number

    def launched(self, host: Number, device: Number, *, chained: bool) -> LaunchedStep:
        step, calls = self.swept.step, calls_of(self.kernels, self.hosts, self.factor, chained=chained)
        return launched(step.id, [c.scaled(host, device) for c in calls], step.repeat, self.swept.ops[0].lane, step.after)


def estimates(steps: Sequence[SweptStep], execution: str, hardware: Hardware) -> SweptEstimate | str:
    """The estimate of the whole, or why there is none."""
    try:
        estimator = Estimator(hardware, execution)
        found = [_kernels(s, estimator) for s in steps]
        host_ends = _host_ends(estimator)
    except InputError:
        raise
    except RooflineError as err:
        return str(err)
    chained = len(found) > 1
    time, device, host, on_path = _timeline([k.launched(1.0, 1.0, chained=chained) for k in found])
    ends = [
        _timeline([k.launched(h, d, chained=chained) for k in found])[0]
        for h, d in zip(host_ends, _device_ends(found, on_path), strict=True)
    ]
    return SweptEstimate(time, minimum(time, ends[0]), maximum(time, ends[1]), _limiter(found, on_path, host > device, chained))


def _kernels(swept: SweptStep, estimator: Estimator) -> _Kernels:
    kernels = tuple(k for op in swept.ops for k in estimator.op(op).kernels)
    return _Kernels(swept, kernels, tuple(estimator.host(k.kernel) for k in kernels), raised(swept.work, kernels, estimator.hardware))


def _host_ends(estimator: Estimator) -> tuple[float, float]:
    if estimator.execution != "eager":
        return 1.0, 1.0
    chosen = estimator.chosen((HOST_SET,))
    return min(1.0, chosen.low["launch"]), max(1.0, chosen.high["launch"])


def _device_ends(steps: Sequence[_Kernels], on_path: Mapping[str, Any]) -> tuple[Number, Number]:
    """Ends of the band of the sum of the kernels, as `roofline.report.estimated.device_band`."""
    time: Any = 0.0
    sets: dict[str, list[Any]] = {}
    for step in steps:
        weight = step.factor * step.swept.step.repeat * np.asarray(on_path[step.swept.step.id], dtype=np.float64)
        for k in step.kernels:
            widths = sets.setdefault(k.parameters.name, [0.0, 0.0])
            widths[0] = widths[0] + maximum(0.0, k.time_s - k.low_s) * weight
            widths[1] = widths[1] + maximum(0.0, k.high_s - k.time_s) * weight
            time = time + k.time_s * weight
    down, up = (np.sqrt(total(w[side] * w[side] for w in sets.values())) for side in (0, 1))
    safe = np.where(np.asarray(time) > 0, time, 1.0)
    return 1 - down / safe, 1 + up / safe


def _timeline(steps: Sequence[LaunchedStep]) -> tuple[Any, Any, Any, Mapping[str, Any]]:
    """The whole time, the device's alone, the host's, and which steps lie on the critical path."""
    runs = [(s, s.once.times(s.repeat)) for s in steps]
    device, on_path = critical_path([SweptTask(s.id, run.device_s, s.lane, s.after) for s, run in runs])
    host = total(run.host_s for _, run in runs)
    first = next((s.first_s for s, run in runs if anywhere(run.chain_s > 0)), 0.0)
    overlapped = any(s.after is not None for s in steps)
    end = end_of_overlapped(runs) if overlapped else layered(steps).chain_s
    time = maximum(end - first, host)
    return np.where(np.asarray(time) > device * (1 + CLOSE), time, device), device, host, on_path


def _limiter(steps: Sequence[_Kernels], on_path: Mapping[str, Any], by_host: Any, chained: bool) -> Any:
    """Host where it decides, else what has most of the time of the steps that decide."""
    spent: list[Any] = [0.0, 0.0, 0.0]
    for step in steps:
        count = step.swept.step.repeat * np.asarray(on_path[step.swept.step.id], dtype=np.float64)
        for k, h in zip(step.kernels, step.hosts, strict=True):
            time = (k.time_s * step.factor + h.between_s(chained)) * count
            fixed, memory, compute = (np.asarray(k.terms[name]) for name in ("fixed", "memory", "compute"))
            regime = np.where(2 * fixed >= k.time_s, 0, np.where(memory >= compute, 1, 2))
            for number in np.unique(regime):
                spent[number] = spent[number] + np.where(regime == number, time, 0.0)
    most = np.stack(np.broadcast_arrays(*spent))
    return np.where(by_host, LIMITERS.index("host"), np.where(most.max(axis=0) > 0, most.argmax(axis=0), -1))
