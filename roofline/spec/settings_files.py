"""Where settings are: a few look-ups that every run makes, and that import nothing where there are none.

A project's settings stand in ``roofline.toml``, or in ``[tool.roofline]`` of ``pyproject.toml``: the nearest such file from the working
directory up to the root of its repository, a ``roofline.toml`` before a ``pyproject.toml`` of the same folder. A user's stand in
``config.toml`` of the configuration folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

PROJECT_FILE, PYPROJECT, USER_FILE = "roofline.toml", "pyproject.toml", "config.toml"
PREFIX = "ROOFLINE_"
OTHER_VARIABLES = ("ROOFLINE_CONFIG_DIR",)
"""Variables of ours that are no settings."""
MOST_BYTES = 1 << 20


def any_settings(variables: Mapping[str, str], folder: str) -> bool:
    """Whether something may be set at all, so that the readers are worth importing."""
    if any(name.startswith(PREFIX) and name not in OTHER_VARIABLES for name in variables):
        return True
    return project_file(folder)[0] is not None or user_file(variables) is not None


def project_file(folder: str) -> tuple[str | None, str]:
    """The nearest file with settings and the table that they stand in: up to the root of the repository, else here only."""
    above = list(_ancestors(folder))
    root = next((i for i, place in enumerate(above) if os.path.lexists(os.path.join(place, ".git"))), 0)
    for place in above[: root + 1]:
        path = os.path.join(place, PROJECT_FILE)
        if os.path.lexists(path):
            return path, ""
        path = os.path.join(place, PYPROJECT)
        if os.path.isfile(path) and _mentions(path):
            return path, "tool.roofline"
    return None, ""


def _ancestors(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _mentions(path: str) -> bool:
    """Whether a pyproject.toml has a table of ours; another tool's file is not ours to complain about."""
    try:
        with open(path, "rb") as file:
            return re.search(rb"^\s*\[\s*tool\s*\.\s*[\"']?roofline[\"']?\s*[.\]]", file.read(MOST_BYTES), re.MULTILINE) is not None
    except OSError:
        return False


def user_file(variables: Mapping[str, str]) -> str | None:
    """The user's file, where there is one."""
    configured = variables.get("ROOFLINE_CONFIG_DIR")
    if not configured:
        base = variables.get("APPDATA" if os.name == "nt" else "XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        configured = os.path.join(base, "roofline")
    path = os.path.join(configured, USER_FILE)
    return path if os.path.isfile(path) else None
