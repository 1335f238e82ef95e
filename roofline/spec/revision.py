"""The settings, workloads and profiles of another commit of a git repository, as files in a folder.

Contents are read as git stores them: no filter, hook or link of the repository has a part in it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roofline.errors import MissingCapabilityError, UsageError

SUFFIXES = (".yaml", ".yml", ".json", ".toml")
MOST_BYTES = 4 << 20
"""Files above this are nothing that `roofline.spec.files` would read."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Files since a commit, by their path from the root: new name to old one, and those that are gone."""

    renamed: dict[str, str]
    deleted: frozenset[str]


def root_of(folder: str) -> Path:
    """The root of the repository that holds the folder.

    Raises:
        MissingCapabilityError: there is no git, or no repository.
    """
    return Path(_git(folder, "rev-parse", "--show-toplevel").decode("utf-8", "surrogateescape").rstrip("\n"))


def commit_of(folder: str, revision: str) -> str | None:
    """The full name of a commit; None where the repository does not have it.

    Raises:
        UsageError: what cannot name a commit, such as an option.
    """
    if not revision or revision.startswith("-"):
        raise UsageError(f"'{revision}' names no commit")
    try:
        return _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    except MissingCapabilityError:
        return None


def changes_since(root: Path, commit: str) -> Changes:
    """What was renamed or deleted between the commit and the working tree."""
    words = _git(str(root), "diff", "--name-status", "--find-renames", "-z", commit, "--").decode("utf-8", "surrogateescape").split("\0")
    renamed: dict[str, str] = {}
    deleted: set[str] = set()
    i = 0
    while i < len(words) - 1:
        status, path = words[i], words[i + 1]
        i += 2
        if status.startswith(("R", "C")):
            if status.startswith("R"):
                renamed[words[i]] = path
            i += 1
        elif status == "D":
            deleted.add(path)
    return Changes(renamed, frozenset(deleted))


def extract(root: Path, commit: str, target: Path) -> None:
    """Write the YAML, JSON and TOML files of the commit below the target, which then looks like the root of a repository."""
    listed = _git(str(root), "ls-tree", "-r", "-l", "-z", "--full-tree", commit).decode("utf-8", "surrogateescape")
    wanted: list[tuple[str, str]] = []
    for entry in filter(None, listed.split("\0")):
        about, _, path = entry.partition("\t")
        mode, _, name, size = about.split()
        if mode in ("100644", "100755") and path.endswith(SUFFIXES) and int(size) <= MOST_BYTES:
            wanted.append((path, name))
    for path, data in zip((p for p, _ in wanted), _contents(root, [name for _, name in wanted]), strict=True):
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    (target / ".git").mkdir(exist_ok=True)  # settings are looked for up to here and no further


def _contents(root: Path, names: Sequence[str]) -> list[bytes]:
    """The bytes of each object."""
    if not names:
        return []
    answer = _git(str(root), "cat-file", "--batch", given="\n".join(names).encode() + b"\n")
    found, at = [], 0
    for _ in names:
        end = answer.index(b"\n", at)
        size = int(answer[at:end].split()[2])
        found.append(answer[end + 1 : end + 1 + size])
        at = end + 1 + size + 1
    return found


def _git(folder: str, *arguments: str, given: bytes | None = None) -> bytes:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], input=given, env=environment, capture_output=True, check=False)
    except FileNotFoundError:
        raise MissingCapabilityError("git is not installed, and the baseline is a commit; give reports with --from instead") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().split("\n")[0] or f"git {arguments[0]} failed"
        raise MissingCapabilityError(f"no baseline: {said}")
    return done.stdout
