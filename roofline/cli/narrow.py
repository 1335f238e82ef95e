"""Which command is asked for, before typer reads the arguments: a run needs one, and pays for no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

VALUED = ("--color", "--ignore")
"""Global options with a value."""
OWN_FLAGS: Mapping[str, frozenset[str]] = {
    "diff": frozenset({"--strict"}),
    **dict.fromkeys(("advise", "model", "import", "ingest"), frozenset({"-v", "--verbose"})),
}
"""Flags that a command takes itself where they are global otherwise: they stay where they stand."""


def first_word(arguments: Sequence[str]) -> str | None:
    """The first argument that is neither an option nor the value of a global one.

    >>> first_word(["-q", "--color", "never", "amdahl", "--speedup", "2"])
    'amdahl'
    """
    previous = ""
    for argument in arguments:
        if not argument.startswith("-") and previous not in VALUED:
            return argument
        previous = argument
    return None
