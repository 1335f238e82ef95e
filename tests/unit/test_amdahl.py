"""Amdahl's law, its inverse, and Gustafson's form."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import UsageError
from roofline.predict.amdahl import Part, amdahl, gustafson, required_speedup

fractions = st.floats(0, 1)
speedups = st.floats(0.01, 1e6)


def test_a_fifth_made_twice_as_fast_is_worth_a_ninth() -> None:
    effect = amdahl([Part(0.2, 2)])
    assert effect.time == pytest.approx(0.9)
    assert effect.speedup == pytest.approx(1 / 0.9)
    assert effect.limit == pytest.approx(1.25)
    assert effect.new_shares == (pytest.approx(0.1 / 0.9),)


def test_three_parts_add_up_and_do_not_multiply() -> None:
    """0.632/1.6 + 0.310/4 + 0.058 = 0.5305; the product of the single results would be 1.708."""
    effect = amdahl([Part(0.632, 1.6), Part(0.310, 4), Part(0.058, 1)])
    assert effect.speedup == pytest.approx(1 / 0.5305)
    assert effect.unchanged == pytest.approx(0)


def test_an_infinitely_fast_whole_has_no_limit() -> None:
    effect = amdahl([Part(1, math.inf)])
    assert math.isinf(effect.speedup)
    assert effect.time == 0


@given(fractions, speedups)
def test_the_whole_is_never_faster_than_the_part_nor_than_the_limit(fraction: float, speedup: float) -> None:
    effect = amdahl([Part(fraction, speedup)])
    assert effect.speedup <= max(speedup, 1) * (1 + 1e-12)
    assert effect.speedup <= effect.limit * (1 + 1e-12)
    assert math.isclose(sum(effect.new_shares) + effect.unchanged_new_share, 1)


@given(st.floats(0.01, 1), speedups)
def test_the_inverse_gives_back_the_local_speedup(fraction: float, speedup: float) -> None:
    target = amdahl([Part(fraction, speedup)]).speedup
    needed = required_speedup(fraction, target)
    assert needed is None or math.isclose(needed, speedup, rel_tol=1e-3)


def test_one_and_a_half_from_three_fifths_needs_two_and_a_quarter() -> None:
    """1 / 1.5 = 0.4 + 0.6 / s gives s = 2.25."""
    assert required_speedup(0.6, 1.5) == pytest.approx(2.25)


@pytest.mark.parametrize(("fraction", "target"), [(0.6, 2.5), (0.6, 3), (0, 1.1)])
def test_a_target_at_or_beyond_the_limit_is_out_of_reach(fraction: float, target: float) -> None:
    assert required_speedup(fraction, target) is None


def test_gustafson_scales_with_the_machine() -> None:
    assert gustafson(0.95, 64) == pytest.approx(0.05 + 0.95 * 64)


@pytest.mark.parametrize(
    "parts",
    [
        [Part(-0.1, 2)],
        [Part(1.1, 2)],
        [Part(0.5, 0)],
        [Part(0.5, -1)],
        [Part(0.5, math.nan)],
        [Part(math.nan, 2)],
        [Part(0.6, 2), Part(0.45, 2)],
    ],
)
def test_values_outside_their_domain_are_refused(parts: list[Part]) -> None:
    with pytest.raises(UsageError):
        amdahl(parts)
