"""Reading a file whose kind its keys tell, for who checks files of all kinds."""

from __future__ import annotations

from roofline.hardware.profile import Hardware
from roofline.spec.hardware import load_hardware
from roofline.spec.kind import kind_of
from roofline.spec.source import parse, read_source
from roofline.spec.workload import load_workload
from roofline.workload.workload import Workload


def load_any(path: str) -> Hardware | Workload:
    """The workload or the profile in that file; ``-`` is standard input.

    Raises:
        InputError: problems in the file.
    """
    if kind_of(parse(read_source(path))) == "a hardware profile":
        return load_hardware(path)
    return load_workload(path)
