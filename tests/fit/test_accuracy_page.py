"""docs/accuracy.md says what the tables and the profiles say."""

from __future__ import annotations

from benchmarks.accuracy import PAGE, page


def test_the_page_is_current() -> None:
    """Else: python benchmarks/accuracy.py."""
    assert PAGE.read_text(encoding="utf-8") == page()
