"""What rows say of memory: of a training step never that it fits, and too much only where it is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofline.ops import OPERATORS
from roofline.report.resident import Resident, resident
from roofline.workload.workload import Step
from tests.commands import report, run  # noqa: F401  (fixtures)


def step(name: str, op: str, *, direction: str = "forward", repeat: int = 1, **fields: Any) -> Step:
    made = OPERATORS[op](**{"dtype": "bf16", **fields})  # type: ignore[call-arg]
    return Step(id=name, op=made, direction=direction, repeat=repeat)


def needs(*steps: Step) -> Resident:
    return resident((s, s.ops()) for s in steps)


def said(verdict: Any) -> bool | None:
    return None if math.isnan(verdict) else bool(verdict)


PRODUCT = {"m": 100, "n": 2000, "k": 1000}
PARAMETERS = 3 * 2000 * 1000


def test_an_optimizer_keeps_its_states_beside_weights_that_are_counted_once() -> None:
    """Three products of 2e6 weights; masters and moments 12 B a parameter stay, and gradients are the largest operands: 16 B in all."""
    found = needs(step("product", "gemm", repeat=3, **PRODUCT), step("optimizer", "adamw", parameters=PARAMETERS, master=True))
    assert (found.weights, found.states, found.activations) == (2 * PARAMETERS, 12 * PARAMETERS, 2 * PARAMETERS)
    assert found.needed == 16 * PARAMETERS
    plain = needs(step("product", "gemm", repeat=3, **PRODUCT), step("optimizer", "adamw", parameters=PARAMETERS))
    assert plain.needed == (2 + 4 + 2) * PARAMETERS
    descent = needs(step("product", "gemm", repeat=3, **PRODUCT), step("optimizer", "sgd", parameters=PARAMETERS))
    assert descent.needed == (2 + 2) * PARAMETERS


def test_a_training_step_is_known_not_to_fit_or_nothing_is_known() -> None:
    forward, both = needs(step("p", "gemm", **PRODUCT)), needs(step("p", "gemm", direction="forward+backward", **PRODUCT))
    for found, enough in ((forward, True), (both, None)):
        needed = float(found.needed)
        assert [said(found.verdict(size)) for size in (needed, needed - 1, None)] == [enough, False, None]
    assert needs(step("optimizer", "adamw", parameters=10)).training


def test_of_weights_that_are_brought_together_only_shares_stay() -> None:
    """Three products of 4e6 B on 8 ranks: each keeps an eighth of those that are gathered, and one is whole at a time, in any phase."""
    brought = {"size": 4_000_000, "ranks": 8, "over": "nvlink"}
    gather, plain = (step("gather", "all_gather", repeat=3, sharded_weights=s, **brought) for s in (True, False))
    product, trained = (step("p", "gemm", repeat=3, direction=d, **PRODUCT) for d in ("forward", "forward+backward"))
    for each in (product, trained):
        for found, stay in ((needs(gather, each), 1_500_000), (needs(replace(gather, repeat=1), each), 8_500_000)):
            assert (found.weights, found.weights - found.gathered) == (12_000_000, stay)
    assert needs(gather, product).needed == 1_500_000 + 4_000_000
    assert needs(plain, product).needed == 12_000_000 + 4_500_000
    assert needs(gather, replace(gather, id="again"), product).needed == 4_000_000  # once for either pass: no more than all


@pytest.mark.parametrize(
    ("model", "plan"),
    [
        ("llama-3-8b", "tp=8,sp"),  # inputs of products, gathered over tp
        ("mixtral-8x7b", "tp=8,etp=2,ep=4,sp"),  # rows of experts
        ("llama-3-8b", "cp=8,context=all_gather"),  # keys and values
        ("llama-3-8b", "dp=8,zero=1"),  # weights, which stay
    ],
)
def test_gathers_of_activations_and_of_weights_that_stay_shard_nothing(
    report: Any,  # noqa: F811
    run: Any,  # noqa: F811
    tmp_path: Path,
    model: str,
    plan: str,
) -> None:
    """All weights of the rank's parameters stay, and the whole of them is counted."""
    totals = imported(report, run, tmp_path, model, plan)["totals"]
    memory = totals["memory"]
    assert "all_gather" in (tmp_path / "imported.yaml").read_text(encoding="utf-8")
    assert (memory["weight_bytes"], memory["gathered_bytes"]) == (2 * totals["parameters"], 0)
    parts = ("weight_bytes", "cache_bytes", "activation_bytes", "optimizer_bytes")
    assert memory["needed_bytes"] == sum(memory[part] for part in parts)


def test_weights_of_zero_3_are_counted_and_not_said_to_stay(report: Any, run: Any, tmp_path: Path) -> None:  # noqa: F811
    """8.03e9 parameters: 16.06 GB are whole one layer at a time; masters and moments of an eighth, 12.05 GB, stay."""
    totals = imported(report, run, tmp_path, "llama-3-8b", "dp=8,zero=3")["totals"]
    memory = totals["memory"]
    assert memory["weight_bytes"] == memory["gathered_bytes"] == 2 * 8_030_261_248
    assert memory["needed_bytes"] == memory["optimizer_bytes"] + memory["activation_bytes"]
    assert memory["optimizer_bytes"] == 12 * 8_030_261_248 / 8
    text = run("analyze", str(tmp_path / "imported.yaml"), "-H", "h100-sxm").stdout
    assert "(weights 16.06 GB less 16.06 GB that are gathered, caches" in text


def test_adapters_beside_frozen_weights_that_are_too_large_do_not_fit(report: Any, run: Any, tmp_path: Path) -> None:  # noqa: F811
    """Weights of 405e9 parameters on 8 ranks are 101.7 GB with adapters: sequence parallelism gathers activations alone."""
    found = {plan: imported(report, run, tmp_path, "llama-3.1-405b", plan, "--lora-rank", "8") for plan in ("tp=8", "tp=8,sp")}
    for one in found.values():
        assert one["totals"]["memory"]["weight_bytes"] == pytest.approx(101.7e9, rel=1e-3)
        assert one["totals"]["memory"]["fits"] is False


def imported(report: Any, run: Any, tmp_path: Path, model: str, plan: str, *more: str) -> Any:  # noqa: F811
    """The report of one rank of a training step, of the file that is written for it."""
    path = tmp_path / "imported.yaml"
    path.unlink(missing_ok=True)
    run("import", "hf", model, "--phase", "train", "--plan", plan, "--cluster", "dgx-h100", "-o", str(path), *more)
    return report("analyze", str(path), "-H", "h100-sxm")


def test_arrays_of_sizes_give_what_single_ones_give() -> None:
    sizes = np.array([1.0, 64.0, 4096.0])
    many = needs(step("p", "gemm", repeat=2, m=sizes, n=512, k=256))
    each = [needs(step("p", "gemm", repeat=2, m=int(m), n=512, k=256)) for m in sizes]
    assert np.broadcast_to(many.needed, 3).tolist() == [one.needed for one in each]
    between = float(each[1].needed)
    for found, singles in ((many, each), (replace(many, training=True), [replace(one, training=True) for one in each])):
        assert [said(v) for v in np.broadcast_to(found.verdict(between), 3)] == [said(one.verdict(between)) for one in singles]


# --------------------------------------------------------------------------- commands
TRAIN = "schema: 1\nmodel: llama-3-8b\nphase: train\nparams: {batch: 1, seq: 1024}\n"


@pytest.fixture
def train(tmp_path: Path) -> str:
    (tmp_path / "train.yaml").write_text(TRAIN, encoding="utf-8")
    return str(tmp_path / "train.yaml")


def test_analyze_says_that_it_cannot_say(report: Any, run: Any, train: str) -> None:  # noqa: F811
    """128.5 GB of states and gradients on a device of 141: activations would decide."""
    totals = report("analyze", train, "-H", "h200-sxm")["totals"]
    assert totals["memory"]["needed_bytes"] == 16 * 8_030_261_248
    assert (totals["memory"]["fits"], totals["memory"]["shortfall_bytes"]) == (None, None)
    assert "roofline memory MODEL --phase train" in totals["unavailable"]["fits"]
    text = run("analyze", train, "-H", "h200-sxm").stdout
    assert "Memory: at least 128.5 GB of 141.0 GB" in text
    assert ": fits" not in text


def test_analyze_knows_when_it_is_too_much_already(report: Any, run: Any, train: str) -> None:  # noqa: F811
    found = report("analyze", train, "-H", "h100-sxm")
    assert found["totals"]["memory"]["fits"] is False
    assert "fits" not in found["totals"]["unavailable"]
    assert "DOES NOT FIT: 128.5 GB needed" in run("analyze", train, "-H", "h100-sxm").stdout


def test_an_assertion_that_a_training_step_fits_does_not_hold_and_says_why(run: Any, tmp_path: Path) -> None:  # noqa: F811
    path = tmp_path / "expected.yaml"
    path.write_text(TRAIN + "hardware: h200-sxm\nexpect:\n  total.fits: true\n", encoding="utf-8")
    assert "roofline memory MODEL --phase train" in run("budget", str(path), code=1).output


def test_a_sweep_of_training_steps_says_no_or_nothing(report: Any, run: Any, train: str) -> None:  # noqa: F811
    found = report("sweep", train, "-H", "h200-sxm", "--set", "batch=1,2,64")
    points = found["points"]
    assert "roofline memory MODEL --phase train" in found["unavailable"]["fits"]
    assert [(c["before"], c["after"]) for c in found["crossings"] if c["what"] == "fits"] == [("unknown", "does not fit")]
    text = run("sweep", train, "-H", "h200-sxm", "--set", "batch=1,2,64", "--tokens", "batch").stdout
    assert "It does not fit from batch = 19 on." in text
    assert "Most tokens a second of the points that may fit: " in text
    assert [p["fits"] for p in points] == [None, None, False]


def test_the_cost_of_training_steps_says_no_or_nothing(report: Any, train: str) -> None:  # noqa: F811
    """As a sweep, which it is made of; with the reason."""
    found = report(
        "cost", "serving", train, "-H", "h200-sxm", "--set", "batch=1,64", "--tokens", "batch", "--price", "2/h", "--devices", "1"
    )
    assert [p["fits"] for p in found["points"]] == [None, False]
    assert [p["shortfall_bytes"] is None for p in found["points"]] == [True, False]
    assert any("roofline memory MODEL --phase train" in w["message"] for w in found["warnings"])


def test_the_largest_batch_of_a_training_step_is_asked_elsewhere(run: Any, train: str) -> None:  # noqa: F811
    assert "roofline memory MODEL --phase train" in run("analyze", train, "-H", "h200-sxm", "--largest", "batch", code=2).stderr
