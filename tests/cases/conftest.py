"""Fixtures of the cases."""

from tests.commands import report, row, run  # noqa: F401  (fixtures)
