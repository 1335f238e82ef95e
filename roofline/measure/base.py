"""What the parts of measuring agree on: a device, what it tells about itself, a prepared run, a finished one.

A `Device` times prepared work and reports its clocks; a `Runner` is one kernel made ready on it, with as many sets of
inputs as the cache choice needs. Timing decides how often to run and when to stop, and knows neither torch nor NVML, so
that it is tested with the scripted device of `roofline.testing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

CACHE_CHOICES = ("cold", "warm")
"""cold: calls rotate over input sets that together exceed L2 several times; warm: one set, again and again."""
LAUNCH_CHOICES = ("graph", "eager")
"""graph: calls captured once and replayed, no host cost; eager: calls from Python, host cost where it binds."""
MODE_CHOICES = ("burst", "sustained")
"""burst: short samples with pauses, clocks high; sustained: back to back for seconds, as a long run would see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the device says of itself at one moment; a value that it does not give is None with the reason in ``missing``."""

    time_s: float
    sm_mhz: float | None = None
    memory_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    event_reasons: int | None = None
    ecc_uncorrected: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """What a device is. ``uuid`` identifies it without naming the host; ``facts`` holds driver, versions, limits, MIG, ECC."""

    kind: str
    name: str
    uuid: str | None
    memory_bytes: float | None
    l2_bytes: float | None
    processors: int | None
    facts: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


class Runner(Protocol):
    """One kernel prepared on a device; ``calls`` is how many calls one `time` executes."""

    calls: int
    input_sets: int
    launch: str

    def time(self) -> float:
        """Run all calls once and return the seconds they took on the device, all of them together."""

    def close(self) -> None:
        """Free what it holds."""


class Device(Protocol):
    """A device that prepares and times kernels."""

    info: DeviceInfo

    def prepare(self, calls: Sequence[Callable[[], Any]], repeats: int, launch: str) -> Runner:
        """A runner that executes each of the calls in turn, ``repeats`` times over, captured or from Python.

        Raises:
            MeasurementInvalidError: the calls cannot be captured, with the reason.
            OutOfDeviceMemory: the device has no memory left for it.
        """

    def synchronize(self) -> None:
        """Wait until the device has nothing left to do."""

    def now(self) -> float:
        """Host clock in seconds."""

    def pause(self, seconds: float) -> None:
        """Let the device rest."""

    def reading(self) -> Reading:
        """Clocks, power, temperature and event reasons now; never raises."""

    def free_bytes(self) -> float | None:
        """Memory that can still be allocated, None where the device does not tell."""

    def empty_cache(self) -> None:
        """Give cached memory back."""


class OutOfDeviceMemory(Exception):
    """The device ran out of memory for one case; caught there, never seen by a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """How a kernel is timed. Limits in seconds; ``width`` is the relative width of the median's interval to reach.

    Cold inputs rotate over at most ``most_sets`` sets that hold ``caches`` times the last-level cache together.
    """

    cache: str = "cold"
    launch: str = "graph"
    mode: str = "burst"
    warmup_s: float = 0.2
    shortest_sample_s: float = 1e-3
    fewest_samples: int = 30
    shortest_s: float = 0.5
    width: float = 0.005
    longest_s: float = 10.0
    blocks: int = 10
    caches: float = 3.0
    most_sets: int = 1024
    retries: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A finished measurement of one kernel: seconds a call, sample by sample, with the block each belongs to.

    ``status``: ok, throttled (kept, not believed blindly), interrupted (complete samples kept).
    """

    samples_s: tuple[float, ...]
    blocks: tuple[int, ...]
    median_s: float
    low_s: float
    high_s: float
    calls_per_sample: int
    input_sets: int
    readings: tuple[Reading, ...]
    status: str = "ok"
    notes: tuple[str, ...] = ()
