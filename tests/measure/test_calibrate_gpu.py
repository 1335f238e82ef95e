"""Calibration on a real GPU, in its quick form: every ceiling is measured, and none is beyond what the chip can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline.hardware.profile import Absent, si
from roofline.measure.calibrate import Calibration, calibrate, sizes_for
from roofline.measure.profile_file import profile_text
from roofline.spec.hardware import load_hardware

pytestmark = pytest.mark.gpu
ABOVE = 1.12
"""Peaks are stated at a clock that boost exceeds by up to 8 %."""


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    from roofline.measure.device import open_device

    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    device = open_device("cuda")
    return calibrate(device, sizes_for(device.info, quick=True, free_bytes=device.free_bytes()))


def test_every_ceiling_is_measured_on_a_gpu_with_triton_and_a_compiler(calibration: Calibration) -> None:
    assert {name: f.reason for name, f in calibration.found.items() if isinstance(f, Absent)} == {}


def test_no_ceiling_is_beyond_the_published_peak_at_boost_clock(calibration: Calibration, tmp_path: Path) -> None:
    from roofline.measure.match import profile_for

    base = profile_for(calibration.info)
    path = tmp_path / "mine.yaml"
    path.write_text(profile_text(calibration, base, "mine"))
    profile = load_hardware(str(path))
    beyond = {n: m.value for n, m in calibration.measured.items() if m.value > ABOVE * (si(profile.published(n)) or float("inf"))}
    assert beyond == {}


def test_shared_memory_moves_at_most_its_banks_a_clock(calibration: Calibration) -> None:
    found = calibration.measured["smem.read"]
    assert found.clock_hz
    assert found.value / found.clock_hz / (calibration.info.processors or 1) <= 128 * 1.02
