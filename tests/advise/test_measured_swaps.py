"""The advised swap of naive for flash attention against decoders measured in both forms on one H200: within 10 % end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.whole_models import rows_of, workload_of
from roofline.decide.advise.effects import evaluated, state_of
from roofline.decide.advise.situation import Situation
from roofline.report.advice import Tried
from roofline.workload.packed import fed
from tests.advise.conftest import change_of

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "results" / "tables" / "h200-sxm" / "models.csv"
GOAL = 0.10

Pair = tuple[dict[str, str], dict[str, str]]


def pairs() -> list[Pair]:
    """Prefills that were run with naive attention and with flash."""
    found: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows_of(TABLE):
        if row["phase"] == "prefill":
            found.setdefault((row["model"], row["batch"], row["seq"]), {})[row["attn"]] = row
    return [(f["naive"], f["flash"]) for f in found.values() if "naive" in f and "flash" in f]


def label(pair: Pair) -> str:
    """The shape."""
    return "-".join(pair[0][k] for k in ("model", "batch", "seq"))


def test_there_are_at_least_four_shapes():
    """What the goal asks for."""
    assert len(pairs()) >= 4


@pytest.mark.parametrize("pair", pairs(), ids=label)
def test_the_advised_swap_predicts_the_measured_speedup(pair, h200):
    """Predicted end to end, with the copies that only the naive form needs."""
    naive, flash = pair
    now = Situation(workload=workload_of(naive), hardware=h200)
    found = evaluated(change_of(now, "flash"), state_of(now), "estimate")
    assert not isinstance(found, Tried)
    measured = float(naive["ms"]) / float(flash["ms"])
    assert found.basis == "estimate"
    assert found.gain.speedup / measured - 1 == pytest.approx(0, abs=GOAL)
    assert found.after.now.workload.steps == fed(workload_of(flash).steps), "the steps of the run it is held against"
