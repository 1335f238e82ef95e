"""Quantities with units, read and written at the YAML and command-line border only.

Inside, everything is SI without a prefix: bytes, seconds, B/s, FLOP/s, Hz, W. ``B`` is a byte and ``b`` a bit, in
that case only; ``k M G T P E`` are powers of 1000, ``Ki Mi Gi Ti Pi Ei`` powers of 1024. Reading is exact: number and
prefix are multiplied as integers and rounded to a float once, so that ``3.35 TB/s`` is ``3.35e12`` to the last bit.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from functools import cache

from roofline.errors import visible

MAX_DIGITS = 40
"""Most digits a written number may have: far more than a float holds, far less than int() is slow for."""

MAX_EXPONENT = 400
"""Largest power of ten that is worked out; past it no float is left on either side."""

MAX_QUOTED = 60
"""Longest piece of the user's text repeated in a message."""

_WHOLE_BELOW = 10**MAX_DIGITS
_LARGEST_PLAIN = 1e21
_SMALLEST_PLAIN = 1e-12


class QuantityError(ValueError):
    """A number or quantity that cannot be read; the message is a sentence with the fix."""


class Dimension(Enum):
    """What a quantity measures: its SI unit, its name in a sentence and a well-written example."""

    BYTES = ("B", "a size in B", "227 KiB")
    BYTES_PER_S = ("B/s", "a bandwidth in B/s", "3.35 TB/s")
    FLOP = ("FLOP", "an amount of work in FLOP", "137 GFLOP")
    FLOP_PER_S = ("FLOP/s", "a rate in FLOP/s", "989 TFLOP/s")
    OPS_PER_S = ("op/s", "a rate in op/s", "1979 TOP/s")
    HERTZ = ("Hz", "a frequency in Hz", "1.98 GHz")
    SECONDS = ("s", "a time in s", "1.5 ms")
    WATTS = ("W", "a power in W", "700 W")
    JOULES = ("J", "an energy in J", "12 pJ")
    FLOP_PER_BYTE = ("FLOP/B", "an intensity in FLOP/B", "295 FLOP/B")
    USD_PER_HOUR = ("USD/h", "a price in USD/h", "2.5 USD/h")

    def __init__(self, si: str, described: str, example: str) -> None:
        self.si = si
        self.described = described
        self.example = example


_PREFIXES: dict[str, tuple[int, int]] = {
    "": (1, 1),
    **{p: (1000 ** (i + 1), 1) for i, p in enumerate("kMGTPE")},
    **{p: (1024 ** (i + 1), 1) for i, p in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))},
    **{p: (1, 1000 ** (i + 1)) for i, p in enumerate("munp")},
    "\u00b5": (1, 10**6),  # micro sign
    "\u03bc": (1, 10**6),  # Greek mu, which keyboards and editors put in its place
}
"""Every prefix as numerator and denominator."""

_LARGE = ("", *"kMGTPE")
_SMALL = ("", *"munp", "\u00b5", "\u03bc")
_SIZES = (*_LARGE, "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BARE = ("",)

# No milli for Hz: "1980 mHz" is always a slip for MHz. No kilo for s: "5 Ms" is always a slip for ms.
_ALLOWED: dict[Dimension, tuple[tuple[str, ...], tuple[tuple[str, int], ...]]] = {
    Dimension.BYTES: (_SIZES, (("B", 1), ("b", 8))),
    Dimension.BYTES_PER_S: (_SIZES, (("B/s", 1), ("b/s", 8))),
    Dimension.FLOP: (_LARGE, (("FLOP", 1),)),
    Dimension.FLOP_PER_S: (_LARGE, (("FLOP/s", 1), ("OP/s", 1), ("op/s", 1))),
    Dimension.OPS_PER_S: (_LARGE, (("OP/s", 1), ("op/s", 1))),
    Dimension.HERTZ: (_LARGE, (("Hz", 1),)),
    Dimension.SECONDS: (_SMALL, (("s", 1),)),
    Dimension.WATTS: (_LARGE + _SMALL[1:], (("W", 1),)),
    Dimension.JOULES: (_LARGE + _SMALL[1:], (("J", 1),)),
    Dimension.FLOP_PER_BYTE: (_BARE, (("FLOP/B", 1),)),
    Dimension.USD_PER_HOUR: (_BARE, (("USD/h", 1),)),
}
"""The prefixes of each dimension, and its unit names with how many of them make one SI unit."""

_COUNTS = (Dimension.BYTES, Dimension.FLOP)
"""Dimensions whose whole values are Python integers, which never overflow or lose a digit."""


# ---- numbers -------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_NUMBER_START = re.compile(r"[+-]?[0-9.,_]+(?:[eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[+-]?\.?(?:nan|inf|infinity)\b", re.IGNORECASE)


def read_number(text: str) -> tuple[int, int]:
    """A decimal number as an exact ratio (numerator, denominator).

    Raises:
        QuantityError: another notation than plain decimal (``1_000``, ``1,5``, ``010``, ``0x10``, ``nan``), or a
            number with too many digits.

    >>> read_number("2.50")
    (250, 100)
    """
    match = _NUMBER.fullmatch(text)
    if match is None or not (match[2] or match[4]):
        raise QuantityError(_not_a_number(text))
    sign, whole, _, fraction, exponent = match.groups(default="")
    if len(whole) > 1 and whole[0] == "0":
        raise QuantityError(f"'{quoted(text)}' has a leading zero; write it without, in decimal digits")
    if len(whole + fraction) > MAX_DIGITS:
        raise QuantityError(f"'{quoted(text)}' has more than {MAX_DIGITS} digits; write fewer")
    value = int(sign + whole + fraction)
    power = _exponent(text, exponent) - len(fraction)
    return (value * 10**power, 1) if power >= 0 else (value, 10**-power)


def _exponent(text: str, exponent: str) -> int:
    if len(exponent) > 5 or abs(int(exponent or "0")) > MAX_EXPONENT:
        raise QuantityError(f"'{quoted(text)}' is out of range; write a number that a computer can hold")
    return int(exponent or "0")


def _not_a_number(text: str) -> str:
    shown = quoted(text)
    if _NOT_FINITE.match(text):
        return f"'{shown}' is not a finite number; write one with digits"
    if "_" in text and re.fullmatch(r"[0-9_.]+", text):
        return f"'{shown}' has underscores; write {quoted(text.replace('_', ''))}"
    if re.fullmatch(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?", text):
        # 1,234 is 1234 to some readers and 1.234 to others: name both, choose neither.
        return f"'{shown}' has a comma; write {quoted(text.replace(',', ''))}, or a decimal point where you mean one"
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", text):
        return f"'{shown}' has a comma; write the decimal point: {quoted(text.replace(',', '.'))}"
    return f"'{shown}' is not a number; write it in decimal digits, e.g. 1024"


def to_float(ratio: tuple[int, int], text: str) -> float:
    """The float nearest to an exact ratio.

    Raises:
        QuantityError: the value is too large for a float, or so small that it would become 0.
    """
    try:
        value = ratio[0] / ratio[1]
    except OverflowError:
        raise QuantityError(f"'{quoted(text)}' is too large; the largest number is about 1.8e308") from None
    if value == 0 and ratio[0]:
        raise QuantityError(f"'{quoted(text)}' is too small to tell from 0; write 0 or a larger number")
    return value


def quoted(text: str) -> str:
    """The user's text as a message repeats it: cut when long, control characters shown as escapes."""
    return visible(text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "...")


# ---- reading -------------------------------------------------------------------------------------------------------


def parse_quantity(text: str, dimension: Dimension, *, allow_zero: bool = False) -> int | float:
    """The SI value of a quantity such as ``3.35 TB/s``; whole bytes and whole FLOP are ints.

    Raises:
        QuantityError: no unit, a misspelt unit, a unit of another dimension, a number that is not plain decimal,
            or a value that is negative, or 0 without ``allow_zero``.

    >>> parse_quantity("227 KiB", Dimension.BYTES)
    232448
    >>> parse_quantity("400 Gb/s", Dimension.BYTES_PER_S)
    50000000000.0
    """
    number, unit = _split(text.strip(), dimension)
    scale = _units(dimension).get(unit)
    if scale is None:
        raise QuantityError(f"'{quoted(text)}': {_wrong_unit(unit, dimension)}")
    numerator, denominator = read_number(number)
    ratio = numerator * scale[0], denominator * scale[1]
    if ratio[0] < 0 or (ratio[0] == 0 and not allow_zero):
        wanted = "0 or more" if allow_zero else "more than 0"
        raise QuantityError(f"'{quoted(text)}' must be {wanted}, e.g. '{dimension.example}'")
    if dimension in _COUNTS and ratio[0] % ratio[1] == 0 and ratio[0] // ratio[1] < _WHOLE_BELOW:
        return ratio[0] // ratio[1]
    return to_float(ratio, text)


def _split(text: str, dimension: Dimension) -> tuple[str, str]:
    """The number and the unit of a quantity, each as written."""
    match = _NUMBER_START.match(text)
    if _NOT_FINITE.match(text):
        raise QuantityError(f"'{quoted(text)}' is not finite; write a number, e.g. '{dimension.example}'")
    if match is None:
        raise QuantityError(f"'{quoted(text)}' does not start with a number; write e.g. '{dimension.example}'")
    number, unit = match[0], text[match.end() :].strip()
    if not unit:
        raise QuantityError(f"'{quoted(text)}' has no unit; write the unit, e.g. '{dimension.example}'")
    if unit[0].isdigit():
        raise QuantityError(f"'{quoted(text)}' has a space in the number; write e.g. '{dimension.example}'")
    return number, unit


@cache
def _units(dimension: Dimension) -> dict[str, tuple[int, int]]:
    """Every spelling of every unit of a dimension, with its size in SI units as a ratio."""
    prefixes, names = _ALLOWED[dimension]
    return {p + n: (_PREFIXES[p][0], _PREFIXES[p][1] * per_si) for n, per_si in names for p in prefixes}


def _wrong_unit(unit: str, dimension: Dimension) -> str:
    """Why a unit was refused, and what to write in its place."""
    for other in Dimension:
        if unit in _units(other):
            return f"'{unit}' is {other.described}; wanted is {dimension.described}, e.g. '{dimension.example}'"
    fixes = _respellings(unit, dimension)
    if fixes:
        case = " (B is byte, b is bit)" if len({f.replace("b", "B") for f in fixes}) < len(fixes) else ""
        return f"unit '{quoted(unit)}' is not accepted; write {' or '.join(fixes)}{case}"
    for other in (Dimension.FLOP_PER_S, *Dimension):  # TFLOPS is a rate to most who write it
        if _respellings(unit, other):
            return f"'{quoted(unit)}' looks like {other.described}; wanted is {dimension.described}, e.g. '{dimension.example}'"
    return f"unit '{quoted(unit)}' is not known; wanted is {dimension.described}, e.g. '{dimension.example}'"


_HABITS = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"\s+", ""),
        (r"bytes?", "B"),
        (r"bits?", "b"),
        (r"flops?/b$", "FLOP/B"),
        (r"/(?:sec|secs|second|seconds)$", "/s"),
        (r"(?:sec|secs|second|seconds)$", "s"),
        (r"(?<!o)ps$", "/s"),
        (r"/(?:hr|hour)s?$", "/h"),
        (r"watts?$", "W"),
        (r"joules?$", "J"),
        (r"hertz$", "Hz"),
    )
)
"""Ways of writing units that people bring from elsewhere, and ours."""


def _respellings(unit: str, dimension: Dimension) -> list[str]:
    """The accepted spellings that a refused one most likely means."""
    known = _units(dimension)
    if unit in (*_PREFIXES, "K"):
        unit += dimension.si
    if unit[:1] == "K" and "k" + unit[1:] in known:
        return [f for f in ("k" + unit[1:], "Ki" + unit[1:]) if f in known]
    spelt = unit[: 2 * MAX_QUOTED]
    for pattern, replacement in _HABITS:
        spelt = pattern.sub(replacement, spelt)
    return _case_fixes(_slashed(spelt, dimension), known)


def _slashed(unit: str, dimension: Dimension) -> str:
    """FLOPS and OPS written as the count or the rate that is wanted."""
    rate = "/s" if dimension in (Dimension.FLOP_PER_S, Dimension.OPS_PER_S) else ""
    match = re.fullmatch(r"(.*?)(fl)?ops?(/s)?", unit, re.IGNORECASE)
    return unit if match is None else match[1] + ("FLOP" if match[2] else "OP") + (match[3] or rate)


def _case_fixes(unit: str, known: dict[str, tuple[int, int]]) -> list[str]:
    """Spellings that differ in case only, one for each size; those that keep the most letters when any is a capital."""
    by_size: dict[tuple[int, int], str] = {}
    for name, size in known.items():
        if name.casefold() == unit.casefold():
            by_size.setdefault(size, name)
    fixes = list(by_size.values())
    kept = [sum(a == b for a, b in zip(unit, f, strict=False)) for f in fixes]
    if unit == unit.lower():  # all in small letters says nothing of byte or bit
        return fixes
    return [f for f, k in zip(fixes, kept, strict=True) if k == max(kept)]


# ---- writing -------------------------------------------------------------------------------------------------------


def format_quantity(value: float, dimension: Dimension, *, digits: int = 4, binary: bool = False, ascii: bool = False) -> str:
    """A quantity for people, to ``digits`` significant digits; ``binary`` writes sizes in KiB, MiB, GiB.

    Never scientific between 1e-12 and 1e21; ``ascii`` writes ``us`` for microseconds.

    >>> format_quantity(3.352e12, Dimension.BYTES_PER_S)
    '3.352 TB/s'
    >>> format_quantity(232448, Dimension.BYTES, binary=True)
    '227.0 KiB'
    """
    if value != value or value in (math.inf, -math.inf):
        return str(value)
    sign, size = ("-", -value) if value < 0 else ("", value)
    if size and not _SMALLEST_PLAIN <= size <= _LARGEST_PLAIN:
        return f"{sign}{_scientific(size, digits)} {dimension.si}"
    number, prefix = _scaled(size, dimension, digits, binary)
    return f"{sign}{number} {'u' if ascii and prefix == 'µ' else prefix}{dimension.si}"


def _scientific(size: float, digits: int) -> str:
    try:
        return f"{size:.{digits - 1}e}"
    except OverflowError:  # an int past the largest float
        return "more than 1.8e308"


def _scaled(size: float, dimension: Dimension, digits: int, binary: bool) -> tuple[str, str]:
    """The digits and the prefix that show a size >= 0 best."""
    if size == int(size) and size < 1000:
        return str(int(size)), ""
    if binary and "Ki" in _ALLOWED[dimension][0]:
        return _scaled_binary(size, digits)
    exponents = _shown_exponents(dimension)
    exponent = int(f"{size:.{digits - 1}e}".partition("e")[2])  # of the rounded value: 999.96 counts as 1000
    steps = 3 * (exponent // 3)
    chosen = steps if steps in exponents else min(exponents, key=lambda e: (abs(e - steps), e))
    return _fixed(size, digits, chosen), exponents[chosen]


@cache
def _shown_exponents(dimension: Dimension) -> dict[int, str]:
    """Power of ten -> the prefix shown for it."""
    shown = {0: "", **{3 * (i + 1): p for i, p in enumerate("kMGTPE")}, -3: "m", -6: "µ", -9: "n", -12: "p"}
    return {e: p for e, p in shown.items() if p in _ALLOWED[dimension][0]}


def _fixed(size: float, digits: int, shift: int) -> str:
    """``size / 10**shift`` in plain notation, rounded once to that many significant digits.

    The decimal point is moved in the text: dividing first would round twice.
    """
    mantissa, _, exponent = f"{size:.{digits - 1}e}".partition("e")
    figures, point = mantissa.replace(".", ""), int(exponent) - shift + 1
    if point <= 0:
        return "0." + "0" * -point + figures
    if point >= len(figures):
        return figures + "0" * (point - len(figures))
    return figures[:point] + "." + figures[point:]


def _scaled_binary(size: float, digits: int) -> tuple[str, str]:
    for power, prefix in enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")):
        number = _fixed(size / 1024**power, digits, 0)
        if float(number) < 1024:
            return number, prefix
    return number, prefix


def canonical(value: float, dimension: Dimension) -> str:
    """The exact spelling of a value >= 0: ``parse_quantity(canonical(x, d), d, allow_zero=True) == x``.

    Holds for every finite float and for integers below 10**40.

    Raises:
        ValueError: the value is negative, infinite or not a number.

    >>> canonical(1.5e-3, Dimension.SECONDS)
    '0.0015 s'
    """
    if not 0 <= value < math.inf:
        raise ValueError(f"{value} has no spelling with a unit")
    whole = isinstance(value, int) or value.is_integer()
    # Counts are read back as integers, so every digit counts; rates are read back as the nearest float.
    if whole and value < (_WHOLE_BELOW if dimension in _COUNTS else 10**16):
        return f"{int(value)} {dimension.si}"
    return f"{float(value)!r} {dimension.si}"
