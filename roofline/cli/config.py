"""``roofline config``: the settings in force and where each comes from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofline.cli.outcome import chosen_format, deliver, note, render, reported

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Settings: show.")


@app.callback()
def settings_() -> None:
    """Settings of the environment, the project and the user."""


@app.command("show")
@reported
def show(
    format_: Annotated[str | None, typer.Option("--format", help="table or json.")] = None,
    output: Annotated[str | None, typer.Option("-o", "--output", help="Write to a file.")] = None,
) -> None:
    """Every setting with its value and its origin: a variable, a line of a file, or built in.

    Flags of the command line come before ROOFLINE_ variables, these before roofline.toml or [tool.roofline] of the project,
    and that before config.toml of the user.

    Example: roofline config show
    """
    from roofline.errors import did_you_mean
    from roofline.spec.settings import KEYS, settings_in_force, unknown_variables
    from roofline.spec.settings_files import PREFIX

    chosen = chosen_format(format_, output, ("table", "json"))
    found = settings_in_force()
    for name in unknown_variables(os.environ):
        note(f"note: {name} is no setting; {did_you_mean(name.removeprefix(PREFIX).lower(), list(KEYS))}")
    if chosen == "json":
        from roofline.report.store import to_json

        deliver(to_json({name: {"value": s.value, "origin": s.origin, "help": KEYS[name].help} for name, s in found.items()}), output)
        return
    from roofline.report.columns import Column
    from roofline.report.text import print_columns

    columns = [
        Column("setting", tuple(found), right=False),
        Column("value", tuple(_shown(s.value) for s in found.values()), right=False),
        Column("origin", tuple(s.origin for s in found.values()), right=False),
        Column("what", tuple(KEYS[name].help for name in found), right=False, priority=1),
    ]

    def draw(console: Console) -> None:
        print_columns(columns, console)

    render(draw, output)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
