"""Estimates of the rows and of the whole, from the kernels that each step launches.

Bounds and estimates are never mixed: an estimate below its bound stands where operands may stay in L2, which the bound takes
to come from memory. What the device cannot do even from a full cache is another matter: parameters that say so are wrong
there, the estimate is raised to that time, says `raised`, and the report warns (W006).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from roofline.errors import InputError, RooflineError
from roofline.hardware.profile import Hardware, ParameterSet
from roofline.numeric import scalar
from roofline.predict.estimate.estimator import Estimator, HostCost, KernelEstimate
from roofline.predict.estimate.host import HOST_SET
from roofline.predict.estimate.issue import calls_of, raised
from roofline.predict.estimate.timeline import Calls, LaunchedStep, Launches, Timeline, in_order, launched, timeline
from roofline.records import dataclass
from roofline.report.counted import Counted
from roofline.report.model import EstimateResult, MeasuredResult, Measurements, ParameterShare

LIMITERS = {"launch": "fixed", "memory": "memory", "compute": "compute"}
"""What a report calls the regimes of a kernel: host launches are another thing than a kernel's fixed cost."""
NO_NUMBER = "the models give no finite time for these dimensions"


@dataclass(frozen=True, slots=True)
class Estimates:
    """The estimates of a report; where there is none, the reason by row id, or of the whole."""

    rows: Mapping[str, EstimateResult] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    total: EstimateResult | None = None
    total_missing: str | None = None


NO_ESTIMATES = Estimates()
"""Without a device."""


@dataclass(frozen=True, slots=True)
class StepKernels:
    """One execution of a step as launched; ``factor`` lifts its device times to what is possible at all."""

    counted: Counted
    kernels: tuple[KernelEstimate, ...]
    hosts: tuple[HostCost, ...]
    factor: float = 1.0

    @property
    def calls(self) -> int:
        """How many kernels are launched."""
        return sum(k.kernel.calls for k in self.kernels)

    def launches(self, host: float = 1.0, device: float = 1.0, *, chained: bool = False) -> Launches:
        """The sequence, its times multiplied by these; ``chained`` among kernels of other steps."""
        return in_order(c.launches() for c in self._calls(host, device, chained=chained))

    def launched(self, host: float = 1.0, device: float = 1.0, *, chained: bool = False) -> LaunchedStep:
        """The step of a timeline."""
        step, calls = self.counted.step, self._calls(host, device, chained=chained)
        return launched(step.id, calls, step.repeat, self.counted.ops[0].lane, step.after)

    def _calls(self, host: float, device: float, *, chained: bool) -> list[Calls]:
        return [c.scaled(host, device) for c in calls_of(self.kernels, self.hosts, self.factor, chained=chained)]


@dataclass(frozen=True, slots=True)
class Weighed:
    """A step, how often it counts, and whether it is on the path that decides the time."""

    step: StepKernels
    count: int
    decides: bool


def estimates(counted: Sequence[Counted], hardware: Hardware | None, execution: str, measured: Measurements) -> Estimates:
    """The estimate of each row and of the whole; a measured one for how it was launched, others under ``execution``."""
    if hardware is None:
        return NO_ESTIMATES
    try:
        found = _Estimating(hardware)
    except RooflineError as err:
        return Estimates(missing={c.step.id: str(err) for c in counted}, total_missing=str(err))
    rows: dict[str, EstimateResult] = {}
    missing: dict[str, str] = {}
    for c in counted:
        row = _or_why(lambda c=c: found.row(c, execution_of(measured.steps.get(c.step.id), execution)))  # type: ignore[misc]
        if isinstance(row, str):
            missing[c.step.id] = row
        else:
            rows[c.step.id] = row
    if missing:
        why = next(iter(missing))
        return Estimates(rows, missing, None, f"{why} has no estimate: {missing[why]}")
    whole = _or_why(lambda: found.whole(counted, execution_of(measured.whole, execution)))
    return Estimates(rows, missing, None, whole) if isinstance(whole, str) else Estimates(rows, missing, whole)


def _or_why(estimated: Callable[[], EstimateResult]) -> EstimateResult | str:
    """The estimate, or why there is none. A set that cannot be read is no missing estimate but a mistake in a file."""
    try:
        return estimated()
    except InputError:
        raise
    except RooflineError as err:
        return str(err)
    except ArithmeticError:
        return NO_NUMBER


def execution_of(measured: MeasuredResult | None, execution: str) -> str:
    """How a measurement launched its kernels, in the words of a workload; ``execution`` where it does not say."""
    said = measured.conditions if measured else {}
    if said.get("launch") == "graph":
        return "compiled" if "compiled" in str(said.get("kernel", "")) else "graph"
    return "eager" if said.get("launch") == "eager" else execution


class _Estimating:
    """What the rows of one report share: an estimator for each execution."""

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self.estimators = {"graph": Estimator(hardware, "graph")}  # says at once what the profile lacks
        self._steps: dict[tuple[str, str], StepKernels] = {}

    def step(self, c: Counted, execution: str) -> StepKernels:
        """What one execution launches."""
        key = (c.step.id, execution)
        if key not in self._steps:
            self._steps[key] = self._step(c, execution)
        return self._steps[key]

    def _step(self, c: Counted, execution: str) -> StepKernels:
        if execution not in self.estimators:
            self.estimators[execution] = Estimator(self.hardware, execution)
        found = self.estimators[execution]
        kernels = tuple(k for op in c.ops for k in found.op(op).kernels)
        times = [scalar(v) for k in kernels for v in (k.time_s, k.low_s, k.high_s)]
        if not all(math.isfinite(t) and t >= 0 for t in times):
            raise ArithmeticError(NO_NUMBER)
        return StepKernels(c, kernels, tuple(found.host(k.kernel) for k in kernels), scalar(raised(c.work, kernels, self.hardware)))

    def row(self, c: Counted, execution: str) -> EstimateResult:
        """One execution of many in a row: the slower of host and device sets the pace."""
        step = self.step(c, execution)
        mid, *ends = (_pace(step.launches(h, d), c.step.id) for h, d in ((1.0, 1.0), *self._bands([step], execution)))
        return _result([Weighed(step, 1, True)], execution, (mid.time_s, ends[0].time_s, ends[1].time_s), mid)

    def whole(self, counted: Sequence[Counted], execution: str) -> EstimateResult:
        """All steps and repetitions."""
        steps = [self.step(c, execution) for c in counted]
        chained = len(steps) > 1
        mid = timeline([s.launched(chained=chained) for s in steps])
        decisive = [s for s in steps if s.counted.step.id in mid.critical]
        low, high = (timeline([s.launched(h, d, chained=chained) for s in steps]).time_s for h, d in self._bands(decisive, execution))
        weighed = [Weighed(s, s.counted.step.repeat, s.counted.step.id in mid.critical) for s in steps]
        return _result(weighed, execution, (mid.time_s, low, high), mid, chained=chained)

    def _bands(self, steps: Sequence[StepKernels], execution: str) -> list[tuple[float, float]]:
        """Factors of the host's and of the device's times at the low and at the high end.

        The slower side decides, and both are at their ends with that probability or a greater one: of two independent sides
        that are equally slow, the later one exceeds the 95th percentile of each in 10 % of runs instead of 5 %.
        """
        ends = (1.0, 1.0)
        if execution == "eager":
            chosen = self.estimators[execution].chosen((HOST_SET,))
            ends = min(1.0, chosen.low["launch"]), max(1.0, chosen.high["launch"])
        return list(zip(ends, device_band(steps), strict=True))


def device_band(steps: Iterable[StepKernels]) -> tuple[float, float]:
    """Ends of the band of the sum of the kernels over their sum.

    Kernels of one parameter set err together: what one set gets wrong (an efficiency a little too high) it gets wrong for all
    that it serves, so their half-widths add up. Different sets are fitted to different measurements of different code, and err
    independently: theirs add up as squares. Low and high sides are kept apart, since errors are rarely symmetric.
    """
    time, sets = 0.0, dict[str, list[float]]()
    for step in steps:
        for k in step.kernels:
            weight = step.factor * step.counted.step.repeat
            mid, low, high = (scalar(v) * weight for v in (k.time_s, k.low_s, k.high_s))
            widths = sets.setdefault(k.parameters.name, [0.0, 0.0])
            widths[0] += max(0.0, mid - low)
            widths[1] += max(0.0, high - mid)
            time += mid
    if not time:
        return 1.0, 1.0
    down, up = (math.hypot(*(w[side] for w in sets.values())) for side in (0, 1))
    return 1 - down / time, 1 + up / time


def _pace(run: Launches, step: str) -> Timeline:
    """A sequence that is run again and again."""
    host, device = float(run.host_s), float(run.device_s)
    return Timeline(max(host, device), device, host, (step,))


def _result(
    weighed: Sequence[Weighed], execution: str, ends: tuple[float, float, float], run: Timeline, *, chained: bool = False
) -> EstimateResult:
    """The estimate with its explanation: terms and limiters of the steps that decide, kernels and parameters of all."""
    terms: dict[str, float] = {}
    limits: dict[str, float] = {"host": run.idle_s}
    for step, count in ((w.step, w.count) for w in weighed if w.decides):
        for k, h in zip(step.kernels, step.hosts, strict=True):
            between = h.between_s(chained)
            for name, part in ({**k.terms, "gap": between} if between else k.terms).items():
                terms[name] = terms.get(name, 0.0) + scalar(part) * count
            limiter = LIMITERS[k.regime]
            limits[limiter] = limits.get(limiter, 0.0) + (scalar(k.time_s) * step.factor + between) * count
    found = dict(sorted(((name, t) for name, t in limits.items() if t > 0), key=lambda item: -item[1]))
    shares = _shares(weighed)
    time, low, high = ends
    return EstimateResult(
        time_s=time,
        low_s=min(time, low),
        high_s=max(time, high),
        terms=terms,
        execution=execution,
        limiter="host" if run.launch_bound else next((name for name in found if name != "host"), None),
        by_limiter_s=found,
        kernels=sum(w.step.calls * w.count for w in weighed),
        device_s=run.device_s,
        host_s=run.host_s,
        prior=any(s.prior for s in shares.values()),
        raised=any(w.step.factor > 1 for w in weighed),
        parameters=shares,
    )


def _shares(weighed: Sequence[Weighed]) -> dict[str, ParameterShare]:
    """What each set says, the one with most of the time first."""
    found: dict[str, ParameterShare] = {}
    for w in weighed:
        for k, h in zip(w.step.kernels, w.step.hosts, strict=True):
            parts = {name: scalar(part) for name, part in k.terms.items()}
            _add(found, k.parameters, k.prior, k.kernel.calls * w.count, scalar(k.time_s) * w.step.factor * w.count, parts, w.count)
            if h.chosen:
                host = h.host_s * w.count
                _add(found, h.chosen.set, h.chosen.prior, k.kernel.calls * w.count, host, {"fixed": h.host_s}, w.count)
    return dict(sorted(found.items(), key=lambda item: -item[1].time_s))


def _add(
    found: dict[str, ParameterShare], chosen: ParameterSet, prior: bool, kernels: int, time_s: float, terms: Mapping[str, float], count: int
) -> None:
    """Add to the share of a set."""
    old = found.get(chosen.name)
    kept = old.terms if old else {}
    found[chosen.name] = ParameterShare(
        kernels=kernels + (old.kernels if old else 0),
        time_s=time_s + (old.time_s if old else 0.0),
        terms={name: kept.get(name, 0.0) + terms.get(name, 0.0) * count for name in dict.fromkeys([*kept, *terms])},
        device=chosen.device,
        kind=chosen.kind,
        source=chosen.source,
        prior=prior,
    )
