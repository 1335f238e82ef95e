"""A copy reads and writes, GiB are not GB, and an operator needs no FLOP (cases C04 and C10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

H100_BYTES_PER_S = 3.35e12
GIB = 2**30


def test_a_copy_of_2_gib_moves_4_gib(row: Any) -> None:
    assert row("analyze", "copy_2gib.yaml")["bytes"]["hbm"] == 4294967296


def test_its_rate_counts_both_directions_in_decimal_units(row: Any) -> None:
    measured = row("analyze", "copy_2gib.yaml")["measured"]
    assert measured["achieved_per_s"]["hbm"] == pytest.approx(2863.3e9, rel=1e-4)
    assert measured["share_of_peak"]["hbm"] == pytest.approx(0.855, rel=1e-3)


def test_2_gb_are_6_9_percent_less_than_2_gib(row: Any) -> None:
    measured = row("analyze", "copy_2gib.yaml", "--set", "copy.read=2 GB", "--set", "copy.write=2 GB")["measured"]
    assert measured["achieved_per_s"]["hbm"] == pytest.approx(2666.7e9, rel=1e-4)


@pytest.mark.parametrize(
    ("read", "write", "time", "rate"),
    [
        ("1 GiB", "0 B", "400 us", GIB / 400e-6),
        ("0 B", "512 MiB", "0.2 ms", GIB / 2 / 0.2e-3),
        ("8 Gb", "1 GB", "1 ms", 2e9 / 1e-3),
        ("1.5 TB", "1.5 TB", "1 s", 3e12),
    ],
)
def test_other_sizes_and_units(row: Any, read: str, write: str, time: str, rate: float) -> None:
    settings = (f"copy.read={read}", f"copy.write={write}", f"copy.measured={time}")
    measured = row("analyze", "copy_2gib.yaml", *(x for s in settings for x in ("--set", s)))["measured"]
    assert measured["achieved_per_s"]["hbm"] == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("size", ["2", "2 gb", "2 GIB", "-2 GB", "2 ms", "2 GB/s"])
def test_a_size_without_a_proper_unit_is_refused(run: Any, size: str) -> None:
    result = run("analyze", "copy_2gib.yaml", "--set", f"copy.read={size}", code=2)
    assert result.stdout == ""


def test_a_copy_over_a_link_is_measured_against_the_link(row: Any) -> None:
    measured = row("analyze", "copy_2gib.yaml", "--set", "copy.over=pcie", "--set", "copy.measured=40 ms")["measured"]
    assert measured["achieved_per_s"]["pcie"] == pytest.approx(2 * GIB / 40e-3)
    assert measured["share_of_peak"]["pcie"] == pytest.approx(2 * GIB / 40e-3 / 64e9)


def test_the_same_case_as_json_gives_the_same_figures(row: Any, tmp_path: Path) -> None:
    path = tmp_path / "copy.json"
    path.write_text(
        '{"schema": 1, "name": "copy", "hardware": "h100-sxm", "dtype": "bf16", "steps":'
        ' [{"id": "copy", "op": "copy", "read": "2 GiB", "write": "2 GiB", "measured": "1.5 ms"}]}'
    )
    assert row("analyze", str(path)) == row("analyze", "copy_2gib.yaml")


def test_no_flop_is_memory_bound_with_intensity_0(report: Any) -> None:
    copy, _ = report("analyze", "zero_flop_copy.yaml")["rows"]
    assert copy["bytes"]["hbm"] == 8_000_000_000
    assert copy["intensity_flop_per_byte"]["hbm"] == 0
    assert copy["bound"]["limiter"] == "hbm"
    assert copy["bound"]["time_s"] == pytest.approx(8e9 / H100_BYTES_PER_S, rel=1e-3)


def test_no_flop_has_no_share_of_a_compute_peak(row: Any) -> None:
    measured = row("analyze", "zero_flop_copy.yaml", "--set", "copy.measured=3 ms")["measured"]
    assert measured["share_of_peak"].get("tensor") is None
    assert measured["achieved_per_s"].get("tensor", 0) == 0


def test_no_bytes_is_compute_bound_with_intensity_null_in_json(report: Any) -> None:
    _, compute = report("analyze", "zero_flop_copy.yaml")["rows"]
    assert compute["intensity_flop_per_byte"]["hbm"] is None
    assert compute["bound"]["limiter"] == "tensor"
    assert compute["bound"]["time_s"] == pytest.approx(1.011e-3, rel=1e-3)


def test_both_rows_stand_in_the_table(run: Any) -> None:
    lines = {line.split()[0]: line.split() for line in run("analyze", "zero_flop_copy.yaml").stdout.splitlines() if line}
    assert "hbm" in lines["copy"]
    assert "inf" in lines["compute"]
    assert "nan" not in run("analyze", "zero_flop_copy.yaml").stdout


@pytest.mark.parametrize("format_", ["table", "json", "csv", "markdown"])
def test_nothing_at_all_is_a_row_in_every_format(run: Any, tmp_path: Path, format_: str) -> None:
    path = tmp_path / "marker.yaml"
    path.write_text("schema: 1\nname: marker\nhardware: h100-sxm\ndtype: bf16\nsteps:\n  - {id: marker, op: custom}\n")
    assert "marker" in run("analyze", str(path), "--format", format_).stdout


def test_one_operator_on_the_command_line_says_the_same(run: Any) -> None:
    compute = run("op", "custom", "tensor_flop=1 TFLOP", "dtype=bf16", "-H", "h100-sxm").stdout
    assert "intensity inf" in compute
    assert "tensor (compute) binds" in compute
    copy = run("op", "copy", "elements=1000000000", "dtype=fp32", "-H", "h100-sxm").stdout
    assert "intensity 0" in copy
    assert "hbm (memory) binds" in copy


def test_one_operator_with_a_measured_time_shows_the_rate_and_the_share(run: Any) -> None:
    said = run("op", "copy", "read=2 GiB", "write=2 GiB", "measured=1.5 ms", "dtype=bf16", "-H", "h100-sxm").stdout
    assert "Measured 1.500 ms: 2.863 TB/s of hbm (85.4 %)" in said
