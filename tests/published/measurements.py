"""Kernels measured on four devices, as operators: what no bound may exceed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from roofline.fit.tables import read_table
from roofline.hardware.profile import Hardware
from roofline.ops.base import Op, work_of
from roofline.predict.bound import Bound, bound, machine_of
from roofline.spec.hardware import load_hardware

FOLDER = Path(__file__).parent.parent / "data" / "measurements"

RESIDENT = "the collector repeats the same 50 MB of activations, which stay in 126 MiB of L2"

BELOW_THE_BOUND = {("b200-sxm", "gemm_vllm", "16384,32,1536,bf16,5.587"): RESIDENT}
"""Rows measured to be faster than the bound, and why that is no fault of the count."""


@cache
def profile(name: str) -> Hardware:
    """The profile, read once."""
    return load_hardware(name)


@dataclass(frozen=True)
class Measurement:
    """One row: the operators that ran, and how long they took."""

    device: str
    table: str
    row: str
    ops: tuple[Op, ...]
    time_s: float

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies it."""
        return self.device, self.table, self.row

    def bounds(self) -> list[Bound]:
        """One for each operator."""
        hardware = profile(self.device)
        return [bound(work_of(op, machine_of(hardware)), hardware) for op in self.ops]

    @cached_property
    def share(self) -> float:
        """The bound as a share of the time: at most 1."""
        return float(sum(b.time_s for b in self.bounds())) / self.time_s


def tables() -> list[tuple[str, str]]:
    """Device and name of every table, sorted."""
    return sorted((path.parent.name, path.stem) for path in FOLDER.glob("*/*.csv"))


@cache
def measurements(device: str, table: str) -> tuple[Measurement, ...]:
    """All rows of a table; calls from Python where no graph could be captured."""
    found = read_table(str(FOLDER / device / f"{table}.csv"), times=("time_us", "eager_us"))
    return tuple(Measurement(device, table, row.text, row.ops, row.time_s) for row in found.rows)
