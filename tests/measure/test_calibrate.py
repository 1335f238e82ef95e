"""Calibration: which ceilings, what becomes of a failure, the profile that is written and its reading back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roofline.cli.app import app
from roofline.errors import InputError, UsageError
from roofline.hardware.profile import Absent, Ceiling, Figure
from roofline.measure.base import DeviceInfo, Procedure, Timing
from roofline.measure.calibrate import Calibration, calibrate, chosen, plan, sizes_for
from roofline.measure.ceilings import base, hbm, host, l2, tensor, vector
from roofline.measure.ceilings.base import Bench, Candidate, Measured, Sizes, Unmeasured
from roofline.measure.profile_file import ceiling, profile_name, profile_text, source_text, yaml_text
from roofline.report.model import CheckResult
from roofline.spec.ceilings import CEILINGS
from roofline.spec.hardware import load_hardware
from roofline.testing import FakeDevice, InlineWatch
from roofline.units import Dimension

SHORT = Procedure(
    cache="warm", warmup_s=0.002, shortest_sample_s=1e-4, fewest_samples=3, shortest_s=1e-3, longest_s=0.02, width=1.0, blocks=1, retries=0
)
SMALL = Sizes(
    array_bytes=256 * 1024,
    cache_bytes=(64 * 1024,),
    shapes=((64, 64, 64),),
    transfer_bytes=100_000,
    steps=1,
    launches=10,
    burst=SHORT,
    sustained=replace(SHORT, mode="sustained"),
)
MEASURED = Measured(label="Triton copy", value=4.0e12, low=3.9e12, high=4.1e12, best=4.2e12, clock_hz=1.98e9, power_w=512.3, note="hot")
GPU = DeviceInfo(
    kind="cuda",
    name="NVIDIA H200",
    uuid="gpu-1",
    memory_bytes=141e9,
    l2_bytes=60 * 2**20,
    processors=132,
    facts={"driver": "580.1", "torch": "2.11.0+cu130", "power_limit_w": 700.0, "max_sm_mhz": 1980.0, "other_processes": 0},
)
CPU = DeviceInfo(kind="cpu", name="Some CPU @ 2 GHz", uuid=None, memory_bytes=8 * 2**30, l2_bytes=2**20, processors=4, facts={})


def fake(**script: Any) -> Bench:
    return Bench(FakeDevice(**script), SMALL, watch=InlineWatch)


def call_of(work: Callable[[], None] = lambda: None) -> Callable[[], Callable[[], None]]:
    return lambda: work


def written(tmp_path: Path, text: str, name: str = "p.yaml") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


# --------------------------------------------------------------------------- choosing
def test_every_ceiling_of_both_plans_has_a_name_that_a_profile_accepts() -> None:
    assert set(plan("cuda")) <= set(CEILINGS)
    assert set(plan("cpu")) <= set(CEILINGS)


def test_sustained_rates_come_last_since_they_heat_the_device() -> None:
    order = list(plan("cuda"))
    first = min(order.index(n) for n in order if n.endswith("sustained"))
    assert all(n.endswith("sustained") for n in order[first:])


def test_only_takes_a_name_or_the_beginning_of_several() -> None:
    names = ["hbm.read", "hbm.copy", "hbmx", "tensor.bf16.burst", "tensor.bf16.sustained"]
    assert chosen(names, ["hbm"]) == ["hbm.read", "hbm.copy"]
    assert chosen(names, ["tensor.bf16", "hbmx"]) == names[2:]
    assert chosen(names, []) == names


def test_only_with_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="hbm"):
        chosen(["hbm.read"], ["hmb"])


# --------------------------------------------------------------------------- timing candidates
def test_the_candidate_with_the_fastest_median_wins_and_failures_are_named() -> None:
    def broken() -> Callable[[], None]:
        raise RuntimeError("no compiler\nsecond line")

    bench = fake(call_s=1e-3)
    candidates = [
        Candidate(label="a", build=call_of()),
        Candidate(label="b", build=call_of(), work=2.0),
        Candidate(label="c", build=broken),
    ]
    found = bench.fastest(1.0, candidates)
    assert found.label == "b"
    assert found.value == pytest.approx(2000.0)
    assert "c failed (no compiler)" in found.note


def test_no_candidate_that_runs_is_unmeasured_with_every_reason() -> None:
    def broken() -> Callable[[], None]:
        raise RuntimeError("no compiler")

    with pytest.raises(Unmeasured, match="a: no compiler; b: no compiler"):
        fake().fastest(1.0, [Candidate(label="a", build=broken), Candidate(label="b", build=broken)])


def test_a_kernel_with_a_wrong_result_is_not_a_ceiling() -> None:
    with pytest.raises(Unmeasured, match="wrong result of k: 1, expected 2"):
        fake().fastest(1.0, [Candidate(label="k", build=call_of(), check=lambda: base.close(1.0, 2.0, 1e-3, "k"))])


def test_a_rate_never_exceeds_what_the_fastest_sample_shows_even_where_the_interval_reaches_zero() -> None:
    timing = Timing(
        samples_s=(1.0, 2.0, 4.0), blocks=(0, 0, 0), median_s=2.0, low_s=0.0, high_s=9.0, calls_per_sample=1, input_sets=1, readings=()
    )
    found = base.rate_of(timing, 8.0, "x")
    assert (found.low, found.value, found.high, found.best) == (2.0, 4.0, 8.0, 8.0)


def test_ceilings_carry_the_clock_and_power_that_were_read_meanwhile() -> None:
    found = fake(call_s=1e-3, sm_mhz=1500.0, power_w=640.0).fastest(1.0, [Candidate(label="a", build=call_of())])
    assert (found.clock_hz, found.power_w) == (1.5e9, 640.0)


def test_reasons_are_one_short_line_without_paths() -> None:
    assert base.reason(RuntimeError("\n/home/me/x.cu: failed at 3 GB/s\nmore\n")) == "...: failed at 3 GB/s"
    assert base.reason(ValueError("")) == "ValueError"
    assert len(base.reason(ValueError("x" * 1000))) == base.MOST_REASON


# --------------------------------------------------------------------------- byte and FLOP formulas
@pytest.mark.parametrize(("measure", "arrays"), [(hbm.read, 1), (hbm.write, 1), (hbm.copy, 2), (hbm.triad, 3)])
def test_main_memory_counts_every_array_that_is_read_or_written(measure: Callable[[Bench], Measured], arrays: int) -> None:
    found = measure(fake(call_s=1e-3))
    assert found.value == pytest.approx(arrays * SMALL.array_bytes / 1e-3)


def test_arrays_that_a_cache_could_hold_are_named_in_the_note() -> None:
    assert "0.0052 caches" in hbm.read(fake(call_s=1e-3)).note


def test_a_product_counts_two_flop_a_multiply_add() -> None:
    assert tensor.burst("bf16")(fake(call_s=1e-3)).value == pytest.approx(2 * 64**3 / 1e-3)


def test_sustained_takes_the_shape_that_was_fastest_in_burst() -> None:
    bench = fake(call_s=1e-3)
    bench.sizes = replace(SMALL, shapes=((64, 64, 64), (64, 64, 128), (64, 64, 32)))
    bench.found["tensor.bf16.burst"] = replace(MEASURED, label="64x64x128")
    assert tensor.sustained("bf16")(bench).label == "64x64x128"
    bench.found.clear()
    assert tensor.sustained("bf16")(bench).label == "64x64x32"


def test_sustained_is_absent_for_the_reason_that_burst_was() -> None:
    bench = fake()
    bench.failed["tensor.fp8.burst"] = "no fp8"
    with pytest.raises(Unmeasured, match="no fp8"):
        tensor.sustained("fp8")(bench)


def test_a_product_that_the_device_cannot_run_is_absent_and_says_why() -> None:
    found = calibrate(FakeDevice(info=replace(CPU, kind="cpu")), SMALL, measures={"x": tensor.burst("tf32")}, watch=InlineWatch).found["x"]
    assert isinstance(found, Absent)
    assert "CUDA" in found.reason


def test_a_product_that_is_off_is_not_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = CheckResult(passed=False, error=0.5, tolerance=0.01, against="float64")
    monkeypatch.setattr("roofline.measure.check.check", lambda *args: wrong)
    with pytest.raises(Unmeasured, match=r"off by 0\.5, allowed 0\.01"):
        tensor.burst("bf16")(fake())


def test_a_cpu_without_a_fast_product_in_a_dtype_has_no_ceiling_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor, "_rate", lambda bench, dtype: 1e3)
    with pytest.raises(Unmeasured, match="no fast int8 product"):
        tensor.shapes_for(fake(), "int8")
    assert tensor.shapes_for(fake(), "fp32") == [(64, 64, 64)]


def test_the_plateau_is_the_working_set_of_the_median_rate() -> None:
    rates = [replace(MEASURED, value=v * 1e12, label=str(v)) for v in (9.0, 5.0, 8.0)]
    found = l2.plateau(rates, [4 * 2**20, 8 * 2**20, 16 * 2**20])
    assert found.label == "8.0"
    assert "4 to 16 MiB read 5 to 9 TB/s" in found.note


def test_a_working_set_above_two_fifths_of_the_cache_is_not_used() -> None:
    bench = Bench(FakeDevice(info=replace(CPU, l2_bytes=100_000.0)), SMALL, watch=InlineWatch)
    with pytest.raises(Unmeasured, match="no working set fits"):
        l2.read(bench)


def test_the_host_cost_of_a_launch_is_time_over_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = fake()
    device = bench.device
    assert isinstance(device, FakeDevice)
    monkeypatch.setattr(host, "tiny", lambda bench: lambda: device.clock.advance(7e-6))
    assert host.eager(bench).value == pytest.approx(7e-6)


def test_the_slope_over_nodes_ignores_the_constant_part() -> None:
    assert host.slope(host.NODES, [5e-6 + 1.25e-6 * n for n in host.NODES]) == pytest.approx(1.25e-6)


def test_exponentials_on_a_cpu_have_no_unit() -> None:
    with pytest.raises(Unmeasured, match="no hardware unit"):
        vector.exp2(fake())


# --------------------------------------------------------------------------- the run
def test_one_ceiling_that_fails_is_absent_with_its_reason_and_the_run_goes_on() -> None:
    def broken(bench: Bench) -> Measured:
        raise RuntimeError("misaligned address")

    result = calibrate(FakeDevice(), SMALL, measures={"hbm.read": broken, "hbm.copy": lambda b: MEASURED}, watch=InlineWatch)
    assert result.found == {"hbm.read": Absent("misaligned address"), "hbm.copy": MEASURED}


def test_ctrl_c_keeps_what_is_complete_and_names_the_rest() -> None:
    def interrupted(bench: Bench) -> Measured:
        raise KeyboardInterrupt

    measures = {"hbm.read": lambda b: MEASURED, "hbm.copy": interrupted, "hbm.triad": lambda b: MEASURED}
    result = calibrate(FakeDevice(), SMALL, measures=measures, watch=InlineWatch)
    assert result.interrupted
    assert result.measured == {"hbm.read": MEASURED}
    assert result.found["hbm.triad"] == Absent("interrupted before it was measured")


def test_ctrl_c_within_a_timing_ends_the_run_though_timing_keeps_its_samples() -> None:
    bench = fake(call_s=1e-3)
    device = bench.device
    assert isinstance(device, FakeDevice)
    bench.time(lambda: None)
    complete, device.samples = device.samples, 0
    device.interrupt_at = complete  # the last sample: others are there by then
    with pytest.raises(KeyboardInterrupt):
        bench.time(lambda: None)
    assert device.samples == complete


def test_every_ceiling_of_a_gpu_is_absent_with_a_reason_where_there_is_none() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this is about machines without a GPU")
    result = calibrate(FakeDevice(info=GPU), SMALL, watch=InlineWatch)
    reasons = {name: f.reason for name, f in result.found.items() if isinstance(f, Absent)}
    assert reasons.keys() >= {"hbm.read", "l2.read", "tensor.fp8.burst", "smem.read", "launch.graph_node", "pcie.h2d"}
    assert all(reasons.values())


def test_sizes_leave_memory_for_three_arrays() -> None:
    sizes = sizes_for(GPU, quick=False, free_bytes=2**30)
    assert 3 * sizes.array_bytes < 2**30
    assert sizes_for(GPU, quick=False).array_bytes >= 20 * 60 * 2**20


# --------------------------------------------------------------------------- the profile
def h200(**found: Measured | Absent) -> Calibration:
    names = {key.replace("__", "."): value for key, value in found.items()}
    return Calibration(GPU, found=names)


def test_on_a_gpu_measured_stands_beside_the_data_sheet_and_bounds_keep_that(tmp_path: Path) -> None:
    base_profile = load_hardware("h200-sxm")
    text = profile_text(h200(hbm__copy=MEASURED, sfu=Absent("no Triton")), base_profile, "mine", "2026-11-29")
    found = load_hardware(written(tmp_path, text))
    assert found.levels == base_profile.levels
    assert found.measured["sfu"] == Absent("no Triton")
    copy = found.measured["hbm.copy"]
    assert isinstance(copy, Ceiling)
    assert (copy.value, copy.low, copy.high, copy.best, copy.clock_hz) == (4.0e12, 3.9e12, 4.1e12, 4.2e12, 1.98e9)
    assert copy.note == "Triton copy; 512 W; hot"


def test_the_source_tells_date_device_versions_and_limits() -> None:
    text = source_text(GPU, "2026-11-29")
    assert "2026-11-29, NVIDIA H200, driver 580.1, torch 2.11.0+cu130, power limit 700 W, highest clock 1980 MHz" in text


def test_without_a_data_sheet_the_figures_are_the_fastest_samples(tmp_path: Path) -> None:
    found = {
        "hbm.read": replace(MEASURED, best=20e9),
        "hbm.copy": replace(MEASURED, best=25e9),
        "tensor.bf16.burst": replace(MEASURED, best=2e12),
        "tensor.bf16.sustained": replace(MEASURED, best=1e12),
        "vector.fp32": replace(MEASURED, best=3e11),
        "sfu": Absent("no hardware unit"),
    }
    profile = load_hardware(written(tmp_path, profile_text(Calibration(CPU, found=found), None, "mine")))
    bandwidth = profile.levels["hbm"].bandwidth
    assert isinstance(bandwidth, Figure)
    assert (bandwidth.value, bandwidth.kind) == (25e9, "measured")
    assert "hbm.copy" in (bandwidth.note or "")
    assert profile.matrix_engine("bf16")[1].value == 2e12
    assert profile.matrix_engine("fp32") == ("vector", profile.vector["fp32"])
    assert profile.sfu == Absent("no hardware unit")


def test_what_was_left_out_is_absent_and_says_so(tmp_path: Path) -> None:
    calibration = Calibration(CPU, found={"hbm.read": MEASURED}, left_out=("tensor.bf16.burst", "vector.fp32", "sfu"))
    profile = load_hardware(written(tmp_path, profile_text(calibration, None, "mine")))
    assert profile.tensor["bf16"] == Absent("not measured: left out of this calibration")


def test_a_cpu_profile_is_found_by_the_processor_name(tmp_path: Path) -> None:
    import re

    named = replace(CPU, name="Xeon(R) W-2295 CPU @ 3.00GHz [x+y]")
    profile = load_hardware(written(tmp_path, profile_text(Calibration(named, found={"hbm.read": MEASURED}), None, "mine")))
    assert re.fullmatch(profile.match[0], named.name)


def test_a_profile_that_would_hide_the_one_it_extends_is_refused() -> None:
    with pytest.raises(UsageError, match="h200-sxm-measured"):
        profile_text(h200(hbm__copy=MEASURED), load_hardware("h200-sxm"), "h200-sxm")


@pytest.mark.parametrize(
    "note", ['a "quote"', "key: value", "# no comment", "tab\there", "{brace}, [list]", "ünï\u2028code", "yes", "1.5", ""]
)
def test_any_note_is_read_back_as_it_was(tmp_path: Path, note: str) -> None:
    text = profile_text(h200(hbm__copy=replace(MEASURED, label=note, note="", power_w=None)), load_hardware("h200-sxm"), "mine")
    found = load_hardware(written(tmp_path, text)).measured["hbm.copy"]
    assert isinstance(found, Ceiling)
    assert (found.note or "") == note


@pytest.mark.parametrize("name", sorted(CEILINGS))
def test_every_ceiling_is_read_back_within_its_five_digits(tmp_path: Path, name: str) -> None:
    value = 1.23456e-6 if CEILINGS[name] is Dimension.SECONDS else 1.23456e12
    measured = replace(MEASURED, value=value, low=value * 0.99, high=value * 1.01, best=value)
    text = profile_text(Calibration(GPU, found={name: measured}), load_hardware("h200-sxm"), "mine")
    found = load_hardware(written(tmp_path, text)).measured[name]
    assert isinstance(found, Ceiling)
    assert found.value == pytest.approx(value, rel=1e-4)


def test_an_interval_that_does_not_hold_its_value_is_refused(tmp_path: Path) -> None:
    text = profile_text(h200(hbm__copy=MEASURED), load_hardware("h200-sxm"), "mine").replace("low: 3.9000", "low: 4.0500")
    with pytest.raises(InputError, match="from its low to its high"):
        load_hardware(written(tmp_path, text))


def test_a_misspelt_ceiling_is_refused_with_the_nearest(tmp_path: Path) -> None:
    text = profile_text(h200(hbm__copy=MEASURED), load_hardware("h200-sxm"), "mine").replace("hbm.copy:", "hbm.cpoy:")
    with pytest.raises(InputError, match=r"did you mean 'hbm\.copy'"):
        load_hardware(written(tmp_path, text))


def test_a_derived_ceiling_claims_no_sample() -> None:
    assert "best" not in ceiling("smem.read", replace(MEASURED, kind="derived"))


def test_lines_are_whole_yaml_with_a_blank_line_between_maps() -> None:
    assert yaml_text({"a": 1, "b": {"c": {"value": "1 B", "note": "x"}}}) == "a: 1\n\nb:\n  c: {value: 1 B, note: x}\n"


@pytest.mark.parametrize(
    ("output", "name"), [("out/My CPU.yaml", "my-cpu"), (None, "cpu-measured"), ("-", "cpu-measured"), ("...yaml", "measured")]
)
def test_a_profile_is_called_as_its_file(output: str | None, name: str) -> None:
    assert profile_name(output, None, CPU) == name


# --------------------------------------------------------------------------- the command
@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr("roofline.measure.calibrate.sizes_for", lambda info, quick, free: SMALL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_calibrate_on_the_cpu_writes_a_profile_that_analyze_accepts(small: Path) -> None:
    only = [a for name in ("hbm", "vector", "tensor.bf16", "launch") for a in ("--only", name)]
    result = CliRunner().invoke(app, ["calibrate", "--device", "cpu", "--no-lock", "-o", "cpu.yaml", *only])
    assert result.exit_code == 0, result.output
    assert "hbm.triad" in result.stdout
    profile = load_hardware("cpu.yaml")
    assert isinstance(profile.measured["hbm.triad"], Ceiling)
    analyzed = CliRunner().invoke(app, ["op", "gemm", "m=64", "n=64", "k=64", "dtype=fp32", "-H", "cpu.yaml"])
    assert analyzed.exit_code == 0, analyzed.output
    shown = CliRunner().invoke(app, ["hardware", "show", "cpu.yaml"])
    assert "launch.host" in shown.stdout


def test_without_a_file_only_the_profile_is_on_stdout(small: Path) -> None:
    result = CliRunner().invoke(app, ["calibrate", "--device", "cpu", "--no-lock", "--only", "hbm.copy"])
    assert result.exit_code == 0, result.output
    Path("again.yaml").write_text(result.stdout)
    assert load_hardware("again.yaml").name == "cpu-measured"


def test_nothing_measured_is_no_profile(small: Path) -> None:
    result = CliRunner().invoke(app, ["calibrate", "--device", "cpu", "--no-lock", "--only", "sfu", "-o", "none.yaml"])
    assert result.exit_code == 4
    assert "no hardware unit" in result.stderr
    assert not Path("none.yaml").exists()


def test_an_unknown_ceiling_is_a_usage_error(small: Path) -> None:
    result = CliRunner().invoke(app, ["calibrate", "--device", "cpu", "--no-lock", "--only", "hmb"])
    assert result.exit_code == 2
    assert "hbm" in result.stderr


def test_ctrl_c_writes_what_is_complete_and_exits_130(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(bench: Bench) -> Measured:
        raise KeyboardInterrupt

    monkeypatch.setattr("roofline.measure.ceilings.hbm.copy", interrupted)
    result = CliRunner().invoke(app, ["calibrate", "--device", "cpu", "--no-lock", "--only", "hbm", "-o", "part.yaml"])
    assert result.exit_code == 130, result.output
    profile = load_hardware("part.yaml")
    assert isinstance(profile.measured["hbm.read"], Ceiling)
    assert profile.measured["hbm.triad"] == Absent("interrupted before it was measured")


def test_the_parameters_of_estimates_are_fitted_to_the_kernels_and_written_into_the_profile(tmp_path: Path) -> None:
    """On the tables of a real calibration: sets of this device, begun from those of the profile that it extends."""
    from roofline.cli.calibrate import add_parameters

    tables = sorted((Path(__file__).parents[2] / "results" / "h200" / "fresh" / "h200-fresh.kernels").glob("*.csv"))
    profile = tmp_path / "mine.yaml"
    profile.write_text("schema: 1\nname: mine\nextends: h200-sxm\n", encoding="utf-8")
    add_parameters(str(profile), [str(t) for t in tables if t.stem in ("layernorm", "rmsnorm")])
    found = load_hardware(str(profile)).fitted
    fitted = {name for name in found if found[name].device == "mine"}
    assert fitted == {"stream.layernorm.torch.any", "stream.rmsnorm.torch.any", "stream.any.torch.any"}
    own, before = found["stream.rmsnorm.torch.any"], load_hardware("h200-sxm").fitted["stream.rmsnorm.torch.any"]
    assert own.kind == "fitted"
    assert own.values != before.values
    assert own.values["hbm_share"] == pytest.approx(before.values["hbm_share"], rel=0.2)


def test_a_profile_without_what_models_need_gets_no_parameters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A CPU calibrated alone states no clock: the tables stay, and a note says why."""
    from roofline.cli.calibrate import add_parameters

    profile = tmp_path / "mine.yaml"
    profile.write_text("schema: 1\nname: mine\nextends: tpu-v5e\n", encoding="utf-8")
    text = profile.read_text(encoding="utf-8")
    table = tmp_path / "softmax.csv"
    table.write_text("rows,cols,dtype,time_us\n" + "".join(f"{n},1024,bf16,{n / 50}\n" for n in range(512, 532)), encoding="utf-8")
    add_parameters(str(profile), [str(table)])
    assert profile.read_text(encoding="utf-8") == text
    assert "no parameters of estimates were fitted" in capsys.readouterr().err
