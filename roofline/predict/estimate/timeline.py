"""Launched kernels to a whole: the host issues them one after the other, the device runs them one after the other.

Kernel i can start when the host has issued it, which is when it has paid for kernels 1 to i, and when the lane is free. So

    end = max over i of (host_1 + ... + host_i + device_i + ... + device_n)

which composes: the end after two sequences needs only the host time, the device time and the longest such chain of each, and
n repetitions have a closed form. Nothing is simulated kernel by kernel, and nothing is lost. The clock starts when the first
kernel is issued, as an event recorded before it does, and a run is over when both sides are. Under a graph the host costs
nothing, and the end is the sum of the device times.

Not modelled: the queue of launches never fills (the driver takes about a thousand), copies to the host never wait, and the one
launch of a graph is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from roofline.numeric import Number, is_array, maximum, total, where
from roofline.predict.compose import Task, schedule
from roofline.records import dataclass

CLOSE = 1e-12
"""Relative difference below which two sums of the same times are the same."""


@dataclass(frozen=True, slots=True)
class Launches:
    """A sequence of kernels by what decides when it ends, in seconds.

    ``host_s`` is the host's time to issue them, ``device_s`` the device's to run them, ``chain_s`` the time from the host's
    first instruction to the end of the last kernel on a device that was idle.
    """

    host_s: Number
    device_s: Number
    chain_s: Number

    def then(self, later: Launches) -> Launches:
        """Both, one after the other."""
        return Launches(
            self.host_s + later.host_s,
            self.device_s + later.device_s,
            maximum(self.chain_s + later.device_s, self.host_s + later.chain_s),
        )

    def times(self, count: Number) -> Launches:
        """``count`` repetitions: the slower side sets the pace of all but one of them."""
        if not is_array(count):
            if count < 1:
                return NOTHING
            if count == 1:
                return self
        chain = self.chain_s + self.pace_s * (count - 1)
        return Launches(self.host_s * count, self.device_s * count, where(count < 1, 0.0, chain) if is_array(count) else chain)

    @property
    def pace_s(self) -> Number:
        """Seconds of one repetition among many: those of the slower side."""
        return maximum(self.host_s, self.device_s)

    def whole_s(self, first_s: Number) -> Number:
        """Seconds until both sides are done, from when the first kernel, which takes the host ``first_s``, is issued."""
        return maximum(self.chain_s - first_s, self.host_s)


NOTHING = Launches(0.0, 0.0, 0.0)


def launch(host_s: Number, device_s: Number) -> Launches:
    """One kernel."""
    return Launches(host_s, device_s, host_s + device_s)


@dataclass(frozen=True, slots=True)
class Calls:
    """All calls of one kernel: seconds of the host to issue them, and of the device to run them."""

    host_s: Number
    device_s: Number
    calls: int

    @property
    def first_s(self) -> Number:
        """Seconds of the host for the first call."""
        return self.host_s / self.calls

    def launches(self) -> Launches:
        """One after the other."""
        return launch(self.first_s, self.device_s / self.calls).times(self.calls)

    def scaled(self, host: Number, device: Number) -> Calls:
        """With both sides so many times as long."""
        return Calls(self.host_s * host, self.device_s * device, self.calls)


def in_order(sequences: Iterable[Launches]) -> Launches:
    """All, one after the other."""
    found = NOTHING
    for one in sequences:
        found = found.then(one)
    return found


@dataclass(frozen=True, slots=True)
class LaunchedStep:
    """A step of a whole: the launches of one execution and the host's time for its first kernel; ``after`` as in `Task`."""

    id: str
    once: Launches
    first_s: Number = 0.0
    repeat: int = 1
    lane: str = "compute"
    after: tuple[str, ...] | None = None


def launched(
    step: str, calls: Sequence[Calls], repeat: int = 1, lane: str = "compute", after: tuple[str, ...] | None = None
) -> LaunchedStep:
    """A step of those kernels."""
    first = next((c.first_s for c in calls), 0.0)
    return LaunchedStep(step, in_order(c.launches() for c in calls), first, repeat, lane, after)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A whole in seconds: until both sides are done, what the device alone would take, and what the host needs.

    ``critical`` are the steps whose device time decides ``device_s``.
    """

    time_s: float
    device_s: float
    host_s: float
    critical: tuple[str, ...]

    @property
    def idle_s(self) -> float:
        """How long the device waits for the host."""
        return self.time_s - self.device_s

    @property
    def launch_bound(self) -> bool:
        """Whether the host decides the time: it needs longer to issue the kernels than the device to run them."""
        return self.host_s > self.device_s


def timeline(steps: Sequence[LaunchedStep]) -> Timeline:
    """The whole of all steps and their repetitions.

    Without ``after``, consecutive steps that repeat are the layers of a model, of one sort where their ids have the same words in
    front of a slash: they take turns instead of running all repetitions of one before the next, which matters to a host that
    runs ahead in one and falls behind in another. With
    ``after``, all repetitions of a step run before it counts as done, as in `roofline.predict.compose.schedule`.
    """
    runs = [(s, s.once.times(s.repeat)) for s in steps]
    alone = schedule([Task(s.id, float(run.device_s), s.lane, s.after) for s, run in runs])
    host = float(total(run.host_s for _, run in runs))
    first = float(next((s.first_s for s, run in runs if run.chain_s > 0), 0.0))
    end = float(end_of_overlapped(runs) if alone.overlapped else layered(steps).chain_s)
    time = max(end - first, host)
    # Sums in another order differ in their last bits: that is no time in which the device idles.
    return Timeline(time if time > alone.time_s * (1 + CLOSE) else alone.time_s, alone.time_s, host, alone.critical)


def layered(steps: Sequence[LaunchedStep]) -> Launches:
    """Runs of repeating steps in layers, one sort after the other, the others as they stand."""
    found, group = NOTHING, list[LaunchedStep]()
    for step in steps:
        if group and (step.repeat == 1 or _sort(step) != _sort(group[0])):
            found, group = found.then(_layers(group)), []
        if step.repeat == 1:
            found = found.then(step.once)
        else:
            group.append(step)
    return found.then(_layers(group))


def _sort(step: LaunchedStep) -> str:
    """What the layers of a step are called where a model has several sorts."""
    return step.id.rpartition("/")[0]


def _layers(group: Sequence[LaunchedStep]) -> Launches:
    """As many layers as most steps have repetitions; each takes its whole share of every step, the rest follows at the end."""
    if not group:
        return NOTHING
    counts = [s.repeat for s in group]
    layers = max(sorted(set(counts)), key=counts.count)
    layer = in_order(s.once.times(s.repeat // layers) for s in group)
    rest = in_order(s.once.times(s.repeat % layers) for s in group)
    return layer.times(layers).then(rest)


def end_of_overlapped(runs: Sequence[tuple[LaunchedStep, Launches]]) -> Number:
    """When the last step ends: each starts when what it waits for and its lane are free, and the one host has come to it."""
    ends: dict[str, Number] = {}
    free: dict[str, Number] = {}
    host: Number = 0.0
    previous: Number = 0.0
    for step, run in runs:
        waits = [ends.get(i, 0.0) for i in step.after] if step.after is not None else [previous]
        ready = reduce(maximum, [free.get(step.lane, 0.0), *waits])
        previous = maximum(ready + run.device_s, host + run.chain_s)
        host = host + run.host_s
        ends[step.id] = free[step.lane] = previous
    return reduce(maximum, ends.values()) if ends else 0.0
