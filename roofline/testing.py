"""Stand-ins for hardware, for tests of your own kernels' harness as for ours: a clock, a device and NVML that follow a script.

    clock = FakeClock()
    device = FakeDevice(call_s=10e-6, noise=0.01, clock=clock)
    timing = measure(device, lambda repeats: device.prepare([kernel], repeats, "graph"), Procedure(), watch=InlineWatch)

Nothing here waits: time passes only when a fake says so, and equal seeds give equal runs. `InlineWatch` reads between the
samples by the device's clock; the usual `ThreadWatch` reads by the world's clock and would miss what is scripted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import MeasurementInvalidError
from roofline.measure.base import DeviceInfo, OutOfDeviceMemory, Reading
from roofline.measure.watch import InlineWatch, ThreadWatch

__all__ = ["Episode", "FakeClock", "FakeDevice", "FakeGpu", "FakeNvml", "FakeNvmlError", "FakeRunner", "InlineWatch", "ThreadWatch"]

FAKE_INFO = DeviceInfo(kind="fake", name="Fake device", uuid="fake-0", memory_bytes=80e9, l2_bytes=50e6, processors=100)


class FakeClock:
    """A clock that moves only when told to."""

    def __init__(self, start_s: float = 0.0) -> None:
        self.now_s = start_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """A stretch of the device's time in which it is not itself.

    ``slower`` multiplies call times, ``bits`` are set in the event reasons, ``sm_mhz`` replaces the clock.
    """

    start_s: float
    end_s: float = float("inf")
    bits: int = 0
    slower: float = 1.0
    sm_mhz: float | None = None

    def covers(self, time_s: float) -> bool:
        """Whether it is under way."""
        return self.start_s <= time_s < self.end_s


@dataclass(kw_only=True)
class FakeDevice:
    """A device whose calls take what the script says.

    ``call_s``: seconds of a call, one number or a function of the input set's number. ``noise``: relative standard
    deviation of a sample. ``drift``: relative slowing a second. ``quantum_s``: step of its timer. ``overhead_s``: host time of a sample
    that the timer does not see. ``episodes``: throttling.
    ``ecc_errors``: times at which an uncorrected error comes up. ``interrupt_at``: the sample (counted from 1 over all
    runners) during which Ctrl-C comes, or several. ``bytes_per_set`` with ``memory_bytes``: more sets than fit are out of
    memory. ``capture_fails``: the reason why a graph cannot be captured. ``touches``: how many of the sets a runner really
    goes through (all unless said). Each call is executed once when it is prepared, so that outputs are there; ``executes``: and
    once in each run, for those sets.
    """

    call_s: float | Callable[[int], float] = 10e-6
    noise: float = 0.0
    drift: float = 0.0
    quantum_s: float = 0.0
    overhead_s: float = 0.0
    seed: int = 0
    sm_mhz: float = 1980.0
    power_w: float = 300.0
    episodes: Sequence[Episode] = ()
    ecc_errors: Sequence[float] = ()
    interrupt_at: int | Sequence[int] = ()
    memory_bytes: float | None = None
    bytes_per_set: float = 0.0
    capture_fails: str | None = None
    touches: int | None = None
    executes: bool = False
    missing: Mapping[str, str] = field(default_factory=dict)
    clock: FakeClock = field(default_factory=FakeClock)
    info: DeviceInfo = FAKE_INFO
    runners: list[FakeRunner] = field(default_factory=list)
    samples: int = 0
    paused_s: float = 0.0
    caches_emptied: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def prepare(self, calls: Sequence[Callable[[], Any]], repeats: int, launch: str) -> FakeRunner:
        """A runner of scripted time; the calls are executed once.

        Raises:
            MeasurementInvalidError: ``capture_fails`` says so.
            OutOfDeviceMemory: the sets do not fit.
        """
        if launch == "graph" and self.capture_fails:
            raise MeasurementInvalidError(f"the calls cannot be captured in a CUDA graph: {self.capture_fails}")
        if self.memory_bytes is not None and len(calls) * self.bytes_per_set > self.memory_bytes:
            raise OutOfDeviceMemory(f"{len(calls)} input sets of {self.bytes_per_set:g} B in {self.memory_bytes:g} B")
        runner = FakeRunner(self, len(calls), repeats, launch)
        runner.execute(calls)
        self.runners.append(runner)
        return runner

    def run(self, calls: int, sets: int) -> float:
        """Let so many calls pass; what the timer shows."""
        self.samples += 1
        interrupts = [self.interrupt_at] if isinstance(self.interrupt_at, int) else self.interrupt_at
        seconds = self._seconds(calls, sets)
        if self.samples in interrupts:
            self.clock.advance(seconds / 2)
            raise KeyboardInterrupt
        self.clock.advance(seconds + self.overhead_s)
        return round(seconds / self.quantum_s) * self.quantum_s if self.quantum_s else seconds

    def _seconds(self, calls: int, sets: int) -> float:
        each = self.call_s
        base = sum(each(i % sets) for i in range(calls)) if callable(each) else each * calls
        now = self.clock.now_s
        for episode in self.episodes:
            base *= episode.slower if episode.covers(now) else 1.0
        return base * (1 + self.drift * now) * max(0.01, 1 + self.noise * self._random.gauss(0, 1))

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def now(self) -> float:
        """The script's clock."""
        return self.clock.now_s

    def pause(self, seconds: float) -> None:
        """Let the script's clock pass."""
        self.paused_s += seconds
        self.clock.advance(seconds)

    def reading(self) -> Reading:
        """What the script says of now."""
        now, bits, clock = self.clock.now_s, 0, self.sm_mhz
        for episode in self.episodes:
            if episode.covers(now):
                bits |= episode.bits
                clock = episode.sm_mhz or clock
        values = {
            "sm_mhz": clock,
            "memory_mhz": 2619.0,
            "power_w": self.power_w,
            "temperature_c": 50.0,
            "event_reasons": bits,
            "ecc_uncorrected": sum(1 for t in self.ecc_errors if t <= now),
        }
        told: dict[str, Any] = {name: None if name in self.missing else value for name, value in values.items()}
        return Reading(time_s=now, missing=self.missing, **told)

    def free_bytes(self) -> float | None:
        """All of ``memory_bytes``."""
        return self.memory_bytes

    def empty_cache(self) -> None:
        """Counted in ``caches_emptied``."""
        self.caches_emptied += 1


class FakeRunner:
    """A runner of a `FakeDevice`; says whether it was closed."""

    def __init__(self, device: FakeDevice, sets: int, repeats: int, launch: str) -> None:
        self._device = device
        self.calls, self.launch = sets * repeats, launch
        self.input_sets = sets if device.touches is None else min(sets, device.touches)
        self.executes = device.executes
        self.results: list[Any] = []
        self.closed = False
        self._each: list[Callable[[], Any]] = []

    def time(self) -> float:
        """Scripted seconds of all calls."""
        if self.closed:
            raise RuntimeError("a closed runner was used")
        if self.executes:
            self.results[: self.input_sets] = [call() for call in self._each[: self.input_sets]]
        return self._device.run(self.calls, self.input_sets)

    def execute(self, calls: Sequence[Callable[[], Any]]) -> None:
        """Run each of the calls once; what they return is in ``results``."""
        self._each = list(calls)
        self.results = [call() for call in calls]

    def close(self) -> None:
        """Remembered in ``closed``."""
        self.closed = True


# --------------------------------------------------------------------------- NVML
class FakeNvmlError(Exception):
    """What a query raises: ``value`` is NVML's error code, as in pynvml."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


@dataclass(kw_only=True)
class FakeGpu:
    """A GPU of `FakeNvml`. A list as a value is replayed, one entry a query; its last entry stays."""

    uuid: str = "GPU-00000000-0000-0000-0000-000000000000"
    pci: str = "00000000:01:00.0"
    name: str = "NVIDIA H200"
    memory_bytes: int = 150_000_000_000
    sm_mhz: Any = 1980
    max_sm_mhz: int = 1980
    memory_mhz: Any = 3201
    max_memory_mhz: int = 3201
    power_mw: Any = 300_000
    power_limit_mw: int = 700_000
    default_power_limit_mw: int = 700_000
    temperature_c: Any = 50
    event_reasons: Any = 0
    ecc: tuple[int, int] = (1, 1)
    ecc_uncorrected: Any = 0
    mig: tuple[int, int] = (0, 0)
    is_slice: int = 0
    pids: Sequence[int] = ()


@dataclass(frozen=True)
class _Memory:
    total: int


@dataclass(frozen=True)
class _Process:
    pid: int


class FakeNvml:
    """Stands for the module ``pynvml``: pass it where one is taken, or put it into ``sys.modules["pynvml"]``.

    ``fail`` gives a function's error code, ``lacks`` names functions that the module does not have at all.
    """

    NVMLError = FakeNvmlError

    def __init__(
        self,
        gpus: Iterable[FakeGpu] = (),
        *,
        driver: str = "580.1",
        cuda: int = 13000,
        fail: Mapping[str, int] | None = None,
        lacks: Iterable[str] = (),
    ) -> None:
        self.gpus = list(gpus)
        self.fail = dict(fail or {})
        self.lacks = set(lacks)
        self.called: list[str] = []
        self._places: dict[int, int] = {}
        self._functions: dict[str, Callable[..., Any]] = {
            "nvmlInit": lambda: None,
            "nvmlSystemGetDriverVersion": lambda: driver,
            "nvmlSystemGetCudaDriverVersion": lambda: cuda,
            "nvmlDeviceGetCount": lambda: len(self.gpus),
            "nvmlDeviceGetHandleByIndex": lambda i: self.gpus[i],
            "nvmlDeviceGetHandleByUUID": lambda key: self._by("uuid", key),
            "nvmlDeviceGetHandleByPciBusId": lambda key: self._by("pci", key),
            "nvmlDeviceGetName": lambda g: g.name,
            "nvmlDeviceGetUUID": lambda g: g.uuid,
            "nvmlDeviceGetMemoryInfo": lambda g: _Memory(g.memory_bytes),
            "nvmlDeviceGetClockInfo": lambda g, kind: self._next(g.sm_mhz if kind == 1 else g.memory_mhz),
            "nvmlDeviceGetMaxClockInfo": lambda g, kind: g.max_sm_mhz if kind == 1 else g.max_memory_mhz,
            "nvmlDeviceGetPowerUsage": lambda g: self._next(g.power_mw),
            "nvmlDeviceGetEnforcedPowerLimit": lambda g: g.power_limit_mw,
            "nvmlDeviceGetPowerManagementLimit": lambda g: g.power_limit_mw,
            "nvmlDeviceGetPowerManagementDefaultLimit": lambda g: g.default_power_limit_mw,
            "nvmlDeviceGetTemperature": lambda g, sensor: self._next(g.temperature_c),
            "nvmlDeviceGetCurrentClocksEventReasons": lambda g: self._next(g.event_reasons),
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda g: self._next(g.event_reasons),
            "nvmlDeviceGetEccMode": lambda g: list(g.ecc),
            "nvmlDeviceGetTotalEccErrors": lambda g, kind, counter: self._next(g.ecc_uncorrected),
            "nvmlDeviceGetMigMode": lambda g: list(g.mig),
            "nvmlDeviceIsMigDeviceHandle": lambda g: g.is_slice,
            "nvmlDeviceGetComputeRunningProcesses": lambda g: [_Process(pid) for pid in g.pids],
        }

    @property
    def queries(self) -> list[str]:
        """The names of all functions there are."""
        return sorted(self._functions)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        functions: dict[str, Callable[..., Any]] = self.__dict__.get("_functions", {})
        if name not in functions or name in self.lacks:
            raise AttributeError(name)

        def query(*args: Any) -> Any:
            self.called.append(name)
            if name in self.fail:
                raise FakeNvmlError(self.fail[name])
            return functions[name](*args)

        return query

    def _by(self, attribute: str, key: bytes | str) -> FakeGpu:
        text = key.decode() if isinstance(key, bytes) else key
        for gpu in self.gpus:
            if getattr(gpu, attribute) == text:
                return gpu
        raise FakeNvmlError(6)

    def _next(self, value: Any) -> Any:
        """The value, or the next of a list of them."""
        if not isinstance(value, list):
            return value
        place = self._places.get(id(value), 0)
        self._places[id(value)] = place + 1
        return value[min(place, len(value) - 1)]
