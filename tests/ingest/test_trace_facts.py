"""Four public traces: what their provenance states, and what can be counted by hand in them."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from roofline.ingest.trace_report import ingest_trace
from roofline.ingest.trace_steps import steps_of
from roofline.report.trace import TraceReport

TRACES = Path(__file__).parent.parent / "data" / "traces"
B200, GRAPH = "b200_vllm_eager", "mi300x_vllm_decode_graph"
NORMS, DDP = "mi300x_norm_layers_fwd_bwd", "a100_ddp_nccl_2ranks"
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


@cache
def report(name: str, steps: str | None = None) -> TraceReport:
    return ingest_trace(str(TRACES / f"{name}.pt.trace.json.gz"), steps=steps)


@cache
def events(name: str) -> list[dict[str, Any]]:
    """The events, read by the standard library: an independent count."""
    found: list[dict[str, Any]] = json.loads(gzip.decompress((TRACES / f"{name}.pt.trace.json.gz").read_bytes()))["traceEvents"]
    return found


@pytest.mark.parametrize(
    ("name", "kernels", "gpu_ms", "count"),
    [(B200, 768, 10.86, 24_656), (GRAPH, 425, 10.67, 1_993), (NORMS, 168, 0.992, 8_500), (DDP, 2700, 162.5, 40_573)],
)
def test_kernels_and_their_time(name: str, kernels: int, gpu_ms: float, count: int) -> None:
    """As the provenance states them."""
    found = report(name)
    assert (found.kernels, found.events) == (kernels, count)
    assert found.gpu_time_s * 1e3 == pytest.approx(gpu_ms, rel=1e-3)


@pytest.mark.parametrize("name", [B200, GRAPH, NORMS, DDP])
def test_every_event_of_the_gpu_is_in_one_row(name: str) -> None:
    """Sums of rows are sums of events, kernels and copies alike."""
    of_gpu = [e for e in events(name) if e.get("cat") in GPU and e["ph"] == "X"]
    found = report(name)
    assert sum(r.kernels for r in found.rows) == found.kernels
    assert sum(r.time_s for r in found.rows) == pytest.approx(sum(e["dur"] for e in of_gpu) * 1e-6)
    assert found.copies == sum(e["cat"] != "kernel" for e in of_gpu)
    assert sum(r.share for r in found.rows) == pytest.approx(1)


def test_a_replayed_graph_is_hardly_covered() -> None:
    """421 of 425 kernels share one call: the four others are 2.7 % of the time, and the report says so first."""
    found = report(GRAPH)
    assert found.coverage == pytest.approx(0.027, abs=0.0006)
    assert sum(r.kernels for r in found.rows if r.unknown and "graph" in r.unknown) == 421
    assert "W103" in {w.code for w in found.warnings}


def test_without_shapes_there_are_no_flop() -> None:
    """Nothing of an operator without shapes is given, least of all a zero; messages of collectives are recorded and known."""
    found = report(DDP)
    unknown = [r for r in found.rows if r.unknown == "no shapes are recorded"]
    assert {"aten::cudnn_convolution", "aten::addmm", "aten::mm"} <= {r.name for r in unknown}
    for row in unknown:
        assert row.flop is row.hbm_bytes is row.bound_s is row.share_of_roof is row.intensity_flop_per_byte is None
    assert {r.lane for r in found.rows if not r.unknown} == {"communication", "copy"}
    assert {"W104"} == {w.code for w in found.warnings}


def test_norms_are_covered_whole() -> None:
    """Forward and backward of batch, layer, group, instance and RMS norm."""
    found = report(NORMS)
    assert found.coverage == 1
    assert {r.gradient_of for r in found.rows} >= {"aten::layer_norm", "aten::group_norm", "aten::rms_norm", "aten::batch_norm"}
    layer = next(r for r in found.rows if r.name == "aten::native_layer_norm" and r.work[0].fields["cols"] == 16 * 32 * 32)
    assert layer.work[0].fields["rows"] == 8
    assert layer.hbm_bytes == pytest.approx(2 * 4 * 8 * 16 * 32 * 32, rel=0.3)  # x and y in fp32, and the weights where there are


def test_an_all_reduce_by_hand() -> None:
    """2 049 000 floats among two ranks: 8 196 000 bytes, of which a ring sends 2 (n - 1) / n, that is all."""
    row = next(r for r in report(DDP).rows if r.name == "allreduce" and r.work[0].fields["size"] == 8_196_000)
    assert row.work[0].op == "all_reduce"
    assert row.work[0].fields["ranks"] == 2
    assert row.link_bytes == 8_196_000


def test_ring_all_reduces_take_46_8_ms() -> None:
    rows = [r for r in report(DDP).rows if r.name == "allreduce"]
    assert sum(r.time_s for r in rows) == pytest.approx(46.8e-3, rel=1e-3)


def test_a_product_by_hand() -> None:
    """``mm`` of [1, 2880] and [2880, 25136] in bf16: 2 m n k FLOP, and each operand once."""
    row = next(r for r in report(B200).rows if r.name == "aten::mm")
    assert row.flop == {"tensor": 2 * 2880 * 25136, "vector": 0, "sfu": 0}
    assert row.hbm_bytes == 2 * (2880 + 2880 * 25136 + 25136)


def test_the_device_is_recognised_and_never_assumed() -> None:
    """Suggested where the name in the trace matches one profile; the graph trace has an empty name."""
    assert [report(n).suggested_hardware for n in (B200, NORMS, GRAPH, DDP)] == ["b200-sxm", "mi300x", None, None]
    assert all(report(n).hardware is None for n in (B200, NORMS, GRAPH, DDP))


@pytest.mark.parametrize("name", [B200, GRAPH, NORMS, DDP])
def test_the_critical_path_fills_the_window(name: str) -> None:
    """On one device the chain of events and waits is as long as the time from the first event to the last."""
    found = report(name)
    assert found.devices == 1
    assert found.critical_path.time_s == pytest.approx(found.window_s)
    assert found.busy_s + found.idle.time_s == pytest.approx(found.window_s)
    assert sum(found.idle.by_cause_s.values()) == pytest.approx(found.idle.time_s)
    assert found.busy_s <= found.gpu_time_s + found.copy_time_s


def test_communication_that_is_exposed() -> None:
    """Two streams: what of the all-reduces runs beside no other kernel, counted microsecond by microsecond."""
    step = report(DDP, "4")
    spans = {True: set(), False: set()}  # type: dict[bool, set[int]]
    marks = next(e for e in events(DDP) if e["name"] == "ProfilerStep#4" and e["cat"] == "user_annotation")
    calls = {e["args"]["correlation"]: e["ts"] for e in events(DDP) if e.get("cat") == "cuda_runtime"}
    for e in events(DDP):
        inside = e.get("cat") in GPU and marks["ts"] <= calls.get(e["args"]["correlation"], -1) < marks["ts"] + marks["dur"]
        if inside:
            spans["nccl" in e["name"]].update(range(round(e["ts"]), round(e["ts"] + e["dur"])))
    assert step.overlap.exposed_s == pytest.approx(len(spans[True] - spans[False]) * 1e-6, rel=0.01)
    assert step.overlap.both_s == pytest.approx(len(spans[True] & spans[False]) * 1e-6, rel=0.05)


def test_steps_are_told_apart() -> None:
    """Three marked steps of 900 kernels each; one of them alone has a third."""
    whole, one = report(DDP), report(DDP, "5")
    assert [(s.number, s.kernels) for s in whole.steps] == [(4, 900), (5, 900), (6, 900)]
    assert (one.kernels, one.selected_steps) == (900, (5,))
    assert one.window_s == pytest.approx(whole.steps[1].window_s)


def test_gradients_follow_their_sequence_numbers() -> None:
    """159 convolutions backward belong to ``conv2d``; they are the largest part of the backward phase."""
    row = next(r for r in report(DDP).rows if r.name == "aten::convolution_backward")
    assert (row.calls, row.phase, row.gradient_of) == (159, "backward", "aten::conv2d")
    assert set(report(DDP).by_phase_s) == {"forward", "backward", "optimizer"}


def test_steps_for_other_commands_carry_times() -> None:
    """Recognised operators as steps: as often as they ran, with the mean time of a run, in order."""
    found = report(NORMS)
    steps = steps_of(found)
    assert sum((s.measured_s or 0) * s.repeat for s in steps) == pytest.approx(found.known_time_s, rel=1e-6)
    assert [s.id for s in steps] == [r.id for r in sorted(found.rows, key=lambda r: r.order) if r.work]
