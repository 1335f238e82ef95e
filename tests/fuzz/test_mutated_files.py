"""Three thousand spoiled files: each is read or refused, within a second, and never ends in a traceback.

The same files every time; ``ROOFLINE_FUZZ_SCALE=20`` tries other ones, and that many times more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.dataflow.account import account, device_of
from roofline.errors import RooflineError
from roofline.fit.accuracy import accuracy
from roofline.fit.tables import read_table
from roofline.plan.links import collective_links
from roofline.report.build import analyze
from roofline.report.cluster import cluster_figures
from roofline.report.diff import compare
from roofline.report.expect import check
from roofline.report.gates import judge
from roofline.report.store import load_report, to_json
from roofline.spec.cluster import load_cluster
from roofline.spec.dataflow import load_dataflow
from roofline.spec.fitted import complete
from roofline.spec.hardware import load_hardware
from roofline.spec.load import load_any
from roofline.spec.source import Source
from roofline.spec.workload import load_workload, read_workload

from .bases import JSON_WORKLOAD, TABLE, WORKLOAD, dataflow, fitted_profile, profile, report
from .mutations import mutated

WORKLOADS, PROFILES, REPORTS, COMMANDS, FITTED, DATAFLOWS, TABLES, CLUSTERS = 1000, 700, 400, 300, 300, 200, 200, 300
SCALE = int(os.environ.get("ROOFLINE_FUZZ_SCALE", "0"))
MOST_SECONDS = 4.0

DEVICE = load_hardware("h100-sxm")
BLOCK = read_workload(Source("w.yaml", WORKLOAD))
FULL_REPORT, COUNT_REPORT = report(), report(None)
PROFILE_TEXTS = [profile(n) for n in ("h100-sxm", "h100-pcie", "mi300x", "x86-server")]
DATAFLOW_TEXTS = [dataflow(n) for n in ("gemm_smem", "softmax_online", "attention_flash2")]
CLUSTER_TEXTS = [profile(n) for n in ("dgx-h100", "llama3-24k", "mi300x-8")]
MACHINE = device_of(DEVICE, "bf16")


def examples(count: int) -> settings:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture, HealthCheck.large_base_example]
    return settings(max_examples=count * max(1, SCALE), derandomize=not SCALE, database=None, deadline=None, suppress_health_check=checks)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder without profiles and workloads of its own, as working directory."""
    path, before = tmp_path_factory.mktemp("fuzz"), Path.cwd()
    os.chdir(path)
    yield path
    os.chdir(before)


def survives(path: Path, data: bytes, use: Callable[[str], object]) -> None:
    """The file is used or refused with an error of ours, in time (of this process: other work on the machine is not counted)."""
    path.write_bytes(data)
    start = time.process_time()
    refusal = None
    try:
        use(str(path))
    except RooflineError as err:
        refusal = err
    assert refusal is None or (str(refusal).strip() and refusal.exit_code in (1, 2, 3))
    assert time.process_time() - start < MOST_SECONDS


def use_workload(path: str) -> None:
    workload = load_workload(path)
    for device in (DEVICE, None):
        found = analyze(workload, device)
        to_json(found)
        if device is not None:  # without one, assertions about times are refused
            check(found, workload.expect)


def use_profile(path: str) -> None:
    hardware = load_hardware(path)
    to_json(analyze(BLOCK, hardware))
    complete(hardware.fitted)


def use_dataflow(path: str) -> None:
    account(load_dataflow(path, (), MACHINE.names), MACHINE)


def use_cluster(path: str) -> None:
    cluster = load_cluster(path)
    to_json(cluster_figures(cluster))
    to_json(collective_links("all_reduce", 1e6, cluster.tiers[-1].ranks, cluster))
    load_hardware(path)


def use_table(path: str) -> None:
    accuracy([read_table(path)], DEVICE)


def use_report(path: str) -> None:
    for base, head in ((path, "kept.json"), ("kept.json", path)):
        reports = load_report(base), load_report(head)
        found = compare(*reports, base, head, allow_context_change=True)
        judge(["total.bound.time_s>+2%", "row.bytes.hbm>+0%", "row.limiter-changed", "missing"], found, *reports)
        to_json(found)


@given(data=mutated([WORKLOAD, JSON_WORKLOAD]))
@examples(WORKLOADS)
def test_a_spoiled_workload_is_analyzed_or_refused(folder: Path, data: bytes) -> None:
    survives(folder / "w.yaml", data, use_workload)


@given(data=mutated(PROFILE_TEXTS))
@examples(PROFILES)
def test_a_spoiled_profile_is_used_or_refused(folder: Path, data: bytes) -> None:
    survives(folder / "h.yaml", data, use_profile)


@given(data=mutated(CLUSTER_TEXTS))
@examples(CLUSTERS)
def test_a_spoiled_cluster_is_used_or_refused(folder: Path, data: bytes) -> None:
    survives(folder / "c.yaml", data, use_cluster)


@given(data=mutated([fitted_profile()]))
@examples(FITTED)
def test_spoiled_parameters_are_used_or_refused(folder: Path, data: bytes) -> None:
    survives(folder / "h.yaml", data, use_profile)


@given(data=mutated(DATAFLOW_TEXTS))
@examples(DATAFLOWS)
def test_a_spoiled_dataflow_is_counted_or_refused(folder: Path, data: bytes) -> None:
    survives(folder / "d.yaml", data, use_dataflow)


@given(data=mutated([TABLE]))
@examples(TABLES)
def test_a_spoiled_table_is_held_against_or_refused(folder: Path, data: bytes) -> None:
    survives(folder / "softmax.csv", data, use_table)


@given(data=mutated([FULL_REPORT, COUNT_REPORT]))
@examples(REPORTS)
def test_a_spoiled_report_is_compared_or_refused(folder: Path, data: bytes) -> None:
    Path("kept.json").write_text(FULL_REPORT, encoding="utf-8")
    survives(folder / "r.json", data, use_report)


COMMAND_LINES = (
    ["analyze", "FILE"],
    ["analyze", "FILE", "--explain", "--check"],
    ["analyze", "FILE", "--format", "csv"],
    ["analyze", "FILE", "--format", "markdown"],
    ["analyze", "kept.yaml", "-H", "FILE"],
    ["amdahl", "FILE", "--swap", "attention.implementation=flash"],
    ["amdahl", "FILE", "--step", "qkv", "--speedup", "2"],
    ["hardware", "show", "FILE"],
    ["hardware", "compare", "h100-sxm", "FILE"],
    ["validate", "FILE"],
    ["diff", "FILE", "kept.json"],
    ["diff", "kept.json", "FILE", "--format", "markdown"],
)


@given(data=mutated([WORKLOAD, FULL_REPORT, *PROFILE_TEXTS[:2]]), line=st.sampled_from(COMMAND_LINES))
@examples(COMMANDS)
def test_any_command_on_a_spoiled_file_ends_with_a_known_exit_code(folder: Path, data: bytes, line: list[str]) -> None:
    Path("kept.json").write_text(FULL_REPORT, encoding="utf-8")
    Path("kept.yaml").write_text(WORKLOAD, encoding="utf-8")
    Path("bad.yaml").write_bytes(data)
    result = CliRunner().invoke(app, ["bad.yaml" if word == "FILE" else word for word in line])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 1, 2, 3)
    assert "Traceback" not in result.stderr
    if result.exit_code in (2, 3) and "--check" not in line:
        assert result.stdout == ""
        assert result.stderr.strip()


def test_unspoiled_files_are_taken_by_every_reader(folder: Path) -> None:
    """Else the tests above could pass on files that are all refused at their first line."""
    for name, text, use in (("w.yaml", WORKLOAD, use_workload), ("w.json", JSON_WORKLOAD, use_workload)):
        Path(name).write_text(text, encoding="utf-8")
        use(name)
        load_any(name)
    for text in CLUSTER_TEXTS:
        Path("c.yaml").write_text(text, encoding="utf-8")
        use_cluster("c.yaml")
        load_any("c.yaml")
    for text in DATAFLOW_TEXTS:
        Path("d.yaml").write_text(text, encoding="utf-8")
        use_dataflow("d.yaml")
        load_any("d.yaml")
    Path("softmax.csv").write_text(TABLE, encoding="utf-8")
    use_table("softmax.csv")
    for text in (*PROFILE_TEXTS, fitted_profile()):
        Path("h.yaml").write_text(text, encoding="utf-8")
        use_profile("h.yaml")
    Path("kept.json").write_text(FULL_REPORT, encoding="utf-8")
    use_report("kept.json")
