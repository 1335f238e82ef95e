"""The time of one collective: all ranks begin together, and the slowest of them counts, sample by sample.

On a GPU a sample is a captured graph (or calls from Python) that waits behind a short sleep of the device, so that the host is
done with launching it, and behind a first tiny collective, which ends on all ranks at once; what follows is timed by events of
the device. On CPUs calls are timed by the host's clock after a barrier. Several calls make a sample where one is short.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from roofline.errors import MeasurementInvalidError, MissingCapabilityError
from roofline.measure.ranks import RankFailedError, Ranks, finished, others

WARMUPS = 5
SAMPLES = 20
FEWEST_SAMPLES = 3
MOST_CALLS = 20
SHORTEST_SAMPLE_S = 1e-3
LEAD_S, LEAD_PER_CALL_S = 200e-6, 60e-6
"""How long the device sleeps while the host launches: a graph is one launch, from Python each call is one."""
LEAD_HZ = 2e9

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Seconds a call, sample by sample, of the slowest rank in each."""

    times_s: tuple[float, ...]
    calls: int
    launch: str
    notes: tuple[str, ...] = ()


class Clock(Protocol):
    """Runs calls on this rank's device and says how long they took."""

    launch: str

    def run(self) -> float:
        """Seconds of one sample; every rank runs it at the same time."""

    def close(self) -> None:
        """Let go of what it holds."""


class HostClock:
    """Calls that return when they are done."""

    launch = "eager"

    def __init__(self, call: Call, calls: int) -> None:
        self._call, self._calls = call, calls

    def run(self) -> float:
        """By the host's clock."""
        began = time.perf_counter()
        for _ in range(self._calls):
            self._call()
        return time.perf_counter() - began

    def close(self) -> None:
        """Nothing is held."""


class GpuClock:
    """Calls on the current stream, timed by events."""

    launch = "eager"

    def __init__(self, ranks: Ranks, call: Call, calls: int) -> None:
        torch: Any = import_module("torch")
        self._torch, self._ranks, self._call, self._calls = torch, ranks, call, calls
        self._lead_s = LEAD_S + LEAD_PER_CALL_S * calls
        self._flag = torch.zeros(1, device="cuda")
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def run(self) -> float:
        """Between two events around the calls, behind a collective that all ranks leave at once."""
        import torch.distributed as dist

        self._torch.cuda._sleep(int(self._lead_s * LEAD_HZ))
        dist.all_reduce(self._flag, group=self._ranks.group)
        self._begin.record()
        self._go()
        self._end.record()
        finished(self._end.query, self._ranks.patience_s)
        return float(self._begin.elapsed_time(self._end)) * 1e-3

    def _go(self) -> None:
        for _ in range(self._calls):
            self._call()

    def close(self) -> None:
        """Nothing is held."""


class GraphClock(GpuClock):
    """The same calls as a captured graph, launched at once."""

    launch = "graph"

    def __init__(self, ranks: Ranks, call: Call, calls: int) -> None:
        super().__init__(ranks, call, calls)
        from roofline.measure.cuda import capture

        self._lead_s = LEAD_S
        self._graph = capture(self._torch, super()._go)

    def _go(self) -> None:
        self._graph.replay()

    def close(self) -> None:
        """The graph holds the communicator, which must outlive it."""
        self._graph.reset()


# --------------------------------------------------------------------------- sampling
def connected(ranks: Ranks, call: Call, name: str) -> None:
    """The first call, in which libraries connect and may find that they cannot do this.

    Raises:
        MissingCapabilityError: no rank can.
        RankFailedError: another rank is gone.
    """
    refused = None
    try:
        call()
        settled(ranks)
    except (RuntimeError, NotImplementedError) as err:
        refused = (str(err).strip() or type(err).__name__).splitlines()[0]
    said = ranks.all_of(refused)
    if all(said):
        raise MissingCapabilityError(f"{ranks.backend} cannot run {name}: {said[0]}")
    if any(said):
        raise RankFailedError("; ".join(f"rank {rank} in {name}: {text}" for rank, text in enumerate(said) if text))


def settled(ranks: Ranks) -> None:
    """Wait until this rank's device has nothing left to do, but not for ever."""
    if ranks.device.info.kind == "cpu":
        return
    event = import_module("torch").cuda.Event()
    event.record()
    finished(event.query, ranks.patience_s)


def sampled(ranks: Ranks, call: Call, launch: str, longest_s: float) -> Samples:
    """Warm up, decide with the others how many calls make a sample and how many samples there is time for, and take them."""
    each = _warm(ranks, call)
    calls = max(1, min(MOST_CALLS, math.ceil(SHORTEST_SAMPLE_S / each)))
    count = max(FEWEST_SAMPLES, min(SAMPLES, int(longest_s / (each * calls))))
    clock, notes = _prepared(ranks, call, calls, launch)
    try:
        with_others(clock.run, ranks)  # a graph's first launch uploads it
        times = [with_others(clock.run, ranks) / calls for _ in range(count)]
    finally:
        clock.close()
    return Samples(times_s=tuple(ranks.slowest(times)), calls=calls, launch=clock.launch, notes=notes)


def with_others(run: Callable[[], float], ranks: Ranks) -> float:
    """One run that all ranks begin together."""
    ranks.meet()
    with others():
        return run()


def _warm(ranks: Ranks, call: Call) -> float:
    """Seconds a call, of the slowest rank, from calls that bring everything up to speed."""
    clock = _clock(ranks, call, WARMUPS, "eager")
    return max(1e-7, ranks.slowest([with_others(clock.run, ranks)])[0] / WARMUPS)


def _clock(ranks: Ranks, call: Call, calls: int, launch: str) -> Clock:
    if ranks.device.info.kind == "cpu":
        return HostClock(call, calls)
    return GraphClock(ranks, call, calls) if launch == "graph" else GpuClock(ranks, call, calls)


def _prepared(ranks: Ranks, call: Call, calls: int, launch: str) -> tuple[Clock, tuple[str, ...]]:
    """A clock that all ranks have; from Python, and saying so, where one of them cannot capture."""
    clock: Clock | None = None
    refused = None
    try:
        clock = _clock(ranks, call, calls, launch)
    except MeasurementInvalidError as err:
        refused = str(err)
    reason = next((text for text in ranks.all_of(refused) if text), None)
    if clock is not None and reason is None:
        return clock, ()
    if clock is not None:
        clock.close()
    return _clock(ranks, call, calls, "eager"), (f"launched from Python: {reason}",)


def blocks_of(times: Sequence[float], size: int = 4) -> tuple[int, ...]:
    """Samples that follow each other share their conditions."""
    return tuple(i // size for i in range(len(times)))
