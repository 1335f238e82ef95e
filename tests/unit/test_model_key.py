"""The key ``model`` of a workload: the same steps as an import, and located errors for everything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from roofline.errors import InputError
from roofline.models.expansion import Expansion, Lora
from roofline.models.training import TARGETS
from roofline.models.write import workload_text
from roofline.plan.plan import Plan
from roofline.spec.cluster import load_cluster
from roofline.spec.model import load_model
from roofline.spec.planned import Carrier, planned_text
from roofline.spec.source import Source
from roofline.spec.workload import load_workload, read_workload, workload_record

LLAMA = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
    "vocab_size": 1000,
}  # fmt: skip
HEAD = "schema: 1\nmodel: llama-3-8b\n"


def read(text: str, *overrides: str) -> Any:
    """A workload from text."""
    return read_workload(Source("w.yaml", text), overrides)


def expansion(phase: str, **options: Any) -> Expansion:
    """Llama-3-8B in a phase."""
    model, how, _ = load_model("llama-3-8b")
    return Expansion(model=model, phase=phase, how=how, **options)


# --------------------------------------------------------------------------- what it is
@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("phase: prefill\nparams: {seq: 128}\n", lambda: workload_text(expansion("prefill"), {"seq": 128})),
        ("phase: mixed\n", lambda: workload_text(expansion("mixed"), {})),
        (
            "phase: decode\nkv_dtype: fp8\npage: 16\ndraft: 2\n",
            lambda: workload_text(expansion("decode", kv_dtype="fp8", page=16, draft=2), {}),
        ),
        ("phase: prefill\nparams: {cached: 100}\n", lambda: workload_text(expansion("prefill", cached=True), {"cached": 100})),
        (
            "phase: train\ntrainable: lora\nlora_rank: 8\nlora_targets: [qkv_proj, o_proj]\n",
            lambda: workload_text(expansion("train", lora=Lora(rank=8, targets=TARGETS[:2])), {}),
        ),
        (
            "phase: train\nattention: naive\nplan: tp=4,pp=2,dp=2,zero=1\ncluster: dgx-h100\ngradient_dtype: fp32\n"
            "params: {global_batch: 8}\n",
            lambda: planned_text(
                expansion("train", attention="naive", gradient_dtype="fp32", plan=Plan(tp=4, pp=2, dp=2, zero=1)),
                {"global_batch": 8},
                Carrier(cluster=load_cluster("dgx-h100")),
            ),
        ),
        (
            "phase: decode\nplan: {tp: 2}\nlink: nvlink\n",
            lambda: planned_text(expansion("decode", plan=Plan(tp=2)), {}, Carrier(link="nvlink")),
        ),
    ],
)
def test_its_steps_are_those_of_an_import(text, written):
    """Step by step, and the params that they come from."""
    found, wanted = read(HEAD + text), read(written())
    assert found.steps == wanted.steps
    assert found.params == wanted.params
    assert (found.dtype, found.execution) == (wanted.dtype, wanted.execution)


def test_a_file_beside_the_workload(tmp_path):
    """And one in a folder below it."""
    for name in ("m.json", "models/m.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(LLAMA), encoding="utf-8")
        (tmp_path / "w.yaml").write_text(f"schema: 1\nmodel: {name}\nphase: decode\n", encoding="utf-8")
        assert load_workload(str(tmp_path / "w.yaml")).name == "m, decode"


def test_keys_in_the_workload_itself():
    """A map instead of a file, with the same reading of what is not understood."""
    assert read(f"schema: 1\nmodel: {json.dumps(LLAMA)}\nphase: train\n").steps
    with pytest.raises(InputError, match=r"w.yaml:2:23: architecture 'lama' is not supported"):
        read(f"schema: 1\nmodel: {json.dumps({**LLAMA, 'model_type': 'lama'})}\nphase: train\n")


def test_its_own_keys_beside_it_stay():
    """Name, execution, expectations and notes are the workload's."""
    found = read(HEAD + "name: mine\nphase: decode\nexecution: graph\nexpect: {lm_head.repeat: 1}\nnote: mine\n")
    assert (found.name, found.execution, found.expect[0].path) == ("mine", "graph", "lm_head.repeat")


def test_another_dtype_is_that_of_every_byte():
    """Of the steps, and of what ranks exchange."""
    sizes = {}
    for dtype in ("bf16", "fp32"):
        found = read(HEAD + f"phase: decode\ndtype: {dtype}\nplan: tp=2\nlink: nvlink\n")
        sizes[dtype] = next(s.op.size for s in found.steps if s.id == "mlp_reduce")
    assert sizes == {"bf16": 8192, "fp32": 16384}


def test_a_cluster_brings_its_device():
    """Which may be named, and no other: the exchanges would be of one machine and the times of another."""
    text = HEAD + "phase: decode\nplan: tp=2\ncluster: dgx-h200\n"
    assert read(text).hardware == "dgx-h200"
    assert read(text + "hardware: h200-sxm\n").hardware == "h200-sxm"
    with pytest.raises(InputError, match="6:11: hardware 'b200-sxm' is not of cluster dgx-h200, whose devices are h200-sxm"):
        read(text + "hardware: b200-sxm\n")


def test_a_dtype_that_is_none_is_refused_where_it_stands():
    """Once, and not as a problem of the phase."""
    with pytest.raises(InputError) as found:
        read(HEAD + "phase: decode\ndtype: bf61\nplan: tp=2\nlink: nvlink\n")
    assert [(p.line, p.column) for p in found.value.problems] == [(4, 8)]


# --------------------------------------------------------------------------- overrides
def test_overrides_come_before_the_steps():
    """Params and keys of the model change which steps there are; a field of a step is put in afterwards."""
    found = read(HEAD + "phase: prefill\n", "phase=decode", "batch=7", "context=100", "plan=tp=2", "link=nvlink", "attention.head_dim=64")
    steps = {s.id: s for s in found.steps}
    assert found.params["batch"] == 7
    assert (steps["attention"].op.heads, steps["attention"].op.kv_len, steps["attention"].op.head_dim) == (16, 100, 64)


@pytest.mark.parametrize("overrides", [("btach=3",), ("phase=dream",), ("lm_haed.m=3",), ("plan=tp=3",)])
def test_an_override_that_does_not_fit_is_refused_at_itself(overrides):
    """As one of a plain workload."""
    with pytest.raises(InputError) as found:
        read(HEAD + "phase: decode\n", *overrides)
    assert all(p.path == f"--set {overrides[0].partition('=')[0]}" for p in found.value.problems)


# --------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("phase: decode\nsteps: []\n", "4:1: 'steps' and 'model' exclude each other"),
        ("params: {batch: 1}\n", "2:8: a model needs 'phase': prefill, decode, train, mixed"),
        ("phase: decode\nparams: {seq: 8}\n", "4:10: a decode step of this model has no param 'seq'; known: batch, context"),
        ("phase: decode\nparams: {batch: 2 * 3}\n", "4:17: batch: .* beside a model params are numbers"),
        ("phase: decode\nparams: {batch: 0}\n", "4:17: batch: 0 is out of range"),
        ("phase: prefill\nparams: {cached: -1}\n", "4:18: cached: -1 is out of range: from 0"),
        ("phase: decode\nkv_dtype: bool\n", "4:11: bool has no place here: a format is one of fp32, bf16"),
        ("phase: decode\nplan: tp=3\nlink: nvlink\n", "4:7: 32 heads do not divide by tp 3"),
        ("phase: decode\nplan: {tp: 3}\nlink: nvlink\n", "4:12: 32 heads do not divide by tp 3"),
        ("phase: decode\nplan: tp=8\n", "nothing carries the collective 'embedding_reduce': name a cluster"),
        ("phase: decode\ncluster: dgx-h100\n", "4:1: 'cluster' carries the collectives of a plan, and there is no 'plan'"),
        ("phase: decode\nplan: tp=8\ncluster: dgx-h10\n", "5:10: unknown cluster 'dgx-h10'; did you mean 'dgx-h100'"),
        ("phase: decode\nplan: tp=8\ncluster: ./c.yaml\n", "5:10: unknown cluster './c.yaml'"),
        ("phase: decode\nplan: tp=8\ncluster: dgx-h100\nlink: nvlink\n", "6:1: 'cluster' and 'link' exclude each other"),
        ("phase: train\ntrainable: lora\n", "4:12: trainable: lora needs 'lora_rank'"),
        ("phase: train\nlora_rank: 8\n", "4:1: lora_rank and lora_targets are of 'trainable: lora'"),
        ("phase: decode\nmtp: true\ndraft: 1\n", "'llama-3-8b' has no modules that guess further tokens"),
        ("phase: train\nplan: dp=3\nlink: nvlink\nparams: {global_batch: 8}\n", "global_batch|batch"),
        ("phase: mixed\nplan: cp=2\nlink: nvlink\n", "4:7: cp 2 of a mixed step: how ranks share"),
    ],
)
def test_refused_at_its_place(text, said):
    """With the line, the column and the repair."""
    with pytest.raises(InputError, match=said):
        read(HEAD + text)


def test_keys_of_a_model_without_one():
    """They would be passed over in silence."""
    with pytest.raises(InputError, match="2:1: 'phase' is of a model, and there is no 'model' here"):
        read("schema: 1\nphase: decode\ndtype: bf16\nsteps: [{op: gemm, m: 1, n: 1, k: 1}]\n")


def test_all_problems_at_once():
    """Of the model, its keys, its params and its cluster."""
    with pytest.raises(InputError) as found:
        read("schema: 1\nmodel: lama-3-8b\nphase: decod\nplan: tp=8\ncluster: dgx-h10\nparams: {batch: x}\n")
    assert sorted(p.line for p in found.value.problems) == [2, 3, 5, 6]


@pytest.mark.parametrize("path", ["../m.json", "/etc/m.json", "deeper/../../m.json", "link.json"])
def test_files_elsewhere_are_never_opened(path, tmp_path):
    """Absolute, above, or by a link that leads there."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "m.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    (inner / "link.json").symlink_to(tmp_path / "m.json")
    (inner / "w.yaml").write_text(f"schema: 1\nmodel: {path}\nphase: decode\n", encoding="utf-8")
    with pytest.raises(InputError, match="2:8: a model's file lies beside the workload or below it"):
        load_workload(str(inner / "w.yaml"))


# --------------------------------------------------------------------------- the schema
FITS = jsonschema.Draft202012Validator(workload_record().json_schema())


@pytest.mark.parametrize(
    ("workload", "fits"),
    [
        ({"schema": 1, "model": "llama-3-8b", "phase": "decode", "plan": {"tp": 8}, "cluster": "dgx-h100"}, True),
        ({"schema": 1, "model": LLAMA, "phase": "train", "trainable": "lora", "lora_rank": 8}, True),
        ({"schema": 1, "model": "llama-3-8b"}, False),
        ({"schema": 1, "model": "llama-3-8b", "phase": "decode", "steps": [{"op": "gemm", "m": 1, "n": 1, "k": 1}]}, False),
        ({"schema": 1}, False),
        ({"schema": 1, "steps": [{"op": "gemm", "m": 1, "n": 1, "k": 1}]}, True),
    ],
)
def test_an_editor_knows_that_a_workload_has_steps_or_a_model(workload, fits):
    """One of the two, and a phase beside a model."""
    assert FITS.is_valid(workload) == fits


def test_shipped_models_are_the_published_ones():
    """Every shipped file gives the model of the published file that it was cut from."""
    from dataclasses import replace

    from roofline.spec.find import model_names

    published = Path(__file__).parent.parent / "data" / "hf_configs"
    compared = 0
    for name in model_names():
        file = next((f for f in (published / f"{name}.json", published / f"{name}-v0.1.json") if f.is_file()), None)
        if file is not None:
            cut, whole = (replace(load_model(n)[0], name="", notes=()) for n in (name, str(file)))
            assert cut == whole, name
            compared += 1
    assert compared == 9


@pytest.mark.parametrize(("name", "billions"), [("gpt-22b", 22), ("gpt3-175b", 175), ("gpt-530b", 530), ("gpt-1t", 1008)])
def test_shipped_gpts_have_the_published_size(name, billions):
    """Korthikanti et al., table 3; with positions and one table of 51,200."""
    from roofline.models.count import summary

    assert summary(load_model(name)[0]).parameters.total / 1e9 == pytest.approx(billions, rel=4e-3)
