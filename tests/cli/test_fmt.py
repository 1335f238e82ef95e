"""`roofline fmt`: one layout, no comment lost, no value changed, and a second time changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import RooflineError
from roofline.spec.find import shipped
from roofline.spec.layout import formatted
from roofline.spec.located import ListNode, MapNode, Node, Scalar, Source
from roofline.spec.tree import parse

from .conftest import Run

MESSY = """\ufeff# a comment at the top   \r
schema:   1\r
name:  "an  odd   name"   # keeps its spaces\r
\r
\r
\r
params: { batch: 8 ,seq: 1024,  d : 1024 }\t
steps:
  -   {id: qkv,op: gemm ,m: batch*seq, n: 3*d, k: d }
  - id: copy # what it moves
    op: copy
    read:  80GB
    write: 1.5GiB
notes: |
  kept   as
     it is

  here:   1
x-size: [ 1, 2 ,3 ]


"""
TIDY = """# a comment at the top
schema: 1
name: "an  odd   name"   # keeps its spaces

params: {batch: 8, seq: 1024, d: 1024}
steps:
  - {id: qkv, op: gemm, m: batch*seq, n: 3*d, k: d}
  - id: copy  # what it moves
    op: copy
    read: 80 GB
    write: 1.5 GiB
notes: |
  kept   as
     it is

  here:   1
x-size: [1, 2, 3]
"""


def laid_out(text: str) -> str:
    return formatted(Source("w.yaml", text.removeprefix("\ufeff").replace("\r\n", "\n")))


def test_a_messy_file_becomes_a_tidy_one() -> None:
    assert laid_out(MESSY) == TIDY
    assert laid_out(TIDY) == TIDY


def values(node: Node) -> object:
    if isinstance(node, Scalar):
        return node.text.replace(" ", "")
    return [values(n) for n in node.items] if isinstance(node, ListNode) else _entries(node)


def _entries(node: Node) -> object:
    assert isinstance(node, MapNode)
    return [(key, values(entry.value)) for key, entry in node.entries.items()]


SPACES = st.text(" ", max_size=3)
WORD = st.sampled_from(["batch", "8", "80GB", "3.5 GB/s", '"a: b"', "'x # y'", "m * n", "[1 ,2]", "{a:  1}", "true"])


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines = []
    for i in range(draw(st.integers(1, 6))):
        lines += [""] * draw(st.integers(0, 3))
        comment = draw(st.sampled_from(["", " # note", "   #x", " # 'quoted"]))
        lines.append(f"key{i}{draw(SPACES)}: {draw(SPACES)}{draw(WORD)}{comment}{draw(SPACES)}")
        if draw(st.booleans()):
            lines.append(f"list{i}:{draw(SPACES)}")
            lines += [f"  -{draw(SPACES)} {draw(WORD)}{draw(SPACES)}" for _ in range(draw(st.integers(1, 3)))]
            lines += [f"  - a:{draw(SPACES)} {draw(WORD)}", f"    b: {draw(SPACES)}{draw(WORD)}"]
    return "\n".join(lines) + "\n" * draw(st.integers(0, 3))


@settings(max_examples=200, deadline=None)
@given(text=documents())
def test_no_value_and_no_comment_is_lost_and_once_is_enough(text: str) -> None:
    once = laid_out(text)
    assert laid_out(once) == once
    assert values(parse(Source("w.yaml", once))) == values(parse(Source("w.yaml", text)))
    comments = re.findall(r"#\s*(\S+)", text)
    assert re.findall(r"#\s*(\S+)", once) == comments
    assert once.endswith("\n")
    assert not once.endswith("\n\n")
    assert not re.search(r"[ \t]\n|\n\n\n", once)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("read: 80GB\n", "read: 80 GB\n"),
        ("rate: 400Gb/s\n", "rate: 400 Gb/s\n"),
        ("name: 80GB\n", "name: 80GB\n"),
        ("note: 80GB\n", "note: 80GB\n"),
        ("model: llama-8b\n", "model: llama-8b\n"),
        ("read: '80GB'\n", "read: '80GB'\n"),
        ("a: 3d\n", "a: 3d\n"),
        ("a: 1e3\n", "a: 1e3\n"),
        ("steps:\n  -   op: copy\n      read: 1B\n", "steps:\n  -   op: copy\n      read: 1 B\n"),
    ],
)
def test_only_quantities_get_a_space_and_no_block_moves(text: str, wanted: str) -> None:
    assert laid_out(text) == wanted


@pytest.mark.parametrize("text", ["a: |\n  one  \n\n\n  two\nb: 1\n", 'a: "one\n\n\n  two"\nb: 1\n', "a: >\n  one\n\n\n  two\n"])
def test_the_lines_of_a_long_text_are_its_own(text: str) -> None:
    assert laid_out(text) == text


FILES = sorted(p for folder in ("workloads", "hardware_specs") for p in shipped(folder).rglob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_shipped_files_are_laid_out(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert formatted(Source(str(path), text)) == text


def test_a_layout_that_would_change_a_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a rule ever be wrong, the file stays as it is."""
    monkeypatch.setattr("roofline.spec.layout._edits", lambda text, tokens: [(3, 4, "9")])
    with pytest.raises(RooflineError, match="left as it is"):
        laid_out("a: 1\n")


# --------------------------------------------------------------------------- the command
def test_files_are_rewritten_and_named(run: Run, folder: Path) -> None:
    (folder / "messy.yaml").write_bytes(MESSY.encode())
    result = run("fmt", "messy.yaml", "w.yaml")
    assert (result.exit_code, result.stdout) == (0, "laid out: messy.yaml\n1 of 2 files laid out\n")
    assert (folder / "messy.yaml").read_bytes() == TIDY.encode()
    assert run("fmt", "messy.yaml").stdout == "0 of 1 files laid out\n"


def test_check_changes_nothing_and_fails(run: Run, folder: Path) -> None:
    (folder / "messy.yaml").write_bytes(MESSY.encode())
    result = run("fmt", "--check", "messy.yaml")
    assert (result.exit_code, result.stdout) == (1, "would change: messy.yaml\n1 of 1 files would change\n")
    assert (folder / "messy.yaml").read_bytes() == MESSY.encode()
    assert run("fmt", "--check", "w.yaml").exit_code == 0


def test_diff_shows_the_change(run: Run, folder: Path) -> None:
    (folder / "messy.yaml").write_text("a:  1\n", encoding="utf-8")
    result = run("fmt", "--diff", "messy.yaml")
    assert result.exit_code == 1
    assert "-a:  1\n+a: 1\n" in result.stdout
    assert (folder / "messy.yaml").read_text(encoding="utf-8") == "a:  1\n"


@pytest.mark.parametrize("text", ["a:  1\n", "b: 1\n"])
def test_standard_input_goes_to_standard_output(run: Run, text: str) -> None:
    assert run("fmt", "-", stdin=text).stdout == text.replace("  ", " ")


def test_crlf_alone_is_a_change(run: Run, folder: Path) -> None:
    (folder / "w2.yaml").write_bytes(b"a: 1\r\n")
    assert run("fmt", "--check", "w2.yaml").exit_code == 1
    run("fmt", "w2.yaml")
    assert (folder / "w2.yaml").read_bytes() == b"a: 1\n"


def test_what_cannot_be_read_is_an_error_and_no_file_is_touched(run: Run, folder: Path) -> None:
    (folder / "bad.yaml").write_text("a: [1\n", encoding="utf-8")
    (folder / "messy.yaml").write_text("a:  1\n", encoding="utf-8")
    result = run("fmt", "messy.yaml", "bad.yaml")
    assert result.exit_code == 2
    assert "bad.yaml:1:4: " in result.stderr
    assert (folder / "messy.yaml").read_text(encoding="utf-8") == "a:  1\n"
