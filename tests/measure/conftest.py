"""What the tests of measuring share: scripted devices that compute on the CPU, short procedures, and the command run in this process."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import roofline.measure.plan
from roofline.cli.app import app, hoisted
from roofline.measure.base import Device, DeviceInfo
from roofline.testing import FAKE_INFO, FakeDevice, InlineWatch

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]

MINE = """\
import torch

def matmul(op, tensors):
    "A product of my own."
    return lambda: torch.mm(tensors["a"], tensors["w"], out=tensors["c"])

def zeros(op, tensors):
    return lambda: torch.zeros_like(tensors["c"])

def nothing(op, tensors):
    return lambda: tensors["c"]

def stale(op, tensors):
    found = torch.mm(tensors["a"], tensors["w"])
    return lambda: found

def raises(op, tensors):
    def run():
        raise ValueError("my own mistake")
    return run

CALLS = [0]

def tires(op, tensors):
    "Right for the first calls only."
    def run():
        CALLS[0] += 1
        return torch.mm(tensors["a"], tensors["w"]) * (1 if CALLS[0] < 4 else 2)
    return run

for kernel in (matmul, zeros, nothing, stale, raises, tires):
    kernel.operator = "gemm"

def unlabelled(op, tensors):
    return matmul(op, tensors)
"""

WORKLOAD = """\
schema: 1
name: tiny
dtype: fp32
steps:
  - {id: up, op: gemm, m: 32, n: 32, k: 32, repeat: 3}
  - {id: soft, op: softmax, rows: 32, cols: 32}
  - {id: down, op: gemm, m: 32, n: 32, k: 32}
"""


def fake_device(**script: Any) -> FakeDevice:
    """A scripted device whose small cache is rotated over with few sets."""
    info: DeviceInfo = replace(FAKE_INFO, l2_bytes=script.pop("l2_bytes", 30e3), **script.pop("info", {}))
    return FakeDevice(info=info, **script)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with locks of its own, so that tests measure at the same time."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "ROOFLINE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    (tmp_path / "locks").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "locks"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(place: Path) -> Run:
    """A command in this process, global flags moved as `roofline.cli.app.run` does."""

    def invoke(*words: str) -> Result:
        result = CliRunner().invoke(app, hoisted(list(words)))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def on_cpu(run: Run) -> Run:
    """``roofline measure`` on the CPU, short and without a profile."""

    def invoke(*words: str, limit: str = "0.2 s") -> Result:
        given = () if "-H" in words else ("-H", "none")
        return run("measure", *words, "--device", "cpu", "--time-limit", limit, *given)

    return invoke


@pytest.fixture
def on(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``roofline measure`` on a scripted device, for which a second passes in no time."""
    monkeypatch.setattr(roofline.measure.plan, "run_plan", partial(roofline.measure.plan.run_plan, watch=InlineWatch))

    def invoke(device: Device, *words: str) -> Result:
        monkeypatch.setattr("roofline.cli.measure._open", lambda choice: device)
        given = () if "-H" in words else ("-H", "none")
        return run("measure", *words, *given)

    return invoke


@pytest.fixture
def mine(place: Path) -> Iterator[Path]:
    """A module of kernels in the working directory, forgotten afterwards with the path to it."""
    before = list(sys.path)
    (place / "mine.py").write_text(MINE, encoding="utf-8")
    yield place / "mine.py"
    sys.path[:] = before
    sys.modules.pop("mine", None)
