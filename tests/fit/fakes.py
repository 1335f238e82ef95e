"""A device of round numbers, a model of two parameters, and tables that it explains."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from roofline.hardware.profile import Hardware
from roofline.numeric import where
from roofline.ops.launched import Stream
from roofline.ops.memory import Transpose
from roofline.ops.softmax import Softmax
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms
from roofline.predict.estimate.catalog import MODELS
from roofline.spec.hardware import load_hardware

PROFILE = """\
schema: 1
name: toy
vendor: acme
product: Acme Toy
architecture: first
match: ["Acme Toy"]
sources:
  sheet: the data sheet  # a comment that stays
processors: {label: SM, count: {value: 100, kind: datasheet, source: sheet}}
clocks:
  peak: {value: 1 GHz, kind: datasheet, source: sheet}
engines:
  tensor:
    bf16: {value: 100 TFLOP/s, kind: datasheet, source: sheet}
  vector:
    fp32: {value: 10 TFLOP/s, kind: datasheet, source: sheet}
  sfu: {value: 1 Top/s, kind: datasheet, source: sheet}
levels:
  register: {scope: processor, size: {value: 256 KiB, kind: datasheet, source: sheet}, bandwidth: {absent: unknown}}
  smem: {scope: processor, size: {value: 128 KiB, kind: datasheet, source: sheet}, bandwidth: {absent: unknown}}
  l2: {scope: device, size: {value: 32 MiB, kind: datasheet, source: sheet}, bandwidth: {absent: unknown}}
  hbm:
    scope: device
    size: {value: 64 GB, kind: datasheet, source: sheet}
    bandwidth: {value: 2 TB/s, kind: datasheet, source: sheet}
"""
HBM = 2e12
SET = """\
  {name}:
    kind: fitted
    source: {source}
    date: 2026-11-29
    rows: 7
    band: {{launch: [0.5, 2], memory: [0.9, 1.1]}}
    parameters: {{fixed_s: {fixed}, share: {share}, late_s: 0}}
"""


def set_text(name: str, *, fixed: str = "5.0e-6", share: str = "0.5", source: str = "sheet") -> str:
    """One set of the fake model, as it stands in a profile."""
    return SET.format(name=name, fixed=fixed, share=share, source=source)


def toy(folder: Path, *sets: str, name: str = "toy") -> Hardware:
    """The device, with these sets."""
    (folder / f"{name}.yaml").write_text(PROFILE.replace("name: toy", f"name: {name}") + ("\nfitted:\n" + "".join(sets) if sets else ""))
    return load_hardware(str(folder / f"{name}.yaml"))


class FakeModel:
    """A fixed cost, bytes at a share of the bandwidth, and something late for wide rows, which may be nothing."""

    name: ClassVar[str] = "fake"
    nearest_device: ClassVar[bool] = False
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("fixed_s", "start and end", 5e-6, 1e-7, 1e-3, 1.0),
        Parameter("share", "of the bandwidth", 0.5, 0.05, 1.0, 0.5),
        Parameter("late_s", "for rows wider than 9,000", 0.0, 0.0, 1e-4, 0.1),
    )

    def sets(self, kernel: Any, library: str) -> tuple[str, ...]:
        """By kind; any kind serves."""
        return f"fake.{kernel.kind}.{library}.{kernel.dtype}", f"fake.any.{library}.{kernel.dtype}"

    def terms(self, kernel: Any, device: Device, p: Parameters) -> Terms:
        """Their sum."""
        memory = (kernel.read_bytes + kernel.write_bytes) / (device.hbm_bytes_per_s * p["share"])
        late = where(kernel.cols > 9000, p["late_s"], 0.0)
        return Terms(p["fixed_s"] + memory + late, {"fixed": p["fixed_s"], "memory": memory, "compute": 0.0 * memory})


def _kernel(op: Any, kind: str) -> Stream:
    size = 2 * op.rows * op.cols
    return Stream(kind=kind, rows=op.rows, cols=op.cols, read_bytes=size, write_bytes=size, dtype=op.dtype)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model in place of that of streams; a transposition is one kernel, a softmax a transposition and one of its own."""
    monkeypatch.setitem(MODELS, "Stream", FakeModel())
    monkeypatch.setattr(Transpose, "launched", lambda self, execution: (_kernel(self, "transpose"),))
    monkeypatch.setattr(Softmax, "launched", lambda self, execution: (_kernel(self, "transpose"), _kernel(self, "softmax")))


def seconds(rows: int, cols: int, fixed: float, share: float) -> float:
    """What the fake model says of one kernel."""
    return fixed + 4 * rows * cols / (HBM * share)


SHAPES = [(rows, cols) for rows in (64, 128, 256, 512, 1024, 2048, 4096) for cols in (128, 384, 640, 1024, 1536, 2048, 3072, 4096, 8192)]
TRUTH, OTHER = (8e-6, 0.8), (3e-6, 0.6)
"""Parameters of transpositions and of the other kernel of a softmax."""


def write_table(folder: Path, name: str, lines: list[str], head: str = "rows,cols,dtype,time_us") -> str:
    """A table in a file; its path."""
    (folder / name).write_text("\n".join(["# measured by nobody", head, *lines]) + "\n", encoding="utf-8")
    return str(folder / name)


def transposes(folder: Path, shapes: list[tuple[int, int]] = SHAPES, name: str = "transpose_mine.csv", factor: float = 1.0) -> str:
    """Times that `TRUTH` explains but for a factor."""
    return write_table(folder, name, [f"{r},{c},bf16,{seconds(r, c, *TRUTH) * 1e6 * factor:.6f}" for r, c in shapes])


def softmaxes(folder: Path) -> str:
    """Times of a transposition and another kernel together."""
    return write_table(
        folder, "softmax.csv", [f"{r},{c},bf16,{(seconds(r, c, *TRUTH) + seconds(r, c, *OTHER)) * 1e6:.6f}" for r, c in SHAPES]
    )
