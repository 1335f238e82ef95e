"""Kernels measured in turns: what disturbs both alike drops out of their comparison."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.measure.base import Procedure
from roofline.measure.cpu import CpuDevice
from roofline.measure.registry import find
from roofline.measure.run import Case, measure_in_turns
from roofline.measure.timing import measure
from roofline.measure.together import measure_together
from roofline.ops.registry import OPERATORS
from roofline.report.statistics import effect, paired_effect, sign_test, split
from roofline.testing import FakeDevice, InlineWatch

PROCEDURE = Procedure(warmup_s=0.01, shortest_sample_s=1e-3, fewest_samples=100, shortest_s=0.0, longest_s=30, blocks=20)


def prepares(device: FakeDevice, *call_s: float):  # type: ignore[no-untyped-def]
    """A kernel of each duration on one device, whose drift they share."""

    def of(seconds: float):  # type: ignore[no-untyped-def]
        def prepare(repeats: int):  # type: ignore[no-untyped-def]
            device.call_s = seconds
            runner = device.prepare([lambda: None], repeats, "eager")
            return Slowed(runner, device, seconds)

        return prepare

    return [of(s) for s in call_s]


class Slowed:
    """A runner that keeps its own duration while others of the device run with theirs."""

    def __init__(self, runner, device, seconds) -> None:  # type: ignore[no-untyped-def]
        self.runner, self.device, self.seconds = runner, device, seconds
        self.calls, self.input_sets, self.launch = runner.calls, runner.input_sets, runner.launch

    def time(self) -> float:
        self.device.call_s = self.seconds
        return float(self.runner.time())

    def close(self) -> None:
        self.runner.close()


def blocks_of(timings):  # type: ignore[no-untyped-def]
    return [split(t.samples_s, t.blocks) for t in timings]


def test_every_kernel_gets_as_many_samples_in_every_round() -> None:
    device = FakeDevice(noise=0.01)
    found = measure_together(device, prepares(device, 10e-6, 30e-6), PROCEDURE, watch=InlineWatch)
    assert found[0].blocks == found[1].blocks
    assert set(found[0].blocks) == set(range(20))
    assert [round(t.median_s * 1e6) for t in found] == [10, 30]
    assert all(r.closed for r in device.runners)


def test_a_drift_that_ruins_runs_one_after_the_other_leaves_turns_alone() -> None:
    device = FakeDevice(noise=0.01, drift=1.0)
    base, head = blocks_of(measure_together(device, prepares(device, 10e-6, 10e-6), PROCEDURE, watch=InlineWatch))
    found = paired_effect(base, head)
    assert found.low < 1 < found.high
    assert found.ratio == pytest.approx(1, abs=0.01)
    first, second = (measure(device, p, PROCEDURE, watch=InlineWatch) for p in prepares(device, 10e-6, 10e-6))
    assert abs(second.median_s / first.median_s - 1) > 0.05


def disturbed(seed: int, slower: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Twenty blocks a side whose level jumps by a fifth from block to block, alike on both sides."""
    rng = random.Random(seed)
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for _ in range(20):
        level = 1e-5 * rng.gauss(1, 0.2) ** 2
        for side, factor in zip(sides, (1.0, slower), strict=True):
            side.append(np.array([level * factor * rng.gauss(1, 0.03) for _ in range(30)]))
    return sides


def test_pairs_find_five_percent_where_unpaired_blocks_cannot() -> None:
    found = [paired_effect(*disturbed(seed, 1.05), draws=2000) for seed in range(100)]
    alike = [paired_effect(*disturbed(seed, 1.0), draws=2000) for seed in range(100, 200)]
    unpaired = [effect(*disturbed(seed, 1.05), draws=500) for seed in range(20)]
    assert sum(f.low > 1.03 and f.p < 0.01 for f in found) >= 90
    assert sum(f.low > 1.03 for f in alike) <= 5
    assert sum(f.low > 1.03 for f in unpaired) <= 5


def test_the_sign_test_counts_sides() -> None:
    assert sign_test(np.array([1.0, -1.0])) == 1
    assert sign_test(np.array([2.0] * 9 + [-1.0])) == pytest.approx(2 * 11 / 1024)
    assert sign_test(np.zeros(3)) == 1


def test_paired_sides_must_have_as_many_blocks() -> None:
    one = [np.ones(3)] * 4
    with pytest.raises(ValueError, match="as many blocks"):
        paired_effect(one, one[:3])


def test_kernels_in_turns_are_checked_and_share_a_session() -> None:
    op = OPERATORS["softmax"](rows=32, cols=64, dtype="fp32")
    cases = [Case(id=name, spec=find("softmax"), op=op) for name in ("one", "other")]
    quick = replace(PROCEDURE, fewest_samples=4, blocks=2, launch="eager", cache="warm", longest_s=0.3)
    found = measure_in_turns(cases, CpuDevice(), quick, "s")
    assert [m.conditions["session"] for m in found] == ["s", "s"]
    assert all(m.check and m.check.passed for m in found)
    assert found[0].blocks == found[1].blocks


def test_the_command_compares_each_kernel_with_the_first() -> None:
    words = ["measure", "-k", "naive", "-k", "math", "--in-turns", "--device", "cpu", "-H", "none", "--no-lock", "--time-limit", "1 s"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "math against naive: time " in done.stdout


def test_turns_are_warm_and_say_so() -> None:
    done = CliRunner().invoke(
        app, ["measure", "-k", "naive", "-k", "math", "--in-turns", "--cache", "cold", "--device", "cpu", "-H", "none"]
    )
    assert done.exit_code == 2
    assert "warm inputs" in done.output


def case(kernel: str) -> Case:
    return Case(id=kernel, spec=find(kernel), op=OPERATORS["softmax"](rows=32, cols=64, dtype="fp32"))


def test_a_kernel_that_raises_is_the_result_of_all_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("roofline.measure.run.call_of", broken)
    found = measure_in_turns([case("softmax")] * 2, CpuDevice(), PROCEDURE, "s")
    assert [m.status for m in found] == ["failed", "failed"]
    assert "no such luck" in found[0].notes[0]


def test_ctrl_c_in_turns_is_an_interruption_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("roofline.measure.run.measure_together", interrupted)
    words = ["measure", "-k", "naive", "-k", "math", "--in-turns", "--device", "cpu", "-H", "none", "--no-lock"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 130
    assert done.stdout.count("interrupted") >= 2


@pytest.mark.parametrize("words", [["-k", "naive"], ["gpt2_medium"]])
def test_turns_need_several_kernels(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["measure", *words, "--in-turns", "--device", "cpu", "-H", "none"])
    assert done.exit_code == 2
    assert "--in-turns compares kernels" in done.output


def test_the_order_turns_around() -> None:
    device = FakeDevice()
    order: list[str] = []
    counter = itertools.count()

    def named(name: str):  # type: ignore[no-untyped-def]
        def prepare(repeats: int):  # type: ignore[no-untyped-def]
            next(counter)
            return Named(name, device.prepare([lambda: None], repeats, "eager"), order)

        return prepare

    measure_together(device, [named("a"), named("b")], replace(PROCEDURE, warmup_s=0.0, fewest_samples=80), watch=InlineWatch)
    turns = order[-80 * 2 :]
    assert turns[:4] == ["a", "b", "b", "a"] or turns[:4] == ["b", "a", "a", "b"]


class Named:
    """A runner that writes down when it runs."""

    def __init__(self, name, runner, order) -> None:  # type: ignore[no-untyped-def]
        self.name, self.runner, self.order = name, runner, order
        self.calls, self.input_sets, self.launch = runner.calls, runner.input_sets, runner.launch

    def time(self) -> float:
        self.order.append(self.name)
        return float(self.runner.time())

    def close(self) -> None:
        self.runner.close()
