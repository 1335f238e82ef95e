"""`roofline advise` on workloads, reports and traces: what it says, what it refuses, and that its JSON is as published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from roofline.cli.app import app_for
from roofline.report.published import schema_of

TRACES = Path(__file__).parents[1] / "data" / "traces"
SCHEMA = Draft202012Validator(schema_of("advice"))


def run(*arguments: str, code: int = 0) -> str:
    """Standard output of a command."""
    result = CliRunner().invoke(app_for(arguments), list(arguments))
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def advice(*arguments: str) -> dict:
    """The JSON, which keeps to the schema."""
    found = json.loads(run("advise", *arguments, "--format", "json"))
    assert [e.message for e in SCHEMA.iter_errors(found)] == []
    return found


def test_the_first_line_answers():
    """The time, the first change with its gain, the gain of all, and what binds then; a line a step of the path."""
    out = run("advise", "gpt2_medium", "-H", "h200-sxm").splitlines()
    assert out[0].startswith("GPT-2 medium, forward on h200-sxm takes an estimated ")
    assert "flash attention instead of materialised scores" in out[0]
    assert "then mlp_up binds" in out[0]
    assert any(line.startswith("step 1: flash attention") for line in out)
    assert any(line == "check flash: roofline measure gpt2_medium --set attention.implementation=flash" for line in out)


def test_the_command_that_checks_a_change_expresses_it():
    """Analysed with those overrides, the workload takes the advised time."""
    one = next(a for a in advice("gpt2_medium", "-H", "h200-sxm")["advice"] if a["key"] == "products-fp8")
    words = one["check"][0].split()[2:]
    report = json.loads(run("analyze", *words, "-H", "h200-sxm", "--format", "json"))
    assert report["totals"]["estimate"]["time_s"] == one["estimate"]["after_s"]


def test_the_path_is_what_the_changes_together_give():
    """Flash, then fp8: analysed with both overrides."""
    found = advice("gpt2_medium", "-H", "h200-sxm")
    assert [p["key"] for p in found["path"][:2]] == ["flash", "products-fp8"]
    words = ["attention.implementation=flash"]
    words += [f"{s}.{f}" for s in ("qkv", "projection", "mlp_up", "mlp_down") for f in ("dtype=fp8", "out_dtype=bf16")]
    sets = [w for word in words for w in ("--set", word)]
    report = json.loads(run("analyze", "gpt2_medium", *sets, "-H", "h200-sxm", "--format", "json"))
    assert report["totals"]["estimate"]["time_s"] == pytest.approx(found["path"][1]["time_s"])


def test_decoding_llama():
    """Memory for caches lets the batch grow fourfold; then keys and values in 8 bits, which are half of what attention reads."""
    found = advice("llama3_70b_decode_tp8", "-H", "h200-sxm")
    assert [p["key"] for p in found["path"][:2]] == ["batch-256", "kv-fp8"]
    batch = found["advice"][0]
    assert (batch["work"], batch["fits"]) == (4, True)
    assert batch["memory_delta_bytes"] > 3 * 21474836480, "three times the cache of batch 64, and activations"
    assert batch["check"][0] == "roofline measure llama3_70b_decode_tp8 --set batch=256"


def test_training_a_model(tmp_path):
    """What fits is not recomputed: that is a quarter more work and is said to be worse; formats are left alone."""
    work = tmp_path / "train.yaml"
    work.write_text("schema: 1\nmodel: llama-3-8b\nphase: train\nexecution: eager\nparams: {batch: 1, seq: 2048}\n", encoding="utf-8")
    found = advice(str(work), "-H", "h200-sxm")
    assert found["fits"] is None
    assert "ask 'roofline memory MODEL --phase train'" in found["unavailable"]["fits"]
    worse = next(t for t in found["tried"] if t["key"] == "recompute")
    assert 0.7 < worse["speedup"] < 0.85
    assert "it makes it worse" in worse["reason"]
    assert "one-kernel" in [a["key"] for a in found["advice"]]
    assert not [a for a in found["advice"] if a["exactness"] == "approximate"]


def test_exact_results_only():
    """What may change results is refused with the reason, in the list and in the path."""
    found = advice("gpt2_medium", "-H", "h200-sxm", "--allow", "exact", "--least", "1.0")
    assert {a["exactness"] for a in found["advice"]} == {"exact"}
    assert next(t for t in found["tried"] if t["key"] == "flash")["reason"] == "rounding: more than --allow exact"


def test_other_devices_of_the_vendor():
    """Each is ranked, none is a step of the path, and no other vendor's is there."""
    found = advice("decode_gemv", "-H", "h100-sxm", "--also", "vendor", "--by", "bound", "--top", "100")
    names = {a["key"] for a in found["advice"] if a["rule"] == "device"}
    assert {"on-h200-sxm", "on-b200-sxm"} <= names
    assert not any("mi300x" in n for n in names | {t["key"] for t in found["tried"]})
    assert not any(p["key"].startswith("on-") for p in found["path"])


def test_a_cap_says_what_it_leaves_out():
    """The same ranking, shorter."""
    every = advice("gpt2_medium", "-H", "h200-sxm")
    two = advice("gpt2_medium", "-H", "h200-sxm", "--top", "2")
    assert two["advice"] == every["advice"][:2]
    assert two["left_out"] == len(every["advice"]) - 2


def test_markdown_and_what_was_tried(tmp_path):
    """The ending of the file picks the format; -v adds what was tried in vain."""
    page = tmp_path / "advice.md"
    run("advise", "gpt2_medium", "-H", "h200-sxm", "-v", "-o", str(page))
    text = page.read_text(encoding="utf-8")
    assert "| change | estimate | bound |" in text
    assert "- tried `weights-fp8`" in text
    run("advise", "gpt2_medium", "--set", "name=[a](b) | c", "-o", str(page))
    text = page.read_text(encoding="utf-8")
    assert text.count("[a](b)") == text.count("`[a](b) ") + text.count(" --set 'name=[a](b) | c'"), "names are data"
    assert "check `flash`: `roofline measure gpt2_medium --set 'name=[a](b) | c' --set attention.implementation=flash`" in text


def test_a_report_is_advised_like_its_workload(tmp_path):
    """Rows are operators again: the same changes and gains, but for the batch, of which a report knows nothing."""
    path = str(tmp_path / "report.json")
    run("analyze", "gpt2_medium", "-H", "h200-sxm", "-o", path)
    report, workload = advice(path), advice("gpt2_medium", "-H", "h200-sxm")
    assert report["source"] == "report"
    assert [(a["key"], a["speedup"]) for a in report["advice"]] == [(a["key"], a["speedup"]) for a in workload["advice"]]
    assert all(a["check"] for a in report["advice"])
    assert any("ncu --csv" in c for c in next(a["check"] for a in report["advice"] if a["key"] == "flash"))
    assert "give the workload file" in next(t for t in report["tried"] if t["key"] == "batch")["reason"]


def measured_report(path: Path, **times: float) -> None:
    """A report of gpt2_medium whose steps have measured times, each a fixed multiple of its estimate."""
    run("analyze", "gpt2_medium", "-H", "h200-sxm", "-o", str(path))
    report = json.loads(path.read_text(encoding="utf-8"))
    for row in report["rows"]:
        row["measured"] = {"time_s": times.get(row["id"], 2.0) * row["estimate"]["time_s"], "source": "made for this test"}
        row["unavailable"].pop("measured", None)
    path.write_text(json.dumps(report), encoding="utf-8")


def test_measured_times_are_scaled_by_predicted_ratios(tmp_path):
    """Attention was ten times slower than estimated, so that flash is worth more than the estimate says."""
    path = tmp_path / "measured.json"
    measured_report(path, attention=10.0)
    found = advice(str(path))
    one = next(a for a in found["advice"] if a["key"] == "flash")
    assert one["measured"]["local_speedup"] == pytest.approx(one["estimate"]["local_speedup"])
    assert one["measured"]["speedup"] > one["estimate"]["speedup"]
    assert one["speedup"] == one["measured"]["speedup"]
    assert "takes a measured" in run("advise", str(path)).splitlines()[0]


def test_a_trace_says_its_coverage():
    """Only recognised operators can change; all else stays, and the table says how much that is."""
    trace = str(TRACES / "b200_vllm_eager.pt.trace.json.gz")
    found = advice(trace, "-H", "h200-sxm")
    assert (found["source"], found["coverage"] < 0.1) == ("trace", True)
    assert found["binds"]["step"] is None
    assert "of the critical path lies in steps whose work is known" in run("advise", trace, "-H", "h200-sxm")


def test_a_graph_gains_no_more_than_launching_costs():
    """The device waited for a host that did other things; a graph does not take those away."""
    found = advice(str(TRACES / "mi300x_norm_layers_fwd_bwd.pt.trace.json.gz"), "-H", "h200-sxm")
    graph = next(t for t in found["tried"] if t["key"] == "graph")
    assert 1 <= graph["speedup"] < 1.02


def test_a_stored_report_of_a_trace(tmp_path):
    """What `ingest trace` wrote gives what the trace gives."""
    trace, stored = str(TRACES / "b200_vllm_eager.pt.trace.json.gz"), str(tmp_path / "trace.json")
    run("ingest", "trace", trace, "-H", "h200-sxm", "-o", stored, "--format", "json")
    assert advice(stored, "-H", "h200-sxm")["advice"] == advice(trace, "-H", "h200-sxm")["advice"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gpt2_medum", "-H", "h200-sxm"), "did you mean 'gpt2_medium'"),
        (("gpt2_medium", "-H", "h200"), "did you mean"),
        (("gpt2_medium", "--by", "estimat"), "did you mean 'estimate'"),
        (("gpt2_medium", "--allow", "exactly"), "did you mean 'exact'"),
        (("gpt2_medium", "--least", "0.5"), "--least 0.5 is out of range"),
        (("gpt2_medium", "--least", "nan"), "--least nan is out of range"),
        (("gpt2_medium", "--also", "h100"), "h100"),
        (("gpt2_medium", "-H", "tpu-v5p", "--by", "estimate"), "--by estimate"),
    ],
)
def test_what_cannot_be_obeyed(arguments, said):
    """One sentence with the fix, exit 2."""
    assert said in run("advise", *arguments, code=2)


def test_rows_that_are_no_operators_are_refused_where_they_stand(tmp_path):
    """All of them, each at its line."""
    path = tmp_path / "report.json"
    run("analyze", "gpt2_medium", "-H", "h200-sxm", "-o", str(path))
    report = json.loads(path.read_text(encoding="utf-8"))
    report["rows"][0]["op"] = "layernrm"
    report["rows"][1]["fields"]["rows"] = 7
    path.write_text(json.dumps(report, indent=1), encoding="utf-8")
    said = run("advise", str(path), code=2)
    assert "did you mean 'layernorm'" in said
    assert "rows[1].fields.rows: gemm has no such field" in said
    assert said.count(f"{path}:") == 2


def test_overlapping_steps_need_their_workload(tmp_path):
    """A report does not say what waits for what, and set on a trace or report means nothing."""
    work = tmp_path / "w.yaml"
    work.write_text(
        "schema: 1\ndtype: bf16\nsteps:\n- {id: a, op: gemm, m: 4096, n: 4096, k: 4096}\n"
        "- {id: b, op: all_reduce, size: 1 GB, ranks: 8, over: nvlink, after: [a]}\n- {id: c, op: gemm, m: 64, n: 64, k: 64, after: [a]}\n",
        encoding="utf-8",
    )
    path = str(tmp_path / "r.json")
    run("analyze", str(work), "-H", "h200-sxm", "-o", path)
    assert "give the workload file" in run("advise", path, code=2)
    assert "--set changes a workload" in run("advise", path, "--set", "x=1", code=2)
