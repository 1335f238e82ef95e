"""The bytes of a trace, a megabyte at a time: a file or standard input, gzip or not, within limits.

A small gzip file can hold terabytes, so that the ratio of a stream is capped once it has given more than any small trace
holds. Only regular files are read.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import IO, Any

from roofline.errors import InputError, Problem

CHUNK = 2**20
"""Bytes handed on at a time."""
MOST_RATIO = 200
"""Largest ratio of a gzip stream; real traces reach 10 to 30."""
RATIO_FROM = 64 * 2**20
"""Bytes a stream may give before its ratio is looked at."""
MOST_BYTES = 64 * 2**30
"""Most bytes of JSON read from one trace."""
GZIP = b"\x1f\x8b"


class TraceBytes:
    """Chunks of JSON text, the hash of the file as it lies on disk, and how a damaged stream ended.

    ``damage`` is None until the stream was found cut off or corrupt; what was read before stays valid.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "<stdin>" if path == "-" else path
        self.damage: str | None = None
        self._hash = hashlib.sha256()
        self._given = 0

    def sha256(self) -> str:
        """Of the file's bytes; whole once the chunks are used up."""
        return self._hash.hexdigest()

    def chunks(self) -> Iterator[bytes]:
        """The text, unpacked.

        Raises:
            InputError: the file cannot be read, is larger than the limits, or unpacks to far more than any trace.
        """
        with _opened(self.path, self.name) as file:
            raw = self._raw(file)
            first = next(raw, b"")
            packed = first.startswith(GZIP)
            waiting: list[bytes] = []
            size = 0
            for chunk in self._unpacked(first, raw) if packed else _after(first, raw):
                waiting.append(chunk)
                size += len(chunk)
                self._given += len(chunk)
                if self._given > MOST_BYTES:
                    raise refusal(self.name, f"holds more than the limit of {MOST_BYTES} bytes; record fewer steps")
                if size >= CHUNK:  # joined here, since a stream of tiny pieces would be copied for each of them
                    yield b"".join(waiting)
                    waiting, size = [], 0
            yield b"".join(waiting)

    def _raw(self, file: IO[bytes]) -> Iterator[bytes]:
        while True:
            try:
                chunk = file.read(CHUNK)
            except (OSError, ValueError) as error:
                raise refusal(self.name, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
            if not chunk:
                return
            self._hash.update(chunk)
            yield chunk

    def _unpacked(self, first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
        """Gzip members one after the other; a stream that ends early or is corrupt ends here, with the reason kept."""
        taken = given = 0
        member: Any = None
        for chunk in _after(first, rest):
            taken += len(chunk)
            while chunk:
                member = member or zlib.decompressobj(31)
                try:
                    text = member.decompress(chunk, CHUNK)
                except zlib.error:
                    self.damage = "the gzip stream is corrupt"
                    return
                given += len(text)
                if given > RATIO_FROM and given > MOST_RATIO * taken:
                    raise refusal(self.name, f"unpacks to more than {MOST_RATIO} times its size, as no trace does; refused")
                yield text
                chunk = member.unused_data.lstrip(b"\0") if member.eof else member.unconsumed_tail
                member = None if member.eof else member
        if member is not None:
            yield member.flush()
            self.damage = None if member.eof else "the gzip stream ends early"


def _after(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def refusal(path: str, message: str) -> InputError:
    """An error about the whole file."""
    return InputError([Problem(path, 0, 0, message)])


def _opened(path: str, name: str) -> AbstractContextManager[IO[bytes]]:
    """The file, closed at the end; standard input stays open."""
    if path == "-":
        if sys.stdin is None:
            raise refusal(name, "standard input is closed; give a file name")
        return nullcontext(sys.stdin.buffer)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise refusal(name, "is not a regular file; give the trace itself (.json or .json.gz)")
        return open(path, "rb")
    except FileNotFoundError:
        raise refusal(name, "no such file") from None
    except OSError as error:
        raise refusal(name, f"cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise refusal(name, "is not a possible file name") from None
