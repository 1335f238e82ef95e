"""Failures: published counts, Young's minimum by brute force, and shares against a simulation."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.decide.failures import (
    Shares,
    checkpoint_time_s,
    daly_interval_s,
    first_order_overhead,
    job_mtbf_s,
    observed_mtbf_s,
    shares,
    young_interval_s,
)
from roofline.errors import UsageError

HOUR = 3600.0
TIMES = st.tuples(st.floats(1, 600), st.floats(0, 1800), st.floats(5_000, 1e6))
"""Checkpoint, restart and mean time between failures, in s."""


def test_llama_3_was_interrupted_every_three_hours() -> None:
    """466 interruptions in 54 days on 16,384 GPUs, 419 of them unexpected (arXiv 2407.21783, section 3.3.4)."""
    assert observed_mtbf_s(54 * 86400, 466) / HOUR == pytest.approx(2.78, abs=0.005)
    assert observed_mtbf_s(54 * 86400, 419) / HOUR == pytest.approx(3.09, abs=0.005)
    assert job_mtbf_s(observed_mtbf_s(54 * 86400, 419) * 16384, 16384) == pytest.approx(54 * 86400 / 419)


def test_llama_3_s_effective_time_needs_restarts_of_minutes() -> None:
    """More than 90 % useful is what they report; with a checkpoint of 2.8 s (5.67 TB at 2 TB/s) that leaves 14 minutes for a restart."""
    mtbf, saving = observed_mtbf_s(54 * 86400, 419), checkpoint_time_s(5.67e12, 2e12)

    def useful(restart: float) -> float:
        return shares(daly_interval_s(saving, mtbf), saving, restart, mtbf).useful

    assert useful(10 * 60) > 0.92
    assert useful(14 * 60) > 0.90 > useful(16 * 60)


def test_young_by_hand() -> None:
    """sqrt(2 x 50 s x 10,000 s) = 1,000 s, which costs 5 % for checkpoints and 5 % for work that is lost."""
    assert young_interval_s(50, 10_000) == 1000
    assert first_order_overhead(1000, 50, 10_000) == pytest.approx(0.10)


@given(TIMES, st.floats(0.05, 20))
def test_no_other_interval_has_a_smaller_first_order_overhead(times: tuple[float, float, float], factor: float) -> None:
    saving, _, mtbf = times
    best = young_interval_s(saving, mtbf)
    assert first_order_overhead(best, saving, mtbf) <= first_order_overhead(best * factor, saving, mtbf) * (1 + 1e-12)


@given(TIMES)
def test_daly_is_as_good_as_the_best_of_a_thousand_intervals(times: tuple[float, float, float]) -> None:
    saving, restart, mtbf = times
    tried = (mtbf * 10 ** (i / 200 - 4) for i in range(1000))
    best = max(shares(t, saving, restart, mtbf).useful for t in tried)
    assert shares(daly_interval_s(saving, mtbf), saving, restart, mtbf).useful >= best * 0.999


@given(TIMES, st.floats(10, 50_000))
def test_the_shares_are_shares(times: tuple[float, float, float], interval: float) -> None:
    saving, restart, mtbf = times
    found = shares(interval, saving, restart, mtbf)
    parts = (found.useful, found.checkpoint, found.restart, found.rework)
    assert all(0 <= p <= 1 for p in parts)
    assert sum(parts) == pytest.approx(1)


def simulated(interval: float, saving: float, restart: float, mtbf: float, segments: int) -> Shares:
    """A run with failures drawn at random, second by second accounted: the independent count."""
    source = random.Random(7)
    fails_in = source.expovariate(1 / mtbf)
    spent = {"useful": 0.0, "checkpoint": 0.0, "restart": 0.0, "rework": 0.0}

    def runs(duration: float) -> float:
        """How long it runs before it is done or fails."""
        nonlocal fails_in
        done = min(duration, fails_in)
        fails_in -= done
        return done

    for _ in range(segments):
        while True:
            worked = runs(interval + saving)
            if worked == interval + saving:
                break
            spent["rework"] += worked
            while True:
                fails_in = source.expovariate(1 / mtbf)
                waited = runs(restart)
                spent["restart"] += waited
                if waited == restart:
                    break
        spent["useful"] += interval
        spent["checkpoint"] += saving
    whole = sum(spent.values())
    return Shares(**{name: t / whole for name, t in spent.items()})


def test_the_shares_are_those_of_a_simulated_run() -> None:
    """Failures come often here, so that restarts are cut short and segments are tried again and again."""
    found, seen = shares(1000, 60, 600, 3000), simulated(1000, 60, 600, 3000, 200_000)
    for name in ("useful", "checkpoint", "restart", "rework"):
        assert getattr(found, name) == pytest.approx(getattr(seen, name), rel=0.01), name


def test_a_checkpoint_as_long_as_two_failures_leaves_daly_the_mean_time() -> None:
    assert daly_interval_s(20, 10) == 10
    assert daly_interval_s(1, 1e9) == pytest.approx(young_interval_s(1, 1e9), rel=1e-4)


def test_a_run_that_makes_no_progress_is_refused() -> None:
    with pytest.raises(UsageError, match="makes no progress"):
        shares(10_000, 10, 10, 1)
    assert not math.isnan(shares(400, 10, 10, 1).useful)
