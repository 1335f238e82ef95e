"""No. 20 and 21 for every command there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from roofline.cli.app import app, hoisted
from tests.cli.conftest import Process, Run


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that does something."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path
    for name, found in (inner or {}).items():
        yield from leaves(found, (*path, name))


LEAVES = list(leaves(get_command(app)))
LISTS = {
    ("hardware", "list"),
    ("operators", "list"),
    ("operators", "show"),
    ("cluster", "list"),
    ("dataflow", "list"),
    ("hardware", "compare"),
}
"""Commands whose name is the example."""


def test_there_are_commands() -> None:
    assert len(LEAVES) > 30
    assert ("gate",) in LEAVES


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_helps_in_80_columns(run: Run, words: tuple[str, ...]) -> None:
    result = run(*words, "--help", COLUMNS="200")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("words", [w for w in LEAVES if w not in LISTS], ids=" ".join)
def test_every_command_has_its_example(run: Run, words: tuple[str, ...]) -> None:
    """Before its options, and a line of it begins with the command itself."""
    text = run(*words, "--help").stdout
    before = " ".join(text.partition("Options:")[0].split())
    assert f"roofline {' '.join(words)}" in before.partition("Example")[2]


@pytest.mark.parametrize(
    "flags",
    ["-q", "--quiet", "--debug", "-v", "--verbose", "--strict", "--color never", "--color=never", "--ignore W001", "--ignore=W001"],
)
@pytest.mark.parametrize("command", [["analyze", "w.yaml"], ["amdahl", "-f", "0.2", "-s", "2"], ["config", "show"]], ids=" ".join)
def test_every_global_flag_may_follow_the_command(run: Run, command: list[str], flags: str) -> None:
    before, after = run(*flags.split(), *command), run(*command, *flags.split())
    assert (before.exit_code, before.stdout, before.stderr) == (after.exit_code, after.stdout, after.stderr)
    assert before.exit_code == 0


def test_a_flag_that_a_command_takes_itself_stays_where_it_stands() -> None:
    """--strict of diff is about measured times, -v of model about keys."""
    assert hoisted(["diff", "a", "b", "--strict"]) == ["diff", "a", "b", "--strict"]
    assert hoisted(["analyze", "w.yaml", "--strict"]) == ["--strict", "analyze", "w.yaml"]
    assert hoisted(["-q", "model", "show", "c.json", "-v"]) == ["-q", "model", "show", "c.json", "-v"]


def test_the_table_of_own_flags_is_true() -> None:
    """Every command that has a flag of the name of a global one is in it, and no other."""
    from roofline.cli.narrow import OWN_FLAGS

    whole = get_command(app)
    shared = {o for p in whole.params for o in p.opts} - {"--help", "-h"}
    found = {}
    for words in LEAVES:
        command: Any = whole
        for word in words:
            command = command.commands[word]
        own = {o for p in command.params for o in p.opts} & shared
        if own:
            found.setdefault(words[0], set()).update(own)
    assert found == {name: set(flags) for name, flags in OWN_FLAGS.items()}


def test_verbose_says_which_settings_are_in_force(process: Process, folder: Path) -> None:
    assert process("analyze", "w.yaml", "-v").stderr == "no settings but the built-in ones; see 'roofline config show'\n"
    (folder / "roofline.toml").write_text('hardware = "l4"\n', encoding="utf-8")
    found = process("analyze", "w.yaml", "-v")
    assert found.stderr == "setting hardware = 'l4' from roofline.toml:1\n"
    assert found.stdout == process("analyze", "w.yaml").stdout
    assert process("analyze", "w.yaml", "-v", "-q").stderr == ""


def test_the_unit_legend_and_the_exit_codes_are_in_the_first_help(run: Run) -> None:
    text = run("--help").stdout
    assert re.search(r"1 GB = 1e9 B, 1 GiB = 2\*\*30 B", " ".join(text.split()))
    assert "Exit codes:" in text
