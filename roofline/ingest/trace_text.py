"""The events of a trace as pieces of JSON text: a walk over the outer structure that holds megabytes at a time.

A trace is a list of events, or an object that holds one under ``traceEvents`` between keys of metadata, which are passed over
unread but for the devices' properties. Events are handed on in pieces of a megabyte. Where a piece may end is guessed from
how events meet (``}, {``) and proved by decoding it: a list of whole values decodes, and anything else does not, since a
prefix of JSON is only complete at its own depth and outside of texts. Where guesses fail, brackets are counted instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from json import JSONDecodeError, loads
from typing import Any

import numpy as np

from roofline.errors import InputError, Problem

PIECE = 2**20
"""Bytes of events decoded at a time."""
LARGEST_EVENT = 16 * 2**20
"""Bytes of one event, or of one text outside the events."""
DEEPEST = 64
"""Brackets inside one another within an event, as in the project's other files."""
GUESSES = 3
"""Places tried as the end of a piece before brackets are counted."""
NEAR_END = 1 << 16
NEWLINE = 10
PROPERTIES_BYTES = 2**20
"""Most bytes kept of the devices' properties."""

_SPACE = re.compile(rb"[ \t\r\n]*")
_TEXT = re.compile(rb'"[^"\\]*(?:\\[\s\S][^"\\]*)*"')
_TOKEN = re.compile(rb'"[^"\\]*(?:\\[\s\S][^"\\]*)*"|["{}\[\]]')
_MEETING = re.compile(rb"\}(?=\s*,\s*\{)")
_BARE = re.compile(rb"(?:-?(?:[0-9][0-9.eE+-]*|NaN|Infinity)|true|false|null)(?=[\s,}])")
_AFTER_BARE = re.compile(rb"[\s,}\]\[{\"]")
LONGEST_BARE = 512
"""Bytes of a number outside the events."""


class NotATrace(Exception):
    """The text is not JSON, or JSON of another shape, at ``at`` bytes of the present buffer."""

    def __init__(self, message: str, at: int = 0) -> None:
        super().__init__(message)
        self.at = at


class Ended(Exception):
    """The text ends before the trace does."""


Decode = Callable[[bytes], list[Any]]


@dataclass
class TraceText:
    """Walks chunks of text and hands on decoded events.

    ``devices`` are the properties of the devices, as they stand in the file. ``decode`` takes the text of a list.
    """

    chunks: Iterator[bytes]
    name: str
    decode: Decode
    devices: Any = None
    events: int = 0
    _buffer: bytes = b""
    _at: int = 0
    _lines: int = 0
    _column: int = 0

    def batches(self) -> Iterator[list[Any]]:
        """Lists of decoded events.

        Raises:
            InputError: the text is not a trace, with the place.
            Ended: the text ends early; all events before were handed on.
        """
        try:
            yield from self._root()
        except NotATrace as err:
            raise self._located(str(err), err.at) from None

    # ---------------------------------------------------------------- outer structure
    def _root(self) -> Iterator[list[Any]]:
        if self._peek_or_none() is None:
            raise NotATrace("the file is empty; a trace is a JSON list of events, or an object with 'traceEvents'")
        if self._buffer.startswith(b"\xef\xbb\xbf", self._at):
            self._at += 3
        opening = self._peek()
        if opening == b"[":
            self._at += 1
            yield from self._list()
        elif opening == b"{":
            self._at += 1
            yield from self._object()
        else:
            raise NotATrace("not a trace: expected '[' or '{', since a trace is a JSON list of events or an object with 'traceEvents'")
        if self._peek_or_none() is not None:
            raise NotATrace("text after the end of the trace; is it two files in one?")

    def _object(self) -> Iterator[list[Any]]:
        found = False
        if self._peek() == b"}":
            self._at += 1
        else:
            while True:
                key = self._key()
                if key == b'"traceEvents"':
                    found = True
                    if self._peek() != b"[":
                        raise NotATrace("'traceEvents' is not a list")
                    self._at += 1
                    yield from self._list()
                else:
                    self._pass_value(keep=key == b'"deviceProperties"')
                if self._one_of(b",}") == b"}":
                    break
        if not found:
            raise NotATrace("not a trace: there is no 'traceEvents' in it")

    def _key(self) -> bytes:
        if self._peek() != b'"':
            raise NotATrace("expected a key in double quotes")
        key = self._string()
        if self._one_of(b":") != b":":
            raise NotATrace("expected ':'")
        return key

    def _string(self) -> bytes:
        """A text with its quotes; long ones, as environment dumps are, may span chunks."""
        while not (found := _TEXT.match(self._buffer, self._at)):
            self._longer()
        self._at = found.end()
        return found.group()

    def _pass_value(self, *, keep: bool) -> None:
        """Pass over a value of any size without keeping it, or keep it where it is small."""
        opening = self._peek()
        if opening not in (b"{", b"["):
            if opening == b'"':
                self._string()
            else:
                self._bare()
            return
        kept: list[bytes] = []
        depth = 0
        while True:
            start = self._at
            depth, end = self._brackets(depth)
            if keep and sum(map(len, kept)) < PROPERTIES_BYTES:
                kept.append(self._buffer[start:end])
            self._at = end
            if depth == 0:
                break
            self._longer()
        if keep:
            try:
                self.devices = loads(b"".join(kept))
            except (ValueError, RecursionError):
                self.devices = None

    def _bare(self) -> None:
        """A number or a word, with what ends it, since it may go on in the next chunk."""
        while not (found := _BARE.match(self._buffer, self._at)):
            if len(self._buffer) - self._at > LONGEST_BARE or _AFTER_BARE.search(self._buffer, self._at):
                raise NotATrace("expected a value")
            self._more()
        self._at = found.end()

    def _brackets(self, depth: int) -> tuple[int, int]:
        """Depth and place after the tokens that are whole in the buffer, or where the value that is being passed ends."""
        level = depth
        for level, token in self._depths(depth):
            if token.group() == b'"':
                return level, token.start()
            if level == 0:
                return 0, token.end()
        return level, len(self._buffer)

    def _depths(self, depth: int) -> Iterator[tuple[int, re.Match[bytes]]]:
        """Each bracket outside of texts with the depth behind it; last the quote of a text that does not end in the buffer."""
        for token in _TOKEN.finditer(self._buffer, self._at):
            word = token.group()
            if word in b"{[":
                depth += 1
                if depth > DEEPEST:
                    raise NotATrace(f"more than {DEEPEST} brackets inside one another", token.start())
            elif word in b"}]":
                depth -= 1
            elif word != b'"':
                continue
            yield depth, token
            if word == b'"':
                return

    # ---------------------------------------------------------------- events
    def _list(self) -> Iterator[list[Any]]:
        if self._peek() == b"]":
            self._at += 1
            return
        while True:
            self._fill()
            piece = self._guessed()
            if piece is None:
                piece, closed = self._counted()
                if piece:
                    yield piece
                if closed:
                    return
                if not piece:
                    self._longer()
                    continue
            else:
                yield piece
            if self._one_of(b",]") == b"]":
                return
            self._peek()

    def _fill(self) -> None:
        """So many bytes that a piece of events is likely among them."""
        while len(self._buffer) - self._at < PIECE:
            try:
                self._more()
            except Ended:
                return

    def _longer(self) -> None:
        """More bytes, since one event is longer than what is here."""
        if len(self._buffer) - self._at > LARGEST_EVENT:
            raise NotATrace(f"an event or a text of more than {LARGEST_EVENT} bytes")
        self._more()

    def _guessed(self) -> list[Any] | None:
        """The events up to one of the last places where two seem to meet."""
        start = max(self._at, len(self._buffer) - NEAR_END)
        places = [m.end() for m in _MEETING.finditer(self._buffer, start)]
        for end in reversed(places[-GUESSES:]):
            try:
                found = self.decode(b"[" + self._buffer[self._at : end] + b"]")
            except (ValueError, RecursionError):
                continue
            self._took(found, end)
            return found
        return None

    def _counted(self) -> tuple[list[Any], bool]:
        """The whole events in the buffer by counting brackets, and whether the list ends behind them."""
        end, closed = self._at, False
        for depth, token in self._depths(0):
            if depth < 0:
                if token.group() == b"}":
                    raise NotATrace("'}' closes nothing", token.start())
                end, closed = token.start(), True
                break
            if depth == 0 and token.group() != b'"':
                end = token.end()
        text = self._buffer[self._at : end]
        if not text.strip():
            if closed:
                raise NotATrace("a comma before ']'")
            return [], False
        found = self._decoded(text)
        self._took(found, end)
        if closed:
            self._one_of(b"]")
        return found, closed

    def _decoded(self, text: bytes) -> list[Any]:
        try:
            return self.decode(b"[" + text + b"]")
        except RecursionError:
            raise NotATrace(f"more than {DEEPEST} brackets inside one another") from None
        except ValueError as err:
            message, offset = _place(text)
            raise NotATrace(message, self._at + offset) from err

    def _took(self, found: list[Any], end: int) -> None:
        self.events += len(found)
        self._at = end

    # ---------------------------------------------------------------- the buffer
    def _more(self) -> None:
        """Another chunk behind what is left of the buffer."""
        passed = self._buffer[: self._at]
        lines = int(np.count_nonzero(np.frombuffer(passed, dtype="u1") == NEWLINE))  # three times as fast as bytes.count
        self._lines += lines
        self._column = len(passed) - passed.rfind(b"\n") - 1 if lines else self._column + len(passed)
        chunk = next(self.chunks, None)
        while chunk == b"":
            chunk = next(self.chunks, None)
        self._buffer, self._at = self._buffer[self._at :] + (chunk or b""), 0
        if chunk is None:
            raise Ended

    def _peek_or_none(self) -> bytes | None:
        """The next byte that is no space; None at the end of the text."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._buffer):
                return self._buffer[self._at : self._at + 1]
            try:
                self._more()
            except Ended:
                return None

    def _peek(self) -> bytes:
        found = self._peek_or_none()
        if found is None:
            raise Ended
        return found

    def _one_of(self, wanted: bytes) -> bytes:
        found = self._peek()
        if found not in wanted:
            raise NotATrace("expected " + " or ".join(f"'{chr(c)}'" for c in wanted))
        self._at += 1
        return found

    def _located(self, message: str, at: int) -> InputError:
        """The error with its line and column. The line itself is not shown: it may hold anything, as a dumped environment."""
        before = self._buffer[: max(at, self._at)]
        lines = before.count(b"\n")
        column = len(before) - before.rfind(b"\n") - 1 if lines else self._column + len(before)
        return InputError([Problem(self.name, self._lines + lines + 1, column + 1, message)])


def _place(text: bytes) -> tuple[str, int]:
    """What json says of a text that is no list of events, and where."""
    try:
        found = loads(f"[{text.decode('utf-8', 'replace')}]", parse_constant=_no_number)
    except JSONDecodeError as said:
        return f"not JSON: {said.msg}", said.pos - 1
    except ValueError as said:
        return f"not JSON: {said}", 0
    if any(not isinstance(e, dict) for e in found):
        return "an event is not an object", 0
    return "an event has fields of an unexpected sort", 0


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number in JSON")
