"""Choosing a device, and the CPU as one. What needs a GPU is marked so."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.errors import MeasurementInvalidError, MissingCapabilityError, UsageError
from roofline.measure import cpu as cpu_module
from roofline.measure.base import OutOfDeviceMemory, Procedure
from roofline.measure.cpu import CpuDevice, memory_contained
from roofline.measure.cuda import _first_cause, _pci, hashed, nvml_facts, out_of_memory
from roofline.measure.device import no_cuda, open_device
from roofline.measure.nvml import Answer, open_nvml
from roofline.measure.timing import measure
from roofline.testing import FakeGpu, FakeNvml


def torch_like(*, cuda: str | None = "13.0", available: bool = False, fails: str = "", count: int = 0) -> Any:
    def init() -> None:
        if fails:
            raise RuntimeError(fails)

    return SimpleNamespace(
        __version__="2.11.0",
        version=SimpleNamespace(cuda=cuda, hip=None),
        cuda=SimpleNamespace(is_available=lambda: available, init=init, device_count=lambda: count),
    )


def ended_by(cause: Exception) -> Exception:
    """What torch raises at the end of a capture that the cause has broken."""
    error = RuntimeError("capture ended in error")
    error.__context__ = cause
    return error


class TestChoice:
    @pytest.mark.parametrize("choice", ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", "cuda:1:2", "auto\n"])
    def test_a_choice_that_is_none_is_refused_with_those_there_are(self, choice: str) -> None:
        with pytest.raises(UsageError, match=r"known: auto, cuda, cuda:N, cpu"):
            open_device(choice)

    @pytest.mark.parametrize("choice", ["auto", "cuda", "cuda:1"])
    def test_without_cuda_the_cpu_is_never_taken_unasked(self, choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("roofline.measure.device.need_torch", lambda: torch_like(cuda=None))
        with pytest.raises(MissingCapabilityError, match="--device cpu") as caught:
            open_device(choice)
        assert caught.value.exit_code == 3
        assert "uv pip install --reinstall torch" in str(caught.value)

    def test_a_number_beyond_the_devices_says_how_many_there_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("roofline.measure.device.need_torch", lambda: torch_like(available=True, count=1))
        with pytest.raises(MissingCapabilityError, match="no cuda:4: one CUDA device is visible"):
            open_device("cuda:4")

    def test_without_torch_the_message_says_how_to_install_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(MissingCapabilityError, match="pip install torch"):
            open_device("cpu")

    @pytest.mark.parametrize("error", [OSError("libcudart.so.13: cannot open"), ImportError("libc10.so", name="torch._C")])
    def test_a_torch_that_does_not_load_is_told_from_one_that_is_not_there(self, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
        def failing(name: str) -> None:
            raise error

        monkeypatch.setattr("roofline.measure.device.importlib", SimpleNamespace(import_module=failing))
        with pytest.raises(MissingCapabilityError, match=r"does not load .*lib.*--reinstall"):
            open_device("cpu")

    @pytest.mark.parametrize(
        ("fails", "words"),
        [
            ("The NVIDIA driver on your system is too old (found version 11040).", "update it"),
            ("Found no NVIDIA driver on your system.", "--gpus all"),
            ("No CUDA GPUs are available", "CUDA_VISIBLE_DEVICES"),
            ("something else\nsecond line", "something else"),
        ],
    )
    def test_each_reason_for_no_cuda_has_its_fix(self, fails: str, words: str) -> None:
        reason = no_cuda(torch_like(fails=fails))
        assert reason is not None
        assert words in reason
        assert "\n" not in reason

    def test_a_device_that_cannot_be_opened_is_no_traceback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        busy = torch_like(available=True, count=1)
        busy.cuda.set_device = lambda i: None
        busy.cuda.init = lambda: (_ for _ in ()).throw(RuntimeError("CUDA error: all CUDA-capable devices are busy\nmore"))
        monkeypatch.setattr("roofline.measure.device.need_torch", lambda: busy)
        monkeypatch.setattr("roofline.measure.cuda.need_torch", lambda: busy)
        with pytest.raises(MissingCapabilityError, match=r"cuda:0 cannot be opened: CUDA error: all .* busy; see"):
            open_device("cuda:0")


class TestCpu:
    def test_it_is_opened_when_it_is_asked_for(self) -> None:
        info = open_device("cpu").info
        assert info.kind == "cpu"
        assert info.name
        assert (info.facts["threads"] or 0) >= 1

    def test_it_times_what_really_passes(self) -> None:
        device = CpuDevice()
        runner = device.prepare([lambda: time.sleep(0.002)] * 3, 2, "eager")
        assert 0.012 <= runner.time() < 0.2
        assert (runner.calls, runner.input_sets, runner.launch) == (6, 3, "eager")

    def test_it_measures_a_sleep_by_its_length(self) -> None:
        device = CpuDevice()
        procedure = Procedure(warmup_s=0.02, fewest_samples=5, shortest_s=0.02, longest_s=0.5, width=1.0)
        timing = measure(device, lambda n: device.prepare([lambda: time.sleep(0.002)], n, "eager"), procedure)
        assert 0.002 <= timing.median_s < 0.02

    def test_each_call_runs_as_often_as_said_and_its_result_is_kept(self) -> None:
        seen: list[int] = []

        def call(i: int) -> Any:
            return lambda: seen.append(i) or i

        runner = CpuDevice().prepare([call(0), call(1)], 3, "eager")
        seen.clear()
        runner.time()
        assert seen == [0, 1] * 3
        assert runner.results == [0, 1]

    def test_it_captures_no_graph_and_says_what_to_do(self) -> None:
        with pytest.raises(MeasurementInvalidError, match="--launch eager"):
            CpuDevice().prepare([int], 1, "graph")

    def test_lack_of_memory_is_told_from_other_errors(self) -> None:
        import torch

        with pytest.raises(OutOfDeviceMemory):
            CpuDevice().prepare([lambda: torch.empty(2**60, dtype=torch.uint8)], 1, "eager")
        with pytest.raises(RuntimeError, match="a kernel's own"), memory_contained():
            raise RuntimeError("a kernel's own")
        with pytest.raises(OutOfDeviceMemory), memory_contained():
            raise MemoryError

    def test_garbage_collection_is_as_before_afterwards(self) -> None:
        import gc

        def failing() -> None:
            if not gc.isenabled():
                raise ValueError("collection is off")

        runner = CpuDevice().prepare([failing], 1, "eager")
        with pytest.raises(ValueError, match="collection is off"):
            runner.time()
        assert gc.isenabled()

    def test_a_reading_has_a_value_or_a_reason_for_everything(self) -> None:
        reading = CpuDevice().reading()
        for name in ("sm_mhz", "memory_mhz", "power_w", "temperature_c", "event_reasons", "ecc_uncorrected"):
            assert (getattr(reading, name) is None) == (name in reading.missing)

    def test_free_memory_is_below_all_memory(self) -> None:
        device = CpuDevice()
        free, whole = device.free_bytes(), device.info.memory_bytes
        assert free is None or whole is None or 0 < free <= whole

    def test_the_limit_of_a_container_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cpu_module, "_available", lambda: 8e9)
        monkeypatch.setattr(cpu_module, "_container_free", lambda: 1e9)
        assert CpuDevice().free_bytes() == 1e9

    def test_a_system_that_tells_nothing_is_a_device_all_the_same(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        monkeypatch.setattr(cpu_module, "_SYSTEM", tmp_path)
        monkeypatch.setattr(cpu_module.os, "sysconf_names", {}, raising=False)
        assert CpuDevice().info.l2_bytes is None


class TestCudaPieces:
    def test_an_error_at_the_end_of_a_capture_does_not_hide_its_cause(self) -> None:
        assert _first_cause(ended_by(ValueError("the kernel synchronised\nat line 3"))) == "the kernel synchronised"

    def test_lack_of_memory_is_seen_through_the_end_of_a_capture(self) -> None:
        assert out_of_memory(ended_by(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")))
        assert not out_of_memory(ended_by(RuntimeError("illegal memory access")))

    def test_a_pci_address_is_written_as_nvml_does(self) -> None:
        properties = SimpleNamespace(pci_domain_id=0, pci_bus_id=0xC1, pci_device_id=0)
        assert _pci(properties) == "00000000:C1:00.0"
        assert _pci(SimpleNamespace()) is None

    def test_the_uuid_is_told_only_as_a_hash(self) -> None:
        assert hashed("GPU-1234") == hashed("1234") != hashed("1235")
        assert "1234" not in hashed("1234")

    def test_facts_say_what_is_missing(self) -> None:
        module = FakeNvml([FakeGpu()], fail={"nvmlDeviceGetMigMode": 3})
        device = open_nvml(module).value.devices()[0]
        facts = nvml_facts(Answer(device, None))
        assert facts["power_limit_w"] == 700.0
        assert facts["mig"] is None
        assert "mig: this GPU or driver does not support it" in str(facts["nvml"])
        assert nvml_facts(Answer(None, "no library")) == {"nvml": "no library"}


def test_the_modules_of_measuring_start_without_torch_and_nvml() -> None:
    code = (
        "import sys, roofline.measure.device, roofline.measure.cuda, roofline.measure.cpu, roofline.measure.nvml, roofline.measure.timing, "
        "roofline.measure.lock, roofline.measure.match, roofline.measure.doctor, roofline.testing, roofline.cli.doctor; "
        "print([m for m in ('torch', 'pynvml', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.gpu
class TestGpu:
    @pytest.fixture
    def device(self) -> Any:
        return open_device("cuda")

    def test_it_knows_itself(self, device: Any) -> None:
        info = device.info
        assert (info.kind, info.facts["nvml"]) == ("cuda", None)
        assert info.l2_bytes > 1e6
        assert info.memory_bytes > device.free_bytes() > 0
        assert not device.reading().missing

    @pytest.mark.parametrize("launch", ["graph", "eager"])
    def test_twice_the_work_takes_twice_as_long(self, device: Any, launch: str) -> None:
        import torch

        x = torch.empty(2**27, device="cuda")
        procedure = Procedure(launch=launch, shortest_s=0.1, longest_s=2)

        def timing(part: Any) -> float:
            return measure(device, lambda n: device.prepare([lambda: part.fill_(1.0)] * 2, n, launch), procedure).median_s

        assert timing(x) / timing(x[: 2**26]) == pytest.approx(2, rel=0.1)

    def test_what_synchronises_cannot_be_captured_and_the_device_lives_on(self, device: Any) -> None:
        import torch

        x = torch.ones(10, device="cuda")
        with pytest.raises(MeasurementInvalidError, match="--launch eager"):
            device.prepare([lambda: x.sum().item()], 1, "graph")
        assert torch.randn(4, device="cuda").isfinite().all()
        assert device.prepare([lambda: x * torch.rand(10, device="cuda")], 3, "graph").time() > 0

    def test_calls_that_launch_nothing_are_refused(self, device: Any) -> None:
        with pytest.raises(MeasurementInvalidError, match="nothing was captured"):
            device.prepare([int], 1, "graph")

    @pytest.mark.parametrize("launch", ["graph", "eager"])
    def test_lack_of_memory_is_contained(self, device: Any, launch: str) -> None:
        import torch

        with pytest.raises(OutOfDeviceMemory):
            device.prepare([lambda: torch.empty(2**50, device="cuda")], 1, launch)
        assert device.prepare([lambda: torch.zeros(10, device="cuda")], 1, launch).time() > 0

    def test_every_set_is_written_by_a_sample(self, device: Any) -> None:
        import torch

        outs = [torch.zeros(1000, device="cuda") for _ in range(7)]
        runner = device.prepare([(lambda o=o: o.add_(1)) for o in outs], 3, "graph")
        for out in outs:
            out.zero_()
        runner.time()
        assert [int(out[0]) for out in outs] == [3] * 7

    def test_results_of_sets_lie_in_memory_of_their_own(self, device: Any) -> None:
        import torch

        x = torch.ones(1000, device="cuda")
        runner = device.prepare([lambda: x * 2] * 5, 4, "graph")
        assert len({r.data_ptr() for r in runner.results}) == 5
