"""Hardware counters of known kernels on one H200 beside what the operators count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from roofline.ingest.ncu_group import Group, grouped
from roofline.ingest.ncu_read import read_table
from roofline.ops import OPERATORS
from roofline.ops.base import Machine, Op, Pass, Work, work_of
from roofline.predict.bound import machine_of
from roofline.spec.hardware import load_hardware

TABLE = Path(__file__).parent.parent / "data" / "ncu" / "h200_wide_raw.csv"
NOT_MODELLED: dict[str, str] = {}
"""Cases without an operator, and why."""

NO_KERNEL = {"fftconv": ("clone",)}
"""Passes that a profiler of kernels does not see, by kind of case: the driver's own copy within the device."""

OUTSIDE_25_PERCENT = {
    "gelu/n=16777216": "x and y are 64 MiB, 1.28 of L2: 20 of the 34 MB written are still dirty in L2 when the kernel ends",
}
"""Cases larger than L2 whose cached count is more than a quarter off, and why."""

LARGE_KINDS = ("gemm", "naive", "flash", "add", "gelu", "softmax", "layernorm", "rmsnorm", "fftconv")
"""Kinds whose cached count is held to 25 % where the case is larger than L2."""


@dataclass(frozen=True)
class Counters:
    """What the counters of a case's kernels add up to."""

    kernels: int
    read: int
    written: int
    l2: int
    tensor_flop: int

    @property
    def dram(self) -> int:
        """Read and written."""
        return self.read + self.written


@dataclass(frozen=True)
class Case:
    """One case: its counters, and what the operator counts on an H200."""

    name: str
    counters: Counters
    op: Op
    work: Work
    machine: Machine

    @property
    def kind(self) -> str:
        """The first part of the name."""
        return self.name.partition("/")[0]

    @property
    def passes(self) -> list[Pass]:
        """Those that are kernels."""
        return [p for p in self.op.passes() if p.name not in NO_KERNEL.get(self.kind, ())]

    @property
    def unseen(self) -> int:
        """Compulsory bytes of passes that are no kernels."""
        return int(sum(p.hbm_bytes for p in self.op.passes() if p.name in NO_KERNEL.get(self.kind, ())))

    @property
    def reads(self) -> int:
        """Compulsory bytes read."""
        return int(sum(t.moved_bytes for p in self.passes for t in p.reads))

    @property
    def writes(self) -> int:
        """Compulsory bytes written."""
        return int(sum(t.moved_bytes for p in self.passes for t in p.writes))

    @property
    def compulsory(self) -> int:
        """Compulsory bytes at HBM."""
        return int(self.work.compulsory.hbm) - self.unseen

    @property
    def compulsory_l2(self) -> int:
        """Compulsory bytes at L2."""
        return int(self.work.compulsory.l2) - self.unseen

    @property
    def cached(self) -> float:
        """Bytes at HBM with the tiling's re-reads, filtered by L2."""
        assert self.work.cached is not None
        return float(self.work.cached.hbm) - self.unseen

    @property
    def tiled_l2(self) -> float:
        """Bytes at L2 with the tiling's re-reads."""
        assert self.work.tiled is not None
        return float(self.work.tiled.l2) - self.unseen

    @property
    def left_in_l2(self) -> int:
        """Bytes written that need not have reached memory when the last kernel ends: at most what L2 holds."""
        return int(min(self.writes, self.machine.l2_bytes))

    @property
    def needs_left_in_l2(self) -> bool:
        """Whether fewer bytes reached memory than are compulsory, which lines still dirty in L2 explain."""
        return self.compulsory > self.counters.dram

    @property
    def larger_than_l2(self) -> bool:
        """Whether the operands of all passes together exceed L2."""
        return self.compulsory > self.machine.l2_bytes

    @property
    def held_to_25_percent(self) -> bool:
        """Whether the cached count is to lie within a quarter of the counters."""
        return self.kind in LARGE_KINDS and self.larger_than_l2


# --------------------------------------------------------------------------- reading
def _counters(group: Group) -> Counters:
    def number(quantity: str) -> int:
        return int(group.quantities[quantity])

    return Counters(
        kernels=group.count,
        read=number("dram_read_bytes"),
        written=number("dram_write_bytes"),
        l2=number("l2_bytes"),
        tensor_flop=int(sum(group.tensor_flop.values())),
    )


@cache
def measured() -> dict[str, Counters]:
    """Counters by case, over all its kernels."""
    return {group.id: _counters(group) for group in grouped(read_table(str(TABLE)).launches, "range")}


# --------------------------------------------------------------------------- the operators of the cases
def _attention(d: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"batch": d["b"], "heads": d["h"], "q_len": d["s"], "kv_len": d["s"], "head_dim": d["d"], **fields}


def _rows_and_columns(d: dict[str, Any]) -> dict[str, Any]:
    return {"rows": d["r"], "cols": d["c"]}


OPERATOR_OF: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "gemm": ("gemm", dict),
    "flash": ("attention", lambda d: _attention(d, causal=d["causal"])),
    "naive": ("attention", lambda d: _attention(d, implementation="naive", scale_pass=True)),
    "decode": ("attention", lambda d: _attention({**d, "s": d["sk"]}) | {"q_len": 1}),
    "add": ("elementwise", lambda d: {"function": "add", "elements": d["n"]}),
    "gelu": ("elementwise", lambda d: {"function": "gelu", "elements": d["n"]}),
    "softmax": ("softmax", _rows_and_columns),
    "layernorm": ("layernorm", _rows_and_columns),
    "rmsnorm": ("rmsnorm", _rows_and_columns),
    "transpose": ("transpose", lambda d: {"rows": d["n"], "cols": d["n"]}),
    "conv2d": (
        "conv2d",
        lambda d: (
            {"batch": d["b"], "in_channels": d["c"], "out_channels": d["c"], "height": d["hw"], "width": d["hw"]}
            | {"kernel": d["k"], "padding": 1}
        ),
    ),
    "fftconv": ("fft_conv", lambda d: {"batch": d["b"], "channels": d["h"], "seq": d["n"], "spectrum": True, "dtype": "fp32"}),
}
"""Operator and fields by kind of case: what the program that was profiled calls."""


def operator_of(name: str) -> Op:
    """The operator that a case such as ``gemm/m=16,n=28672,k=4096`` executes, in bf16 where it does not say otherwise."""
    kind, _, rest = name.partition("/")
    dims = dict(part.split("=") for part in rest.split(","))
    values = {key: text == "True" if text in ("True", "False") else int(text) for key, text in dims.items()}
    operator, fields = OPERATOR_OF[kind]
    return OPERATORS[operator](**{"dtype": "bf16", **fields(values)})  # type: ignore[call-arg]


@cache
def cases() -> tuple[Case, ...]:
    """All cases with an operator, in the order measured."""
    machine = machine_of(load_hardware("h200-sxm"))
    assert machine is not None
    ops = {name: operator_of(name) for name in measured() if name not in NOT_MODELLED}
    return tuple(Case(name, measured()[name], op, work_of(op, machine), machine) for name, op in ops.items())
