"""A start builds only the command it is asked for, and nobody can tell."""

import pytest
from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.cli.narrow import narrowed

NAMES = [c.name for c in app.registered_commands] + [g.name for g in app.registered_groups]


def kept(*arguments: str) -> list[str | None]:
    """Names of the commands that are left for these arguments."""
    small = narrowed(app, arguments)
    return [c.name for c in small.registered_commands] + [g.name for g in small.registered_groups]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_is_kept_and_helps_alike(name):
    """Its help is the same as in the whole app."""
    assert kept(name, "--help") == kept("-q", "--color", "never", name) == [name]
    whole, small = (CliRunner().invoke(a, [name, "--help"], prog_name="roofline") for a in (app, narrowed(app, [name])))
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
    """A copy is narrowed."""
    narrowed(app, ["analyze"])
    assert [c.name for c in app.registered_commands] + [g.name for g in app.registered_groups] == NAMES
