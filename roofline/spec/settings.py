"""Settings: from the environment, the project and the user, in this order; flags of the command line come before all of them.

Values that two of them set are taken from the first, never merged. Where the files lie: `roofline.spec.settings_files`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roofline.errors import InputError, Problem, did_you_mean
from roofline.spec.settings_files import MOST_BYTES, OTHER_VARIABLES, PREFIX, PYPROJECT, project_file, user_file

if TYPE_CHECKING:
    from roofline.spec.located import Source

COLORS = ("auto", "always", "never")
WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Key:
    """A setting: what it is for, its built-in value, and how a value is checked: None if it is one, else what was expected."""

    help: str
    default: Any
    wrong: Callable[[Any], str | None]
    many: bool = False

    @property
    def is_switch(self) -> bool:
        """Whether it is true or false."""
        return isinstance(self.default, bool)


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else "a text"


def _switch(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _color(value: Any) -> str | None:
    return None if value in COLORS else f"one of {', '.join(COLORS)}"


def _texts(value: Any) -> str | None:
    return None if isinstance(value, list) and all(_text(v) is None for v in value) else "a list of texts"


def _codes(value: Any) -> str | None:
    good = isinstance(value, list) and all(isinstance(v, str) and re.fullmatch(r"W\d{3}", v) for v in value)
    return None if good else "a list of warning codes such as W006"


KEYS: Mapping[str, Key] = {
    "hardware": Key("device where neither -H nor the workload names one", None, _text),
    "cluster": Key("cluster where neither -C nor the workload names one, of plans and of failures", None, _text),
    "format": Key("output format where neither --format nor the file's ending says one, of commands that know it", None, _text),
    "color": Key("auto, always or never", "auto", _color),
    "quiet": Key("only results: no warnings on stderr", False, _switch),
    "ignore": Key("codes of warnings that are not shown", [], _codes, many=True),
    "fail_on": Key("rules of diff and gate that fail them (exit 1)", [], _texts, many=True),
    "tolerance": Key("diff: change of a measured time that does not matter", "3%", _text),
    "allow_missing_baseline": Key("diff and gate: exit 0 when there is no baseline yet", False, _switch),
}
"""All settings by name; in the environment ROOFLINE_ and the name in capitals."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it comes from: ``ROOFLINE_COLOR``, ``roofline.toml:3`` or ``built-in``."""

    name: str
    value: Any
    origin: str


def variable(name: str) -> str:
    """The environment variable of a setting.

    >>> variable("fail_on")
    'ROOFLINE_FAIL_ON'
    """
    return PREFIX + name.upper()


def settings_in_force(environment: Mapping[str, str] | None = None, folder: str | None = None) -> dict[str, Setting]:
    """Every setting with its value and origin.

    Raises:
        InputError: unknown keys, values of a wrong kind, or a file that is no TOML; all of them, each at its place.
    """
    found = given(environment, folder)
    return {name: found.get(name, Setting(name, key.default, "built-in")) for name, key in KEYS.items()}


def given(environment: Mapping[str, str] | None = None, folder: str | None = None) -> dict[str, Setting]:
    """Only the settings that something sets: what `settings_in_force` gives without the built-in ones."""
    variables = os.environ if environment is None else environment
    problems: list[Problem] = []
    layers = [_of_environment(variables, problems)]
    for path, table in (project_file(folder or os.getcwd()), (user_file(variables), "")):
        if path is not None:
            layers.append(_of_file(path, table, problems))
    if problems:
        raise InputError(problems)
    return {name: next(layer[name] for layer in layers if name in layer) for name in KEYS if any(name in layer for layer in layers)}


def check_file(path: str) -> None:
    """Read a settings file for its problems alone.

    Raises:
        InputError: all of them.
    """
    problems: list[Problem] = []
    _of_file(path, "tool.roofline" if os.path.basename(path) == PYPROJECT else "", problems)
    if problems:
        raise InputError(problems)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none, for whoever asks; other tools may well use the prefix."""
    known = {variable(name) for name in KEYS} | {*OTHER_VARIABLES}
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in known)


# --------------------------------------------------------------------------- environment
def _of_environment(variables: Mapping[str, str], problems: list[Problem]) -> dict[str, Setting]:
    found = {}
    for name, key in KEYS.items():
        text = variables.get(variable(name), "").strip()
        if not text:
            continue
        value: Any = text
        if key.is_switch:
            value = WORDS.get(text.lower())
        elif key.many:
            value = [part.strip() for part in re.split(r"[;\n]", text.replace(",", ";")) if part.strip()]
        expected = key.wrong(value)
        if expected:
            problems.append(Problem(variable(name), 0, 0, f"'{text}' is not {expected}"))
        else:
            found[name] = Setting(name, value, variable(name))
    return found


# --------------------------------------------------------------------------- files
def _of_file(path: str, table: str, problems: list[Problem]) -> dict[str, Setting]:
    """The settings of one file; what is wrong with it is added to the problems."""
    from roofline.spec.files import read_source

    shown = os.path.relpath(path) if path.startswith(os.getcwd() + os.sep) else path
    try:
        source = read_source(path, max_bytes=MOST_BYTES)
        values = _table(source, table)
    except InputError as err:
        problems += [Problem(shown, p.line, p.column, p.message, p.source_line) for p in err.problems]
        return {}
    found = {}
    for name, value in values.items():
        line, column = _place(source, name, table)
        key = KEYS.get(name)
        expected = key.wrong(value) if key else None
        if key is None or expected:
            said = f"unknown setting '{name}'; {did_you_mean(name, list(KEYS))}" if key is None else f"{name}: expected {expected}"
            problems.append(Problem(shown, line, column, said, source.line(line)))
        else:
            found[name] = Setting(name, value, f"{shown}:{line}" if line else shown)
    return found


def _table(source: Source, table: str) -> dict[str, Any]:
    from roofline.spec.toml import TOMLDecodeError, loads

    try:
        found: Any = loads(source.text)
    except TOMLDecodeError as err:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(err))
        line, column = (int(place[1]), int(place[2])) if place else (0, 0)
        said = re.sub(r"\s*\(at .*\)$", "", str(err))
        raise InputError([Problem(source.path, line, column, f"not TOML: {said}", source.line(line))]) from None
    except RecursionError:
        raise InputError([Problem(source.path, 0, 0, "not TOML that can be read: nested too deeply")]) from None
    for name in table.split(".") if table else ():
        found = found.get(name, {})
    if not isinstance(found, dict):
        raise InputError([Problem(source.path, 0, 0, f"[{table}] is not a table")])
    return found


def _place(source: Source, name: str, table: str) -> tuple[int, int]:
    """Where a key stands: the first line of its table that sets it, or its own table's head; the parser does not say."""
    within = not table
    for i, line in enumerate(source.text.split("\n"), start=1):
        head = re.match(r"\s*\[+\s*([^\]]*?)\s*\]", line)
        if head:
            path = re.sub(r"[\s\"']", "", head[1])
            within = path == table
            if path == f"{table}.{name}".lstrip(".") or path.startswith(f"{table}.{name}.".lstrip(".")):
                return i, line.index("[") + 1
        elif within and (key := re.match(rf"(\s*)[\"']?{re.escape(name)}[\"']?\s*[.=]", line)):
            return i, len(key[1]) + 1
    return 0, 0
