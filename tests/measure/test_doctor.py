"""``roofline doctor`` looks, says what is missing with the fix, and never fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.measure import doctor
from roofline.measure.base import DeviceInfo
from roofline.measure.doctor import STATES, Finding, examine, profile_finding
from roofline.testing import FakeGpu, FakeNvml


def found(name: str, *gpus: FakeGpu, **options: Any) -> Finding:
    return next(f for f in doctor._gpus(FakeNvml(gpus, **options)) if f.name == name)


def test_the_command_ends_well_and_names_what_there_is() -> None:
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0, done.output
    for name in ("python", "roofline", "torch", "cpu"):
        assert any(line.split()[1] == name for line in done.stdout.splitlines())


def test_json_has_a_version_and_each_finding_all_keys() -> None:
    data = json.loads(CliRunner().invoke(app, ["doctor", "--format", "json"]).stdout)
    assert data["schema"] == 1
    assert all(f.keys() == {"name", "state", "text", "fix"} and f["state"] in STATES for f in data["findings"])


def test_a_file_and_an_unknown_format(tmp_path: Path) -> None:
    target = tmp_path / "doctor.json"
    assert CliRunner().invoke(app, ["doctor", "-o", str(target)]).exit_code == 0
    assert json.loads(target.read_text())["schema"] == 1
    assert CliRunner().invoke(app, ["doctor", "--format", "yaml"]).exit_code == 2


def test_without_torch_it_still_looks_and_gives_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0
    assert "-> uv pip install torch --torch-backend=auto" in done.stdout


@pytest.mark.parametrize("code", [*range(1, 31), 999])
def test_no_error_of_nvml_is_a_traceback(code: int) -> None:
    module = FakeNvml([FakeGpu()])
    for name in module.queries:
        module.fail = {name: code}
        assert all(f.state in STATES and f.text for f in doctor._gpus(module)), name
    module.fail = dict.fromkeys(module.queries, code)
    assert [f.state for f in doctor._gpus(module)] == ["missing"]


def test_a_library_of_another_version_is_explained() -> None:
    finding = found("nvml", fail={"nvmlInit": 18})
    assert "different versions" in finding.text
    assert "reboot" in str(finding.fix)


def test_no_gpu_is_missing() -> None:
    assert found("gpu").state == "missing"


def test_a_healthy_gpu_is_ok_throughout() -> None:
    assert {f.state for f in doctor._gpus(FakeNvml([FakeGpu()]))} == {"ok"}


@pytest.mark.parametrize(
    ("gpu", "name", "words"),
    [
        (FakeGpu(mig=(1, 1)), "gpu 0 MIG", "calibrate"),
        (FakeGpu(event_reasons=0x40), "gpu 0 clock events", "cool"),
        (FakeGpu(power_limit_mw=400_000), "gpu 0 power", "nvidia-smi -pl 700"),
        (FakeGpu(ecc_uncorrected=3), "gpu 0 ECC", "replace"),
        (FakeGpu(pids=[1, 2]), "gpu 0 processes", "--device cuda:N"),
    ],
)
def test_each_disturbance_is_noted_with_what_to_do(gpu: FakeGpu, name: str, words: str) -> None:
    finding = found(name, gpu)
    assert finding.state == "note"
    assert words in str(finding.fix)


def test_a_power_cap_alone_is_no_disturbance() -> None:
    assert found("gpu 0 clock events", FakeGpu(event_reasons=0x4)).state == "ok"


@pytest.mark.parametrize(("text", "state"), [("RmProfilingAdminOnly: 1\n", "note"), ("RmProfilingAdminOnly: 0\n", "ok")])
def test_the_permission_for_counters_is_read_from_the_driver(
    text: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "params").write_text(text)
    monkeypatch.setattr(doctor, "DRIVER_SETTINGS", tmp_path / "params")
    assert [f.state for f in doctor._counters()] == [state]


def test_the_profile_of_a_known_device_is_named_and_of_an_unknown_one_asked_for() -> None:
    known, unknown = (
        profile_finding("p", DeviceInfo(kind="cuda", name=name, uuid=None, memory_bytes=None, l2_bytes=None, processors=132))
        for name in ("NVIDIA H200", "NVIDIA H20")
    )
    assert known.text.startswith("h200-sxm")
    assert unknown.state == "missing"
    assert "-H" in str(unknown.fix)


def test_a_look_that_fails_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> Any:
        raise RuntimeError("surprise")

    monkeypatch.setattr(doctor, "_triton", failing)
    finding = next(f for f in examine(FakeNvml()) if "could not look" in f.text)
    assert "surprise" in finding.text


def test_a_hostile_name_cannot_reach_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "open_nvml", lambda module: __import__("roofline.measure.nvml", fromlist=["x"]).Answer(None, "\x1b[2J"))
    assert "\x1b" not in CliRunner().invoke(app, ["doctor"]).stdout
