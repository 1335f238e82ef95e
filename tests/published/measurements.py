"""Kernels measured on four devices, as operators: what no bound may exceed."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from roofline.hardware.profile import Hardware
from roofline.ops import OPERATORS
from roofline.ops.base import Op, work_of
from roofline.predict.bound import Bound, bound, machine_of
from roofline.spec.hardware import load_hardware

FOLDER = Path(__file__).parent.parent / "data" / "measurements"
Row = dict[str, str]

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


def _dims(row: Row, *names: str) -> dict[str, int]:
    return {name: int(row[name]) for name in names}


def _dtype(row: Row) -> dict[str, str]:
    return {"dtype": row["dtype"]}


def _products(row: Row) -> tuple[Op, ...]:
    dims = _dims(row, *(n for n in ("batch", "m", "n", "k") if n in row))
    return (OPERATORS["batched_gemm" if "batch" in row else "gemm"](**dims, **_dtype(row)),)  # type: ignore[call-arg]


def _attention(row: Row) -> tuple[Op, ...]:
    naive = row["implementation"] == "naive"
    op = OPERATORS["attention"](  # type: ignore[call-arg]
        **_dims(row, "batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim"),
        **_dtype(row),
        causal=row["causal"] == "True",
        implementation="naive" if naive else "flash",
        scale_pass=naive,
    )
    return (op,) if row["pass"] == "forward" else op.backward()


def _elementwise(row: Row) -> tuple[Op, ...]:
    elements = int(row["elements"])
    if row["function"] == "sum":
        return (OPERATORS["reduction"](rows=1, cols=elements, **_dtype(row)),)  # type: ignore[call-arg]
    return (OPERATORS["elementwise"](function=row["function"], elements=elements, **_dtype(row)),)  # type: ignore[call-arg]


def _rowwise(name: str) -> Callable[[Row], tuple[Op, ...]]:
    return lambda row: (OPERATORS[name](**_dims(row, "rows", "cols"), **_dtype(row)),)  # type: ignore[call-arg]


def _cross_entropy(row: Row) -> tuple[Op, ...]:
    """In the format of the logits throughout, as measured."""
    dims = {"tokens": int(row["rows"]), "vocab": int(row["cols"])}
    return (OPERATORS["cross_entropy"](**dims, **_dtype(row), scratch_dtype=row["dtype"]),)  # type: ignore[call-arg]


def _embedding(row: Row) -> tuple[Op, ...]:
    """The size of the table was not recorded: as many rows as are looked up."""
    dims = {"tokens": int(row["rows"]), "vocab": int(row["rows"]), "hidden": int(row["cols"])}
    return (OPERATORS["embedding"](**dims, **_dtype(row)),)  # type: ignore[call-arg]


def _conv2d(row: Row) -> tuple[Op, ...]:
    """Padding was not recorded: the usual one, which keeps the size at stride 1."""
    names = ("batch", "in_channels", "out_channels", "height", "width", "kernel", "stride")
    return (OPERATORS["conv2d"](**_dims(row, *names), padding=int(row["kernel"]) // 2, **_dtype(row)),)  # type: ignore[call-arg]


OPERATORS_OF: dict[str, Callable[[Row], tuple[Op, ...]]] = {
    "attention": _attention,
    "attention_decode_vllm": _attention,
    "attention_prefill_vllm": _attention,
    "batched_gemm": _products,
    "conv2d": _conv2d,
    "cross_entropy": _cross_entropy,
    "elementwise": _elementwise,
    "embedding": _embedding,
    "gemm": _products,
    "gemm_fp8_vllm": _products,
    "gemm_vllm": _products,
    "layernorm": _rowwise("layernorm"),
    "rmsnorm": _rowwise("rmsnorm"),
    "softmax": _rowwise("softmax"),
    "transpose": _rowwise("transpose"),
}
"""From a table's name to the operators of its rows."""


def tables() -> list[tuple[str, str]]:
    """Device and name of every table, sorted."""
    return sorted((path.parent.name, path.stem) for path in FOLDER.glob("*/*.csv"))


@cache
def measurements(device: str, table: str) -> tuple[Measurement, ...]:
    """All rows of a table; calls from Python where no graph could be captured."""
    with (FOLDER / device / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return tuple(_measurement(device, table, row) for row in rows)


def _measurement(device: str, table: str, row: Row) -> Measurement:
    microseconds = row["time_us"] or row["eager_us"]
    return Measurement(device, table, ",".join(row.values()), OPERATORS_OF[table](row), float(microseconds) * 1e-6)
