"""What is said of counters: every case of the fixture with its measured bytes, rooflines, limiters, and causes only where they show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from roofline.cli.app import app_for
from roofline.ingest.ncu import candidates, counter_report
from roofline.ingest.ncu_numbers import Locale
from roofline.ingest.ncu_read import Launch, Table, Value, read_table
from roofline.report.counters import CounterReport, CounterRow
from roofline.spec.hardware import load_hardware

FIXTURE = Path(__file__).parent.parent / "data" / "ncu" / "h200_wide_raw.csv"
H200 = load_hardware("h200-sxm")
KEYS = {
    "bytes": {"hbm_read", "hbm_write", "hbm", "l2", "l1", "smem"},
    "flop": {"tensor", "vector", "sfu"},
    "points": {"hbm", "l2", "l1", "smem"},
}


def launch(name: str = "k", *, id_: str = "0", ranges: tuple[str, ...] = (), count: int = 1, **counters: tuple[float, str]) -> Launch:
    """A launch from counters named with ``__`` and ``.`` written as ``_dot_``."""
    values = {n.replace("_dot_", "."): Value(*v) for n, v in counters.items()}
    return Launch(id_, name, ranges, "", "9.0", values, count)


def table(*launches: Launch) -> Table:
    return Table("c.csv", "0" * 64, "wide", Locale(".", True), launches, 0)


def row(*launches: Launch, **options: Any) -> CounterRow:
    (found,) = counter_report(table(*launches), **options).rows
    return found


MOVED = {
    "dram__bytes_read_dot_sum": (3e9, "byte"),
    "dram__bytes_write_dot_sum": (1e9, "byte"),
    "gpu__time_duration_dot_sum": (1e-3, "s"),
    "sm__ops_path_tensor_src_bf16_dst_fp32_dot_sum": (4e11, "1"),
}


# --------------------------------------------------------------------------- the fixture
def _by_hand(case: str) -> dict[str, float]:
    """The sums of a case, added up from the text of the file by splitting at quotes."""
    lines = [line for line in FIXTURE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    header = lines[0].strip('"').split('","')
    total: dict[str, float] = {"launches": 0}
    for line in lines[2:]:
        cells = line.replace('""', "'").strip('"').split('","')
        if f":{case}:" in cells[next(i for i, n in enumerate(header) if "Push/Pop" in n)]:
            total["launches"] += 1
            for name in ("dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum", "gpu__time_duration.sum"):
                total[name] = total.get(name, 0) + float(cells[header.index(name)].replace(",", ""))
    return total


@pytest.fixture(scope="module")
def fixture_report() -> CounterReport:
    return counter_report(read_table(str(FIXTURE)), hardware=H200)


def test_every_case_of_the_fixture_gives_its_measured_bytes(fixture_report: CounterReport) -> None:
    assert len(fixture_report.rows) == 34
    for found in fixture_report.rows:
        by_hand = _by_hand(found.id)
        assert found.launches == by_hand["launches"]
        assert found.bytes["hbm_read"] == by_hand["dram__bytes_read.sum"]
        assert found.bytes["hbm_write"] == by_hand["dram__bytes_write.sum"]
        assert found.bytes["hbm"] == by_hand["dram__bytes_read.sum"] + by_hand["dram__bytes_write.sum"]
        assert found.bytes["l2"] == by_hand["lts__t_bytes.sum"]
        assert found.time_s == pytest.approx(by_hand["gpu__time_duration.sum"] * 1e-9, rel=1e-12)
    assert sum(found.launches for found in fixture_report.rows) == fixture_report.launches == 50


def test_a_large_product_by_hand(fixture_report: CounterReport) -> None:
    """1,260,137,472 + 134,765,824 bytes and 1,116,691,496,960 FLOP in 1,372,832 ns; 989.4 TFLOP/s dense and 4.8 TB/s."""
    found = next(r for r in fixture_report.rows if r.id == "gemm/m=8192,n=8192,k=8192")
    point = found.points["hbm"]
    assert point is not None
    assert point.bytes == 1_394_903_296
    assert point.intensity_flop_per_byte == pytest.approx(800.55, rel=1e-5)
    assert point.flop_per_s == pytest.approx(813.42e12, rel=1e-5)
    assert point.share_of_roof == pytest.approx(813.42 / 989.4, rel=1e-4)
    assert point.share_of_bandwidth == pytest.approx(1_394_903_296 / 1.372832e-3 / 4.8e12, rel=1e-9)


def test_keys_never_vanish_and_every_null_of_a_row_has_its_reason(fixture_report: CounterReport) -> None:
    bare = row(launch())
    for found in (*fixture_report.rows, bare):
        for part, keys in KEYS.items():
            values = getattr(found, part)
            assert set(values) == keys
            if part != "points":
                assert {f"{part}.{k}" for k, v in values.items() if v is None} <= set(found.unavailable)
    assert bare.time_s is None
    assert "time_s" in bare.unavailable


# --------------------------------------------------------------------------- names of several versions
@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ({"dram__bytes_op_read_dot_sum": (5.0, "byte"), "dram__bytes_op_write_dot_sum": (7.0, "byte")}, {"hbm": 12, "hbm_read": 5}),
        ({"dram__sectors_read_dot_sum": (2.0, "1"), "dram__sectors_write_dot_sum": (3.0, "1")}, {"hbm": 160, "hbm_write": 96}),
        ({"dram__bytes_dot_sum": (9.0, "byte")}, {"hbm": 9, "hbm_read": None}),
        ({"Memory Throughput [byte/s]": (4e12, "byte/s"), "Duration": (2e-3, "s")}, {"hbm": 8e9, "hbm_write": None}),
        ({"lts__t_sectors_dot_sum": (10.0, "1")}, {"l2": 320, "hbm": None}),
        ({"l1tex__data_pipe_lsu_wavefronts_mem_shared_dot_sum": (2.0, "1")}, {"smem": 256}),
    ],
)
def test_counters_renamed_between_versions_are_the_same_quantity(counters: dict[str, Any], expected: dict[str, Any]) -> None:
    found = row(launch(**counters)).bytes
    assert {name: found[name] for name in expected} == expected


def test_flop_are_two_a_multiply_add_and_unknown_where_a_part_is_missing() -> None:
    pipe = "smsp__sass_thread_inst_executed_op_{}_pred_on_dot_sum"
    parts = {pipe.format("fadd"): (10.0, "1"), pipe.format("fmul"): (20.0, "1"), pipe.format("ffma"): (100.0, "1")}
    assert row(launch(**parts)).flop == {"tensor": None, "vector": 230.0, "sfu": None}
    del parts[pipe.format("fadd")]
    assert row(launch(**parts)).flop["vector"] is None
    # Instructions of tensor cores say no FLOP, except that none of them is none.
    assert row(launch(sm__inst_executed_pipe_tensor_dot_sum=(5.0, "1"))).flop["tensor"] is None
    assert row(launch(sm__inst_executed_pipe_tensor_dot_sum=(0.0, "1"))).flop["tensor"] == 0


def test_sparse_and_dense_parts_of_a_format_are_not_counted_beside_their_total() -> None:
    name = "sm__ops_path_tensor_src_fp8_dst_fp32{}_dot_sum"
    parts = {name.format("_sparsity_off"): (6.0, "1"), name.format("_sparsity_on"): (2.0, "1")}
    assert row(launch(**parts)).tensor_flop_by_dtype == {"fp8": 8}
    assert row(launch(**parts, **{name.format(""): (8.0, "1")})).tensor_flop_by_dtype == {"fp8": 8}


# --------------------------------------------------------------------------- sums over launches
@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(1, 10**6)), min_size=1, max_size=9))
def test_sums_do_not_depend_on_how_launches_are_grouped(parts: list[tuple[int, int]]) -> None:
    launches = [
        launch(f"k{i % 3}", id_=str(i), dram__bytes_dot_sum=(float(b), "byte"), gpu__time_duration_dot_sum=(t / 1e9, "s"))
        for i, (b, t) in enumerate(parts)
    ]
    for by in ("kernel", "launch", "range"):
        found = counter_report(table(*launches), by=by, hardware=H200)
        assert sum(r.bytes["hbm"] or 0 for r in found.rows) == sum(b for b, _ in parts)
        assert found.time_s == pytest.approx(sum(t for _, t in parts) / 1e9)
        assert sum(r.share or 0 for r in found.rows) == pytest.approx(1)


def test_a_launch_without_a_counter_makes_the_sum_unknown_not_smaller() -> None:
    both = row(launch(dram__bytes_dot_sum=(5.0, "byte")), launch(id_="1"), by="kernel")
    assert both.bytes["hbm"] is None
    assert both.unavailable["bytes.hbm"] == "dram__bytes.sum was not collected for 1 of 2 launches"


def test_launches_of_a_summary_count_as_often_as_they_happened() -> None:
    assert row(launch(count=12, dram__bytes_dot_sum=(5.0, "byte"))).bytes["hbm"] == 60


# --------------------------------------------------------------------------- what limits
def _busy(**shares: float) -> dict[str, tuple[float, str]]:
    end = ".avg.pct_of_peak_sustained_elapsed"
    names = {"hbm": "dram__throughput", "l2": "lts__throughput", "l1": "l1tex__throughput", "sm": "sm__throughput"}
    names["tensor"] = "sm__pipe_tensor_cycles_active"
    return {names[unit] + end: (share, "%") for unit, share in shares.items()}


@pytest.mark.parametrize(
    ("shares", "limiter", "busiest"),
    [
        ({"hbm": 91, "l2": 40, "l1": 30, "sm": 20}, "hbm", "hbm"),
        ({"hbm": 30, "l2": 85, "l1": 30, "sm": 20}, "l2", "l2"),
        ({"hbm": 20, "l2": 25, "l1": 30, "sm": 88, "tensor": 88}, "tensor", "tensor"),
        ({"hbm": 20, "l2": 25, "l1": 30, "sm": 88, "tensor": 12}, "sm", "sm"),
        ({"hbm": 20, "l2": 25, "l1": 30, "sm": 41}, "latency", "sm"),
        ({"hbm": 20}, None, "hbm"),  # what was not collected may be busy
    ],
)
def test_the_limiter_is_the_busiest_unit_if_it_is_busy(shares: dict[str, float], limiter: str | None, busiest: str) -> None:
    found = row(launch(**_busy(**shares)))
    assert (found.limiter, found.busiest, found.limiter_source) == (limiter, busiest, "utilisation counters")
    assert found.busiest_share == pytest.approx(shares[busiest] / 100)


def test_without_counters_of_utilisation_rates_of_a_profile_tell_or_nothing_does() -> None:
    found = row(launch(**MOVED), hardware=H200)
    assert (found.limiter, found.limiter_source) == ("hbm", "rates over those of h200-sxm")
    assert found.busiest_share == pytest.approx(4e12 / 4.8e12)
    assert row(launch(**MOVED)).limiter is None
    assert "-H" in row(launch(**MOVED)).unavailable["limiter"]


def test_more_bytes_a_second_than_the_profile_has_is_said() -> None:
    fast = {**MOVED, "gpu__time_duration_dot_sum": (5e-4, "s")}
    (warning,) = counter_report(table(launch(**fast)), hardware=H200).warnings
    assert warning.code == "N003"


# --------------------------------------------------------------------------- beside a workload
WORKLOAD = """schema: 1
name: cases
dtype: bf16
steps:
  - {id: product, op: gemm, m: 8192, n: 8192, k: 8192}
  - {id: rows, op: softmax, rows: 4096, cols: 128256}
  - {id: gelu, op: elementwise, function: gelu, elements: 16777216}
  - {id: late, op: elementwise, function: gelu, elements: 16777216}
"""
MAPS = ("--map", "product=m=8192,n=8192", "--map", "rows=softmax/r=4096,", "--map", "gelu=^gelu/n=16777216$")


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app_for(("ingest",)), ["ingest", "ncu", *words])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.fixture
def workload(tmp_path: Path) -> str:
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    return str(tmp_path / "w.yaml")


def test_measured_stands_beside_counted_with_the_likely_cause(workload: str) -> None:
    found = json.loads(run(str(FIXTURE), "-H", "h200-sxm", "--workload", workload, *MAPS, "--format", "json"))
    rows = {r["id"]: r for r in found["rows"]}
    product, softmax, gelu = rows["product"], rows["rows"], rows["gelu"]
    # 3 x 8192^2 bf16 numbers of 2 B are 402,653,184 B; two thirds of them are read.
    assert product["counted"]["hbm_bytes"] == 402_653_184
    assert product["amplification"]["hbm"] == pytest.approx(1_394_903_296 / 402_653_184)
    assert product["amplification"]["tensor_flop"] == pytest.approx(1_116_691_496_960 / (2 * 8192**3))
    assert [c["name"] for c in product["causes"]] == ["re-reads", "padding"]
    assert product["causes"][0]["amount"] == 1_260_137_472 - 2 * 8192 * 8192 * 2
    assert [c["name"] for c in softmax["causes"]] == ["re-reads"]
    assert softmax["amplification"]["hbm_read"] == pytest.approx(2.917, rel=1e-3)
    assert [c["name"] for c in gelu["causes"]] == ["results left in L2"]
    assert gelu["amplification"]["hbm"] < 1
    assert rows["gemm/m=4096,n=4096,k=4096"]["counted"] is None
    assert found["warnings"][0]["code"] == "N004"


def test_reports_follow_the_published_schema(workload: str) -> None:
    from jsonschema import Draft202012Validator

    from roofline.report.published import schema_of

    validator = Draft202012Validator(schema_of("counters"))
    for words in ((), ("-H", "h200-sxm", "--workload", workload, *MAPS), ("--by", "kernel")):
        found = json.loads(run(str(FIXTURE), *words, "--format", "json"))
        assert list(validator.iter_errors(found)) == []
        found["rows"][0].pop("bytes")
        assert list(validator.iter_errors(found)) != []


def test_executions_multiply_what_is_counted(workload: str) -> None:
    words = (str(FIXTURE), "--workload", workload, *MAPS, "--executions", "2", "--format", "json")
    assert json.loads(run(*words))["rows"][0]["counted"]["hbm_bytes"] == 2 * 402_653_184


def test_ranges_named_as_steps_need_no_map(tmp_path: Path) -> None:
    text = "".join(line for line in FIXTURE.read_text(encoding="utf-8").splitlines(keepends=True) if not line.startswith("#"))
    (tmp_path / "c.csv").write_text(text.replace("gemm/m=8192,n=8192,k=8192", "product"), encoding="utf-8")
    (tmp_path / "w.yaml").write_text(WORKLOAD, encoding="utf-8")
    found = json.loads(run(str(tmp_path / "c.csv"), "--workload", str(tmp_path / "w.yaml"), "--format", "json"))
    assert found["rows"][0]["counted"]["step"] == "product"


def test_causes_are_named_only_where_counters_show_them() -> None:
    plain = row(launch(**MOVED))
    assert plain.causes == ()
    local = "l1tex__t_bytes_pipe_lsu_mem_local_op_{}_dot_sum"
    spilled = row(launch(**MOVED, **{local.format("ld"): (3e6, "byte"), local.format("st"): (1e6, "byte")}))
    assert [(c.name, c.amount) for c in spilled.causes] == [("spills", 4e6)]
    sectors, used = (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_dot_sum",
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld_dot_ratio",
    )
    strided = row(launch(**MOVED, **{sectors: (1000.0, "1"), used: (4.0, "byte")}))
    assert [(c.name, c.amount) for c in strided.causes] == [("uncoalesced", 1000 * 28)]
    assert row(launch(**MOVED, **{sectors: (1000.0, "1"), used: (31.9, "byte")})).causes == ()
    requests = "l1tex__t_requests_pipe_lsu_mem_global_op_ld_dot_sum"
    assert [c.name for c in row(launch(**{sectors: (3200.0, "1"), requests: (100.0, "1")})).causes] == ["uncoalesced"]
    assert row(launch(**{sectors: (1600.0, "1"), requests: (100.0, "1")})).causes == ()  # 16 sectors: the widest loads, all used


# --------------------------------------------------------------------------- the command
def test_no_profile_is_taken_unasked_and_those_that_fit_are_named() -> None:
    fits = candidates(table(launch(launch__sm_count=(132.0, "1"))))
    assert {"h200-sxm", "h100-sxm"} <= set(fits)
    assert "a100-sxm" not in fits
    assert candidates(table(launch(launch__sm_count=(108.0, "1")))) == ()  # capability 9.0 with the processors of another chip
    named = Launch("0", "k", (), "NVIDIA H200", "", {})
    assert candidates(table(named)) == ("h200-sxm",)
    said = run(str(FIXTURE))
    assert "No profile" in said
    assert "of roof" not in said.split("\n")[1]


def test_the_first_line_answers_and_output_is_the_same_every_time() -> None:
    first = run(str(FIXTURE), "-H", "h200-sxm").splitlines()[0]
    assert first == "50 launches in 34 NVTX ranges took 26.67 ms; the largest is flash/b=1,h=32,s=16384,d=128,causal=True with 23.8 %."
    words = (str(FIXTURE), "-H", "h200-sxm", "--format", "json")
    assert run(*words) == run(*words)
    lines = run(str(FIXTURE), "--format", "csv").splitlines()
    assert len(lines) == 35
    assert lines[1].startswith('"gemm/m=8192,n=8192,k=8192",')


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--by", "grid"), "not one of range, kernel, launch"),
        (("--map", "a=b"), "give --workload"),
        (("-H", "h200-sx"), "h200-sxm"),
        (("--workload", "W", "--map", "prodct=x"), "did you mean 'product'"),
        (("--workload", "W", "--map", "rows=("), "no regular expression"),
        (("--workload", "W", "--map", "rows=nothing"), "no launch belongs to a step"),
        (("--format", "yaml"), "unknown format"),
    ],
)
def test_a_command_that_cannot_be_obeyed_says_what_would(workload: str, words: tuple[str, ...], said: str) -> None:
    assert said in run(str(FIXTURE), *(workload if w == "W" else w for w in words), code=2)
