"""Fixtures of the stories."""

from tests.commands import report, row, run  # noqa: F401  (fixtures)
