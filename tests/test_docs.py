"""Every `console` block of the README and the docs is run, and what it shows is what comes out.

A line that begins with `$ ` is a command; the lines after it, up to the next command, are its standard output. A line `...` stands
for any lines. Blocks of one file run in order in one empty directory. ``python tests/test_docs.py`` writes what came out into the
pages, except where a block with ``...`` still matches.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(p for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if "```console" in p.read_text(encoding="utf-8"))
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


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


def run(command: str, folder: Path) -> str:
    """The standard output of a command line, `roofline` being this checkout's; `results` are the committed ones."""
    if not (folder / "results").exists():
        (folder / "results").symlink_to(ROOT / "results")
    python = shlex.quote(sys.executable)
    line = re.sub(r"(^|[|;&]\s*)roofline\b", rf"\1{python} -m roofline", command)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
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
    for command, shown in commands(page.read_text(encoding="utf-8")):
        actual = run(command, tmp_path).rstrip("\n").splitlines()
        shown_text = "\n".join(line.rstrip() for line in shown).rstrip("\n").splitlines()
        assert matches(shown_text, actual), f"$ {command}\nshown:\n" + "\n".join(shown) + "\nactual:\n" + "\n".join(actual)


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

    for name in PAGES:
        with tempfile.TemporaryDirectory() as place:
            name.write_text(rewritten(name.read_text(encoding="utf-8"), Path(place)), encoding="utf-8")
