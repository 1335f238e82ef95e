"""What the commands write, made once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roofline.cli.app import app

WORKLOAD = """\
schema: 1
name: small
hardware: h200-sxm
params: {batch: 8, d: 4096}
dtype: bf16
steps:
  - {id: up, op: gemm, m: batch * 64, n: 4 * d, k: d, repeat: 3}
  - {id: down, op: gemm, m: batch * 64, n: d, k: 4 * d}
  - {id: norm, op: rmsnorm, rows: batch * 64, cols: d}
  - {id: look, op: embedding, tokens: batch * 64, vocab: 1000, hidden: d}
  - {id: attention, op: attention, batch: batch, heads: 32, q_len: 1, kv_len: 4096, head_dim: 128}
"""

Made = Callable[..., Path]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The JSON that a command writes, once for equal words; ``w.yaml`` is `WORKLOAD`."""
    where = tmp_path_factory.mktemp("made")
    (where / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    known: dict[tuple[str, ...], Path] = {}

    def make(*words: str) -> Path:
        if words not in known:
            path = where / f"{len(known)}.json"
            result = CliRunner().invoke(app, ["-q", *(str(where / w) if w == "w.yaml" else w for w in words), "-o", str(path)])
            assert result.exit_code == 0, result.output
            json.loads(path.read_text(encoding="utf-8"))
            known[words] = path
        return known[words]

    return make


TRACE = str(Path(__file__).parent.parent / "data" / "traces" / "b200_vllm_eager.pt.trace.json.gz")
"""Provenance beside it."""
SWEEP = ("sweep", "w.yaml", "--set", "batch=1..64:x2", "--set", "d=1024,4096", "--tokens", "batch")
SEARCH = ("search", "llama-3-70b", "--phase", "decode", "-C", "dgx-h100", "--devices", "8", "--set", "batch=64", "--set", "context=8192")
INGEST = ("ingest", "trace", TRACE, "-H", "b200-sxm")
