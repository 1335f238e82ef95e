"""`benchmarks/training_memory.py`: what is predicted of a row, by hand; the committed tables beside it; and a run that counts no memory."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from benchmarks import training_memory as bench  # noqa: E402
from benchmarks import training_memory_predicted as predicted  # noqa: E402

TABLES = (*(f"results/h200/memory{name}.csv" for name in ("", "_kept", "_ddp", "_ddp_second")), "results/h200-x2/memory_fsdp.csv")

LAYER = 2048 * 3072 + 2048 * 2048 + 3 * 2048 * 8192 + 2 * 2048
TABLE = 128256 * 2048
"""Parameters of llama3.2-1b: a layer, and the embedding or the head."""
COUNT = 16 * LAYER + 2 * TABLE + 2048


def row(**given: str) -> dict[str, str]:
    asked = {"way": "", "ranks": "1", "model": "llama3.2-1b", "phase": "train", "batch": "4", "seq": "2048", "recompute": "none"}
    return {**asked, "gradients": "freed", "step": "3", **dict.fromkeys((f"{name}_bytes" for name in bench.COUNTED), ""), **given}


def test_a_training_step_by_hand() -> None:
    """bf16 throughout; a token keeps 2 norms, four inputs of 2048, queries, keys and values, gate, up and their product, 4 B a row of
    attention and of each norm; 12 B a logit."""
    found = predicted.predicted(row())
    tokens = 4 * 2048
    kept = 2 * (2 * 2048 + 4) + 2 * (3 * 2048) + 2 * (2048 + 2 * 512) + 4 * 32 + 2 * (3 * 8192)
    behind = 2 * 2048 + 4 + 2 * 2048
    assert (found.weights, found.gradients, found.optimizer) == (2 * COUNT, 2 * COUNT, 4 * COUNT)
    assert found.activations == tokens * (16 * kept + behind + 8)
    assert found.logits == pytest.approx(12 * tokens * 128256, rel=1e-4)


def test_fully_sharded_ranks_share_all_and_gather_layers() -> None:
    found = predicted.predicted(row(way="fsdp", ranks="2"))
    assert found.weights + found.gradients + found.optimizer == 8 * COUNT / 2
    assert found.gathered == 2 * (TABLE + 2048)
    assert predicted.predicted(row(way="ddp", ranks="2")).needed == predicted.predicted(row()).needed


def test_a_loop_that_frees_its_gradients_has_none_at_the_loss() -> None:
    assert predicted.needed(row(gradients="kept")) - predicted.needed(row()) == 2 * COUNT
    assert predicted.needed(row(way="ddp")) == predicted.needed(row(gradients="kept"))


def test_a_row_is_shown_beside_its_prediction() -> None:
    text = predicted.beside(row(phase="decode", batch="32", seq="4096", peak_bytes="7.5e9"))
    weights, cache = 2 * COUNT / 1e9, 32 * 4096 * 16 * 2 * 512 * 2 / 1e9
    assert f"weights {weights:.3f}" in text
    assert f"kv_cache {cache:.3f}" in text
    assert "measured 7.500 GB" in text


def test_what_is_named_beyond_the_count_by_hand() -> None:
    """A token of a layer of the 1B: silu(gate) 2 x 8192, queries and keys 2 x 2560, attention's result 2 x 2048. Torch's own saved tensors
    of one layer were seen to come to 101,640 B a token, 128 of which are the tables of the rotation: 75,912 counted and 25,600 named."""
    tokens = 4 * 2048
    assert predicted.beyond(row()) == tokens * 16 * 25_600
    assert predicted.predicted(row(batch="1", seq="1", model="llama3.2-1b")).activations == 16 * 75_912 + 2 * 2048 + 4 + 2 * 2048 + 8
    assert predicted.beyond(row(model="gpt2-medium-like")) == tokens * 24 * (2 * 2048 + 2 * 1024)
    assert predicted.beyond(row(phase="prefill")) == tokens * (2 * 8192 + 2 * 2048)
    assert predicted.beyond(row(recompute="full")) == predicted.beyond(row(phase="decode")) == 0
    assert predicted.beyond(row(recompute="full", way="fsdp")) == 2 * TABLE


def measured() -> list[dict[str, str]]:
    return [found for name in TABLES for found in predicted.rows_of(ROOT / name)]


@pytest.mark.parametrize(
    "found", measured(), ids=lambda r: f"{r['way']}-{r['model']}-{r['phase']}-{r['batch']}-{r['recompute']}-{r['step']}"
)
def test_nothing_measured_needs_less_and_what_needs_more_is_named(found: dict[str, str]) -> None:
    """H200, torch 2.11. In DDP's second step the old buckets may still be there beside the new ones."""
    peak, least = float(found["peak_bytes"]), predicted.needed(found)
    twice = float(predicted.predicted(found).gradients) if found["step"] == "2" else 0
    assert least <= 1.0005 * peak
    assert 0.99 * peak - twice <= least + predicted.beyond(found) <= 1.0005 * peak


def test_the_page_shows_the_table() -> None:
    assert predicted.table(measured()) in (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")


def test_every_case_runs_on_a_cpu_and_has_a_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    table = tmp_path / "memory.csv"
    monkeypatch.setattr(sys, "argv", ["training_memory.py", "--device", "cpu", "-o", str(table)])
    bench.main()
    rows = predicted.rows_of(table)
    assert len(rows) == len(bench.CASES)
    assert all(not r["peak_bytes"] for r in rows)
    assert all(predicted.predicted(r).needed > 0 for r in rows)
    with table.open(encoding="utf-8") as stream:
        assert next(csv.reader([stream.readlines()[1]])) == list(bench.HEADER)
