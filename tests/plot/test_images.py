"""What docs/plots.md shows is what the code draws now; screenshots are small, and each has words."""

from __future__ import annotations

import re
from pathlib import Path

from tests.plot.images import IMAGES, ROOT, figures


def test_the_committed_figures_are_current(tmp_path: Path) -> None:
    for name, text in figures(tmp_path).items():
        committed = (IMAGES / f"{name}.svg").read_text(encoding="utf-8")
        assert committed == text, f"{name}: write it again with python -m tests.plot.images"


def test_images_are_small_and_each_has_words() -> None:
    shown = dict(re.findall(r"!\[([^]]+)\]\(images/([^)]+)\)", (ROOT / "docs" / "plots.md").read_text(encoding="utf-8")))
    mine = {"roofline.svg", "roofline-change.svg", "waterfall.svg", "sweep.svg", *(p.name for p in IMAGES.glob("report-*.png"))}
    assert set(shown.values()) == mine
    assert all(len(said.split()) >= 4 for said in shown)
    assert all((IMAGES / name).stat().st_size < 150_000 for name in mine)
