"""Whole decoders as they were run in plain torch on one H200, as workloads: prefill, decode, and a training step.

    python benchmarks/whole_models.py results/tables/h200-sxm/models.csv -H h200-sxm

The models are Llama-like: rms_norm, one fused product for Q, K and V, rotary, attention with grouped heads, gated feed-forward (up and
gelu for the GPT-2-like ones), untied embedding, random bf16 weights. Nothing here is fitted: every parameter comes from kernels
measured apart, so this table shows what composing them is worth.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roofline.errors import RooflineError
from roofline.hardware.profile import Hardware
from roofline.ops.base import Op
from roofline.ops.registry import OPERATORS
from roofline.report.build import analyze
from roofline.report.model import EstimateResult
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Step, Workload


@dataclass(frozen=True, kw_only=True)
class Dims:
    """A decoder by its sizes; ``gated`` feed-forward is silu(gate) up, else gelu(up)."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool = True

    @property
    def qkv(self) -> int:
        """Columns of the fused product for Q, K and V."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def parameters(self) -> int:
        """All weights, embedding and vocabulary product apart."""
        wide = 3 if self.gated else 2
        layer = self.hidden * (self.qkv + self.heads * self.head_dim + wide * self.ffn + 2)
        return self.layers * layer + 2 * self.vocab * self.hidden + self.hidden


MODELS = {
    "llama3-8b": Dims(layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocab=128256),
    "llama3.2-1b": Dims(layers=16, hidden=2048, heads=32, kv_heads=8, head_dim=64, ffn=8192, vocab=128256),
    "llama2-7b": Dims(layers=32, hidden=4096, heads=32, kv_heads=32, head_dim=128, ffn=11008, vocab=32000),
    "qwen2.5-14b": Dims(layers=48, hidden=5120, heads=40, kv_heads=8, head_dim=128, ffn=13824, vocab=152064),
    "gpt2-medium-like": Dims(layers=24, hidden=1024, heads=16, kv_heads=16, head_dim=64, ffn=4096, vocab=50304, gated=False),
    "gpt2-xl-like": Dims(layers=48, hidden=1600, heads=25, kv_heads=25, head_dim=64, ffn=6400, vocab=50304, gated=False),
}


def op(name: str, **fields: Any) -> Op:
    """An operator in bf16, unless its fields say otherwise."""
    return OPERATORS[name](**{"dtype": "bf16", **fields})  # type: ignore[call-arg]


def layer(d: Dims, batch: int, q_len: int, kv_len: int, attention: str) -> Iterator[tuple[str, Op]]:
    """One layer over ``batch`` sequences; ``q_len`` below ``kv_len`` is decoding with a cache written in place."""
    tokens, width = batch * q_len, d.heads * d.head_dim
    yield "attention_norm", op("rmsnorm", rows=tokens, cols=d.hidden)
    yield "qkv", op("gemm", m=tokens, n=d.qkv, k=d.hidden)
    yield "rotary", op("rotary", tokens=tokens, positions=q_len, heads=d.heads, kv_heads=d.kv_heads, head_dim=d.head_dim)
    decoding = q_len < kv_len
    if decoding:
        written = tokens * d.kv_heads * d.head_dim
        yield "cache_k", op("elementwise", function="copy", elements=written)
        yield "cache_v", op("elementwise", function="copy", elements=written)
    if attention == "naive" and batch > 1:  # heads lie between the rows of Q; with one sequence a view does
        yield "query", op("elementwise", function="copy", elements=tokens * width)
    shape = {"batch": batch, "heads": d.heads, "kv_heads": d.kv_heads, "q_len": q_len, "kv_len": kv_len, "head_dim": d.head_dim}
    naive = {"implementation": "naive", "scale_pass": True} if attention == "naive" else {}
    yield "attention", op("attention", **shape, **naive, causal=not decoding, cache=decoding)
    if attention == "naive":
        yield "heads", op("elementwise", function="copy", elements=tokens * width)
    yield "output", op("gemm", m=tokens, n=d.hidden, k=width)
    yield "attention_residual", op("elementwise", function="add", elements=tokens * d.hidden)
    yield "mlp_norm", op("rmsnorm", rows=tokens, cols=d.hidden)
    yield "up", op("gemm", m=tokens, n=(2 if d.gated else 1) * d.ffn, k=d.hidden)
    yield "activation", op("swiglu", rows=tokens, cols=d.ffn) if d.gated else op("elementwise", function="gelu", elements=tokens * d.ffn)
    yield "down", op("gemm", m=tokens, n=d.hidden, k=d.ffn)
    yield "mlp_residual", op("elementwise", function="add", elements=tokens * d.hidden)


def inference(d: Dims, batch: int, q_len: int, kv_len: int, attention: str) -> Iterator[Step]:
    """Prefill of ``q_len`` tokens, or one decoded token after ``kv_len``; logits of the last position only."""
    yield Step(id="embedding", op=op("embedding", tokens=batch * q_len, vocab=d.vocab, hidden=d.hidden))
    for name, one in layer(d, batch, q_len, kv_len, attention):
        yield Step(id=name, op=one, repeat=d.layers)
    yield Step(id="final_norm", op=op("rmsnorm", rows=batch * q_len, cols=d.hidden))
    yield Step(id="head", op=op("gemm", m=batch, n=d.vocab, k=d.hidden))


def training(d: Dims, batch: int, seq: int) -> Iterator[Step]:
    """Forward, cross entropy over logits cast to fp32, backward, fused AdamW."""
    tokens, both = batch * seq, "forward+backward"
    yield Step(id="embedding", op=op("embedding", tokens=tokens, vocab=d.vocab, hidden=d.hidden), direction=both)
    for name, one in layer(d, batch, seq, seq, "flash"):
        yield Step(id=name, op=one, repeat=d.layers, direction=both)
    yield Step(id="final_norm", op=op("rmsnorm", rows=tokens, cols=d.hidden), direction=both)
    yield Step(id="head", op=op("gemm", m=tokens, n=d.vocab, k=d.hidden), direction=both)
    yield Step(id="loss", op=op("cross_entropy", tokens=tokens, vocab=d.vocab), direction=both)
    yield Step(id="optimizer", op=op("adamw", parameters=d.parameters))


def workload_of(row: dict[str, str]) -> Workload:
    """The run of a row of the table."""
    d, batch, phase = MODELS[row["model"]], int(row["batch"]), row["phase"]
    if phase == "decode":
        steps = inference(d, batch, 1, int(row["ctx"]), "flash")
    elif phase == "prefill":
        steps = inference(d, batch, int(row["seq"]), int(row["seq"]), row["attn"])
    else:
        steps = training(d, batch, int(row["seq"]))
    name = f"{row['model']} {phase} {row['attn']}".strip()
    return Workload(name=name, steps=tuple(steps), dtype="bf16", execution=row["mode"])


def rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a table, and eager decoding as rows of its own."""
    with path.open(encoding="utf-8") as stream:
        found = list(csv.DictReader(line for line in stream if not line.startswith("#")))
    eager = [{**r, "ms": r["eager_ms"], "mode": "eager"} for r in found if r["eager_ms"]]
    return found + eager


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run beside what was predicted of it."""

    group: str
    label: str
    measured_s: float
    bound_s: float
    estimate: EstimateResult

    @property
    def error(self) -> float:
        """Of the estimate, as a fraction of the measured time."""
        return self.estimate.time_s / self.measured_s - 1

    @property
    def bound_error(self) -> float:
        """Of the bound."""
        return self.bound_s / self.measured_s - 1

    @property
    def inside(self) -> bool:
        """Whether the run lies in the stated band."""
        return self.estimate.low_s <= self.measured_s <= self.estimate.high_s


def outcomes(table: Path, hardware: Hardware) -> list[Outcome]:
    """Every run of a table, predicted.

    Raises:
        RooflineError: the profile carries no parameters for one of the kernels.
    """
    found = []
    for row in rows_of(table):
        totals = analyze(workload_of(row), hardware).totals
        if totals.estimate is None or totals.bound is None:
            raise RooflineError(f"no estimate of {row['model']}: {totals.unavailable}")
        group = " ".join(word for word in (row["phase"], row["attn"], row["mode"]) if word)
        label = f"{row['model']}, batch {row['batch']}, {row['seq'] or row['ctx']}"
        seconds = float(row["ms"]) / 1e3
        found.append(Outcome(group=group, label=label, measured_s=seconds, bound_s=totals.bound.time_s, estimate=totals.estimate))
    return found


def main() -> None:
    """Print the table, and the error by phase."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("-H", "--hardware", default="h200-sxm")
    options = parser.parse_args()
    found = outcomes(options.table, load_hardware(options.hardware))
    print("phase; run; measured ms; bound ms; estimate ms; band ms; error; limited by")
    for o in found:
        e = o.estimate
        measured, bound, time, low, high = (f"{1e3 * t:.3f}" for t in (o.measured_s, o.bound_s, e.time_s, e.low_s, e.high_s))
        print("; ".join((o.group, o.label, measured, bound, time, f"{low}-{high}", f"{o.error:+.1%}", str(e.limiter))))
    for group in dict.fromkeys(o.group for o in found):
        runs = [o for o in found if o.group == group]
        mean, inside = sum(abs(o.error) for o in runs) / len(runs), sum(o.inside for o in runs)
        worst = max(runs, key=lambda o: abs(o.error)).error
        print(f"# {group}: {len(runs)} runs, mean absolute error {mean:.1%}, worst {worst:+.1%}, {inside} inside the band")


if __name__ == "__main__":
    main()
