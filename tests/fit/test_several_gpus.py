"""Two H200s: collectives by the links calibrated on them, and decoders over both, each within its goal."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median

import pytest

from roofline.models.count import all_weights
from roofline.report.store import load_report
from roofline.spec.hardware import load_hardware

ROOT = Path(__file__).parent.parent.parent
PAIR = ROOT / "results" / "h200-x2"
sys.path.insert(0, str(ROOT / "benchmarks"))

from sharded_predicted import READ_OFF, Outcome, decoder, outcomes, steps_of  # noqa: E402
from whole_models import MODELS  # noqa: E402


@pytest.fixture(scope="module")
def found() -> list[Outcome]:
    return outcomes(PAIR / "sharded.csv", load_hardware(str(PAIR / "h200-x2.yaml")), 24)


def test_collectives_measured_after_their_calibration_are_met() -> None:
    """Goal: 15 % in the median. These sizes but the largest were in no fit."""
    rows = [r for r in load_report(str(PAIR / "collectives.json")).rows if r.measured and r.measured.time_s and r.estimate]
    errors = [abs(r.estimate.time_s / r.measured.time_s - 1) for r in rows if r.estimate and r.measured]
    assert len(errors) == 60
    assert median(errors) < 0.06
    for kind in {r.op for r in rows}:
        assert median(e for e, r in zip(errors, rows, strict=True) if r.op == kind) < 0.15, kind


@pytest.mark.parametrize(
    ("way", "phase", "runs", "goal"),
    [("tp", "prefill", 5, 0.10), ("tp", "decode", 6, 0.10), ("ddp", "train", 5, 0.10), ("fsdp", "train", 6, 0.10)],
)
def test_sharded_decoders_are_met(found: list[Outcome], way: str, phase: str, runs: int, goal: float) -> None:
    errors = [abs(o.error) for o in found if (o.row["way"], o.row["phase"]) == (way, phase) and not o.read_off]
    assert len(errors) == runs
    assert sum(errors) / len(errors) < goal


def test_exposed_communication_of_tensor_parallelism_is_met(found: list[Outcome]) -> None:
    """Apart from the whole: within a quarter on average, and never the wrong order of magnitude."""
    ratios = []
    for o in found:
        if o.row["way"] == "tp" and o.exposed_ms is not None:
            measured, predicted = o.exposed_ms
            ratios.append(predicted / measured)
    assert len(ratios) == 11
    assert sum(abs(r - 1) for r in ratios) / len(ratios) < 0.25
    assert all(0.5 < r < 2 for r in ratios)


def test_no_run_beats_its_bound(found: list[Outcome]) -> None:
    assert all(o.measured_s > o.bound_s for o in found)


def test_the_run_that_a_figure_is_read_off_is_one_and_no_test(found: list[Outcome]) -> None:
    (run,) = [o for o in found if o.read_off]
    assert (run.row["way"], run.row["model"], run.row["batch"]) == READ_OFF
    assert run.error == pytest.approx(0, abs=1e-9)


def test_the_ranks_of_a_split_product_add_up_to_the_whole() -> None:
    """Independent count: the FLOP of products of two ranks are those of one device."""
    row = {"way": "tp", "model": "llama3-8b", "phase": "prefill", "batch": "1", "context": "", "seq": "512"}
    one, two = (sum(s.op.counts().tensor * s.repeat for s in steps_of(row, n) if s.op.name == "gemm") for n in (1, 2))
    assert 2 * two == one


def test_data_parallel_ranks_exchange_every_gradient_once() -> None:
    """DDP adds up 2 bytes for each weight but the norms', FSDP2 scatters as many."""
    row = {"model": "llama3.2-1b", "phase": "train", "batch": "1", "seq": "512"}
    weights = 2 * (16 * (3072 * 2048 + 2048 * 2048 + 3 * 8192 * 2048) + 2 * 128256 * 2048)
    ddp = [s.op for s in steps_of({**row, "way": "ddp"}, 2) if s.op.name == "all_reduce"]
    fsdp = [s.op for s in steps_of({**row, "way": "fsdp"}, 2) if s.op.name == "reduce_scatter"]
    assert sum(op.size for op in ddp) == sum(op.size for op in fsdp) == weights  # type: ignore[attr-defined]


# --------------------------------------------------------------------------- pipelines
@pytest.fixture(scope="module")
def staged() -> list[Outcome]:
    return outcomes(PAIR / "pipeline.csv", load_hardware(str(PAIR / "h200-x2.yaml")), 24)


def test_a_plan_takes_the_decoder_that_was_run() -> None:
    """Independent count of its weights."""
    for name in ("llama3.2-1b", "llama3-8b"):
        assert sum(w.elements for w in all_weights(decoder(name))) == MODELS[name].parameters


@pytest.mark.parametrize(("phase", "runs", "goal"), [("prefill", 8, 0.10), ("decode", 6, 0.10)])
def test_decoders_in_two_stages_are_met(staged: list[Outcome], phase: str, runs: int, goal: float) -> None:
    errors = [abs(o.error) for o in staged if (o.row["way"], o.row["phase"]) == ("pp", phase)]
    assert len(errors) == runs
    assert sum(errors) / len(errors) < goal
    assert all(o.measured_s > o.bound_s for o in staged)


def test_which_number_of_parts_is_quickest_is_told_right(staged: list[Outcome]) -> None:
    """The decision that a plan is asked for: of each model and phase the predicted best is at most 5 % slower than the measured one.

    One run stands apart: a single prompt through eight layers of the smallest model takes less time than its launches and sends do on
    the host, which the estimate does not see (-15.9 %).
    """
    slow = [o for o in staged if abs(o.error) > 0.10]
    assert [(o.row["model"], o.row["phase"], o.row["microbatches"]) for o in slow] == [("llama3.2-1b", "prefill", "8")]
    for case in {(o.row["model"], o.row["phase"]) for o in staged}:
        runs = [o for o in staged if (o.row["model"], o.row["phase"]) == case and o not in slow]
        chosen = min(runs, key=lambda o: o.predicted_s)
        assert chosen.measured_s < 1.05 * min(o.measured_s for o in runs), case


def test_the_filling_of_a_pipeline_is_met(staged: list[Outcome]) -> None:
    """What a prefill takes longer than its stages alone, a half to an eighth of it: within a quarter on average."""
    waits = [o.exposed_ms for o in staged if o.row["phase"] == "prefill"]
    ratios = [predicted / measured for measured, predicted in filter(None, waits)]
    assert len(ratios) == 8
    assert sum(abs(ratio - 1) for ratio in ratios) / len(ratios) < 0.25
