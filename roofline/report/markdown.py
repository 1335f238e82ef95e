"""Reports as Markdown. Names are data: they stand in code spans, so that none becomes a link, an image or a heading."""

from __future__ import annotations

import re
from collections.abc import Sequence

from roofline.errors import visible
from roofline.report.columns import Column, columns
from roofline.report.model import Report
from roofline.report.sentences import closing
from roofline.report.text import title

LONGEST_NAME = 80


def code(text: str, longest: int = LONGEST_NAME) -> str:
    """The text in a code span that nothing in it can end, on one line, of at most ``longest`` characters.

    >>> code("a`b")
    '``a`b``'
    """
    flat = visible(" ".join(text.split()))[:longest].replace("|", "\\|")
    run = max((len(found) for found in re.findall("`+", flat)), default=0)
    fence = "`" * (run + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def table(found: Sequence[Column]) -> str:
    """A Markdown table; the first column is names."""
    heads = "| " + " | ".join(c.heading for c in found) + " |"
    rule = "|" + "|".join(" ---: " if c.right else " :--- " for c in found) + "|"
    lines = [
        "| " + " | ".join(code(c.cells[i]) if at == 0 else c.cells[i] for at, c in enumerate(found)) + " |"
        for i in range(len(found[0].cells))
    ]
    return "\n".join([heads, rule, *lines]) + "\n"


def to_markdown(report: Report) -> str:
    """The table and the sentences."""
    sentences = "\n".join(f"- {_plain(s, report)}" for s in closing(report))
    return f"### {code(title(report))}\n\n{table(columns(report))}\n{sentences}\n"


def _plain(sentence: str, report: Report) -> str:
    """Step names inside a sentence as code."""
    found = report.totals.headline
    for name in {found.step, found.next_step} - {None} if found else set():
        sentence = re.sub(rf"(?<![\w/-]){re.escape(str(name))}(?![\w/-])", lambda m: code(m.group()), sentence)
    return sentence
