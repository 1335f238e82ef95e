"""Numbers and units as Nsight Compute prints them: by the locale of whoever ran it, and scaled to be readable.

Whether ``,`` or ``.`` is the decimal sign is a property of the whole file, told by the numbers in it that can be read in one way
only: several of one sign are thousands (``1,260,137,472``), one that is not followed by three digits is decimal (``65,77``), and where both
stand the last is decimal. ``1,234`` alone could be either, and is read as the rest of the file says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

GROUPING = "\u00a0\u202f\u2009 '\u2019_"
"""What some locales put between thousands besides ``,`` and ``.``; never a decimal sign."""
ABSENT = frozenset({"", "n/a", "nan", "(null)", "-", "no data", "inf", "-inf"})
"""What stands where a counter was not collected or could not be."""

_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?|[-+]?\.\d+(?:[eE][-+]?\d+)?", re.ASCII)
_REMOVED = str.maketrans("", "", GROUPING)


@dataclass(frozen=True, slots=True)
class Locale:
    """The decimal sign of a file. ``certain`` is False where no number in it tells, and English is assumed."""

    decimal: str
    certain: bool

    def number(self, text: str) -> float | None:
        """The number; None where none was collected.

        Raises:
            ValueError: this is no number of this locale.
        """
        plain = text.strip()
        if plain.lower() in ABSENT:
            return None
        plain = plain.translate(_REMOVED)
        thousands = "," if self.decimal == "." else "."
        whole, _, rest = plain.partition(self.decimal)
        groups = whole.split(thousands)
        if not _NUMBER.fullmatch(plain) or thousands in rest:
            raise ValueError(text)
        if len(groups) > 1 and (any(len(g) != 3 for g in groups[1:]) or not 1 <= len(groups[0].lstrip("+-")) <= 3):
            raise ValueError(text)
        value = float(whole.replace(thousands, "") + ("." + rest if rest else ""))
        if abs(value) == float("inf"):
            raise ValueError(text)
        return value


def told_by(text: str) -> str | None:
    """The decimal sign that a number must have been written with, None where it could be either.

    >>> told_by("1,260,137,472"), told_by("65,77"), told_by("27.595.520"), told_by("1,234"), told_by("768")
    ('.', ',', ',', None, None)
    """
    plain = text.strip().translate(_REMOVED)
    if not _NUMBER.fullmatch(plain):
        return None
    body = re.split("[eE]", plain)[0]
    commas, points = body.count(","), body.count(".")
    if commas and points:
        return "," if body.rindex(",") > body.rindex(".") else "."
    sign = "," if commas else "."
    other = "." if commas else ","
    if commas + points == 0:
        return None
    if commas + points > 1:
        return other
    before, _, behind = body.partition(sign)
    return None if len(behind) == 3 and 1 <= len(before.lstrip("+-")) <= 3 and before.lstrip("+-") != "0" else sign


def locale_of(texts: Iterable[str]) -> Locale | tuple[str, str]:
    """The locale of a file's numbers, or two of them that contradict each other."""
    found: dict[str, str] = {}
    ambiguous = False
    for text in texts:
        sign = told_by(text)
        if sign is not None:
            found.setdefault(sign, text)
            if len(found) == 2:
                return found["."], found[","]
        elif not ambiguous and ("," in text or "." in text) and _NUMBER.fullmatch(text.strip()):
            ambiguous = True
    return Locale(next(iter(found), "."), bool(found) or not ambiguous)


# --------------------------------------------------------------------------- units
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SECONDS = {
    "s": 1.0, "second": 1.0, "sec": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "ns": 1e-9, "nsecond": 1e-9,
    "ps": 1e-12,
}  # fmt: skip
_COUNTED = {"byte": "byte", "B": "byte", "inst": "1", "sector": "1", "request": "1", "cycle": "1", "warp": "1", "thread": "1", "SM": "1"}


def unit_of(text: str) -> tuple[float, str] | None:
    """The factor and the base unit: ``byte``, ``s``, ``byte/s``, ``hz``, ``%``, or ``1`` for counts and quotients of counts.

    None for a unit that is not known. Prefixes are decimal, as the profiler's are; ``Ki`` and its like are binary.

    >>> unit_of("Kbyte"), unit_of("usecond"), unit_of("Gbyte/second"), unit_of("%"), unit_of("furlong")
    ((1000.0, 'byte'), (1e-06, 's'), (1000000000.0, 'byte/s'), (1.0, '%'), None)
    """
    text = text.strip()
    if text == "%":
        return 1.0, "%"
    if text in _SECONDS:
        return _SECONDS[text], "s"
    if text.lower().endswith("hz"):
        prefix = text[:-2].upper() if text[:-2] in ("k", "") else text[:-2]
        return (_PREFIXES[prefix], "hz") if prefix in _PREFIXES else None
    over, _, below = text.partition("/")
    factor = _counted(over)
    if factor is None or not below:
        return factor
    if below in _SECONDS:
        return factor[0] * round(1 / _SECONDS[below]), "hz" if over.endswith("cycle") else f"{factor[1]}/s"
    under = _counted(below)
    return (factor[0] / under[0], "byte" if factor[1] == "byte" and below in ("block", "thread") else "1") if under else None


def _counted(text: str) -> tuple[float, str] | None:
    if text == "":
        return 1.0, "1"
    for prefix, factor in sorted(_PREFIXES.items(), key=lambda p: -len(p[0])):
        rest = text.removeprefix(prefix) if prefix else text
        if (prefix == "" or rest != text) and rest in (*_COUNTED, "block", "cluster", "register"):
            return factor, _COUNTED.get(rest, "1")
    return None
