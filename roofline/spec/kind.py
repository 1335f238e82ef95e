"""Telling a workload from a hardware profile by what is in the file."""

from __future__ import annotations

from roofline.hardware.profile import Hardware
from roofline.spec.hardware import load_hardware
from roofline.spec.source import MapNode, parse, read_source
from roofline.spec.workload import load_workload
from roofline.workload.workload import Workload

PROFILE_KEYS = frozenset({"engines", "levels", "processors", "vendor", "extends", "match"})


def load_any(path: str) -> Hardware | Workload:
    """The file as what its keys say it is.

    Raises:
        InputError: problems in the file.
    """
    node = parse(read_source(path))
    if isinstance(node, MapNode) and PROFILE_KEYS & node.entries.keys():
        return load_hardware(path)
    return load_workload(path)
