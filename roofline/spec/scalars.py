"""The value of a scalar, decided by what the schema wants and never by how the text looks.

Each function raises ValueError with one sentence that holds the fix; the caller knows the place. Spellings on which
YAML 1.1, YAML 1.2, JSON and people disagree are refused: ``on``, ``010``, ``1_000``, ``1:30``, ``0x10``.
"""

from __future__ import annotations

import re

from roofline.spec.located import Scalar
from roofline.units import MAX_DIGITS, quoted, read_number, to_float

MAX_INT = 2**63 - 1
"""Largest count: what a 64-bit reader of the report can hold."""

MAX_ODD = 100
"""Longest text that is looked at for a number in an odd notation."""

_NULLS = ("", "~", "null", "Null", "NULL")
_TRUE_WORDS = ("true", "yes", "on", "y", "1")
_FALSE_WORDS = ("false", "no", "off", "n", "0")

_INT = re.compile(r"[+-]?(?:0|[1-9][0-9]*)")
_SEVERAL = re.compile(r"[+-]?[0-9]+(,[0-9]+)+")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+")
"""Digits in groups of three, which are one number to who writes them."""
_BASED = re.compile(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+")
_OLD_OCTAL = re.compile(r"[+-]?0[0-9]+")
_BASE_60 = re.compile(r"[+-]?[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?")
_WITH_UNIT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*[A-Za-z%][A-Za-z/%]*")


def as_text(scalar: Scalar) -> str:
    """The text as written; in quotes it may be anything, without quotes it must not be empty or ``null``.

    Raises:
        ValueError: nothing is written.
    """
    if not scalar.quoted and scalar.text in _NULLS:
        raise ValueError("a value is missing; write a text, in quotes if it is meant to be empty or 'null'")
    return scalar.text


def as_bool(scalar: Scalar) -> bool:
    """``true`` or ``false``, in small letters and without quotes.

    Raises:
        ValueError: anything else, ``yes`` and ``on`` too.
    """
    if not scalar.quoted and scalar.text in ("true", "false"):
        return scalar.text == "true"
    word = scalar.text.casefold()
    meant = "true" if word in _TRUE_WORDS else "false" if word in _FALSE_WORDS else None
    if scalar.quoted and meant == scalar.text:
        raise ValueError(f"'{meant}' stands in quotes; write {meant} without them (write true or false)")
    hint = f" (here {meant})" if meant else ""
    raise ValueError(f"{_shown(scalar)} is not true or false; write true or false{hint}")


def as_int(scalar: Scalar) -> int:
    """A whole number in decimal digits, below 2**63 in size.

    Raises:
        ValueError: another notation, a fraction, quotes, or too large.
    """
    _require_bare(scalar, "a whole number")
    text = scalar.text
    if not _INT.fullmatch(text):
        raise ValueError(_not_an_int(text))
    if len(text.lstrip("+-")) > MAX_DIGITS:
        raise ValueError(f"'{quoted(text)}' has more than {MAX_DIGITS} digits; write fewer")
    value = int(text)
    if abs(value) > MAX_INT:
        raise ValueError(f"{text} is too large; write a whole number below 2**63 (about 9.2e18)")
    return value


def as_float(scalar: Scalar) -> float:
    """A finite number in decimal digits, with or without a fraction or an exponent: ``989e12``, ``.5``, ``3``.

    Raises:
        ValueError: another notation, quotes, not finite, or out of a float's range.
    """
    _require_bare(scalar, "a number")
    text = scalar.text
    _refuse_odd_notation(text)
    return to_float(read_number(text), text)


def _require_bare(scalar: Scalar, wanted: str) -> None:
    if not scalar.quoted and scalar.text in _NULLS:
        raise ValueError(f"a value is missing; write {wanted}")
    if scalar.quoted:
        raise ValueError(f"{_shown(scalar)} stands in quotes, so it is text; write {wanted} without quotes")


def odd_notation(text: str) -> str | None:
    """What is odd about a text that is meant as a number, with the fix; None where it is no such text."""
    try:
        _refuse_odd_notation(text)
    except ValueError as error:
        return str(error)
    return None


def _refuse_odd_notation(text: str) -> None:
    """Refuse what looks like a number to YAML 1.1 or to people, with the decimal spelling where it is certain."""
    if len(text) > MAX_ODD:  # nobody's odd number, and the patterns take time by the square of its length
        return
    shown = quoted(text)
    if _BASED.fullmatch(text):
        raise ValueError(f"'{shown}' is not in decimal digits; write {_decimal(text)}")
    if _OLD_OCTAL.fullmatch(text):
        # 8 to YAML 1.1, 10 to YAML 1.2: the reader drops the zero only if ten was meant.
        raise ValueError(f"'{shown}' has a leading zero; write {quoted(_without_zeros(text))} if decimal is meant")
    if _BASE_60.fullmatch(text):
        raise ValueError(f"'{shown}' is not one number; write it in decimal digits, without ':'")
    if _WITH_UNIT.fullmatch(text):
        raise ValueError(f"'{shown}' has a unit where a plain number is wanted; write the number alone")


def _decimal(text: str) -> str:
    """What a hexadecimal, octal or binary number is in decimal digits."""
    return str(int(text, 0)) if len(text) <= MAX_DIGITS else "it in decimal digits"


def _without_zeros(text: str) -> str:
    sign = text[0] if text[0] in "+-" else ""
    return sign + (text.lstrip("+-").lstrip("0") or "0")


def _not_an_int(text: str) -> str:
    """Why a text is no whole number, with the whole number that it stands for, if any."""
    if _SEVERAL.fullmatch(text) and not _GROUPED.fullmatch(text):
        return f"'{quoted(text)}' has commas, and one whole number stands here; several values are for 'roofline sweep'"
    try:
        _refuse_odd_notation(text)
        numerator, denominator = read_number(text)
    except ValueError as error:
        return str(error)
    if numerator % denominator == 0 and abs(numerator // denominator) <= MAX_INT:
        return f"'{quoted(text)}' is not in plain digits; write {numerator // denominator}"
    if numerator % denominator == 0:
        return f"'{quoted(text)}' is too large; write a whole number below 2**63 (about 9.2e18)"
    return f"'{quoted(text)}' is not a whole number; write it without a fraction"


def _shown(scalar: Scalar) -> str:
    return f"'{quoted(scalar.text)}'" if scalar.text else "an empty text"
