"""`roofline.measure`: kernels or a workload on the device in front of us, as a report with measured times."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext

from roofline.errors import MeasurementInvalidError, UsageError
from roofline.hardware.profile import Hardware
from roofline.measure.base import CACHE_CHOICES, LAUNCH_CHOICES, MODE_CHOICES, Device, Procedure
from roofline.measure.interrupt import Interruption
from roofline.report.model import MeasuredResult, Report
from roofline.spec.words import Overrides, words

SUSTAINED_S = 5.0
"""Sampling time of a sustained measurement: heat and the power cap need seconds to show."""
REFUSED = ("invalid", "failed")
"""How a result ends that must not be believed."""


def measure(
    workload: str | os.PathLike[str] | None = None,
    *,
    kernels: Sequence[str] = (),
    overrides: Overrides = (),
    hardware: Hardware | str | None = "auto",
    device: Device | str = "auto",
    cache: str | None = None,
    launch: str | None = None,
    mode: str = "burst",
    in_turns: bool = False,
    longest_s: float = 10.0,
    lock: bool = True,
) -> Report:
    """Each step of a workload and then the whole, or kernels by name (also ``module:function``), beside their bound.

    ``hardware`` is a profile, ``auto`` for that of the device's name, or None for no bound. ``cache`` is cold or warm, ``launch``
    graph or eager, ``mode`` burst or sustained; ``in_turns`` compares several kernels sample by sample. ``longest_s`` limits the time
    for one kernel. With ``lock`` nobody else measures on the device meanwhile.

    Raises:
        MissingCapabilityError: no torch, no device, no profile of it, or somebody else measures.
        MeasurementInvalidError: a result that must not be believed, or no memory for any.
        UsageError, InputError: names or words that are not known, problems in the workload.
    """
    from roofline.measure.families import with_bindings
    from roofline.measure.lock import device_lock
    from roofline.measure.plan import plan_in_turns, plan_of, require_kernels, run_plan
    from roofline.report.build import analyze

    procedure_words = {"cache": (cache, CACHE_CHOICES), "launch": (launch, LAUNCH_CHOICES), "mode": (mode, MODE_CHOICES)}
    for option, (word, known) in procedure_words.items():
        if word is not None and word not in known:
            raise UsageError(f"{option}='{word}' is unknown; known: {', '.join(known)}")
    opened = _opened(device)
    procedure = procedure_of(opened.info.kind, cache, launch, mode, longest_s)
    name = None if workload is None else os.fspath(workload)
    plan = plan_of(name, list(kernels), words(overrides), None, opened.info.kind)
    plan = plan_in_turns(plan) if in_turns else plan
    require_kernels(plan, opened)
    profile = _profile(hardware, opened)
    analyze(plan.workload, profile, plan.inputs)  # what the profile lacks is said before anything is measured
    stop = Interruption()
    with device_lock(opened.info.uuid) if lock else nullcontext() as unlocked:
        if unlocked:
            warnings.warn(unlocked, stacklevel=2)
        found = run_plan(plan, opened, procedure, lambda name, share: None, stop=stop)
    if stop.exit_code:
        raise KeyboardInterrupt
    report = analyze(plan.workload, profile, plan.inputs, measured=with_bindings(found, plan.cases, profile))
    _refuse(report)
    return report


def procedure_of(kind: str, cache: str | None, launch: str | None, mode: str, longest_s: float) -> Procedure:
    """As asked for. A CPU's caches are large and slow to rotate over, and it has no graphs.

    Raises:
        UsageError: a graph on a CPU.
    """
    if kind == "cpu" and launch == "graph":
        raise UsageError("--launch graph: a CPU has no graphs; leave it out or give --launch eager")
    shortest = min(Procedure().shortest_s if mode == "burst" else SUSTAINED_S, longest_s / 2)
    return Procedure(
        cache=cache or ("warm" if kind == "cpu" else "cold"),
        launch=launch or ("eager" if kind == "cpu" else "graph"),
        mode=mode,
        longest_s=longest_s,
        shortest_s=shortest,
        warmup_s=min(0.2, longest_s / 10),
    )


def _opened(device: Device | str) -> Device:
    if not isinstance(device, str):
        return device
    from roofline.measure.device import open_device

    return open_device(device)


def _profile(hardware: Hardware | str | None, device: Device) -> Hardware | None:
    if hardware is None or isinstance(hardware, Hardware):
        return hardware
    from roofline.measure.match import profile_for
    from roofline.spec.hardware import load_hardware

    return profile_for(device.info) if hardware == "auto" else load_hardware(hardware)


def _refuse(report: Report) -> None:
    results: list[tuple[str, MeasuredResult | None]] = [(r.id, r.measured) for r in report.rows]
    measured = [(name, m) for name, m in [*results, ("the whole sequence", report.totals.measured)] if m]
    refused = [f"{name}: {m.status}: {'; '.join(m.notes)}" for name, m in measured if m.status in REFUSED]
    if refused:
        raise MeasurementInvalidError("\n".join(refused))
    if all(m.status == "oom" for _, m in measured):
        raise MeasurementInvalidError("nothing could be measured: out of device memory in every case")
