"""The committed traces of a small decoder on an H200: all of it is recognised, with the FLOP that a workload of the same run has."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchmarks.whole_models import MODELS, inference, training
from roofline.ingest.trace_decode import ARGUMENTS
from roofline.ingest.trace_report import ingest_trace
from roofline.ops.base import work_of
from roofline.report.trace import TraceReport, TraceRow
from roofline.spec.hardware import load_hardware
from roofline.workload.workload import Step

FOLDER = Path(__file__).parent.parent.parent / "results/h200/traces"
DIMS = replace(MODELS["llama3-8b"], layers=4, vocab=32000)
RUNS = {
    "prefill-flash": lambda: inference(DIMS, 1, 2048, 2048, "flash"),
    "prefill-naive": lambda: inference(DIMS, 1, 1024, 1024, "naive"),
    "decode-flash": lambda: inference(DIMS, 8, 1, 4096, "flash"),
    "train-flash": lambda: training(DIMS, 1, 1024),
}


@cache
def report(name: str) -> TraceReport:
    return ingest_trace(str(FOLDER / f"{name}.pt.trace.json.gz"), load_hardware("h200-sxm"))


def row(name: str, operator: str) -> TraceRow:
    (found,) = (r for r in report(name).rows if r.name == operator)
    return found


def accounted(steps: Iterable[Step]) -> float:
    return sum(float(work_of(op, None).counts.tensor) * step.repeat for step in steps for op in step.ops())


@pytest.mark.parametrize("name", RUNS)
def test_coverage_and_flop_of_products(name: str) -> None:
    """At least 95 % of the kernels' time, and two steps with the FLOP of the workload, which knows nothing of the trace."""
    found = report(name)
    assert found.coverage is not None
    assert found.coverage >= 0.95
    assert found.known_flop is not None
    assert len(found.steps) == 2
    assert found.known_flop["tensor"] / 2 == pytest.approx(accounted(RUNS[name]()), rel=1e-9)


def test_flop_of_naive_prefill_by_hand() -> None:
    """2 FLOP a weight and token, the head for one token, and two whole squares of attention a layer."""
    weights = 4 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336)
    by_hand = 2 * (1024 * weights + 4096 * 32000) + 4 * 2 * 2 * 1024 * 1024 * 4096
    assert (report("prefill-naive").known_flop or {})["tensor"] == 2 * by_hand


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_faster_than_its_bound_without_a_reason(name: str) -> None:
    """What is above the roof of HBM fits in L2 (W106)."""
    found = report(name)
    assert not [w for w in found.warnings if w.code != "W106"]
    for each in found.rows:
        assert (each.share_of_roof or 0) <= 1 or (each.hbm_bytes or 0) <= 50 * 2**20


def test_the_optimizer_has_every_parameter() -> None:
    """27 tensors, few enough to be recorded, and no list of maxima: exact."""
    found = row("train-flash", "aten::_fused_adamw_")
    assert found.work[0].fields["parameters"] == DIMS.parameters
    assert found.note is None


def test_a_look_up_reads_one_id_a_row() -> None:
    """``embedding`` runs as ``gather`` with ids spread over whole rows, 1024 x 4096 of them in shape and 1024 in memory."""
    found = row("prefill-naive", "aten::index_select")
    assert found.hbm_bytes == 8 * 1024 + 2 * 2 * 1024 * 4096
    assert "aten::gather" not in {r.name for r in report("prefill-naive").rows}


def test_zeros_are_counted_once() -> None:
    """The gradient of a picked value: ``fill_`` writes the zeros, the kernel of the loss one number a token."""
    found = row("train-flash", "aten::nll_loss_backward")
    assert found.hbm_bytes == 1024 * (8 + 4)
    assert any(r.work[0].fields.get("elements") == 1024 * 32000 for r in report("train-flash").rows if r.name == "aten::fill_")


@pytest.mark.parametrize("name", RUNS)
def test_nothing_of_the_machine_is_in_the_files(name: str) -> None:
    """Only fields that are read, and process numbers that are none."""
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{name}.pt.trace.json.gz").read_bytes()))
    assert set(found) == {"schemaVersion", "deviceProperties", "traceEvents"}
    events = found["traceEvents"]
    assert set().union(*events) <= {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args"}
    assert set().union(*(e["args"] for e in events)) <= set(ARGUMENTS.values())
    assert {e["pid"] for e in events} <= {0, 1}
