"""Settings: flags before ROOFLINE_ variables, these before the project's file, that before the user's, and each with its origin."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from roofline.cli.app import app
from roofline.cli.configured import read_defaults
from roofline.errors import InputError
from roofline.spec.settings import KEYS, given, settings_in_force, unknown_variables, variable
from roofline.spec.settings_files import project_file

from .conftest import Process, Run

Values = Callable[..., dict[str, tuple[object, str]]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a folder in it as working directory, and a user without settings."""
    for name in [n for n in os.environ if n.startswith("ROOFLINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "repo" / "inner")
    return tmp_path


def project(place: Path, text: str, name: str = "roofline.toml") -> None:
    (place / "repo" / name).write_text(text, encoding="utf-8")


def user(place: Path, text: str) -> None:
    (place / "user" / "roofline").mkdir(parents=True, exist_ok=True)
    (place / "user" / "roofline" / "config.toml").write_text(text, encoding="utf-8")


def value(name: str) -> tuple[object, str]:
    found = settings_in_force()[name]
    return found.value, found.origin


# --------------------------------------------------------------------------- precedence, pair by pair
def test_a_flag_comes_before_a_variable(process: Process) -> None:
    """Of a colour, the only setting that every command shows."""
    assert "\x1b[" in process("analyze", "w.yaml", ROOFLINE_COLOR="always").stdout
    assert "\x1b[" not in process("analyze", "w.yaml", "--color=never", ROOFLINE_COLOR="always").stdout


def test_a_variable_comes_before_the_project(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(place, 'hardware = "a100-sxm"\n')
    assert value("hardware") == ("a100-sxm", os.path.join(str(place), "repo", "roofline.toml") + ":1")
    monkeypatch.setenv("ROOFLINE_HARDWARE", "h200-sxm")
    assert value("hardware") == ("h200-sxm", "ROOFLINE_HARDWARE")


def test_the_project_comes_before_the_user(place: Path) -> None:
    user(place, 'hardware = "l4"\ntolerance = "5%"\n')
    assert value("hardware")[0] == "l4"
    project(place, '# ours\nhardware = "a100-sxm"\n')
    assert value("hardware")[0] == "a100-sxm"
    assert value("tolerance") == ("5%", str(place / "user" / "roofline" / "config.toml") + ":2")


def test_the_user_comes_before_what_is_built_in(place: Path) -> None:
    assert value("tolerance") == ("3%", "built-in")
    user(place, 'tolerance = "5%"\n')
    assert value("tolerance")[0] == "5%"


def test_roofline_toml_comes_before_pyproject_and_the_nearest_before_both(place: Path) -> None:
    project(place, '[project]\nname = "x"\n[tool.roofline]\nhardware = "l4"\n', "pyproject.toml")
    assert value("hardware") == ("l4", os.path.join(str(place), "repo", "pyproject.toml") + ":4")
    project(place, 'hardware = "t4"\n')
    assert value("hardware")[0] == "t4"
    (place / "repo" / "inner" / "pyproject.toml").write_text('[tool.roofline]\nhardware = "a10"\n', encoding="utf-8")
    assert value("hardware") == ("a10", "pyproject.toml:2")


def test_lists_are_taken_whole_and_never_merged(place: Path) -> None:
    user(place, 'fail_on = ["missing"]\n')
    project(place, 'fail_on = ["row.limiter-changed"]\n')
    assert value("fail_on")[0] == ["row.limiter-changed"]


# --------------------------------------------------------------------------- where files are looked for
def test_the_search_ends_at_the_root_of_the_repository(place: Path) -> None:
    (place / "roofline.toml").write_text('hardware = "l4"\n', encoding="utf-8")
    assert value("hardware") == (None, "built-in")


def test_outside_of_a_repository_only_the_working_directory_counts(place: Path) -> None:
    (place / "repo" / ".git").rmdir()
    project(place, 'hardware = "l4"\n')
    assert value("hardware") == (None, "built-in")
    assert project_file(str(place / "repo"))[0] == str(place / "repo" / "roofline.toml")


def test_a_pyproject_without_our_table_is_not_ours(place: Path) -> None:
    """Not even when it is broken."""
    project(place, "[tool.other\nroofline = 1\n", "pyproject.toml")
    assert given() == {}


# --------------------------------------------------------------------------- values
@pytest.mark.parametrize(("text", "wanted"), [("1", True), ("TRUE", True), ("on", True), ("0", False), ("No", False)])
def test_switches_of_the_environment_take_the_usual_words(place: Path, monkeypatch: pytest.MonkeyPatch, text: str, wanted: bool) -> None:
    monkeypatch.setenv("ROOFLINE_QUIET", text)
    assert value("quiet")[0] is wanted


def test_lists_of_the_environment_are_split_at_semicolons_lines_and_commas(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFLINE_FAIL_ON", "missing; total.bound.time_s>+2%\nadded, changed;")
    assert value("fail_on")[0] == ["missing", "total.bound.time_s>+2%", "added", "changed"]


def test_an_empty_variable_sets_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFLINE_HARDWARE", "")
    assert value("hardware") == (None, "built-in")


def test_all_mistakes_are_told_at_once_each_at_its_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "repo" / "inner" / "roofline.toml").write_text(
        'hardwear = "l4"\n"quiet" = "yes"\n  ignore = ["W6"]\n[fail_on]\na = 1\n', encoding="utf-8"
    )
    user(place, "tolerance = 3\n")
    monkeypatch.setenv("ROOFLINE_COLOR", "blue")
    with pytest.raises(InputError) as caught:
        given()
    said = {(os.path.basename(p.path), p.line, p.column): p.message for p in caught.value.problems}
    assert set(said) == {
        ("ROOFLINE_COLOR", 0, 0), ("roofline.toml", 1, 1), ("roofline.toml", 2, 1), ("roofline.toml", 3, 3), ("roofline.toml", 4, 1),
        ("config.toml", 1, 1),
    }  # fmt: skip
    assert said["roofline.toml", 1, 1] == "unknown setting 'hardwear'; did you mean 'hardware'?"
    assert said["roofline.toml", 2, 1] == "quiet: expected true or false"


def test_an_unknown_key_of_pyproject_is_shown_in_our_table_only(place: Path) -> None:
    project(place, "[tool.other]\nhue = 1\n[tool.roofline]\nhue = 2\n", "pyproject.toml")
    with pytest.raises(InputError, match=r"pyproject\.toml:4:1: unknown setting 'hue'"):
        given()


def test_what_is_no_toml_is_an_error_at_its_place(process: Process, folder: Path) -> None:
    (folder / "roofline.toml").write_text("quiet = true\ncolor = = 1\n", encoding="utf-8")
    found = process("analyze", "w.yaml")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("roofline.toml:2:9: not TOML: ")
    assert found.stderr.endswith("    color = = 1\n            ^\n")


def test_a_broken_file_leaves_help_and_config_show_working(process: Process, folder: Path) -> None:
    (folder / "roofline.toml").write_text("color = 1\n", encoding="utf-8")
    assert process("--help").returncode == process("analyze", "--help").returncode == 0
    shown = process("config", "show")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "roofline.toml:1:1: color: expected one of auto, always, never" in shown.stderr


def test_a_variable_that_is_no_setting_is_named_with_the_nearest(process: Process) -> None:
    found = process("config", "show", ROOFLINE_HARDWEAR="l4")
    assert found.stderr == "note: ROOFLINE_HARDWEAR is no setting; did you mean 'hardware'?\n"
    assert found.returncode == 0
    assert unknown_variables({"ROOFLINE_CONFIG_DIR": "x", variable("hardware"): "y", "HOME": "z"}) == []


# --------------------------------------------------------------------------- what they do
def test_config_show_gives_every_setting_with_its_origin(process: Process, folder: Path) -> None:
    (folder / "roofline.toml").write_text('hardware = "a100-sxm"\n', encoding="utf-8")
    found = json.loads(process("config", "show", "--format", "json", ROOFLINE_TOLERANCE="4%").stdout)
    assert list(found) == list(KEYS)
    assert (found["hardware"]["value"], found["hardware"]["origin"]) == ("a100-sxm", "roofline.toml:1")
    assert found["tolerance"]["origin"] == "ROOFLINE_TOLERANCE"
    assert found["quiet"] == {"value": False, "origin": "built-in", "help": KEYS["quiet"].help}


def test_a_device_is_taken_where_neither_flag_nor_workload_names_one(process: Process, folder: Path) -> None:
    text = (folder / "w.yaml").read_text(encoding="utf-8")
    (folder / "free.yaml").write_text(text.replace("hardware: h100-sxm\n", ""), encoding="utf-8")

    def device(*words: str) -> object:
        found = json.loads(process("analyze", *words, "--format", "json", ROOFLINE_HARDWARE="a100-sxm").stdout)
        return found["hardware"]["name"]

    assert device("free.yaml") == "a100-sxm"
    assert device("w.yaml") == "h100-sxm"
    assert device("free.yaml", "-H", "l4") == "l4"
    swap = process("amdahl", "free.yaml", "--swap", "attention.implementation=flash", ROOFLINE_HARDWARE="a100-sxm")
    assert swap.stdout.startswith("small on a100-sxm: ")
    assert "On a100-sxm" in process("op", "gemm", "m=1", "n=8", "k=8", "dtype=bf16", ROOFLINE_HARDWARE="a100-sxm").stdout


FREE = "schema: 1\ndtype: bf16\nparams: {m: 64}\nsteps: [{id: product, op: gemm, m: m, n: 4096, k: 4096}]\n"
MODEL = "schema: 1\nmodel: llama-3-8b\nphase: decode\nparams: {batch: 8, context: 64}\n"
JOB = ("--phase", "decode", "--set", "batch=8", "--set", "context=64")
DEVICE: dict[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[Any], object]]] = {
    "sweep": (("sweep", "free.yaml", "--set", "m=1,2"), ("-H", "l4"), lambda f: f["hardware"][0]),
    "advise": (("advise", "free.yaml"), ("-H", "l4"), lambda f: f["hardware"]),
    "serving": (
        ("cost", "serving", "free.yaml", "--set", "m=1,2", "--tokens", "m", "--devices", "1", "--price", "1/h"),
        ("-H", "l4"),
        lambda f: f["hardware"],
    ),
    "tokens": (
        ("cost", "tokens", "--output-tokens-per-s", "5", "--devices", "1", "--price", "1/h"),
        ("-H", "l4"),
        lambda f: f["fleet"]["power_source"].partition(":")[0],
    ),
}
"""Commands whose device is asked for, what names another one, and where the answer has it."""
CLUSTER = {
    "plan": ("plan", "llama-3-8b", *JOB),
    "search": ("search", "llama-3-8b", *JOB, "--devices", "1"),
    "serving": ("cost", "serving", "llama-3-8b", "--set", "batch=8,16", "--set", "context=64", "--price", "1/h"),
    "file": ("plan", "model.yaml"),
}


@pytest.fixture
def configured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A command in this process under settings of the environment, read as a start reads them."""
    for name in [n for n in os.environ if n.startswith("ROOFLINE_")]:
        monkeypatch.delenv(name)

    def invoke(*words: str, **env: str) -> Result:
        with monkeypatch.context() as patched:
            for name, text in env.items():
                patched.setenv(name, text)
            return CliRunner().invoke(app, list(words), default_map=read_defaults(words[0]))

    yield invoke
    read_defaults(None)


@pytest.mark.parametrize("name", DEVICE)
def test_the_device_of_the_settings_serves_every_command_that_asks_for_one(configured: Run, folder: Path, name: str) -> None:
    (folder / "free.yaml").write_text(FREE, encoding="utf-8")
    words, other, device = DEVICE[name]
    assert configured(*words).exit_code == 2 or name == "tokens"
    found = configured(*words, "--format", "json", ROOFLINE_HARDWARE="h200-sxm")
    assert device(json.loads(found.stdout)) == "h200-sxm"
    found = configured(*words, *other, "--format", "json", ROOFLINE_HARDWARE="h200-sxm")
    assert device(json.loads(found.stdout)) == "l4"


def test_a_device_that_the_workload_names_comes_before_the_settings(configured: Run, folder: Path) -> None:
    (folder / "free.yaml").write_text(f"hardware: l4\n{FREE}", encoding="utf-8")
    for name in ("sweep", "advise", "serving"):
        words, _, device = DEVICE[name]
        assert device(json.loads(configured(*words, "--format", "json", ROOFLINE_HARDWARE="h200-sxm").stdout)) == "l4"


def test_a_loop_begins_on_the_device_of_the_settings(configured: Run, folder: Path) -> None:
    (folder / "free.yaml").write_text(FREE, encoding="utf-8")
    assert "names no device" in configured("loop", "init", "a.yaml", "-w", "free.yaml").stderr
    assert configured("loop", "init", "a.yaml", "-w", "free.yaml", ROOFLINE_HARDWARE="h200-sxm").exit_code == 0
    assert 'path: "h200-sxm"' in (folder / "a.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CLUSTER)
def test_the_cluster_of_the_settings_serves_every_plan(configured: Run, folder: Path, name: str) -> None:
    (folder / "model.yaml").write_text(MODEL, encoding="utf-8")
    words = CLUSTER[name]
    key = "hardware" if name == "serving" else "cluster"
    assert "which cluster?" in configured(*words).stderr
    found = configured(*words, "--format", "json", ROOFLINE_CLUSTER="dgx-h200")
    assert json.loads(found.stdout)[key] == "dgx-h200"
    found = configured(*words, "-C", "dgx-a100", "--format", "json", ROOFLINE_CLUSTER="dgx-h200")
    assert json.loads(found.stdout)[key] == "dgx-a100"


def test_a_cluster_that_the_workload_names_comes_before_the_settings(configured: Run, folder: Path) -> None:
    (folder / "model.yaml").write_text(f"{MODEL}plan: tp=2\ncluster: dgx-a100\n", encoding="utf-8")
    found = configured("plan", "model.yaml", "--format", "json", ROOFLINE_CLUSTER="dgx-h200")
    assert json.loads(found.stdout)["cluster"] == "dgx-a100"


def test_failures_are_those_of_the_cluster_of_the_settings(configured: Run) -> None:
    words = ("cost", "failures", "--devices", "8", "--restart", "1 min", "--checkpoint", "1 s")
    assert "no cluster was named" in configured(*words).stderr
    assert "(llama3-24k: " in configured(*words, ROOFLINE_CLUSTER="llama3-24k").stdout


def test_the_format_is_that_of_the_settings_where_the_command_knows_it(process: Process) -> None:
    assert process("analyze", "w.yaml", ROOFLINE_FORMAT="json").stdout.startswith("{")
    assert process("analyze", "w.yaml", "--format", "csv", ROOFLINE_FORMAT="json").stdout.startswith("workload,")
    assert process("validate", "w.yaml", ROOFLINE_FORMAT="json").stdout == "1 file: no problems\n"


def test_the_rules_of_a_project_gate_its_diffs(process: Process, folder: Path) -> None:
    process("analyze", "w.yaml", "--set", "seq=2048", "-o", "head.json")
    assert process("diff", "r.json", "head.json", "--allow-context-change").returncode == 0
    (folder / "roofline.toml").write_text('fail_on = ["total.bound.time_s>+2%"]\n', encoding="utf-8")
    assert process("diff", "r.json", "head.json", "--allow-context-change").returncode == 1
    assert process("diff", "r.json", "head.json", "--allow-context-change", "--fail-on", "missing").returncode == 0


def test_without_settings_nothing_is_imported_to_read_them(process: Process) -> None:
    """A start costs a few look-ups."""
    import subprocess
    import sys

    code = (
        "import sys; sys.argv = ['roofline', 'amdahl', '-f', '0.2', '-s', '2']\nfrom roofline.cli.app import run\n"
        "try: run()\nexcept SystemExit: pass\n"
        "print([m for m in ('tomllib', 'roofline.spec.settings') if m in sys.modules], file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**environment, "ROOFLINE_COLOR": "never"}, capture_output=True, text=True, check=True
    )
    assert "roofline.spec.settings" in done.stderr
