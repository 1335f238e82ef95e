"""What a kernel needs of a device, as words, and which of them are not there, each with its reason."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.util import find_spec


def missing(needs: Iterable[str], device: str) -> list[str]:
    """A sentence for each need that ``device`` (``cpu``, ``cuda``, ``cuda:1``) does not meet.

    >>> missing(["cuda"], "cpu")
    ['it needs a CUDA device']
    """
    return [reason for need in needs if (reason := _reason(need, device)) is not None]


def _reason(need: str, device: str) -> str | None:
    on_gpu = device.startswith("cuda")
    if need == "cuda":
        return None if on_gpu else "it needs a CUDA device"
    if need == "cpu":
        return "it runs on a CPU only" if on_gpu else None
    if need == "triton":
        return _no_triton(on_gpu)
    if need.startswith("sm"):
        return _too_old(int(need.removeprefix("sm")), device) if on_gpu else None
    return f"unknown need '{need}'"


def _too_old(wanted: int, device: str) -> str | None:
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    found = 10 * major + minor
    return None if found >= wanted else f"it needs compute capability {wanted / 10}, and this is {found / 10}"


def _no_triton(on_gpu: bool) -> str | None:
    """On a CPU its interpreter runs kernels, slowly, if it was asked for before Triton was imported."""
    if not find_spec("triton"):
        return "it needs Triton (pip install triton)"
    if on_gpu or os.environ.get("TRITON_INTERPRET") == "1":
        return None
    return "on a CPU only Triton's interpreter runs it (TRITON_INTERPRET=1)"
