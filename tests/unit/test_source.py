"""Located reading of YAML and JSON: places, refusals and limits."""

from __future__ import annotations

import contextlib
import json
import re
import time
import tracemalloc

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import InputError, Problem
from roofline.spec import tree
from roofline.spec.source import ListNode, MapNode, Mark, Node, Scalar, Source, parse


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test with libyaml and with PyYAML's own parser."""
    if not hasattr(yaml, request.param):
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(tree, "LOADER", getattr(yaml, request.param))
    return str(request.param)


def root(text: str, path: str = "w.yaml") -> Node:
    return parse(Source(path, text))


def mapping(text: str, path: str = "w.yaml") -> MapNode:
    node = root(text, path)
    assert isinstance(node, MapNode)
    return node


def problems(text: str, path: str = "w.yaml") -> tuple[Problem, ...]:
    with pytest.raises(InputError) as caught:
        root(text, path)
    return caught.value.problems


def outcome(source: Source) -> tuple[Problem, ...]:
    """The problems of a text that may be fine; any other exception is a failure."""
    try:
        parse(source)
    except InputError as error:
        assert error.problems, "an error without a problem"  # noqa: PT017  (there may be no error at all)
        return error.problems
    return ()


def plain(node: Node) -> object:
    """The tree without places, to compare with a literal."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    assert isinstance(node, MapNode)
    return {name: plain(entry.value) for name, entry in node.entries.items()}


# ---- nodes and places ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("loader")
def test_scalars_stay_text_and_know_their_place() -> None:
    node = mapping("# first\nm: 010\nsteps:\n  - {op: gemm, on: yes}\n  - 'quoted'\n")
    assert plain(node) == {"m": "010", "steps": [{"op": "gemm", "on": "yes"}, "quoted"]}
    assert node.entries["m"].value.mark == Mark(2, 4)
    steps = node.entries["steps"].value
    assert isinstance(steps, ListNode)
    assert [i.mark for i in steps.items] == [Mark(4, 5), Mark(5, 5)]
    inner = steps.items[0]
    assert isinstance(inner, MapNode)
    assert inner.entries["on"].key.mark == Mark(4, 16)


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(("text", "quoted"), [("x", False), ("'x'", True), ('"x"', True), ("|\n  x", True), (">\n  x", True)])
def test_quotes_and_block_text_are_told_from_plain(text: str, quoted: bool) -> None:
    value = mapping(f"a: {text}").entries["a"].value
    assert isinstance(value, Scalar)
    assert value.quoted is quoted
    assert value.text.strip() == "x"


@pytest.mark.usefixtures("loader")
def test_columns_count_characters_and_lines_count_as_editors_do() -> None:
    node = mapping("\u00e4\u00f6: {\U0001f600: x}\nb: 'p\u2028q'\nc: 1\n")
    assert node.entries["\u00e4\u00f6"].value.mark == Mark(1, 5)
    assert node.entries["c"].key.mark == Mark(3, 1)


def test_a_problem_shows_its_line() -> None:
    value = mapping("m: 1\nk: oops # why\n").entries["k"].value
    assert value.problem("expected a number") == Problem("w.yaml", 2, 4, "expected a number", "k: oops # why")


def test_lines_outside_the_text_are_empty() -> None:
    source = Source("w.yaml", "a\nb\n")
    assert [source.line(n) for n in (-1, 0, 1, 2, 3, 4)] == ["", "", "a", "b", "", ""]
    assert source.problem(Mark(1, 1), "x").source_line == "a"


@pytest.mark.usefixtures("loader")
def test_aliases_below_the_limit_repeat_their_node() -> None:
    assert plain(root("a: &n [1, 2]\nb: *n\nc: *n\n")) == {"a": ["1", "2"], "b": ["1", "2"], "c": ["1", "2"]}


@pytest.mark.usefixtures("loader")
def test_json_with_tabs_and_a_late_colon_keeps_its_places() -> None:
    text = '{\n\t"a":\t1,\n\t"b\\tc"\n\t:\t[true,\tnull]\n}\n'
    node = mapping(text, "c.json")
    assert plain(node) == {"a": "1", "b\tc": ["true", "null"]}
    assert node.entries["a"].value.mark == Mark(2, 7)
    assert node.entries["b\tc"].value.mark == Mark(4, 4)


@pytest.mark.usefixtures("loader")
def test_json_escapes() -> None:
    assert plain(root(r'{"a": "\ud83d\ude00\/\u00e9\n"}')) == {"a": "\U0001f600/\u00e9\n"}


@pytest.mark.usefixtures("loader")
def test_half_a_surrogate_pair_is_refused() -> None:
    assert problems(r'{"a": "\ud83d"}')[0].line == 1


# ---- refusals ------------------------------------------------------------------------------------------------------

REFUSED = [
    ("", 1, 1, "nothing is written"),
    ("# only a comment\n", 1, 1, "nothing is written"),
    ("---\n", 1, 1, "nothing is written"),
    ("a: 1\nb:\n  <<: {x: 1}\n", 3, 3, "merge keys"),
    ("a: !!python/object:os.system x", 1, 4, "remove '!!python/object:os.system'"),
    ("a: !!int 3", 1, 4, "remove '!!int'"),
    ("a: !x 3", 1, 4, "remove '!x'"),
    ("a: !<tag:evil> 3", 1, 4, "tags are not allowed"),
    ("a: ! 3", 1, 4, "tags are not allowed"),
    ("!!map {a: 1}", 1, 1, "tags are not allowed"),
    ("a: !x!y z", 1, 4, "tags ('!...') are not allowed"),
    ("a: 1\n---\nb: 2\n", 2, 1, "second document"),
    ("? [a]\n: 1\n", 1, 3, "a key must be plain text"),
    ("a: {{ x }}\n", 1, 5, "a key must be plain text"),
    ("'': 1\n", 1, 1, "a key is missing"),
    ("a: &x 1\n*x : 2\n", 2, 1, "an alias cannot be a key"),
    ("a: &x 1\nb: &x 2\n", 2, 4, "already names what is on line 1"),
    ("a: *gone\n", 1, 4, "'*gone' repeats nothing"),
    ("&a [*a]\n", 1, 5, "would never end"),
    ("a: &a\n  b: {c: *a}\n", 2, 10, "would never end"),
    ("a: b: c\n", 1, 5, "a second ':' cannot stand here"),
    ("a:\n\t- b\n", 2, 1, "use spaces"),
    ("a: @x\n", 1, 4, "begins with '@' must be quoted"),
    ("a: `x`\n", 1, 4, "begins with '`' must be quoted"),
    ("a: **\n", 1, 4, "begins with '*' or '&' must be quoted"),
    ("a: 'x\nb: 1\n", 1, 4, "quote here is never closed"),
    ('a: "x\n---\n', 1, 4, "quote here is not closed"),
    ("a: [1, 2\n\n", 1, 4, "'[' here is never closed"),
    ("a: [1, 2\nb: 3\n", 2, 2, "after the '[' of line 1"),
    ('{"a": 1\n "b": 2}\n', 2, 5, "after the '{' of line 1"),
    ("a: 1\n- b\n", 2, 1, "check the indentation"),
    ("- a\nb: c\n", 2, 1, "check the indentation"),
    ("a: - b\n", 1, 4, "a list item cannot start here"),
    ("[1, 2]]\n", 1, 7, "yet more follows"),
    ("}", 1, 1, "a value is missing"),
    ('a: "\\uZZ"\n', 1, 7, "hexadecimal digits"),
    ("a: |x\n", 1, 5, "starts on the next line"),
    ("%YAML 3.0\n---\na: 1\n", 1, 1, "only YAML 1.1 and 1.2"),
    ("a: \x1b[31m\n", 1, 4, "is not allowed"),
    ("a: '\x7f'\n", 1, 5, "is not allowed"),
    ("a: \ud800\n", 1, 4, "is not allowed"),
]


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(("text", "line", "column", "fragment"), REFUSED)
def test_refuses_at_the_place(text: str, line: int, column: int, fragment: str) -> None:
    first = problems(text)[0]
    assert (first.line, first.column) == (line, column)
    assert fragment in first.message
    assert not re.search(r"scann|pars|token|scalar|mapping|sequence|block|flow|collection", first.message), "jargon"


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("path", ["w.yaml", "w.json"])
def test_every_duplicate_key_is_named_with_both_lines(path: str) -> None:
    text = '{"a": 1,\n "b": {"x": 1,\n "x": 2},\n "a": 3,\n "a": 4}\n'
    found = [(p.line, p.message) for p in problems(text, path)]
    assert found == [
        (3, "key 'x' stands twice, on line 2 and on line 3; keep one"),
        (4, "key 'a' stands twice, on line 1 and on line 4; keep one"),
        (5, "key 'a' stands twice, on line 1 and on line 5; keep one"),
    ]


@pytest.mark.usefixtures("loader")
def test_problems_of_all_kinds_come_together_with_the_syntax_error() -> None:
    found = problems("a: 1\na: 2\nb: !x 3\n<<: {}\nc: *gone\nd: [1\n")
    assert [p.line for p in found] == [2, 3, 4, 5, 6]


def test_the_first_hundred_problems_are_enough() -> None:
    assert len(problems("a: 1\n" * 1000)) == tree.MAX_PROBLEMS
    assert len(problems("\x01" * 1000)) == tree.MAX_PROBLEMS


# ---- limits --------------------------------------------------------------------------------------------------------


def laughs(levels: int, width: int) -> str:
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * width) + "]")
    return "\n".join(lines)


BOMBS = {
    "a billion laughs": laughs(10, 10),
    "within the number of aliases": laughs(7, 9),
    "doubling": laughs(31, 2),
    "doubling maps": "k0: &k0 {x: 1}\n" + "".join(f"k{i}: &k{i} {{p: *k{i - 1}, q: *k{i - 1}}}\n" for i in range(1, 30)),
    "many aliases": "a: &a x\nb: [" + "*a, " * 65 + "]",
    "one large node, often": "a: &a [" + "x, " * 2000 + "]\nb: [" + "*a, " * 60 + "]",
    "itself": "a: &a [*a, *a, *a]",
    "deep through aliases": "".join(f"a{i}: &a{i} " + "[" * 40 + (f"*a{i - 1}" if i else "x") + "]" * 40 + "\n" for i in range(30)),
}


def timed(source: Source) -> float:
    """Seconds until a source is refused."""
    began = time.perf_counter()
    with pytest.raises(InputError):
        parse(source)
    return time.perf_counter() - began


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_fast_and_small(name: str, loader: str) -> None:
    source = Source("bomb.yaml", BOMBS[name])
    # The best of three: test machines are shared. PyYAML's own parser is slow on small texts too.
    assert min(timed(source) for _ in range(3)) < (0.1 if loader == "CSafeLoader" else 1)
    tracemalloc.start()
    try:
        timed(source)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize("text", ["[" * 100_000, "a: " + "{a: " * 5000, "- " * 100_000, "? " * 1000, "[" * 70 + "]" * 70])
def test_deep_input_is_refused(text: str) -> None:
    assert "deep" in problems(text)[-1].message


def test_depth_up_to_the_limit_is_read() -> None:
    depth = tree.MAX_DEPTH
    root("[" * depth + "x" + "]" * depth)
    assert "64 levels" in problems("[" * (depth + 1) + "x" + "]" * (depth + 1))[0].message
    root("".join(" " * i + f"k{i}:\n" for i in range(depth)))


def test_too_many_nodes_are_refused() -> None:
    assert "200,000" in problems("[" + "a," * 200_001 + "]")[0].message


def test_aliases_up_to_the_limit_are_read() -> None:
    root("a: &a x\nb: [" + "*a, " * tree.MAX_ALIASES + "]")
    assert "more than 64 aliases" in problems("a: &a x\nb: [" + "*a, " * 65 + "]")[0].message


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    "text",
    ["#" * 10**5, '"' * 10**5, '{"' + '\\"' * 10**5 + "\t", "{" + "\n :" * 10**4, "{" + "\n" * 10**5, "'" * 10**5],
)
def test_reading_time_grows_with_size_only(text: str) -> None:
    began = time.perf_counter()
    with contextlib.suppress(InputError):
        root(text)
    assert time.perf_counter() - began < 3


@given(
    st.text(alphabet="ab:-?[]{}'\"&*!|>#%@`,\\ \n\t0\u00e9\ufeff\x85\u2028", max_size=60),
    st.sampled_from(["w.yaml", "w.json"]),
)
@settings(max_examples=400)
def test_any_text_is_read_or_refused_at_a_place(text: str, path: str) -> None:
    source = Source(path, text)
    for loader in (yaml.SafeLoader, tree.LOADER):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tree, "LOADER", loader)
            for problem in outcome(source):
                assert 1 <= problem.line <= text.count("\n") + 1
                assert 1 <= problem.column <= len(problem.source_line) + 2


# JSON leaves DEL as it is, and YAML refuses it.
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x7f"), min_size=1, max_size=8)


@given(
    st.recursive(
        words | st.just(""),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
        max_leaves=12,
    )
)
@settings(max_examples=200)
def test_json_reads_as_python_reads_it(value: object) -> None:
    value = [value]
    assert plain(root(json.dumps(value, indent="\t"), "x.json")) == value
