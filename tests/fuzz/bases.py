"""Texts that the fuzz test spoils: a workload with an operator of every family, profiles, a dataflow, a measured table, a report."""

from __future__ import annotations

import json

from roofline.predict.estimate.catalog import declared, model_named
from roofline.report.build import analyze
from roofline.report.store import to_json
from roofline.spec.find import shipped
from roofline.spec.hardware import load_hardware
from roofline.spec.source import Source
from roofline.spec.workload import read_workload

WORKLOAD = """\
# yaml-language-server: $schema=../docs/schema/workload.json
schema: 1
name: a block with everything
hardware: h100-sxm
params: {batch: 8, seq: 1024, d_model: 1024, heads: 16, tokens: batch * seq}
dtype: bf16
execution: eager
traffic: compulsory
steps:
  - {id: embed, op: embedding, tokens: tokens, vocab: 50257, hidden: d_model}
  - id: qkv
    op: gemm
    m: tokens
    n: 3 * d_model
    k: d_model
    repeat: 24
  - id: attention
    op: attention
    implementation: naive
    batch: batch
    heads: heads
    q_len: seq
    kv_len: seq
    head_dim: d_model / heads
    causal: true
    pass: forward+backward
    repeat: 24
    measured: 12 ms
  - {id: norm, op: rmsnorm, rows: tokens, cols: d_model, repeat: 48}
  - {id: rope, op: rotary, tokens: tokens, heads: heads, head_dim: 64}
  - {id: act, op: swiglu, rows: tokens, cols: 4 * d_model, after: [qkv, norm], packed: false}
  - {id: gelu, op: elementwise, function: gelu, elements: tokens * d_model, after: act}
  - {id: soft, op: softmax, rows: tokens, cols: seq}
  - {id: conv, op: conv2d, batch: 32, in_channels: 64, height: 56, width: 56, out_channels: 64, kernel: 3, padding: 1}
  - {id: loss, op: cross_entropy, tokens: tokens, vocab: 50257, dtype: fp32}
  - {id: head, op: gemm, m: tokens, n: 50257, k: d_model, tied_to: embed}
  - {id: adam, op: adamw, parameters: 12 * d_model ** 2}
expect:
  attention.bound.limiter: hbm
  total.bound.time_s: <= 2 s
x-owner: somebody
"""

JSON_WORKLOAD = json.dumps(
    {
        "schema": 1,
        "params": {"n": 4096},
        "dtype": "fp16",
        "steps": [{"id": "a", "op": "gemm", "m": "n", "n": "n", "k": "n", "repeat": 2}, {"op": "softmax", "rows": "n", "cols": 128}],
        "expect": {"a.bound.limiter": "tensor"},
    },
    indent=2,
)


def profile(name: str) -> str:
    """The text of a shipped profile."""
    return next(shipped("hardware_specs").rglob(f"{name}.yaml")).read_text(encoding="utf-8")


TABLE = """\
# measured by nobody
# source: nowhere
rows,cols,dtype,time_us,eager_us
64,1024,bf16,2.5,12
4096,8192,bf16,60.25,61
1,7,fp32,1.9,
8192,50257,fp16,1000,1001
"""
"""A measured table of softmaxes."""


def dataflow(name: str) -> str:
    """The text of a shipped dataflow."""
    return next(shipped("workloads").rglob(f"{name}.yaml")).read_text(encoding="utf-8")


def fitted_profile() -> str:
    """A profile that is hardly more than parameter sets of its own and the names of those whose sets it takes else."""
    lines = [
        "extends: h100-pcie",
        "name: mine",
        "match: []",
        "priors: [h100-sxm, h200-sxm]",
        "sources:",
        "  mine: a table of mine",
        "fitted:",
    ]
    for name in ("host.torch", "product.gemm.torch.bf16", "stream.elementwise.torch.any", "stream.any.torch.any"):
        model = model_named(name.split(".")[0])
        assert model is not None
        values = ", ".join(f"{p.name}: {p.start!r}" for p in declared(model, name))
        lines += [f"  {name}:", "    kind: fitted", "    source: mine", "    date: 2026-11-29", "    rows: 12"]
        lines += ["    band: {launch: [0.9, 1.1], memory: [0.8, 1.3]}", f"    parameters: {{{values}}}", "    note: 4 rows held out"]
    return "\n".join(lines) + "\n"


def report(device: str | None = "h100-sxm") -> str:
    """The report of `WORKLOAD` as JSON text."""
    workload = read_workload(Source("w.yaml", WORKLOAD))
    return to_json(analyze(workload, load_hardware(device) if device else None))
