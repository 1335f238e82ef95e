"""The canonical layout of YAML files: spaces, blank lines and quantities, while comments, order and indentation stay as they are.

What is changed: trailing spaces, several blank lines in a row, line ends, a missing or repeated final newline; spaces around ``:``, ``,``,
``-`` and inside brackets; a space before a comment; ``80GB`` becomes ``80 GB``. The text is never written from the values, so that no
comment can be lost; it is read again, and a layout that would change a value is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import yaml

from roofline.errors import RooflineError
from roofline.spec.located import ListNode, MapNode, Node, Scalar, Source
from roofline.spec.tree import LOADER, parse
from roofline.units import Dimension, parse_quantity

NO_QUANTITIES = frozenset({"name", "product", "note", "source", "sources", "match", "id", "title", "description", "architecture", "label"})
"""Keys whose values are words, even where they look like a quantity."""

_OPENING = (yaml.FlowSequenceStartToken, yaml.FlowMappingStartToken)
_CLOSING = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken)
_BLOCK_STARTS = (yaml.BlockMappingStartToken, yaml.BlockSequenceStartToken)
_TIGHT = re.compile(r"([+]?[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?)([A-Za-z][A-Za-z/*0-9]*)")


def formatted(source: Source) -> str:
    """The text in its canonical layout; formatting it again changes nothing.

    Raises:
        InputError: the text cannot be read as YAML.
        RooflineError: the layout would have changed a value.
    """
    before = parse(source)
    tokens = _tokens(source.text)
    text = _with_edits(source.text, sorted(_edits(source.text, tokens)))
    text = _lines(text, _kept_lines(text))
    if not _same(before, parse(Source(source.path, text))):
        raise RooflineError(f"{source.path}: cannot be laid out without a change of its values; it was left as it is")
    return text


def _tokens(text: str) -> list[Any]:
    """Tokens that stand somewhere, and the starts of block collections, which have no width."""
    return [t for t in yaml.scan(text, Loader=LOADER) if t.end_mark.index > t.start_mark.index or isinstance(t, _BLOCK_STARTS)]


# --------------------------------------------------------------------------- spaces and quantities
def _edits(text: str, tokens: list[Any]) -> Iterator[tuple[int, int, str]]:
    """Pieces of the text to replace: from, to, by."""
    key = ""
    placed = [t for t in tokens if not isinstance(t, _BLOCK_STARTS)]
    opened = {t.start_mark.index for t in tokens if isinstance(t, _BLOCK_STARTS)}
    for one, other in pairwise(placed):
        start, end = one.end_mark.index, other.start_mark.index
        gap = text[start:end]
        if gap.strip(" ") == "" and text[start - 1 : start] != "\n":
            wanted = _gap(one, other, gap, end in opened)
            if wanted != gap:
                yield start, end, wanted
        if isinstance(one, yaml.ScalarToken) and isinstance(other, yaml.ValueToken):
            key = one.value
        elif isinstance(other, yaml.ScalarToken) and isinstance(
            one, (yaml.ValueToken, *_OPENING, yaml.FlowEntryToken, yaml.BlockEntryToken)
        ):
            yield from _quantity(text, other, key)


def _gap(one: Any, other: Any, gap: str, opens_block: bool) -> str:
    """The spaces between two tokens of one line."""
    if isinstance(one, _OPENING) or isinstance(other, (*_CLOSING, yaml.FlowEntryToken)):
        return ""
    if isinstance(other, yaml.ValueToken) and isinstance(one, yaml.ScalarToken):
        return ""
    if isinstance(one, (yaml.ValueToken, yaml.FlowEntryToken)):
        return " "
    # What follows a dash and opens a block sets its indentation: moving it would take it out of line with the lines below.
    if isinstance(one, yaml.BlockEntryToken) and not opens_block:
        return " "
    return gap


def _quantity(text: str, token: Any, key: str) -> Iterator[tuple[int, int, str]]:
    """``80GB`` with its space, where it is a quantity and stays the same one."""
    start, end = token.start_mark.index, token.end_mark.index
    found = _TIGHT.fullmatch(text[start:end]) if token.plain and key not in NO_QUANTITIES else None
    if found and _is_quantity(found[0]):
        yield start, end, f"{found[1]} {found[2]}"


def _is_quantity(text: str) -> bool:
    for dimension in Dimension:
        try:
            parse_quantity(text, dimension, allow_zero=True)
        except (RooflineError, ValueError):
            continue
        return True
    return False


def _with_edits(text: str, edits: list[tuple[int, int, str]]) -> str:
    parts, at = [], 0
    for start, end, wanted in edits:
        parts += [text[at:start], wanted]
        at = end
    return "".join([*parts, text[at:]])


# --------------------------------------------------------------------------- lines
def _kept_lines(text: str) -> set[int]:
    """Lines inside a text of several lines, counted from 0, whose spaces belong to it."""
    kept: set[int] = set()
    for token in yaml.scan(text, Loader=LOADER):
        if isinstance(token, yaml.ScalarToken) and token.end_mark.line > token.start_mark.line:
            kept.update(range(token.start_mark.line, token.end_mark.line + (0 if token.style in ("|", ">") else 1)))
    return kept


def _lines(text: str, kept: set[int]) -> str:
    found: list[str] = []
    for i, line in enumerate(text.split("\n")):
        if i in kept:
            found.append(line)
            continue
        bare = line.rstrip(" \t")
        if bare or (found and found[-1]):
            found.append(_comment(bare))
    while found and not found[-1]:
        found.pop()
    return "\n".join(found) + "\n"


def _comment(line: str) -> str:
    """Two spaces at least before a comment that follows something; more are an alignment of the writer."""
    found = re.fullmatch(r"((?:[^\"'#\s]|[^\"'\s]#|\s(?!#))*\S) (#.*)", line)
    return f"{found[1]}  {found[2]}" if found else line


def _same(one: Node, other: Node) -> bool:
    """Whether two trees say the same, quantities by their text without spaces."""
    if isinstance(one, Scalar) and isinstance(other, Scalar):
        return one.quoted == other.quoted and (one.text == other.text or one.text == other.text.replace(" ", ""))
    if isinstance(one, ListNode) and isinstance(other, ListNode):
        return len(one.items) == len(other.items) and all(map(_same, one.items, other.items))
    if isinstance(one, MapNode) and isinstance(other, MapNode):
        return list(one.entries) == list(other.entries) and all(_same(e.value, other.entries[k].value) for k, e in one.entries.items())
    return False
