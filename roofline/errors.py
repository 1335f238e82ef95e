"""Every error a user can meet, and the exit code of each.

    RooflineError                2   anything the user can repair
    ├── InputError               2   problems in a file, all at once, each with its place
    ├── UsageError               2   a command line that cannot be obeyed
    ├── MissingCapabilityError   3   torch, a GPU, a profile or a baseline that is not there
    ├── MeasurementInvalidError  4   a measurement that must not be believed
    └── GateFailedError          1   an assertion or a regression gate that did not hold

A traceback means a bug of ours, never a user's mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TypeVar

from roofline.records import dataclass

MAX_SHOWN_SOURCE = 160
"""Longest source line printed under a problem; longer ones are cut around the caret."""

MAX_MESSAGE = 1000
"""Longest message of a problem; longer ones quote a text of the user that is a mistake as a whole."""


Found = TypeVar("Found")


class RooflineError(Exception):
    """Root of all errors that a user can repair."""

    exit_code = 2


class UsageError(RooflineError):
    """The command line asks for something that does not exist or contradicts itself."""


class MissingCapabilityError(RooflineError):
    """Something needed is not on this machine: torch, a GPU, a profile, a baseline file."""

    exit_code = 3


class MeasurementInvalidError(RooflineError):
    """A measurement that must not be used, with the likely causes."""

    exit_code = 4


class GateFailedError(RooflineError):
    """A gate or an assertion did not hold."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong at one place of one file; lines and columns count from 1, 0 means the whole file."""

    path: str
    line: int
    column: int
    message: str
    source_line: str = ""

    def render(self) -> str:
        """``path:line:column: message``, then the source line and a caret."""
        place = self.path if not self.line else f"{self.path}:{self.line}:{self.column}"
        said = self.message if len(self.message) <= MAX_MESSAGE else f"{self.message[:MAX_MESSAGE]}..."
        head = f"{visible(place)}: {visible(said)}"
        if not self.source_line.strip():
            return head
        shown, caret_at = _around(self.source_line, self.column)
        return f"{head}\n    {shown}\n    {' ' * caret_at}^"


def _around(line: str, column: int) -> tuple[str, int]:
    """What is printed of a line, its part around the column where it is long, and where the caret stands in that."""
    start = max(0, column - 1 - MAX_SHOWN_SOURCE // 2) if len(line) > MAX_SHOWN_SOURCE else 0
    shown = line[start : start + MAX_SHOWN_SOURCE]
    before = visible(shown[: max(0, column - 1 - start)])
    if len(before) < MAX_SHOWN_SOURCE:
        return visible(shown)[:MAX_SHOWN_SOURCE], len(before)
    return visible(shown[max(0, column - 1 - start) :])[:MAX_SHOWN_SOURCE], 0  # binary: escapes are longer than what they show


class InputError(RooflineError):
    """All problems found in the input, ordered by place."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems), key=lambda p: (p.path, p.line, p.column, p.message)))
        super().__init__("\n".join(p.render() for p in self.problems))


def tried(names: Iterable[str], call: Callable[[str], Found]) -> tuple[dict[str, Found], list[Problem]]:
    """What a call gives for each file, and what is wrong with those that it refuses, so that all of that can be told at once."""
    found: dict[str, Found] = {}
    problems: list[Problem] = []
    for name in names:
        try:
            found[name] = call(name)
        except InputError as err:
            problems += err.problems
        except RooflineError as err:
            problems += [Problem(name, 0, 0, line) for line in str(err).split("\n")]
    return found, problems


def of_each(names: Iterable[str], call: Callable[[str], Found]) -> dict[str, Found]:
    """What a call gives for each file.

    Raises:
        InputError: the problems of all files that it refuses.
    """
    found, problems = tried(names, call)
    if problems:
        raise InputError(problems)
    return found


def visible(text: str) -> str:
    """Text that is safe on a terminal: control and bidirectional characters shown as escapes.

    >>> visible("a\\x1b[31mb\\u202e")
    'a\\\\x1b[31mb\\\\u202e'
    """
    return "".join(c if not _dangerous(c) else c.encode("unicode_escape").decode("ascii") for c in text)


_BIDI = frozenset("\u061c\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def _dangerous(char: str) -> bool:
    code = ord(char)
    return code < 0x20 or 0x7F <= code < 0xA0 or char in _BIDI or 0xD800 <= code <= 0xDFFF


def nearest(name: str, known: Iterable[str], *, count: int = 3) -> list[str]:
    """The known names most like ``name``, best first, without regard to case."""
    by_folded = {k.casefold(): k for k in known}
    return [by_folded[m] for m in get_close_matches(name.casefold(), by_folded, n=count, cutoff=0.55)]


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A sentence that names the nearest known words, else lists them all.

    >>> did_you_mean("bandwith", ["bandwidth", "size"])
    "did you mean 'bandwidth'?"
    """
    close = nearest(name, known)
    if close:
        return "did you mean " + " or ".join(f"'{c}'" for c in close) + "?"
    return "known: " + ", ".join(sorted(known)) if known else "none is known here"
