"""Sizes of a job on the command line: ``--set batch=64``, read like values of a file, problems at their column, all at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline.errors import InputError, Problem, did_you_mean
from roofline.spec.scalars import as_int
from roofline.spec.source import Mark, Scalar, Source

MOST = 2**40
"""Largest size: what stays exact in every product of a few of them."""


def read_sizes(words: Iterable[str], known: Sequence[str]) -> dict[str, int]:
    """Whole numbers from 1 by name.

    Raises:
        InputError: a name that is not known, a number that is not whole, or one that is out of range.

    >>> read_sizes(["batch=64"], ("batch", "seq"))
    {'batch': 64}
    """
    found: dict[str, int] = {}
    wrong: list[Problem] = []
    for word in words:
        name, equals, text = word.partition("=")
        source = Source("--set", word)
        if not equals or name not in known:
            said = f"'{name}' is no size here; {did_you_mean(name, known)}" if equals else "write name=number, such as batch=8"
            wrong.append(source.problem(Mark(1, 1), said))
            continue
        mark = Mark(1, len(name) + 2)
        try:
            value = as_int(Scalar(source, mark, text.strip(), False))
            if not 1 <= value <= MOST:
                raise ValueError(f"{value} is out of range; write a whole number from 1 to 2**40")
            found[name] = value
        except ValueError as error:
            wrong.append(source.problem(mark, f"{name}: {error}"))
    if wrong:
        raise InputError(wrong)
    return found
