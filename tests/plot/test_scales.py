"""Axes: values where they belong, ticks that are round and few."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.report.plot.frame import Axis, name_ticks
from roofline.report.plot.scale import linear_scale, log_scale, log_ticks, quantity, round_ticks, tick_label
from roofline.report.plot.svg import Drawing
from roofline.units import Dimension, parse_quantity

POSITIVE = st.floats(1e-90, 1e90)


def test_a_decade_is_as_wide_as_any_other() -> None:
    place = log_scale(1, 1e4, 100, 500)
    assert [place(10**i) for i in range(5)] == pytest.approx([100, 200, 300, 400, 500])
    assert log_scale(1e-100, 1e300, 0, 1)(1e100) == pytest.approx(0.5), "the quotient of its ends is no float"


def test_linear_scale_worked_by_hand() -> None:
    assert linear_scale(0, 50, 10, 110)(20) == 50


@given(POSITIVE, st.floats(2, 1e30))
def test_ticks_of_a_logarithmic_axis_lie_on_it_and_are_few(low: float, factor: float) -> None:
    high = low * factor
    ticks = log_ticks(low, high)
    assert all(low * (1 - 1e-6) <= t <= high * (1 + 1e-6) for t in ticks)
    assert ticks == sorted(ticks)
    assert len(ticks) <= 9
    assert ticks or factor < 2.6
    assert all(round(t / 10 ** math.floor(math.log10(t) + 1e-9), 6) in (1, 2, 5) for t in ticks)


@given(POSITIVE)
def test_ticks_of_a_linear_axis_begin_at_zero_and_end_near_its_end(high: float) -> None:
    ticks = round_ticks(high)
    assert ticks[0] == 0
    assert high * 0.49 <= ticks[-1] <= high * (1 + 1e-6)
    assert 2 <= len(ticks) <= 7


@given(POSITIVE)
def test_a_quantity_of_an_axis_reads_back_as_what_it_rounds_to(value: float) -> None:
    said = quantity(value, Dimension.SECONDS)
    number, _, unit = said.partition(" ")
    assert not (number.endswith(("0", ".")) and "." in number and "e" not in number)
    if "e" not in number and 1e-11 < value < 1e15:
        assert parse_quantity(said, Dimension.SECONDS) == pytest.approx(value, rel=5.1e-3)
    assert unit


def test_labels_of_powers() -> None:
    assert [tick_label(v) for v in (1e-4, 0.001, 1.0, 20.0, 1e4, 1e5, 2e6)] == ["10⁻⁴", "0.001", "1", "20", "10000", "10⁵", "2·10⁶"]


def test_an_axis_is_logarithmic_from_a_factor_of_eight_and_linear_from_zero_below() -> None:
    assert Axis(values=[1, 8], said="", written=str).log
    small = Axis(values=[1, 7.9], said="", written=str)
    assert not small.log
    assert small.ends()[0] == 0
    assert not Axis(values=[0, 100], said="", written=str).log, "zero has no place on a logarithmic axis"


def test_names_of_an_axis_keep_apart_and_on_the_page() -> None:
    """Four letters of 12 px are 29 px wide: the second would touch the first, the last is moved in from the edge."""
    page = Drawing("", 50, width=120)
    name_ticks(page, [(20, "1000"), (40, "2000"), (65, "3000"), (119, "4000")], 30)
    assert [b[4] for b in page.boxes] == ["1000", "3000", "4000"]
    assert page.boxes[-1][2] == pytest.approx(118)
