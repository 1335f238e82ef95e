"""What torch's own profiler writes here: operators of a training step on a CPU, given kernels, against torch's own count of FLOP."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from roofline.ingest.trace_report import ingest_trace
from roofline.report.trace import TraceReport

torch = pytest.importorskip("torch")
WIDTH, HEADS, TOKENS, BATCH, VOCAB = 32, 4, 16, 3, 50


def model() -> Any:
    """A block of attention by hand and a feed-forward layer, with an embedding and a loss."""
    layers = {
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
        "head": (WIDTH, VOCAB),
    }
    found = torch.nn.ModuleDict({name: torch.nn.Linear(*sizes) for name, sizes in layers.items()})
    found["table"], found["norm"] = torch.nn.Embedding(VOCAB, WIDTH), torch.nn.LayerNorm(WIDTH)
    return found


def loss_of(net: Any, ids: Any) -> Any:
    x = net["table"](ids)
    q, k, v = net["qkv"](net["norm"](x)).view(BATCH, TOKENS, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    scores = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS), -1)
    x = x + net["out"]((scores @ v).transpose(1, 2).reshape(BATCH, TOKENS, WIDTH))
    x = x + net["down"](torch.nn.functional.gelu(net["up"](x)))
    return torch.nn.functional.cross_entropy(net["head"](x).view(-1, VOCAB), ids.view(-1))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[TraceReport, int]:
    """A trace in which each innermost operator launched one kernel, and the FLOP that torch counted."""
    from torch.profiler import ProfilerActivity, profile
    from torch.utils.flop_counter import FlopCounterMode

    net, ids = model(), torch.arange(BATCH * TOKENS).view(BATCH, TOKENS) % VOCAB
    update = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
    counter = FlopCounterMode(display=False)
    with counter:
        loss_of(net, ids).backward()
    net.zero_grad()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        loss_of(net, ids).backward()
        update.step()
    path = tmp_path_factory.mktemp("torch") / "cpu.json"
    prof.export_chrome_trace(str(path))
    trace = json.loads(path.read_text())
    trace["traceEvents"] += _kernels([e for e in trace["traceEvents"] if e.get("cat") == "cpu_op"])
    path.write_text(json.dumps(trace))
    return ingest_trace(str(path)), counter.get_total_flops()


LAUNCHING = ("aten::addmm", "aten::mm", "aten::bmm")
"""What launches a kernel on a GPU though other operators run inside it on a CPU."""


def _kernels(operators: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A launch and a kernel for each operator inside which no other lies, and for products instead of what lies inside."""
    found = []
    products = [o for o in operators if o["name"] in LAUNCHING]
    others = [o for o in operators if not any(_inside(o, p) for p in products)]
    inner = [o for o in others if o in products or not any(_inside(other, o) for other in others)]
    for number, op in enumerate(sorted(inner, key=lambda o: o["ts"]), 1):
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": op["tid"], "ts": op["ts"], "dur": 0.1}
        kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1e9 + number, "dur": 1.0}
        numbers = {"correlation": number, "External id": op["args"]["External id"]}
        found += [{**call, "pid": op["pid"], "args": {"correlation": number}}, {**kernel, "args": numbers}]
    return found


def _inside(inner: dict[str, Any], outer: dict[str, Any]) -> bool:
    starts = inner["tid"] == outer["tid"] and outer["ts"] <= inner["ts"]
    return bool(starts and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] and inner["dur"] < outer["dur"])


def test_products_are_those_that_torch_counts(recorded: tuple[TraceReport, int]) -> None:
    """Forward and backward, by shapes alone."""
    report, counted = recorded
    assert report.known_flop is not None
    assert report.known_flop["tensor"] == counted


def test_products_are_those_of_the_model_by_hand(recorded: tuple[TraceReport, int]) -> None:
    """2 tokens parameters forward and twice that backward (the embedding takes no product), and four products of attention a pass."""
    weights = WIDTH * 3 * WIDTH + WIDTH * WIDTH + 2 * WIDTH * 4 * WIDTH + WIDTH * VOCAB
    attention = 2 * 2 * BATCH * TOKENS * TOKENS * WIDTH
    assert recorded[0].known_flop is not None
    assert recorded[0].known_flop["tensor"] == 3 * (2 * BATCH * TOKENS * weights + attention)


def test_phases_are_told_by_the_profiler(recorded: tuple[TraceReport, int]) -> None:
    report = recorded[0]
    assert set(report.by_phase_s) == {"forward", "backward", "optimizer"}
    gradients = {r.gradient_of for r in report.rows if r.name in ("aten::mm", "aten::bmm") and r.phase == "backward"}
    assert gradients == {"aten::addmm", "aten::bmm"}


def test_what_does_work_is_known(recorded: tuple[TraceReport, int]) -> None:
    """Of the operators that launch kernels on a GPU all are known; the others are views and allocations."""
    unknown = {r.name for r in recorded[0].rows if not r.work and r.name.startswith("aten::")}
    known = {r.name for r in recorded[0].rows if r.work}
    assert {"aten::_softmax", "aten::native_layer_norm", "aten::gelu", "aten::add", "aten::add_"} <= known
    assert {"aten::index_select", "aten::_log_softmax", "aten::nll_loss_forward", "aten::embedding_dense_backward"} & known
    assert not unknown & set(LAUNCHING)
