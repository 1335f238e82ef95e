"""No measured kernel is faster than its bound: 900 rows of four devices, half of them the nearest to it of their size."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.published.measurements import BELOW_THE_BOUND, FOLDER, Measurement, measurements, tables

TABLES = [pytest.param(device, table, id=f"{device}-{table}") for device, table in tables()]

NEAREST = {"transpose": 0.1, "monarch": 0.2}
"""A plain strided copy moves a sector of L2 for each element and reaches an eighth of its bound; so do Monarch's permutations."""


@pytest.mark.parametrize(("device", "table"), TABLES)
def test_no_row_is_faster_than_its_bound(device: str, table: str) -> None:
    faster = {m.key for m in measurements(device, table) if m.share > 1}
    assert faster == {key for key in BELOW_THE_BOUND if key[:2] == (device, table)}


@pytest.mark.parametrize(("device", "table"), TABLES)
def test_the_bound_is_no_trivial_one(device: str, table: str) -> None:
    """Some row of every table comes near its bound, so that a count far too low would be seen."""
    assert max(m.share for m in measurements(device, table)) > NEAREST.get(table, 0.25)


def _named(key: tuple[str, str, str]) -> Measurement:
    return next(m for m in measurements(key[0], key[1]) if m.key == key)


@pytest.mark.parametrize("key", list(BELOW_THE_BOUND))
def test_rows_below_the_bound_are_so_by_operands_that_stay_in_l2(key: tuple[str, str, str]) -> None:
    (found,) = _named(key).bounds()
    assert found.limiter == "hbm"
    assert found.without("hbm") < _named(key).time_s < found.time_s
    activations = _named(key).ops[0].tensors()[0]
    assert activations.bytes < 126.5 * 2**20


def test_every_device_and_operator_of_the_accountant_is_among_the_tables() -> None:
    assert Counter(device for device, _ in tables()) == {"a100-sxm": 3, "b200-sxm": 3, "h100-sxm": 4, "h200-sxm": 16}
    assert sum(len(measurements(*table)) for table in tables()) == 900


def test_every_table_states_its_provenance() -> None:
    for device, table in tables():
        first = (FOLDER / device / f"{table}.csv").read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith(("# measured for this project", "# SPDX-FileCopyrightText:"))
