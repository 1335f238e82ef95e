"""A torch module as a workload: FLOP by three independent counts; what is not recognised is said; hostile code is refused in a block."""

from __future__ import annotations

import builtins
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from roofline.cli.app import app_for
from roofline.errors import UsageError
from roofline.report.build import analyze
from roofline.spec.source import Source
from roofline.spec.workload import read_workload
from tests.ingest.module_models import BATCH, GPT2, LLAMA, SEQ

torch = pytest.importorskip("torch")

from roofline.ingest.module import Ingested, ingest_module  # noqa: E402
from roofline.ingest.module_load import users_code  # noqa: E402
from roofline.models.expansion import Expansion  # noqa: E402
from roofline.models.write import workload_text  # noqa: E402
from roofline.spec.model import load_model  # noqa: E402

HERE = "tests.ingest.module_models"
Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    def call(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app_for(("ingest",)), ["ingest", "module", *words])
        assert result.exit_code == code, result.output
        return result

    return call


@pytest.fixture(scope="module")
def made() -> Callable[..., Ingested]:
    kept: dict[tuple[Any, ...], Ingested] = {}

    def make(name: str, *inputs: str, **options: bool) -> Ingested:
        key = (name, *inputs, *sorted(options))
        if key not in kept:
            kept[key] = ingest_module(f"{HERE}:{name}", inputs, **options)
        return kept[key]

    return make


def report(text: str) -> Any:
    return analyze(read_workload(Source("w.yaml", text)), None)


def imported(config: dict[str, Any], tmp_path: Path, phase: str, **settings: int) -> Any:
    """The accountant's own workload for the same configuration."""
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    model, how, _ = load_model(str(tmp_path / "config.json"))
    return report(workload_text(Expansion(model=model, phase=phase, how=how), settings))


def by_torch(name: str, *, backward: bool) -> int:
    """torch's own counter over a real run with real numbers on this CPU, with attention in its plain form."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    import tests.ingest.module_models as models

    module, inputs = getattr(models, name)()
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        out = module(*inputs) if isinstance(inputs, tuple) else module(**inputs) if isinstance(inputs, dict) else module(inputs)
        if backward:
            out.sum().backward()
    return counter.get_total_flops()


def products(found: Any) -> float:
    """Matrix FLOP without attention."""
    return sum(r.flop["tensor"] * r.repeat for r in found.rows if r.op != "attention")


def scores_flop(config: dict[str, Any]) -> int:
    """FLOP of attention over all scores, by hand: two products of 2 batch heads seq^2 head_dim, in every layer."""
    heads, layers = config.get("n_head") or config["num_attention_heads"], config.get("n_layer") or config["num_hidden_layers"]
    width = config.get("n_embd") or config["hidden_size"]
    return 4 * BATCH * heads * SEQ * SEQ * (width // heads) * layers


MODELS = [("llama", LLAMA), ("gpt", GPT2)]


@pytest.mark.parametrize(("name", "config"), MODELS)
def test_matrix_flop_are_those_of_the_configuration_and_of_torch(name: str, config: dict[str, Any], made: Any, tmp_path: Path) -> None:
    ours = report(made(name).text)
    known = imported(config, tmp_path, "train", batch=BATCH, seq=SEQ)
    # A training step of the importer is forward and backward; its products are three times those of the forward pass.
    assert products(ours) * 3 == products(known)
    assert products(ours) == by_torch(name, backward=False) - scores_flop(config)
    attention = sum(r.flop["tensor"] * r.repeat for r in ours.rows if r.op == "attention")
    assert attention == pytest.approx(scores_flop(config) / 2, rel=1 / SEQ)  # half the square, and half the diagonal


@pytest.mark.parametrize(("name", "config"), MODELS)
def test_backward_doubles_every_product(name: str, config: dict[str, Any], made: Any, tmp_path: Path) -> None:
    forward, both = report(made(name).text), report(made(name, backward=True).text)
    assert products(both) == 3 * products(forward) == by_torch(name, backward=True) - 3 * scores_flop(config)
    known = imported(config, tmp_path, "train", batch=BATCH, seq=SEQ)
    assert both.totals.flop["tensor"] == known.totals.flop["tensor"]


@pytest.mark.parametrize(("name", "config"), MODELS)
def test_parameters_are_counted_once(name: str, config: dict[str, Any], made: Any) -> None:
    """Layers that repeat, heads that share the embedding and backward passes that read the weights again included."""
    import tests.ingest.module_models as models

    module, _ = getattr(models, name)()
    count = sum(p.numel() for p in module.parameters())
    assert report(made(name).text).totals.parameters == count
    assert report(made(name, backward=True).text).totals.parameters == count


@pytest.mark.parametrize("options", [(), ("backward",), ("meta",), ("backward", "meta")], ids="-".join)
@pytest.mark.parametrize("name", ["llama", "gpt", "gpt_loss", "images", "recurrent", "encoder", "mixed"])
def test_every_difference_to_torchs_counter_is_explained(name: str, options: tuple[str, ...], made: Any) -> None:
    """On the meta device torch takes attention apart into products, which it counts; on a CPU it has no formula for it."""
    if name == "mixed" and "meta" in options:
        return  # autocast is of a device, and meta is none
    found = made(name, **dict.fromkeys(options, True))
    assert found.unknown == ()
    assert found.check is not None
    assert found.check.ours == report(found.text).totals.flop["tensor"]
    assert found.check.unexplained == pytest.approx(0, abs=1e-9 * found.check.ours)


def test_a_difference_that_nothing_explains_is_said(made: Any) -> None:
    from dataclasses import replace

    from roofline.ingest.module import lines

    found = made("gpt")
    wrong = replace(found, check=replace(found.check, ours=found.check.ours * 2))
    assert any("nothing explains" in line for line in lines(wrong))
    assert not any("nothing explains" in line for line in lines(found))


def test_fast_paths_of_this_machine_do_not_hide_what_is_computed(made: Any) -> None:
    """An LSTM of 5 steps on 2 sequences: 4 gates of 64 from 32 inputs and 64 hidden numbers, 2 x 2 x 5 x 256 x 96 FLOP."""
    assert report(made("recurrent").text).totals.flop["tensor"] == 2 * 2 * 5 * 256 * (32 + 64)
    encoder = {r.op for r in report(made("encoder").text).rows}
    assert {"attention", "gemm", "layernorm"} <= encoder


def test_weights_cast_by_autocast_are_parameters(made: Any) -> None:
    found = report(made("mixed").text)
    product = next(r for r in found.rows if r.op == "gemm")
    assert (product.dtype, product.parameters) == ("bf16", 64 * 32)
    backward = report(made("mixed", backward=True).text)
    assert backward.totals.flop["tensor"] == 2 * product.flop["tensor"]  # x needs no gradient, so that only dW is computed


def test_equal_layers_stand_once_with_repeat(made: Any) -> None:
    rows = {r.id: r for r in report(made("llama").text).rows}
    assert rows["layers/attn/q"].repeat == rows["layers/n1"].repeat == LLAMA["num_hidden_layers"]
    assert (rows["layers/attn/k"].fields["n"], rows["layers/attn/attention"].fields["kv_heads"]) == (64, 2)
    assert rows["head"].repeat == 1
    assert len(rows) < 40
    both = {r.id: r for r in report(made("llama", backward=True).text).rows}
    assert both["layers/n1/rmsnorm-backward"].repeat == LLAMA["num_hidden_layers"]
    assert both["layers/n1/rmsnorm-backward"].direction == "backward"


def test_a_layer_passed_three_times_has_its_weights_once(made: Any) -> None:
    found = report(made("Shares", "4x32,float32").text)
    assert found.totals.parameters == 32 * 32 + 32
    assert sum(r.repeat for r in found.rows) == 3


def test_meta_and_real_modules_give_the_same_file(made: Any) -> None:
    assert made("gpt", meta=True).text == made("gpt").text
    assert ingest_module(f"{HERE}:gpt").text == made("gpt").text


@pytest.mark.parametrize("meta", [False, True])
def test_inputs_larger_than_any_memory_take_none(meta: bool) -> None:
    found = ingest_module(f"{HERE}:Shares", ["100000000000x32,float32"], meta=meta)
    assert report(found.text).totals.flop["tensor"] == 3 * 2 * 10**11 * 32 * 32


def test_what_is_not_recognised_is_listed(run: Run) -> None:
    result = run(f"{HERE}:sorts")
    assert "not recognised: sort, 1 times (no handler for sort); torch counts no FLOP for it" in result.stderr
    assert "# Not recognised and not in these steps: sort (1 times)" in result.stdout
    assert "op: gemm, m: 8, n: 16, k: 32, bias: true" in result.stdout
    assert "sort" not in run(f"{HERE}:gpt").stderr


def test_convolutions_with_and_without_the_gradient_of_their_input(made: Any) -> None:
    """2 x 8 x 8 x 8 x 27 multiply-adds in the first, 2 x 4 x 6 x 6 x 72 in the second; the first has no dx."""
    first, second = 2 * (2 * 8 * 8 * 8 * 27), 2 * (2 * 4 * 6 * 6 * 72)
    assert report(made("images").text).totals.flop["tensor"] == first + second
    assert report(made("images", backward=True).text).totals.flop["tensor"] == 2 * first + 3 * second


# --------------------------------------------------------------------------- the command and hostile code
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tests.ingest.module_models",), "is not package:function"),
        (("os:system('x')",), "is not package:function"),
        (("tests.ingest.module_modles:gpt",), "no module named"),
        ((f"{HERE}:gtp",), "did you mean 'gpt'"),
        ((f"{HERE}:not_callable",), "cannot be called"),
        ((f"{HERE}:nothing",), "def build(): return module, (inputs, ...)"),
        ((f"{HERE}:leaves",), "ended the process (7)"),
        ((f"{HERE}:Fails", "--input", "2x2,float32"), "raised ValueError: the user's own words\n  at "),
        ((f"{HERE}:Peeks", "--input", "2x2,float32"), "needs the contents of a tensor"),
        ((f"{HERE}:Shares", "--input", "2x33,float32"), "raised RuntimeError"),
        ((f"{HERE}:Shares", "--input", "2x32,flot32"), "did you mean 'float32'"),
        ((f"{HERE}:Shares", "--input", "2;32,float32"), "is not SHAPE,DTYPE"),
        ((f"{HERE}:views",), "views only"),
        ((f"{HERE}:unweighted", "--backward"), "has no backward pass"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_block(words: tuple[str, ...], said: str, run: Run) -> None:
    result = run(*words, code=2)
    assert said in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_the_place_in_the_users_file_is_named(run: Run) -> None:
    assert "tests/ingest/module_models.py:" in run(f"{HERE}:Fails", "--input", "2x2,float32", code=2).stderr.replace("\\", "/")


def test_what_user_code_prints_does_not_get_into_the_file(run: Run) -> None:
    result = run(f"{HERE}:Prints", "--input", "2x4,float32")
    assert "built" in result.stderr
    assert "ran" in result.stderr
    assert result.stdout.startswith("# Written by")
    assert "built" not in result.stdout


def test_a_file_in_the_working_directory_is_found_and_does_not_stand_in_for_installed_ones(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_model_of_mine.py").write_text(
        "import torch\ndef build():\n    return torch.nn.Linear(4, 2), torch.zeros(3, 4)\n", encoding="utf-8"
    )
    (tmp_path / "yaml.py").write_text("raise SystemExit('hijacked')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run("a_model_of_mine:build", "-o", "w.yaml")
    assert "op: gemm, m: 3, n: 2, k: 4, bias: true" in (tmp_path / "w.yaml").read_text(encoding="utf-8")


def test_without_torch_the_exit_code_says_that_something_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "torch" or name.startswith("torch."):
            raise ImportError("No module named 'torch'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    assert "pip install torch" in run(f"{HERE}:gpt", code=3).stderr


def test_nothing_that_users_code_prints_is_a_result(capfd: pytest.CaptureFixture[str]) -> None:
    """By `print`, past `sys.stdout`, from C with its buffer, and by a process that it starts; afterwards stdout is what it was."""
    ours = (lambda: print("python"), lambda: sys.__stdout__.write("kept stream\n"), lambda: os.write(1, b"descriptor\n"),
            lambda: ctypes.CDLL(None).printf(b"c\n"), lambda: subprocess.run(["echo", "child"], check=True))  # fmt: skip
    with users_code("a module"):
        for say in ours:
            say()
    os.write(1, b"result\n")
    found = capfd.readouterr()
    assert found.out == "result\n"
    assert sorted(found.err.splitlines()) == ["c", "child", "descriptor", "kept stream", "python"]
    with pytest.raises(UsageError, match="a module raised ValueError"), users_code("a module"):
        raise ValueError
    os.write(1, b"result\n")
    assert capfd.readouterr().out == "result\n"
