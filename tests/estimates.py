"""Models whose answers can be worked in the head, and parameters for them, so that no test of estimates depends on a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from roofline.hardware.profile import Hardware, ParameterSet
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms
from roofline.predict.estimate.catalog import MODELS

BAND = {"launch": (0.8, 1.25), "memory": (0.9, 1.2), "compute": (0.95, 1.1)}


class Plain:
    """fixed + work of any kind at a share of the published rates: ``time = fixed_s + max(memory, compute)``."""

    nearest_device: ClassVar[bool] = False
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("fixed_s", "fixed cost", 2e-6, 1e-7, 1e-4),
        Parameter("efficiency", "share of every rate", 0.8, 0.1, 1.0),
    )

    def __init__(self, name: str) -> None:
        self.name = name

    def sets(self, kernel: Any, library: str) -> tuple[str, ...]:
        """One set a library."""
        return (f"{self.name}.{library}",)

    def terms(self, kernel: Any, device: Device, p: Parameters) -> Terms:
        """Two resources, of which the slower one decides."""
        moved = getattr(kernel, "read_bytes", 0) + getattr(kernel, "write_bytes", 0)
        flop = 2 * kernel.batch * kernel.m * kernel.n * kernel.k if hasattr(kernel, "k") else 0
        memory = moved / (device.hbm_bytes_per_s * p["efficiency"])
        compute = flop / (device.matrix(kernel.dtype) * p["efficiency"]) if hasattr(kernel, "k") else 0.0
        return Terms(p["fixed_s"] + max(memory, compute), {"fixed": p["fixed_s"], "memory": memory, "compute": compute})


def parameters(name: str, device: str = "h100-sxm", band: Any = BAND, **values: float) -> ParameterSet:
    """A set of the plain models."""
    given = {"fixed_s": 2e-6, "efficiency": 0.8, **values}
    return ParameterSet(name=name, values=given, device=device, kind="fitted", source="a test", date="2026-11-01", rows=100, band=band)


HOST = {"host_product_s": 10e-6, "host_attention_s": 20e-6, "host_stream_s": 8e-6, "gap_s": 1e-6, "chain_s": 0.0}


def host(device: str = "h100-sxm", **values: float) -> ParameterSet:
    """What launching costs in the tests: 10 us for a product, 8 us for a kernel that streams."""
    return replace(parameters("host.torch", device, {"launch": (0.9, 1.1)}), values={**HOST, **values})


SETS = ("product.torch", "stream.torch", "product.engine", "stream.engine")


def estimating(hardware: Hardware, monkeypatch: pytest.MonkeyPatch, **sets: ParameterSet) -> Hardware:
    """The device with plain parameters of its own, and the plain models in place of the real ones; ``sets`` by name, dots as _."""
    monkeypatch.setitem(MODELS, "Product", Plain("product"))
    monkeypatch.setitem(MODELS, "Stream", Plain("stream"))
    monkeypatch.delitem(MODELS, "FusedAttention", raising=False)
    monkeypatch.delitem(MODELS, "Transfer", raising=False)
    known = {name: parameters(name, hardware.name) for name in SETS} | {"host.torch": host(hardware.name)}
    known |= {name.replace("_", "."): one for name, one in sets.items()}
    return replace(hardware, fitted=known, priors={})
