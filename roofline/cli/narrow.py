"""Which command is asked for, before typer reads the arguments: a run needs one, and pays for no other."""

from __future__ import annotations

from collections.abc import Sequence


def first_word(arguments: Sequence[str]) -> str | None:
    """The first argument that is neither an option nor the value of ``--color``, the only global option with one.

    >>> first_word(["-q", "--color", "never", "amdahl", "--speedup", "2"])
    'amdahl'
    """
    previous = ""
    for argument in arguments:
        if not argument.startswith("-") and previous != "--color":
            return argument
        previous = argument
    return None
