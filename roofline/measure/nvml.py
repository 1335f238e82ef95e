"""What NVML tells about a GPU: every query answers with a value or with the reason why there is none, and never raises.

NVML may be missing, of another version than the driver, forbidden in a container, or older than a function that is asked
for; none of that may stop a measurement. The module is handed in, so that `roofline.testing.FakeNvml` can stand for it.
Devices are found by UUID or PCI address: CUDA and NVML number them differently.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from roofline.measure.base import Reading

REASONS = {
    1: "NVML is not initialised",
    3: "this GPU or driver does not support it",
    4: "no permission; ask the administrator, or run where the device files are accessible",
    6: "not found",
    9: "the NVIDIA driver is not loaded; load it (modprobe nvidia) or start the container with --gpus all",
    10: "the driver did not answer in time",
    12: "the NVML library (libnvidia-ml.so.1) is not there; install the NVIDIA driver, or start the container with --gpus all",
    13: "the driver is older than this query; update the driver",
    15: "the GPU fell off the bus; reboot, and see the kernel log for Xid 79",
    16: "the GPU needs a reset before it can be used",
    17: "the operating system blocked the request (a control group or sandbox)",
    18: "the NVML library and the loaded driver are of different versions; reboot, or reload the nvidia kernel modules",
    20: "NVML is out of memory",
    23: "NVML is out of resources",
    28: "the GPU was not found",
    999: "NVML reports an unknown error",
}
"""What an error code means and what to do, where there is something to do."""

FUNCTION_NOT_FOUND = 13
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_UNCORRECTED, _VOLATILE = 1, 0


class Answer(NamedTuple):
    """``(value, None)`` or ``(None, reason)``."""

    value: Any
    reason: str | None


def reason_of(error: BaseException) -> str:
    """Why a query gave nothing, with the fix where there is one."""
    code = getattr(error, "value", None)
    if code in REASONS:
        return REASONS[code]
    try:
        text = str(error)
    except Exception:  # asking NVML for the name of a code can itself fail
        text = ""
    return f"NVML error {code}: {text}" if code is not None else f"{type(error).__name__}: {text}"


def ask(module: Any, names: str | tuple[str, ...], *args: Any) -> Answer:
    """The answer of the first function that this driver has."""
    reason = REASONS[FUNCTION_NOT_FOUND]
    for name in (names,) if isinstance(names, str) else names:
        try:
            return Answer(_text(getattr(module, name)(*args)), None)
        except AttributeError:  # the Python module is older than the function
            continue
        except Exception as err:
            reason = reason_of(err)
            if getattr(err, "value", None) != FUNCTION_NOT_FOUND:
                break
    return Answer(None, reason)


def _text(value: Any) -> Any:
    """Older versions of the module give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _scaled(answer: Answer, factor: float) -> Answer:
    return answer if answer.reason else Answer(answer.value * factor, None)


def open_nvml(module: Any = None) -> Answer:
    """NVML, initialised: an `Nvml`, or why there is none."""
    try:
        module = module or importlib.import_module("pynvml")
        module.nvmlInit()
    except ImportError:
        return Answer(None, "the Python package nvidia-ml-py is not installed; pip install nvidia-ml-py")
    except Exception as err:
        return Answer(None, reason_of(err))
    return Answer(Nvml(module), None)


class Nvml:
    """An initialised NVML."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def driver(self) -> Answer:
        """Version of the driver."""
        return ask(self._module, "nvmlSystemGetDriverVersion")

    def cuda(self) -> Answer:
        """Newest CUDA version that the driver runs, such as ``13.0``."""
        answer = ask(self._module, ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"))
        return answer if answer.reason else Answer(f"{answer.value // 1000}.{answer.value % 1000 // 10}", None)

    def devices(self) -> list[NvmlDevice]:
        """All devices that can be opened, in NVML's order."""
        count = ask(self._module, ("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")).value or 0
        handles = (ask(self._module, ("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"), i).value for i in range(count))
        return [NvmlDevice(self._module, handle) for handle in handles if handle is not None]

    def find(self, uuid: str | None, pci: str | None) -> Answer:
        """The device of that UUID (with or without its ``GPU-``), else of that PCI address; never by number."""
        reason = "CUDA gives neither a UUID nor a PCI address of this device; update torch"
        for name, keys in (("nvmlDeviceGetHandleByUUID", _uuids(uuid)), ("nvmlDeviceGetHandleByPciBusId", [pci] if pci else [])):
            for key in keys:
                answer = ask(self._module, (f"{name}_v2", name), key.encode("ascii", "replace"))
                if answer.reason is None:
                    return Answer(NvmlDevice(self._module, answer.value), None)
                reason = answer.reason
        return Answer(None, reason)


def _uuids(uuid: str | None) -> list[str]:
    """CUDA gives the bare UUID; NVML wants its kind before it."""
    if not uuid:
        return []
    return [uuid] if uuid.startswith(("GPU-", "MIG-")) else [f"GPU-{uuid}", f"MIG-{uuid}"]


@dataclass(frozen=True)
class NvmlDevice:
    """One GPU as NVML sees it."""

    _module: Any
    _handle: Any

    def _ask(self, names: str | tuple[str, ...], *args: Any) -> Answer:
        return ask(self._module, names, self._handle, *args)

    def name(self) -> Answer:
        """Product name."""
        return self._ask("nvmlDeviceGetName")

    def uuid(self) -> Answer:
        """UUID, with its ``GPU-``."""
        return self._ask("nvmlDeviceGetUUID")

    def memory_bytes(self) -> Answer:
        """All memory, in bytes."""
        answer = self._ask("nvmlDeviceGetMemoryInfo")
        return answer if answer.reason else Answer(float(answer.value.total), None)

    def sm_mhz(self) -> Answer:
        """Clock of the processors now."""
        return self._ask("nvmlDeviceGetClockInfo", _CLOCK_SM)

    def max_sm_mhz(self) -> Answer:
        """Highest clock of the processors."""
        return self._ask("nvmlDeviceGetMaxClockInfo", _CLOCK_SM)

    def memory_mhz(self) -> Answer:
        """Clock of the memory now."""
        return self._ask("nvmlDeviceGetClockInfo", _CLOCK_MEMORY)

    def max_memory_mhz(self) -> Answer:
        """Highest clock of the memory."""
        return self._ask("nvmlDeviceGetMaxClockInfo", _CLOCK_MEMORY)

    def power_w(self) -> Answer:
        """Power drawn now."""
        return _scaled(self._ask("nvmlDeviceGetPowerUsage"), 1e-3)

    def power_limit_w(self) -> Answer:
        """Power limit in force."""
        return _scaled(self._ask(("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit")), 1e-3)

    def default_power_limit_w(self) -> Answer:
        """Power limit as delivered."""
        return _scaled(self._ask("nvmlDeviceGetPowerManagementDefaultLimit"), 1e-3)

    def temperature_c(self) -> Answer:
        """Temperature of the chip."""
        return self._ask(("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"), 0)

    def event_reasons(self) -> Answer:
        """Why the clock is where it is: the bits of `roofline.measure.events`. Called throttle reasons by older drivers."""
        return self._ask(("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"))

    def ecc_enabled(self) -> Answer:
        """Whether memory errors are corrected."""
        answer = self._ask("nvmlDeviceGetEccMode")
        return answer if answer.reason else Answer(bool(answer.value[0]), None)

    def ecc_uncorrected(self) -> Answer:
        """Uncorrected memory errors since the driver was loaded."""
        return self._ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)

    def mig(self) -> Answer:
        """``off``, ``on`` (the GPU is divided), or ``slice`` (this is a part of one)."""
        if self._ask("nvmlDeviceIsMigDeviceHandle").value:
            return Answer("slice", None)
        answer = self._ask("nvmlDeviceGetMigMode")
        return answer if answer.reason else Answer("on" if answer.value[0] else "off", None)

    def other_processes(self, *, own_context: bool) -> Answer:
        """How many other processes compute on it. In a container NVML gives foreign numbers, so one of them may be ours."""
        answer = self._ask(
            ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses")
        )
        if answer.reason:
            return answer
        pids = {int(p.pid) for p in answer.value}
        others = len(pids - {os.getpid()})
        return Answer(others - 1 if own_context and os.getpid() not in pids and others else others, None)


_READ: dict[str, Callable[[NvmlDevice], Answer]] = {
    "sm_mhz": NvmlDevice.sm_mhz,
    "memory_mhz": NvmlDevice.memory_mhz,
    "power_w": NvmlDevice.power_w,
    "temperature_c": NvmlDevice.temperature_c,
    "event_reasons": NvmlDevice.event_reasons,
    "ecc_uncorrected": NvmlDevice.ecc_uncorrected,
}


def read(found: Answer, time_s: float) -> Reading:
    """A reading of the device that `Nvml.find` answered with; where there is none, each value is missing for that reason."""
    if found.reason:
        return Reading(time_s=time_s, missing=dict.fromkeys(_READ, found.reason))
    answers = {name: query(found.value) for name, query in _READ.items()}
    values = {name: answer.value for name, answer in answers.items()}
    return Reading(time_s=time_s, missing={n: a.reason for n, a in answers.items() if a.reason}, **values)
