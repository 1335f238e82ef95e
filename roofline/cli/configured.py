"""Settings as defaults of the command line, so that a flag always wins: typer's own ``default_map``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roofline.cli.outcome import settings

if TYPE_CHECKING:
    from roofline.spec.settings import Setting

GLOBAL = ("color", "quiet", "ignore")
OF_COMMANDS = {"diff": ("fail_on", "tolerance", "allow_missing_baseline"), "gate": ("fail_on", "allow_missing_baseline")}
"""Settings that are options of a command."""
DEVICE_IS_AN_OPTION = {"op": (), "memory": (), "dataflow": ("show", "compare", "tune"), "links": ("tp", "dp", "ep", "collective")}
"""Commands whose subject names no device, so that the setting is the option -H; `analyze` and others ask `settings` instead."""
UNCONFIGURED = ("config", "schema", "--help", "-h", "--version")
"""What must work, and say what is wrong, while a settings file is broken."""


def default_map(given: Mapping[str, Setting]) -> dict[str, Any]:
    """Values for typer's options by command; those without an option of their own are put into `settings`."""
    values = {name: found.value for name, found in given.items()}
    found: dict[str, Any] = {name: values[name] for name in GLOBAL if name in values}
    for command, names in OF_COMMANDS.items():
        found[command] = {name: values[name] for name in names if name in values}
    settings.format, settings.hardware, settings.cluster = (values.get(name) for name in ("format", "hardware", "cluster"))
    if settings.hardware:
        for command, inner in DEVICE_IS_AN_OPTION.items():
            option = {"hardware": settings.hardware}
            found.setdefault(command, {}).update(dict.fromkeys(inner, option) or option)
    return found


def read_defaults(command: str | None) -> dict[str, Any]:
    """The default map of this run; for commands that must work while a settings file is broken it is then empty.

    Raises:
        InputError: a setting that cannot be used, with its place.
    """
    from roofline.spec.settings_files import any_settings

    settings.format = settings.hardware = settings.cluster = None
    if not any_settings(os.environ, os.getcwd()):
        return {}
    from roofline.errors import InputError
    from roofline.spec.settings import given

    try:
        return default_map(given())
    except InputError:
        if command in UNCONFIGURED:  # `config show` says what is wrong in its own turn
            return {}
        raise
