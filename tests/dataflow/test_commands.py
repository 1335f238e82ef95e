"""``roofline dataflow``: list, show, compare, tune."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml

from roofline.dataflow.account import account, device_of
from roofline.dataflow.tune import candidates, search
from roofline.report.published import schema_of
from roofline.spec.dataflow import load_dataflow
from roofline.spec.find import dataflow_names, find_dataflow, workload_names
from roofline.spec.hardware import load_hardware

NAMES = dataflow_names()
FIGURE_2 = [
    word
    for s in ("batch=64", "heads=16", "q_len=1024", "kv_len=1024", "head_dim=64", "backward=1", "mask=1", "dropout=1")
    for word in ("--set", s)
]


def home(name: str) -> str:
    """A device for which the dataflow was made."""
    return "b200-sxm" if name.endswith("4") and name.startswith("attention") else "h100-sxm"


def test_what_the_docs_promise_is_shipped() -> None:
    families = {n.partition(":")[0] for n in NAMES}
    assert families == {"attention", "fft_conv", "gemm", "layernorm", "monarch", "softmax"}
    assert len(NAMES) >= 30
    assert not {n.replace(":", "_") for n in NAMES} & set(workload_names())


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_dataflow_shows_and_fits_its_device(run: Any, name: str) -> None:
    """Each says what it is in its first lines, is found by its name, and its tables keep to 80 columns."""
    text = find_dataflow(name).read_text(encoding="utf-8")
    first, second, *_ = text.splitlines()
    assert first == "# yaml-language-server: $schema=../../docs/schema/dataflow.json"
    assert second.startswith("# ")
    assert yaml.safe_load(text)["name"] == name
    flow = load_dataflow(name)
    assert flow.name == name
    assert flow.title
    assert flow.source
    found = json.loads(run("dataflow", "show", name, "-H", home(name), "--format", "json").stdout)
    assert found["fits"], found["why"]
    totals = found["totals"]
    assert 0 < totals["bound_s"] <= totals["scheduled_s"] <= totals["no_overlap_s"]
    assert totals["bytes"]["hbm_once"] <= totals["bytes"]["hbm"] <= totals["bytes"]["l2"]


@pytest.mark.parametrize("name", NAMES)
def test_an_editor_finds_no_fault_in_it(name: str) -> None:
    import jsonschema

    jsonschema.validate(yaml.safe_load(find_dataflow(name).read_text(encoding="utf-8")), schema_of("dataflow"))


def test_list_names_all(run: Any) -> None:
    said = run("dataflow", "list").stdout
    assert [line.split()[0] for line in said.splitlines()] == NAMES
    rows = json.loads(run("dataflow", "list", "--format", "json").stdout)["dataflows"]
    assert next(r for r in rows if r["name"] == "attention:flash1")["also"] == ["attention:flash"]


def test_the_comparison_of_figure_2(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = run("dataflow", "compare", "attention:naive", "attention:flash", "-H", "a100-sxm", *FIGURE_2).stdout
    assert "40.27 GB" in said
    assert "4.589 GB" in said
    flat = " ".join(said.split())
    assert "matrix FLOP +16.7 %, HBM bytes -88.6 %, bound 6.14x as fast" in flat
    assert "Only attention:naive moves p, s, dp, ds, dropped through HBM: 38.65 GB of 40.27 GB." in flat
    assert max(len(line) for line in said.splitlines()) <= 80


def test_a_setting_that_none_knows_is_an_error(run: Any) -> None:
    result = run("dataflow", "compare", "attention:naive", "attention:flash2", "-H", "a100-sxm", "--set", "tile_q=1", code=2)
    assert "no param or tile 'tile_q'" in result.stderr
    assert "two or more" in run("dataflow", "compare", "attention:naive", "-H", "a100-sxm", code=2).stderr


@pytest.mark.parametrize("name", ["attention:flash3", "gemm:cluster", "attention:flash1", "softmax:safe", "fft_conv:order3"])
def test_tables_keep_to_80_columns(run: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in ("show", "tune"):
        said = run("dataflow", command, name, "-H", "h100-sxm").stdout
        assert max(len(line) for line in said.splitlines()) <= 80, said


# --------------------------------------------------------------------------- tuning
@pytest.mark.parametrize(
    ("name", "hardware"), [("attention:flash3", "h100-sxm"), ("gemm:pipelined", "h100-sxm"), ("attention:flash1", "a100-sxm")]
)
def test_arrays_of_tiles_give_what_each_choice_gives_alone(name: str, hardware: str) -> None:
    """The same formulas, with arrays where numbers stand."""
    profile = load_hardware(hardware)
    device = device_of(profile, "bf16")
    flow = load_dataflow(name, machine=device.names)
    chosen = candidates(flow, device)
    many = account(flow, device, chosen)
    size = len(next(iter(chosen.values())))
    for i in range(0, size, max(1, size // 40)):
        one = account(flow, device, {n: int(v[i]) for n, v in chosen.items()})
        for of in ("once_bytes", "l2_bytes", "hbm_bytes", "smem_bytes", "tensor"):
            whole = many.sum(of)
            assert (whole if isinstance(whole, (int, float)) else whole[i]) == pytest.approx(one.sum(of), rel=1e-12)
        assert many.scheduled_s[i] == pytest.approx(one.scheduled_s, rel=1e-12)
        assert many.no_overlap_s[i] == pytest.approx(one.no_overlap_s, rel=1e-12)
        assert bool(many.fits[i]) == bool(one.fits)


def test_the_search_is_exhaustive_and_takes_less_than_a_second() -> None:
    device = device_of(load_hardware("h100-sxm"), "bf16")
    flow = load_dataflow("gemm:cluster", machine=device.names)
    began = time.perf_counter()
    found = search(flow, device)
    assert time.perf_counter() - began < 1
    assert found.tried == 4 * 4 * 3 * 5 * 3 * 3 * 2
    assert 0 < found.fitting < found.tried
    assert all(c.account.fits for c in found.best)
    assert found.best[0].account.scheduled_s <= found.least_s / 0.95


def test_more_bytes_cannot_be_needed_with_more_sram(report: Any) -> None:
    found = report("dataflow", "tune", "attention:flash1", "-H", "a100-sxm", "--sram", "64KiB..1MiB")
    moved = [r["bytes"]["l2"] for r in found["sweep"]]
    assert [r["sram_bytes"] for r in found["sweep"]] == [2**i * 1024 for i in range(6, 11)]
    assert moved == sorted(moved, reverse=True)
    products = [r["reread_bytes"] * r["sram_bytes"] for r in found["sweep"][:3]]
    assert max(products) / min(products) < 1.1  # N^2 d^2 / M


def test_what_binds_is_worth_more_than_what_does_not(report: Any) -> None:
    worth = {
        r["part"]: r["speedup"] for r in report("dataflow", "tune", "attention:flash4", "-H", "b200-sxm", "--set", "head_dim=64")["worth"]
    }
    assert worth["exponentials"] > 1.5
    assert worth["matrix rate"] < 1.05
    assert worth["shared memory"] < 1.05
    assert all(w >= 1 for w in worth.values())


@pytest.mark.parametrize("text", ["1MiB..64KiB", "64", "64KiB..x", "a..b..c"])
def test_a_range_that_is_none(run: Any, text: str) -> None:
    assert "--sram" in run("dataflow", "tune", "attention:flash1", "-H", "a100-sxm", "--sram", text, code=2).stderr


def test_nothing_that_fits_is_a_result(report: Any) -> None:
    found = report("dataflow", "tune", "attention:flash3", "-H", "h100-sxm", "--set", "head_dim=1024")
    assert found["fitting"] == 0
    assert found["best"] == []
    assert found["least_s"] is None
