"""Logarithms and powers that numbers and arrays share: the same bits, near those of the C library, exact where powers of 2 meet."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.numeric import exp2, log2, power

positive = st.floats(5e-324, 1.7e308)
exponents = st.floats(-1100, 1023)


@given(st.lists(positive, min_size=1, max_size=20), st.lists(exponents, min_size=1, max_size=20))
def test_a_number_and_an_array_element_have_the_same_bits(values: list[float], powers: list[float]) -> None:
    """Whatever numpy and Python's library make of the last bit: nothing here is theirs but sums, products and quotients."""
    assert np.asarray(log2(np.array(values))).tolist() == [log2(v) for v in values]
    assert np.asarray(exp2(np.array(powers))).tolist() == [exp2(p) for p in powers]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e7)), min_size=1, max_size=20))
def test_powers_of_shares_have_the_same_bits(pairs: list[tuple[float, float]]) -> None:
    bases, exponents = (np.array(column) for column in zip(*pairs, strict=True))
    one_by_one = [power(b, e) for b, e in pairs]
    assert np.asarray(power(bases, exponents)).tolist() == one_by_one
    assert np.asarray(power(pairs[0][0], exponents)).tolist() == [power(pairs[0][0], e) for _, e in pairs]


@given(positive)
def test_the_logarithm_is_that_of_the_c_library(value: float) -> None:
    """Also near 1, where it is near 0: there relative to itself."""
    assert log2(value) == pytest.approx(math.log2(value), rel=5e-16, abs=0)


@given(st.floats(-1000, 1023))
def test_two_to_a_power_is_that_of_the_c_library(value: float) -> None:
    assert exp2(value) == pytest.approx(2.0**value, rel=4e-16)


@given(st.floats(1e-6, 1e6), st.floats(0, 30))
def test_a_power_is_off_by_no_more_than_it_says(base: float, exponent: float) -> None:
    """4.4e-16 for each power of 2 between it and 1, and no less than twice that: that of the C library is off too."""
    wanted = math.pow(base, exponent)
    assert power(base, exponent) == pytest.approx(wanted, rel=4.4e-16 * (2 + abs(math.log2(wanted))))


def test_whole_powers_of_two_are_exact() -> None:
    assert [log2(2.0**n) for n in range(-1074, 1024)] == list(range(-1074, 1024))
    assert [exp2(n) for n in range(-1074, 1024)] == [2.0**n for n in range(-1074, 1024)]


def test_the_ends() -> None:
    """Nothing is left of a share that nobody misses often enough; anything to the power 0 is 1."""
    assert (exp2(-1e300), power(0.5, 1e300), power(0.0, 3)) == (0.0, 0.0, 0.0)
    assert (power(0.0, 0), power(7.0, 0)) == (1.0, 1.0)
    assert np.asarray(power(np.array([0.0, 0.0, 4.0]), np.array([0.0, 2.0, 0.5]))).tolist() == [1.0, 0.0, 2.0]
