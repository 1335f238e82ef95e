"""The report as a file format: valid, complete, the same each time, and readable later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from roofline.errors import InputError
from roofline.report import store
from roofline.report.build import analyze
from roofline.report.model import SCHEMA, Report
from roofline.report.published import schema_of
from roofline.report.shape import decode, encode
from roofline.report.store import load_report, report_from, to_json
from roofline.spec.hardware import load_hardware
from roofline.spec.source import Source
from roofline.spec.workload import read_workload

KEPT = sorted((Path(__file__).parent.parent / "data" / "reports").rglob("*.json"))

HEAD = "schema: 1\nname: a case\ndtype: bf16\n"
WORKLOADS = {
    "one product": HEAD + "steps:\n  - {op: gemm, m: 4096, n: 4096, k: 4096}\n",
    "no arithmetic": HEAD + "steps:\n  - {op: copy, elements: 1000000}\n  - {op: transpose, rows: 1000, cols: 300}\n",
    "nothing at all": HEAD + "steps:\n  - {op: custom}\n",
    "a layer, both directions": HEAD
    + """params: {rows: 4096, width: 1024}
steps:
  - {op: rmsnorm, rows: rows, cols: width, repeat: 4, pass: forward+backward}
  - {op: gemm, m: rows, n: 4 * width, k: width, bias: true, activation: gelu, pass: forward+backward}
  - {op: attention, batch: 4, heads: 16, q_len: 1024, kv_len: 1024, head_dim: 64, causal: true, pass: backward}
""",
    "overlap and measurements": HEAD
    + """traffic: cached
steps:
  - {id: load, op: copy, elements: 1000000000, over: nvlink, after: []}
  - {id: work, op: gemm, m: 4096, n: 4096, k: 4096, after: [], measured: 300 us}
  - {id: sum, op: elementwise, function: add, elements: 16777216, after: [load, work]}
""",
    "does not fit": HEAD
    + """params: {n: 100000}
steps:
  - {op: attention, implementation: naive, batch: 8, heads: 16, q_len: n, kv_len: n, head_dim: 64, dropout: 0.1, scale_pass: true}
""",
}
DEVICES = ("h100-sxm", "tpu-v5e", None)


def report_of(name: str, device: str | None = "h100-sxm") -> Report:
    """The report of one of the workloads."""
    workload = read_workload(Source("w.yaml", WORKLOADS[name]))
    return analyze(workload, load_hardware(device) if device else None)


every_report = [
    pytest.param(name, device, id=f"{name} on {device}")
    for name in WORKLOADS
    for device in DEVICES
    if (name, device) != ("overlap and measurements", "tpu-v5e")  # it has no NVLink
]


@pytest.mark.parametrize(("name", "device"), every_report)
def test_reports_are_valid(name, device):
    """Against the schema that `roofline schema report` prints: every key there, none beside."""
    found = json.loads(to_json(report_of(name, device)))
    assert [e.message for e in Draft202012Validator(schema_of("report")).iter_errors(found)] == []


@pytest.mark.parametrize(("name", "device"), every_report)
def test_what_is_written_is_read_back(name, device):
    """Nothing is lost between the classes and JSON."""
    report = report_of(name, device)
    assert decode(Report, encode(report)) == report
    assert report_from(json.loads(to_json(report)), "r.json") == report


@pytest.mark.parametrize(("name", "device"), every_report)
def test_no_value_is_absent_without_a_word(name, device):
    """JSON has no NaN or infinity, and what is null is explained."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    found = json.loads(to_json(report_of(name, device)), parse_constant=refuse)
    for part in (*found["rows"], found["totals"]):
        nulls = {key for key, value in part.items() if value is None}
        assert nulls <= part["unavailable"].keys()


def test_the_same_input_gives_the_same_bytes(tmp_path):
    """In processes with other hash seeds, other times and other folders."""
    texts = []
    for i, seed in enumerate(("1", "2")):
        folder = tmp_path / str(i)
        folder.mkdir()
        (folder / "w.yaml").write_text(WORKLOADS["a layer, both directions"], encoding="utf-8")
        command = [sys.executable, "-m", "roofline", "analyze", "w.yaml", "-H", "h100-sxm", "--format", "json"]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        texts.append(subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True).stdout)
    assert texts[0] == texts[1]
    assert str(tmp_path).encode() not in texts[0]


# --------------------------------------------------------------------------- versions
def test_reports_are_kept():
    """One of each schema number that ever was."""
    assert {f"v{n}" for n in range(1, SCHEMA + 1)} == {p.parent.name for p in KEPT}


@pytest.mark.parametrize("path", KEPT, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_kept_reports_load_for_ever(path):
    """Written by an earlier version of the tool; never written again."""
    report = load_report(str(path))
    assert report.schema == SCHEMA
    assert report.rows[0].bound is not None
    assert report.totals.bound is not None
    assert report.totals.bound.time_s == pytest.approx(sum(r.bound.time_s * r.repeat for r in report.rows if r.bound))
    assert report.hardware is not None
    assert report.hardware["name"] == "h100-sxm"


def plain(name: str = "one product") -> dict[str, Any]:
    """A report as JSON values."""
    found: dict[str, Any] = json.loads(to_json(report_of(name)))
    return found


def test_a_newer_schema_is_refused_in_words():
    """The number, the newest that this tool reads, and what to do."""
    with pytest.raises(InputError, match=rf"report schema {SCHEMA + 1} is newer than this tool reads \({SCHEMA}\); upgrade roofline"):
        report_from({**plain(), "schema": SCHEMA + 1}, "r.json")


@pytest.mark.parametrize("number", [0, -1, "1", 1.5, None, True])
def test_a_schema_that_is_no_number_is_refused(number):
    """A version counts from 1."""
    with pytest.raises(InputError, match="schema"):
        report_from({**plain(), "schema": number}, "r.json")


def test_older_reports_go_up_step_by_step(monkeypatch):
    """From 1 to 2 to 3, each by its own function, in memory."""
    found = plain()
    found["title"] = found.pop("workload")  # as an imagined version 1 had it
    upgrades = {
        1: lambda r: {**r, "schema": 2, "label": r["title"]},
        2: lambda r: {**r, "schema": 3, "workload": r["label"]},
    }
    with pytest.raises(InputError, match="lacks 'workload'"):
        report_from(found, "r.json")
    monkeypatch.setattr(store, "SCHEMA", 3)
    monkeypatch.setattr(store, "UPGRADES", upgrades)
    report = report_from(found, "r.json")
    assert (report.schema, report.workload) == (3, "a case")


def test_every_older_schema_has_an_upgrade():
    """Raising the schema number without one would turn users' baselines away."""
    assert sorted(store.UPGRADES) == list(range(1, SCHEMA))
