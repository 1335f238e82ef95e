"""Collectives measured over sizes by the ranks that torchrun started, each checked for the exact result before and after.

The first rank has the results; the others only take part. A size that does not fit one rank's memory is left out by all, a
library that cannot run a collective is named, and when a rank fails what is complete is kept.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from roofline.dtypes import dtype as find_dtype
from roofline.errors import MissingCapabilityError, UsageError, did_you_mean
from roofline.hardware.profile import Figure, Hardware
from roofline.measure.base import Device, OutOfDeviceMemory, Reading
from roofline.measure.collective_catalog import DTYPES, command
from roofline.measure.interrupt import Interruption, interruptible
from roofline.measure.interval import order_interval
from roofline.measure.link_fit import LinkFit, regimes
from roofline.measure.ranks import PATIENCE_S, RankFailedError, Ranks, join, others
from roofline.numeric import scalar
from roofline.ops.collective import Collective
from roofline.report.model import CheckResult, MeasuredResult, Measurements, Scalar
from roofline.spec.workload import one_step
from roofline.workload.workload import Step, Workload

FACTOR = 4
SMALLEST = 2**10
LARGEST = {"cpu": 2**26, "cuda": 2**32}
USUAL_DTYPE = {"cpu": "fp32", "cuda": "bf16"}
NO_LINK = "link"
"""Name of the link where no profile names one."""
SHOWN_VARIABLES = (
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NCHANNELS",
)
"""What changes the times of NCCL most, kept with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a command line asks for; ``sizes`` in bytes, the usual ones where there are none; ``over`` is the link that carries it, the
    fastest of the profile unless said."""

    names: tuple[str, ...]
    settings: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    over: str | None = None
    device: str = "auto"
    launch: str = "graph"
    longest_s: float = 10.0
    lock: bool = True
    patience_s: float = PATIENCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What the first rank knows in the end; ``exit_code`` is not 0 when it ended early, and ``ended`` says why."""

    workload: Workload
    profile: Hardware | None
    measurements: Measurements
    exit_code: int = 0
    ended: str | None = None


def measure_collectives(request: Request, profile_of: Callable[[Device], Hardware | None]) -> Sweep | None:
    """Measure every size of every collective with all ranks; the sweep on the first rank, None on the others.

    Raises:
        MissingCapabilityError: torchrun did not start this, or a rank lacks something.
        UsageError: settings that do not fit, or ranks that differ.
        RankFailedError: a rank is gone, and nothing was complete.
    """
    profiles: list[Hardware | None] = []
    steps: list[Step] = []

    def prepare(device: Device) -> None:
        profiles.append(profile_of(device))
        link = request.over or fastest_link(profiles[0])
        steps.extend(planned(request, int(os.environ["WORLD_SIZE"]), device.info.kind, link))

    with interruptible() as interruption:
        ranks = join(request.device, request.lock, prepare, request.patience_s)
        results: dict[str, MeasuredResult] = {}
        exit_code, ended = _swept(ranks, steps, request, results, interruption)
    if not ranks.first:
        if ended:
            raise RankFailedError(ended)
        return None
    kept = tuple(s for s in steps if s.id in results)
    workload = Workload(name=f"{', '.join(request.names)} on {ranks.count} ranks", steps=kept)
    found = Measurements(steps=results, whole=_fitted(kept, results), environment=environment(ranks))
    return Sweep(workload=workload, profile=profiles[0], measurements=found, exit_code=exit_code, ended=ended)


def _swept(
    ranks: Ranks, steps: Sequence[Step], request: Request, results: dict[str, MeasuredResult], interruption: Interruption
) -> tuple[int, str | None]:
    """Fill ``results`` as far as it goes; the exit code and words of an early end."""
    try:
        if interruption.during(lambda: _all(ranks, steps, request, results)):
            return interruption.exit_code, "interrupted"
        ranks.leave()
    except RankFailedError as err:
        if not results:
            raise
        return err.exit_code, str(err)
    return 0, None


def _all(ranks: Ranks, steps: Sequence[Step], request: Request, results: dict[str, MeasuredResult]) -> None:
    refused: dict[str, str] = {}
    for step in steps:
        if step.op.name not in refused:
            try:
                results[step.id] = _measured(ranks, step, request)
            except MissingCapabilityError as err:
                refused[step.op.name] = str(err)
    if refused and not results:
        ranks.leave()
        raise MissingCapabilityError("; ".join(refused.values()))
    for name, why in refused.items():
        step = next(s for s in steps if s.op.name == name)
        results[step.id] = MeasuredResult(time_s=0.0, source="no time", status="failed", notes=(why,))


# --------------------------------------------------------------------------- what is measured
def planned(request: Request, ranks: int, kind: str, link: str) -> list[Step]:
    """A step for each size, from the settings of the command line.

    Raises:
        UsageError, InputError: settings that do not fit.
    """
    given = dict(word.partition("=")[::2] for word in request.settings)
    if given.get("ranks", str(ranks)) != str(ranks):
        raise UsageError(f"--set ranks={given['ranks']}: torchrun started {ranks}; {command(request.names)} starts two")
    values = {"dtype": USUAL_DTYPE.get(kind, "bf16"), "over": link, **given, "ranks": str(ranks)}
    sizes = [values.pop("size")] if "size" in values else [f"{size} B" for size in request.sizes or ladder(kind)]
    return [_step(name, {**values, "size": size}, request) for name in request.names for size in sizes]


def ladder(kind: str) -> list[int]:
    """The usual sizes in bytes."""
    found = [SMALLEST]
    while found[-1] * FACTOR <= LARGEST.get(kind, LARGEST["cuda"]):
        found.append(found[-1] * FACTOR)
    return found


def _step(name: str, values: Mapping[str, str], request: Request) -> Step:
    (step,) = one_step(name, [f"{key}={value}" for key, value in values.items()]).steps
    op = step.op
    assert isinstance(op, Collective)
    if op.dtype not in DTYPES:
        raise UsageError(f"--set dtype={op.dtype}: collectives are measured in {', '.join(DTYPES)}; {did_you_mean(op.dtype, DTYPES)}")
    unit = int(scalar(op.ranks)) * int(find_dtype(op.dtype).bytes)
    size = int(scalar(op.size)) // unit * unit  # every rank has the same share
    if size == 0:
        raise UsageError(f"--set size: at least {unit} B, one element of {op.dtype} for each of {op.ranks} ranks")
    return replace(step, id=f"{name}/{size_text(size)}", op=replace(op, size=size))


def size_text(size: int) -> str:
    """A size for an id: in binary units where it is a whole number of them.

    >>> size_text(65536), size_text(1020)
    ('64KiB', '1020B')
    """
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size}B"


def fastest_link(profile: Hardware | None) -> str:
    """The link that collectives within a host use: the fastest that the profile knows."""
    rated = {name: link.bandwidth.value for name, link in (profile.links if profile else {}).items() if isinstance(link.bandwidth, Figure)}
    return max(rated, key=lambda name: rated[name], default=NO_LINK)


# --------------------------------------------------------------------------- one size
def _measured(ranks: Ranks, step: Step, request: Request) -> MeasuredResult:
    """Check, time, check again; every rank does the same or none does."""
    from roofline.measure.collective_timing import blocks_of, connected, sampled
    from roofline.measure.kernels.collective import CALLS, fill_for_timing

    op: Any = step.op
    tensors, short = _allocated(ranks, op)
    if short:
        return MeasuredResult(time_s=0.0, source="no time", status="oom", notes=(short,), conditions=_conditions(ranks, op))
    call = CALLS[op.name](op, tensors, ranks.group)
    connected(ranks, call, op.name)
    before = _checked(ranks, op, tensors, call)
    if not before.passed:
        return _invalid(ranks, op, before, "the result was wrong before timing")
    data = fill_for_timing(op, tensors, ranks.rank)
    readings: list[Reading] = [ranks.device.reading()]
    found = sampled(ranks, call, request.launch, request.longest_s)
    readings.append(ranks.device.reading())
    after = _checked(ranks, op, tensors, call)
    if not after.passed:
        return _invalid(ranks, op, after, "the result was wrong after timing")
    from roofline.measure.run import clocks_of

    return MeasuredResult(
        time_s=median(found.times_s),
        source=f"measured on {ranks.count} x {ranks.device.info.name}",
        samples_s=found.times_s,
        blocks=blocks_of(found.times_s),
        interval_s=order_interval(found.times_s),
        conditions=_conditions(ranks, op, launch=found.launch, calls_per_sample=found.calls, data=data),
        clocks=clocks_of(readings),
        notes=found.notes,
        check=after,
    )


def _allocated(ranks: Ranks, op: Collective) -> tuple[dict[str, Any], str]:
    """The tensors, or none on any rank and why."""
    from roofline.measure.kernels.collective import buffers
    from roofline.measure.run import place

    tensors: dict[str, Any] = {}
    short = ""
    gc.collect()  # those of the last size, before this one asks for more
    try:
        with _memory(ranks.device):
            tensors = buffers(op, place(ranks.device))
    except OutOfDeviceMemory as err:
        short = str(err) or "out of memory"
    reasons = [f"rank {rank}: {said}" for rank, said in enumerate(ranks.all_of(short)) if said]
    if reasons:
        tensors = {}
        ranks.device.empty_cache()
    return tensors, next(iter(reasons), "")


def _memory(device: Device) -> Any:
    if device.info.kind == "cpu":
        from roofline.measure.cpu import memory_contained

        return memory_contained()
    import torch

    from roofline.measure.cuda import memory_contained as on_gpu

    return on_gpu(torch)


def _checked(ranks: Ranks, op: Collective, tensors: Mapping[str, Any], call: Callable[[], Any]) -> CheckResult:
    """One call on values whose result is known exactly; the worst rank counts."""
    from roofline.measure.collective_timing import settled
    from roofline.measure.kernels.collective import fill, wrong

    fill(op, tensors, ranks.rank)
    ranks.meet()
    with others():
        call()
        settled(ranks)
        share = max(ranks.all_of(wrong(op, tensors, ranks.rank)))
    return CheckResult(passed=share == 0, error=share, tolerance=0.0, against="the exact result: share of elements that differ")


def _invalid(ranks: Ranks, op: Collective, found: CheckResult, why: str) -> MeasuredResult:
    said = f"{why}: {found.error:.2g} of its elements on the worst rank"
    return MeasuredResult(time_s=0.0, source="no time", status="invalid", notes=(said,), check=found, conditions=_conditions(ranks, op))


def _conditions(ranks: Ranks, op: Collective, **more: Scalar) -> dict[str, Scalar]:
    name = ranks.device.info.name
    return {"kernel": op.name, "device": name, "ranks": ranks.count, "library": ranks.backend, "cache": "warm", "mode": "burst", **more}


# --------------------------------------------------------------------------- all sizes
def _fitted(steps: Sequence[Step], results: Mapping[str, MeasuredResult]) -> MeasuredResult | None:
    """All sizes together, with the lines that were fitted to them as ``all_reduce.1.alpha_s`` and the like."""
    said: dict[str, Scalar] = {}
    for name in dict.fromkeys(s.op.name for s in steps):
        for i, fit in enumerate(fits_of(name, steps, results), 1):
            values = {"from_bytes": fit.from_bytes, "to_bytes": fit.to_bytes, "alpha_s": fit.alpha_s}
            values |= {"bytes_per_s": fit.bytes_per_s, "worst": fit.worst, "half_bytes": fit.half_bytes}  # type: ignore[dict-item]
            said |= {f"{name}.{i}.{key}": value for key, value in values.items()}
    times = [results[s.id].time_s for s in steps]
    return MeasuredResult(time_s=sum(times), source="sum of the sizes", conditions=said) if said else None


def fits_of(name: str, steps: Sequence[Step], results: Mapping[str, MeasuredResult]) -> tuple[LinkFit, ...]:
    """Alpha and bandwidth of a collective in each regime of sizes, in bytes that each rank sends."""
    own = [(s, results[s.id].time_s) for s in steps if s.op.name == name and results[s.id].time_s > 0]
    points = sorted((sum(scalar(sent) for sent in s.op.link_bytes().values()), time) for s, time in own)
    points = [(sent, time) for sent, time in points if sent]
    return regimes([sent for sent, _ in points], [time for _, time in points])


def environment(ranks: Ranks) -> dict[str, Scalar]:
    """Where it ran."""
    info = ranks.device.info
    variables = {name: os.environ[name][:40] for name in SHOWN_VARIABLES if name in os.environ}
    return {
        "device": info.name,
        "device_kind": info.kind,
        "device_uuid": info.uuid,
        "ranks": ranks.count,
        "library": ranks.backend,
        **variables,
        **dict(info.facts),
    }
