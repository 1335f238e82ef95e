"""The corpus of bad files: every message at its line and column, with the line, a caret and a way out, and no result."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .bad_files import PROFILE, PROFILES, WORKLOADS
from .conftest import WORKLOAD, Run


def messages(stderr: str, name: str) -> list[str]:
    """What is said of the file, each ``line:column: text``; checks that each comes with its source line and a caret."""
    lines = stderr.splitlines()
    found = [i for i, line in enumerate(lines) if line.startswith(f"{name}:")]
    for i in found:
        assert lines[i + 1].startswith("    ")
        assert lines[i + 2].strip() == "^"
        assert lines[i + 2].index("^") <= len(lines[i + 1])
    assert len(lines) == 3 * len(found)
    return [lines[i].removeprefix(f"{name}:") for i in found]


def refused(run: Run, name: str, text: str, command: list[str]) -> list[str]:
    Path(name).write_text(text, encoding="utf-8")
    result = run(*command)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return messages(result.stderr, name)


@pytest.mark.parametrize(("old", "new", "expected"), WORKLOADS)
def test_a_bad_workload_is_refused_with_every_message_in_its_place(run: Run, old: str, new: str, expected: list[str]) -> None:
    assert old in WORKLOAD
    found = refused(run, "bad.yaml", WORKLOAD.replace(old, new, 1), ["analyze", "bad.yaml"])
    assert len(found) == len(expected)
    assert all(f.startswith(e) for f, e in zip(found, expected, strict=True)), found


@pytest.mark.parametrize(("old", "new", "expected"), PROFILES)
def test_a_bad_profile_is_refused_with_every_message_in_its_place(run: Run, old: str, new: str, expected: list[str]) -> None:
    assert old in PROFILE
    text = PROFILE.replace(old, new, 1)
    for command in (["hardware", "show", "bad.yaml"], ["analyze", "w.yaml", "-H", "bad.yaml"], ["validate", "bad.yaml"]):
        found = refused(run, "bad.yaml", text, command)
        assert len(found) == len(expected)
        assert all(f.startswith(e) for f, e in zip(found, expected, strict=True)), found


def test_the_right_files_are_taken(run: Run) -> None:
    """Else every test above could pass on a reader that takes nothing."""
    Path("toy.yaml").write_text(PROFILE, encoding="utf-8")
    assert run("analyze", "w.yaml", "-H", "toy.yaml").exit_code == 0
    assert run("validate", "w.yaml", "toy.yaml").exit_code == 0
    assert len(WORKLOADS) + len(PROFILES) >= 40


# ---- reports -------------------------------------------------------------------------------------------------------
def _set(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(report: Any) -> None:
        for key in path[:-1]:
            report = report[key]
        report[path[-1]] = to

    return change


REPORTS: list[tuple[Callable[[Any], None], str]] = [
    (_set("schema", to=99), "report schema 99 is newer than this tool reads"),
    (_set("schema", to="1"), "report schema '1' is not a version number"),
    (_set("schema", to=True), "report schema True is not a version number"),
    (_set("rows", to={}), "report.rows: expected an array, found an object"),
    (_set("rows", 0, "repeat", to="2"), "report.rows[0].repeat: expected an integer, found text"),
    (_set("rows", 0, "bound", "time_s", to=-1), "report.rows[0].bound.time_s: -1 is out of range"),
    (_set("rows", 1, "bytes", "hbm", to=1e300), "report.rows[1].bytes.hbm: 1e+300 is out of range"),
    (_set("totals", "bound", "time_s", to=1e-320), "report.totals.bound.time_s: 9.99989e-321 is out of range"),
    (_set("rows", 0, "id", to="attention"), "rows share an id: attention"),
    (_set("hardware", to={}), "report.hardware lacks 'name'"),
    (lambda r: r.pop("rows"), "this is not a roofline report"),
    (lambda r: r["rows"][0].pop("flop"), "report.rows[0] lacks 'flop'"),
    (lambda r: r.update(kind="comparison", reports=[r.pop("rows")]), "this is a comparison of several reports"),
]


@pytest.mark.parametrize(("change", "said"), REPORTS, ids=[s for _, s in REPORTS])
def test_a_bad_report_is_refused_by_diff(run: Run, folder: Path, change: Callable[[Any], None], said: str) -> None:
    report = json.loads((folder / "r.json").read_text())
    change(report)
    (folder / "bad.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    for words in (["diff", "bad.json", "r.json"], ["diff", "r.json", "bad.json"]):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr


TEXTS = {
    "": "bad.json",
    "NaN": "NaN is not a JSON number",
    '{"schema": 1, "rows": Infinity}': "Infinity is not a JSON number",
    '{"schema": 1e999}': "1e999 is too large for a number",
    '{"schema": ' + "9" * 5000 + "}": "a number of 5000 digits",
    "[" * 65 + "]" * 65: "bad.json:1:65: nested deeper than 64 levels",
    '{"a": 1,\n "b": 2,}': "bad.json:2:9: not JSON: ",
    "schema: 1\n": "bad.json:1:1: not JSON: Expecting value; a report is written by 'roofline analyze",
    '{"a": {"b": 1,\n"b": 2}}': "bad.json:2:1: key 'b' stands twice, on line 1 and on line 2",
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_is_no_report_is_refused_by_diff(run: Run, folder: Path, text: str) -> None:
    (folder / "bad.json").write_text(text, encoding="utf-8")
    result = run("diff", "r.json", "bad.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert TEXTS[text] in result.stderr


def test_errors_in_a_report_point_at_the_line(run: Run, folder: Path) -> None:
    text = (folder / "r.json").read_text().replace('"repeat": 24', '"repeat": null')
    (folder / "bad.json").write_text(text, encoding="utf-8")
    line = text[: text.index('"repeat": null')].count("\n") + 1
    assert f"bad.json:{line}:14: report.rows[0].repeat: expected an integer, found null" in run("diff", "bad.json", "r.json").stderr


# ---- files of the wrong kind ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["analyze", "w.yaml", "-H", "w.yaml"], "w.yaml:1:1: expected a hardware profile, but this is a workload; "),
        (["hardware", "show", "w.yaml"], "w.yaml:1:1: expected a hardware profile, but this is a workload; "),
        (["analyze", "toy.yaml"], "toy.yaml:1:1: expected a workload, but this is a hardware profile; name it with -H"),
        (["analyze", "r.json"], "r.json:1:1: expected a workload, but this is a report; compare it "),
        (["hardware", "show", "r.json"], "r.json:1:1: expected a hardware profile, but this is a report; "),
        (["analyze", "h100-sxm"], "unknown workload 'h100-sxm'; it is a hardware profile: give it with -H"),
        (["analyze", "w.yaml", "-H", "gpt2_medium"], "unknown hardware profile 'gpt2_medium'; it is a workload"),
        (["analyze", "list.yaml"], "list.yaml:1:1: expected a workload as a map"),
        (["hardware", "show", "list.yaml"], "list.yaml:1:1: expected a hardware profile as a map"),
        (["analyze", "empty.yaml"], "empty.yaml:1:1: nothing is written here"),
        (["analyze", "bytes.yaml"], "bytes.yaml:1:5: a NUL byte at byte 4: this is binary"),
        (["analyze", "-"], "<stdin>:1:1: nothing is written here"),
    ],
)
def test_a_file_of_another_kind_is_called_by_its_name(run: Run, folder: Path, words: list[str], said: str) -> None:
    (folder / "toy.yaml").write_text(PROFILE, encoding="utf-8")
    (folder / "list.yaml").write_text("[1, 2]", encoding="utf-8")
    (folder / "empty.yaml").touch()
    (folder / "bytes.yaml").write_bytes(b"\x7fELF" + bytes(range(200)))
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) <= 3
    assert max(map(len, result.stderr.splitlines())) < 250


# ---- limits --------------------------------------------------------------------------------------------------------
BOMBS = {
    "doubling": "\n".join(["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 30))]),
    "tenfold": "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 7))]),
    "maps": "\n".join(["a0: &a0 {k: v}", *(f"a{i}: &a{i} {{p: *a{i - 1}, q: *a{i - 1}}}" for i in range(1, 30))]),
    "itself": "a: &a [*a]",
    "many": "a: &a 1\nb: [" + ", ".join(["*a"] * 65) + "]",
    "chain": "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 65))]),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("command", [["analyze"], ["hardware", "show"], ["validate"]], ids=" ".join)
def test_an_alias_bomb_is_refused_at_once(run: Run, folder: Path, command: list[str], name: str) -> None:
    """Row 1: with its place, in a moment, and without growing."""
    (folder / "bomb.yaml").write_text(BOMBS[name], encoding="utf-8")
    before, start = _peak_mib(), time.process_time()
    result = run(*command, "bomb.yaml")
    assert time.process_time() - start < 2
    assert _peak_mib() - before < 50
    assert result.exit_code == 2
    assert messages(result.stderr, "bomb.yaml")


def _peak_mib() -> float:
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 2**20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x: " + "[" * 70, "nested"),
        ("{" * 6000, "nested"),
        ("x: [" + "1," * 200_001 + "]", "more than 200,000 values and keys"),
        ("x: " + "y" * (4 * 2**20), "larger than the limit of 4194304 bytes"),
        ("steps: [" + ",".join(["{op: copy}"] * 10_001) + "]\nschema: 1", "10001 steps; at most 10000 are read"),
        ("schema: " + "9" * 5000, "has more than 40 digits"),
        ("params: {a: " + "+".join(["1"] * 3000) + "}\nschema: 1\nsteps: []", "an expression may have 200 characters"),
        ("params: {a: '" + "(" * 90 + "1" + ")" * 90 + "'}\nschema: 1\nsteps: []", "nested brackets"),
        ("params: {a: " + "-" * 150 + "1}\nschema: 1\nsteps: []", "64 numbers, names and operations"),
        ("params: {a: '9**9**9**9'}\nschema: 1\nsteps: []", "an exponent may be 64 at most"),
    ],
    ids=lambda t: t[:24],
)
def test_what_is_too_large_or_too_deep_is_refused(run: Run, folder: Path, text: str, said: str) -> None:
    """Rows 2 to 4."""
    (folder / "big.yaml").write_text(text, encoding="utf-8")
    result = run("analyze", "big.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr) < 2000


LONG = {
    "digits": "9" * 20_000, "zeros": "0" * 20_000, "words": "1 " * 20_000 + "1", "base 60": "1:" * 20_000 + "1", "letters": "x" * 20_000,
    "exponents": "1e" * 20_000, "dots": "1." * 20_000, "unit": "1 " + "GB" * 20_000, "spaces": "'1" + " " * 20_000 + "x'",
    "signs": "-" * 20_000 + "1",
}  # fmt: skip
SLOTS = [
    "m: batch * seq",
    "repeat: 24",
    "batch: 8",
    "id: attention",
    "dtype: bf16",
    "op: gemm",
    "schema: 1",
    "limiter: hbm",
    "implementation: naive",
]


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
@pytest.mark.parametrize("slot", [*SLOTS, "measured", "a constant"])
def test_a_long_text_in_any_place_is_refused_at_once(run: Run, folder: Path, slot: str, text: str) -> None:
    """Row 3, and patterns that would take time by the square of the length."""
    name = slot.partition(": ")[0]
    if slot == "a constant":
        Path("bad.yaml").write_text(PROFILE.replace("lanes: 64", f"lanes: {text}"), encoding="utf-8")
    else:
        old = "implementation: naive" if slot == "measured" else slot
        Path("bad.yaml").write_text(WORKLOAD.replace(old, f"{name}: {text}", 1), encoding="utf-8")
    start = time.process_time()
    result = run("validate", "bad.yaml")
    assert time.process_time() - start < 2
    assert result.exit_code in (0, 2)
    assert len(result.stderr) < 4000


# ---- encodings -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("data", [WORKLOAD.encode("utf-8-sig"), WORKLOAD.replace("\n", "\r\n").encode()], ids=["BOM", "CRLF"])
def test_a_byte_order_mark_and_crlf_change_nothing(run: Run, folder: Path, data: bytes) -> None:
    """Row 18: also in the lines that errors name."""
    plain = run("analyze", "w.yaml").stdout
    (folder / "w.yaml").write_bytes(data)
    assert run("analyze", "w.yaml").stdout == plain
    (folder / "w.yaml").write_bytes(data.replace(b"k: d", b"k: dd"))
    assert "w.yaml:11:8: unknown name 'dd'" in run("analyze", "w.yaml").stderr


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (WORKLOAD.encode("utf-16"), "UTF-16 begins at byte 0"),
        (b"schema: 1\nname: caf\xe9\n", "bad.yaml:2:10: 0xe9 at byte 19 is not UTF-8"),
        (b"schema: 1\0\n", "bad.yaml:1:10: a NUL byte at byte 9"),
    ],
    ids=["UTF-16", "latin-1", "NUL"],
)
@pytest.mark.parametrize("command", [["analyze"], ["hardware", "show"], ["validate"], ["diff", "r.json"]], ids=" ".join)
def test_another_encoding_is_refused_at_its_byte(run: Run, folder: Path, command: list[str], data: bytes, said: str) -> None:
    """Row 18, for every kind of file."""
    (folder / "bad.yaml").write_bytes(data)
    result = run(*command, "bad.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_report_with_a_byte_order_mark_is_read(run: Run, folder: Path) -> None:
    (folder / "bom.json").write_bytes(b"\xef\xbb\xbf" + (folder / "r.json").read_bytes())
    assert run("diff", "bom.json", "r.json").exit_code == 0


def test_escapes_of_a_file_never_reach_the_terminal(run: Run, folder: Path) -> None:
    (folder / "w.yaml").write_text(WORKLOAD.replace("op: gemm", 'op: "\\e[31mred\\u202e"'), encoding="utf-8")
    stderr = run("analyze", "w.yaml").stderr
    assert "\\x1b[31mred\\u202e" in stderr
    assert not {c for c in stderr if ord(c) < 32} - {"\n"}
    (folder / "w.yaml").write_text(WORKLOAD.replace("name: small", 'name: "\\e[31m[/x][link=a]"'), encoding="utf-8")
    for words in (["analyze", "w.yaml"], ["analyze", "w.yaml", "--explain"], ["analyze", "w.yaml", "--format", "markdown"]):
        result = run(*words)
        assert result.exit_code == 0
        assert "\x1b" not in result.stdout
