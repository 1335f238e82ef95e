"""Problems of files for tools that show them beside the line: SARIF 2.1.0, GitHub's workflow commands, GitLab's code quality.

A performance number is no such problem; only what ``validate`` refuses is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from roofline.errors import Problem, visible
from roofline.report.store import to_json

RULE = "invalid-file"
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_RESULTS = 5000
"""Results of one SARIF file that GitHub shows."""
MOST_ANNOTATIONS = 10
"""Annotations of one kind that GitHub shows of one step."""


def to_sarif(problems: Sequence[Problem], tool: str) -> str:
    """A SARIF 2.1.0 log with one run; ``tool`` is ``roofline 1.2.3``. Paths become relative URIs, columns count code points."""
    name, _, version = tool.partition(" ")
    rule = {
        "id": RULE,
        "shortDescription": {"text": "A workload, profile or settings file that cannot be read as it stands"},
        "defaultConfiguration": {"level": "error"},
    }
    run = {
        "tool": {"driver": {"name": name, "version": version, "rules": [rule]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(p) for p in problems[:MOST_RESULTS]],
    }
    return to_json({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(problem: Problem) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(problem.path)}}
    if problem.line:
        place["region"] = {"startLine": problem.line, "startColumn": max(problem.column, 1)}
    return {
        "ruleId": RULE,
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": visible(problem.message)},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"problem/v1": _fingerprint(problem)},
    }


def _uri(path: str) -> str:
    found = PurePath(path)
    return found.as_uri() if found.is_absolute() else quote(found.as_posix())


def _fingerprint(problem: Problem) -> str:
    """The same as long as the file, the message and the line's text are: a problem that only moved is the same one."""
    return hashlib.sha256("\n".join((problem.path, problem.message, problem.source_line.strip())).encode("utf-8", "replace")).hexdigest()


def to_github(problems: Sequence[Problem]) -> str:
    """Workflow commands, at most as many as GitHub shows, then how many more there are.

    Values are escaped, so that a name in a file can start no command of its own.
    """
    lines = []
    for problem in problems[:MOST_ANNOTATIONS]:
        place = {"file": problem.path, **({"line": problem.line, "col": max(problem.column, 1)} if problem.line else {})}
        inner = ",".join(f"{key}={_property(str(value))}" for key, value in place.items())
        lines.append(f"::error {inner}::{_data(problem.message)}")
    rest = len(problems) - MOST_ANNOTATIONS
    return "\n".join([*lines, *([f"::notice::{rest} more problems are in the log"] if rest > 0 else [])]) + ("\n" if lines else "")


def _data(text: str) -> str:
    """The message of a workflow command: percent signs and line ends escaped.

    >>> _data("50%\\nof it")
    '50%25%0Aof it'
    """
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return re.sub("[\x00-\x1f\x7f]", lambda found: visible(found[0]), escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def to_gitlab(problems: Sequence[Problem]) -> str:
    """A code quality report of GitLab: a list with description, check name, fingerprint, severity and place."""
    return to_json([
        {
            "description": visible(p.message),
            "check_name": RULE,
            "fingerprint": _fingerprint(p),
            "severity": "major",
            "location": {"path": PurePath(p.path).as_posix(), "lines": {"begin": max(p.line, 1)}},
        }
        for p in problems
    ])  # fmt: skip
