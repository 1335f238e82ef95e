"""How the CUDA runners drive torch, with a stand-in for it: what is captured, what is timed, and what a failure leaves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from roofline.errors import MeasurementInvalidError
from roofline.measure.base import OutOfDeviceMemory
from roofline.measure.cuda import CudaRunner, GraphRunner, memory_contained


class StubTorch:
    """Enough of torch.cuda to follow what is asked of it; ``log`` tells in which order."""

    def __init__(self, *, empty: bool = False, end_fails: bool = False) -> None:
        self.log: list[str] = []
        self.stream: Any = "default"
        self.capturing = False
        stub = self

        class Graph:
            replay = staticmethod(lambda: stub.log.append("replay"))
            reset = staticmethod(lambda: stub.log.append("reset"))

        class Capture:
            def __init__(self, graph: Any, *, stream: Any, capture_error_mode: str) -> None:
                assert capture_error_mode == "thread_local"
                self.stream = stream

            def __enter__(self) -> None:
                stub.log.append("capture")
                stub.stream, stub.capturing = self.stream, True

            def __exit__(self, *error: object) -> None:
                stub.capturing = False
                if end_fails:
                    raise RuntimeError("capture ended in error")  # and the stream stays, as with torch
                if empty:
                    warnings.warn("The CUDA Graph is empty. This usually means ...", stacklevel=2)
                stub.stream = "default"

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                stub.log.append("event")

            def elapsed_time(self, other: Any) -> float:
                return 2.5

        self.cuda = SimpleNamespace(
            CUDAGraph=Graph,
            graph=Capture,
            Event=Event,
            Stream=lambda: SimpleNamespace(wait_stream=lambda other: None),
            current_stream=lambda: self.stream,
            set_stream=lambda s: setattr(self, "stream", s),
            synchronize=lambda: self.log.append("wait"),
            empty_cache=lambda: self.log.append("emptied"),
            _sleep=lambda cycles: self.log.append("lead"),
        )


def counted(seen: list[int], stub: StubTorch, i: int) -> Callable[[], str]:
    def call() -> str:
        if stub.capturing:
            seen.append(i)
        return f"out {i}"

    return call


def test_every_set_is_captured_in_turn_and_its_result_kept() -> None:
    stub, seen = StubTorch(), list[int]()
    runner = GraphRunner(stub, [counted(seen, stub, i) for i in range(3)], 2)
    assert seen == [0, 1, 2, 0, 1, 2]
    assert (runner.calls, runner.input_sets, runner.launch) == (6, 3, "graph")
    assert runner.results == ["out 0", "out 1", "out 2"]


def test_a_sample_leads_in_then_times_the_replay_alone() -> None:
    stub = StubTorch()
    runner = GraphRunner(stub, [int], 1)
    stub.log.clear()
    assert runner.time() == pytest.approx(2.5e-3)
    assert stub.log == ["lead", "event", "replay", "event", "wait"]


def test_without_a_way_to_wait_on_the_device_a_replay_leads_in() -> None:
    stub = StubTorch()
    del stub.cuda._sleep
    runner = GraphRunner(stub, [int], 1)
    stub.log.clear()
    runner.time()
    assert stub.log == ["replay", "event", "replay", "event", "wait"]


def test_eager_calls_run_between_the_events() -> None:
    stub = StubTorch()
    runner = CudaRunner(stub, [lambda: stub.log.append("call")] * 2, 2)
    stub.log.clear()
    runner.time()
    assert stub.log == ["event", "call", "call", "call", "call", "event", "wait"]


@pytest.mark.parametrize("sets", [1, 2, 5])
def test_libraries_get_three_calls_before_the_capture(sets: int) -> None:
    stub = StubTorch()
    before: list[int] = []
    GraphRunner(stub, [lambda: before.append(1) if not stub.capturing else None] * sets, 1)
    assert len(before) >= max(3, sets)


def test_a_capture_that_fails_says_why_and_gives_the_stream_back() -> None:
    stub = StubTorch(end_fails=True)

    def call() -> None:
        if stub.capturing:
            raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(MeasurementInvalidError, match=r"cannot be captured .*: operation not permitted .*--launch eager"):
        GraphRunner(stub, [call], 1)
    assert stub.stream == "default"
    assert stub.log.count("capture") == 2  # the second, empty one ends what the first has left behind


def test_lack_of_memory_in_a_capture_is_lack_of_memory() -> None:
    stub = StubTorch(end_fails=True)

    def call() -> None:
        if stub.capturing:
            raise RuntimeError("CUDA out of memory")

    with pytest.raises(OutOfDeviceMemory, match="out of memory"), memory_contained(stub):
        GraphRunner(stub, [call], 1)
    assert stub.log[-1] == "emptied"
    assert stub.stream == "default"


def test_an_empty_graph_is_refused() -> None:
    with pytest.raises(MeasurementInvalidError, match="launch no kernel"):
        GraphRunner(StubTorch(empty=True), [int], 1)


def test_a_kernel_that_fails_by_itself_is_not_a_failed_capture() -> None:
    def call() -> None:
        raise ValueError("wrong shape")

    with pytest.raises(ValueError, match="wrong shape"):
        GraphRunner(StubTorch(), [call], 1)


def test_time_that_the_events_do_not_cover_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = StubTorch()
    runner = CudaRunner(stub, [int], 1)
    clock = iter([0.0, 0.001, 0.1, 1.0, 1.001, 1.0525])
    monkeypatch.setattr("roofline.measure.cuda.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    runner.time()
    runner.time()
    assert runner.unaccounted_s == pytest.approx(0.05)


def test_closing_frees_the_graph_and_the_results() -> None:
    stub = StubTorch()
    runner = GraphRunner(stub, [int], 1)
    runner.close()
    assert (runner.results, stub.log[-1]) == ([], "reset")


def test_a_results_history_is_let_go() -> None:
    kept = SimpleNamespace(requires_grad=True, detach=lambda: "detached")
    runner = GraphRunner(StubTorch(), [lambda: (kept, [kept], 3)], 1)
    assert runner.results == [("detached", ("detached",), 3)]
