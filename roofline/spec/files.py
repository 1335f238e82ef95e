"""Reading a file, or standard input, into a ``Source``: regular files of bounded size in UTF-8, and nothing else."""

from __future__ import annotations

import os
import stat
import sys
from typing import IO, Any

from roofline.errors import InputError, Problem, nearest
from roofline.spec.located import Source

MAX_BYTES = 4 * 2**20
"""Largest file read unless the caller allows more; the largest known workload is a hundredth of it."""

MAX_LISTED = 10_000
"""Most directory entries looked at for a name near a misspelt one."""

STDIN_NAME = "<stdin>"


def read_source(path: str | os.PathLike[str], *, stdin: IO[Any] | None = None, max_bytes: int = MAX_BYTES) -> Source:
    """The text of a file, or of ``stdin`` (text or binary; ``sys.stdin`` by default) where the path is ``-``.

    A byte-order mark is dropped and CRLF becomes LF, which leaves line numbers as they are.

    Raises:
        InputError: no such file, not a regular file, larger than ``max_bytes``, or not UTF-8.
    """
    name = os.fspath(path)
    if name == "-":
        name, data = STDIN_NAME, _read_stdin(sys.stdin if stdin is None else stdin, max_bytes + 1)
    else:
        data = _read_file(name, max_bytes + 1)
    if len(data) > max_bytes:
        raise _refusal(name, f"larger than the limit of {max_bytes} bytes; give a smaller file")
    return Source(name, _decode(name, data).replace("\r\n", "\n"))


def _refusal(path: str, message: str) -> InputError:
    return InputError([Problem(path, 0, 0, message)])


_kept: tuple[IO[Any], bytes] | None = None
"""The stream read last and what it gave: a pipe can be read once, and some commands need their workload twice."""


def _read_stdin(stream: IO[Any] | None, most: int) -> bytes:
    global _kept
    if stream is None:
        raise _refusal(STDIN_NAME, "standard input is closed; give a file name")
    if _kept is None or _kept[0] is not stream:
        _kept = stream, _drained(stream, most)
    return _kept[1]


def _drained(stream: IO[Any], most: int) -> bytes:
    try:
        data = getattr(stream, "buffer", stream).read(most)
    except (OSError, ValueError) as error:  # ValueError: the stream was closed
        raise _refusal(STDIN_NAME, f"cannot be read ({error}); give a file name") from None
    return data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)


def _read_file(path: str, most: int) -> bytes:
    try:
        _require_regular(path, os.stat(path).st_mode)
        # Not blocking: should a FIFO have taken the file's place meanwhile, opening it must not wait for a writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(handle, "rb") as file:
            _require_regular(path, os.fstat(handle).st_mode)
            return file.read(most)
    except (FileNotFoundError, NotADirectoryError):
        raise _refusal(path, _missing(path)) from None
    except OSError as error:
        raise _refusal(path, f"cannot be read: {error.strerror or error}") from None
    except ValueError:  # a NUL or a lone surrogate in the name
        raise _refusal(path, "is not a possible file name") from None


def _require_regular(path: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise _refusal(path, "is a directory; give a file in it")
    if not stat.S_ISREG(mode):
        raise _refusal(path, "is not a regular file; to read from a pipe, give '-' and feed it to standard input")


def _missing(path: str) -> str:
    """A sentence for a missing file that names the nearest ones beside it."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or ".") as entries:
            beside = [entry.name for entry, _ in zip(entries, range(MAX_LISTED), strict=False)]
    except OSError:
        return f"no such file: there is no directory '{folder}'"
    close = [os.path.join(folder, n) for n in nearest(name, sorted(beside))]
    hint = "; did you mean " + " or ".join(f"'{c}'" for c in close) + "?" if close else ""
    return f"no such file{hint}"


# ---- encoding ------------------------------------------------------------------------------------------------------

_BOM = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def _decode(path: str, data: bytes) -> str:
    if data.startswith(_UTF16_MARKS):
        raise InputError([_bad_byte(path, data, 0, "UTF-16 begins at byte 0; save the file as UTF-8")])
    nul = data.find(0)
    if nul >= 0:
        message = f"a NUL byte at byte {nul}: this is binary or UTF-16; save it as UTF-8 text"
        raise InputError([_bad_byte(path, data, nul, message)])
    start = len(_BOM) if data.startswith(_BOM) else 0
    try:
        return data[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        at = start + error.start
        message = f"0x{data[at]:02x} at byte {at} is not UTF-8; save the file as UTF-8"
        raise InputError([_bad_byte(path, data, at, message)]) from None


def _bad_byte(path: str, data: bytes, at: int, message: str) -> Problem:
    """A problem at a byte that cannot be read, on the line that it stands on; columns count characters."""
    before = data[:at].removeprefix(_BOM).decode("utf-8", "replace")
    rest = data[at:].partition(b"\n")[0][:200].decode("utf-8", "replace").rstrip("\r")
    line = before.rpartition("\n")[2]
    return Problem(path, before.count("\n") + 1, len(line) + 1, message, line + rest)
