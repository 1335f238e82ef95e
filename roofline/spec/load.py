"""Reading a file whose kind its keys tell, for who checks files of all kinds."""

from __future__ import annotations

from roofline.dataflow.form import Dataflow
from roofline.hardware.cluster import Cluster
from roofline.hardware.profile import Hardware
from roofline.spec.cluster import load_cluster
from roofline.spec.dataflow import load_dataflow
from roofline.spec.fitted import complete
from roofline.spec.hardware import load_hardware
from roofline.spec.kind import kind_of
from roofline.spec.source import parse, read_source
from roofline.spec.workload import load_workload
from roofline.workload.workload import Workload


def load_any(path: str) -> Hardware | Cluster | Workload | Dataflow:
    """The workload, the profile, the cluster or the dataflow in that file, all of it read; ``-`` is standard input.

    Raises:
        InputError: problems in the file.
    """
    kind = kind_of(parse(read_source(path)))
    if kind == "a hardware profile":
        found = load_hardware(path)
        complete(found.fitted)
        return found
    if kind == "a cluster":
        return load_cluster(path)
    if kind == "a dataflow":
        return load_dataflow(path)
    return load_workload(path)
