"""`roofline.measure`: the command's measurement as a function, on scripted devices and on the CPU."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import roofline
import roofline.measure.plan as plan
from roofline.testing import InlineWatch

pytest.importorskip("torch")

from tests.measure.conftest import WORKLOAD, fake_device


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(plan, "run_plan", partial(plan.run_plan, watch=InlineWatch))


def test_a_kernel_takes_what_the_device_says() -> None:
    report = roofline.measure(kernels=["gemm"], device=fake_device(call_s=25e-6), hardware=None)
    (row,) = report.rows
    assert row.measured
    assert row.measured.time_s == pytest.approx(25e-6, rel=1e-6)
    assert row.bound is None
    assert report.environment["device"] == "Fake device"


def test_a_workload_and_its_whole_with_overrides(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    report = roofline.measure(tmp_path / "w.yaml", overrides={"up.m": 64}, hardware="h100-sxm", device=fake_device())
    assert [(r.id, r.fields["m"]) for r in report.rows if r.op == "gemm"] == [("up", 64), ("down", 32)]
    assert all(r.measured and r.measured.time_s == pytest.approx(10e-6, rel=1e-6) for r in report.rows)
    assert report.totals.measured
    assert report.totals.measured.source == "a run of the whole sequence"


def test_on_this_cpu(tmp_path: Path) -> None:
    report = roofline.measure(kernels=["gemm"], overrides=["m=64", "n=64", "k=64"], device="cpu", hardware=None, longest_s=0.2)
    assert report.rows[0].measured
    assert report.rows[0].measured.time_s > 1e-7
    assert "torch_threads" in report.environment or report.environment["device_kind"] == "cpu"


def test_a_result_that_must_not_be_believed_is_an_error() -> None:
    with pytest.raises(roofline.MeasurementInvalidError, match="gemm"):
        roofline.measure(kernels=["gemm"], device=fake_device(call_s=1e-12), hardware="h100-sxm")


def test_ctrl_c_is_the_caller_s() -> None:
    with pytest.raises(KeyboardInterrupt):
        roofline.measure(kernels=["gemm"], device=fake_device(interrupt_at=3), hardware=None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "either a workload or"),
        ({"kernels": ["gem"]}, "gemm"),
        ({"kernels": ["gemm"], "in_turns": True}, "twice"),
        ({"kernels": ["gemm"], "launch": "lazy"}, "graph"),
        ({"kernels": ["gemm"], "hardware": "h100-sxn"}, "h100-sxm"),
    ],
)
def test_mistakes_name_the_fix(given: dict[str, Any], said: str) -> None:
    with pytest.raises(roofline.RooflineError, match=said):
        roofline.measure(device=fake_device(), **{"hardware": None, **given})
