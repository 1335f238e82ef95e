"""NVML by value or reason: whatever fails, in whatever way, there is an answer."""

from __future__ import annotations

import os
from typing import Any

import pytest

from roofline.measure.events import NAMES, event_names
from roofline.measure.nvml import Answer, Nvml, NvmlDevice, ask, open_nvml, read, reason_of
from roofline.testing import FakeGpu, FakeNvml, FakeNvmlError

CODES = [*range(1, 31), 999, 12345]
DEVICE_QUERIES = {
    "name": ["nvmlDeviceGetName"],
    "uuid": ["nvmlDeviceGetUUID"],
    "memory_bytes": ["nvmlDeviceGetMemoryInfo"],
    "sm_mhz": ["nvmlDeviceGetClockInfo"],
    "max_sm_mhz": ["nvmlDeviceGetMaxClockInfo"],
    "memory_mhz": ["nvmlDeviceGetClockInfo"],
    "max_memory_mhz": ["nvmlDeviceGetMaxClockInfo"],
    "power_w": ["nvmlDeviceGetPowerUsage"],
    "power_limit_w": ["nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"],
    "default_power_limit_w": ["nvmlDeviceGetPowerManagementDefaultLimit"],
    "temperature_c": ["nvmlDeviceGetTemperature"],
    "event_reasons": ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"],
    "ecc_enabled": ["nvmlDeviceGetEccMode"],
    "ecc_uncorrected": ["nvmlDeviceGetTotalEccErrors"],
    "mig": ["nvmlDeviceGetMigMode"],
}
"""Each query with the functions that it needs, all of them made to fail."""


def opened(*gpus: FakeGpu, **options: Any) -> Nvml:
    answer = open_nvml(FakeNvml(gpus or [FakeGpu()], **options))
    assert answer.reason is None
    found: Nvml = answer.value
    return found


def gpu(fake: FakeGpu | None = None, **options: Any) -> NvmlDevice:
    return opened(fake or FakeGpu(), **options).devices()[0]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("query", DEVICE_QUERIES)
def test_each_query_answers_each_error_with_its_reason(query: str, code: int) -> None:
    answer = getattr(gpu(fail=dict.fromkeys(DEVICE_QUERIES[query], code)), query)()
    assert answer == (None, reason_of(FakeNvmlError(code)))
    assert answer.reason


@pytest.mark.parametrize("query", DEVICE_QUERIES)
def test_each_query_answers_a_function_that_the_module_lacks(query: str) -> None:
    answer = getattr(gpu(lacks=DEVICE_QUERIES[query]), query)()
    assert answer.value is None
    assert "older than this query" in answer.reason


@pytest.mark.parametrize("query", DEVICE_QUERIES)
def test_each_query_gives_a_value_where_nothing_fails(query: str) -> None:
    answer = getattr(gpu(), query)()
    assert answer.reason is None
    assert answer.value is not None


@pytest.mark.parametrize("code", CODES)
def test_initialisation_answers_each_error(code: int) -> None:
    assert open_nvml(FakeNvml(fail={"nvmlInit": code})) == (None, reason_of(FakeNvmlError(code)))


@pytest.mark.parametrize("code", CODES)
def test_system_queries_answer_each_error(code: int) -> None:
    functions = ("nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex")
    nvml = opened(fail=dict.fromkeys(functions, code))
    assert nvml.driver().reason == nvml.cuda().reason == reason_of(FakeNvmlError(code))
    assert nvml.devices() == []


@pytest.mark.parametrize(("code", "words"), [(12, "libnvidia-ml.so.1"), (18, "reboot"), (4, "no permission"), (9, "modprobe nvidia")])
def test_the_usual_failures_come_with_a_fix(code: int, words: str) -> None:
    assert words in str(open_nvml(FakeNvml(fail={"nvmlInit": code})).reason)


def test_a_package_that_is_not_installed_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    assert "pip install nvidia-ml-py" in str(open_nvml().reason)


def test_the_real_module_answers_on_any_machine() -> None:
    answer = open_nvml()
    assert (answer.value is None) != (answer.reason is None)


def test_an_error_that_cannot_even_be_named_is_a_reason() -> None:
    class Unnameable(Exception):
        value = 77

        def __str__(self) -> str:
            raise FakeNvmlError(1)

    assert reason_of(Unnameable()).startswith("NVML error 77")


@pytest.mark.parametrize("error", [OSError("libc"), TypeError("arity"), UnicodeDecodeError("utf-8", b"", 0, 1, "bad")])
def test_errors_that_are_not_nvmls_are_reasons_too(error: Exception) -> None:
    class Module:
        def nvmlThing(self) -> None:  # noqa: N802
            raise error

    assert type(error).__name__ in str(ask(Module(), "nvmlThing").reason)


class TestEventReasons:
    def test_the_old_name_is_used_where_the_driver_lacks_the_new_one(self) -> None:
        assert gpu(FakeGpu(event_reasons=0x40), fail={"nvmlDeviceGetCurrentClocksEventReasons": 13}).event_reasons() == (0x40, None)

    def test_the_old_name_is_used_where_the_module_lacks_the_new_one(self) -> None:
        assert gpu(FakeGpu(event_reasons=0x8), lacks=["nvmlDeviceGetCurrentClocksEventReasons"]).event_reasons() == (0x8, None)

    def test_bits_have_the_names_and_values_of_the_real_module(self) -> None:
        import pynvml

        for bit, name in [(0x4, "SwPowerCap"), (0x8, "HwSlowdown"), (0x20, "SwThermalSlowdown"), (0x40, "HwThermalSlowdown")]:
            assert getattr(pynvml, f"nvmlClocksEventReason{name}") == bit
        assert pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown == 0x80
        assert pynvml.nvmlClocksEventReasonAll == sum(NAMES)

    def test_every_bit_has_a_name(self) -> None:
        assert event_names(0x1FF) == list(NAMES.values())
        assert event_names(0) == []


class TestFinding:
    GPUS = (FakeGpu(uuid="GPU-aaa", pci="00000000:03:00.0", sm_mhz=300), FakeGpu(uuid="GPU-bbb", pci="00000000:01:00.0", sm_mhz=1900))

    def test_cudas_bare_uuid_finds_the_device_whatever_its_number(self) -> None:
        assert opened(*self.GPUS).find("bbb", None).value.sm_mhz() == (1900, None)

    def test_a_full_uuid_finds_it_too(self) -> None:
        assert opened(*self.GPUS).find("GPU-aaa", None).value.sm_mhz() == (300, None)

    def test_a_slice_is_found_by_its_own_uuid(self) -> None:
        assert opened(FakeGpu(uuid="MIG-ccc", is_slice=1)).find("ccc", None).value.mig() == ("slice", None)

    def test_the_pci_address_is_second_choice(self) -> None:
        assert opened(*self.GPUS).find("unknown", "00000000:01:00.0").value.uuid() == ("GPU-bbb", None)

    def test_neither_is_a_reason_and_never_the_first_device(self) -> None:
        assert opened(*self.GPUS).find(None, None).value is None
        assert opened(*self.GPUS).find("zzz", "00000000:09:00.0") == (None, "not found")

    @pytest.mark.parametrize("code", CODES)
    def test_each_error_is_a_reason(self, code: int) -> None:
        nvml = opened(fail={"nvmlDeviceGetHandleByUUID": code, "nvmlDeviceGetHandleByPciBusId": code})
        assert nvml.find("aaa", "00000000:01:00.0").reason == reason_of(FakeNvmlError(code))


class TestProcesses:
    def test_our_own_is_not_another(self) -> None:
        assert gpu(FakeGpu(pids=[os.getpid()])).other_processes(own_context=True) == (0, None)

    def test_others_are_counted_once(self) -> None:
        assert gpu(FakeGpu(pids=[os.getpid(), 1, 1, 2])).other_processes(own_context=True) == (2, None)

    def test_in_a_container_one_foreign_number_is_ours(self) -> None:
        assert gpu(FakeGpu(pids=[99999999])).other_processes(own_context=True) == (0, None)
        assert gpu(FakeGpu(pids=[99999999])).other_processes(own_context=False) == (1, None)

    @pytest.mark.parametrize("code", CODES)
    def test_each_error_is_a_reason(self, code: int) -> None:
        answer = gpu(fail={"nvmlDeviceGetComputeRunningProcesses": code}).other_processes(own_context=False)
        assert answer == (None, reason_of(FakeNvmlError(code)))


class TestValues:
    def test_units_are_si(self) -> None:
        device = gpu(FakeGpu(power_mw=412_500, power_limit_mw=700_000))
        assert (device.power_w().value, device.power_limit_w().value) == (412.5, 700.0)

    def test_cuda_version_is_read_from_its_number(self) -> None:
        assert opened(cuda=12080).cuda() == ("12.8", None)

    def test_a_divided_gpu_is_on(self) -> None:
        assert (gpu(FakeGpu(mig=(1, 1))).mig().value, gpu(FakeGpu(mig=(0, 1))).mig().value) == ("on", "off")

    def test_bytes_of_old_modules_are_text(self) -> None:
        assert gpu(FakeGpu(name=b"Tesla T4")).name() == ("Tesla T4", None)  # type: ignore[arg-type]


class TestReading:
    def test_all_values_are_there(self) -> None:
        reading = read(Answer(gpu(FakeGpu(event_reasons=4, power_mw=500_000)), None), 1.5)
        assert (reading.time_s, reading.sm_mhz, reading.power_w, reading.event_reasons, reading.missing) == (1.5, 1980, 500.0, 4, {})

    def test_what_fails_is_missing_with_its_reason_and_the_rest_is_there(self) -> None:
        reading = read(Answer(gpu(fail={"nvmlDeviceGetPowerUsage": 3}), None), 0.0)
        assert reading.power_w is None
        assert dict(reading.missing) == {"power_w": reason_of(FakeNvmlError(3))}
        assert reading.sm_mhz == 1980

    @pytest.mark.parametrize("code", CODES)
    def test_no_error_in_any_query_gets_out(self, code: int) -> None:
        every = FakeNvml().queries
        device = NvmlDevice(FakeNvml([FakeGpu()], fail=dict.fromkeys(every, code)), FakeGpu())
        assert len(read(Answer(device, None), 0.0).missing) == 6

    def test_without_a_device_everything_is_missing_for_that_reason(self) -> None:
        reading = read(Answer(None, "no library"), 0.0)
        assert set(reading.missing.values()) == {"no library"}
        assert len(reading.missing) == 6
