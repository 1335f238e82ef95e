"""What the stories share: commands run in this process, and their output as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from roofline.cli.app import app

Run = Callable[..., Result]
Answer = Callable[..., Any]


@pytest.fixture
def run() -> Run:
    """A command with its arguments and the exit code it must have."""

    def call(*arguments: str, code: int | None = 0) -> Result:
        result = CliRunner().invoke(app, list(arguments))
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
