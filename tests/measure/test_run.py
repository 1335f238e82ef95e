"""From an operator to a measured result, on a scripted device that computes on the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest
import torch

from roofline.errors import MeasurementInvalidError, UsageError
from roofline.measure.base import OutOfDeviceMemory, Procedure
from roofline.measure.cpu import CpuDevice
from roofline.measure.registry import KERNELS
from roofline.measure.run import Case, launch_of, measure_op, measure_sequence, place, scaled
from roofline.measure.spec import KernelSpec
from roofline.ops import OPERATORS
from roofline.ops.elementwise import Elementwise
from roofline.ops.gemm import Gemm
from roofline.ops.softmax import Softmax
from roofline.report.model import MeasuredResult
from roofline.testing import FakeDevice, InlineWatch

from .conftest import fake_device

QUICK = Procedure(blocks=3, warmup_s=0.01, fewest_samples=9, shortest_s=0.01, longest_s=0.5)
PRODUCT = Gemm(m=32, n=32, k=32, dtype="fp32")
ROWS = Softmax(rows=32, cols=32, dtype="fp32")
GEMM, SOFTMAX = KERNELS["gemm"], KERNELS["softmax"]


def case(spec: KernelSpec = GEMM, op: Any = PRODUCT, direction: str = "forward") -> Case:
    return Case(id="a", spec=spec, op=op, direction=direction)


def own(build: str) -> Case:
    """A kernel of a test's, named as a user names it."""
    return case(replace(GEMM, name=build, build=build, build_backward=None))


def run(device: FakeDevice, of: Case | None = None, procedure: Procedure = QUICK, **options: Any) -> MeasuredResult:
    return measure_op(of or case(), device, procedure, watch=InlineWatch, **options)


class TestResult:
    def test_it_is_the_time_of_a_call_with_interval_samples_and_blocks(self) -> None:
        found = run(fake_device(call_s=7e-6, noise=0.01))
        assert found.time_s == pytest.approx(7e-6, rel=0.02)
        assert found.interval_s
        assert found.interval_s[0] <= found.time_s <= found.interval_s[1]
        assert found.samples_s
        assert found.blocks
        assert len(found.samples_s) == len(found.blocks) >= QUICK.fewest_samples
        assert min(found.samples_s) <= found.interval_s[0] <= found.interval_s[1] <= max(found.samples_s)

    def test_it_says_how_it_was_run_and_what_the_clocks_did(self) -> None:
        found = run(fake_device(sm_mhz=1755.0, power_w=612.0))
        conditions = {k: found.conditions[k] for k in ("kernel", "device", "cache", "launch", "mode")}
        assert conditions == {"kernel": "gemm", "device": "Fake device", "cache": "cold", "launch": "graph", "mode": "burst"}
        assert (found.clocks["sm_mhz_median"], found.clocks["power_w_max"]) == (1755.0, 612.0)

    def test_the_worse_of_both_checks_is_told(self) -> None:
        found = run(fake_device())
        assert found.check
        assert found.check.passed
        assert 0 < found.check.error <= found.check.tolerance

    def test_equal_scripts_give_equal_results(self) -> None:
        one, other = (run(fake_device(noise=0.02, seed=4)) for _ in range(2))
        assert one == other

    def test_a_clock_that_is_not_told_is_none(self) -> None:
        found = run(fake_device(missing={"sm_mhz": "no", "power_w": "no"}))
        assert found.clocks["sm_mhz_median"] is found.clocks["power_w_max"] is None

    def test_forward_and_backward_are_one_call(self) -> None:
        device = fake_device()
        run(device, case(direction="forward+backward"))
        assert [len(result) for result in device.runners[-1].results] == [2] * len(device.runners[-1].results)

    def test_the_real_cpu_is_measured_and_warm_is_one_set(self) -> None:
        quick = replace(QUICK, cache="warm", launch="eager")
        began = time.perf_counter()
        found = measure_op(case(op=replace(PRODUCT, m=256)), CpuDevice(), quick)
        assert (found.status, found.conditions["input_sets"], found.conditions["launch"]) == ("ok", 1, "eager")
        assert 1e-7 < found.time_s < time.perf_counter() - began


class TestLaunch:
    def test_a_cpu_has_no_graphs(self) -> None:
        assert launch_of(case(), CpuDevice(), Procedure(launch="graph")) == "eager"

    @pytest.mark.parametrize(("direction", "launch"), [("forward", "graph"), ("backward", "eager"), ("forward+backward", "eager")])
    def test_a_pass_through_autograd_is_launched_from_python(self, direction: str, launch: str) -> None:
        spec = replace(GEMM, capture_backward=False)
        assert launch_of(case(spec, direction=direction), fake_device(), QUICK) == launch

    def test_another_launch_than_asked_for_is_said(self) -> None:
        found = run(fake_device(), case(replace(GEMM, capture_backward=False), direction="backward"))
        assert any("cannot be captured" in note for note in found.notes)
        assert found.conditions["launch"] == "eager"
        assert run(fake_device(), case()).notes == ()

    def test_only_a_cuda_device_is_cuda_to_torch(self) -> None:
        assert place(fake_device()) == place(CpuDevice()) == "cpu"
        assert place(fake_device(info={"kind": "cuda"})) == "cuda:0"


class TestRotation:
    """Whether the cache was cold is seen in the outputs, and not believed."""

    def test_sets_that_hold_three_caches_were_touched_and_nothing_is_said(self) -> None:
        device = fake_device(executes=True)
        found = run(device)
        assert found.conditions["input_sets"] == len(device.runners[-1].results) > 3
        assert found.notes == ()

    def test_a_runner_that_goes_through_some_sets_only_is_found_out(self) -> None:
        found = run(fake_device(executes=True, touches=2))
        assert any("not cold: only 2 of 8 input sets were touched" in note for note in found.notes)

    def test_so_is_one_that_claims_all_and_computes_none(self) -> None:
        device = fake_device(executes=True)
        prepare = device.prepare
        device.prepare = lambda calls, repeats, launch: _idle(prepare(calls, repeats, launch))  # type: ignore[method-assign]
        assert any("only 0 of 8" in note for note in run(device).notes)

    def test_so_are_calls_that_share_one_output(self) -> None:
        found = run(fake_device(executes=True), own("tests.measure.kernels_of_tests:one_output"))
        assert any("only 1 of 8" in note for note in found.notes)

    def test_results_that_are_inputs_stay_whole(self) -> None:
        adamw = KERNELS["adamw"]
        op = OPERATORS["adamw"](**adamw.small)
        device = fake_device(executes=True, l2_bytes=100.0)
        found = run(device, case(adamw, op))
        flat = [t for result in device.runners[-1].results for t in result]
        assert found.status == "ok"
        assert all(bool(torch.isfinite(t.float()).all()) for t in flat)

    @pytest.mark.parametrize("name", ["softmax", "cross_entropy", "embedding", "dropout", "transpose", "reduction", "layernorm"])
    def test_every_kind_of_output_shows_it(self, name: str) -> None:
        spec = KERNELS[name]
        op = OPERATORS[spec.op](**{**spec.small, **spec.fields})
        whole, part = (run(fake_device(executes=True, touches=t), case(spec, op)) for t in (None, 1))
        assert not any("were touched" in note for note in whole.notes)
        assert any("only 1 of" in note for note in part.notes)

    def test_gradients_show_it(self) -> None:
        found = run(fake_device(executes=True, touches=1), case(SOFTMAX, ROWS, "backward"))
        assert any("only 1 of" in note for note in found.notes)

    def test_the_cpu_rotates_as_it_says(self) -> None:
        device = CpuDevice()
        device.info = replace(device.info, l2_bytes=100e3)
        found = measure_op(case(), device, replace(QUICK, launch="eager"))
        assert found.conditions["input_sets"] > 3  # type: ignore[operator]
        assert not any("not cold" in note for note in found.notes)

    def test_memory_for_few_sets_is_said_to_be_warm(self) -> None:
        found = run(fake_device(executes=True, memory_bytes=100e3))
        assert any(note.startswith("not cold") for note in found.notes)

    def test_warm_asks_for_nothing(self) -> None:
        found = run(fake_device(executes=True), procedure=replace(QUICK, cache="warm"))
        assert (found.conditions["input_sets"], found.notes) == (1, ())


def _idle(runner: Any) -> Any:
    runner._each = [lambda r=r: r for r in runner.results]
    return runner


class TestContained:
    """What goes wrong with a kernel is its own result."""

    def failing(self, error: Exception, at: int = 1) -> FakeDevice:
        device = fake_device()
        prepare, count = device.prepare, [0]

        def broken(*args: Any) -> Any:
            count[0] += 1
            if count[0] >= at:
                raise type(error)(*error.args)  # a new one, since a kept one holds all that it came through
            return prepare(*args)

        device.prepare = broken  # type: ignore[method-assign]
        return device

    @pytest.mark.parametrize(
        "error",
        [
            OutOfDeviceMemory("24 GB are needed"),
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 24 GB\nmore"),
            MemoryError(),
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 24 GB"),
            RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
        ],
        ids=lambda e: type(e).__name__,
    )
    @pytest.mark.parametrize("at", [1, 2])
    def test_memory_that_does_not_suffice_is_the_result(self, error: Exception, at: int) -> None:
        device = self.failing(error, at)
        found = run(device)
        assert (found.status, found.time_s, found.samples_s) == ("oom", 0.0, None)
        assert "\n" not in found.notes[0]
        assert device.caches_emptied == 1
        assert all(runner.closed for runner in device.runners)
        assert found.check
        assert found.check.passed

    def test_memory_is_given_back_when_nothing_holds_the_tensors_any_more(self) -> None:
        device = self.failing(OutOfDeviceMemory("no"), 1)
        made: list[Any] = []
        prepare = device.prepare

        def watched(calls: Any, repeats: int, launch: str) -> Any:
            made.extend(ref(call) for call in calls)
            return prepare(calls, repeats, launch)

        device.prepare = watched  # type: ignore[method-assign]
        alive: list[int] = []
        device.empty_cache = lambda: alive.append(sum(r() is not None for r in made))  # type: ignore[method-assign]
        run(device)
        assert made
        assert alive == [0]

    def test_what_cannot_fit_is_not_even_tried(self) -> None:
        device = fake_device(memory_bytes=10e3)
        found = run(device)
        assert (found.status, device.runners) == ("oom", [])
        assert "are needed and 10.00 kB are free" in found.notes[0]

    def test_a_capture_that_fails_is_failed_with_the_way_out(self) -> None:
        found = run(fake_device(capture_fails="it synchronises"))
        assert found.status == "failed"
        assert "it synchronises" in found.notes[0]

    def test_an_exception_of_the_kernel_is_told_with_its_place(self) -> None:
        found = run(fake_device(), own("tests.measure.kernels_of_tests:raises"))
        assert (found.status, found.check) == ("failed", None)
        assert found.notes[0].startswith("ValueError: my own mistake (kernels_of_tests.py:")

    def test_a_device_that_cannot_even_free_is_no_traceback(self) -> None:
        device = self.failing(RuntimeError("CUDA error: an illegal memory access was encountered\ncompile with"))

        def broken() -> None:
            raise RuntimeError("CUDA error again")

        device.empty_cache = broken  # type: ignore[method-assign]
        found = run(device)
        assert found.status == "failed"
        assert "illegal memory access was encountered" in found.notes[0]

    def test_what_the_user_must_repair_is_raised(self) -> None:
        with pytest.raises(UsageError, match="has no backward"):
            run(fake_device(), case(replace(GEMM, build_backward=None), direction="backward"))

    def test_invalid_measurements_from_below_are_failed(self) -> None:
        assert run(self.failing(MeasurementInvalidError("odd"))).notes == ("odd",)


class TestWrong:
    """Row 31: a kernel that does not compute what it says is never timed."""

    @pytest.mark.parametrize("name", ["zeros", "nothing", "stale", "wrong_shape", "none"])
    def test_wrong_output_is_invalid_and_never_timed(self, name: str) -> None:
        device = fake_device()
        found = run(device, own(f"tests.measure.kernels_of_tests:{name}"))
        assert (found.status, found.time_s, device.samples, device.runners) == ("invalid", 0.0, 0, [])
        assert found.check
        assert not found.check.passed
        assert "its output is" in found.notes[0]

    def test_a_kernel_that_tires_is_found_out_afterwards(self) -> None:
        import tests.measure.kernels_of_tests as own_kernels

        own_kernels.CALLS[0] = 0
        found = run(fake_device(), own("tests.measure.kernels_of_tests:tires"))
        assert (found.status, found.check and found.check.passed) == ("invalid", False)
        assert "after timing" in found.notes[-1]


class TestSequence:
    def pairs(self) -> list[tuple[Case, int]]:
        return [(case(), 3), (case(SOFTMAX, ROWS), 1)]

    def whole(self, device: FakeDevice, procedure: Procedure = QUICK, **options: Any) -> MeasuredResult:
        return measure_sequence(self.pairs(), device, procedure, watch=InlineWatch, **options)

    def test_it_is_one_run_of_every_call_in_order(self) -> None:
        device = fake_device(call_s=lambda i: (1e-6, 1e-6, 1e-6, 5e-6)[i])
        found = self.whole(device)
        assert found.time_s == pytest.approx(8e-6)
        assert found.samples_s
        assert found.samples_s[0] == pytest.approx(8e-6)
        assert found.interval_s == pytest.approx((8e-6, 8e-6))
        assert [tuple(r.shape) for r in device.runners[-1].results] == [(32, 32)] * 4

    def test_repetitions_share_their_tensors_and_steps_do_not(self) -> None:
        device = fake_device()
        self.whole(device)
        places = [r.data_ptr() for r in device.runners[-1].results]
        assert len(set(places[:3])) == 1
        assert places[3] != places[0]

    def test_it_runs_warm_whatever_was_asked_and_says_so(self) -> None:
        found = self.whole(fake_device())
        assert (found.conditions["cache"], found.source) == ("warm", "a run of the whole sequence")

    def test_one_step_that_cannot_be_captured_makes_the_whole_eager(self) -> None:
        spec = replace(GEMM, capture_backward=False)
        forward = measure_sequence([(case(spec), 1)], fake_device(), QUICK, watch=InlineWatch)
        both = measure_sequence([(case(spec, direction="backward"), 1), (case(), 1)], fake_device(), QUICK, watch=InlineWatch)
        assert (forward.conditions["launch"], both.conditions["launch"]) == ("graph", "eager")

    def test_steps_that_fit_alone_and_not_together_are_out_of_memory(self) -> None:
        device = fake_device(memory_bytes=20e3)
        assert run(device).status == "ok"
        found = self.whole(device)
        assert (found.status, found.time_s) == ("oom", 0.0)
        assert "are needed" in found.notes[0]

    def test_an_allocator_that_fails_is_out_of_memory(self) -> None:
        device = fake_device()
        device.prepare = lambda *args: (_ for _ in ()).throw(OutOfDeviceMemory("full"))  # type: ignore[method-assign]
        found = self.whole(device)
        assert (found.status, found.notes, device.caches_emptied) == ("oom", ("full",), 1)

    def test_scaling_keeps_what_is_missing(self) -> None:
        assert scaled(MeasuredResult(time_s=2.0, source="x"), 3).time_s == 6.0


def test_an_elementwise_kernel_of_more_sets_than_may_be_made_says_that_it_is_not_cold() -> None:
    spec = KERNELS["elementwise"]
    op = Elementwise(function="gelu", elements=4, dtype="fp32")
    found = run(fake_device(l2_bytes=50e6), case(spec, op), replace(QUICK, most_sets=4))
    assert any(note.startswith("not cold") for note in found.notes)


def test_progress_goes_from_nothing_to_everything() -> None:
    seen: list[float] = []
    call: Callable[[float], None] = seen.append
    run(fake_device(), progress=call)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
