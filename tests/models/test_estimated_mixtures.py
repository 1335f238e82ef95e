"""Decoding steps of mixtures of experts and of latent attention have an estimate, from the shipped configuration to the whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roofline.cli.app import app


def report(folder: Path, model: str, device: str) -> Any:
    runner, steps = CliRunner(), str(folder / "steps.yaml")
    made = runner.invoke(app, ["import", "hf", model, "--phase", "decode", "--set", "batch=8", "--set", "context=4096", "-o", steps])
    assert made.exit_code == 0, made.output
    found = runner.invoke(app, ["analyze", steps, "-H", device, "--format", "json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.mark.parametrize("device", ["h100-sxm", "h200-sxm"])
@pytest.mark.parametrize(("model", "parts"), [("mixtral-8x7b", {"grouped_gemm"}), ("deepseek-v3", {"grouped_gemm", "latent_attention"})])
def test_every_step_has_an_estimate_and_the_whole_lies_above_its_bound(tmp_path: Path, model: str, parts: set[str], device: str) -> None:
    """Weights of experts are most of the bytes: the whole takes 1.1 to 1.6 times what memory needs, the experts 1.1 to 1.4 times."""
    found = report(tmp_path, model, device)
    assert all(row["estimate"] is not None for row in found["rows"])
    assert parts <= {row["op"] for row in found["rows"]}
    whole, least = found["totals"]["estimate"]["time_s"], found["totals"]["bound"]["time_s"]
    assert 1.1 < whole / least < 1.6
    experts = [row for row in found["rows"] if "experts_" in row["id"] and row["op"] == "grouped_gemm"]
    assert len(experts) == 2
    for row in experts:
        assert 1.1 < row["estimate"]["time_s"] / row["bound"]["time_s"] < 1.4
