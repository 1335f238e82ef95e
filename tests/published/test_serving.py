"""Published figures on serving and on failures come out of the code: through the bound with the stated bytes, and through whole models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofline.decide.crossovers import crossings
from roofline.decide.failures import observed_mtbf_s
from roofline.decide.sweep import Asked, sweep
from roofline.ops.base import work_of
from roofline.ops.custom import Custom
from roofline.predict.bound import bound, machine_of
from roofline.spec.axes import read_axes
from roofline.spec.hardware import load_hardware
from roofline.spec.source import Source
from tests.published.devices import with_bandwidth, with_peak

FILE = Path(__file__).parent.parent / "data" / "published" / "serving.yaml"
FACTS: dict[str, dict[str, Any]] = {fact["id"]: fact for fact in yaml.safe_load(FILE.read_text(encoding="utf-8"))["facts"]}
UNITS = {"ms": 1e-3, "h": 3600.0, "GB": 1e9, "FLOP/B": 1.0, "tok/s": 1.0, "sequences": 1.0, "1/s": 1.0}

LLAMA_2_13B = """schema: 1
name: Llama-2-13B, one decoding step, one of eight devices
hardware: tpu-v5e
dtype: bf16
params: {batch: 1, context: 8192, tp: 8, layers: 40, hidden: 5120, heads: 40, kv_heads: 40, ffn: 13824, vocab: 32000}
steps:
  - {id: embedding, op: embedding, tokens: batch, vocab: vocab / tp, hidden: hidden}
  - {id: qkv, op: gemm, m: batch, n: 3 * hidden / tp, k: hidden, repeat: layers}
  - id: attention
    op: attention
    batch: batch
    heads: heads / tp
    kv_heads: kv_heads / tp
    q_len: 1
    kv_len: context
    head_dim: 128
    cache: true
    repeat: layers
  - {id: out, op: gemm, m: batch, n: hidden, k: hidden / tp, repeat: layers}
  - {id: gate_up, op: gemm, m: batch, n: 2 * ffn / tp, k: hidden, repeat: layers}
  - {id: down, op: gemm, m: batch, n: hidden, k: ffn / tp, repeat: layers}
  - {id: head, op: gemm, m: batch, n: vocab / tp, k: hidden}
"""

LLAMA_3_70B = """schema: 1
name: Llama-3-70B, one decoding step, one of sixteen devices, of which two share a key head and hold half of its tokens each
hardware: tpu-v5e
dtype: bf16
params: {batch: 1, context: 8192, tp: 16, layers: 80, hidden: 8192, ffn: 28672, vocab: 128256}
steps:
  - {id: embedding, op: embedding, tokens: batch, vocab: vocab / tp, hidden: hidden}
  - {id: qkv, op: gemm, m: batch, n: (64 + 16) * 128 / tp, k: hidden, repeat: layers}
  - id: attention
    op: attention
    batch: batch
    heads: 64 / tp
    kv_heads: 1
    q_len: 1
    kv_len: context / 2
    head_dim: 128
    cache: true
    repeat: layers
  - {id: out, op: gemm, m: batch, n: hidden, k: hidden / tp, repeat: layers}
  - {id: gate_up, op: gemm, m: batch, n: 2 * ffn / tp, k: hidden, repeat: layers}
  - {id: down, op: gemm, m: batch, n: hidden, k: ffn / tp, repeat: layers}
  - {id: head, op: gemm, m: batch, n: vocab / tp, k: hidden}
"""


def step_s(inputs: dict[str, Any]) -> float:
    """The bound of a step that reads the stated weights and caches, a share of them on each device."""
    hardware = with_bandwidth(load_hardware("tpu-v5e"), inputs["bw"])
    moved = (inputs["batch"] * inputs["kv_gb_per_seq"] + inputs["params_gb"]) * 1e9 / inputs["chips"]
    op = Custom(read=moved, dtype="bf16")
    return float(bound(work_of(op, machine_of(hardware)), hardware).time_s)


def rate(inputs: dict[str, Any]) -> float:
    """Tokens a second of all devices, one a sequence and step."""
    return float(inputs["batch"] / step_s(inputs))


def interruptions(inputs: dict[str, Any]) -> float:
    """Time from one to the next."""
    return observed_mtbf_s(inputs["days"] * 86400, inputs["interruptions"])


def ratio(inputs: dict[str, Any]) -> float:
    """The ridge: FLOP that take as long as a byte."""
    hardware = with_peak(with_bandwidth(load_hardware("a100-sxm-40gb"), inputs["bw"]), inputs["peak"])
    op = Custom(read=1e12, tensor_flop=1e12, dtype="bf16")
    times = bound(work_of(op, machine_of(hardware)), hardware).per_resource_s
    return float(times["hbm"] / times["tensor"])


def memory(inputs: dict[str, Any]) -> float:
    """Weights and caches resident: a step's own account of them."""
    kept = inputs["kv_per_token"] * inputs["seq"] * inputs["batch"]
    op = Custom(read=inputs["params"] + kept, weights=int(inputs["params"]), cache=int(kept), dtype="int8")
    return float(sum(t.bytes for t in op.tensors() if t.role in ("weight", "cache")))


def load(inputs: dict[str, Any]) -> float:
    """Weights streamed once from the memory of all devices."""
    return step_s({"batch": 0, "kv_gb_per_seq": 0, "params_gb": inputs["bytes"] / 1e9, "chips": inputs["chips"], "bw": inputs["bw"]})


def caches(inputs: dict[str, Any]) -> float:
    """How many sequences fit: where a sweep of the batch no longer does."""
    text = f"""schema: 1
hardware: tpu-v5e
dtype: int8
params: {{batch: 1}}
steps:
  - id: step
    op: custom
    read: 1 B
    weights: {int(inputs["params_gb"] * 1e9 / inputs["chips"])}
    cache: batch * {int(inputs["kv_per_token"] * inputs["context"] / inputs["chips"])} B
"""
    fixed, axes = read_axes(["batch=1..1024:x2"])
    asked = Asked(source=Source("w.yaml", text), overrides=tuple(fixed), axes=tuple(axes))
    (only,) = [c for c in crossings(asked, sweep(asked)) if c.what == "fits"]
    assert only.at is not None
    return only.at - 1


def queries(inputs: dict[str, Any]) -> float:
    """Queries a second a chip: a step reads the whole memory, and each sequence needs so many."""
    step = step_s({"batch": 0, "kv_gb_per_seq": 0, "params_gb": inputs["hbm_gb"], "chips": 1, "bw": inputs["bw"]})
    return float(inputs["batch"] / (step * inputs["tokens"] * inputs["chips"]))


COMPUTED: dict[str, Callable[[dict[str, Any]], float]] = {
    "llama3-interruptions": interruptions,
    "kipply-a100-ratio": ratio,
    "sb-70b-mem": memory,
    "sb-200b-load": load,
    **{name: step_s for name in FACTS if name.startswith("sb-13b") and "-step-" in name},
    **{name: rate for name in FACTS if name.startswith("sb-13b-rate")},
    **{name: caches for name in FACTS if name.startswith("sb-70b-caches")},
    **{name: queries for name in FACTS if name.startswith("sb-70b-qps")},
}


def test_every_fact_is_computed() -> None:
    assert set(COMPUTED) == set(FACTS)
    assert len(FACTS) == 23


@pytest.mark.parametrize("name", FACTS)
def test_the_code_gives_the_published_figure(name: str) -> None:
    fact = FACTS[name]
    found = COMPUTED[name](fact["inputs"]) / UNITS[fact["unit"]]
    tolerance = fact["tolerance"]
    assert abs(found - fact["expected"]) <= tolerance.get("abs", 0) + tolerance.get("rel", 0) * fact["expected"], f"{found} {fact['unit']}"


# --------------------------------------------------------------------------- through the operators of the whole model
def test_llama_2_13b_through_its_operators_is_within_two_percent_of_the_table() -> None:
    """The table rounds 13.0e9 parameters to 26 GB and leaves activations out; the operators read no embedding table."""
    fixed, axes = read_axes(["batch=1,8,16,32,64,240"])
    asked = Asked(source=Source("llama.yaml", LLAMA_2_13B), overrides=tuple(fixed), axes=tuple(axes))
    found = sweep(asked).figures["bound_s"] * 1e3
    published = [FACTS[f"sb-13b-step-{b}"]["expected"] for b in (1, 8, 16, 32, 64, 240)]
    assert found.tolist() == pytest.approx(published, rel=0.02)


def test_llama_3_70b_fills_sixteen_chips_at_the_published_batch() -> None:
    """43 caches of 8,192 tokens by the table, which rounds 327,680 B a token and 141 GB of weights down and leaves activations out."""
    fixed, axes = read_axes(["batch=1..64:x2"])
    asked = Asked(source=Source("llama.yaml", LLAMA_3_70B), overrides=tuple(fixed), axes=tuple(axes))
    (only,) = [c for c in crossings(asked, sweep(asked)) if c.what == "fits"]
    assert only.at is not None
    assert only.at - 1 == pytest.approx(FACTS["sb-70b-caches-bf16"]["expected"], abs=1)
