"""The documentation as a site: every page can be reached, every link leads somewhere, and the generator has nothing to say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md"))
OUTSIDE = (ROOT / "README.md", ROOT / "README.zh.md", ROOT / "CONTRIBUTING.md")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def nav() -> list[str]:
    """The pages of the navigation, in order. No TOML reader: the standard library has none in Python 3.10."""
    text = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    return re.findall(r'"([\w/.-]+\.md)"', text[text.index("nav = [") : text.index("[project.theme]")])


def links(path: Path) -> Iterator[str]:
    """What a page links to, code left out."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    yield from (m.group(1) for m in LINK.finditer(CODE.sub(lambda m: "`" + "x" * (len(m.group()) - 2) + "`", text)))


def slug(heading: str) -> str:
    """The anchor of a heading, as Markdown's table of contents makes it."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    ascii_ = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_).strip().lower())


def anchors(path: Path) -> set[str]:
    """Those of a page; equal headings are numbered."""
    found: dict[str, int] = {}
    for heading in HEADING.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
        name = slug(heading)
        found[name] = found.get(name, -1) + 1
    return {name if not i else f"{name}_{i}" for name, count in found.items() for i in range(count + 1)}


def problems(path: Path, within: Path) -> list[str]:
    """Links of a page that lead nowhere, or out of the folder that is published."""
    found = []
    for link in links(path):
        if re.match(r"[a-z]+:", link):
            if not link.startswith("https://"):
                found.append(f"{link}: not https")
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.is_relative_to(within):
            found.append(f"{link}: leaves {within.name}/, which is what a site holds")
        elif not target.exists():
            found.append(f"{link}: no such file")
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            found.append(f"{link}: no such heading")
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    """A page that nobody can reach is not read; one that does not exist is a broken link."""
    listed = nav()
    assert sorted(listed) == [p.relative_to(DOCS).as_posix() for p in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(DOCS).as_posix())
def test_links_of_the_page_lead_somewhere(page: Path) -> None:
    assert problems(page, DOCS) == []


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda p: p.name)
def test_links_of_the_repository_s_pages_lead_somewhere(page: Path) -> None:
    assert problems(page, ROOT) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(DOCS).as_posix())
def test_a_page_has_one_title(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1


def test_broken_links_are_found(tmp_path: Path) -> None:
    """The check of the checks."""
    (tmp_path / "b.md").write_text("# B\n\n## Two words: here\n\n## Two words: here\n", encoding="utf-8")
    page = tmp_path / "a.md"
    page.write_text(
        "# A\n[1](b.md) [2](c.md) [3](b.md#two-words-here_1) [4](b.md#three) [5](../x.md) [6](http://x.y) [7](#a) `[8](d.md)`\n"
        "```\n[9](e.md)\n```\n![10](f.svg)\n",
        encoding="utf-8",
    )
    found = [p.partition(":")[0] for p in problems(page, tmp_path)]
    assert found == ["c.md", "b.md#three", "../x.md", "http", "f.svg"]


@pytest.mark.skipif(find_spec("zensical") is None, reason="the generator is not installed (pip install '.[docs]')")
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    """In strict mode, from a copy, since it writes beside its configuration."""
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    for page in nav():
        html = (tmp_path / "site" / page).with_suffix(".html").read_text(encoding="utf-8")
        assert "<h1" in html
        assert not re.search(r'(src|href)="(https?:)?//[^"]*(font|cdn|googleapis)', html), page


def test_the_chinese_readme_has_the_structure_of_the_english_one() -> None:
    """The same sections, commands, outputs, links and figures."""
    english, chinese = (path.read_text(encoding="utf-8") for path in OUTSIDE[:2])
    blocks, others = ([m.group() for m in FENCE.finditer(text)] for text in (english, chinese))
    assert blocks == others
    plain, foreign = (FENCE.sub("", text) for text in (english, chinese))
    for pattern in (r"^#+(?= )", r"^\| *[^|\n]*\| *`roofline [^`]*`", r"^\|(?=.*\|$)"):
        assert len(re.findall(pattern, plain, re.MULTILINE)) == len(re.findall(pattern, foreign, re.MULTILINE)), pattern
    commands, same = (re.findall(r"`(roofline [^`]*|--[^`]*|pip [^`]*)`", " ".join(text.split())) for text in (plain, foreign))
    assert sorted(commands) == sorted(same)
    skipped = {"README.md", "README.zh.md"}
    assert sorted(set(links(OUTSIDE[0])) - skipped) == sorted(set(links(OUTSIDE[1])) - skipped)
    assert sorted(re.findall(r"\d[\d,.]*(?= %|,\d| \|)", plain)) == sorted(re.findall(r"\d[\d,.]*(?= %|,\d| \|)", foreign))
