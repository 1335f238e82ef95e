"""Steps written for a model: an ordinary workload, with the model's own parameters, FLOP and cache."""

from __future__ import annotations

import json

import pytest

from roofline.errors import UsageError
from roofline.models.count import summary
from roofline.models.expansion import PHASES as EVERY
from roofline.models.expansion import Expansion
from roofline.models.write import workload_text
from roofline.report.build import analyze
from roofline.spec.hardware import load_hardware
from roofline.spec.model import load_model
from roofline.spec.source import Source
from roofline.spec.workload import read_workload
from tests.models.conftest import CONFIGS
from tests.models.test_worked import EXACT

PHASES = tuple(phase for phase in EVERY if phase != "encode")
"""Of text; towers beside it have tests of their own."""
REFUSED = ("golden", "deepseek-v4-flash", "deepseek-v4-pro")
NAMES = sorted(p.stem for p in CONFIGS.glob("*.json") if p.stem not in REFUSED and "hf_quant" not in p.stem)
ENCODERS = ("bert-base-uncased", "bert-large", "vit-base-patch16-224-in21k", "vit-large-patch32-224-in21k")
NO_STEPS = ("clip-vit-large-patch14",)
NO_TRAINING = ("deepseek-v3.2", "glm-5", "nemotron-3-nano-30b-a3b", "qwen3-next-80b-a3b", "qwen3.5-27b")
LATENT = ("deepseek-r1", "deepseek-v3", "deepseek-v3.2", "glm-5", "kimi-k2.5")
RECURRENT = ("nemotron-3-nano-30b-a3b", "qwen3-next-80b-a3b", "qwen3.5-27b")
NOT_MIXED = (*ENCODERS, *RECURRENT, "deepseek-v3.2", "glm-5")
LACKING = {"decode": ENCODERS, "train": NO_TRAINING, "mixed": NOT_MIXED, "prefill": ()}
RUNS = [(name, phase) for name in NAMES for phase in PHASES if name not in NO_STEPS and name not in LACKING[phase]]


def written(name, phase, **settings):
    """The model, its quantisation, and the workload read from the text."""
    model, how, _ = load_model(str(CONFIGS / f"{name}.json"))
    text = workload_text(Expansion(model=model, phase=phase, how=how), settings)
    return model, how, read_workload(Source("w.yaml", text))


@pytest.mark.parametrize(("name", "phase"), RUNS)
def test_parameters_survive_the_round_trip(name, phase):
    """Those of the steps are those of the model, a vision tower apart."""
    model, how, workload = written(name, phase)
    parts = summary(model, how).parameters
    assert analyze(workload, None).totals.parameters == parts.total - parts.by_part.get("vision", 0)


@pytest.mark.parametrize("name", [n for n, p in RUNS if p == "decode" and n not in LATENT])
def test_a_decoding_step_has_the_flop_of_a_token(name):
    """The tensor FLOP of the steps against those from the weights, an independent count; convolutions run on vector lanes."""
    model, how, workload = written(name, "decode", batch=1, context=4096)
    found, expected = analyze(workload, None).totals, summary(model, how, context=4096).flop_per_token.total
    assert found.useful_flop == pytest.approx(expected, rel=5e-4 if name in RECURRENT else 1e-12)


@pytest.mark.parametrize("name", LATENT)
def test_absorbed_products_are_the_same_weights_and_more_attention(name):
    """Decoding takes queries into the latent: 2 rank + rope a score and head in place of nope + rope + v."""
    model, how, workload = written(name, "decode", batch=1, context=4096)
    mixer = model.layers[0].mixer
    keys = min(mixer.indexer.top_k, 4096) if mixer.indexer else 4096
    more = 2 * mixer.heads * keys * (2 * mixer.rank + mixer.rope - mixer.nope - mixer.rope - mixer.v_head_dim) * len(model.layers)
    assert analyze(workload, None).totals.useful_flop == summary(model, how, context=4096).flop_per_token.total + more


@pytest.mark.parametrize("name", [n for n, p in RUNS if p == "decode"])
def test_the_cache_is_that_of_its_tokens(name):
    """Within windows, the bytes a token times the context; recurrent layers keep a state beside it."""
    model, how, workload = written(name, "decode", batch=3, context=100)
    found = summary(model, how)
    assert analyze(workload, None).totals.memory.cache_bytes == 3 * (100 * found.kv_bytes_per_token + found.state_bytes_per_sequence)


@pytest.mark.parametrize("name", NAMES)
def test_weights_in_the_formats_that_are_stored(name):
    """Bytes of the steps are those of the checkpoint, but for the vision tower and scales of fp8 blocks, which products do not have."""
    if name in NO_STEPS:
        return
    model, how, workload = written(name, "prefill")
    found = summary(model, how)
    sizes = dict(found.weight_bytes_by_dtype)
    scales = sizes.get("scales", 0) if how and how.computes else 0
    vision = 2 * found.parameters.by_part.get("vision", 0)
    assert analyze(workload, None).totals.memory.weight_bytes == pytest.approx(found.weight_bytes - scales - vision, rel=2e-3)


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b-v0.1", "deepseek-v3.2", "qwen3-next-80b-a3b", "gpt-oss-20b", "bert-large"])
def test_there_is_a_bound_on_a_device(name):
    """Every step has one, in each phase."""
    device = load_hardware("h200-sxm")
    for phase in PHASES:
        if (name, phase) in RUNS:
            report = analyze(written(name, phase)[2], device)
            assert report.totals.bound.time_s > 0
            assert all(r.bound is not None for r in report.rows)


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", EXACT)
def test_families_without_files(name, phase, tmp_path):
    """The round trip of families written in a test, with the FLOP of a token."""
    config, total = EXACT[name]
    (tmp_path / "m.json").write_text(json.dumps(config), encoding="utf-8")
    model, how, _ = load_model(str(tmp_path / "m.json"))
    workload = read_workload(Source("w.yaml", workload_text(Expansion(model=model, phase=phase, how=how), {})))
    found = analyze(workload, None).totals
    assert found.parameters == total
    if phase == "decode" and name != "kimi-k2":  # absorbed, as above
        context = workload.params["context"]
        assert found.useful_flop == summary(model, how, context=context).flop_per_token.total


def test_logits_of_the_last_position_only():
    """Prefill multiplies one row a sequence with the vocabulary, training every token."""
    for phase, rows in (("prefill", 2), ("train", 2 * 512)):
        _, _, workload = written("llama-3-8b", phase, batch=2, seq=512)
        assert next(s.op for s in workload.steps if s.id == "lm_head").m == rows


def test_results_of_experts_are_added_up():
    """8 rows of hidden width in and one out for each token; the gate, up and down products of 8 experts a token before that."""
    _, _, workload = written("qwen3-30b-a3b", "prefill", batch=1, seq=100)
    steps = {s.id: s.op for s in workload.steps}
    assert steps["experts_combine"].compulsory(None).hbm == 100 * 2048 * (8 + 1) * 2
    assert (steps["experts_gate_up"].rows, steps["experts_gate_up"].n, steps["experts_gate_up"].k) == (800, 2 * 768, 2048)
    assert (steps["experts_down"].n, steps["experts_down"].k) == (2048, 768)
    assert (steps["experts_swiglu"].rows, steps["experts_swiglu"].cols) == (800, 768)


def test_a_tied_head_with_a_bias(tmp_path):
    """A step shares all of its weights or none, so that the bias is a step of its own."""
    config = {**EXACT["phi-2"][0], "tie_word_embeddings": True}
    (tmp_path / "m.json").write_text(json.dumps(config), encoding="utf-8")
    model, how, _ = load_model(str(tmp_path / "m.json"))
    workload = read_workload(Source("w.yaml", workload_text(Expansion(model=model, phase="prefill", how=how), {})))
    assert analyze(workload, None).totals.parameters == summary(model).parameters.total == EXACT["phi-2"][1] - 51200 * 2560


def test_train_is_three_times_forward():
    """2 FLOP a weight and token forward, 4 backward; attention 2.5 times backward."""
    model, how, workload = written("llama-2-7b", "train", batch=1, seq=1024)
    steps = {r.id: r for r in analyze(workload, None).rows}
    matrices = sum(r.flop["tensor"] * r.repeat for r in steps.values() if r.op == "gemm")
    assert matrices == 3 * 1024 * summary(model, how).flop_per_token.weights
    assert steps["optimizer"].op == "adamw"


def test_chunks_are_sequences_of_their_own():
    """Llama 4: 16384 tokens are two chunks of 8192 in three of four layers."""
    _, _, workload = written("llama-4-scout-17b-16e-instruct", "prefill", seq=16384)
    local = next(s.op for s in workload.steps if s.id == "local_moe/attention")
    full = next(s.op for s in workload.steps if s.id == "full_moe/attention")
    assert (local.batch, local.q_len, local.kv_len, local.window) == (2, 8192, 8192, 0)
    assert (full.batch, full.q_len) == (1, 16384)


# --------------------------------------------------------------------------- the command
def test_from_configuration_to_report(run, report, tmp_path):
    """Import, validate, analyze; the file is the same each time."""
    config, out = str(CONFIGS / "qwen3-8b.json"), str(tmp_path / "w.yaml")
    run("import", "hf", config, "--phase", "decode", "--set", "batch=32", "--set", "context=8192", "-o", out)
    assert run("validate", out).exit_code == 0
    first = (tmp_path / "w.yaml").read_bytes()
    run("import", "hf", config, "--phase", "decode", "--set", "batch=32", "--set", "context=8192", "-o", out)
    assert (tmp_path / "w.yaml").read_bytes() == first
    totals = report("analyze", out, "-H", "h100-sxm")["totals"]
    assert totals["parameters"] == 8_190_735_360


def test_case_c08(run, report, tmp_path):
    """Qwen3-8B decoding at 8192: 4.879 ms for one, 16.06 ms for 32, and 64 do not fit by 13.69 GB."""
    out = str(tmp_path / "w.yaml")
    run("import", "hf", str(CONFIGS / "qwen3-8b.json"), "--phase", "decode", "--set", "context=8192", "-o", out)
    answers = [report("analyze", out, "-H", "h100-sxm", "--set", f"batch={b}")["totals"] for b in (1, 32, 64)]
    assert answers[0]["bound"]["time_s"] == pytest.approx(4.879e-3, rel=0.002)
    assert answers[1]["bound"]["time_s"] == pytest.approx(16.057e-3, rel=0.01)  # activations between kernels are counted here
    assert answers[2]["memory"]["fits"] is False
    assert answers[2]["memory"]["shortfall_bytes"] == pytest.approx(13.69e9, rel=0.002)


def test_case_c06(run, report, tmp_path):
    """Mixtral, a decoding step of 3 tokens: 25.497 GFLOP a token, 4.625 experts of 8 touched in the mean, 55.09 GB."""
    out = str(tmp_path / "w.yaml")
    run("import", "hf", str(CONFIGS / "mixtral-8x7b-v0.1.json"), "--phase", "decode", "--set", "batch=3", "--set", "context=1", "-o", out)
    rows = report("analyze", out, "-H", "h100-sxm")["rows"]
    products = [r for r in rows if r["op"] in ("gemm", "grouped_gemm")]
    assert sum(r["flop"]["tensor"] * r["repeat"] for r in products) / 3 == pytest.approx(25.497e9, rel=1e-4)
    assert sum(r["bytes"]["hbm"] * r["repeat"] for r in products) == pytest.approx(55.09e9, rel=2e-3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--phase", "dream"], "unknown phase 'dream'; known: prefill, decode, train"),
        (["--set", "context=9"], "'context' is no param of a prefill workload"),
        (["--set", "batch=0"], "'batch=0' is not name=number"),
        (["--set", "batch"], "'batch' is not name=number"),
        (["--kv-dtype", "fp9"], "unknown dtype 'fp9'"),
    ],
)
def test_bad_words(words, said, run):
    """Exit 2 with a sentence."""
    result = run("import", "hf", str(CONFIGS / "llama-3-8b.json"), *words, code=2)
    assert said in result.stderr


@pytest.mark.parametrize(
    ("name", "phase"), [("bert-large", "decode"), ("clip-vit-large-patch14", "train"), ("glm-5", "train"), ("bert-large", "encode")]
)
def test_phases_that_a_model_does_not_have(name, phase):
    """Said in a sentence, never steps that are wrong."""
    with pytest.raises(UsageError):
        written(name, phase)


def test_show_in_json(report):
    """The keys that others read."""
    found = report("model", "show", str(CONFIGS / "llama-3-70b.json"))
    assert found["parameters"]["total"] == found["parameters"]["active"] == 70_553_706_496
    assert found["kv_bytes_per_token"] == 327_680
    assert set(found["parameters"]["by_part"]) == {"embedding", "attention", "mlp", "experts", "norms", "head"}
    assert set(found["flop_per_token"]) == {"weights", "attention", "total", "context"}
    assert set(found["conventions"]) >= {"total", "active", "flop"}


def test_show_as_a_table(run):
    """Parts with their shares, and what is below."""
    shown = run("model", "show", str(CONFIGS / "qwen3-30b-a3b.json")).stdout
    assert "30,532,122,624" in shown
    assert "Cache: 98,304 B a token (bf16)." in shown


def test_a_name_cannot_break_the_file(tmp_path):
    """A file's name is quoted in the workload."""
    strange = tmp_path / 'a": {b}, #.json'
    strange.write_text((CONFIGS / "llama-3-8b.json").read_text(encoding="utf-8"), encoding="utf-8")
    model, how, _ = load_model(str(strange))
    workload = read_workload(Source("w.yaml", workload_text(Expansion(model=model, phase="prefill", how=how), {})))
    assert workload.name == 'a": {b}, #, prefill'


def test_a_link_that_no_device_has_is_said_with_the_nearest(run):
    words = ("import", "hf", "llama-3-8b", "--plan", "tp=2", "--link")
    assert run(*words, "nvlnk", code=0).stderr == "warning: --link nvlnk: no device has a link of this name; did you mean 'nvlink'?\n"
    assert run(*words, "nvlink", code=0).stderr == ""


@pytest.mark.parametrize("window", [0, None, 512])
def test_a_window_of_no_keys_is_none_and_says_so(window, tmp_path):
    """As one that is not stated: a window of 0 keys would leave attention nothing to see."""
    path = tmp_path / "llama.json"
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    path.write_text(json.dumps({**config, "vocab_size": 512, "sliding_window": window}), encoding="utf-8")
    model = load_model(str(path))[0]
    assert [layer.mixer.window for layer in model.layers] == [window or 0] * 2
    assert any("no window" in note for note in model.notes) is (window == 0)
