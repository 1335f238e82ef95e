"""The table of kernels beside a calibration: cases that exist, failures contained, columns as in published tables."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from roofline.measure.base import Procedure
from roofline.measure.calibration_shapes import CPU_CASES, GPU_CASES, Regime
from roofline.measure.cpu import CpuDevice
from roofline.measure.regimes import Timed, tables, time_cases, write_tables
from roofline.measure.registry import find
from roofline.ops.registry import OPERATORS
from roofline.report.model import MeasuredResult

RESULT = MeasuredResult(
    time_s=12.5e-6, source="test", interval_s=(12e-6, 13e-6), clocks={"sm_mhz_median": 1980.0, "power_w_max": None}, status="ok"
)
GEMM = Regime(kernel="gemm", regime="memory", fields={"m": 16, "n": 32, "k": 48, "dtype": "fp32"})
SHORT = Procedure(
    cache="warm", launch="eager", warmup_s=0.002, shortest_sample_s=1e-4, fewest_samples=3, shortest_s=1e-3, longest_s=0.02, blocks=1
)


@pytest.mark.parametrize("case", [*GPU_CASES, *CPU_CASES], ids=lambda c: c.label)
def test_every_case_is_a_kernel_that_exists_with_fields_that_its_operator_takes(case: Regime) -> None:
    spec = find(case.kernel)
    op = OPERATORS[spec.op](**{**spec.fields, **case.fields})
    assert op.check() is None
    assert not spec.dtypes or op.dtype in spec.dtypes


def test_every_regime_of_a_gpu_is_there() -> None:
    assert {c.regime for c in GPU_CASES} == {"launch", "memory", "ridge", "compute", "tail", "odd"}


def test_columns_are_those_of_published_tables(tmp_path: Path) -> None:
    (path,) = write_tables(str(tmp_path / "p.kernels"), [Timed(case=GEMM, result=RESULT)], ["one source"])
    lines = Path(path).read_text().splitlines()
    (row,) = csv.DictReader(line for line in lines if not line.startswith("#"))
    assert list(row)[:8] == ["m", "n", "k", "dtype", "time_us", "eager_us", "sm_mhz", "watt"]
    assert (row["time_us"], row["sm_mhz"], row["watt"]) == ("12.5000", "1980", "")
    assert lines[0] == "# one source"


def test_what_could_not_be_measured_is_a_comment_on_one_line() -> None:
    text = tables([Timed(case=GEMM, result=None, why="out of\nmemory")], [])["gemm"]
    assert text == "# absent: gemm m=16 n=32 k=48 dtype=fp32: out of memory\n"


def test_attention_rows_name_pass_and_implementation() -> None:
    case = next(c for c in GPU_CASES if c.kernel == "decode")
    header = tables([Timed(case=case, result=RESULT)], [])["attention"].splitlines()[0]
    assert header.startswith("batch,heads,kv_heads,q_len,kv_len,head_dim,causal,pass,implementation,scale_pass,dtype,time_us")


def test_a_real_case_runs_on_the_cpu_and_a_broken_one_does_not_end_the_list() -> None:
    broken = Regime(kernel="gemm", regime="memory", fields={"m": 16, "n": 32, "k": 48, "dtype": "fp4"})
    first, second = time_cases([broken, GEMM], CpuDevice(), SHORT)
    assert first.result is None
    assert first.why
    assert second.result is not None
    assert second.result.time_s > 0


def test_ctrl_c_keeps_complete_cases_and_names_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> Timed:
        raise KeyboardInterrupt

    monkeypatch.setattr("roofline.measure.regimes._timed", interrupted)
    found = time_cases([GEMM, GEMM], CpuDevice(), SHORT)
    assert [t.why for t in found] == ["interrupted before it was measured"] * 2
