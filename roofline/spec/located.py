"""Text that remembers where it stands: a source, its nodes, and the place of each.

Nothing here has a type yet. A scalar is its text; what the text means is decided by whoever asks for it
(``scalars``), since YAML's own guesses (``on`` is true, ``010`` is 8) are not what people mean.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field

from roofline.errors import Problem
from roofline.records import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text; both count from 1, a tab is one column."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Source:
    """A text and the name it is known by in messages; lines end in LF."""

    path: str
    text: str
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Find where each line starts."""
        starts, at = [0], self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        object.__setattr__(self, "_starts", tuple(starts))

    def line(self, n: int) -> str:
        """The n-th line without its end; empty where there is none."""
        if not 1 <= n <= len(self._starts):
            return ""
        end = self._starts[n] - 1 if n < len(self._starts) else len(self.text)
        return self.text[self._starts[n - 1] : end].rstrip("\r")

    def mark(self, index: int) -> Mark:
        """The place of the character at that index; the end of the last line that says something, past the end."""
        if index >= len(self.text):
            index = len(self.text.rstrip())
        line = bisect_right(self._starts, index)
        return Mark(line, index - self._starts[line - 1] + 1)

    def problem(self, where: Node | Mark, message: str) -> Problem:
        """What is wrong at a place, with the line it stands on."""
        mark = where if isinstance(where, Mark) else where.mark
        return Problem(self.path, mark.line, mark.column, message, self.line(mark.line))


# Compared by identity: two nodes are the same when they stand at the same place, and a comparison by content would
# walk a whole tree.
@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A piece of a source: ``Scalar``, ``ListNode`` or ``MapNode``."""

    source: Source = field(repr=False)
    mark: Mark

    def problem(self, message: str) -> Problem:
        """What is wrong with this node."""
        return self.source.problem(self.mark, message)


@dataclass(frozen=True, slots=True, eq=False)
class Scalar(Node):
    """A piece of text. ``quoted`` is true for quotes and for block text, which are never a number or a bool."""

    text: str
    quoted: bool


@dataclass(frozen=True, slots=True, eq=False)
class ListNode(Node):
    """A list, in order."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One ``key: value`` of a map."""

    key: Scalar
    value: Node


@dataclass(frozen=True, slots=True, eq=False)
class MapNode(Node):
    """A map, in the order written; no key stands twice."""

    entries: dict[str, Entry]
