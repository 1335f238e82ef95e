"""Several kernels in one session, sample by sample in turn, so that whatever disturbs one disturbs the others alike.

On a device that others share, the same kernel may take a fifth longer from one tenth of a second to the next. Samples that
alternate within each round see the same disturbance, and their ratio within a round does not: `paired_effect` of
`roofline.report.statistics` compares them by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

from roofline.measure.base import Device, Procedure, Reading, Runner, Timing
from roofline.measure.interval import bootstrap_interval
from roofline.measure.timing import Prepare, sized
from roofline.measure.watch import ThreadWatch, Watch

Samples = list[tuple[int, float]]


def measure_together(
    device: Device, prepares: Sequence[Prepare], procedure: Procedure, *, watch: Callable[[Device], Watch] = ThreadWatch
) -> list[Timing]:
    """Time kernels in turns: in each round every kernel gets as many samples, one at a time, and the order turns around.

    Lasts ``procedure.blocks`` rounds, as many samples and seconds for each kernel as the procedure asks at least.

    Raises:
        OutOfDeviceMemory, MeasurementInvalidError: from preparing one of them.
    """
    runners: list[Runner] = []
    looking = watch(device)
    try:
        for prepare in prepares:
            runners.append(sized(device, prepare, procedure))
        looking.start()
        _warm(device, runners, procedure.warmup_s)
        found = _rounds(device, runners, procedure, looking)
    finally:
        looking.stop()
        for runner in runners:
            runner.close()
    return [_timing(runner, samples, tuple(looking.readings)) for runner, samples in zip(runners, found, strict=True)]


def _warm(device: Device, runners: Sequence[Runner], seconds: float) -> None:
    until = device.now() + seconds * len(runners)
    while device.now() < until:
        for runner in runners:
            runner.time()


def _rounds(device: Device, runners: Sequence[Runner], procedure: Procedure, looking: Watch) -> list[Samples]:
    found: list[Samples] = [[] for _ in runners]
    least = math.ceil(procedure.fewest_samples / procedure.blocks)
    began = device.now()
    for number in range(procedure.blocks):
        taken, spent = 0, 0.0
        while taken < least or spent < procedure.shortest_s / procedure.blocks:
            spent += _turn(runners, found, number, backwards=taken % 2 == 1)
            taken += 1
            looking.tick()
            if device.now() - began >= procedure.longest_s * len(runners):
                return found
    return found


def _turn(runners: Sequence[Runner], found: list[Samples], number: int, *, backwards: bool) -> float:
    """One sample of each; the seconds of the first kernel."""
    order = range(len(runners))
    for i in reversed(order) if backwards else order:
        found[i].append((number, runners[i].time()))
    return found[0][-1][1]


def _timing(runner: Runner, samples: Samples, readings: tuple[Reading, ...]) -> Timing:
    per_call = [s / runner.calls for _, s in samples]
    blocks = [number for number, _ in samples]
    low, high = bootstrap_interval(per_call, blocks)
    return Timing(
        samples_s=tuple(per_call),
        blocks=tuple(blocks),
        median_s=median(per_call),
        low_s=low,
        high_s=high,
        calls_per_sample=runner.calls,
        input_sets=runner.input_sets,
        readings=readings,
        notes=("measured in turns with others of its session",),
    )
