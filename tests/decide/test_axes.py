"""``--set`` of a sweep: ranges, lists, units, and what is wrong with them at its place."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError, UsageError
from roofline.spec.axes import Axis, read_axes


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("1..512:x2", (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)),
        ("1..500:x2", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        ("100..250:+50", (100, 150, 200, 250)),
        ("3..6", (3, 4, 5, 6)),
        ("1Ki,4Ki,1M", (1024, 4096, 1_000_000)),
        ("1Ki..8Ki:x2", (1024, 2048, 4096, 8192)),
        ("1,16..64:x2", (1, 16, 32, 64)),
        ("0.25,0.5", (0.25, 0.5)),
        ("bf16,fp8_e4m3", ("bf16", "fp8_e4m3")),
    ],
)
def test_values_are_read(written: str, values: tuple[object, ...]) -> None:
    assert read_axes([f"batch={written}"]) == ([], [Axis("batch", values)])  # type: ignore[arg-type]


def test_one_value_stays_and_is_worked_out() -> None:
    assert read_axes(["context=4Ki", "batch=1,2"])[0] == ["context=4096"]


@given(st.integers(1, 50), st.integers(2, 9), st.integers(0, 12))
def test_a_geometric_range_ends_at_its_last_value(first: int, factor: int, steps: int) -> None:
    last = first * factor**steps
    if steps:
        values = read_axes([f"m={first}..{last}:x{factor}"])[1][0].values
        assert len(values) == steps + 1
        assert values[-1] == last
        assert all(b == a * factor for a, b in pairwise(values))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("written", "column", "said"),
    [
        ("1..512:y2", 7, "not a range"),
        ("8..1:x2", 7, "below its first value"),
        ("1..8:x1", 7, "never ends"),
        ("1,2,2", 7, "stands twice"),
        ("1,,2", 9, "a value is missing"),
        ("1..8q:x2", 10, "ends in 'q'"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(written: str, column: int, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        read_axes([f"batch={written}"])
    assert refused.value.problems[0].column == column


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["batch=4"], "nothing is varied"),
        (["batch"], "key=values"),
        (["batch=1,2", "batch=4,8"], "given twice"),
        (["a=1..3000", "b=1..3000"], "9,000,000 points"),
    ],
)
def test_settings_that_make_no_sweep_are_refused(settings: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_axes(settings)


def test_one_value_is_enough_of_a_key_that_is_asked_for_by_itself() -> None:
    assert read_axes(["context=4Ki", "batch=64"], ["batch"]) == (["context=4096"], [Axis("batch", (64,))])
    with pytest.raises(UsageError, match="nothing is varied"):
        read_axes(["context=4Ki"], ["batch"])
