"""``roofline operators``: what a step may compute, with its keys and formula."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline.cli.outcome import deliver, reported

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Operators: list, show NAME.")


@app.command("list")
@reported
def list_() -> None:
    """All operators with their formula."""
    from roofline.ops import OPERATORS

    lines = [f"{name:<15} {cls.title}: {cls.formula}" for name, cls in OPERATORS.items()]
    deliver("\n".join(lines) + "\n", None)


@app.command("show")
@reported
def show(name: Annotated[str, typer.Argument(help="Operator name.")]) -> None:
    """The keys of an operator, its formula and where that comes from."""
    from roofline.errors import UsageError, did_you_mean
    from roofline.ops import OPERATORS
    from roofline.spec.workload import operator_record

    if name not in OPERATORS:
        raise UsageError(f"unknown operator '{name}'; {did_you_mean(name, list(OPERATORS))}")
    cls = OPERATORS[name]
    lines = [f"{name}: {cls.title}", f"  formula: {cls.formula}", f"  source: {cls.source}", "  keys:"]
    lines += [f"    {k.name:<14} {k.doc}{' (required)' if k.required else ''}" for k in operator_record(cls).keys]
    deliver("\n".join(lines) + "\n", None)
