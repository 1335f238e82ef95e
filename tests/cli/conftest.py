"""What the tests of the command line share: a workload, its report, and ways to run a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from roofline.cli.app import app, hoisted

ROOT = Path(__file__).resolve().parents[2]

WORKLOAD = """\
schema: 1
name: small
hardware: h100-sxm
params: {batch: 8, seq: 1024, d: 1024}
dtype: bf16
steps:
  - id: qkv
    op: gemm
    m: batch * seq
    n: 3 * d
    k: d
    repeat: 24
  - id: attention
    op: attention
    implementation: naive
    batch: batch
    heads: 16
    q_len: seq
    kv_len: seq
    head_dim: d / 16
expect:
  attention.bound.limiter: hbm
"""

Run = Callable[..., Result]
Process = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def report_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of `WORKLOAD`, made once."""
    where = tmp_path_factory.mktemp("report")
    (where / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    assert CliRunner().invoke(app, ["analyze", str(where / "w.yaml"), "-o", str(where / "r.json")]).exit_code == 0
    text = (where / "r.json").read_text(encoding="utf-8")
    return text.replace(json.dumps(str(where / "w.yaml")), '"w.yaml"')


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report_text: str) -> Path:
    """A working directory with ``w.yaml`` and its report ``r.json``, and no settings of the user."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "ROOFLINE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    (tmp_path / "r.json").write_text(report_text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    """A command in this process, global flags moved as `roofline.cli.app.run` does."""

    def invoke(*words: str, stdin: str | None = None, **env: str) -> Result:
        result = CliRunner().invoke(app, hoisted(list(words)), input=stdin, env=env)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def process(folder: Path) -> Process:
    """A command as a process of its own."""

    def start(*words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        wanted = {**os.environ, "PYTHONPATH": str(ROOT), **env}
        command = [sys.executable, "-m", "roofline", *words]
        return subprocess.run(command, input=stdin, env=wanted, capture_output=True, encoding="utf-8", timeout=60, check=False)

    return start
