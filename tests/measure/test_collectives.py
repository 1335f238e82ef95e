"""Collectives between processes: two gloo ranks under torchrun, and what happens when one of them fails."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from roofline.report.published import schema_of
from roofline.report.store import load_report

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

ROOT = Path(__file__).parent.parent.parent
RANK = str(Path(__file__).parent / "rank.py")
NAMES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")
MEASURE = ("measure", "--device", "cpu", "--no-lock")
SECONDS = 60
Done = subprocess.CompletedProcess[str]

Draft202012Validator = pytest.importorskip("jsonschema").Draft202012Validator  # a machine with a GPU may lack it


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NO_COLOR": "1", **more}


def by_torchrun(*arguments: str) -> Done:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", RANK, *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=SECONDS, check=False)


def by_hand(*arguments: str, ranks: Sequence[int] = (0, 1), **more: str) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each rank, started without the keeper that torchrun is: nobody ends a rank that hangs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PATIENCE_S": "20", **more}
    started = [
        subprocess.Popen(
            [sys.executable, RANK, *arguments],
            env=environment(**shared, RANK=str(rank), LOCAL_RANK=str(rank)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in ranks
    ]
    try:
        outputs = [process.communicate(timeout=SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    return [(process.returncode, *output) for process, output in zip(started, outputs, strict=True)]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every collective at three sizes, as JSON."""
    path = tmp_path_factory.mktemp("sweep") / "report.json"
    kernels = [word for name in NAMES for word in ("--kernel", name)]
    done = by_torchrun(*MEASURE, *kernels, "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    load_report(str(path))
    return json.loads(path.read_text())


# --------------------------------------------------------------------------- a sweep
def test_every_collective_has_a_row_a_size(sweep: Any) -> None:
    assert [r["id"] for r in sweep["rows"]] == [f"{name}/{size}" for name in NAMES for size in ("1KiB", "4KiB", "16KiB")]
    assert {r["measured"]["status"] for r in sweep["rows"]} == {"ok"}


def test_the_report_is_what_the_schema_says(sweep: Any) -> None:
    assert [e.message for e in Draft202012Validator(schema_of("report")).iter_errors(sweep)] == []


def test_every_result_was_exact_before_and_after(sweep: Any) -> None:
    checks = [r["measured"]["check"] for r in sweep["rows"]]
    assert all(c["passed"] and c["error"] == 0 for c in checks)


def test_twenty_samples_of_the_slowest_rank(sweep: Any) -> None:
    for row in sweep["rows"]:
        measured = row["measured"]
        assert 3 <= len(measured["samples_s"]) <= 20
        assert min(measured["samples_s"]) <= measured["interval_s"][0] <= measured["time_s"] <= measured["interval_s"][1]
        assert len(measured["blocks"]) == len(measured["samples_s"])


def test_bus_bandwidth_is_the_algorithm_bandwidth_times_the_factor(sweep: Any) -> None:
    factors = {"all_reduce": 1.0, "all_gather": 0.5, "reduce_scatter": 0.5, "all_to_all": 0.5, "broadcast": 1.0, "send_recv": 1.0}
    for row in sweep["rows"]:
        achieved = row["measured"]["achieved_per_s"]
        assert achieved["algorithm"] == pytest.approx(row["fields"]["size"] / row["measured"]["time_s"])
        assert achieved["link"] == pytest.approx(achieved["algorithm"] * factors[row["op"]])


def test_latency_and_bandwidth_are_fitted_for_each(sweep: Any) -> None:
    fits = sweep["totals"]["measured"]["conditions"]
    for name in NAMES:
        assert fits[f"{name}.1.alpha_s"] >= 0
        assert fits[f"{name}.1.bytes_per_s"] is None or fits[f"{name}.1.bytes_per_s"] > 0
        assert fits[f"{name}.1.from_bytes"] < fits[f"{name}.1.to_bytes"]


def test_the_report_says_how_it_was_measured(sweep: Any) -> None:
    assert (sweep["environment"]["ranks"], sweep["environment"]["library"]) == (2, "gloo")
    conditions = sweep["rows"][0]["measured"]["conditions"]
    assert (conditions["ranks"], conditions["launch"], conditions["cache"]) == (2, "eager", "warm")


# --------------------------------------------------------------------------- faults
def test_a_rank_that_dies_ends_the_others_with_what_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    first, second = by_hand(*MEASURE, "--kernel", "all_reduce", "-o", str(path), FAULT="dies@1")
    assert (first[0], second[0]) == (4, 9)
    assert "another rank failed or did not answer" in first[2]
    assert "Traceback" not in first[2]
    assert [r.id for r in load_report(str(path)).rows] == ["all_reduce/1KiB"]


def test_a_rank_that_never_comes_is_not_waited_for_for_ever() -> None:
    ((code, out, err),) = by_hand(*MEASURE, "--kernel", "all_reduce", ranks=(0,), PATIENCE_S="2")
    assert (code, out) == (4, "")
    assert "another rank failed or did not answer" in err


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("differs@1", 2, "the ranks differ in their device or torch: rank 0: "),
        ("wrong", 4, "all_reduce/4KiB: invalid: the result was wrong before timing"),
    ],
)
def test_what_one_rank_meets_all_know_and_the_first_says(fault: str, code: int, words: str) -> None:
    first, second = by_hand(*MEASURE, "--kernel", "all_reduce", "--set", "size=4 KiB", FAULT=fault)
    assert (first[0], second[0]) == (code, 0), (first, second)
    assert words in first[2]
    assert second[1:] == ("", "")


def test_a_size_that_one_rank_cannot_hold_is_left_out_by_all_and_only_the_first_speaks() -> None:
    first, second = by_hand(*MEASURE, "-q", "--kernel", "all_gather", FAULT="small@1")
    assert (first[0], first[2]) == (0, ""), first
    assert second == (0, "", "")
    lines = first[1].splitlines()
    assert [line.split()[-1] for line in lines[2:5]] == ["ok", "ok", "oom"]
    assert lines[5] == "all_gather/16KiB: rank 1: no room"


# --------------------------------------------------------------------------- command lines that cannot be obeyed
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-k", "all_reduce"], 3, "torchrun --nproc-per-node 2 -m roofline measure --kernel all_reduce"),
        (["-k", "all_reduce", "-k", "gemm"], 2, "measure gemm by another command"),
        (["gpt2_medium", "-k", "all_reduce"], 2, "a workload does not go with collectives"),
        (["-k", "all_reduce", "--pass", "backward"], 2, "--pass backward does not go"),
        (["-k", "all_reduce", "--cache", "cold"], 2, "--cache cold does not go"),
        (["-k", "all_reduce", "--mode", "sustained"], 2, "--mode sustained does not go"),
        (["-k", "all_reduce", "--launch", "grph"], 2, "--launch grph does not go"),
        (["-k", "all_reduce", "--format", "xml"], 2, "unknown format 'xml'"),
    ],
)
def test_without_torchrun_the_command_says_what_to_do(
    arguments: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch, answer: Callable[[list[str]], tuple[int, str]]
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert answer(arguments)[0] == code
    assert words in answer(arguments)[1]


@pytest.fixture
def answer() -> Callable[[list[str]], tuple[int, str]]:
    """Exit code and output of ``roofline measure``."""
    from typer.testing import CliRunner

    from roofline.cli.app import app

    def call(arguments: list[str]) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["measure", *arguments])
        return result.exit_code, result.output

    return call
