"""Reports of one workload: analyzed, changed, and measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofline.report.build import analyze
from roofline.report.diff import Diff, compare
from roofline.report.gates import judge
from roofline.report.model import Report
from roofline.spec.hardware import load_hardware
from roofline.spec.source import Source
from roofline.spec.workload import read_workload

TEXT = """schema: 1
name: small
dtype: bf16
params: {n: 1024}
steps:
  - {id: up, op: gemm, m: n, n: n, k: n, repeat: 3}
  - {id: norm, op: layernorm, rows: n, cols: n, measured: 20 us}
"""
SCHEMAS = Path(__file__).resolve().parents[1] / "data" / "schemas"

Make = Callable[..., Report]
Between = Callable[..., Diff]


@pytest.fixture(scope="session")
def make() -> Make:
    """The report of a text, with replacements."""

    def build(*changes: tuple[str, str], device: str | None = "h100-sxm") -> Report:
        text = TEXT
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        return analyze(read_workload(Source("w.yaml", text)), load_hardware(device) if device else None, [])

    return build


@pytest.fixture(scope="session")
def between() -> Between:
    """Two reports compared, with rules judged."""

    def build(base: Report, head: Report, *rules: str) -> Diff:
        found = compare(base, head, "base", "head")
        return replace(found, gates=judge(list(rules), found, base, head))

    return build


@pytest.fixture(scope="session")
def schema() -> Callable[[str], Any]:
    """A schema of tests/data/schemas."""
    return lambda name: json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
