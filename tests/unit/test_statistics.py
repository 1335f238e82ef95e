"""The statistics of timing samples: by hand where that is possible, by simulation where the promise is a rate."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from roofline.report import statistics
from roofline.report.statistics import Array, Effect, effect, geomean, holm, medians, rank_test, smallest_p, split, spread

PAIRS = 200
ROUNDS, SAMPLES = 10, 20


@cache
def runs(seed: int, rounds: int = ROUNDS, pairs: int = PAIRS) -> tuple[Array, Array]:
    """Two measurements of the same code, many times over: (pair, block, sample) in seconds a call.

    Blocks differ by 0.3-1 %, samples within one by 0.5-3 % with memory of the last one, and the device drifts by up to
    0.5 % during a measurement.
    """
    rng = np.random.default_rng(seed)
    between, within = rng.uniform(0.003, 0.01, (pairs, 1)), rng.uniform(0.005, 0.03, (pairs, 1))
    memory, drift = rng.uniform(0.0, 0.8, pairs), rng.uniform(-0.005, 0.005, (pairs, 1))
    count = rounds * SAMPLES

    def run() -> Array:
        noise = rng.normal(size=(pairs, count))
        for i in range(1, count):
            noise[:, i] = memory * noise[:, i - 1] + np.sqrt(1 - memory**2) * noise[:, i]
        block = np.repeat(rng.normal(size=(pairs, rounds)), SAMPLES, axis=1)
        logs: Array = block * between + noise * within + drift * np.linspace(0, 1, count)
        return 1e-3 * np.exp(logs).reshape(pairs, rounds, SAMPLES)

    return run(), run()


def effects(seed: int, slower: float = 1.0, rounds: int = ROUNDS, pairs: int = PAIRS) -> list[Effect]:
    base, head = runs(seed, rounds, pairs)
    return [effect(list(b), list(h), draws=500) for b, h in zip(base, head * slower, strict=True)]


# --------------------------------------------------------------------------- rates
def test_the_interval_holds_the_true_ratio_about_as_often_as_it_says() -> None:
    for rounds in (5, 10):
        held = np.mean([e.low <= 1.02 <= e.high for e in effects(3, 1.02, rounds)])
        assert 0.93 <= held <= 0.995


def test_block_medians_raise_few_false_alarms_where_raw_samples_raise_many() -> None:
    base, head = runs(4)
    on_samples = np.mean([rank_test(b.ravel(), h.ravel()) < 0.01 for b, h in zip(base, head, strict=True)])
    on_blocks = np.mean([e.p < 0.01 for e in effects(4)])
    assert on_samples > 0.2
    assert on_blocks <= 0.04


def test_a_change_as_large_as_the_detectable_one_clears_the_tolerance_in_nine_of_ten() -> None:
    cleared = [e.low * (1 + statistics.detectable(e, 0.03)) > 1.03 for e in effects(5)]
    assert 0.85 <= np.mean(cleared) <= 0.99


# --------------------------------------------------------------------------- bootstrap
def test_the_median_of_a_resample_is_that_of_plain_numpy() -> None:
    """Same mean and spread as the slow way: draw blocks, draw within them, np.median."""
    rng = np.random.default_rng(1)
    blocks = [rng.normal(1 + 0.01 * i, 0.01, 8) for i in range(5)]
    fast = medians(blocks, 4000, np.random.default_rng(2))
    slow = [np.median(np.concatenate([rng.choice(blocks[b], 8) for b in rng.integers(0, 5, 5)])) for _ in range(4000)]
    assert fast.mean() == pytest.approx(np.mean(slow), rel=1e-3)
    assert fast.std() == pytest.approx(np.std(slow), rel=0.06)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_resampled_medians_of_odd_and_even_counts_are_medians(size: int) -> None:
    one = [np.arange(1.0, size + 1)]
    values = {float(np.median(c)) for c in itertools.product(one[0], repeat=size)}
    assert set(medians(one, 3000, np.random.default_rng(0))) == values


def test_blocks_far_apart_widen_the_interval_and_samples_do_not_narrow_it() -> None:
    rng = np.random.default_rng(0)
    apart = [rng.normal(1 + 0.02 * (i % 2), 1e-4, 1000) for i in range(6)]
    together = [rng.normal(1.01, 1e-4, 1000) for _ in range(6)]
    assert effect(apart, apart).half_width > 50 * effect(together, together).half_width


def test_few_blocks_are_not_taken_for_many() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(1, 0.01, (24, 1))
    assert effect(list(values[:3]), list(values[3:6])).half_width > effect(list(values[:12]), list(values[12:])).half_width


def test_the_same_samples_give_the_same_interval_and_swapping_inverts_it() -> None:
    base, head = (list(r[0]) for r in runs(3))
    assert effect(base, head).low == effect(base, head).low
    there, back = effect(base, head), effect(head, base)
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1, abs=2e-3)


def test_identical_values_have_an_interval_of_no_width() -> None:
    flat = [np.full(5, 2e-6)] * 4
    found = effect(flat, [b * 1.5 for b in flat])
    assert (found.ratio, found.low, found.high) == pytest.approx((1.5, 1.5, 1.5))
    assert found.noise_floor == 0


# --------------------------------------------------------------------------- blocks
def test_recorded_blocks_are_kept_and_interleaved_labels_collected() -> None:
    found = split([1, 2, 3, 4, 5, 6], [0, 1, 2, 0, 1, 2])
    assert [list(b) for b in found] == [[1, 4], [2, 5], [3, 6]]


@pytest.mark.parametrize("blocks", [None, [0] * 40, [0] * 20 + [1] * 20])
def test_runs_of_samples_stand_in_for_blocks_that_were_not_recorded(blocks: list[int] | None) -> None:
    found = split(list(range(1, 41)), blocks)
    assert [len(b) for b in found] == [4] * 10
    assert list(found[0]) == [1, 2, 3, 4]


def test_the_noise_floor_is_the_spread_of_blocks_and_ignores_one_that_strayed() -> None:
    rng = np.random.default_rng(0)
    middles = np.exp(rng.normal(0, 0.01, 400))
    assert spread(middles) == pytest.approx(0.01, rel=0.1)
    assert spread(np.array([1.0, 1.001, 0.999, 1.0, 2.0])) < 0.002


# --------------------------------------------------------------------------- rank test
def by_counting(base: list[float], head: list[float]) -> float:
    """Two-sided p of U from every way to share out the pooled values."""
    pooled, n = base + head, len(base)

    def u(chosen: tuple[int, ...]) -> float:
        ours = [pooled[i] for i in chosen]
        theirs = [pooled[i] for i in range(len(pooled)) if i not in chosen]
        return sum((x > y) + (x == y) / 2 for x in ours for y in theirs)

    seen = u(tuple(range(n)))
    extreme = min(seen, n * len(head) - seen)
    every = [u(c) for c in itertools.combinations(range(len(pooled)), n)]
    return min(1.0, 2 * sum(x <= extreme for x in every) / len(every))


@pytest.mark.parametrize(("n", "m"), [(2, 3), (3, 3), (4, 4), (5, 5), (3, 6)])
def test_p_of_few_values_is_exact(n: int, m: int) -> None:
    rng = np.random.default_rng(n * 10 + m)
    for shift in (0, 1, 5):
        base, head = rng.normal(0, 1, n), rng.normal(shift, 1, m)
        assert rank_test(base, head) == pytest.approx(by_counting(list(base), list(head)))


def test_p_by_hand() -> None:
    # Three below four: U = 0, one order of 35 on either side.
    assert rank_test(np.array([1.0, 2, 3]), np.array([4.0, 5, 6, 7])) == pytest.approx(2 / 35)
    # U = 1 of 3 x 3: orders with U <= 1 are 2 of 20.
    assert rank_test(np.array([1.0, 2, 4]), np.array([3.0, 5, 6])) == pytest.approx(4 / 20)


def test_ties_are_corrected_for() -> None:
    # Pooled 1 1 2 | 2 3 3: ranks 1.5 1.5 3.5, U = 0.5; variance 9/12 (7 - 18/30) = 4.8; z = (0.5 + 0.5 - 4.5)/sqrt(4.8).
    p = rank_test(np.array([1.0, 1, 2]), np.array([2.0, 3, 3]))
    assert p == pytest.approx(math.erfc(3.5 / math.sqrt(4.8) / math.sqrt(2)))
    assert rank_test(np.ones(5), np.ones(5)) == 1


def test_exact_and_normal_p_agree_where_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    base, head = rng.normal(0, 1, 30), rng.normal(0.25, 1, 30)
    exact = rank_test(base, head)
    monkeypatch.setattr(statistics, "MOST_EXACT", 0)
    assert rank_test(base, head) != exact
    assert rank_test(base, head) == pytest.approx(exact, rel=0.1)
    assert 0.001 < exact < 0.2


def test_complete_separation_has_the_smallest_p() -> None:
    for n, m in ((3, 3), (5, 5), (4, 9)):
        assert rank_test(np.arange(n) + 0.0, np.arange(m) + 100.0) == pytest.approx(smallest_p(n, m))
    assert smallest_p(1, 1) == 1


def test_holm_by_hand() -> None:
    # 4 x 0.01, then 3 x 0.013 = 0.039 raised to 0.04, then 2 x 0.03, then 1 x 0.5.
    assert holm([0.03, 0.01, 0.5, 0.013]) == pytest.approx([0.06, 0.04, 0.5, 0.04])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []


def test_holm_keeps_false_alarms_of_a_family_rare() -> None:
    p = np.random.default_rng(0).uniform(size=(2000, 20))
    assert np.mean([min(holm(list(row))) < 0.05 for row in p]) == pytest.approx(0.05, abs=0.015)


# --------------------------------------------------------------------------- planning
def known(ratio: float, half: float, blocks: int) -> Effect:
    width = math.exp(half)
    return Effect(ratio, ratio / width, ratio * width, 0.5, 0.01, 0.0, blocks, np.zeros(1))


@pytest.mark.parametrize("ratio", [1.06, 1.0, 1 / 1.06])
def test_blocks_to_settle_follow_the_square_of_the_width(ratio: float) -> None:
    distance = abs(abs(math.log(ratio)) - math.log(1.03))
    assert statistics.blocks_to_settle(known(ratio, 2 * distance, 5), 0.03) in (20, 21)


def test_a_ratio_on_the_tolerance_is_never_settled() -> None:
    assert statistics.blocks_to_settle(known(1.03, 0.02, 5), 0.03) is None


def test_blocks_to_reach_is_the_first_that_can() -> None:
    for level in (0.01, 0.01 / 20):
        n = statistics.blocks_to_reach(level)
        assert smallest_p(n, n) < level <= smallest_p(n - 1, n - 1)


def test_the_mean_of_many_rows_is_surer_than_one() -> None:
    rows = effects(7, 1.01, pairs=25)
    ratio, low, high = geomean(rows)
    assert ratio == pytest.approx(math.prod(e.ratio for e in rows) ** (1 / len(rows)))
    assert low < 1.01 < high
    assert math.log(high / low) / 2 < 0.4 * float(np.median([e.half_width for e in rows]))


def test_importing_the_comparison_loads_no_numpy() -> None:
    code = "import sys, roofline.report.diff, roofline.report.diff_view, roofline.report.gates; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
