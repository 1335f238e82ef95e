"""A CUDA device through torch: calls captured in a graph or launched from Python, timed by device events."""

from __future__ import annotations

import hashlib
import importlib.util
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from roofline.errors import MeasurementInvalidError
from roofline.measure.base import DeviceInfo, OutOfDeviceMemory, Reading
from roofline.measure.device import need_torch
from roofline.measure.nvml import Answer, open_nvml, read

EVENT_RESOLUTION_S = 0.5e-6
"""Of CUDA events, as their documentation gives it."""
FEWEST_WARM_CALLS = 3
"""Before a capture: libraries choose algorithms and make workspaces in their first calls, which cannot be captured."""
SHORTEST_LEAD_S, LONGEST_LEAD_S = 50e-6, 2e-3
LEAD_HZ = 2e9
"""Cycles a second taken for `torch.cuda._sleep`; slower clocks only make the lead longer."""
_SHORT_OF_MEMORY = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")

Call = Callable[[], Any]


class CudaDevice:
    """One GPU, and what NVML says of it."""

    def __init__(self, index: int) -> None:
        self._torch = need_torch()
        self._torch.cuda.set_device(index)
        self._torch.cuda.init()
        self.index = index
        self._seen = nvml_of(self._torch, index)
        self.info = describe(self._torch, index, self._seen)

    def prepare(self, calls: Sequence[Call], repeats: int, launch: str) -> CudaRunner:
        """A runner of the calls, captured or from Python; each has been executed before.

        Raises:
            MeasurementInvalidError: the calls cannot be captured, with the reason.
            OutOfDeviceMemory: as it says.
        """
        with memory_contained(self._torch):
            return GraphRunner(self._torch, calls, repeats) if launch == "graph" else CudaRunner(self._torch, calls, repeats)

    def synchronize(self) -> None:
        """Wait until the device has nothing left to do."""
        self._torch.cuda.synchronize(self.index)

    def now(self) -> float:
        """Host clock in seconds."""
        return time.perf_counter()

    def pause(self, seconds: float) -> None:
        """Let the device rest."""
        self.synchronize()
        time.sleep(seconds)

    def reading(self) -> Reading:
        """Clocks, power, temperature and event reasons now; never raises."""
        return read(self._seen, self.now())

    def free_bytes(self) -> float | None:
        """Memory that can still be allocated: free on the device, or cached by torch and unused."""
        free, _ = self._torch.cuda.mem_get_info(self.index)
        unused = self._torch.cuda.memory_reserved(self.index) - self._torch.cuda.memory_allocated(self.index)
        return float(free + unused)

    def empty_cache(self) -> None:
        """Give cached memory back."""
        self._torch.cuda.empty_cache()


class CudaRunner:
    """Calls launched from Python between two events, so that the host's cost counts where it binds.

    ``results`` keeps what each set's latest call returned: outputs then rotate over memory as inputs do.
    ``unaccounted_s`` is how much longer the host waited for the whole device than the events cover, at the least: work on
    another stream escapes the events.
    """

    launch = "eager"

    def __init__(self, torch: Any, calls: Sequence[Call], repeats: int) -> None:
        self._torch, self._each, self._repeats = torch, list(calls), repeats
        self.calls, self.input_sets = len(calls) * repeats, len(calls)
        self.results: list[Any] = [None] * len(calls)
        self.unaccounted_s = math.inf
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self._ready()

    def _ready(self) -> None:
        for _ in range(math.ceil(FEWEST_WARM_CALLS / len(self._each))):
            self._round()
        self._torch.cuda.synchronize()

    def _round(self) -> None:
        results = self.results
        for i, call in enumerate(self._each):
            results[i] = None  # its memory is free for the next result of the same set
            results[i] = call()

    def time(self) -> float:
        """Seconds on the device from the first call to the end of the last."""
        with memory_contained(self._torch):
            began = time.perf_counter()
            lead_s = self._lead()
            start, end = self._events
            start.record()
            self._go()
            end.record()
            self._launched(time.perf_counter() - began)
            self._torch.cuda.synchronize()
            waited = time.perf_counter() - began
        seconds = float(start.elapsed_time(end)) / 1e3
        self.unaccounted_s = min(self.unaccounted_s, max(0.0, waited - lead_s - seconds))
        return seconds

    def _lead(self) -> float:
        """Eager calls start on an idle device, as a user's would."""
        return 0.0

    def _go(self) -> None:
        for _ in range(self._repeats):
            self._round()

    def _launched(self, host_s: float) -> None:
        """Told how long the host took to launch everything."""

    def close(self) -> None:
        """Free results, inputs and the graph."""
        self.results, self._each = [], []


class GraphRunner(CudaRunner):
    """Calls captured once and replayed without the host.

    The device is kept busy while the host launches the graph: the first event would otherwise be stamped before the graph
    has reached the device, and the launch would count as work.
    """

    launch = "graph"

    def _ready(self) -> None:
        self._lead_s = SHORTEST_LEAD_S
        super()._ready()
        self.results = [None] * len(self._each)  # captured calls make their own
        self._graph = capture(self._torch, self._record)

    def _record(self) -> None:
        for _ in range(self._repeats):
            self._round()
        self.results = [_held(result) for result in self.results]

    def _lead(self) -> float:
        if hasattr(self._torch.cuda, "_sleep"):
            self._torch.cuda._sleep(int(self._lead_s * LEAD_HZ))
            return self._lead_s
        self._graph.replay()
        return 0.0

    def _go(self) -> None:
        self._graph.replay()

    def _launched(self, host_s: float) -> None:
        self._lead_s = min(LONGEST_LEAD_S, max(SHORTEST_LEAD_S, 2 * host_s))

    def close(self) -> None:
        """Free the graph with its memory, results and inputs."""
        super().close()
        self._graph.reset()


def capture(torch: Any, record: Callable[[], None]) -> Any:
    """What the function launches, as a graph.

    Raises:
        MeasurementInvalidError: it cannot be captured, or launches nothing.
    """
    graph, stream, before = torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(before)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            # Other threads may read clocks or pin memory meanwhile; only this one must keep to what can be captured.
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                record()
    except Exception as err:
        torch.cuda.set_stream(before)  # a failed capture leaves its own stream current
        _end_capture(torch)
        if out_of_memory(err):
            raise
        raise MeasurementInvalidError(
            f"the calls cannot be captured in a CUDA graph: {_first_cause(err)}; measure with --launch eager"
        ) from err
    finally:
        torch.cuda.set_stream(before)
    if any("graph is empty" in str(w.message).casefold() for w in said):
        raise MeasurementInvalidError("nothing was captured: the calls launch no kernel on torch's current stream")
    torch.cuda.synchronize()
    return graph


def _end_capture(torch: Any) -> None:
    """Capture nothing, successfully: after a failed capture torch's random numbers would still believe in it."""
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=torch.cuda.Stream(), capture_error_mode="thread_local"):
            pass


def _held(result: Any) -> Any:
    """A result without its autograd history, which would keep what is saved for backward."""
    if isinstance(result, (tuple, list)):
        return tuple(_held(each) for each in result)
    return result.detach() if getattr(result, "requires_grad", False) else result


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it came from, latest first: ending a broken capture raises an error of its own."""
    found = [error]
    while (before := found[-1].__cause__ or found[-1].__context__) is not None and before not in found:
        found.append(before)
    return found


def _first_cause(error: BaseException) -> str:
    first = _chain(error)[-1]
    text = str(first).strip()
    return text.splitlines()[0] if text else type(first).__name__


def out_of_memory(error: BaseException) -> bool:
    """Whether the error, or what it came from, is a lack of device memory."""
    return any(
        type(e).__name__ == "OutOfMemoryError" or (isinstance(e, RuntimeError) and any(t in str(e) for t in _SHORT_OF_MEMORY))
        for e in _chain(error)
    )


@contextmanager
def memory_contained(torch: Any) -> Iterator[None]:
    """Turn what torch raises when device memory is short into `OutOfDeviceMemory`, with the cache given back."""
    try:
        yield
    except Exception as err:
        if not out_of_memory(err):
            raise
        torch.cuda.empty_cache()
        raise OutOfDeviceMemory(_first_cause(err)) from None


# --------------------------------------------------------------------------- what it is
def nvml_of(torch: Any, index: int) -> Answer:
    """The device's NVML side, by its UUID or PCI address, or why there is none."""
    nvml = open_nvml()
    if nvml.reason:
        return nvml
    properties = torch.cuda.get_device_properties(index)
    uuid = getattr(properties, "uuid", None)
    found: Answer = nvml.value.find(str(uuid) if uuid else None, _pci(properties))
    return found


def _pci(properties: Any) -> str | None:
    domain, bus, device = (getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
    return None if bus is None or device is None else f"{domain or 0:08X}:{bus:02X}:{device:02X}.0"


def describe(torch: Any, index: int, seen: Answer) -> DeviceInfo:
    """What a CUDA device is."""
    properties = torch.cuda.get_device_properties(index)
    uuid = getattr(properties, "uuid", None)
    cache = getattr(properties, "L2_cache_size", None)
    return DeviceInfo(
        kind="cuda",
        name=str(properties.name),
        uuid=hashed(str(uuid)) if uuid else None,
        memory_bytes=float(properties.total_memory),
        l2_bytes=float(cache) if cache else None,
        processors=int(properties.multi_processor_count),
        facts={
            "index": index,
            "torch": str(torch.__version__),
            "cuda": torch.version.cuda,
            "hip": getattr(torch.version, "hip", None),
            "triton": triton_version(),
            "compute_capability": f"{properties.major}.{properties.minor}",
            "timer_resolution_s": EVENT_RESOLUTION_S,
            **nvml_facts(seen),
        },
    )


def hashed(uuid: str) -> str:
    """Tells devices apart without telling which they are: serial numbers do not belong in a report."""
    return "gpu-" + hashlib.sha256(uuid.removeprefix("GPU-").encode()).hexdigest()[:16]


def triton_version() -> str | None:
    """The version of Triton, without importing it."""
    from importlib.metadata import PackageNotFoundError, version

    for name in ("triton", "pytorch-triton", "triton-windows"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown" if importlib.util.find_spec("triton") else None


def nvml_facts(seen: Answer) -> dict[str, str | int | float | bool | None]:
    """What NVML says of the device that does not change while it is measured; ``nvml`` says what it does not tell, and why."""
    if seen.reason:
        return {"nvml": seen.reason}
    gpu, driver = seen.value, open_nvml()
    answers = {
        "driver": driver.value.driver() if driver.value else driver,
        "power_limit_w": gpu.power_limit_w(),
        "default_power_limit_w": gpu.default_power_limit_w(),
        "max_sm_mhz": gpu.max_sm_mhz(),
        "max_memory_mhz": gpu.max_memory_mhz(),
        "mig": gpu.mig(),
        "ecc": gpu.ecc_enabled(),
        "other_processes": gpu.other_processes(own_context=True),
    }
    missing = "; ".join(f"{name}: {answer.reason}" for name, answer in answers.items() if answer.reason)
    return {**{name: answer.value for name, answer in answers.items()}, "nvml": missing or None}
