"""Workloads, devices and reports by name or file, as values; and what a report says of where they came from."""

from __future__ import annotations

import os
from typing import TypeAlias

from roofline.errors import InputError, Problem, UsageError
from roofline.hardware.cluster import Cluster
from roofline.hardware.profile import Hardware
from roofline.report.model import Input, Report
from roofline.spec.words import Overrides, words
from roofline.workload.workload import Workload

Path: TypeAlias = "str | os.PathLike[str]"


def load_workload(name: Path, overrides: Overrides = ()) -> Workload:
    """The workload of that file, or the shipped one of that name, with overrides as on the command line.

    Raises:
        UsageError: no such file or name; the message names the nearest.
        InputError: all problems in it, each with its place.

    >>> load_workload("gpt2_medium", {"batch": 2}).params["batch"]
    2
    """
    from roofline.spec.workload import load_workload as load

    return load(os.fspath(name), words(overrides))


def load_hardware(name: Path) -> Hardware:
    """The profile of that file, or the shipped one of that name.

    Raises:
        UsageError: no such file or name; the message names the nearest.
        InputError: all problems in it, each with its place.

    >>> load_hardware("h100-sxm").vendor
    'nvidia'
    """
    from roofline.spec.hardware import load_hardware as load

    return load(os.fspath(name))


def load_cluster(name: Path) -> Cluster:
    """The cluster of that file, or the shipped one of that name; a device's own name is one node of it.

    Raises:
        UsageError: no such file or name; the message names the nearest.
        InputError: all problems in it, each with its place.

    >>> load_cluster("dgx-h100").device.name
    'h100-sxm'
    """
    from roofline.spec.cluster import load_cluster as load

    return load(os.fspath(name))


def load_report(path: Path) -> Report:
    """A report that ``analyze`` or ``measure`` wrote as JSON; one of an older schema is brought up to date.

    Raises:
        InputError: no such file, no report, or one of a newer schema.
    """
    from roofline.report.store import load_report as load

    try:
        return load(os.fspath(path))
    except FileNotFoundError:
        raise InputError([Problem(os.fspath(path), 0, 0, "no such file")]) from None


def workload_of(workload: Workload | Path, overrides: Overrides) -> tuple[Workload, Input]:
    """The workload, and where it came from. One that is no file has no hash.

    Raises:
        UsageError: overrides of what is no file any more.
    """
    if isinstance(workload, Workload):
        if words(overrides):
            raise UsageError(f"overrides change a workload while it is read: load '{workload.name}' with them")
        return workload, Input(role="workload", path=workload.name, sha256="")
    found = load_workload(workload, overrides)
    return found, Input(role="workload", path=os.fspath(workload), sha256=found.sha256)


def hardware_of(hardware: Hardware | Path) -> tuple[Hardware, Input]:
    """The device, and where it came from. One that is no file has no hash."""
    if isinstance(hardware, Hardware):
        return hardware, Input(role="hardware", path=hardware.name, sha256="")
    name = os.fspath(hardware)
    return load_hardware(name), Input.of_hardware(name)


def needed(workload: Workload, hardware: Hardware | Path | None) -> Hardware | Path:
    """The device given, else the workload's own.

    Raises:
        UsageError: neither.
    """
    chosen = hardware if hardware is not None else workload.hardware
    if chosen is None:
        raise UsageError(f"'{workload.name}' names no device: give one, such as hardware='h100-sxm'")
    return chosen
