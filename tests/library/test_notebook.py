"""What a notebook shows: small tables that any name may stand in."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import roofline
from roofline.notebook import html_table

ROOT = Path(__file__).parent.parent.parent
TAGS = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


class Page(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.cells: list[str] = []
        self.attributes: set[tuple[str, str | None]] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.cells.append("")
        self.attributes |= set(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


def shown(value: Any) -> Page:
    """The page, which holds nothing but a table and sentences, and closes what it opens."""
    page = Page(value._repr_html_())
    assert set(page.tags) <= TAGS
    assert not page.open
    assert {name for name, _ in page.attributes} <= {"class", "scope", "style"}
    return page


def reports() -> dict[str, Any]:
    """One of each."""
    base = roofline.analyze("gpt2_medium", "h100-sxm")
    sizes = {"batch": 64, "context": 8192}
    return {
        "report": base,
        "counts": roofline.analyze("gpt2_medium"),
        "measured": roofline.load_report(ROOT / "results" / "h200" / "gpt2_naive.json"),
        "diff": roofline.diff(base, roofline.analyze("gpt2_medium", "h100-sxm", overrides={"batch": 2})),
        "same": roofline.diff(base, base),
        "what if": roofline.what_if("gpt2_medium", "h100-sxm", faster={"attention": 2}),
        "nothing": roofline.what_if("gpt2_medium", "h100-sxm", faster={"attention": 1}),
        "amdahl": roofline.amdahl([(0.2, 2), (0.3, float("inf"))]),
        "advise": roofline.advise("gpt2_medium", "h200-sxm"),
        "sweep": roofline.sweep("qwen3_8b_decode", over={"batch": "1..512:x2"}, tokens="batch"),
        "memory": roofline.memory("llama-3-70b", "decode", sizes, plan="tp=8", hardware="h100-sxm"),
    }


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return reports()


WANTED = {
    "report": ["GPT-2 medium, forward on h100-sxm (eager)", "attention", "65.9 %"],
    "counts": ["norms", "51.34 GB"],
    "measured": ["809.7 µs", "measured"],
    "diff": ["attention"],
    "same": [],
    "what if": ["attention", "2x", "12.01 ms", "6.006 ms"],
    "nothing": [],
    "amdahl": ["20.0%", "2x", "free", "30.0%", "unchanged"],
    "advise": ["flash attention instead of materialised scores"],
    "sweep": ["512"],
    "memory": ["llama-3-70b, decode on h100-sxm: fits, 39.12 GB (36.43 GiB) of 80.00 GB (74.51 GiB) a device."],
}


@pytest.mark.parametrize("name", WANTED)
def test_each_shows_its_figures(found: dict[str, Any], name: str) -> None:
    page = shown(found[name])
    for text in WANTED[name]:
        assert text in page.cells, page.cells
    assert ("table" in page.tags) == (name not in ("same", "nothing"))


def test_the_parts_of_amdahl_keep_their_rows(found: dict[str, Any]) -> None:
    """By hand: 0.2 / 2 = 0.1 and 0.3 / inf = 0 of a new time of 0.6, whose unchanged 0.5 is 83.3 %."""
    cells = [c for c in shown(found["amdahl"]).cells if c]
    assert cells[0] == "end to end 1.667x, limit 2x"
    assert cells[4:] == ["part 1", "20.0%", "2x", "16.7%", "part 2", "30.0%", "free", "0.0%", "unchanged", "50.0%", "1x", "83.3%"]


def test_a_name_is_text_whatever_it_is(found: dict[str, Any]) -> None:
    """Hostile names of steps and workloads come back as they were, control characters as escapes."""
    bad = '<script>alert("1")</script>\x1b[31m\u202e'
    base = found["report"]
    report = replace(base, workload=bad, rows=(replace(base.rows[0], id=bad), *base.rows[1:]))
    page = shown(report)
    assert '<script>alert("1")</script>\\x1b[31m\\u202e' in page.cells


@given(st.lists(st.text(), min_size=3, max_size=3))
def test_any_text_comes_back(texts: list[str]) -> None:
    page = Page(html_table(texts[0], ["", texts[1]], [(texts[2], "1")]))
    assert page.tags.count("td") == 1
    assert set(page.tags) <= TAGS


def test_it_is_small_and_the_same_each_time(found: dict[str, Any]) -> None:
    again = reports()
    for name, report in found.items():
        assert report._repr_html_() == again[name]._repr_html_()
        assert len(report._repr_html_()) < 20_000, name
