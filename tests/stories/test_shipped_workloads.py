"""Every workload that is shipped runs as it is and holds what it promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from roofline.report.published import schema_of
from roofline.spec.find import shipped

WORKLOADS = sorted(path.stem for path in shipped("workloads").glob("*.yaml"))
PROMISED = {
    "attention_fig2_flash", "attention_fig2_naive", "decode_gemv", "gemm_8k", "hyena_operator", "llama3_70b_decode_tp8", "matmul_ladder",
    "qwen3_8b_decode", "resnet50_convs", "score_matrix_100k", "transformer_block",
}  # fmt: skip


def text_of(name: str) -> str:
    return next(shipped("workloads").glob(f"{name}.yaml")).read_text()


def test_the_names_that_the_docs_promise_are_there() -> None:
    assert set(WORKLOADS) >= PROMISED


@pytest.mark.parametrize("name", WORKLOADS)
def test_it_passes_its_own_check(run: Any, name: str) -> None:
    result = run("analyze", name, "--check")
    assert result.stderr.count("ok: ") >= 2
    assert "DOES NOT FIT" not in result.stdout


@pytest.mark.parametrize("name", WORKLOADS)
def test_it_tells_the_editor_its_schema_and_the_reader_what_it_is(name: str) -> None:
    first, *rest = text_of(name).splitlines()
    path = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert path
    folder = next(shipped("workloads").glob(f"{name}.yaml")).parent
    assert (folder / path[1]).resolve() == (Path(shipped("workloads")).parent / "docs/schema/workload.json").resolve()
    assert rest[0].startswith("# ")
    assert len(rest[0]) > 40


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_editor_finds_no_fault_in_it(name: str) -> None:
    jsonschema.validate(yaml.safe_load(text_of(name)), schema_of("workload"))


def test_the_docs_name_every_shipped_workload_and_their_example_runs(run: Any, tmp_path: Path) -> None:
    docs = (shipped("workloads").parent / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert [name for name in WORKLOADS if f"`{name}`" not in docs] == []
    example = tmp_path / "example.yaml"
    example.write_text(re.findall(r"```yaml\n(.*?)```", docs, re.DOTALL)[0])
    assert run("analyze", str(example), "--check").stderr.count("ok: ") == 3


def test_resnet_50_has_53_convolutions(report: Any) -> None:
    assert sum(row["repeat"] for row in report("analyze", "resnet50_convs")["rows"]) == 53


def test_an_image_through_resnet_50_is_8_17_gflop(report: Any) -> None:
    totals = report("analyze", "resnet50_convs", "--set", "batch=1")["totals"]
    assert totals["flop"]["tensor"] == 2 * 4_087_136_256
    assert totals["parameters"] == 25_557_032 - 2_049_000 - 53_120


def test_a_score_matrix_of_100k_tokens_is_20_gb_and_flash_has_none(report: Any) -> None:
    naive = report("analyze", "score_matrix_100k")["rows"][0]
    flash = report("analyze", "score_matrix_100k", "--set", "attention.implementation=flash")["rows"][0]
    assert naive["extra_memory_bytes"] == 2 * 2 * 100_000**2
    assert flash["extra_memory_bytes"] == 4 * 100_000
    assert naive["flop"]["tensor"] == flash["flop"]["tensor"]


def test_many_heads_of_it_do_not_fit_and_that_is_a_result(run: Any) -> None:
    assert "DOES NOT FIT" in run("analyze", "score_matrix_100k", "--set", "heads=32").stdout


def test_a_fused_convolution_turns_a_hyena_operator_from_memory_to_compute(report: Any) -> None:
    """The whole at its bound would be 3.9 times as fast, with a third more matrix FLOP."""
    flash, cufft = (report("analyze", "hyena_operator", "--set", f"conv.implementation={i}")["totals"] for i in ("flash", "cufft"))
    assert (flash["bound"]["limiter"], cufft["bound"]["limiter"]) == ("tensor", "hbm")
    assert cufft["bound"]["time_s"] / flash["bound"]["time_s"] == pytest.approx(3.93, abs=0.01)
    assert flash["flop"]["tensor"] / cufft["flop"]["tensor"] == pytest.approx(1.33, abs=0.01)


def test_qwen3_8b_decodes_205_tokens_a_second(report: Any) -> None:
    bound = report("analyze", "qwen3_8b_decode")["totals"]["bound"]
    assert bound["time_s"] == pytest.approx(4.879e-3, rel=1e-3)
    assert 1 / bound["time_s"] == pytest.approx(205.0, rel=1e-3)


def test_at_batch_32_its_cache_takes_most_of_the_time(report: Any) -> None:
    found = report("analyze", "qwen3_8b_decode", "--set", "batch=32")
    # 0.7 % above weights and cache alone: activations between kernels, which this count takes through HBM.
    assert found["totals"]["bound"]["time_s"] == pytest.approx(16.057e-3, rel=0.01)
    assert found["totals"]["bound"]["limiter"] == "hbm"
    assert next(r for r in found["rows"] if r["id"] == "attention")["share"] > 0.7


def test_at_batch_64_it_does_not_fit_by_13_7_gb(report: Any) -> None:
    memory = report("analyze", "qwen3_8b_decode", "--set", "batch=64")["totals"]["memory"]
    assert memory["fits"] is False
    assert memory["shortfall_bytes"] == pytest.approx(13.69e9, rel=2e-3)
