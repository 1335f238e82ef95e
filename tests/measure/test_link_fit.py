"""Latency and bandwidth from sizes and times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.measure.link_fit import FEWEST_POINTS, error, line, predicted, regimes

SIZES = [float(2**k) for k in range(10, 34, 2)]


def times(alpha: float, rate: float, sizes: list[float] = SIZES) -> list[float]:
    return [alpha + size / rate for size in sizes]


@given(alpha=st.floats(1e-6, 1e-3), rate=st.floats(1e8, 1e12))
def test_what_was_put_in_comes_out(alpha: float, rate: float) -> None:
    found = line(SIZES, times(alpha, rate))
    assert found.alpha_s == pytest.approx(alpha, rel=1e-6)
    assert found.bytes_per_s == pytest.approx(rate, rel=1e-6)
    assert found.worst < 1e-6
    assert found.half_bytes == pytest.approx(alpha * rate, rel=1e-6)


def test_errors_are_relative_so_that_small_sizes_count() -> None:
    """10 % on the largest size alone moves alpha by less than that; absolute squares would throw it far off."""
    noisy = times(10e-6, 300e9)
    noisy[-1] *= 1.1
    assert line(SIZES, noisy).alpha_s == pytest.approx(10e-6, rel=0.05)


@given(st.lists(st.floats(1e-6, 1.0), min_size=len(SIZES), max_size=len(SIZES)))
def test_neither_part_is_negative_whatever_was_measured(measured: list[float]) -> None:
    for fit in regimes(SIZES, measured):
        assert fit.alpha_s >= 0
        assert fit.bytes_per_s is None or fit.bytes_per_s > 0


def test_times_that_do_not_grow_have_no_bandwidth() -> None:
    found = line(SIZES[:4], [3e-6, 3e-6, 2e-6, 2e-6])
    assert (found.bytes_per_s, found.half_bytes) == (None, None)
    assert 2e-6 < found.time_s(1e12) < 3e-6


def test_times_in_proportion_have_no_latency() -> None:
    found = line(SIZES, [size**1.05 / 1e10 for size in SIZES])
    assert found.alpha_s == 0
    assert found.bytes_per_s is not None


def test_one_line_is_enough_where_one_line_is_true() -> None:
    assert len(regimes(SIZES, [t * (1 + 0.02 * (-1) ** i) for i, t in enumerate(times(8e-6, 300e9))])) == 1


def test_two_protocols_are_two_regimes() -> None:
    """A low latency at 20 GB/s, then a higher one at 350 GB/s."""
    measured = times(7e-6, 20e9, SIZES[:5]) + times(25e-6, 350e9, SIZES[5:])
    found = regimes(SIZES, measured)
    assert [(f.from_bytes, f.to_bytes) for f in found] == [(SIZES[0], SIZES[4]), (SIZES[5], SIZES[-1])]
    assert [f.alpha_s for f in found] == [pytest.approx(7e-6), pytest.approx(25e-6)]
    assert error(found, SIZES, measured) < 1e-6
    assert predicted(found, SIZES[4] * 2) == pytest.approx(7e-6 + SIZES[4] * 2 / 20e9)
    assert predicted(found, 2.0**40) == pytest.approx(25e-6 + 2.0**40 / 350e9)


@pytest.mark.parametrize("count", range(FEWEST_POINTS))
def test_too_few_sizes_have_no_fit(count: int) -> None:
    assert regimes(SIZES[:count], times(1e-6, 1e9, SIZES[:count])) == ()
