"""The stand-ins do what their documentation says: tests of users lean on them."""

from __future__ import annotations

import inspect

import pytest

import roofline.testing as public
from roofline.errors import MeasurementInvalidError
from roofline.measure.base import Device, OutOfDeviceMemory, Procedure, Runner
from roofline.measure.timing import measure
from roofline.measure.watch import Watch
from roofline.testing import Episode, FakeClock, FakeDevice, FakeGpu, FakeNvml, FakeNvmlError, InlineWatch


def test_the_example_of_the_documentation_runs() -> None:
    clock = FakeClock()
    device = FakeDevice(call_s=10e-6, noise=0.01, clock=clock)
    timing = measure(device, lambda repeats: device.prepare([int], repeats, "graph"), Procedure(), watch=InlineWatch)
    assert timing.status == "ok"
    assert clock.now_s > 0.5


def test_fakes_have_all_that_the_protocols_ask() -> None:
    device: Device = FakeDevice()
    runner: Runner = device.prepare([int], 1, "graph")
    watch: Watch = InlineWatch(device)
    for fake, protocol in ((device, Device), (runner, Runner), (watch, Watch)):
        for name, member in inspect.getmembers(protocol, inspect.isfunction):
            if not name.startswith("_"):
                assert inspect.signature(getattr(type(fake), name)).parameters.keys() == inspect.signature(member).parameters.keys()


def test_everything_public_is_documented() -> None:
    assert all((getattr(public, name).__doc__ or "").strip() for name in public.__all__)


def test_calls_are_executed_once_when_prepared_and_results_kept() -> None:
    seen: list[int] = []
    runner = FakeDevice().prepare([lambda: seen.append(1) or "out"], 100, "graph")
    runner.time()
    assert (seen, runner.results) == ([1], ["out"])


def test_each_input_set_may_have_its_own_time() -> None:
    runner = FakeDevice(call_s=lambda i: (1.0, 2.0)[i]).prepare([int, int], 3, "graph")
    assert runner.time() == pytest.approx(9.0)


def test_an_episode_slows_marks_and_ends() -> None:
    device = FakeDevice(call_s=1.0, episodes=[Episode(start_s=1, end_s=2, bits=0x40, slower=3.0, sm_mhz=900)])
    runner = device.prepare([int], 1, "graph")
    assert (runner.time(), device.reading().event_reasons, device.reading().sm_mhz) == (1.0, 0x40, 900)
    assert (runner.time(), device.reading().event_reasons, device.reading().sm_mhz) == (3.0, 0, 1980)


def test_pause_passes_time_and_nothing_else_does() -> None:
    device = FakeDevice()
    device.pause(3)
    assert (device.now(), device.paused_s) == (3, 3)


def test_memory_and_capture_fail_as_scripted() -> None:
    with pytest.raises(OutOfDeviceMemory):
        FakeDevice(memory_bytes=10, bytes_per_set=6).prepare([int, int], 1, "graph")
    with pytest.raises(MeasurementInvalidError, match="because"):
        FakeDevice(capture_fails="because").prepare([int], 1, "graph")
    FakeDevice(capture_fails="because").prepare([int], 1, "eager")


def test_a_closed_runner_is_no_longer_good() -> None:
    runner = FakeDevice().prepare([int], 1, "graph")
    runner.close()
    with pytest.raises(RuntimeError, match="closed"):
        runner.time()


def test_nvml_replays_a_list_and_stays_at_its_end() -> None:
    nvml = FakeNvml([FakeGpu(sm_mhz=[1980, 1500])])
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    assert [nvml.nvmlDeviceGetClockInfo(handle, 1) for _ in range(4)] == [1980, 1500, 1500, 1500]


def test_nvml_fails_and_lacks_as_scripted_and_remembers_calls() -> None:
    nvml = FakeNvml([FakeGpu()], fail={"nvmlInit": 18}, lacks=["nvmlDeviceGetName"])
    with pytest.raises(FakeNvmlError) as caught:
        nvml.nvmlInit()
    assert caught.value.value == 18
    assert not hasattr(nvml, "nvmlDeviceGetName")
    assert nvml.called == ["nvmlInit"]


def test_nvml_names_are_those_of_the_real_module() -> None:
    import pynvml

    assert [name for name in FakeNvml().queries if not hasattr(pynvml, name)] == []
