"""Reading files and standard input: what is a source, and what is refused before it is parsed."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError, Problem
from roofline.spec.source import Source, parse, read_source


def refusal(path: str | Path, max_bytes: int = 1000) -> Problem:
    with pytest.raises(InputError) as caught:
        read_source(path, max_bytes=max_bytes)
    (problem,) = caught.value.problems
    return problem


def test_reads_a_file_without_its_mark_and_with_lf(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: \xc3\xa9\r\n")
    source = read_source(path)
    assert source == Source(str(path), "a: 1\nb: \u00e9\n")
    assert source.line(2) == "b: \u00e9"


@pytest.mark.parametrize("stdin", [io.StringIO("a: 1\r\n"), io.BytesIO(b"a: 1\r\n"), io.TextIOWrapper(io.BytesIO(b"a: 1\r\n"))])
def test_a_dash_reads_standard_input(stdin: io.StringIO) -> None:
    assert read_source("-", stdin=stdin) == Source("<stdin>", "a: 1\n")


def test_standard_input_that_is_closed_or_too_long_or_not_text(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream, fragment in (
        (io.StringIO("x" * 11), "limit of 10 bytes"),
        (io.StringIO("\udce9"), "not UTF-8"),
        (io.BytesIO(b"a\0"), "NUL"),
    ):
        with pytest.raises(InputError, match=fragment):
            read_source("-", stdin=stream, max_bytes=10)
    closed = io.StringIO("x")
    closed.close()
    with pytest.raises(InputError, match="cannot be read"):
        read_source("-", stdin=closed)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="closed"):
        read_source("-")


def test_a_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "attention.yaml").write_text("a: 1")
    assert str(tmp_path / "attention.yaml") in refusal(tmp_path / "atention.yaml").message
    assert "did you mean" not in refusal(tmp_path / "zzz").message
    assert "no directory" in refusal(tmp_path / "gone" / "x.yaml").message
    assert "no such file" in refusal(tmp_path / "attention.yaml" / "x").message
    assert "no such file" in refusal("").message


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert "'-'" in refusal(fifo).message
    assert "'-'" in refusal("/dev/zero").message
    assert "directory" in refusal(tmp_path).message
    assert "file name" in refusal("a\0b").message
    assert refusal("x" * 5000).message.startswith("cannot be read")


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text("a: 1")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "w.yaml")
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    assert read_source(tmp_path / "link.yaml").text == "a: 1"
    assert refusal(tmp_path / "loop.yaml").message.startswith("cannot be read")


@pytest.mark.parametrize("refusing", ["stat", "open"])
def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusing: str) -> None:
    """The refusal is simulated: the superuser, as whom tests run in containers, may read everything."""
    path = tmp_path / "w.yaml"
    path.write_text("a: 1")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(f"roofline.spec.files.os.{refusing}", refuse)
        with pytest.raises(InputError) as caught:
            read_source(path)
    assert [(p.path, p.message) for p in caught.value.problems] == [(str(path), "cannot be read: Permission denied")]


def test_a_fifo_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between looking at a file and opening it."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    regular = os.stat(__file__)
    with monkeypatch.context() as patched:
        patched.setattr("roofline.spec.files.os.stat", lambda _: regular)
        with pytest.raises(InputError, match="not a regular file"):
            read_source(path)


def test_a_large_file_names_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(b"x" * 101)
    assert "limit of 100 bytes" in refusal(path, max_bytes=100).message
    assert len(read_source(path, max_bytes=101).text) == 101


@pytest.mark.parametrize(
    ("data", "line", "column", "fragment"),
    [
        ("a: 1".encode("utf-16"), 1, 1, "UTF-16 begins at byte 0"),
        ("a: 1".encode("utf-16-le"), 1, 2, "a NUL byte at byte 1"),
        (b"a: 1\nb: \xe9t\xe9\n", 2, 4, "0xe9 at byte 8 is not UTF-8"),
        (b"\xef\xbb\xbfa: \xff\n", 1, 4, "0xff at byte 6 is not UTF-8"),
        (b"a: 1\r\n\xc3\xa9\0", 2, 2, "a NUL byte at byte 8"),
        (b"\xed\xa0\x80", 1, 1, "at byte 0 is not UTF-8"),
    ],
)
def test_other_encodings_are_refused_at_the_byte(tmp_path: Path, data: bytes, line: int, column: int, fragment: str) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(data)
    problem = refusal(path)
    assert (problem.line, problem.column) == (line, column)
    assert fragment in problem.message


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(InputError):
        parse(read_source("-", stdin=io.BytesIO(data)))
