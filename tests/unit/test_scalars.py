"""YAML 1.1's traps: each spelling has the value that people mean, or an error with the fix."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.spec.scalars import as_bool, as_float, as_int, as_text
from roofline.spec.source import Mark, Scalar, Source


def scalar(text: str, quoted: bool = False) -> Scalar:
    return Scalar(Source("w.yaml", text), Mark(1, 1), text, quoted)


VALUES: list[tuple[Callable[[Scalar], object], str, object]] = [
    (as_int, "0", 0),
    (as_int, "-0", 0),
    (as_int, "42", 42),
    (as_int, "+5", 5),
    (as_int, "-7", -7),
    (as_int, "9223372036854775807", 2**63 - 1),
    (as_int, "-9223372036854775807", -(2**63) + 1),
    (as_float, "989e12", 989e12),
    (as_float, "3.35e12", 3.35e12),
    (as_float, "1e3", 1000.0),
    (as_float, "1E3", 1000.0),
    (as_float, "1e+3", 1000.0),
    (as_float, "1e-3", 0.001),
    (as_float, ".5", 0.5),
    (as_float, "1.", 1.0),
    (as_float, "3", 3.0),
    (as_float, "-2.5", -2.5),
    (as_float, "0.1", 0.1),
    (as_float, "0", 0.0),
    (as_float, "1.7976931348623157e308", 1.7976931348623157e308),
    (as_float, "5e-324", 5e-324),
    (as_bool, "true", True),
    (as_bool, "false", False),
    (as_text, "no", "no"),
    (as_text, "on", "on"),
    (as_text, "010", "010"),
    (as_text, "1e3", "1e3"),
    (as_text, "1:30", "1:30"),
    (as_text, "2024-01-01", "2024-01-01"),
    (as_text, ".nan", ".nan"),
]

REFUSED: list[tuple[Callable[[Scalar], object], str, str]] = [
    (as_int, "1_000", "write 1000"),
    (as_int, "010", "write 10 if decimal is meant"),
    (as_int, "08", "write 8 if decimal is meant"),
    (as_int, "-010", "write -10 if decimal is meant"),
    (as_int, "00", "write 0 if decimal is meant"),
    (as_int, "0x10", "write 16"),
    (as_int, "0o17", "write 15"),
    (as_int, "0b11", "write 3"),
    (as_int, "1e3", "write 1000"),
    (as_int, "1E3", "write 1000"),
    (as_int, "1.0", "write 1"),
    (as_int, "1.", "write 1"),
    (as_int, "1.5", "without a fraction"),
    (as_int, "1:30", "without ':'"),
    (as_int, "190:20:30", "without ':'"),
    (as_int, "1,000", "write 1000"),
    (as_int, "8,16", "several values are for 'roofline sweep'"),
    (as_int, "1,2,4", "one whole number stands here"),
    (as_int, "1 000", "not a number"),
    (as_int, "1__0", "write 10"),
    (as_int, "true", "not a number"),
    (as_int, "on", "not a number"),
    (as_int, "null", "a value is missing"),
    (as_int, "~", "a value is missing"),
    (as_int, "", "a value is missing"),
    (as_int, "2024-01-01", "not a number"),
    (as_int, "9223372036854775808", "below 2**63"),
    (as_int, "1e30", "below 2**63"),
    (as_int, "9" * 41, "more than 40 digits"),
    (as_int, "9" * 5000, "more than 40 digits"),
    (as_int, "0x" + "f" * 5000, "decimal digits"),
    (as_int, "\u0661", "not a number"),
    (as_int, "\uff11\uff12", "not a number"),
    (as_int, "12 GB", "write the number alone"),
    (as_int, "50%", "write the number alone"),
    (as_int, "--1", "not a number"),
    (as_int, "1e99999999999", "out of range"),
    (as_float, ".nan", "not a finite number"),
    (as_float, ".NaN", "not a finite number"),
    (as_float, "nan", "not a finite number"),
    (as_float, ".inf", "not a finite number"),
    (as_float, "-.inf", "not a finite number"),
    (as_float, "inf", "not a finite number"),
    (as_float, "Infinity", "not a finite number"),
    (as_float, "1,5", "write the decimal point: 1.5"),
    (as_float, "010", "leading zero"),
    (as_float, "010.5", "leading zero"),
    (as_float, "1_0", "write 10"),
    (as_float, "1:30.5", "without ':'"),
    (as_float, "0x1p3", "not a number"),
    (as_float, "1e400", "too large"),
    (as_float, "1e-400", "too small"),
    (as_float, "1.5 ms", "write the number alone"),
    (as_float, ".", "not a number"),
    (as_float, "1.2.3", "not a number"),
    (as_bool, "yes", "write true or false (here true)"),
    (as_bool, "no", "write true or false (here false)"),
    (as_bool, "on", "write true or false (here true)"),
    (as_bool, "off", "write true or false (here false)"),
    (as_bool, "y", "write true or false"),
    (as_bool, "True", "write true or false (here true)"),
    (as_bool, "FALSE", "write true or false (here false)"),
    (as_bool, "1", "write true or false"),
    (as_bool, "null", "write true or false"),
    (as_bool, "", "write true or false"),
    (as_text, "", "a value is missing"),
    (as_text, "~", "a value is missing"),
    (as_text, "null", "a value is missing"),
]


def test_the_tables_hold_at_least_60_scalars() -> None:
    assert len(VALUES) + len(REFUSED) >= 60


@pytest.mark.parametrize(("read", "text", "value"), VALUES)
def test_reads(read: Callable[[Scalar], object], text: str, value: object) -> None:
    found = read(scalar(text))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("read", "text", "fragment"), REFUSED)
def test_refuses_with_the_fix(read: Callable[[Scalar], object], text: str, fragment: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fragment)) as caught:
        read(scalar(text))
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(("read", "text"), [(as_int, "3"), (as_float, "3.5"), (as_bool, "true"), (as_int, "")])
def test_quotes_make_text(read: Callable[[Scalar], object], text: str) -> None:
    with pytest.raises(ValueError, match="quotes"):
        read(scalar(text, quoted=True))
    assert as_text(scalar(text, quoted=True)) == text


@given(st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1))
def test_every_count_is_read_back(value: int) -> None:
    assert as_int(scalar(str(value))) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_is_read_back(value: float) -> None:
    assert as_float(scalar(repr(value))) == value


@given(st.text(max_size=50), st.booleans(), st.sampled_from([as_text, as_bool, as_int, as_float]))
def test_any_text_is_read_or_refused(text: str, quoted: bool, read: Callable[[Scalar], object]) -> None:
    try:
        value, message = read(scalar(text, quoted)), ""
    except ValueError as error:
        value, message = None, str(error)
    assert "\n" not in message
    assert not isinstance(value, float) or math.isfinite(value)
