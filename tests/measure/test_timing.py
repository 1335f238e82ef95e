"""Timing against scripted devices: when it stops, what it keeps, and what it says of a device that was not itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import MeasurementInvalidError
from roofline.measure.base import OutOfDeviceMemory, Procedure, Timing
from roofline.measure.cpu import CpuDevice
from roofline.measure.events import POWER_CAP
from roofline.measure.interval import bootstrap_interval, order_interval
from roofline.measure.timing import MOST_CALLS, measure, sized
from roofline.testing import Episode, FakeDevice, FakeRunner, InlineWatch, ThreadWatch

QUICK = Procedure(blocks=5, warmup_s=0.04, fewest_samples=20, shortest_s=0.02, longest_s=2.0)
CALLS = [int] * 4


def timed(device: FakeDevice, procedure: Procedure = QUICK, **options: Any) -> Timing:
    return measure(device, lambda repeats: device.prepare(CALLS, repeats, procedure.launch), procedure, watch=InlineWatch, **options)


def said(timing: Timing, words: str) -> bool:
    return any(words in note for note in timing.notes)


class TestSampling:
    def test_a_quiet_device_gives_its_time_a_call_and_nothing_to_say(self) -> None:
        timing = timed(FakeDevice(call_s=7e-6))
        assert timing.median_s == pytest.approx(7e-6)
        assert timing.low_s == pytest.approx(timing.high_s)
        assert (timing.status, timing.notes) == ("ok", ())

    def test_it_stops_at_the_least_that_was_asked_where_nothing_varies(self) -> None:
        timing = timed(FakeDevice(), replace(QUICK, fewest_samples=30, shortest_s=0.0, blocks=5))
        assert len(timing.samples_s) == 30
        assert timing.blocks == tuple(n for n in range(5) for _ in range(6))

    def test_the_shortest_time_is_kept_even_with_enough_samples(self) -> None:
        timing = timed(FakeDevice(), replace(QUICK, fewest_samples=5, shortest_s=0.3))
        assert sum(timing.samples_s) * timing.calls_per_sample >= 0.3

    def test_noise_is_sampled_until_the_interval_is_narrow(self) -> None:
        few, many = (timed(FakeDevice(noise=noise, seed=3), replace(QUICK, longest_s=60)) for noise in (0.005, 0.05))
        assert len(many.samples_s) > 20 * len(few.samples_s)
        assert (many.high_s - many.low_s) / many.median_s < 2 * QUICK.width

    def test_it_ends_when_the_time_is_up_and_says_how_wide_the_interval_is(self) -> None:
        device = FakeDevice(noise=0.5)
        timing = timed(device, replace(QUICK, longest_s=0.5))
        assert device.clock.now_s < 1.5
        assert said(timing, "the interval is")

    def test_a_call_longer_than_the_time_gives_one_sample(self) -> None:
        timing = timed(FakeDevice(call_s=10.0), replace(QUICK, longest_s=1.0))
        assert timing.samples_s == (10.0,)
        assert said(timing, "only 1 samples of 20")

    def test_slow_calls_are_still_spread_over_the_rounds(self) -> None:
        timing = timed(FakeDevice(call_s=0.05), replace(QUICK, longest_s=2.0))
        assert len(set(timing.blocks)) >= QUICK.blocks

    def test_burst_rests_between_rounds_and_sustained_never(self) -> None:
        burst, sustained = FakeDevice(), FakeDevice()
        timed(burst)
        timed(sustained, replace(QUICK, mode="sustained"))
        assert burst.paused_s == pytest.approx(4 * 0.05)
        assert sustained.paused_s == 0

    def test_readings_come_at_twenty_a_second_or_more_while_samples_run(self) -> None:
        timing = timed(FakeDevice(call_s=10e-6), replace(QUICK, mode="sustained", shortest_s=2.0, longest_s=10))
        assert len(timing.readings) >= 20 * 2.0

    def test_a_sustained_run_is_not_held_up_by_extra_readings(self) -> None:
        timing = timed(FakeDevice(), replace(QUICK, mode="sustained", shortest_s=0.5))
        times = [r.time_s for r in timing.readings[:-1]]  # the last is taken when all is over
        assert len(times) > 5
        assert all(b - a >= 0.04 for a, b in pairwise(times))

    def test_progress_only_grows_and_ends_at_one(self) -> None:
        shares: list[float] = []
        timed(FakeDevice(noise=0.05), progress=shares.append)
        assert shares == sorted(shares)
        assert shares[-1] == 1.0
        assert all(0 <= s <= 1 for s in shares)

    def test_same_seed_same_result(self) -> None:
        assert timed(FakeDevice(noise=0.02, seed=5)) == timed(FakeDevice(noise=0.02, seed=5))

    def test_the_thread_that_reads_ends_with_the_measurement(self) -> None:
        import threading

        device = CpuDevice()
        timing = measure(
            device, lambda n: device.prepare([lambda: sum(range(2000))], n, "eager"), replace(QUICK, longest_s=0.3, shortest_s=0.2)
        )
        assert timing.median_s > 0
        assert len(timing.readings) >= 4
        assert not [t for t in threading.enumerate() if t.name == "roofline-readings"]


class TestSize:
    @pytest.mark.parametrize("call_s", [1e-8, 3e-7, 1e-5, 1e-3, 0.2])
    def test_a_sample_is_long_enough_or_holds_all_the_calls_it_may(self, call_s: float) -> None:
        device = FakeDevice(call_s=call_s)
        runner = sized(device, lambda n: device.prepare(CALLS, n, "graph"), QUICK)
        assert runner.calls * call_s >= QUICK.shortest_sample_s or runner.calls + len(CALLS) > MOST_CALLS
        assert runner.calls <= MOST_CALLS

    def test_a_timer_too_coarse_to_see_the_call_is_outgrown(self) -> None:
        device = FakeDevice(call_s=1e-6, quantum_s=1e-4)
        runner = sized(device, lambda n: device.prepare(CALLS, n, "graph"), QUICK)
        assert runner.calls * 1e-6 >= 0.9 * QUICK.shortest_sample_s

    def test_a_sample_that_is_long_enough_is_not_repeated(self) -> None:
        device = FakeDevice(call_s=1.0)
        assert sized(device, lambda n: device.prepare(CALLS, n, "graph"), QUICK).calls == len(CALLS)

    def test_every_runner_is_closed(self) -> None:
        device = FakeDevice(call_s=1e-7)
        timed(device)
        assert len(device.runners) > 1
        assert all(r.closed for r in device.runners)

    @pytest.mark.parametrize("sample", [1, 3, 60, 100])
    def test_every_runner_is_closed_after_an_interrupt(self, sample: int) -> None:
        device = FakeDevice(call_s=1e-7, interrupt_at=sample)
        with pytest.raises(KeyboardInterrupt):
            timed(device, replace(QUICK, warmup_s=0.4))
        assert all(r.closed for r in device.runners)


class TestWarmUp:
    def test_a_device_that_settles_is_waited_for(self) -> None:
        settling = [Episode(start_s=0.02 * i, end_s=0.02 * (i + 1), slower=2 - 0.2 * i) for i in range(10)]
        timing = timed(FakeDevice(episodes=settling, call_s=10e-6), replace(QUICK, warmup_s=0.08))
        assert timing.samples_s[0] == timing.samples_s[-1] == pytest.approx(10e-6)
        assert timing.notes == ()

    def test_a_device_that_never_settles_is_said_and_bounded(self) -> None:
        device = FakeDevice(drift=5.0)
        assert said(timed(device, replace(QUICK, longest_s=3.0)), "not stable after")
        assert device.clock.now_s < 6

    def test_drift_during_the_samples_is_in_the_interval(self) -> None:
        timing = timed(FakeDevice(drift=0.2), replace(QUICK, longest_s=1.0))
        assert timing.high_s / timing.low_s > 1.02


class TestThrottling:
    @pytest.mark.parametrize(
        ("bit", "name"),
        [
            (0x8, "hardware slowdown"),
            (0x20, "software thermal slowdown"),
            (0x40, "hardware thermal slowdown"),
            (0x80, "hardware power brake"),
        ],
    )
    def test_each_slowdown_that_stays_marks_the_result_and_keeps_the_samples(self, bit: int, name: str) -> None:
        timing = timed(FakeDevice(episodes=[Episode(start_s=0, bits=bit, slower=1.5)]))
        assert timing.status == "throttled"
        assert said(timing, name)
        assert said(timing, "were kept")
        assert len(timing.samples_s) >= QUICK.fewest_samples
        assert timing.median_s == pytest.approx(15e-6)

    @pytest.mark.parametrize("bit", [0x8, 0x20, 0x40, 0x80])
    def test_a_slowdown_that_passes_is_repeated_and_left_out(self, bit: int) -> None:
        episode = Episode(start_s=0.15, end_s=0.25, bits=bit, slower=1.5)
        device = FakeDevice(episodes=[episode], call_s=10e-6)
        timing = timed(device)
        assert timing.status == "ok"
        assert said(timing, "repeated and left out")
        assert max(timing.samples_s) == pytest.approx(10e-6)
        assert len(set(timing.blocks)) == QUICK.blocks
        assert device.paused_s > 0.5

    @pytest.mark.parametrize("bit", [0x0, 0x1, 0x2, 0x10, 0x100])
    def test_other_reasons_are_no_slowdown(self, bit: int) -> None:
        timing = timed(FakeDevice(episodes=[Episode(start_s=0, bits=bit)]))
        assert (timing.status, timing.notes) == ("ok", ())

    def test_retries_are_bounded(self) -> None:
        device = FakeDevice(episodes=[Episode(start_s=0, bits=0x40)])
        timed(device, replace(QUICK, retries=2, longest_s=60))
        assert device.paused_s < 0.5 + 1.0 + 10 * 0.05 + 0.01

    def test_no_retry_is_possible_when_none_is_allowed(self) -> None:
        episode = Episode(start_s=0.15, end_s=0.25, bits=0x40, slower=1.5)
        assert timed(FakeDevice(episodes=[episode]), replace(QUICK, retries=0)).status == "throttled"

    def test_a_sustained_run_is_not_cooled(self) -> None:
        device = FakeDevice(episodes=[Episode(start_s=0.06, bits=0x20, slower=1.2)])
        timing = timed(device, replace(QUICK, mode="sustained", shortest_s=0.5))
        assert (timing.status, device.paused_s) == ("throttled", 0)

    def test_the_result_is_not_empty_when_every_round_is_slowed_and_the_time_is_short(self) -> None:
        timing = timed(FakeDevice(episodes=[Episode(start_s=0, bits=0x40)]), replace(QUICK, longest_s=0.01))
        assert timing.status == "throttled"
        assert timing.samples_s

    def test_the_power_cap_is_a_note_and_no_verdict(self) -> None:
        timing = timed(FakeDevice(episodes=[Episode(start_s=0, bits=POWER_CAP)]))
        assert timing.status == "ok"
        assert said(timing, "clock-limited by the power cap in 100%")

    def test_a_falling_clock_is_noted_with_both_ends(self) -> None:
        timing = timed(FakeDevice(episodes=[Episode(start_s=0.2, sm_mhz=1500)]))
        assert said(timing, "between 1500 and 1980 MHz")

    def test_a_clock_that_moves_by_less_than_five_percent_is_not(self) -> None:
        assert timed(FakeDevice(episodes=[Episode(start_s=0.2, sm_mhz=1900)])).notes == ()

    def test_a_device_that_tells_nothing_is_timed_all_the_same(self) -> None:
        silent = dict.fromkeys(("sm_mhz", "memory_mhz", "power_w", "temperature_c", "event_reasons", "ecc_uncorrected"), "not supported")
        timing = timed(FakeDevice(missing=silent))
        assert (timing.status, timing.notes) == ("ok", ())
        assert timing.readings[0].missing == silent


class TestMemoryErrors:
    def test_an_uncorrected_error_during_the_run_makes_it_invalid_and_keeps_the_samples(self) -> None:
        timing = timed(FakeDevice(ecc_errors=[0.2]))
        assert timing.status == "invalid"
        assert said(timing, "1 uncorrected memory errors")
        assert timing.samples_s

    def test_an_error_in_the_last_moment_is_seen(self) -> None:
        sustained = replace(QUICK, mode="sustained")
        whole = FakeDevice()
        timed(whole, sustained)
        assert timed(FakeDevice(ecc_errors=[whole.clock.now_s - 1e-6]), sustained).status == "invalid"

    def test_an_old_error_does_not(self) -> None:
        assert timed(FakeDevice(ecc_errors=[0.0])).status == "ok"


class TestTimer:
    def test_a_sample_of_few_steps_of_a_seen_quantum_is_noted(self) -> None:
        timing = timed(FakeDevice(quantum_s=1e-4, noise=0.1))
        assert said(timing, "steps of the timer")

    def test_a_claimed_resolution_counts_where_nothing_varies(self) -> None:
        device = FakeDevice()
        device.info = replace(device.info, facts={"timer_resolution_s": 1e-4})
        assert said(timed(device), "steps of the timer")

    def test_a_fine_quantum_is_not(self) -> None:
        assert not said(timed(FakeDevice(quantum_s=1e-6, noise=0.1)), "timer")

    def test_a_timer_that_reads_zero_is_invalid(self) -> None:
        timing = timed(FakeDevice(call_s=1e-12, quantum_s=1e-3, overhead_s=1e-3))
        assert timing.status == "invalid"
        assert said(timing, "the timer read zero")

    def test_work_that_escapes_the_events_is_said(self) -> None:
        device = FakeDevice(call_s=1e-3)

        def prepare(repeats: int) -> FakeRunner:
            runner = device.prepare(CALLS, repeats, "graph")
            runner.unaccounted_s = 0.01  # type: ignore[attr-defined]
            return runner

        assert said(measure(device, prepare, QUICK, watch=InlineWatch), "another stream")


class TestInterrupts:
    def test_before_the_first_sample_it_is_an_interrupt(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            timed(FakeDevice(interrupt_at=1))

    def test_complete_samples_are_kept(self) -> None:
        whole = FakeDevice(call_s=10e-6)
        timed(whole)
        timing = timed(FakeDevice(call_s=10e-6, interrupt_at=whole.samples - 3))
        assert timing.status == "interrupted"
        assert timing.median_s == pytest.approx(10e-6)
        assert 1 <= len(timing.samples_s) == len(timing.blocks)

    @settings(max_examples=60, deadline=None)
    @given(sample=st.integers(1, 400), seed=st.integers(0, 99))
    def test_at_any_moment_there_is_a_result_with_samples_or_an_interrupt(self, sample: int, seed: int) -> None:
        device = FakeDevice(noise=0.1, seed=seed, interrupt_at=sample)
        try:
            timing = timed(device)
        except KeyboardInterrupt:
            pass
        else:
            assert timing.samples_s
            assert timing.status == ("interrupted" if device.samples == sample else "ok")
            assert timing.low_s <= timing.median_s <= timing.high_s
        assert all(r.closed for r in device.runners)

    def test_a_throttled_device_that_is_interrupted_says_both(self) -> None:
        hot = [Episode(start_s=0, bits=0x40)]
        whole = FakeDevice(episodes=hot)
        timed(whole)
        timing = timed(FakeDevice(episodes=hot, interrupt_at=whole.samples - 2))
        assert timing.status == "interrupted"
        assert said(timing, "hardware thermal slowdown")


class TestFailures:
    def test_lack_of_memory_passes_through(self) -> None:
        with pytest.raises(OutOfDeviceMemory):
            timed(FakeDevice(memory_bytes=1e9, bytes_per_set=1e9))

    def test_a_graph_that_cannot_be_captured_passes_through(self) -> None:
        with pytest.raises(MeasurementInvalidError, match="a synchronisation"):
            timed(FakeDevice(capture_fails="a synchronisation"))

    def test_a_kernel_that_fails_while_it_is_timed_leaves_nothing_open(self) -> None:
        device = CpuDevice()
        runners = []

        def broken() -> None:
            if runners:
                raise ValueError("kernel failed")

        def prepare(repeats: int) -> Any:
            runners.append(device.prepare([broken], repeats, "eager"))
            return runners[-1]

        with pytest.raises(ValueError, match="kernel failed"):
            measure(device, prepare, QUICK, watch=ThreadWatch)
        assert runners[0].results == []


class TestIntervals:
    def test_the_interval_of_order_statistics_by_hand(self) -> None:
        # 100 values: ranks 50 -+ 1.96 * 5, so the 41st and the 61st smallest, counted from zero 40 and 60.
        assert order_interval([float(i) for i in range(100)]) == (40, 60)

    @pytest.mark.parametrize("interval", [order_interval, lambda s: bootstrap_interval(s, [i * 5 // len(s) for i in range(len(s))])])
    def test_nineteen_times_of_twenty_the_true_median_lies_within(self, interval: Callable[[list[float]], tuple[float, float]]) -> None:
        import random

        rng = random.Random(1)
        held = 0
        for _ in range(200):
            low, high = interval([rng.gauss(1.0, 0.03) for _ in range(50)])
            held += low <= 1.0 <= high
        assert held >= 178  # 190 expected; below 178 with less than 0.1 %

    def test_blocks_that_differ_widen_the_reported_interval(self) -> None:
        samples = [1.0 + 0.1 * block + 1e-4 * i for block in range(5) for i in range(40)]
        low, high = bootstrap_interval(samples, [block for block in range(5) for _ in range(40)])
        quick_low, quick_high = order_interval(samples)
        assert high - low > 1.5 * (quick_high - quick_low)

    @pytest.mark.parametrize("seed", range(5))
    def test_a_noisy_constant_device_is_measured_right(self, seed: int) -> None:
        timing = timed(FakeDevice(call_s=10e-6, noise=0.02, seed=seed), replace(QUICK, longest_s=30))
        assert timing.low_s * 0.995 <= 10e-6 <= timing.high_s * 1.005

    def test_the_same_code_twice_gives_intervals_that_overlap(self) -> None:
        pairs = [(timed(FakeDevice(noise=0.02, seed=s)), timed(FakeDevice(noise=0.02, seed=s + 1000))) for s in range(40)]
        apart = sum(a.high_s < b.low_s or b.high_s < a.low_s for a, b in pairs)
        assert apart <= 3

    def test_five_percent_more_is_told_apart(self) -> None:
        pairs = [(timed(FakeDevice(noise=0.02, seed=s)), timed(FakeDevice(call_s=10.5e-6, noise=0.02, seed=s + 1000))) for s in range(20)]
        assert all(a.high_s < b.low_s for a, b in pairs)
