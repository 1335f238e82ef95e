"""Ways in which files go wrong: by hand, by an editor, by a merge, by a disk, or by someone who means harm."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hypothesis import strategies as st

NASTY = (
    "", " ", "0", "-1", "-0", "1.5", "1e999", "-1e999", "1e-400", "9" * 30, "9" * 5000, "9223372036854775807", "9223372036854775808",
    "nan", ".nan", "inf", "-.inf", "null", "~", "true", "on", "010", "0x10", "1:30", "1_000", "2001-01-01", "{}", "[]", "[[[", "}}", "'",
    '"', "&a", "*a", "&a [*a]", "<<: *a", "!!python/object/apply:os.system [id]", "!x", "? ", "- ", "|", ">", "%YAML 1.1", "---", "...",
    "#", ":", ": ", ",", "\t", "\r", "\n", "\0", "\x1b[31m", "\u202e", "\ufeff", "\u2028", "\u00e9", "\U0001f600", "\\u0000", "\\ud800",
    "a.b.c", "__import__('os')", "().__class__", "1/0", "2**2**2**2", "9**64", "x" * 300, "(" * 60, "[" * 100,
    "1 TB/s", "1 Gb/s", "1e300 TB/s",
    "1e-300 s", "-5 ms", "5 parsecs", "../../etc/passwd", "/dev/zero", "total", "gemm", "custom", "id", "extends: h100-pcie", "x-y: 1",
)  # fmt: skip
"""Words put in the place of others."""

VALUES = (
    "0", "1", "-1", "2", "7", "64", "1e-300", "1e300", "1e999", "0.5", "4611686018427387904", "9223372036854775807", "1" + "0" * 39,
    "1" + "0" * 250, "null", "true", "false", '"x"', "[]", "{}", "[1]", "bf16", "fp8", "fp4", "flash", "naive", "backward", "forward",
    "seq", "tokens", "nope", "d_model / 7", "batch * seq ** 3", "1 B", "1e30 TB/s", "1e-300 s", "1 FLOP", "1 MHz", "1e20 GHz", "3 GiB",
)  # fmt: skip
"""Words put in the place of a value: the text stays well formed, so that more than the parser is tried."""

_VALUE = re.compile(r"(?<=: )[^\s,{}\[\]#][^,{}\[\]\n#]*|(?<=\[)[^,{}\[\]\n]+(?=[,\]])")
_TOKEN = re.compile(r"[A-Za-z0-9_./+*-]+|\s+|.", re.DOTALL)
_SHARE = st.floats(0, 1, exclude_max=True)

Mutation = Callable[[str], str]


def _at(share: float, things: Sequence[object]) -> int:
    return int(share * len(things))


def _replace_token(where: float, word: str) -> Mutation:
    def change(text: str) -> str:
        tokens = _TOKEN.findall(text) or [""]
        tokens[_at(where, tokens)] = word
        return "".join(tokens)

    return change


def _replace_value(where: float, word: str) -> Mutation:
    def change(text: str) -> str:
        found = list(_VALUE.finditer(text))
        if not found:
            return text
        match = found[_at(where, found)]
        return text[: match.start()] + word + text[match.end() :]

    return change


def _insert(where: float, word: str) -> Mutation:
    return lambda text: text[: _at(where, text)] + word + text[_at(where, text) :]


def _swap_tokens(one: float, other: float) -> Mutation:
    def change(text: str) -> str:
        tokens = _TOKEN.findall(text) or [""]
        i, j = _at(one, tokens), _at(other, tokens)
        tokens[i], tokens[j] = tokens[j], tokens[i]
        return "".join(tokens)

    return change


def _delete(where: float, length: int) -> Mutation:
    return lambda text: text[: _at(where, text)] + text[_at(where, text) + length :]


def _move_line(source: float, target: float, keep: bool) -> Mutation:
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True) or [""]
        line = lines[_at(source, lines)] if keep else lines.pop(_at(source, lines))
        lines.insert(_at(target, lines) if lines else 0, line)
        return "".join(lines)

    return change


def _indent(where: float, by: str) -> Mutation:
    def change(text: str) -> str:
        lines = text.splitlines(keepends=True) or [""]
        lines[_at(where, lines)] = by + lines[_at(where, lines)]
        return "".join(lines)

    return change


_WORD = st.one_of(st.sampled_from(NASTY), st.text(max_size=8), st.integers().map(str), st.floats().map(repr))
_PROPER = st.builds(_replace_value, _SHARE, st.one_of(st.sampled_from(VALUES), st.integers(0).map(str), st.floats(0).map(repr)))
_MUTATION = st.one_of(
    _PROPER,
    st.builds(_replace_token, _SHARE, _WORD),
    st.builds(_insert, _SHARE, _WORD),
    st.builds(_swap_tokens, _SHARE, _SHARE),
    st.builds(_delete, _SHARE, st.integers(1, 200)),
    st.builds(_move_line, _SHARE, _SHARE, st.booleans()),
    st.builds(_indent, _SHARE, st.sampled_from([" ", "  ", "\t", "- "])),
)


def _flip(data: bytes, flips: list[tuple[float, int]]) -> bytes:
    out = bytearray(data)
    for where, mask in flips:
        if out:
            out[_at(where, out)] ^= mask
    return bytes(out)


@st.composite
def mutated(draw: st.DrawFn, bases: Sequence[str]) -> bytes:
    """One of the texts with one to three mutations, and now and then flipped bits."""
    text = draw(st.sampled_from(bases))
    well_formed = draw(st.booleans())
    for change in draw(st.lists(_PROPER if well_formed else _MUTATION, min_size=1, max_size=3)):
        text = change(text)
    flips = draw(st.just([]) if well_formed else st.one_of(st.just([]), st.lists(st.tuples(_SHARE, st.integers(1, 255)), max_size=2)))
    return _flip(text.encode("utf-8", "surrogatepass"), flips)
