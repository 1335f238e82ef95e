"""A start builds only the command it is asked for, and nobody can tell."""

import subprocess
import sys
from ast import literal_eval

import pytest
from typer.testing import CliRunner

from roofline.cli.app import app, app_for

NAMES = [c.name for c in app.registered_commands] + [g.name for g in app.registered_groups]


def kept(*arguments: str) -> list[str | None]:
    """Names of the commands that are left for these arguments."""
    small = app_for(arguments)
    return [c.name for c in small.registered_commands] + [g.name for g in small.registered_groups]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_is_kept_and_helps_alike(name):
    """Its help is the same as in the whole app."""
    assert kept(name, "--help") == kept("-q", "--color", "never", name) == [name]
    whole, small = (CliRunner().invoke(a, [name, "--help"], prog_name="roofline") for a in (app, app_for([name])))
    assert whole.output == small.output
    assert small.exit_code == 0


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-q",), ("--version",), ("anlyze", "diff"), ("--color", "diff"), ("-",)])
def test_all_commands_are_kept_for_help_and_mistakes(arguments):
    """The list of commands, and the nearest name to a misspelt one, need all of them."""
    assert kept(*arguments) == NAMES


def test_the_first_word_is_the_command():
    """A file may be called like a command."""
    assert kept("analyze", "diff") == ["analyze"]
    assert kept("--color=never", "diff", "analyze") == ["diff"]


def test_the_app_itself_stays_whole():
    """A small one is another."""
    app_for(["analyze"])
    assert [c.name for c in app.registered_commands] + [g.name for g in app.registered_groups] == NAMES


def test_a_run_imports_no_other_command():
    """Each module of a command costs milliseconds."""
    script = "import sys; from roofline.cli.app import app_for; app_for(['amdahl']); print(sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    commands = {name for name in literal_eval(found) if name.startswith("roofline.cli.")}
    assert commands == {f"roofline.cli.{name}" for name in ("app", "narrow", "outcome", "amdahl")}
