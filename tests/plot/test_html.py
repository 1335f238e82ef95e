"""The HTML file: it loads nothing, runs only its own script, is small, and shows names without obeying them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import UsageError, visible
from roofline.predict.amdahl import Part, amdahl
from roofline.report.html.diff_page import diff_page
from roofline.report.html.other_pages import other_page
from roofline.report.html.page import island
from roofline.report.html.report_page import report_page
from roofline.report.html.table import order
from roofline.report.html.whatif import shares_of
from roofline.report.load import load
from roofline.report.model import Notice, Report
from roofline.report.store import load_report
from tests.plot.box import estimate, measured, report, row
from tests.plot.conftest import INGEST, SEARCH, SWEEP, Made

HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "'; alert(1); //", "</script><script>alert(1)</script>",
    "\u202egnp.exe", "\x1b[31mred", "<!--", "-->", "]]>", "&lt;b&gt;", "${alert(1)}", "</style>", "\u2028", "a\x00b", "\ud800",
)  # fmt: skip


class Reader(HTMLParser):
    """Elements, attributes and texts as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "br"):
            self.inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts.setdefault(self.inside[-1], []).append(data)


def page_of(*names: str) -> str:
    """The page of steps with these names."""
    rows = [row(name, 1e12 * (i + 1), 1e10, estimate=estimate(0.1 * (i + 1))) for i, name in enumerate(names)]
    said = names[0]
    return report_page(report(*rows, workload=said, conventions={"execution": said, said: said}, environment={said: said},
                              warnings=(Notice(code="W001", message=said),), params={said: said}))  # fmt: skip


def shape_of(text: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """Elements with their attributes; labels of marks may lie elsewhere, have a leader or no room, by the length of a name."""
    found = [(tag, tuple(sorted(a))) for tag, a in Reader(text).elements if not (tag in ("text", "line") and "data-i" in a)]
    return Counter(found)


PLAIN = shape_of(page_of("a", "b"))


@settings(max_examples=80, deadline=None)
@given(st.text(alphabet=st.characters(codec=None), min_size=1, max_size=30) | st.sampled_from(HOSTILE))
def test_no_name_makes_an_element_or_an_attribute(name: str) -> None:
    text = page_of(name, "b" if name != "b" else "c")
    assert shape_of(text) == PLAIN
    assert visible(text.replace("\n", "")) == text.replace("\n", ""), "no control or bidirectional character is left"
    text.encode("utf-8")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_shown_as_it_is(name: str) -> None:
    read = Reader(page_of(name, "b"))
    assert any(visible(name) == t for t in read.texts["th"])
    data = json.loads("".join(t for t in read.texts["script"] if t.startswith("{")))
    assert data["rows"][0]["id"] == visible(name)


def test_the_island_ends_nowhere() -> None:
    text = island({"a": "</script><!--&\u2028"})
    assert not set("<>&") & set(text)
    assert text.isascii()
    assert json.loads(text) == {"a": "</script><!--&\\u2028"}


def test_only_its_own_script_and_style_take_effect() -> None:
    """Hashes of the policy worked out once more from what stands in the file."""
    text = page_of("a", "b")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))

    def hashed(body: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'"

    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert (len(scripts), len(styles)) == (1, 1)
    assert rules == {
        "default-src": "'none'",
        "script-src": hashed(scripts[0]),
        "style-src": hashed(styles[0]),
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert "unsafe" not in policy[1]
    read = Reader(text)
    for tag, attributes in read.elements:
        assert not {"style", "src", "href", "action", "srcset"} & set(attributes), tag
        assert not any(name.startswith("on") for name in attributes), tag
        assert tag not in ("link", "iframe", "img", "object", "base", "form")
    assert set(re.findall(r"https?://[^\"'<\s]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|eval|innerHTML|import)\b", scripts[0])


def big(count: int) -> Report:
    rows = [
        row(f"layers/{i}/attention/projection", 10.0 ** (9 + i / 20), 1e9, estimate=estimate(0.01 + i / 1e5), measured=measured(0.011))
        for i in range(count)
    ]
    return report(*rows, estimate=estimate(9.9), measured=measured(9.0))


def test_a_hundred_rows_are_less_than_200_kb() -> None:
    assert len(report_page(big(100)).encode()) < 200_000


def test_equal_reports_give_equal_bytes() -> None:
    assert report_page(big(5)) == report_page(big(5))


def test_the_summary_comes_first_and_everything_has_a_name() -> None:
    text = page_of("a", "b")
    body = text[text.index("<body>") :]
    assert body.index('class="summary"') < body.index("<main>")
    assert "hbm (memory) binds 100 %" in body[: body.index("<main>")]
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for reference in re.findall(r'aria-labelledby="([^"]+)"', text):
        assert set(reference.split()) <= set(ids)
    assert '<html lang="en">' in text
    assert re.findall(r"<h1>", text) == ["<h1>"]
    for part in ("roofline", "rows", "waterfall", "whatif", "sentences", "conventions", "environment"):
        assert part in ids


def test_a_table_is_sorted_by_numbers_and_not_by_their_text() -> None:
    data: dict[str, Any] = json.loads(Reader(report_page(report(row("b", 2e9, 9e12), row("a", 1e9, 1e13)))).texts["script"][0])
    headings = re.findall(
        r'<th scope="col"[^>]*><button type="button">([^<]*)', report_page(report(row("b", 2e9, 9e12), row("a", 1e9, 1e13)))
    )
    orders = dict(zip(headings, data["orders"]["steps"], strict=True))
    assert orders["step"] == [1, 0]
    assert orders["bound"] == [0, 1], "9 s before 10 s"


@given(st.lists(st.none() | st.floats(allow_nan=False)))
def test_an_order_holds_each_row_once_and_those_without_a_number_last(keys: list[float | None]) -> None:
    found = order(keys)
    assert sorted(found) == list(range(len(keys)))
    known = [keys[i] for i in found if keys[i] is not None]
    assert known == sorted(known)  # type: ignore[type-var]
    assert all(keys[i] is None for i in found[len(known) :])


def test_shares_give_amdahls_law() -> None:
    """Steps of 3 x 1 s and 1 s by the bound: 75 % of 4 s; twice as fast gives 1.6."""
    found = shares_of(report(row("a", 1e14, 1e6, repeat=3), row("b", 1e14, 1e6)))
    assert found.whole_s == {"bound": pytest.approx(4)}
    assert found.shares["bound"] == pytest.approx((0.75, 0.25))
    assert amdahl([Part(found.shares["bound"][0], 2)]).speedup == pytest.approx(1.6)
    assert found.why == {"measured": "not measured", "estimate": "there is none"}


def test_where_steps_are_no_shares_the_reason_is_said() -> None:
    rows = (
        row("a", 1e14, 1e6, estimate=estimate(2), measured=measured(3)),
        row("b", 1e14, 1e6, estimate=estimate(2), measured=measured(3)),
    )
    whole = report(*rows, estimate=estimate(5, by_limiter_s={"host": 1.0, "memory": 4.0}), measured=measured(4))
    assert set(shares_of(whole).shares) == {"bound"}
    assert "host" in shares_of(whole).why["estimate"]
    assert "longer than the whole" in shares_of(whole).why["measured"]
    bound = whole.totals.bound
    assert bound is not None
    overlapped = replace(whole, totals=replace(whole.totals, bound=replace(bound, overlapped=True)))
    assert shares_of(overlapped).shares == {}
    assert all("overlap" in why for why in shares_of(overlapped).why.values())


@pytest.mark.parametrize("words", [SWEEP, SEARCH, INGEST], ids=lambda w: w[0])
def test_the_pages_of_sweeps_searches_and_traces(words: tuple[str, ...], made: Made) -> None:
    found = load(str(made(*words)))
    assert not isinstance(found, Report)
    text = other_page(found)
    read = Reader(text)
    assert not read.inside
    assert len(text) < 200_000
    assert text == other_page(found)
    assert [tag for tag, _ in read.elements].count("svg") == 1
    assert re.search(r'<p class="summary">[^<]{20,}', text)


def test_the_page_of_two_reports_begins_with_the_verdict(made: Made) -> None:
    base, head = (load_report(str(made("analyze", "w.yaml", "--set", f"batch={n}"))) for n in (8, 16))
    text = diff_page(base, head, "<b>.json", "h.json")
    summary = re.search(r'<p class="summary">([^<]*)', text)
    assert summary is not None
    assert summary[1].startswith("total time +")
    assert "From &lt;b&gt;.json to h.json" in text
    assert 'base"' in text, "where steps stood"
    read = Reader(text)
    assert not read.inside
    with pytest.raises(UsageError, match="not comparable"):
        diff_page(replace(base, hardware={**(base.hardware or {}), "name": "other"}), head, "a", "b")


def test_a_report_without_a_device_has_no_page() -> None:
    with pytest.raises(UsageError, match="no device"):
        report_page(report(row("a", 1, 1), hardware=None))
