"""What people expect of a command line, one test for each claim."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from roofline.cli.app import hoisted
from roofline.report.published import schema_of
from roofline.spec.files import STDIN_NAME

from .conftest import ROOT, WORKLOAD, Process, Run

ESCAPE = "\x1b"
VIEWS = [
    ["analyze", "w.yaml"],
    ["analyze", "w.yaml", "--explain"],
    ["analyze", "w.yaml", "-H", "h100-sxm", "-H", "h200-sxm"],
    ["analyze", "w.yaml", "--format", "csv"],
    ["analyze", "w.yaml", "--format", "markdown"],
    ["analyze", "w.yaml", "--format", "json"],
    ["amdahl", "-f", "0.2", "-s", "2"],
    ["amdahl", "w.yaml", "--swap", "attention.implementation=flash"],
    ["amdahl", "w.yaml", "--swap", "attention.implementation=flash", "--format", "json"],
    ["op", "gemm", "m=1", "n=28672", "k=8192", "dtype=bf16", "-H", "h100-sxm"],
    ["diff", "r.json", "r.json"],
    ["diff", "r.json", "r.json", "--format", "json"],
    ["hardware", "list"],
    ["hardware", "show", "h100-sxm"],
    ["hardware", "show", "h100-sxm", "--format", "json"],
    ["hardware", "compare", "h100-sxm", "mi300x"],
    ["operators", "list"],
    ["operators", "show", "gemm"],
    ["validate", "w.yaml"],
    ["schema", "report"],
]
HELPS = [["--help"], *([c, "--help"] for c in ("analyze", "amdahl", "diff", "op", "fit", "validate", "schema", "hardware", "operators"))]
HELPS += [["hardware", c, "--help"] for c in ("list", "show", "compare")] + [["operators", c, "--help"] for c in ("list", "show")]


def strict(text: str) -> Any:
    """The one JSON value that the text is; NaN and Infinity are none."""

    def fail(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=fail)


# ---- stdout and stderr ---------------------------------------------------------------------------------------------
def test_stdout_carries_only_the_result(process: Process) -> None:
    """No. 1, as a process: nothing but one JSON value with a final newline, whatever is said on stderr."""
    found = process("analyze", "w.yaml", "--format", "json", "--check")
    assert strict(found.stdout)["workload"] == "small"
    assert found.stdout.endswith("}\n")
    assert found.returncode == 0


def test_warnings_and_hints_go_to_stderr(run: Run, folder: Path) -> None:
    """No. 2: stdout is the same with --quiet, and stderr then empty."""
    (folder / "w.yaml").write_text(WORKLOAD.replace("repeat: 24", "repeat: 24\n    measured: 1 ns"), encoding="utf-8")
    loud, quiet = run("analyze", "w.yaml"), run("analyze", "w.yaml", "--quiet")
    assert "warning W" in loud.stderr
    assert quiet.stderr == ""
    assert quiet.stdout == loud.stdout


@pytest.mark.parametrize("flags", [[], ["--color=never"]])
@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_nobody_sees_it(run: Run, flags: list[str], env: dict[str, str]) -> None:
    """No. 4: off a terminal, with NO_COLOR, TERM=dumb and --color=never."""
    assert ESCAPE not in run("analyze", "w.yaml", *flags, **env).stdout


def test_no_colour_beats_force_color_when_asked_by_flag(run: Run) -> None:
    assert ESCAPE not in run("analyze", "w.yaml", "--color=never", FORCE_COLOR="1").stdout


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        (["--color=always"], {}),
        (["--color", "always"], {"NO_COLOR": "1"}),
        (["--color=always"], {"TERM": "dumb"}),
        ([], {"FORCE_COLOR": "1"}),
    ],
)
def test_colour_where_it_is_asked_for(run: Run, flags: list[str], env: dict[str, str]) -> None:
    """No. 5: in colours, not in bold alone."""
    assert f"{ESCAPE}[3" in run("analyze", "w.yaml", *flags, **env).stdout


# ---- exit codes ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, ["analyze", "w.yaml"]),
        (0, ["analyze", "w.yaml", "--check"]),
        (1, ["analyze", "w.yaml", "--check", "--set", "attention.implementation=flash"]),
        (1, ["diff", "r.json", "flash.json", "--fail-on", "row.limiter-changed"]),
        (2, ["analyze", "w.yaml", "--nonsense"]),
        (2, ["nonsense"]),
        (2, ["analyze", "gone.yaml"]),
        (2, ["amdahl", "--fraction", "2", "--speedup", "2"]),
        (2, ["diff", "r.json", "gone.json"]),
        (3, ["diff", "gone.json", "r.json"]),
    ],
)
def test_each_exit_code_means_one_thing(run: Run, code: int, words: list[str]) -> None:
    """No. 6. Code 4 comes with measuring; 130 and 141 need a process and stand below."""
    assert run("analyze", "w.yaml", "--set", "attention.implementation=flash", "-o", "flash.json").exit_code == 0
    assert run(*words).exit_code == code


def test_the_help_lists_the_exit_codes(run: Run) -> None:
    words = " ".join(run("--help").stdout.split())
    for said in ("0 fine", "1 a gate", "2 usage", "3 something is missing", "4 the measurement", "130 interrupted", "141 the reader"):
        assert said in words


@pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes of POSIX")
@pytest.mark.parametrize("words", ["analyze w.yaml", "analyze w.yaml --format json", "--help"])
def test_a_reader_that_leaves_ends_the_command_without_a_word(process: Process, folder: Path, words: str) -> None:
    """No. 6: 141 and nothing on stderr, never 1, which would be a gate that failed."""
    reader, writer = os.pipe()
    os.close(reader)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "roofline", *words.split()]
    found = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=env, timeout=60, check=False)
    os.close(writer)
    assert (found.returncode, found.stderr) == (141, b"")


INTERRUPTED_AT_ITS_INPUT = """
import os, signal, sys, time
from roofline.cli.app import run

class Input:
    def read(self, _):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)

sys.stdin, sys.argv[1:] = Input(), ["analyze", "-"]
run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes of POSIX")
def test_an_interrupt_ends_with_130(folder: Path) -> None:
    """No. 6: here while it reads, with no traceback and no result."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", INTERRUPTED_AT_ITS_INPUT], capture_output=True, env=env, timeout=60, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (130, b"", b"")


def test_a_full_disk_and_a_closed_stream_are_errors_without_a_traceback(process: Process, folder: Path) -> None:
    """No. 7, where the system refuses."""
    if Path("/dev/full").exists():
        with open("/dev/full", "w") as full:
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            command = [sys.executable, "-m", "roofline", "analyze", "w.yaml"]
            found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=env, timeout=60, check=False)
        assert found.returncode == 2
        assert found.stderr.startswith(b"error: cannot write to standard output: ")
        assert found.stderr.count(b"\n") == 1


def test_debug_shows_the_traceback_of_an_error(folder: Path, process: Process) -> None:
    """No. 7: never otherwise."""
    assert "Traceback" in process("analyze", "gone.yaml", "--debug").stderr
    assert "Traceback" not in process("analyze", "gone.yaml").stderr


# ---- errors --------------------------------------------------------------------------------------------------------
def test_an_error_has_its_place_its_line_a_caret_and_a_fix(run: Run, folder: Path) -> None:
    """No. 8; the corpus of bad files stands in test_bad_files.py."""
    (folder / "w.yaml").write_text(WORKLOAD.replace("    k: d\n", "    k: dd\n"), encoding="utf-8")
    result = run("analyze", "w.yaml")
    assert result.stderr == "w.yaml:11:8: unknown name 'dd'; did you mean 'd'?\n        k: dd\n           ^\n"
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["analyze", "w.yaml", "-H", "h100-smx"], "'h100-sxm'"),
        (["analyze", "w.yaml", "--set", "bacth=2"], "'batch'"),
        (["analyze", "w.yaml", "--set", "atention.causal=true"], "'attention'"),
        (["analyze", "w.yaml", "--set", "attention.causl=true"], "'causal'"),
        (["analyze", "w.yaml", "--set", "dtype=bf61"], "'bf16'"),
        (["analyze", "w.yaml", "--set", "qkv.op=gmem"], "'gemm'"),
        (["analyze", "w.yaml", "--set", "attention.implementation=flesh"], "'flash'"),
        (["analyze", "W.yaml"], "'w.yaml'"),
        (["amdahl", "w.yaml", "--step", "qvk", "--speedup", "2"], "'qkv'"),
        (["op", "gem", "m=1", "n=1", "k=1"], "'gemm'"),
        (["operators", "show", "atention"], "'attention'"),
        (["hardware", "show", "h20-sxm"], "'h200-sxm'"),
        (["hardware", "show", "h100-sxm", "--dtype", "bf61"], "bf16"),
        (["diff", "r.json", "r.json", "--fail-on", "qvk.bound.time_s>+1%"], "'qkv'"),
        (["analyse", "w.yaml"], "analyze"),
        (["analyze", "w.yaml", "--fromat", "json"], "--format"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest(run: Run, words: list[str], named: str) -> None:
    """No. 9."""
    result = run(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert named in result.stderr


def test_all_errors_are_shown_at_once_in_the_order_of_the_lines(run: Run, folder: Path) -> None:
    """No. 10: five mistakes, five messages."""
    spoiled = WORKLOAD.replace("dtype: bf16", "dtype: bf61").replace("m: batch", "m: bach").replace("k: d\n", "kk: d\n    k: 0\n")
    (folder / "w.yaml").write_text(spoiled.replace("naive", "neither"), encoding="utf-8")
    result = run("analyze", "w.yaml")
    places = [tuple(map(int, m)) for m in re.findall(r"^w\.yaml:(\d+):(\d+): ", result.stderr, re.MULTILINE)]
    assert [line for line, _ in places] == [5, 9, 11, 12, 16]
    assert places == sorted(places)


# ---- input and output ----------------------------------------------------------------------------------------------
def test_a_dash_is_stdin_and_stdout_and_the_ending_picks_the_format(run: Run, folder: Path) -> None:
    """No. 11."""
    piped = run("analyze", "-", "-o", "piped.json", stdin=WORKLOAD)
    assert piped.stdout == ""
    assert strict((folder / "piped.json").read_text())["inputs"][0]["path"] == "-"
    assert run("analyze", "w.yaml", "-o", "-").stdout == run("analyze", "w.yaml").stdout
    for name, start in (("a.csv", "workload,hardware,id,op,"), ("a.md", "#"), ("A.JSON", "{"), ("a.txt", "small on")):
        run("analyze", "w.yaml", "-o", name)
        assert (folder / name).read_text().startswith(start), name
    run("analyze", "w.yaml", "-o", "b.csv", "--format", "json")
    assert strict((folder / "b.csv").read_text())["schema"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "-"],
        ["amdahl", "-", "--swap", "attention.implementation=flash"],
        ["analyze", "-", "-H", "h100-sxm", "-H", "h200-sxm"],
    ],
)
def test_stdin_serves_commands_that_read_it_twice(run: Run, words: list[str]) -> None:
    assert run(*words, stdin=WORKLOAD).exit_code == 0
    assert STDIN_NAME in run(*words, stdin="schema: 2").stderr


def test_a_report_may_come_from_stdin(run: Run, folder: Path) -> None:
    assert run("diff", "r.json", "-", stdin=(folder / "r.json").read_text()).exit_code == 0


def test_json_is_json_where_stdout_knows_ascii_only(process: Process, folder: Path) -> None:
    """No. 18 beside No. 1: what cannot be encoded is escaped as JSON escapes it."""
    name = "na\u00efve \u2713 \U0001f600"
    (folder / "w.yaml").write_text(WORKLOAD.replace("small", name), encoding="utf-8")
    found = process("analyze", "w.yaml", "--format", "json", PYTHONIOENCODING="ascii")
    assert strict(found.stdout)["workload"] == name
    assert found.stdout.isascii()


def test_an_ascii_terminal_gets_us_for_microseconds(process: Process, folder: Path) -> None:
    """No. 18."""
    (folder / "w.yaml").write_text(WORKLOAD.replace("small", "na\u00efve"), encoding="utf-8")
    found = process("analyze", "w.yaml", "--explain", PYTHONIOENCODING="ascii")
    assert found.returncode == 0
    assert re.search(r"\d us\b", found.stdout)
    assert "na\\u00efve" in found.stdout
    assert found.stdout.isascii()


# ---- numbers -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("words", VIEWS, ids=" ".join)
def test_no_output_writes_a_rate_without_its_unit(run: Run, words: list[str]) -> None:
    """No. 12 and 13: FLOP and FLOP/s, bytes and bits, never FLOPS or Gbps."""
    result = run(*words)
    assert result.exit_code == 0
    assert not re.search(r"\b[kMGTPE]?(FLOPS|FLOPs|flops|Gbps|Tbps|GBps)\b", result.stdout + result.stderr)
    for value, unit in re.findall(r"([0-9.]+) ([KMGT]i?B)\b", result.stdout):
        assert float(value) < 1024, (value, unit)


def test_gb_is_a_thousand_million_bytes_and_gib_is_not(run: Run, folder: Path) -> None:
    """No. 12: 1 GiB read and 1 GiB written are 2.147 GB."""
    (folder / "w.yaml").write_text("schema: 1\nsteps: [{op: copy, read: 1 GiB, write: 1 GiB}]\ndtype: bf16\n", encoding="utf-8")
    result = run("analyze", "w.yaml")
    assert "2.147 GB" in result.stdout
    assert "1 GB = 1e9 B" in run("--help").stdout


def test_json_numbers_are_the_floats_themselves_and_keys_carry_units(run: Run) -> None:
    """No. 14: four digits for people, all digits in JSON."""
    found = strict(run("analyze", "w.yaml", "--format", "json").stdout)
    row = found["rows"][1]
    assert row["bound"]["time_s"] == row["bytes"]["hbm"] / 3352e9
    assert f"{row['bound']['time_s'] * 1e6:.1f} \u00b5s" in run("analyze", "w.yaml").stdout
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("words", [v for v in VIEWS if "json" in v] + [["schema", "workload"], ["schema", "hardware"]], ids=" ".join)
def test_json_holds_no_nan(run: Run, words: list[str]) -> None:
    """No. 16."""
    assert strict(run(*words).stdout)


@pytest.mark.parametrize("extra", [[], ["-H", "x86-server"], ["--set", "attention.implementation=flash"]])
def test_a_report_is_as_its_schema_says(run: Run, extra: list[str]) -> None:
    """No. 15: with its inputs' hashes, and every key there."""
    found = strict(run("analyze", "w.yaml", *extra, "--format", "json").stdout)
    jsonschema.validate(found, schema_of("report"))
    assert found["schema"] == 1
    assert found["tool"].startswith("roofline ")
    assert all(re.fullmatch("[0-9a-f]{64}", i["sha256"]) for i in found["inputs"])


@pytest.mark.parametrize("columns", ["40", "80", "200"])
@pytest.mark.parametrize("words", [v for v in VIEWS if v[0] in ("analyze", "diff") or v[:2] == ["hardware", "compare"]], ids=" ".join)
def test_no_number_is_cut_in_a_narrow_terminal(run: Run, words: list[str], columns: str) -> None:
    """No. 17: columns go by priority and are named; every number left stands whole in the wide table."""
    wide, narrow = run(*words, COLUMNS="400").stdout, run(*words, COLUMNS=columns).stdout
    assert "\u2026" not in narrow
    assert "..." not in narrow
    numbers = re.findall(r"(?<![\w.])\d[\d.,]*(?:e[+-]?\d+)?", narrow.partition("(columns left out")[0])
    assert numbers or "same" in narrow
    known = set(re.findall(r"(?<![\w.])\d[\d.,]*(?:e[+-]?\d+)?", wide))
    assert {n.rstrip(".,") for n in numbers} <= {n.rstrip(".,") for n in known}


def test_dropped_columns_are_named(run: Run) -> None:
    narrow = run("analyze", "w.yaml", COLUMNS="40").stdout
    assert "columns left out at 40 columns: " in " ".join(narrow.split())
    assert "columns left out" not in run("analyze", "w.yaml", COLUMNS="200").stdout


# ---- flags, help, determinism --------------------------------------------------------------------------------------
@pytest.mark.parametrize("flag", ["-q", "--quiet", "--debug", "--color=never"])
@pytest.mark.parametrize("command", [["analyze", "w.yaml"], ["hardware", "show", "h100-sxm"], ["validate", "w.yaml"]], ids=" ".join)
def test_global_flags_stand_before_or_after_the_command(run: Run, command: list[str], flag: str) -> None:
    """No. 20."""
    before, after = run(flag, *command), run(*command, flag)
    assert (before.exit_code, before.stdout) == (after.exit_code, after.stdout)
    assert before.exit_code == 0


def test_flags_after_a_double_dash_are_file_names() -> None:
    assert hoisted(["analyze", "--", "-q"]) == ["analyze", "--", "-q"]


def test_the_version_is_one_line(run: Run) -> None:
    """No. 21."""
    assert re.fullmatch(r"roofline \d+\.\d+\.\d+\n", run("--version").stdout)


@pytest.mark.parametrize("words", HELPS, ids=" ".join)
def test_help_has_examples_before_options_in_80_columns(run: Run, words: list[str]) -> None:
    """No. 21."""
    result = run(*words, COLUMNS="200")
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= 80
    if words[0] in ("--help", "analyze", "amdahl", "diff", "op", "validate", "schema"):
        assert 0 < result.stdout.index("Example") < result.stdout.index("Options:")


@pytest.mark.parametrize("words", VIEWS, ids=" ".join)
def test_the_same_input_gives_the_same_bytes(run: Run, words: list[str]) -> None:
    """No. 23."""
    assert run(*words).stdout == run(*words).stdout


def test_two_processes_give_the_same_bytes(process: Process) -> None:
    """No. 23: whatever order the interpreter gives to sets."""
    words = ["analyze", "w.yaml", "--format", "json"]
    assert process(*words, PYTHONHASHSEED="1").stdout == process(*words, PYTHONHASHSEED="2").stdout


def test_nothing_prompts_and_nothing_calls_the_network(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No. 24: with sockets and prompts that raise."""
    import builtins
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a prompt or a socket")

    monkeypatch.setattr(builtins, "input", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert all(run(*words).exit_code == 0 for words in VIEWS)
