"""YAML or JSON text to located nodes.

The tree is built from the parser's events with an explicit stack, never by recursion, and every limit is checked
while it grows: no input costs much more than its own size, and none ends in a RecursionError. The limits also bound
whoever walks the tree later, aliases expanded: depth is counted through aliases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import yaml

from roofline.errors import InputError, Problem, visible
from roofline.records import dataclass
from roofline.spec import syntax
from roofline.spec.located import Entry, ListNode, MapNode, Mark, Node, Scalar, Source

MAX_DEPTH = 64
MAX_NODES = 200_000
MAX_ALIASES = 64
MAX_ALIASED_NODES = 100_000
"""Most nodes that aliases may add by repetition; ten aliases of ten aliases... grow past it in 0.5 kB of text."""

MAX_PROBLEMS = 100
"""Problems after which reading stops: nobody repairs more at once."""

# The parser in C is five to seven times faster; a PyYAML built without libyaml lacks it.
LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(source: Source) -> Node:
    """The root node of a text, which must hold exactly one document.

    Refused, all problems at once: duplicate keys, merge keys, keys that are not plain text, tags, several documents,
    an empty document, control characters. Refused at once: a syntax error, or a limit of this module passed.

    Raises:
        InputError: the problems, each at its place.
    """
    problems = _forbidden_characters(source)
    if problems:
        raise InputError(problems)
    builder = _Builder(source)
    try:
        for event in _events(_readable(source)):
            builder.take(event)
    except _Stop:
        pass
    except yaml.MarkedYAMLError as error:
        index, message = syntax.explain(error, source.text)
        builder.complain(source.mark(index), message)
    except yaml.YAMLError:  # a character that the check above lets through and the parser does not
        builder.complain(Mark(1, 1), syntax.GENERAL)
    return builder.finish()


def _events(text: str) -> Iterator[yaml.Event]:
    loader = LOADER(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


# ---- characters ----------------------------------------------------------------------------------------------------

_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The closing quote may lack: a match that fails would be tried again at every quote after it.
_STRING_OR_SPACE = re.compile(r'"(?:[^"\\\n]|\\.)*"?|[ \t\r\n]+')
_BEFORE_COLON = re.compile(r"\n[ \t\r]*:")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATES = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


def _forbidden_characters(source: Source) -> list[Problem]:
    """Control characters and lone surrogates, which YAML does not take even in quotes."""
    found = []
    for match in _FORBIDDEN.finditer(source.text):
        message = f"the character {match[0]!a} is not allowed; in double quotes write it as an escape"
        found.append(source.problem(source.mark(match.start()), message))
        if len(found) == MAX_PROBLEMS:
            break
    return found


def _readable(source: Source) -> str:
    """The text as a YAML parser takes it, each character at its index, where JSON is not quite YAML.

    That is: tabs between tokens, a line end before a colon, and pairs of surrogate escapes.
    """
    text = source.text
    if not (source.path.endswith(".json") or text.lstrip()[:1] in ("{", "[")):
        return text
    if "\t" in text or _BEFORE_COLON.search(text):
        text = _STRING_OR_SPACE.sub(_yaml_space, text)
    # The one exception: two characters shorter a pair, so that later places are shown that much too far left.
    return _SURROGATES.sub(_one_escape, text) if "\\ud" in text or "\\uD" in text else text


def _yaml_space(match: re.Match[str]) -> str:
    if match[0][0] == '"':
        return match[0]
    if match.string[match.end() : match.end() + 1] == ":":
        return " " * len(match[0])
    return match[0].replace("\t", " ")


def _one_escape(match: re.Match[str]) -> str:
    high, low = int(match[1], 16), int(match[2], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08X}"


# ---- building ------------------------------------------------------------------------------------------------------


class _Stop(Exception):
    """Enough is known: the rest of the text is not read."""


@dataclass(slots=True)
class _Open:
    """A list or map that is being filled. ``nodes_before`` is the builder's count when it was opened."""

    mark: Mark
    anchor: str | None
    is_map: bool
    nodes_before: int
    height: int = 1
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    key: Scalar | None = None
    at_value: bool = False


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A finished node that has a name, with its levels and its nodes, aliases expanded."""

    node: Node
    height: int
    nodes: int


class _Builder:
    """Takes one event after another; holds what is open, what is named and what is wrong."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.root: Node | None = None
        self.documents = 0
        self.open: list[_Open] = []
        self.anchored: dict[str, _Anchored] = {}
        self.aliases = 0
        self.nodes = 0
        self.added = 0  # by aliases

    def finish(self) -> Node:
        """The root, or every problem met."""
        if not self.problems and (self.root is None or _is_empty(self.root)):
            self.complain(Mark(1, 1), "nothing is written here; expected 'key: value' lines")
        if self.problems or self.root is None:
            raise InputError(self.problems)
        return self.root

    def complain(self, where: Mark, message: str) -> None:
        """Note a problem."""
        self.problems.append(self.source.problem(where, message))

    def stop(self, where: Mark, message: str) -> _Stop:
        """Note a problem after which nothing more can be read."""
        self.complain(where, message)
        return _Stop()

    def take(self, event: yaml.Event) -> None:
        """Add what one event says to the tree."""
        if isinstance(event, yaml.ScalarEvent):
            self.take_scalar(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self.take_start(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.take_end()
        elif isinstance(event, yaml.AliasEvent):
            self.take_alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self.stop(self.mark(event), "a second document starts here; keep one in a file")
        if len(self.problems) >= MAX_PROBLEMS:
            raise _Stop

    def mark(self, event: yaml.Event) -> Mark:
        """Where an event starts. By index, since YAML counts more characters as line ends than editors do."""
        return self.source.mark(event.start_mark.index if event.start_mark else 0)

    def take_scalar(self, event: yaml.ScalarEvent) -> None:
        """A piece of text."""
        mark = self.begin(event)
        if not event.value.isascii() and _SURROGATE.search(event.value):  # PyYAML's own parser lets them through
            self.complain(mark, "half a surrogate pair stands for no character; write '\\U' and eight digits")
        scalar = Scalar(self.source, mark, event.value, bool(event.style))
        self.name(event.anchor, mark, scalar, 1, 1)
        self.put(scalar, 1)

    def take_start(self, event: yaml.CollectionStartEvent) -> None:
        """A list or map opens."""
        mark = self.begin(event)
        if len(self.open) >= MAX_DEPTH:
            raise self.stop(mark, f"nested more than {MAX_DEPTH} levels deep")
        is_map = isinstance(event, yaml.MappingStartEvent)
        self.open.append(_Open(mark, event.anchor, is_map, self.nodes + self.added - 1))

    def take_end(self) -> None:
        """The innermost list or map is complete."""
        done = self.open.pop()
        node: Node
        if done.is_map:
            node = MapNode(self.source, done.mark, done.entries)
        else:
            node = ListNode(self.source, done.mark, tuple(done.items))
        self.name(done.anchor, done.mark, node, done.height, self.nodes + self.added - done.nodes_before)
        self.put(node, done.height)

    def take_alias(self, event: yaml.AliasEvent) -> None:
        """A node that stands elsewhere is meant here too."""
        mark, name = self.mark(event), event.anchor or ""
        self.aliases += 1
        if self.aliases > MAX_ALIASES:
            raise self.stop(mark, f"more than {MAX_ALIASES} aliases ('*name'); write the values out")
        if any(o.anchor == name for o in self.open):
            raise self.stop(mark, f"'*{_short(name)}' stands inside what it repeats, which would never end")
        parent = self.open[-1] if self.open else None
        if parent and parent.is_map and not parent.at_value:
            self.complain(mark, "an alias cannot be a key; write the key out")
            parent.key, parent.at_value = None, True
        elif name in self.anchored:
            self.repeat(self.anchored[name], mark)
        else:
            self.complain(mark, f"'*{_short(name)}' repeats nothing: no such '&' name above; quote it if it is text")
            self.put(Scalar(self.source, mark, "", quoted=True), 1)

    def repeat(self, target: _Anchored, mark: Mark) -> None:
        """Put a finished node in a second place, as long as the tree stays within its limits."""
        self.added += target.nodes
        if self.added > MAX_ALIASED_NODES:
            raise self.stop(mark, f"aliases repeat more than {MAX_ALIASED_NODES:,} values and keys; write less")
        if len(self.open) + target.height > MAX_DEPTH:
            raise self.stop(mark, f"nested more than {MAX_DEPTH} levels deep through this alias")
        self.put(target.node, target.height)

    def begin(self, event: yaml.NodeEvent) -> Mark:
        """Count a node and refuse its tag."""
        mark = self.mark(event)
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise self.stop(mark, f"more than {MAX_NODES:,} values and keys; split the file")
        tag = getattr(event, "tag", None)
        if tag is not None:
            shown = _short(tag.replace("tag:yaml.org,2002:", "!!"))
            self.complain(mark, f"tags are not allowed; remove '{shown}', or quote the text")
        return mark

    def name(self, anchor: str | None, mark: Mark, node: Node, height: int, nodes: int) -> None:
        """Remember a finished node under its anchor."""
        if anchor is None:
            return
        if anchor in self.anchored:
            first = self.anchored[anchor].node.mark.line
            self.complain(mark, f"'&{_short(anchor)}' already names what is on line {first}; choose another name")
        self.anchored[anchor] = _Anchored(node, height, nodes)

    def put(self, node: Node, height: int) -> None:
        """Put a finished node where it belongs: the root, the next item, a key or its value."""
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        parent.height = max(parent.height, height + 1)
        if not parent.is_map:
            parent.items.append(node)
        elif parent.at_value:
            parent.at_value = False
            if parent.key is not None:
                parent.entries[parent.key.text] = Entry(parent.key, node)
        else:
            parent.at_value = True
            parent.key = self.checked_key(node, parent)

    def checked_key(self, node: Node, parent: _Open) -> Scalar | None:
        """The node as a key of that map; None, with the problem noted, where it cannot be one."""
        message = _why_no_key(node, parent.entries)
        if message is None and isinstance(node, Scalar):
            return node
        self.complain(node.mark, message or "")
        return None


def _why_no_key(node: Node, entries: dict[str, Entry]) -> str | None:
    if not isinstance(node, Scalar):
        return "a key must be plain text; quote it, or check for a stray '{', '[' or '?'"
    if node.text == "<<" and not node.quoted:
        return "merge keys ('<<') are not supported; write the entries out"
    if not node.text:
        return "a key is missing before the ':'"
    if node.text in entries:
        first, second = entries[node.text].key.mark.line, node.mark.line
        return f"key '{_short(node.text)}' stands twice, on line {first} and on line {second}; keep one"
    return None


def _is_empty(root: Node) -> bool:
    return isinstance(root, Scalar) and not root.text and not root.quoted


def _short(text: str) -> str:
    return visible(text if len(text) <= 40 else text[:40] + "...")
