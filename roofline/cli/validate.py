"""``roofline validate``: check files without computing anything."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.outcome import deliver, reported, settings


@reported
def command(
    files: Annotated[list[str], typer.Argument(help="Workloads and hardware profiles.")],
) -> None:
    """Read workloads and hardware profiles and report every problem in them.

    Example: roofline validate workloads/*.yaml
    """
    from roofline.errors import InputError, Problem, RooflineError
    from roofline.spec.load import load_any

    problems: list[Problem] = []
    for name in files:
        try:
            load_any(name)
        except InputError as err:
            problems += err.problems
        except RooflineError as err:
            problems.append(Problem(name, 0, 0, str(err)))
    if problems:
        raise InputError(problems)
    if not settings.quiet:
        deliver(f"{len(files)} {'file' if len(files) == 1 else 'files'}: no problems\n", None)
