"""No. 22: what a shell is offered, through the protocol by which shells ask."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELLS = ("bash", "zsh", "fish")


def ask(shell: str, line: str, folder: Path, code: str | None = None) -> subprocess.CompletedProcess[str]:
    """What a shell is answered for a line with the cursor at its end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(folder), "_ROOFLINE_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        environment |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    else:
        environment |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    command = [sys.executable, *(["-c", code] if code else ["-m", "roofline"])]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


def offered(shell: str, line: str, folder: Path) -> set[str]:
    """The names offered."""
    done = ask(shell, line, folder)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    if shell == "zsh":  # "name":"help" in quotes, in one list
        return set(re.findall(r'[(\n]"((?:[^":\\]|\\.)+)', done.stdout))
    return {line.partition("\t")[0] for line in done.stdout.splitlines()} - {""}


LINES = {
    "roofline analyze -H h200": {"h200-sxm"},
    "roofline analyze w.yaml --hardware h100-": {"h100-sxm", "h100-pcie", "h100-nvl"},
    "roofline analyze gpt2": {"gpt2_medium"},
    "roofline measure --kernel flash_t": {"flash_triton"},
    "roofline op layer": {"layernorm"},
    "roofline operators show batched": {"batched_gemm"},
    "roofline hardware compare h100-sxm mi300": {"mi300x"},
    "roofline --color al": {"always"},
    "roofline analyze --format github": {"github-benchmark"},
    "roofline schema dataf": {"dataflow"},
    "roofline plan llama-3-70b -C dgx-h1": {"dgx-h100"},
    "roofline cost serving llama-3-7": {"llama-3-70b"},
    "roofline cost serving qwen3_8b_d": {"qwen3_8b_decode"},
    "roofline loop init log.yaml --workload gpt2": {"gpt2_medium"},
    "roofline model show deepseek-v": {"deepseek-v3"},
    "roofline advise gpt2_medium --also vend": {"vendor"},
    "roofline conf": {"config"},
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("shell", SHELLS)
def test_names_are_completed_in_each_shell(shell: str, line: str, tmp_path: Path) -> None:
    assert LINES[line] <= offered(shell, line, tmp_path)
    start = line.rpartition(" ")[2]
    assert all(name.startswith(start) for name in offered(shell, line, tmp_path))


def test_a_profile_of_the_project_is_offered(tmp_path: Path) -> None:
    (tmp_path / "hardware_specs").mkdir()
    (tmp_path / "hardware_specs" / "ours.yaml").write_text("schema: 1\n", encoding="utf-8")
    assert "ours" in offered("bash", "roofline analyze -H our", tmp_path)


def test_nothing_is_offered_where_nothing_begins_so(tmp_path: Path) -> None:
    assert offered("bash", "roofline analyze -H zzz", tmp_path) == set()


def test_a_broken_settings_file_breaks_no_completion(tmp_path: Path) -> None:
    (tmp_path / "roofline.toml").write_text("= = =", encoding="utf-8")
    assert "h200-sxm" in offered("bash", "roofline analyze -H h200", tmp_path)


REPORT = (
    "import sys; sys.argv = ['roofline']\nfrom roofline.cli.app import run\ntry: run()\nexcept SystemExit: pass\n"
    "print([m for m in ('torch', 'numpy', 'triton', 'pynvml', 'rich.table', 'scipy') if m in sys.modules], file=sys.stderr)"
)


@pytest.mark.parametrize("line", ["roofline measure --kernel f", "roofline analyze -H h", "roofline analyze g"])
def test_completion_imports_neither_torch_nor_numpy_nor_rich(line: str, tmp_path: Path) -> None:
    done = ask("bash", line, tmp_path, REPORT)
    assert done.stdout.split()
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_scripts_of_the_shells_ask_for_completion(shell: str, tmp_path: Path) -> None:
    """What `--show-completion` prints sets the variable that the answer needs; bash itself runs it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "_ROOFLINE_COMPLETE": f"source_{shell}"}
    done = subprocess.run([sys.executable, "-m", "roofline"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert f"_ROOFLINE_COMPLETE=complete_{shell}" in done.stdout
    if shell == "bash":
        (tmp_path / "roofline").write_text(f'#!/bin/bash\nexec "{sys.executable}" -m roofline "$@"\n', encoding="utf-8")
        (tmp_path / "roofline").chmod(0o755)
        script = (
            done.stdout
            + "\nCOMP_WORDS=(roofline analyze -H h200); COMP_CWORD=3\n_roofline_completion roofline\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        ran = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        assert ran.stdout.split() == ["h200-sxm"]


def test_completion_costs_little_more_than_the_start(tmp_path: Path) -> None:
    """A person waits for it: within 2.5 times what importing typer and yaml takes, interleaved against a machine that others use."""

    def timed(run: object) -> float:
        start = time.perf_counter()
        assert callable(run)
        run()
        return time.perf_counter() - start

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    base = lambda: subprocess.run([sys.executable, "-c", "import typer, yaml"], env=environment, check=True)  # noqa: E731
    asked = lambda: ask("bash", "roofline analyze -H h", tmp_path)  # noqa: E731
    asked()
    pairs = [(timed(base), timed(asked)) for _ in range(7)]
    assert median(after / before for before, after in pairs) < 2.5


def test_every_name_of_the_table_is_a_parameter() -> None:
    """A command that is renamed must not lose its completion in silence."""
    from typer.main import get_command

    from roofline.cli.app import app
    from roofline.cli.complete import OF_COMMANDS, OPTIONS, _parameters

    known = {".".join((*path, str(p.name))) for path, p in _parameters(get_command(app), ())}
    assert set(OF_COMMANDS) <= known
    assert set(OPTIONS) <= {name.rpartition(".")[2] for name in known}


NAMES = re.compile(
    r"profile (name|or|of the)|profile:|by name|name or file|(^|, )names? |shipped|config\.json|workload (file|whose|of a)|another device"
    r"|format (of|in|on)|device or cluster|cluster whose|^two or more|operator (name|that)|^device; else|adamw|\ball_reduce\b",
    re.IGNORECASE,
)
"""Words by which the help of a parameter says that it takes a name of something that is shipped."""
FILES = {"gate.workloads", "ingest.trace.workload"}
"""Whose help speaks so, and which take files alone: those of a repository, and one that is written."""


def test_what_takes_a_name_of_something_shipped_completes_to_it() -> None:
    """By what its help says it takes, so that a new option is held to it from the day that it says so."""
    from typer.main import get_command

    from roofline.cli.app import app
    from roofline.cli.complete import _parameters, names_for

    takes = {
        ".".join((*path, str(p.name))): names_for(path, p) is not None
        for path, p in _parameters(get_command(app), ())
        if p.type.name == "str" and NAMES.search(str(p.help or ""))
    }
    assert len(takes) > 50
    assert {name for name, completes in takes.items() if not completes} == FILES


def test_every_table_of_names_has_some_and_imports_no_numpy() -> None:
    """In a process of its own, since the tests have numpy."""
    code = (
        "import sys\nfrom roofline.cli.complete import OF_COMMANDS, OPTIONS\n"
        "print(all(len(names()) > 1 for names in {*OPTIONS.values(), *OF_COMMANDS.values()}), 'numpy' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
