"""The command line with only the command that is asked for.

typer turns the signature of every command into options on each start, a millisecond a command. A run needs one.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import typer


def narrowed(app: typer.Typer, arguments: Sequence[str]) -> typer.Typer:
    """The same app with the command of these arguments alone; the whole app where they name none, as for help."""
    wanted = next(_words(arguments), None)
    commands = [c for c in app.registered_commands if c.name == wanted]
    groups = [g for g in app.registered_groups if g.name == wanted]
    if not commands and not groups:
        return app
    small = copy.copy(app)
    small.registered_commands, small.registered_groups = commands, groups
    return small


def _words(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments that are neither options nor the value of ``--color``, the only global option with one."""
    previous = ""
    for argument in arguments:
        if not argument.startswith("-") and previous != "--color":
            yield argument
        previous = argument
