"""Commands run in this process, their output as text or JSON: fixtures of the cases and of the stories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from roofline.cli.app import app

DATA = Path(__file__).parent / "data" / "cases"

Run = Callable[..., Result]
Answer = Callable[..., Any]


@pytest.fixture
def run() -> Run:
    """A command with its arguments; paths of the case files are taken from their folder."""

    def call(*arguments: str, code: int | None = 0) -> Result:
        found = [str(DATA / a) if (DATA / a).is_file() else a for a in arguments]
        result = CliRunner().invoke(app, found)
        assert code is None or result.exit_code == code, result.output
        return result

    return call


@pytest.fixture
def report(run: Run) -> Answer:
    """The JSON that a command prints."""

    def call(*arguments: str) -> Any:
        return json.loads(run(*arguments, "--format", "json").stdout)

    return call


@pytest.fixture
def row(report: Answer) -> Answer:
    """The first row of the report of a command."""

    def call(*arguments: str) -> Any:
        return report(*arguments)["rows"][0]

    return call
