"""What is here for measuring, what is not, and the exact fix for each thing that is missing. It looks, and never fails."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline import __version__
from roofline.errors import RooflineError
from roofline.measure.base import DeviceInfo
from roofline.measure.device import need_torch, no_cuda
from roofline.measure.events import SLOWDOWN, event_names
from roofline.measure.nvml import Answer, Nvml, NvmlDevice, open_nvml

STATES = ("ok", "note", "missing")
"""ok: there; note: there, but it will show in measurements; missing: not there, with the fix."""
DRIVER_SETTINGS = Path("/proc/driver/nvidia/params")
OPEN_COUNTERS = "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d/, then reboot; or run as root"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at; ``fix`` is what to do where it is missing or disturbs."""

    name: str
    state: str
    text: str
    fix: str | None = None


def examine(nvml_module: Any = None) -> list[Finding]:
    """All findings, in the order in which one thing needs another."""
    looks: list[Callable[[], Iterator[Finding]]] = [_python, _torch, lambda: _gpus(nvml_module), _cuda, _triton, _counters, _cpu]
    return [finding for look in looks for finding in _carefully(look)]


def _carefully(look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """A look that fails is a finding as well."""
    try:
        yield from look()
    except Exception as err:
        name = getattr(look, "__name__", "look").strip("_<>")
        yield Finding(name=name, state="missing", text=f"could not look: {type(err).__name__}: {err}", fix="please report this")


def _python() -> Iterator[Finding]:
    yield Finding(name="python", state="ok", text=f"{platform.python_version()} ({sys.implementation.name}, {platform.machine()})")
    yield Finding(name="roofline", state="ok", text=__version__)


def _torch() -> Iterator[Finding]:
    try:
        torch = need_torch()
    except RooflineError as err:
        text, _, fix = str(err).partition(": ")
        yield Finding(name="torch", state="missing", text=text, fix=fix)
        return
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "built for the CPU only"
    yield Finding(name="torch", state="ok", text=f"{torch.__version__}, {build}")


def _gpus(module: Any) -> Iterator[Finding]:
    opened = open_nvml(module)
    if opened.reason:
        text, _, fix = opened.reason.partition("; ")
        yield Finding(name="nvml", state="missing", text=text, fix=fix or None)
        return
    nvml: Nvml = opened.value
    yield Finding(name="driver", state="ok", text=f"{_told(nvml.driver())}, runs CUDA up to {_told(nvml.cuda())}")
    devices = nvml.devices()
    if not devices:
        yield Finding(name="gpu", state="missing", text="NVML shows no GPU", fix="see nvidia-smi; in a container, start it with --gpus all")
    for number, gpu in enumerate(devices):
        yield from _gpu(f"gpu {number}", gpu)


def _gpu(name: str, gpu: NvmlDevice) -> Iterator[Finding]:
    """What may disturb a measurement on one GPU."""
    memory = gpu.memory_bytes()
    size = f"{memory.value / 1e9:.0f} GB" if memory.value else "memory unknown"
    yield Finding(name=name, state="ok", text=f"{_told(gpu.name())}, {size}")
    mig = gpu.mig()
    divided = mig.value in ("on", "slice")
    fix = "data-sheet profiles do not hold for slices: measure one with 'roofline calibrate -o FILE'" if divided else None
    yield Finding(name=f"{name} MIG", state="note" if divided else "ok", text=_told(mig), fix=fix)
    clocks = (
        f"{_told(gpu.sm_mhz())} of {_told(gpu.max_sm_mhz())} MHz, memory {_told(gpu.memory_mhz())} of {_told(gpu.max_memory_mhz())} MHz"
    )
    yield Finding(name=f"{name} clocks", state="ok", text=clocks)
    yield _slowdown(name, gpu.event_reasons())
    yield _power(name, gpu)
    yield _ecc(name, gpu)
    yield _others(name, gpu.other_processes(own_context=False))


def _slowdown(name: str, answer: Answer) -> Finding:
    if answer.reason:
        return Finding(name=f"{name} clock events", state="note", text=f"not told: {answer.reason}", fix="throttling will go unseen")
    names = ", ".join(event_names(answer.value)) or "none"
    if answer.value & SLOWDOWN:
        return Finding(name=f"{name} clock events", state="note", text=names, fix="let it cool, and check fans and power supply")
    return Finding(name=f"{name} clock events", state="ok", text=names)


def _power(name: str, gpu: NvmlDevice) -> Finding:
    limit, default = gpu.power_limit_w(), gpu.default_power_limit_w()
    lowered = bool(limit.value and default.value and limit.value < default.value)
    watts = _told(limit, "{:.0f} W")
    text = f"{_told(gpu.power_w(), '{:.0f} W')} now, limit {watts}" + (f", delivered with {default.value:.0f} W" if lowered else "")
    fix = f"compute-bound kernels will be slower than the data sheet: nvidia-smi -pl {default.value:.0f} restores it" if lowered else None
    return Finding(name=f"{name} power", state="note" if lowered else "ok", text=text, fix=fix)


def _ecc(name: str, gpu: NvmlDevice) -> Finding:
    mode, errors = gpu.ecc_enabled(), gpu.ecc_uncorrected()
    text = f"{'on' if mode.value else 'off'}" if mode.reason is None else f"not told: {mode.reason}"
    if errors.value:
        fix = "a measurement in which the number grows is invalid; reset the GPU, and replace it if they come back"
        return Finding(name=f"{name} ECC", state="note", text=f"{text}, {errors.value} uncorrected errors", fix=fix)
    return Finding(name=f"{name} ECC", state="ok", text=text)


def _others(name: str, answer: Answer) -> Finding:
    if answer.reason:
        return Finding(name=f"{name} processes", state="note", text=f"not told: {answer.reason}")
    if answer.value:
        fix = "times will be disturbed: wait for them to end, or choose another GPU with --device cuda:N"
        return Finding(name=f"{name} processes", state="note", text=f"{answer.value} other compute processes", fix=fix)
    return Finding(name=f"{name} processes", state="ok", text="no other compute process")


def _told(answer: Answer, form: str = "{}") -> str:
    return f"not told ({answer.reason})" if answer.reason else form.format(answer.value)


def _cuda() -> Iterator[Finding]:
    """CUDA as torch sees it, and the profile of each device."""
    try:
        torch = need_torch()
    except RooflineError:
        return  # said already
    reason = no_cuda(torch)
    if reason:
        text, _, fix = reason.partition("; ")
        yield Finding(name="cuda", state="missing", text=text, fix=fix)
        return
    from roofline.measure.cuda import describe, nvml_of

    for index in range(torch.cuda.device_count()):
        info = describe(torch, index, nvml_of(torch, index))
        cache = f"{info.l2_bytes / 1e6:.0f} MB of L2" if info.l2_bytes else "L2 size unknown"
        text = f"{info.name}, {info.processors} processors, {cache}, {info.uuid or 'no UUID'}"
        yield Finding(name=f"cuda:{index}", state="ok", text=text)
        yield profile_finding(f"cuda:{index} profile", info)


def profile_finding(name: str, info: DeviceInfo) -> Finding:
    """The profile that matches the device, or what to do."""
    from roofline.measure.match import profile_for

    try:
        profile = profile_for(info)
    except RooflineError as err:
        text, _, fix = str(err).partition("; ")
        return Finding(name=name, state="missing", text=text, fix=fix)
    return Finding(name=name, state="ok", text=f"{profile.name} ({profile.product})")


def _triton() -> Iterator[Finding]:
    from roofline.measure.cuda import triton_version

    version = triton_version()
    if version:
        yield Finding(name="triton", state="ok", text=version)
    else:
        yield Finding(name="triton", state="missing", text="not installed: compiled kernels cannot be measured", fix="pip install triton")


def _counters() -> Iterator[Finding]:
    """Whether Nsight Compute may read hardware counters; asked only of the driver's settings, which costs nothing."""
    try:
        settings = DRIVER_SETTINGS.read_text()
    except OSError:
        return
    if "RmProfilingAdminOnly: 1" in settings:
        yield Finding(name="counters", state="note", text="hardware counters are for administrators", fix=OPEN_COUNTERS)
    else:
        yield Finding(name="counters", state="ok", text="hardware counters are open to all users")


def _cpu() -> Iterator[Finding]:
    from roofline.measure.cpu import describe

    info = describe()
    cache = f"{info.l2_bytes / 1e6:.0f} MB of last-level cache" if info.l2_bytes else "cache size unknown"
    threads = info.facts["threads"]
    text = f"{info.name}, {info.processors} processors, {cache}" + (f", {threads} torch threads" if threads else "")
    yield Finding(name="cpu", state="ok", text=text)
    yield profile_finding("cpu profile", info)
