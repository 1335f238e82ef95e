"""The figures of docs/algorithms are those that the accountant and the measured table give now, and can be read by everybody."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from importlib.util import module_from_spec, spec_from_file_location
from itertools import combinations
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "algorithms"
NAMES = ("matmul-ladder", "attention", "softmax-and-norms", "fft-convolution", "monarch")
SVG = "{http://www.w3.org/2000/svg}"


def _figures() -> ModuleType:
    spec = spec_from_file_location("figures", ROOT / "benchmarks" / "figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


figures = _figures()
DRAWN = {name: draw() for name, draw in figures.ALL.items()}


def test_there_is_a_figure_for_each_page_and_a_page_for_each_figure() -> None:
    assert set(DRAWN) == set(NAMES) == {p.stem for p in PAGES.glob("*.md")} == {p.stem for p in (PAGES / "figures").iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_figure_is_current(name: str) -> None:
    committed = (PAGES / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    assert committed == DRAWN[name].svg(), "write it again: PYTHONPATH=. python benchmarks/figures.py"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_its_figure_with_words_for_it(name: str) -> None:
    shown = re.findall(r"!\[([^]]+)\]\((figures/[^)]+)\)", (PAGES / f"{name}.md").read_text(encoding="utf-8"))
    assert [place for _, place in shown] == [f"figures/{name}.svg"]
    assert len(shown[0][0].split()) > 5


@pytest.mark.parametrize("name", NAMES)
def test_texts_lie_within_the_page_and_not_on_each_other(name: str) -> None:
    page = DRAWN[name]
    for left, top, right, bottom, said in page.boxes:
        assert left >= 0, said
        assert top >= 0, said
        assert right <= figures.WIDTH, said
        assert bottom <= page.height, said
    for a, b in combinations(page.boxes, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (a[4], b[4])


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_says_in_words_what_it_shows_and_loads_nothing(name: str) -> None:
    root = ET.fromstring((PAGES / "figures" / f"{name}.svg").read_text(encoding="utf-8"))
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "t d"
    title, about = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert about is not None
    assert title.text
    assert len((about.text or "").split()) > 20
    style = root.find(f"{SVG}style")
    assert style is not None
    assert "prefers-color-scheme:dark" in (style.text or "")
    assert {e.tag.removeprefix(SVG) for e in root.iter()} <= {"svg", "title", "desc", "style", "text", "line", "rect", "circle", "path"}
    used = {c for e in root.iter() for c in e.get("class", "").split()}
    assert used <= set(re.findall(r"\.([a-z]+)[{ ]", style.text or "")), "a class without a style"


def test_a_mark_lies_where_its_value_is() -> None:
    """A tenth of the rate lies as far to the left as the decades of the axis are apart."""
    ladder = DRAWN["matmul-ladder"].svg()
    decades = [float(x) for x in re.findall(r'<line x1="([\d.]+)" [^>]*class="grid"', ladder)]
    rungs = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"[^>]*class="a"', ladder)]
    rates = [2 * 4096**3 / float(figures.measured("ladder", "4096^3 bf16", kernel)["us"]) / 1e6 for kernel in figures.RUNGS]
    for x, rate in zip(rungs, rates, strict=True):
        between = (x - decades[0]) / (decades[1] - decades[0])
        assert 10**between == pytest.approx(rate, rel=0.02)


def test_of_several_rows_the_fastest_is_taken() -> None:
    found = figures.measured("fft_conv", "16384 64x768 gated", "fft_conv_triton")
    assert found["fields"] == "order=3 real_packing=True"
    assert figures.measured("fft_conv", "16384 64x768 gated", "fft_conv_triton", "order=2")["fields"] == "order=2 real_packing=True"
