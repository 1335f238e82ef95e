"""The analysis of `benchmarks/dataflow_counters.py`, on counters written by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks import dataflow_counters as counters  # noqa: E402
from benchmarks import dataflow_counters_shown as shown  # noqa: E402
from roofline.dataflow.account import device_of  # noqa: E402
from roofline.spec.hardware import load_hardware  # noqa: E402

WIDE = '''==PROF== Connected to process 1
"ID","Kernel Name","Domain:Push/Pop_Range","dram__bytes_read.sum","gpu__time_duration.sum","launch__grid_size","lts__t_bytes.sum","s__x.max"
"","","","Mbyte","us","","byte","byte"
"0","softmax_row(int)","1 ""<default domain>:softmax/triton:none:none:none:none:none:none""","268.5","100","16,384","1,073,741,824","9"
"1","reduce","1 ""<default domain>:softmax/triton~drain:none:none:none:none:none:none""","n/a","50","1","7","7"
==WARNING== something
'''
X = 16384 * 8192 * 2
"""Bytes of x in the softmax."""


def row(run: str, case: str, metric: str, value: float, launch: str = "0", kernel: str = "k") -> dict[str, str]:
    return {"run": run, "case": case, "launch": launch, "kernel": kernel, "metric": metric, "value": str(value), "unit": ""}


@pytest.fixture
def rows() -> list[dict[str, str]]:
    """A softmax that moves x and y once, 40 MB of it after its end."""
    left = 40e6
    return [
        row("bytes", "softmax/triton", "gpu__time_duration.sum", 150e3),
        row("bytes", "softmax/triton", "dram__bytes_read.sum", X),
        row("bytes", "softmax/triton", "dram__bytes_write.sum", X - left),
        row("bytes", "softmax/triton", "lts__t_bytes.sum", 3 * X),
        row("bytes", "softmax/triton~drain", "dram__bytes_write.sum", left, "1"),
        row("levels", "softmax/triton", "gpu__time_duration.sum", 150e3),
        row("levels", "softmax/triton", "dram__bytes_read.sum", X),
        row("levels", "softmax/triton", "dram__bytes_write.sum", X),
        row("levels", "softmax/triton", "sm__cycles_elapsed.max", 250e3),
        row("levels", "softmax/triton", "lts__t_sectors_srcunit_tex.sum", 2 * X / 32),
        row("levels", "softmax/triton", "l1tex__m_xbar2l1tex_read_bytes.sum", X * 1.25),
        row("levels", "softmax/triton", "l1tex__m_l1tex2xbar_write_bytes.sum", X * 0.5),
        row("levels", "softmax/triton", "launch__registers_per_thread", 40),
        row("levels", "softmax/triton", "smsp__inst_executed_pipe_xu.sum", 132 * 250e3 * 16 / 32 / 4),
        row("tile", "softmax/triton", "BLOCK", 8192),
        row("failed", "flash/torch/4096", "why", 0) | {"value": "bytes: it broke"},
    ]


def test_what_ncu_writes_becomes_a_row_a_counter(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(WIDE, encoding="utf-8")
    found = counters.long_rows("bytes", tmp_path / "log")
    said = {(r["case"], r["kernel"], r["metric"]): (float(r["value"]), r["unit"]) for r in found}
    assert said == {
        ("softmax/triton", "softmax_row", "dram__bytes_read.sum"): (268.5e6, "byte"),
        ("softmax/triton", "softmax_row", "gpu__time_duration.sum"): (100e3, "ns"),
        ("softmax/triton", "softmax_row", "launch__grid_size"): (16384, ""),
        ("softmax/triton", "softmax_row", "lts__t_bytes.sum"): (1073741824, "byte"),
        ("softmax/triton~drain", "reduce", "gpu__time_duration.sum"): (50e3, "ns"),
        ("softmax/triton~drain", "reduce", "launch__grid_size"): (1, ""),
        ("softmax/triton~drain", "reduce", "lts__t_bytes.sum"): (7, "byte"),
    }


def test_a_log_without_a_table_has_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_text("==ERROR== ERR_NVGPUCTRPERM - no permission\n", encoding="utf-8")
    assert counters.long_rows("bytes", tmp_path / "log") == []
    assert "profiled nothing" in capsys.readouterr().out, "and says so"


def test_a_file_comes_back_as_it_was_written(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    counters.write(tmp_path / "a" / "c.csv", rows)
    assert counters.read(tmp_path / "a" / "c.csv") == rows


def test_bytes_left_dirty_in_l2_count_as_written(rows: list[dict[str, str]]) -> None:
    found = shown.measured(rows, "softmax/triton")
    assert found == shown.Measured(hbm=2 * X, left=40e6, received=X * 1.25, sent=X * 0.5, l2_served=2 * X, l2=3 * X)


def test_launches_add_up_and_those_apart_do_not(rows: list[dict[str, str]]) -> None:
    more = [row("bytes", "softmax/triton", m, 1e6, "2", "spectrum") for m in counters.BYTES]
    assert shown.measured(rows + more, "softmax/triton").hbm == 2 * X + 2e6
    assert shown.measured(rows + more, "softmax/triton", "spectrum").hbm == 2 * X


def test_a_launch_that_lacks_a_counter_leaves_its_sum_open(rows: list[dict[str, str]]) -> None:
    more = [row("bytes", "softmax/triton", "lts__t_bytes.sum", 1e6, "2")]
    assert shown.measured(rows + more, "softmax/triton").hbm is None


def test_what_is_used_is_counters_over_rates(rows: list[dict[str, str]]) -> None:
    device = device_of(load_hardware("h200-sxm"), "bf16")
    found = shown.used(shown.launches(rows, "levels", "softmax/triton"), device)
    assert set(found) == {"hbm", "sfu"}
    assert found["sfu"] == pytest.approx(0.25)
    assert found["hbm"] == pytest.approx(2 * X / 150e-6 / 4.8e12, rel=1e-3)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"hbm": 0.9, "l2": 0.5}, "confirmed"),
        ({"hbm": 0.85, "l2": 0.9, "issue": 1.0}, "confirmed"),
        ({"hbm": 0.5, "l2": 0.9}, "other"),
        ({"hbm": 0.4, "l2": 0.2}, "confirmed, but latency: nothing above 40 %"),
        ({"l2": 0.2}, "not counted"),
        ({}, "not counted"),
    ],
)
def test_verdicts(shares: dict[str, float], expected: str) -> None:
    assert shown.verdict("hbm", shares) == expected


def test_the_tables_show_the_launched_tiles_and_what_failed(rows: list[dict[str, str]]) -> None:
    text = shown.shown(rows, counters.selected("softmax/triton,ladder/gemm_tensor"), "h200-sxm")
    lines = [line.split() for line in text.splitlines()]
    bytes_, levels = (line for line in lines if line[:1] == ["softmax/triton"] and len(line) > 8)
    assert bytes_[1:6] == ["536.9", "40.0", "536.9", "1.000*", "1.000*"]
    assert bytes_[8:16] == ["335.5", "268.4", "0.800*", "134.2", "2.000", "536.9", "805.3", "-"]
    assert levels[1] == "150.0"
    assert levels[3] == "hbm"
    assert levels[-2:] == ["hbm", "confirmed"]
    assert "softmax/triton: softmax:online with cols_tile=8192" in text
    assert "flash/torch/4096: FAILED: bytes: it broke" in text
    assert "ladder/gemm_tensor/4096: gemm:tensor with its own tiles" in text


def test_tiles_of_the_ladder_are_those_of_its_dataflows() -> None:
    (naive,), (coalesced,) = counters.selected("ladder/gemm_naive"), counters.selected("ladder/gemm_coalesced")
    assert shown.settings(naive, counters.operator(naive), {"BLOCK": 256}) == {"tile_m": 256, "tile_n": 1}
    assert shown.settings(coalesced, counters.operator(coalesced), {"BLOCK": 256}) == {"tile_m": 1, "tile_n": 256}
    (tiled,) = counters.selected("ladder/gemm_tiled")
    tile = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 16, "num_warps": 8, "num_stages": 2}
    assert shown.settings(tiled, counters.operator(tiled), tile) == {
        "tile_m": 128, "tile_n": 128, "tile_k": 16, "thread_m": 8, "thread_n": 8, "stages": 2, "warpgroups": 2, "group": 0,
    }  # fmt: skip


def test_tiles_of_the_mixers_are_those_of_their_dataflows() -> None:
    (conv,), (monarch,) = counters.selected("fft_conv/order3"), counters.selected("monarch")
    tile = {"BLOCK": 64, "P": 4, "AT_ONCE": 4, "num_warps": 4, "maxnreg": 128, "registers": 128, "shared_bytes": 92160}
    expected = {"block": 64, "pairs": 4, "at_once": 2, "warps": 4, "stages": 3}  # with 90 KiB, two share a processor
    assert shown.settings(conv, counters.operator(conv), tile) == expected
    assert shown.settings(conv, counters.operator(conv), {**tile, "num_stages": 1, "shared_bytes": 26624})["at_once"] == 4
    kept = {"ROWS": 16, "joined": 16, "AT_ONCE": 1, "AHEAD": 2, "num_warps": 8}
    assert shown.settings(monarch, counters.operator(monarch), kept) == {"tile_m": 16, "joined": 16, "at_once": 1}
    device = device_of(load_hardware("h200-sxm"), "bf16")
    flow, _ = shown.predicted(monarch, counters.operator(monarch), {"ROWS": 64, "joined": 8, "num_warps": 8}, device)
    assert flow.names["parts"] == 16384 / 64


def test_registers_as_the_compiler_gave_them_decide_how_many_blocks_run_together() -> None:
    """96 registers a thread have room for 5 blocks of 128 threads, 160 for 3: W comes more often."""
    device = device_of(load_hardware("h200-sxm"), "bf16")
    (case,) = counters.selected("ladder/gemm_tiled")
    tile = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2}
    few, many = (shown.predicted(case, counters.operator(case), {**tile, "registers": n}, device)[0].kernels[0] for n in (96, 160))
    assert (few.room.occupancy, many.room.occupancy) == (5, 3)
    assert many.work.hbm_bytes > 1.3 * few.work.hbm_bytes
    assert many.work.l2_bytes == few.work.l2_bytes


def test_every_case_can_be_predicted() -> None:
    device = device_of(load_hardware("h200-sxm"), "bf16")
    for case in counters.cases():
        flow, tiles = shown.predicted(case, counters.operator(case), {}, device)
        assert float(flow.sum("hbm_bytes")) > 0, case.name
        assert tiles == "its own tiles", case.name
