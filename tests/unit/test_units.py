"""Spellings of quantities that are accepted, with their value, or refused, with the fix."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roofline.units import Dimension, QuantityError, canonical, format_quantity, parse_quantity, read_number

B, BPS, FLOP, FPS, OPS = (
    Dimension.BYTES,
    Dimension.BYTES_PER_S,
    Dimension.FLOP,
    Dimension.FLOP_PER_S,
    Dimension.OPS_PER_S,
)
HZ, S, W, J = Dimension.HERTZ, Dimension.SECONDS, Dimension.WATTS, Dimension.JOULES
FPB, USD = Dimension.FLOP_PER_BYTE, Dimension.USD_PER_HOUR

ACCEPTED = [
    ("0.5 B", B, 0.5),
    ("1 B", B, 1),
    ("1 kB", B, 1000),
    ("2GB", B, 2 * 10**9),
    ("2 GB", B, 2 * 10**9),
    ("2  GB", B, 2 * 10**9),
    (" 2 GB ", B, 2 * 10**9),
    ("2\tGB", B, 2 * 10**9),
    ("2 GiB", B, 2**31),
    ("227 KiB", B, 227 * 1024),
    ("256 KiB", B, 2**18),
    ("50 MiB", B, 50 * 2**20),
    ("1.5 MiB", B, 3 * 2**19),
    ("80e9 B", B, 80 * 10**9),
    ("80E9 B", B, 80 * 10**9),
    ("1 TB", B, 10**12),
    ("1 TiB", B, 2**40),
    ("1 PB", B, 10**15),
    ("1 PiB", B, 2**50),
    ("1 EB", B, 10**18),
    ("1 EiB", B, 2**60),
    ("8 b", B, 1),
    ("4 b", B, 0.5),
    ("16 Gb", B, 2 * 10**9),
    ("16 Gib", B, 2**31),
    ("+3 B", B, 3),
    (".5 kB", B, 500),
    ("1. kB", B, 1000),
    ("3.35 TB/s", BPS, 3.35e12),
    ("3350 GB/s", BPS, 3.35e12),
    ("3.35e12 B/s", BPS, 3.35e12),
    ("4.8TB/s", BPS, 4.8e12),
    ("64 GiB/s", BPS, 64 * 2.0**30),
    ("400 Gb/s", BPS, 50e9),
    ("400e9 b/s", BPS, 50e9),
    ("25 kB/s", BPS, 25e3),
    ("1 KiB/s", BPS, 1024.0),
    ("137 GFLOP", FLOP, 137 * 10**9),
    ("2 FLOP", FLOP, 2),
    ("1e25 FLOP", FLOP, 10**25),
    ("3.14 PFLOP", FLOP, 314 * 10**13),
    ("989 TFLOP/s", FPS, 989e12),
    ("989e12 FLOP/s", FPS, 989e12),
    ("989.4 TFLOP/s", FPS, 989.4e12),
    ("1.979 PFLOP/s", FPS, 1.979e15),
    ("1979 TOP/s", FPS, 1979e12),
    ("1979 Top/s", FPS, 1979e12),
    ("1979 TOP/s", OPS, 1979e12),
    ("1979e12 OP/s", OPS, 1979e12),
    ("5 op/s", OPS, 5.0),
    ("1.98 GHz", HZ, 1.98e9),
    ("1980 MHz", HZ, 1.98e9),
    ("60 Hz", HZ, 60.0),
    ("32 kHz", HZ, 32e3),
    ("1.5 ms", S, 1.5e-3),
    ("140.2 us", S, 140.2e-6),
    ("140.2 \u00b5s", S, 140.2e-6),
    ("140.2 \u03bcs", S, 140.2e-6),
    ("3 ns", S, 3e-9),
    ("7 ps", S, 7e-12),
    ("2 s", S, 2.0),
    ("0.1 s", S, 0.1),
    ("700 W", W, 700.0),
    ("1.2 kW", W, 1200.0),
    ("350 mW", W, 0.35),
    ("12 pJ", J, 12e-12),
    ("3.6 MJ", J, 3.6e6),
    ("1 J", J, 1.0),
    ("295.2 FLOP/B", FPB, 295.2),
    ("2.5 USD/h", USD, 2.5),
]

REFUSED = [
    ("", B, "does not start with a number"),
    ("   ", B, "write e.g. '227 KiB'"),
    ("GB", B, "does not start with a number"),
    ("a lot", B, "write e.g. '227 KiB'"),
    ("3.35", BPS, "write the unit, e.g. '3.35 TB/s'"),
    ("3.35", S, "write the unit, e.g. '1.5 ms'"),
    ("0", B, "write the unit, e.g. '227 KiB'"),
    ("989e12", FPS, "write the unit, e.g. '989 TFLOP/s'"),
    ("1980", HZ, "write the unit, e.g. '1.98 GHz'"),
    ("700", W, "write the unit, e.g. '700 W'"),
    ("2.5", USD, "write the unit, e.g. '2.5 USD/h'"),
    ("64 KB", B, "write kB or KiB"),
    ("64KB", B, "write kB or KiB"),
    ("64 KB/s", BPS, "write kB/s or KiB/s"),
    ("64 Kb/s", BPS, "write kb/s or Kib/s"),
    ("1 KHz", HZ, "write kHz"),
    ("1 KFLOP", FLOP, "write kFLOP"),
    ("1 KW", W, "write kW"),
    ("64 K", B, "write kB or KiB"),
    ("80 G", B, "write GB"),
    ("1980 M", HZ, "write MHz"),
    ("900 GBps", BPS, "write GB/s"),
    ("400 Gbps", BPS, "write Gb/s"),
    ("400 gbps", BPS, "B is byte, b is bit"),
    ("400 Gbit/s", BPS, "write Gb/s"),
    ("400 Gbits/s", BPS, "write Gb/s"),
    ("3 GBytes/s", BPS, "write GB/s"),
    ("3 GB/sec", BPS, "write GB/s"),
    ("3 GB / s", BPS, "write GB/s"),
    ("3 gb/s", BPS, "write GB/s or Gb/s"),
    ("3 tB/s", BPS, "write TB/s"),
    ("3 GT/s", BPS, "wanted is a bandwidth in B/s"),
    ("989 TFLOPS", FPS, "write TFLOP/s"),
    ("989 TFLOPs", FPS, "write TFLOP/s"),
    ("989 TFLOPS/s", FPS, "write TFLOP/s"),
    ("989 TFLOPps", FPS, "write TFLOP/s"),
    ("989 tflops", FPS, "write TFLOP/s"),
    ("989 Tflop/s", FPS, "write TFLOP/s"),
    ("5 flops", FPS, "write FLOP/s"),
    ("5 flop/s", FPS, "write FLOP/s"),
    ("137 GFLOPs", FLOP, "write GFLOP"),
    ("1979 TOPS", FPS, "write TOP/s"),
    ("1979 TOPS", OPS, "write TOP/s"),
    ("1979 tops", OPS, "write TOP/s"),
    ("989 TFLOP/s", OPS, "wanted is a rate in op/s"),
    ("989 TFLOP", FPS, "wanted is a rate in FLOP/s"),
    ("989 TFLOP/s", FLOP, "wanted is an amount of work in FLOP"),
    ("3.35 TB", BPS, "wanted is a bandwidth in B/s"),
    ("3.35 TB/s", B, "wanted is a size in B"),
    ("3.35 TB/s", HZ, "wanted is a frequency in Hz"),
    ("1.5 ms", W, "wanted is a power in W"),
    ("989 TFLOPS", B, "looks like a rate in FLOP/s"),
    ("80 gigabytes", B, "is not known"),
    ("80 foo", B, "wanted is a size in B, e.g. '227 KiB'"),
    ("80 KiFLOP", FLOP, "is not known"),
    ("80 ZB", B, "is not known"),
    ("80 mB", B, "write MB"),
    ("80 GIB", B, "write GiB"),
    ("80 gib", B, "write GiB or Gib"),
    ("80 Bytes", B, "write B"),
    ("1980 mHz", HZ, "write MHz"),
    ("1.98 ghz", HZ, "write GHz"),
    ("5 Ms", S, "write ms"),
    ("5 msec", S, "write ms"),
    ("5 seconds", S, "write s"),
    ("5 min", S, "is not known"),
    ("700 w", W, "write W"),
    ("700 Watts", W, "write W"),
    ("12 joules", J, "write J"),
    ("295 FLOPs/byte", FPB, "write FLOP/B"),
    ("295 flop/b", FPB, "write FLOP/B"),
    ("295 FLOP", FPB, "wanted is an intensity in FLOP/B"),
    ("2.5 USD/hour", USD, "write USD/h"),
    ("2.5 usd/hr", USD, "write USD/h"),
    ("$2.5/h", USD, "write e.g. '2.5 USD/h'"),
    ("2.5 EUR/h", USD, "is not known"),
    ("1,5 GB", B, "write the decimal point: 1.5"),
    ("1,500 GB", B, "write 1500"),
    ("1_000 GB", B, "write 1000"),
    ("3 350 GB/s", BPS, "has a space in the number"),
    ("010 GB", B, "leading zero"),
    ("0x10 B", B, "is not known"),
    ("1..5 GB", B, "is not a number"),
    ("1.5.0 GB", B, "is not a number"),
    (". GB", B, "is not a number"),
    ("nan GB", B, "is not finite"),
    ("inf GB/s", BPS, "is not finite"),
    ("-inf GB/s", BPS, "is not finite"),
    (".inf GB/s", BPS, "is not finite"),
    ("0 GB", B, "must be more than 0"),
    ("0.0 s", S, "must be more than 0"),
    ("-1 GB", B, "must be more than 0"),
    ("1e999 B", B, "out of range"),
    ("1e309 s", S, "too large"),
    ("1e-399 s", S, "too small"),
    ("1e99999999999999999999 s", S, "out of range"),
    ("9" * 41 + " B", B, "more than 40 digits"),
    ("1." + "0" * 5000 + " B", B, "more than 40 digits"),
    ("\u0661 GB", B, "does not start with a number"),
    ("\uff11 GB", B, "does not start with a number"),
    ("1/2 GB", B, "is not known"),
    ("2*3 GB", B, "is not known"),
]


def test_the_tables_hold_at_least_120_spellings() -> None:
    assert len(ACCEPTED) + len(REFUSED) >= 120


@pytest.mark.parametrize(("text", "dimension", "value"), ACCEPTED)
def test_accepts(text: str, dimension: Dimension, value: float) -> None:
    assert parse_quantity(text, dimension) == value


@pytest.mark.parametrize(("text", "dimension", "fragment"), REFUSED)
def test_refuses_with_the_fix(text: str, dimension: Dimension, fragment: str) -> None:
    with pytest.raises(QuantityError, match=re.escape(fragment)) as caught:
        parse_quantity(text, dimension)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("dimension", Dimension)
def test_the_example_of_each_dimension_is_accepted(dimension: Dimension) -> None:
    assert parse_quantity(dimension.example, dimension) > 0


def test_whole_bytes_and_flop_are_integers_and_rates_are_floats() -> None:
    assert isinstance(parse_quantity("1.5 MiB", B), int)
    assert isinstance(parse_quantity("1e25 FLOP", FLOP), int)
    assert isinstance(parse_quantity("4 b", B), float)
    assert isinstance(parse_quantity("2 GB/s", BPS), float)


def test_zero_and_less_only_where_asked_for() -> None:
    assert parse_quantity("0 us", S, allow_zero=True) == 0
    with pytest.raises(QuantityError, match="0 or more"):
        parse_quantity("-1 us", S, allow_zero=True)


def test_control_characters_are_shown_as_escapes() -> None:
    with pytest.raises(QuantityError, match=r"\\x1b\[31m"):
        parse_quantity("3 \x1b[31m", B)


FORMATTED = [
    (3.352e12, BPS, {}, "3.352 TB/s"),
    (140.2e-6, S, {}, "140.2 \u00b5s"),
    (140.2e-6, S, {"ascii": True}, "140.2 us"),
    (137e9, FLOP, {}, "137.0 GFLOP"),
    (137 * 10**9, FLOP, {"digits": 3}, "137 GFLOP"),
    (0, B, {}, "0 B"),
    (0.0, S, {}, "0 s"),
    (math.inf, BPS, {}, "inf"),
    (-math.inf, BPS, {}, "-inf"),
    (math.nan, BPS, {}, "nan"),
    (700.0, W, {}, "700 W"),
    (128, B, {}, "128 B"),
    (0.5, B, {}, "0.5000 B"),
    (999.96e9, FLOP, {}, "1.000 TFLOP"),
    (999.94e9, FLOP, {}, "999.9 GFLOP"),
    (1e21, FLOP, {}, "1000 EFLOP"),
    (123456e18, FLOP, {}, "1.235e+23 FLOP"),
    (1e-12, S, {}, "1.000 ps"),
    (1e-12, FPB, {}, "0.000000000001000 FLOP/B"),
    (1e-13, S, {}, "1.000e-13 s"),
    (12345678.0, S, {}, "12350000 s"),
    (-3e-3, S, {}, "-3.000 ms"),
    (232448, B, {"binary": True}, "227.0 KiB"),
    (232448, B, {}, "232.4 kB"),
    (2**30, B, {"binary": True}, "1.000 GiB"),
    (2**20 - 1, B, {"binary": True}, "1.000 MiB"),
    (1010 * 1024, B, {"binary": True, "digits": 3}, "1010 KiB"),
    (2**75, B, {"binary": True}, "3.778e+22 B"),
    (2**30, FLOP, {"binary": True}, "1.074 GFLOP"),
    (64 * 2.0**30, BPS, {"binary": True}, "64.00 GiB/s"),
    (1979e12, OPS, {}, "1.979 Pop/s"),
    (1.98e9, HZ, {}, "1.980 GHz"),
    (295.2, FPB, {}, "295.2 FLOP/B"),
    (2.5, USD, {}, "2.500 USD/h"),
    (12e-12, J, {}, "12.00 pJ"),
    (10**400, FLOP, {}, "more than 1.8e308 FLOP"),
]


@pytest.mark.parametrize(("value", "dimension", "options", "text"), FORMATTED)
def test_formats(value: float, dimension: Dimension, options: dict[str, int], text: str) -> None:
    assert format_quantity(value, dimension, **options) == text  # type: ignore[arg-type]  # the options vary


values = st.one_of(st.integers(min_value=0, max_value=10**40 - 1), st.floats(min_value=0, allow_nan=False, allow_infinity=False))


@given(values, st.sampled_from(Dimension))
@example(1e23, B)
@example(5e-324, S)
@example(1.7976931348623157e308, FPS)
@example(2.0**60, BPS)
def test_canonical_is_read_back_exactly(value: float, dimension: Dimension) -> None:
    if isinstance(value, int) and dimension not in (B, FLOP):
        value = float(value)
    assert parse_quantity(canonical(value, dimension), dimension, allow_zero=True) == value


@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
def test_canonical_refuses_what_cannot_be_read_back(value: float) -> None:
    with pytest.raises(ValueError, match="no spelling"):
        canonical(value, S)


@given(st.floats(min_value=1e-12, max_value=9e20), st.sampled_from(Dimension), st.integers(min_value=3, max_value=6))
def test_what_is_shown_is_read_back_to_the_digits_shown(value: float, dimension: Dimension, digits: int) -> None:
    shown = format_quantity(value, dimension, digits=digits)
    assert re.fullmatch(r"[0-9.]+ \S+", shown), "scientific notation"
    assert parse_quantity(shown, dimension) == pytest.approx(value, rel=0.5 * 10 ** (1 - digits) * 1.0001)


@given(st.text(max_size=60), st.sampled_from(Dimension))
def test_any_text_is_read_or_refused_with_a_sentence(text: str, dimension: Dimension) -> None:
    try:
        found: float | str = parse_quantity(text, dimension)
    except QuantityError as error:
        found = str(error)
    if isinstance(found, str):
        assert "\n" not in found
        assert len(found) > 20
    else:
        assert 0 < found < math.inf


@given(st.integers(min_value=0, max_value=10**12), st.integers(min_value=-20, max_value=20))
def test_numbers_are_read_exactly(mantissa: int, power: int) -> None:
    numerator, denominator = read_number(f"{mantissa}e{power}")
    assert numerator * 10**20 == mantissa * 10 ** (20 + power) * denominator
