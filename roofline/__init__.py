"""Roofline analysis: what bounds a workload on a device, what would help end to end, and whether it did.

What ``__all__`` names is the library; each name is imported when it is first asked for, so that ``import roofline`` costs nothing.

>>> import roofline
>>> report = roofline.analyze("gpt2_medium", "h100-sxm")
>>> report.totals.headline.step, report.totals.bound.limiter
('attention', 'hbm')
>>> change = roofline.what_if("gpt2_medium", "h100-sxm", swap={"attention.implementation": "flash"})
>>> f"{change.speedup:.2f}x end to end, then {change.limiter_after} binds"
'2.72x end to end, then tensor binds'
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline.errors import (
        GateFailedError,
        InputError,
        MeasurementInvalidError,
        MissingCapabilityError,
        RooflineError,
        UsageError,
    )
    from roofline.hardware.cluster import Cluster
    from roofline.hardware.profile import Hardware
    from roofline.ingest.live import profile
    from roofline.library.analysis import amdahl, analyze, diff, estimate, what_if
    from roofline.library.decisions import advise, sweep
    from roofline.library.files import load_cluster, load_hardware, load_report, load_workload
    from roofline.library.spread import memory, plan_step, search
    from roofline.measure.session import measure
    from roofline.report.model import Report
    from roofline.report.store import to_json
    from roofline.workload.workload import Workload

__version__ = "0.1.0"

__all__ = [
    "Workload", "Hardware", "Cluster", "Report",
    "load_workload", "load_hardware", "load_cluster", "load_report", "to_json",
    "analyze", "estimate", "amdahl", "what_if", "diff",
    "advise", "sweep", "memory", "plan_step", "search",
    "measure", "profile",
    "RooflineError", "InputError", "UsageError", "MissingCapabilityError", "MeasurementInvalidError", "GateFailedError",
]  # fmt: skip

_MODULES = {
    "errors": ("RooflineError", "InputError", "UsageError", "MissingCapabilityError", "MeasurementInvalidError", "GateFailedError"),
    "workload.workload": ("Workload",),
    "hardware.profile": ("Hardware",),
    "hardware.cluster": ("Cluster",),
    "report.model": ("Report",),
    "report.store": ("to_json",),
    "library.files": ("load_workload", "load_hardware", "load_cluster", "load_report"),
    "library.analysis": ("analyze", "estimate", "amdahl", "what_if", "diff"),
    "library.decisions": ("advise", "sweep"),
    "library.spread": ("memory", "plan_step", "search"),
    "ingest.live": ("profile",),
}
"""Where each name is defined. ``measure`` is a package of that name, which can be called."""
_HOMES = {name: f"roofline.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A name of the library, imported when it is asked for."""
    from importlib import import_module

    if name == "measure":
        return import_module("roofline.measure")
    if name not in _HOMES:
        raise AttributeError(f"module 'roofline' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """With the names that are not imported yet."""
    return sorted({*globals(), *__all__})
