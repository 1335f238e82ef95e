"""A repository of two commits, and the scripts of the action run on it as the action runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import warm

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "ci"
EXAMPLE = ROOT / "docs" / "ci"

if not (ROOT / "action.yml").exists():  # as in a source distribution, which has the tests and not the action
    collect_ignore_glob = ["test_*.py"]

Done = subprocess.CompletedProcess[str]


class Repository:
    """A git repository that begins as the example of docs/ci."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("ROOFLINE_", "GATE_", "GITHUB_", "GIT_", "CI_"))},
            "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder.parent / "nobody"), "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.org",
        }  # fmt: skip
        (folder / "workloads").mkdir(parents=True)
        shutil.copy(EXAMPLE / "workloads" / "block.yaml", folder / "workloads")
        shutil.copy(EXAMPLE / "roofline.toml", folder)
        self.git("init", "-q", "-b", "main")
        self.commit("base")

    def git(self, *arguments: str) -> str:
        """What git prints."""
        return subprocess.run(
            ["git", *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    def commit(self, message: str) -> str:
        """All that was changed as a commit; its hash."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def edit(self, old: str, new: str, name: str = "workloads/block.yaml") -> None:
        """One replacement in a file."""
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    def roofline(self, *words: str, **environment: str) -> Done:
        """A command in the repository."""
        return warm.run(words, folder=self.folder, environment={**self.environment, **environment})

    def script(self, name: str, **environment: str) -> Done:
        """One of the action's scripts."""
        given = {**self.environment, "GATE_ROOFLINE": warm.command(), **environment}
        given["PATH"] = os.pathsep.join([str(self.folder.parent / "bin"), str(Path(sys.executable).parent), given["PATH"]])
        return subprocess.run(
            ["bash", str(CI / name)], cwd=self.folder, env=given, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """The example of docs/ci as a repository with one commit."""
    return Repository(tmp_path / "repo")


Fake = Callable[[str], Path]


@pytest.fixture
def gh(repository: Repository) -> Fake:
    """A `gh` that answers with a text and writes what it was called with."""
    folder = repository.folder.parent / "bin"
    folder.mkdir()
    log = folder / "calls"

    def answering(script: str) -> Path:
        (folder / "gh").write_text(f'#!/usr/bin/env bash\nprintf "%s\\n" "$*" >>"{log}"\n{script}\n', encoding="utf-8")
        (folder / "gh").chmod(0o755)
        return log

    return answering
