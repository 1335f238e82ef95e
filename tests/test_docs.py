"""Every `console` block of the README and the docs is run, and what it shows is what comes out.

A line that begins with `$ ` is a command; the lines after it, up to the next command, are its standard output. A line `...` stands
for any lines. Blocks of one file run in order in one directory, which holds the page's own files: a block of another language with
``title="NAME"`` is the file of that name. A `pycon` block is a session of Python. ``python tests/test_docs.py [PAGE ...]`` writes what
came out into the pages, except where a block with ``...`` still matches.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # as a script, which is not started from there
from tests import warm  # noqa: E402

ALL = [ROOT / "README.md", ROOT / "README.zh.md", *(ROOT / "docs").rglob("*.md")]
PAGES = sorted(p for p in ALL if "```console" in p.read_text(encoding="utf-8"))
SESSIONS = sorted(p for p in ALL if "```pycon" in p.read_text(encoding="utf-8"))
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```pycon\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLUGIN = "roofline.library.pytest_plugin"
RUN_SESSION = """
import doctest, sys
failed, tried = doctest.testfile("session.txt", module_relative=False, optionflags=doctest.ELLIPSIS)
sys.exit(failed > 0 or tried == 0)
"""
FILE = re.compile(r'^```\w+ title="([\w.-]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command with the output shown under it."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def write_files(text: str, folder: Path) -> None:
    """The files that the page shows with their names, each once."""
    found = FILE.findall(text)
    assert len({name for name, _ in found}) == len(found), "a file is shown twice"
    for name, content in found:
        (folder / name).write_text(content, encoding="utf-8")


def prepare(folder: Path) -> None:
    """`results` and `tests` are the committed ones, as in a clone."""
    for name in ("results", "tests"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)


def run(command: str, folder: Path, ours: str | None = None) -> str:
    """The standard output of a command line, `roofline` being this checkout's: a process that starts, unless ``ours`` stands for it."""
    prepare(folder)
    ours = ours or f"{shlex.quote(sys.executable)} -m roofline"
    line = re.sub(r"(^|[|;&]\s*)roofline\b", lambda found: found[1] + ours, command)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1", "TMPDIR": str(folder)}
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
    if not any(point.value == PLUGIN for point in entry_points(group="pytest11")):  # a checkout that is not installed
        environment["PYTEST_PLUGINS"] = PLUGIN
    environment.pop("COLUMNS", None)
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def matches(shown: list[str], actual: list[str]) -> bool:
    """Whether the output is as shown, `...` standing for any lines."""
    pattern = "".join("(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + "\n" for line in shown)
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in actual)) is not None


def test_there_are_pages_with_commands() -> None:
    assert [p.name for p in PAGES][-1] or PAGES
    assert ROOT / "README.md" in PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_commands_of_the_page_give_the_output_shown(page: Path, tmp_path: Path) -> None:
    """The README's start a process each, as its readers do; those of other pages are forked from one, which takes half the time."""
    text = page.read_text(encoding="utf-8")
    write_files(text, tmp_path)
    ours = None if page.name == "README.md" else warm.command()
    for command, shown in commands(text):
        actual = run(command, tmp_path, ours).rstrip("\n").splitlines()
        shown_text = "\n".join(line.rstrip() for line in shown).rstrip("\n").splitlines()
        assert matches(shown_text, actual), f"$ {command}\nshown:\n" + "\n".join(shown) + "\nactual:\n" + "\n".join(actual)


@pytest.mark.parametrize("page", SESSIONS, ids=lambda p: p.name)
def test_the_python_of_the_page_gives_the_output_shown(page: Path, tmp_path: Path) -> None:
    """In an interpreter of its own: what a session registers or imports stays there."""
    text = page.read_text(encoding="utf-8")
    write_files(text, tmp_path)
    prepare(tmp_path)
    (tmp_path / "session.txt").write_text("\n".join(SESSION.findall(text)), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", RUN_SESSION], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_test_command_is_what_ci_runs() -> None:
    readme, ci = (ROOT / "README.md").read_text(encoding="utf-8"), (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    command = 'python -m pytest -m "not gpu" -n auto'
    assert command in readme
    assert command in ci


def test_ellipses_and_mismatches_are_told_apart() -> None:
    assert matches(["a", "...", "c"], ["a", "b", "b", "c"])
    assert not matches(["a", "c"], ["a", "b", "c"])
    assert not matches(["a"], ["b"])


def rewritten(text: str, folder: Path) -> str:
    """The page with the output that its commands give now."""

    def block(match: re.Match[str]) -> str:
        parts = []
        for command, shown in commands(match.group()):
            actual = [line.rstrip() for line in run(command, folder).rstrip("\n").splitlines()]
            keep = any(line.strip() == "..." for line in shown) and matches(shown, actual)
            parts += [f"$ {command}", *(shown if keep else actual)]
        return "```console\n" + "\n".join(parts) + "\n```"

    return BLOCK.sub(block, text)


if __name__ == "__main__":
    import tempfile

    chosen = [Path(name).resolve() for name in sys.argv[1:]] or PAGES
    for name in chosen:
        with tempfile.TemporaryDirectory() as place:
            shown_now = name.read_text(encoding="utf-8")
            write_files(shown_now, Path(place))
            name.write_text(rewritten(shown_now, Path(place)), encoding="utf-8")
