"""``roofline validate`` and ``roofline fit`` on measured tables: formats, gates, refusals, and a round through both."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from roofline.report.published import schema_of
from tests.fit.fakes import PROFILE, fake, set_text, toy, transposes, write_table

from .conftest import Run

__all__ = ["fake"]
pytestmark = pytest.mark.usefixtures("fake")


@pytest.fixture
def tables(folder: Path) -> Path:
    """A profile with a set, `transpose.csv`, which it explains within a third, and a table that it does not."""
    toy(folder, set_text("fake.transpose.torch.bf16", fixed="8.0e-6", share="0.6"))
    transposes(folder, name="transpose.csv")
    transposes(folder, name="transpose_far.csv", factor=3)
    return folder


def report(run: Run, *words: str) -> Any:
    """The JSON of a run, which fits the published schema."""
    found = json.loads(run("validate", *words, "-H", "toy.yaml", "--format", "json").stdout)
    jsonschema.validate(found, schema_of("accuracy"))
    return found


def test_json_has_groups_worst_rows_and_rows_faster_than_the_bound(run: Run, tables: Path) -> None:
    write_table(tables, "transpose_fast.csv", ["8192,8192,bf16,1"])
    found = report(run, "transpose.csv", "transpose_fast.csv")
    assert found["schema"] == 1
    assert (found["hardware"], found["part"]) == ("toy", None)
    first = found["groups"][0]
    assert (first["file"], first["operator"], first["regime"]) == ("transpose.csv", "transpose", None)
    assert first["estimate"].keys() == {"count", "mape", "median_ape", "bias", "p90_ape", "in_band", "reason"}
    assert first["bound"].keys() == {*first["estimate"], "faster_than_bound"}
    assert 0 < first["estimate"]["mape"] < 0.34
    assert first["bound"]["in_band"] is None
    assert found["groups"][-1]["bound"]["faster_than_bound"] == 1
    assert [(r["file"], r["line"]) for r in found["faster_than_bound"]] == [("transpose_fast.csv", 3)]
    assert len(found["worst"]) == 10
    assert found["worst"][0]["fields"] == {"rows": 8192, "cols": 8192, "dtype": "bf16"}
    assert found["worst"][0]["terms"].keys() == {"fixed", "memory", "compute"}


def test_the_gate_names_the_tables_that_are_off(run: Run, tables: Path) -> None:
    fine = run("validate", "transpose.csv", "-H", "toy.yaml", "--max-mape", "34")
    assert (fine.exit_code, fine.stderr) == (0, "")
    both = run("validate", "transpose.csv", "transpose_far.csv", "-H", "toy.yaml", "--max-mape", "34")
    assert both.exit_code == 1
    assert both.stderr.startswith("error: transpose_far.csv: the estimate of transpose is off by ")
    assert both.stderr.endswith(" % on average, more than 34 %\n")
    assert "transpose.csv:" not in both.stderr
    assert run("validate", "transpose.csv", "-H", "toy.yaml", "--max-mape", "0.1").exit_code == 1


def test_the_gate_needs_an_estimate_of_every_row(run: Run, tables: Path) -> None:
    """Nothing passes for want of a number."""
    write_table(tables, "transpose_32.csv", ["64,64,bf16,8", "64,64,fp32,8"])
    result = run("validate", "transpose_32.csv", "-H", "toy.yaml", "--max-mape", "90")
    assert result.exit_code == 1
    assert "transpose has rows without an estimate for --max-mape 90: 1 of 2 rows: toy carries no fitted parameters" in result.stderr


def test_table_csv_and_markdown_say_the_same(run: Run, tables: Path) -> None:
    whole = report(run, "transpose.csv")["groups"][0]
    shown = f"{whole['estimate']['mape'] * 100:.1f} %"
    table = run("validate", "transpose.csv", "-H", "toy.yaml").stdout.splitlines()
    assert shown in next(line for line in table if line.startswith("transpose "))
    assert any(line.startswith("transpose.csv:") for line in table)
    markdown = run("validate", "transpose.csv", "-H", "toy.yaml", "--format", "markdown").stdout
    assert f"| `transpose` | transpose | all | 63 | {shown} |" in markdown
    (first, *_) = csv.DictReader(io.StringIO(run("validate", "transpose.csv", "-H", "toy.yaml", "--format", "csv").stdout))
    assert float(first["estimate_mape"]) == whole["estimate"]["mape"]
    assert first["regime"] == ""
    run("validate", "transpose.csv", "-H", "toy.yaml", "-o", "out.json")
    assert json.loads((tables / "out.json").read_text())["groups"][0] == whole


def test_parts_and_skipped_rows_are_said(run: Run, tables: Path) -> None:
    (tables / "transpose_gap.csv").write_text((tables / "transpose.csv").read_text() + "7,7,bf16,\n")
    assert "transpose_gap.csv: 1 of 64 rows have no time and were left out" in run("validate", "transpose_gap.csv", "-H", "toy.yaml").stdout
    parts = [report(run, "transpose.csv", "--part", part)["groups"][0]["rows"] for part in ("fit", "held-out")]
    assert sum(parts) == 63


REFUSED = [
    (["transpose.csv"], "'transpose.csv' is a table: say with -H which device it was measured on"),
    (["transpose.csv", "w.yaml", "-H", "toy.yaml"], "'w.yaml' is no table and 'transpose.csv' is one; validate files and tables apart"),
    (["w.yaml", "-H", "toy.yaml"], "-H is for measured tables (.csv), and 'w.yaml' is none"),
    (["w.yaml", "--max-mape", "5"], "--max-mape is for measured tables"),
    (["transpose.csv", "-H", "toy.yaml", "--execution", "graf"], "unknown execution 'graf'; did you mean 'graph'?"),
    (["transpose.csv", "-H", "toy.yaml", "--part", "half"], "unknown part 'half'; known: fit, held-out"),
    (["transpose.csv", "-H", "toy.yaml", "--max-mape", "0"], "--max-mape 0: give a percentage above 0"),
    (["transpose.csv", "-H", "toy.yaml", "--format", "yaml"], "unknown format 'yaml'; known: table, json, csv, markdown"),
    (["transpose_no.csv", "-H", "toy.yaml"], "transpose_no.csv: no such file"),
    (["transpose.csv", "-H", "toi"], "unknown hardware profile 'toi'"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_what_cannot_be_compared_is_refused(run: Run, tables: Path, words: list[str], said: str) -> None:
    result = run("validate", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_bad_table_is_refused_with_place_and_caret(run: Run, tables: Path) -> None:
    write_table(tables, "transpose_bad.csv", ["64,x,bf16,8"])
    result = run("validate", "transpose_bad.csv", "-H", "toy.yaml")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0].startswith("transpose_bad.csv:3:4: 'x' is not a number")
    assert result.stderr.splitlines()[1:] == ["    64,x,bf16,8", "       ^"]


# --------------------------------------------------------------------------- fit
def test_a_fit_is_what_validate_then_believes(run: Run, tables: Path) -> None:
    (tables / "hardware_specs").mkdir()
    (tables / "hardware_specs" / "plain.yaml").write_text(PROFILE.replace("name: toy", "name: plain"))
    result = run("fit", "transpose.csv", "-H", "plain", "-o", "mine.yaml")
    assert result.exit_code == 0, result.stderr
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["fake.any.torch.bf16", "fake.transpose.torch.bf16"]
    assert run("validate", "mine.yaml").exit_code == 0
    found = json.loads(run("validate", "transpose.csv", "-H", "mine.yaml", "--part", "held-out", "--format", "json").stdout)
    assert found["groups"][0]["estimate"]["mape"] < 0.002
    assert found["groups"][0]["estimate"]["in_band"] == 1


def test_fit_says_what_it_could_not_fit(run: Run, tables: Path) -> None:
    write_table(tables, "transpose_few.csv", ["64,64,bf16,8"])
    result = run("fit", "transpose_few.csv", "-H", "toy.yaml", "-o", "toy.yaml")
    assert result.exit_code == 1
    assert "nothing could be fitted" in result.stderr
    assert "fewer than 8" in result.stderr


def test_hardware_show_lists_the_sets(run: Run, tables: Path) -> None:
    shown = next(line for line in run("hardware", "show", "toy.yaml").stdout.splitlines() if line.startswith("fake."))
    assert shown.split() == ["fake.transpose.torch.bf16", "fitted", "toy", "7", "0.50-2.00", "0.90-1.10", "-", "2026-11-29"]
    whole = json.loads(run("hardware", "show", "toy.yaml", "--format", "json").stdout)
    assert whole["fitted"]["fake.transpose.torch.bf16"]["values"] == {"fixed_s": 8e-6, "share": 0.6, "late_s": 0}
