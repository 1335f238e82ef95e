"""Which device is measured: as chosen, or found, and never another one silently."""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any

from roofline.errors import MissingCapabilityError, UsageError
from roofline.measure.base import Device

CHOICES = ("auto", "cuda", "cuda:N", "cpu")
INSTALL_TORCH = "uv pip install torch --torch-backend=auto (or: pip install torch)"
REPLACE_TORCH = "uv pip install --reinstall torch --torch-backend=auto"
ON_CPU = "to measure on the CPU, say so: --device cpu"


def open_device(choice: str = "auto") -> Device:
    """The device of that choice: auto and cuda mean the first CUDA device, ``cuda:1`` the second, cpu the CPU.

    Raises:
        UsageError: no such choice.
        MissingCapabilityError: torch or the device is not there; the message says how to get it.
    """
    match = re.fullmatch(r"auto|cpu|cuda(?::(\d{1,3}))?", choice)
    if match is None:
        raise UsageError(f"unknown device '{choice}'; known: {', '.join(CHOICES)}")
    torch = need_torch()
    if choice == "cpu":
        from roofline.measure.cpu import CpuDevice

        return CpuDevice()
    reason = no_cuda(torch)
    if reason:
        raise MissingCapabilityError(f"{reason}; {ON_CPU}")
    index = int(match.group(1) or 0)
    count = torch.cuda.device_count()
    if index >= count:
        visible = f"{count} CUDA devices are visible" if count != 1 else "one CUDA device is visible"
        raise MissingCapabilityError(f"there is no cuda:{index}: {visible}, counted from 0")
    return _cuda_device(index)


def _cuda_device(index: int) -> Device:
    from roofline.measure.cuda import CudaDevice

    try:
        return CudaDevice(index)
    except RuntimeError as err:  # busy in exclusive mode, lost, or without memory for a context
        raise MissingCapabilityError(f"cuda:{index} cannot be opened: {str(err).splitlines()[0]}; see 'roofline doctor'") from None


def need_torch() -> Any:
    """The torch module.

    Raises:
        MissingCapabilityError: it is not installed or does not load.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as err:
        if getattr(err, "name", None) == "torch":
            raise MissingCapabilityError(f"measuring needs torch, which is not installed: {INSTALL_TORCH}") from None
        raise MissingCapabilityError(f"torch is installed but does not load ({err}): {REPLACE_TORCH}") from None
    except OSError as err:
        raise MissingCapabilityError(f"torch is installed but does not load ({err}): {REPLACE_TORCH}") from None


def no_cuda(torch: Any) -> str | None:
    """Why this torch has no CUDA device, and the fix; None if it has one."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if available:
        return None
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        return f"no CUDA device: torch {torch.__version__} is built for the CPU only; on a machine with a GPU: {REPLACE_TORCH}"
    return f"no CUDA device: {_why(torch, [str(w.message) for w in said])}"


def _why(torch: Any, said: list[str]) -> str:
    """The reason that torch gives when it is made to try."""
    try:
        torch.cuda.init()
    except Exception as err:
        said = [*said, str(err)]
    text = " ".join(said)
    if "too old" in text:
        return f"the NVIDIA driver is older than torch {torch.__version__} needs (CUDA {torch.version.cuda}); update it, or {REPLACE_TORCH}"
    if "no NVIDIA driver" in text.replace("Found no", "no"):
        return "no NVIDIA driver is loaded; install it, or start the container with --gpus all"
    if "No CUDA GPUs" in text or not text:
        return "the driver shows none; see nvidia-smi and CUDA_VISIBLE_DEVICES, and in a container --gpus all"
    return text.splitlines()[0]
