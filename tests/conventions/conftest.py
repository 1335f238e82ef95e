"""The fixtures of the command line's tests."""

from tests.cli.conftest import folder, process, report_text, run

__all__ = ["folder", "process", "report_text", "run"]
