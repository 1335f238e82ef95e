"""Estimates from the command line: a profile file with parameters, `analyze`, `op`, and what overrides change."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from roofline.ops.gemm import Gemm
from roofline.ops.launched import EXECUTIONS
from roofline.predict.estimate.catalog import MODELS

Run = Callable[..., Result]
HEAD = """\
schema: 1
name: mine
extends: h100-sxm
sources: {mine: "start values of the models"}
fitted:
"""
SET = """\
  {name}:
    kind: fitted
    source: mine
    date: "2026-11-01"
    rows: 10
    band: {{launch: [0.8, 1.25], memory: [0.9, 1.1], compute: [0.9, 1.1]}}
    parameters: {values}
"""
PRODUCT = "schema: 1\nname: product\ndtype: bf16\nsteps:\n  - {op: gemm, m: 64, n: 4096, k: 4096, repeat: 10}\n"


def sets() -> dict[str, dict[str, float]]:
    """Start values for what a product launches and for the host, by the name of the set."""
    found = {"host.torch": {p.name: p.start for p in MODELS["Host"].parameters}}
    for execution in EXECUTIONS:
        for kernel in Gemm(m=64, n=4096, k=4096, dtype="bf16").launched(execution):
            model = MODELS[type(kernel).__name__]
            found[model.sets(kernel, "torch")[0]] = {p.name: p.start for p in model.parameters}
    return found


@pytest.fixture
def profile(folder: Path) -> str:
    """A profile with parameters, and a workload ``p.yaml``."""
    text = HEAD + "".join(SET.format(name=name, values=json.dumps(values)) for name, values in sets().items())
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    (folder / "p.yaml").write_text(PRODUCT, encoding="utf-8")
    return "./mine.yaml"


def report(run: Run, *words: str) -> dict[str, Any]:
    result = run(*words, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_analyze_shows_it_and_execution_is_overridden(run: Run, profile: str) -> None:
    eager, graph = (report(run, "analyze", "p.yaml", "-H", profile, "--set", f"execution={e}") for e in ("eager", "graph"))
    assert eager["totals"]["estimate"]["execution"] == "eager"
    assert graph["totals"]["estimate"]["execution"] == "graph"
    assert graph["totals"]["estimate"]["host_s"] == 0 < eager["totals"]["estimate"]["host_s"]
    assert graph["totals"]["estimate"]["time_s"] < eager["totals"]["estimate"]["time_s"]
    assert set(graph["hardware"]["fitted"]) == {*sets()} - {"host.torch"}
    table = run("analyze", "p.yaml", "-H", profile).stdout
    assert "estimate" in table
    assert "Estimated " in table


def test_op_shows_it_and_takes_an_execution(run: Run, profile: str) -> None:
    words = ("op", "gemm", "m=64", "n=4096", "k=4096", "dtype=bf16")
    assert "(eager)" in run(*words, "-H", profile).stdout
    assert "1 kernel launched (graph)" in run(*words, "execution=graph", "-H", profile).stdout
    assert report(run, *words, "execution=graph", "-H", profile)["rows"][0]["estimate"]["execution"] == "graph"
    refused = run(*words, "execution=graf", "-H", profile)
    assert refused.exit_code == 2
    assert "did you mean 'graph'" in refused.stderr


def test_csv(run: Run, profile: str) -> None:
    (row,) = csv.DictReader(io.StringIO(run("analyze", "p.yaml", "-H", profile, "--format", "csv").stdout))
    assert float(row["estimate_low_s"]) < float(row["estimate_time_s"]) < float(row["estimate_high_s"])


def test_assertions_and_gates_on_estimates(run: Run, profile: str, folder: Path) -> None:
    (folder / "p.yaml").write_text(PRODUCT + "expect:\n  total.estimate.time_s: < 1 s\n  gemm.estimate.kernels: 1\n", encoding="utf-8")
    assert run("analyze", "p.yaml", "-H", profile, "--check", "-o", "eager.json").exit_code == 0
    assert run("analyze", "p.yaml", "-H", profile, "--set", "execution=graph", "-o", "graph.json").exit_code == 0
    faster = run("diff", "eager.json", "graph.json", "--fail-on", "total.estimate.time_s>+0%")
    assert faster.exit_code == 0, faster.output
    slower = run("diff", "graph.json", "eager.json", "--fail-on", "total.estimate.time_s>+1%")
    assert slower.exit_code == 1
    assert "total.estimate.time_s" in slower.output


def test_a_set_that_is_wrong_is_a_mistake_in_the_file(run: Run, profile: str, folder: Path) -> None:
    text = (folder / "mine.yaml").read_text(encoding="utf-8")
    (folder / "mine.yaml").write_text(text.replace('"gap_s": ', '"gap_s": -'), encoding="utf-8")
    result = run("analyze", "p.yaml", "-H", profile)
    assert result.exit_code == 2
    assert "mine.yaml:" in result.stderr
