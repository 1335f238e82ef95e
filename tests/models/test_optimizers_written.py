"""The optimizer of a training step: one definition for files, imports, plans and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.models.memory_states import OPTIMIZERS, optimizer_bytes, optimizer_step
from roofline.ops import OPERATORS
from tests.commands import report, run  # noqa: F401  (fixtures)

FILE = "schema: 1\nmodel: llama-3-8b\nphase: train\noptimizer: {}\nparams: {{batch: 1, seq: 128}}\n"


@given(st.sampled_from(list(OPTIMIZERS)), st.sampled_from(["fp32", "bf16", "fp16"]), st.sampled_from([None, "fp32", "bf16"]))
def test_what_memory_counts_of_an_optimizer_is_what_its_step_updates(name: str, weight: str, gradient: str | None) -> None:
    """Two independent counts: bytes a parameter of states and masters, and the tensors that the operator reads and writes; without a
    master the weights themselves are among the latter."""
    keys = optimizer_step(name, weight, gradient)
    op = OPERATORS[str(keys.pop("op"))](**{"parameters": 1, "dtype": weight, **keys})  # type: ignore[call-arg]
    tensors = {t.name: t for t in op.tensors()}
    updated = sum(t.bytes for t in tensors.values() if t.role == "inout")
    own = 0 if "copy" in tensors else tensors["p"].bytes
    assert updated - own == optimizer_bytes(name, weight)
    assert tensors["g"].dtype == (gradient or weight)


def optimizer_line(text: str) -> str:
    return next(line.strip() for line in text.splitlines() if "id: optimizer" in line)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "op: adamw, parameters: 8030261248, master: true}"),
        (("--gradient-dtype", "fp32"), "op: adamw, parameters: 8030261248, master: true, grad_dtype: fp32}"),
        (("--optimizer", "adamw_bf16"), "op: adamw, parameters: 8030261248}"),
        (("--optimizer", "sgd"), "op: sgd, parameters: 8030261248, master: true}"),
        (("--optimizer", "sgd_momentum"), "op: sgd, parameters: 8030261248, momentum: true, master: true}"),
    ],
)
def test_an_import_writes_the_step_of_its_optimizer(run: Any, words: tuple[str, ...], line: str) -> None:  # noqa: F811
    text = run("import", "hf", "llama-3-8b", "--phase", "train", *words).stdout
    assert optimizer_line(text).endswith(line)


def test_a_file_names_its_optimizer_and_the_command_line_another(report: Any, tmp_path: Path) -> None:  # noqa: F811
    """28 bytes a parameter with fp32 masters, 14 in bf16, 20 of momentum."""
    (tmp_path / "w.yaml").write_text(FILE.format("adamw_bf16"), encoding="utf-8")

    def moved(*words: str) -> float:
        rows = report("analyze", str(tmp_path / "w.yaml"), "-H", "h200-sxm", *words)["rows"]
        return float(next(r for r in rows if r["id"] == "optimizer")["bytes"]["hbm"])

    assert moved() == 14 * 8_030_261_248
    assert moved("--set", "optimizer=adamw") == 28 * 8_030_261_248
    assert moved("--set", "optimizer=sgd_momentum") == 20 * 8_030_261_248


def test_a_plan_of_a_file_runs_the_optimizer_of_the_file(report: Any, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "w.yaml").write_text(FILE.format("sgd"), encoding="utf-8")
    words = ("plan", str(tmp_path / "w.yaml"), "-C", "dgx-h100", "--plan", "dp=1")
    found, named = report(*words), report(*words, "--optimizer", "adamw")
    assert (found["job"]["optimizer"], named["job"]["optimizer"]) == ("sgd", "adamw")
    assert (found["memory"]["parts_bytes"]["optimizer"], named["memory"]["parts_bytes"]["optimizer"]) == (
        4 * 8_030_261_248,
        12 * 8_030_261_248,
    )
    assert named["time"]["parts_s"]["optimizer"] == pytest.approx(found["time"]["parts_s"]["optimizer"] * 28 / 12)


def test_an_unknown_optimizer_of_a_file_is_refused_at_its_place(run: Any, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "w.yaml").write_text(FILE.format("adamm"), encoding="utf-8")
    result = run("analyze", str(tmp_path / "w.yaml"), "-H", "h200-sxm", code=2)
    assert "w.yaml:4:12: unknown value 'adamm'; did you mean 'adamw'" in result.stderr
    assert "\n               ^" in result.stderr


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--phase", "train", "--optimizer", "adam"), "did you mean 'adamw'"),
        (("--phase", "decode", "--optimizer", "sgd"), "an optimizer is of a training step"),
    ],
)
def test_an_optimizer_that_cannot_be_is_refused(run: Any, words: tuple[str, ...], part: str) -> None:  # noqa: F811
    assert part in run("import", "hf", "llama-3-8b", *words, code=2).stderr
