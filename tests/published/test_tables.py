"""The committed pages are what the code gives today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.published import tables
from tests.published.counters import cases
from tests.published.facts import facts
from tests.published.tables import DOCS


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """What the code gives."""
    return tables.pages()


@pytest.mark.parametrize("name", ["published.md", "counters.md"])
def test_the_committed_page_is_current(name: str, pages: dict[str, str]) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == pages[name], "run: python -m tests.published.tables"


def test_every_fact_and_every_case_has_a_line(pages: dict[str, str]) -> None:
    published, counters = pages["published.md"], pages["counters.md"]
    assert [fact.id for fact in facts() if published.count(f"| `{fact.id}` |") != 1] == []
    assert [case.name for case in cases() if counters.count(f"| `{case.name}` |") != 1] == []


def test_a_fact_that_fails_is_named_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "reproduced", lambda fact, value: fact.id != "seed-amdahl")
    page = tables.published_page()
    assert "138 of 139 facts of these topics are reproduced. Not reproduced: seed-amdahl." in page
    assert page.count("**not reproduced**") == 1


def test_the_check_fails_and_names_a_page_that_is_not_current(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    assert tables.main(["--check"]) == 1
    assert "docs/counters.md is not current" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert tables.main([]) == 0
    assert tables.main(["--check"]) == 0
