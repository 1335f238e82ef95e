"""What goes wrong while measuring, injected: memory, heat, signals, kill -9, other processes, memory errors, impossible times.

Each keeps a promise: one case does not end the others, nothing complete is lost, and what must not be believed has its exit code.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import roofline.measure.run
from roofline.measure.base import OutOfDeviceMemory, Procedure
from roofline.measure.events import NAMES, POWER_CAP, SLOWDOWN
from roofline.measure.interrupt import Interruption, interruptible
from roofline.measure.plan import plan_of, run_plan
from roofline.report.model import Report
from roofline.report.store import load_report
from roofline.testing import Episode, FakeDevice, FakeRunner, InlineWatch

from .conftest import ROOT, Run, fake_device

On = Callable[..., Any]
SCHEMA = json.loads((ROOT / "docs" / "schema" / "report.json").read_text(encoding="utf-8"))
EVENTS = sorted(NAMES)

jsonschema = pytest.importorskip("jsonschema")  # a machine with a GPU may lack it


def statuses(path: str = "r.json") -> dict[str, str]:
    return {r.id: r.measured.status if r.measured else "-" for r in load_report(path).rows}


def whole(path: str = "r.json") -> str:
    measured = load_report(path).totals.measured
    return measured.status if measured else "-"


def full_for(device: FakeDevice, *kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator that has nothing for these kernels."""
    real = roofline.measure.run.copies

    def copies(op: Any, *args: Any) -> Any:
        if op.name in kernels:
            raise OutOfDeviceMemory(f"no memory for {op.name}")
        return real(op, *args)

    monkeypatch.setattr(roofline.measure.run, "copies", copies)


class TestMemory:
    """Row 23."""

    def test_one_case_is_out_of_memory_and_the_others_are_measured(self, on: On, monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
        device = fake_device()
        full_for(device, "softmax", monkeypatch=monkeypatch)
        result = on(device, "w.yaml", "-o", "r.json")
        assert result.exit_code == 0, result.stderr
        assert statuses() == {"up": "ok", "soft": "oom", "down": "ok"}
        assert whole() == "oom"
        jsonschema.validate(json.loads((place / "r.json").read_text(encoding="utf-8")), SCHEMA)
        assert "not run: soft is oom" in on(fake_device(), "w.yaml").stdout

    def test_all_of_them_are_exit_4(self, on: On, monkeypatch: pytest.MonkeyPatch) -> None:
        device = fake_device()
        full_for(device, "softmax", "gemm", monkeypatch=monkeypatch)
        result = on(device, "w.yaml", "-o", "r.json")
        assert result.exit_code == 4
        assert "out of device memory in every case" in result.stderr
        assert set(statuses().values()) == {"oom"}

    def test_the_whole_alone_may_not_fit(self, on: On) -> None:
        result = on(fake_device(memory_bytes=20e3), "w.yaml", "-o", "r.json", "--cache", "warm")
        assert result.exit_code == 0
        assert set(statuses().values()) == {"ok"}
        assert whole() == "oom"

    def test_such_a_report_can_be_compared(self, on: On, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        on(fake_device(), "w.yaml", "-o", "base.json")
        device = fake_device()
        full_for(device, "softmax", monkeypatch=monkeypatch)
        on(device, "w.yaml", "-o", "r.json")
        result = run("diff", "base.json", "r.json")
        assert result.exit_code == 0, result.stderr
        assert "head is oom" in result.stdout


class TestClocks:
    """Row 25: kept, flagged, and never an empty result."""

    @pytest.mark.parametrize("bit", EVENTS)
    def test_each_reason_of_the_driver(self, on: On, bit: int) -> None:
        device = fake_device(episodes=[Episode(start_s=0, bits=bit, slower=1.3, sm_mhz=1500)])
        result = on(device, "-k", "gemm", "-o", "r.json")
        found = load_report("r.json").rows[0].measured
        assert found
        assert result.exit_code == 0, result.stderr
        assert found.status == ("throttled" if bit & SLOWDOWN else "ok")
        assert found.time_s == pytest.approx(13e-6)
        assert found.samples_s
        assert found.clocks["sm_mhz_median"] == 1500
        assert any(NAMES[bit] in note for note in found.notes) == bool(bit & SLOWDOWN)
        assert any("power cap" in note for note in found.notes) == bool(bit & POWER_CAP)

    def test_a_short_slowdown_is_repeated_and_the_result_is_good(self, on: On) -> None:
        device = fake_device(call_s=100e-6, episodes=[Episode(start_s=1.0, end_s=1.2, bits=0x40, slower=2.0)])
        on(device, "-k", "gemm", "--cache", "warm", "-o", "r.json")
        found = load_report("r.json").rows[0].measured
        assert found
        assert (found.status, found.time_s) == ("ok", pytest.approx(100e-6))
        assert any("repeated and left out" in note for note in found.notes)


class TestNotToBeBelieved:
    """Rows 26, 30 and 31: exit 4, and the report holds why."""

    def test_memory_errors_that_come_up_make_it_invalid(self, on: On) -> None:
        result = on(fake_device(ecc_errors=[0.3]), "-k", "gemm", "-o", "r.json")
        assert result.exit_code == 4
        assert "gemm: invalid: 1 uncorrected memory errors came up during the run" in result.stderr
        found = load_report("r.json").rows[0].measured
        assert found
        assert (found.status, found.time_s) == ("invalid", pytest.approx(10e-6))

    def test_old_memory_errors_do_not(self, on: On) -> None:
        assert on(fake_device(ecc_errors=[-1.0]), "-k", "gemm").exit_code == 0

    def test_a_time_that_no_device_can_reach_is_refused_with_the_causes(self, on: On) -> None:
        words = ["-k", "gemm", "--set", "m=256", "--set", "n=256", "--set", "k=256", "-H", "h100-sxm", "-o", "r.json"]
        result = on(fake_device(call_s=10e-9), *words)
        assert result.exit_code == 4
        for cause in ("the count, the profile or the run is wrong", "stays in the cache", "a sparse peak", "another device"):
            assert cause in result.stderr
        found = load_report("r.json").rows[0].measured
        assert found
        assert (found.status, found.faster_than_bound) == ("invalid", True)

    def test_and_the_comparison_refuses_it_too(self, on: On, run: Run) -> None:
        for name, call_s in (("base", 10e-6), ("head", 1e-9)):
            on(fake_device(call_s=call_s), "-k", "gemm", "-H", "h100-sxm", "-o", f"{name}.json")
        result = run("diff", "base.json", "head.json")
        assert "head is invalid" in result.stdout
        assert "better" not in result.stdout.split("head is invalid")[0].splitlines()[-1]

    def test_a_timer_that_reads_zero_gives_no_time(self, on: On) -> None:
        result = on(fake_device(call_s=1e-12, quantum_s=1.0), "-k", "gemm", "-o", "r.json", "--time-limit", "0.1 s")
        assert result.exit_code == 4
        assert "the timer read zero" in result.stderr
        assert statuses() == {"gemm": "invalid"}

    def test_one_bad_case_keeps_the_others_and_the_whole_is_not_run(self, on: On, mine: Path) -> None:
        result = on(fake_device(), "-k", "mine:zeros", "-k", "gemm", "-o", "r.json")
        assert result.exit_code == 4
        assert statuses() == {"mine_zeros": "invalid", "gemm": "ok"}

    def test_a_whole_that_cannot_be_captured_is_exit_4(self, on: On, monkeypatch: pytest.MonkeyPatch) -> None:
        device = fake_device()
        prepare = device.prepare

        def prepared(calls: Any, repeats: int, launch: str) -> FakeRunner:
            device.capture_fails = "too many nodes" if len(calls) == 5 else None
            return prepare(calls, repeats, launch)

        device.prepare = prepared  # type: ignore[method-assign]
        result = on(device, "w.yaml", "--cache", "warm", "-o", "r.json")
        assert result.exit_code == 4
        assert "the whole sequence: failed: the calls cannot be captured" in result.stderr
        assert set(statuses().values()) == {"ok"}


class TestLock:
    """Row 20."""

    HOLD = """
import sys
from roofline.measure.lock import device_lock
with device_lock("fake-0"):
    print("held", flush=True)
    sys.stdin.read()
"""

    @pytest.fixture
    def holder(self, place: Path) -> Iterator[subprocess.Popen[str]]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(place / "locks")}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([sys.executable, "-c", self.HOLD], env=environment, **pipes) as process:
            assert process.stdout
            assert process.stdout.readline() == "held\n"
            yield process
            process.communicate("")

    def test_a_device_that_somebody_else_measures_is_exit_3_with_who(self, holder: subprocess.Popen[str], on: On) -> None:
        device = fake_device()
        result = on(device, "-k", "gemm")
        assert (result.exit_code, result.stdout, device.samples) == (3, "", 0)
        assert f"fake-0 is being measured by process {holder.pid} (" in result.stderr
        assert on(fake_device(), "-k", "gemm", "--no-lock").exit_code == 0

    def test_it_is_free_again_afterwards_however_it_went(self, on: On) -> None:
        for device in (fake_device(interrupt_at=300), fake_device(ecc_errors=[0.1]), fake_device()):
            last = on(device, "-k", "gemm").exit_code
        assert last == 0


class TestInterruption:
    """Row 21: what is complete is kept and marked, at whatever moment it comes."""

    def ended(self, on: On, at: int) -> tuple[int, Report]:
        result = on(fake_device(interrupt_at=at), "w.yaml", "-o", "r.json", "--cache", "warm", "--time-limit", "0.5 s")
        return result.exit_code, load_report("r.json")

    def samples(self, on: On) -> int:
        """All of a run that nobody interrupts."""
        device = fake_device()
        assert on(device, "w.yaml", "--cache", "warm", "--time-limit", "0.5 s").exit_code == 0
        return device.samples

    def test_at_any_sample_the_report_is_whole_and_says_so(self, on: On, place: Path) -> None:
        for at in random.Random(7).sample(range(1, self.samples(on) + 1), 15):
            code, report = self.ended(on, at)
            assert code == 130
            found = [r.measured for r in report.rows]
            assert all(found)
            interrupted = [m for m in (*found, report.totals.measured) if m and m.status == "interrupted"]
            assert interrupted, at
            assert all(m.status in ("ok", "interrupted") for m in found if m)
            jsonschema.validate(json.loads((place / "r.json").read_text(encoding="utf-8")), SCHEMA)

    def test_samples_taken_before_are_kept_and_steps_not_reached_say_so(self, on: On) -> None:
        kept, samples = 0, self.samples(on)
        for share in (0.05, 0.3, 0.5):
            _, report = self.ended(on, int(share * samples))
            first, last = report.rows[0].measured, report.rows[1].measured
            assert first
            assert last
            kept += bool(first.samples_s)
            assert (last.time_s, last.notes) == (0.0, ("not measured: interrupted before",)) or first.status == "ok"
        assert kept

    def test_during_the_check_afterwards_the_samples_are_kept(self, on: On, monkeypatch: pytest.MonkeyPatch) -> None:
        real, calls = roofline.measure.run.check, [0]

        def check(*args: Any) -> Any:
            calls[0] += 1
            if calls[0] == 2:
                raise KeyboardInterrupt
            return real(*args)

        monkeypatch.setattr(roofline.measure.run, "check", check)
        assert on(fake_device(), "-k", "gemm", "-o", "r.json").exit_code == 130
        found = load_report("r.json").rows[0].measured
        assert found
        assert (found.status, found.time_s) == ("interrupted", pytest.approx(10e-6))
        assert "interrupted before its output was checked again" in found.notes

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_signals_at_random_times_on_the_real_cpu(self, number: signal.Signals, on_cpu: Run, quiet_signals: None) -> None:
        """Within two seconds, with the signal's exit code, and with a report that can be read."""
        for delay in (0.0, 0.03, 0.17, 0.31, 0.52):
            sent: list[float] = []
            timer = threading.Timer(delay, lambda s=sent: (s.append(time.perf_counter()), os.kill(os.getpid(), number)))  # type: ignore[misc]
            armed = Interruption.during

            def during(self: Interruption, work: Any, t: threading.Timer = timer, real: Any = armed) -> bool:
                t.start()
                return bool(real(self, work))

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Interruption, "during", during)
                result = on_cpu("w.yaml", "-o", "r.json", limit="0.4 s")
            took = time.perf_counter() - sent[0] if sent else 0.0
            timer.cancel()
            timer.join()
            assert sent
            assert result.exit_code == 128 + number, (delay, result.stderr)
            assert took < 2.0
            assert "interrupted" in {*statuses().values(), whole()}

    @pytest.fixture
    def quiet_signals(self) -> Iterator[None]:
        """Should one come late, it does not end the tests."""
        before = {n: signal.signal(n, lambda number, frame: None) for n in (signal.SIGINT, signal.SIGTERM)}
        yield
        for number, handler in before.items():
            signal.signal(number, handler)

    def test_interrupted_steps_are_marked_in_the_table(self, on: On) -> None:
        result = on(fake_device(interrupt_at=100), "w.yaml", "--cache", "warm")
        assert result.exit_code == 130
        assert "interrupted" in result.stdout
        assert "soft: not measured: interrupted before" in result.stdout
        assert "interrupted: the report holds what was measured until then" in result.stderr


class TestSignals:
    """The handler by itself."""

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_first_ends_the_work_and_handlers_are_put_back(self, number: signal.Signals) -> None:
        before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
        with interruptible() as stop:
            assert stop.during(lambda: signal.raise_signal(number))
            assert stop.exit_code == 128 + number
            assert signal.getsignal(number) == signal.SIG_DFL  # the second ends the process
        assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before

    def test_before_and_after_the_work_nothing_is_raised_and_nothing_forgotten(self) -> None:
        with interruptible() as stop:
            assert not stop.during(lambda: None)
            signal.raise_signal(signal.SIGTERM)
            assert stop.exit_code == 143
            done: list[int] = []
            assert stop.during(lambda: done.append(1))
            assert done == []

    def test_an_exception_that_python_loses_is_raised_at_the_next_sample(self) -> None:
        def lose() -> None:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                return  # as a destructor does

        with interruptible() as stop:
            reached: list[int] = []
            assert stop.during(lambda: (lose(), stop.check(), reached.append(1)))  # type: ignore[func-returns-value, arg-type]
        assert reached == []

    def test_what_is_ignored_stays_ignored(self) -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with interruptible() as stop:
                signal.raise_signal(signal.SIGINT)
                assert stop.exit_code == 0
        finally:
            signal.signal(signal.SIGINT, before)

    def test_a_thread_has_no_handlers_and_works(self) -> None:
        found: list[bool] = []

        def work() -> None:
            with interruptible() as stop:
                found.append(stop.during(lambda: None))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found == [False]

    def test_a_plan_can_be_stopped_from_outside(self, place: Path) -> None:
        stop, seen = Interruption(), list[str]()

        def step(name: str, share: float) -> None:
            seen.append(name)
            if len(seen) == 3:
                stop.signal = signal.SIGTERM

        quick = Procedure(blocks=3, warmup_s=0.01, fewest_samples=9, shortest_s=0.01, longest_s=0.5, cache="warm")
        found = run_plan(plan_of("w.yaml", [], [], None, "cpu"), fake_device(), quick, step, watch=InlineWatch, stop=stop)
        assert [m.status for m in found.steps.values()] == ["interrupted"] * 3
        assert len(found.steps["up"].samples_s or ()) == 4
        assert found.whole
        assert found.whole.status == "interrupted"


SLOW = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import roofline.cli.measure as command
from roofline.testing import FakeDevice, FakeRunner
class Slow(FakeRunner):
    def time(self):
        import time
        found = super().time()
        if self._device.samples == 3:
            print("measuring", file=sys.stderr, flush=True)
        end = time.monotonic() + (60 if sys.argv[1] == "stuck" and self._device.samples > 3 else 0.002)
        while True:
            try:
                time.sleep(max(0, end - time.monotonic()))
                return found
            except KeyboardInterrupt:
                if sys.argv[1] != "stuck":
                    raise
                print("first", file=sys.stderr, flush=True)
class Device(FakeDevice):
    def prepare(self, calls, repeats, launch):
        runner = super().prepare(calls, repeats, launch)
        runner.__class__ = Slow
        return runner
command._open = lambda choice: Device()
how, *words = sys.argv[1:]
sys.argv = [sys.argv[0], how]
from roofline.cli.app import app
app(args=["measure", *words], prog_name="roofline")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
class TestProcesses:
    def started(self, place: Path, how: str) -> subprocess.Popen[str]:
        (place / "slow.py").write_text(SLOW, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(place / "locks")}
        words = ["-k", "gemm", "-H", "none", "--cache", "warm", "-o", "r.json"]
        command = [sys.executable, "slow.py", how, *words]
        process = subprocess.Popen(command, cwd=place, env=environment, stderr=subprocess.PIPE, text=True)
        assert process.stderr
        assert process.stderr.readline() == "measuring\n"
        return process

    def test_a_second_ctrl_c_ends_it_at_once(self, place: Path) -> None:
        with self.started(place, "stuck") as process:
            assert process.stderr
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            assert process.stderr.readline() == "first\n"
            began = time.perf_counter()
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=10) == -signal.SIGINT
            assert time.perf_counter() - began < 1.0
        assert not (place / "r.json").exists()

    def test_kill_leaves_the_old_report(self, place: Path) -> None:
        (place / "r.json").write_text("old", encoding="utf-8")
        with self.started(place, "slow") as process:
            process.kill()
            process.wait()
        assert (place / "r.json").read_text(encoding="utf-8") == "old"
        assert sorted(p.name for p in place.iterdir()) == ["locks", "r.json", "slow.py", "w.yaml"]
