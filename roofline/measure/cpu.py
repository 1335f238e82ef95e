"""The CPU as a device: it times by the host's clock, captures nothing, and tells little of itself."""

from __future__ import annotations

import gc
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roofline.errors import MeasurementInvalidError
from roofline.measure.base import DeviceInfo, OutOfDeviceMemory, Reading

_SYSTEM = Path("/sys/devices/system/cpu")
_CLOCK = _SYSTEM / "cpu0/cpufreq/scaling_cur_freq"


class CpuDevice:
    """The processors that this process may use, as one device."""

    def __init__(self) -> None:
        self.info = describe()

    def prepare(self, calls: Sequence[Callable[[], Any]], repeats: int, launch: str) -> CpuRunner:
        """A runner of the calls from Python; each is executed once, so that memory and code are there.

        Raises:
            MeasurementInvalidError: a captured graph was asked for.
            OutOfDeviceMemory: as it says.
        """
        if launch == "graph":
            raise MeasurementInvalidError("the CPU cannot capture calls as a graph; measure with --launch eager")
        runner = CpuRunner(calls, repeats)
        runner.once()
        return runner

    def synchronize(self) -> None:
        """Nothing to wait for: calls return when they are done."""

    def now(self) -> float:
        """Host clock in seconds."""
        return time.perf_counter()

    def pause(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def reading(self) -> Reading:
        """The clock of the first processor where the system tells it."""
        unknown = dict.fromkeys(("memory_mhz", "power_w", "temperature_c", "event_reasons", "ecc_uncorrected"), "not read on a CPU")
        khz = _number(_CLOCK)
        if khz is None:
            unknown["sm_mhz"] = "the system does not tell the processor's clock"
        return Reading(time_s=self.now(), sm_mhz=khz / 1e3 if khz else None, missing=unknown)

    def free_bytes(self) -> float | None:
        """Memory that can be had without swapping, within the limit of the container."""
        free = [available for available in (_available(), _container_free()) if available is not None]
        return min(free) if free else None

    def empty_cache(self) -> None:
        """Let go of what is no longer referred to."""
        gc.collect()


class CpuRunner:
    """Calls one after the other, timed together by the host's clock.

    The results of the latest round are kept in ``results``, so that outputs rotate over memory as inputs do.
    """

    launch = "eager"

    def __init__(self, calls: Sequence[Callable[[], Any]], repeats: int) -> None:
        self._each, self._repeats = list(calls), repeats
        self.calls, self.input_sets = len(calls) * repeats, len(calls)
        self.results: list[Any] = [None] * len(calls)

    def time(self) -> float:
        """Seconds of all calls, with garbage collection put off."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            with memory_contained():
                began = time.perf_counter()
                for _ in range(self._repeats):
                    self._round()
                return time.perf_counter() - began
        finally:
            if collecting:
                gc.enable()

    def once(self) -> None:
        """All calls once, untimed."""
        with memory_contained():
            self._round()

    def _round(self) -> None:
        results = self.results
        for i, call in enumerate(self._each):
            results[i] = None  # its memory is free for the next result of the same set
            results[i] = call()

    def close(self) -> None:
        """Let go of inputs and results."""
        self.results, self._each = [], []


@contextmanager
def memory_contained() -> Iterator[None]:
    """Turn what torch and Python raise when memory is short into `OutOfDeviceMemory`."""
    try:
        yield
    except MemoryError as err:
        raise OutOfDeviceMemory(str(err) or "out of memory") from err
    except RuntimeError as err:
        if "can't allocate memory" in str(err) or "not enough memory" in str(err):
            raise OutOfDeviceMemory(str(err).splitlines()[0]) from err
        raise


def describe() -> DeviceInfo:
    """What this CPU is, as far as the system tells."""
    torch = sys.modules.get("torch")
    cache = cache_bytes()
    return DeviceInfo(
        kind="cpu",
        name=_name(),
        uuid=None,
        memory_bytes=_all_memory(),
        l2_bytes=cache,
        processors=_usable(),
        facts={
            "threads": torch.get_num_threads() if torch else None,
            "torch": str(torch.__version__) if torch else None,
            "machine": platform.machine(),
            "last_level_cache_bytes": cache,
            "timer_resolution_s": time.get_clock_info("perf_counter").resolution,
        },
    )


def cache_bytes() -> float | None:
    """The largest cache a processor has, which a cold input must have left; it may be shared with others."""
    sizes = [_size(p) for p in _SYSTEM.glob("cpu0/cache/index*/size")]
    names = getattr(os, "sysconf_names", {})
    sizes += [float(os.sysconf(n)) for n in ("SC_LEVEL3_CACHE_SIZE", "SC_LEVEL2_CACHE_SIZE") if n in names]
    return max((s for s in sizes if s > 0), default=None)


def _size(path: Path) -> float:
    try:
        text = path.read_text().strip()
        return float(text[:-1]) * {"K": 2**10, "M": 2**20, "G": 2**30}[text[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        return 0.0


def _name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine() or "CPU"


def _usable() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _all_memory() -> float | None:
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _available() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next((float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    except (OSError, ValueError, IndexError):
        return None


def _container_free() -> float | None:
    limit, used = (_number(Path("/sys/fs/cgroup") / name) for name in ("memory.max", "memory.current"))
    return None if limit is None or used is None else max(0.0, limit - used)


def _number(path: Path) -> float | None:
    try:
        value = float(path.read_text())
    except (OSError, ValueError):
        return None
    return value if math.isfinite(value) else None
