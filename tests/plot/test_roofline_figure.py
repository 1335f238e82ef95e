"""The roofline as SVG: valid XML, marks in their places, labels on nothing, the same bytes, names inert."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.errors import UsageError, visible
from roofline.report.model import Report
from roofline.report.plot.roofline import LONGEST, radius, roofline
from roofline.report.plot.svg import Drawing, clean, text_width
from roofline.report.plot.theme import HUES, INK, PAPER, shape
from tests.plot.box import TENSOR, estimate, measured, report, row

SVG = "{http://www.w3.org/2000/svg}"
WORK = st.tuples(st.floats(1e3, 1e17), st.floats(1e3, 1e13), st.floats(1, 40), st.booleans(), st.text(max_size=30))
ANY_NAME = st.text(alphabet=st.characters(codec=None), max_size=40)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """A report of any steps, some of them estimated and measured."""
    rows = []
    for i, (flop, moved, slower, both, name) in enumerate(draw(st.lists(WORK, min_size=1, max_size=14))):
        step = row(f"{name}{i}", flop, moved)
        assert step.bound is not None
        time = step.bound.time_s * slower
        rows.append(row(f"{name}{i}", flop, moved, estimate=estimate(time) if both else None, measured=measured(time * 1.1)))
    return report(*rows)


def placed(root: ET.Element) -> list[tuple[set[str], float, float]]:
    """Marks with their classes and places."""
    found = []
    for e in root.iter(f"{SVG}path"):
        title = e.find(f"{SVG}title")
        if title is not None:
            x, y = map(float, re.findall(r"-?[\d.]+", e.get("transform", "")))
            found.append((set(e.get("class", "").split()), x, y))
    return found


def test_marks_lie_where_their_values_are() -> None:
    """Bounds at 10 and at 1000 FLOP/B under ridges of 100: a decade under the peak, and on it; each decade is equally wide."""
    root = ET.fromstring(roofline(report(row("low", 1e12, 1e11), row("high", 1e12, 1e9))).svg())
    found = placed(root)
    marks = {next(c for c in classes if c.startswith("l-")): (x, y) for classes, x, y in found}
    flat = next(e for e in root.iter(f"{SVG}line") if e.get("data-roof") == "tensor")
    rising = next(e for e in root.iter(f"{SVG}line") if e.get("data-roof") == "hbm")
    peak = float(flat.get("y1", 0))
    ridge = float(rising.get("x2", 0))
    assert marks["l-tensor"][1] == pytest.approx(peak, abs=0.15)
    assert marks["l-tensor"][0] - ridge == pytest.approx(ridge - marks["l-hbm"][0], abs=0.3)
    slope = (float(rising.get("y1", 0)) - peak) / (ridge - float(rising.get("x1", 0)))
    assert (marks["l-hbm"][1] - peak) / (ridge - marks["l-hbm"][0]) == pytest.approx(slope, rel=0.01), "it stands on the roof"


def test_area_of_a_mark_grows_with_its_share() -> None:
    assert radius(0) == radius(None) < radius(0.25) < radius(1)
    assert radius(0.25) - radius(0) == pytest.approx((radius(1) - radius(0)) / 2)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(reports(), st.sampled_from([360.0, 400.0, 640.0, 1200.0]))
def test_no_label_lies_on_another_or_on_a_mark_or_off_the_page(found: Report, width: float) -> None:
    page = roofline(found, width=width)
    for left, top, right, bottom, said in page.boxes:
        assert min(left, top) >= 0, said
        assert right <= page.width + 0.1, said
        assert bottom <= page.height, said
    for a, b in combinations(page.boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a[4], b[4])
    for _, x, y in placed(ET.fromstring(page.svg())):
        assert not [b for b in page.boxes if b[0] < x < b[2] and b[1] < y < b[3]]


@settings(max_examples=60, deadline=None)
@given(st.lists(ANY_NAME, min_size=1, max_size=4, unique=True))
def test_names_are_shown_and_never_obeyed(names: list[str]) -> None:
    found = report(*(row(name, 1e12 * (i + 1), 1e10) for i, name in enumerate(names)), workload=names[0])
    text = roofline(found).svg()
    root = ET.fromstring(text)
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {
        "svg",
        "title",
        "desc",
        "style",
        "rect",
        "g",
        "line",
        "text",
        "path",
        "clipPath",
    }
    said = [t.text or "" for t in root.iter(f"{SVG}title")]
    for name in names:
        assert any(t.startswith(visible(name).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")) for t in said[1:])
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert visible(text.replace("\n", "")) == text.replace("\n", ""), "no bidirectional or control character is left"


def test_hostile_names_by_hand() -> None:
    assert clean('<script>"&\x00\u202e') == "&lt;script&gt;&quot;&amp;\\x00\\u202e"


def test_equal_reports_give_equal_bytes() -> None:
    made = [roofline(report(*(row(f"s{i}", 10.0 ** (9 + i), 1e9) for i in range(6)))).svg() for _ in range(2)]
    assert made[0] == made[1]


def test_it_loads_nothing_and_has_words_for_those_who_do_not_see_it() -> None:
    text = roofline(report(row("a", 1e12, 1e10, measured=measured(1.0)), row("copy", 0, 1e9))).svg()
    root = ET.fromstring(text)
    assert set(re.findall(r"url\(([^)]*)\)", text)) == {"#area"}
    assert re.findall(r"https?://[^\"<]*", text) == ["http://www.w3.org/2000/svg"]
    assert " style=" not in text
    assert root.get("role") == "img"
    about = (root.find(f"{SVG}desc") or ET.Element("x")).text or root.findtext(f"{SVG}desc") or ""
    for part in ("HBM 1.00 TB/s", "tensor bf16 100 TFLOP/s", "no roof for l2: nobody says", "a, measured:", "not drawn: copy (no FLOP)"):
        assert part in about
    style = root.findtext(f"{SVG}style") or ""
    used = {c for e in root.iter() for c in e.get("class", "").split()}
    assert used <= set(re.findall(r"\.([a-z0-9-]+)", style)) | {"gx", "gy", "tx", "ty", "name", "roofs", "marks"}


def test_shape_and_colour_both_tell_the_limiter() -> None:
    assert len({shape(limit, 5) for limit in HUES}) == len(HUES)
    assert len(set(HUES.values())) == len(HUES)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("which", [0, 1])
def test_colours_can_be_read_on_their_page(which: int) -> None:
    """Contrast of WCAG 2: 4.5 for text; names of roofs have the colour of their roof."""
    paper = _luminance(PAPER[which])
    for name, colour in [("ink", INK[which]), *((n, hues[which]) for n, hues in HUES.items())]:
        own = _luminance(colour)
        assert (max(own, paper) + 0.05) / (min(own, paper) + 0.05) >= 4.5, name


def test_themes() -> None:
    found = report(row("a", 1e12, 1e10))
    auto, dark = roofline(found).svg(), roofline(found, theme="dark").svg()
    assert "prefers-color-scheme:dark" in auto
    assert ':root[data-theme="dark"]' in auto
    assert "prefers-color-scheme" not in dark
    assert 'data-theme="dark"' in dark
    assert PAPER[1] in dark
    assert PAPER[0] not in dark


def test_a_hundred_rows_are_small_and_their_labels_are_short() -> None:
    rows = [row(f"layer {i} with a long name that goes on", 10.0 ** (9 + i / 20), 1e9, measured=measured(1e-3)) for i in range(100)]
    page = roofline(report(*rows))
    assert len(page.svg()) < 120_000
    assert max(text_width(b[4], 14) for b in page.boxes) < 640
    assert max(len(b[4]) for b in page.boxes if b[4].startswith("layer")) <= LONGEST + 4
    assert any("labels had no room" in line for line in page.about)


def test_what_changed_is_drawn_where_it_stood() -> None:
    base = report(row("a", 1e12, 1e11, measured=measured(0.4)), row("b", 1e12, 1e6, measured=measured(0.1)))
    head = report(row("a", 1e12, 5e9, measured=measured(0.2)), row("b", 1e12, 1e6, measured=measured(0.1)))
    marks = placed(ET.fromstring(roofline(head, base).svg()))
    before = [(x, y) for classes, x, y in marks if "base" in classes]
    after = next((x, y) for classes, x, y in marks if {"k-measured", "l-tensor"} <= classes and "base" not in classes)
    assert len(before) == 1, "b stands where it stood"
    assert before[0][0] < after[0], "fewer bytes: a higher intensity"
    assert before[0][1] > after[1]


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(UsageError, match="no FLOP"):
        roofline(report(row("copy", 0, 1e9)))
    with pytest.raises(UsageError, match="the report has no rows"):
        roofline(report())
    with pytest.raises(UsageError, match="no device"):
        roofline(report(row("a", 1, 1), hardware=None))


@pytest.mark.parametrize("size", [1e-100, 1e-30, 1e100, 1e200])
def test_any_number_that_a_report_may_hold_has_a_place(size: float) -> None:
    text = roofline(report(row("a", size, 1e5), row("b", 1e9, size if size > 1 else 1.0), row("c", TENSOR, 1e9))).svg()
    assert "nan" not in text
    assert "inf" not in text.replace("infin", "")
    ET.fromstring(text)


def test_a_drawing_is_one_page_of_its_size() -> None:
    page = Drawing("t", 50, width=70)
    page.bar(1, 2, 3, 4, "a")
    root = ET.fromstring(page.svg())
    assert root.get("viewBox") == "0 0 70 50"
    assert [(e.get("x"), e.get("width")) for e in root.iter(f"{SVG}rect")] == [("1.0", "3.0")]
