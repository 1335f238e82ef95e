"""The figures of a device that no data sheet describes, from its calibration and what the system tells of it.

Each rate is the fastest sample; main memory's is the fastest of read, write, copy and triad, since a bound counts bytes of
any kind. What was not measured is absent with the reason.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from roofline.hardware.profile import Absent
from roofline.measure.base import DeviceInfo
from roofline.measure.calibrate import Calibration, Found
from roofline.units import Dimension, format_quantity

SYSTEM = "system"
NOT_ASKED = "not measured: left out of this calibration"
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def own_figures(calibration: Calibration, source: str) -> dict[str, Any]:
    """Everything of a profile but its name and the measured map."""
    info, figures = calibration.info, _Figures(calibration, source)
    return {
        **_identity(info),
        "match": [re.escape(info.name).replace("\\ ", " ")],
        "notes": "",
        "sources": {SYSTEM: "as the operating system or the driver reports it"},
        "processors": {"label": "core" if info.kind == "cpu" else "processor", "count": _told(info.processors)},
        "clocks": {"peak": _clock(info)},
        "engines": {
            "tensor": {
                d: figures.rate([f"tensor.{d}.burst", f"tensor.{d}.sustained"], Dimension.FLOP_PER_S) for d in figures.dtypes("tensor")
            },
            "vector": {d: figures.rate([f"vector.{d}"], Dimension.FLOP_PER_S) for d in figures.dtypes("vector")},
            "sfu": figures.rate(["sfu"], Dimension.OPS_PER_S),
        },
        "levels": _levels(info, figures),
        **figures.links(),
    }


class _Figures:
    """Entries of a profile made from ceilings."""

    def __init__(self, calibration: Calibration, source: str) -> None:
        self.calibration, self.source = calibration, source

    def dtypes(self, engine: str) -> list[str]:
        """The dtypes of an engine that were looked at or left out, in order."""
        names = [*self.calibration.found, *self.calibration.left_out]
        return list(dict.fromkeys(n.split(".")[1] for n in names if n.startswith(engine + ".")))

    def rate(self, ceilings: Iterable[str], dimension: Dimension) -> dict[str, str]:
        """The fastest sample of several ceilings."""
        looked = {name: self.calibration.found.get(name, Absent(NOT_ASKED)) for name in ceilings}
        best = {name: m.best for name, m in looked.items() if not isinstance(m, Absent)}
        if not best:
            return {"absent": _why(looked.values())}
        name = max(best, key=lambda n: best[n])
        note = f"fastest sample of {name}: {self.calibration.measured[name].label}"
        return {
            "value": format_quantity(best[name], dimension, digits=5, ascii=True),
            "kind": "measured",
            "source": self.source,
            "note": note,
        }

    def links(self) -> dict[str, Any]:
        """PCIe where it was measured."""
        rate = self.rate(["pcie.h2d", "pcie.d2h"], Dimension.BYTES_PER_S)
        return {} if "absent" in rate else {"links": {"pcie": {"bandwidth": rate, "topology": "host"}}}


def _why(found: Iterable[Found]) -> str:
    """The first reason: where all of several ceilings are missing, they are so for the same one."""
    return next(f.reason for f in found if isinstance(f, Absent))


def _identity(info: DeviceInfo) -> dict[str, str]:
    if info.kind == "cpu":
        return {"vendor": "generic", "product": info.name, "architecture": platform.machine() or "unknown"}
    capability = info.facts.get("compute_capability")
    return {
        "vendor": "amd" if info.facts.get("hip") else "nvidia",
        "product": info.name,
        "architecture": f"compute capability {capability}" if capability else "unknown",
    }


def _told(value: float | None, dimension: Dimension | None = None, why: str = "the system does not tell") -> dict[str, str]:
    """A figure that the system reports."""
    if not value:
        return {"absent": why}
    return {"value": _written(value, dimension), "kind": "measured", "source": SYSTEM}


def _written(value: float, dimension: Dimension | None) -> str:
    """Exactly, in the largest binary unit that divides it."""
    if dimension is None:
        return f"{value:g}"
    if dimension is not Dimension.BYTES:
        return format_quantity(value, dimension, digits=5)
    prefixes = [(p, 1024**i) for i, p in ((3, "Gi"), (2, "Mi"), (1, "Ki"), (0, ""))]
    prefix, size = next((p, n) for p, n in prefixes if int(value) % n == 0)
    return f"{int(value) // size} {prefix}B"


def _clock(info: DeviceInfo) -> dict[str, str]:
    mhz = info.facts.get("max_sm_mhz")
    if not isinstance(mhz, (int, float)):
        return {"absent": "the clock at which the figures were reached is not known"}
    return {**_told(mhz * 1e6, Dimension.HERTZ), "note": "the highest clock that the driver allows"}


def _levels(info: DeviceInfo, figures: _Figures) -> dict[str, Any]:
    cpu, rate = info.kind == "cpu", Dimension.BYTES_PER_S
    return {
        "register": {
            "scope": "processor",
            "size": {"absent": "not reported by the system"},
            "bandwidth": figures.rate(["register.read"], rate),
        },
        "smem": {
            **({"label": "L1 data cache"} if cpu else {}),
            "scope": "processor",
            "size": _told(l1_bytes() if cpu else shared_bytes(), Dimension.BYTES),
            "bandwidth": figures.rate(["smem.read"], rate),
        },
        "l2": {
            **({"label": "last-level cache"} if cpu else {}),
            "scope": "device",
            "size": _told(info.l2_bytes, Dimension.BYTES),
            "bandwidth": figures.rate(["l2.read"], rate),
        },
        "hbm": {
            **({"label": "main memory"} if cpu else {}),
            "scope": "device",
            "size": _told(info.memory_bytes, Dimension.BYTES),
            "bandwidth": figures.rate([f"hbm.{p}" for p in ("read", "write", "copy", "triad")], rate),
        },
    }


def l1_bytes() -> float | None:
    """The data cache next to a core, as the kernel tells."""
    for folder in sorted(_CACHES.glob("index*")):
        try:
            kind, level, size = ((folder / n).read_text().strip() for n in ("type", "level", "size"))
            if kind in ("Data", "Unified") and level == "1":
                return float(size.rstrip("KM")) * {"K": 2**10, "M": 2**20}.get(size[-1], 1)
        except (OSError, ValueError, IndexError):
            continue
    return None


def shared_bytes() -> float | None:
    """Shared memory that one block of the current GPU may use."""
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    size = getattr(properties, "shared_memory_per_block_optin", None)
    return float(size) if size else None
