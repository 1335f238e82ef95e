"""The comment of a pull request: first the verdict, then what changed and why, the rest folded; its size; no markup of others."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from roofline.report.diff import Diff, compare
from roofline.report.formats.comment import MARKER, MOST_CHARACTERS, escape, to_markdown
from roofline.report.model import Report

from .conftest import Between, Make

LIMIT_OF_GITHUB = 65_536


def wide(make: Make, rows: int, name: str = "step") -> tuple[Report, Report]:
    """Two reports with so many rows that all changed."""
    base, head = make(), make(("k: n, repeat: 3", "k: 2 * n, repeat: 3"))
    old, new = ([replace(r.rows[0], id=f"{name}{i}") for i in range(rows)] for r in (base, head))
    return replace(base, rows=tuple(old)), replace(head, rows=tuple(new))


def test_the_verdict_and_the_reason_stand_above_the_fold(make: Make, between: Between) -> None:
    text = to_markdown(between(make(), make(("k: n, repeat: 3", "k: 2 * n, repeat: 3")), "total.bound.time_s>+2%"))
    lines = text.splitlines()
    assert lines[0] == MARKER
    assert lines[1].startswith("**FAILED 1 of 1 gate; measured 1 unclear; predicted total time +")
    above = text.partition("<details>")[0]
    assert "- up: tensor FLOP +100 %, bytes at l2 +66.7 %, bytes at hbm +66.7 %: k 1024 -> 2048; still bound by tensor (compute)" in above
    assert "| `up`" not in above
    assert "| `up`" in text


def test_only_the_three_largest_changes_are_above_the_fold(make: Make, between: Between) -> None:
    above = to_markdown(between(*wide(make, 30))).partition("<details>")[0]
    assert len(re.findall(r"^- step\d+: ", above, re.MULTILINE)) == 3
    assert "- and 27 more rows changed" in above


def test_the_largest_effect_on_the_whole_comes_first(make: Make, between: Between) -> None:
    """Both steps grow with n; the three products weigh more than the norm."""
    change = ("  - {id: up", "  - {id: tiny, op: gemm, m: n, n: 8, k: 8}\n  - {id: up"), ("params: {n: 1024}", "params: {n: 2048}")
    above = to_markdown(between(make(change[0]), make(*change))).partition("<details>")[0]
    assert re.findall(r"^- (tiny|up): ", above, re.MULTILINE) == ["up", "tiny"]


@pytest.mark.parametrize("rows", [1, 20, 21, 700])
def test_it_keeps_its_size_and_every_fold_is_closed(make: Make, between: Between, rows: int) -> None:
    text = to_markdown(between(*wide(make, rows, "a_rather_long_name_of_a_step_in_some_layer_")))
    assert len(text) <= MOST_CHARACTERS < LIMIT_OF_GITHUB
    assert text.count("<details>") == text.count("</details>")
    assert text.count("\n| `a_rather") == min(rows, 20)
    assert ("more lines left out" in text) == (rows == 700)


@settings(max_examples=30, deadline=None)
@given(most=st.integers(1_500, 20_000))
def test_any_size_is_kept(make: Make, most: int) -> None:
    text = to_markdown(_diff(make), most=most)
    assert len(text) <= most
    assert text.count("<details>") == text.count("</details>")


def _diff(make: Make) -> Diff:
    return compare(*wide(make, 200), "base", "head")


HOSTILE = [
    "@octocat",
    "#123",
    "[a](http://b)",
    "![x](y)",
    "<img src=x>",
    "`a`",
    "**b**",
    "https://x.y",
    "www.x.y",
    "a|b",
    "<!-- -->",
    "\n# h",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_becomes_a_link_an_image_a_mention_or_a_heading(make: Make, between: Between, name: str) -> None:
    base, head = wide(make, 2, name)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(to_markdown(between(base, head)))
    inner = [t for token in tokens for t in (token, *(token.children or ()))]
    assert not {t.type for t in inner} & {"link_open", "image", "heading_open"}
    assert {t.content.strip() for t in inner if t.type == "html_inline"} == set()
    words = "".join(t.content for t in inner if t.type == "text")
    assert not re.search(r"@octocat|#123|https?://|www\.", words)
    assert "0" in "".join(t.content for t in inner if t.type == "code_inline")


@given(text=st.text(max_size=600))
def test_a_sentence_stays_one_line_of_bounded_length(text: str) -> None:
    assert len(escape(text)) <= 6 * 400 + 10
    assert len(escape(text).splitlines()) <= 1


def test_arrows_and_names_stay_readable() -> None:
    assert escape("mlp_up: k 1024 -> 2048 (+2.0 %)") == "mlp_up: k 1024 -> 2048 (+2.0 %)"
