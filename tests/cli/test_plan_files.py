"""Workload files asked by `plan`, `search` and `memory`: every key and option changes the answer or is refused by name, none is dropped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from roofline.spec.model_keys import MODEL_NAMES
from tests.commands import report, run  # noqa: F401  (fixtures)

SERVE = {"model": "llama-3-8b", "phase": "decode", "plan": "tp=2", "cluster": "dgx-h100", "params": "{batch: 8, context: 1000}"}
GUESS = {**SERVE, "model": "deepseek-v3", "plan": "tp=8", "draft": "1"}
FILL = {**SERVE, "phase": "prefill", "params": "{batch: 8, seq: 1024}"}
MIX = {**SERVE, "phase": "mixed", "plan": "tp=2,dp=2", "params": "{batch: 8, context: 1000, chunk: 512}"}
TRAIN = {**SERVE, "phase": "train", "plan": "{tp: 2, dp: 2}", "params": "{global_batch: 16, seq: 1024}"}
LORA = {**TRAIN, "trainable": "lora", "lora_rank": "8"}


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """A file of these keys."""

    def write(keys: dict[str, str]) -> str:
        path = tmp_path / f"w{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text("schema: 1\n" + "".join(f"{key}: {value}\n" for key, value in keys.items()), encoding="utf-8")
        return str(path)

    return write


# --------------------------------------------------------------------------- keys
CHANGES = [
    ("model", SERVE, {"model": "llama-3-70b"}, "model"),
    ("phase", FILL, {"phase": "train", "params": "{batch: 8, seq: 1024}"}, "time"),
    ("kv_dtype", SERVE, {"kv_dtype": "fp8"}, "time"),
    ("attention", FILL, {"attention": "naive"}, "time"),
    ("attention", TRAIN, {"attention": "naive"}, "memory"),
    ("page", SERVE, {"page": "512"}, "memory"),
    ("draft", SERVE, {"draft": "3"}, "time"),
    ("mtp", GUESS, {"mtp": "true"}, "memory"),
    ("mtp", GUESS, {"mtp": "true"}, "time"),
    ("trainable", TRAIN, {"trainable": "lora", "lora_rank": "8"}, "memory"),
    ("lora_rank", LORA, {"lora_rank": "64"}, "memory"),
    ("lora_targets", LORA, {"lora_targets": "[o_proj]"}, "memory"),
    ("lora_targets", LORA, {"lora_targets": "[o_proj]"}, "time"),
    ("plan", SERVE, {"plan": "tp=4"}, "time"),
    ("cluster", SERVE, {"cluster": "dgx-h200"}, "time"),
    ("gradient_dtype", TRAIN, {"gradient_dtype": "fp32"}, "memory"),
    ("gradient_dtype", TRAIN, {"gradient_dtype": "fp32"}, "time"),
    ("optimizer", TRAIN, {"optimizer": "sgd"}, "memory"),
    ("optimizer", TRAIN, {"optimizer": "sgd"}, "time"),
    ("dispatch_dtype", {**FILL, "model": "mixtral-8x7b", "plan": "dp=2,ep=2"}, {"dispatch_dtype": "fp8"}, "time"),
    ("dtype", SERVE, {"dtype": "fp32"}, "memory"),
    ("params", TRAIN, {"params": "{global_batch: 16, seq: 1024, microbatch: 4}"}, "memory"),
    ("params", FILL, {"params": "{batch: 8, seq: 1024, cached: 512}"}, "time"),
    ("params", MIX, {"params": "{batch: 8, context: 1000, chunk: 512, cached: 4096}"}, "time"),
    ("params", MIX, {"params": "{batch: 8, context: 1000, chunk: 512, cached: 4096}"}, "memory"),
]


@pytest.mark.parametrize(("key", "base", "change", "part"), CHANGES)
def test_a_key_of_a_file_changes_the_plan(report: Any, written: Any, key: str, base: Any, change: Any, part: str) -> None:  # noqa: F811
    assert key in change
    before, after = (report("plan", written(keys)) for keys in (base, {**base, **change}))
    assert before[part] != after[part]


def test_an_execution_of_a_file_is_that_of_the_estimate(report: Any, written: Any) -> None:  # noqa: F811
    base = {**SERVE, "cluster": "dgx-h200"}
    found = [report("plan", written({**base, "execution": how}), "--cost", "estimate")["time"] for how in ("eager", "engine")]
    assert found[0]["step_s"] > found[1]["step_s"]
    assert "eager" in found[0]["label"]


REFUSED = [
    ("link", {**SERVE, "link": "nvlink"}, "'cluster' and 'link' exclude each other"),
    ("page", {**TRAIN, "page": "16"}, "pages are of a cache, which this phase lacks"),
    ("kv_dtype", {**TRAIN, "kv_dtype": "fp8"}, "kv_dtype is of a cache, which this phase lacks"),
    ("gradient_dtype", {**SERVE, "gradient_dtype": "fp32"}, "gradient_dtype is of a training step"),
    ("optimizer", {**SERVE, "optimizer": "sgd"}, "an optimizer is of a training step"),
    ("draft", {**FILL, "draft": "2"}, "draft tokens are of a decoding step"),
    ("mtp", {**SERVE, "mtp": "true"}, "add how many"),
    ("lora_targets", {**TRAIN, "lora_targets": "[o_proj]"}, "are of 'trainable: lora'"),
    ("lora_targets", {**LORA, "lora_targets": "[oproj]"}, "did you mean 'o_proj'"),
    ("hardware", {**SERVE, "hardware": "b200-sxm"}, "hardware 'b200-sxm' is not of cluster dgx-h100, whose devices are h100-sxm"),
    ("traffic", {**SERVE, "traffic": "tiled"}, "traffic tiled is of 'roofline analyze'"),
    ("steps", {**SERVE, "steps": "[]"}, "'steps' and 'model' exclude each other"),
    ("attension", {**SERVE, "attension": "naive"}, "unknown key 'attension' in a workload; did you mean 'attention'"),
    ("dtype", {**SERVE, "dtype": "bf61"}, "did you mean 'bf16'"),
    ("images", {**FILL, "params": "{batch: 8, images: 2}"}, "images"),
    ("cached", {**FILL, "params": "{batch: 8, seq: 64, cached: 64}"}, "cached: 64 leaves no token of a prompt of 64 to compute"),
    ("cached", {**FILL, "plan": "cp=2", "params": "{batch: 8, seq: 64, cached: 32}"}, "under context parallelism is not described"),
    ("microbatch", {**TRAIN, "plan": "dp=2,microbatch=2", "params": "{global_batch: 16, microbatch: 4}"}, "give it in one place"),
    ("batch", {**TRAIN, "params": "{batch: 16, global_batch: 16}"}, "'batch' and 'global_batch' are one size"),
]


WHISPER = (
    "{model_type: whisper, d_model: 64, encoder_layers: 2, encoder_attention_heads: 4, encoder_ffn_dim: 128, decoder_layers: 2, "
    "decoder_attention_heads: 4, decoder_ffn_dim: 128, num_mel_bins: 80, max_source_positions: 1500, max_target_positions: 448, "
    "vocab_size: 1000, torch_dtype: float16}"
)


@pytest.mark.parametrize("command", [("plan",), ("memory",), ("search", "--devices", "2")])
def test_an_encoder_alone_is_refused_with_what_answers(run: Any, report: Any, written: Any, command: tuple[str, ...]) -> None:  # noqa: F811
    """In a file at its phase, and as an option; the steps of such a file have a time."""
    path = written({"model": WHISPER, "phase": "encode", "plan": "tp=2", "cluster": "dgx-h100", "params": "{batch: 4}"})
    said = run(command[0], path, *command[1:], code=2)
    assert said.stdout == ""
    assert f"{path}:3:8: a plan and its memory are of layers of text" in said.stderr
    assert "'roofline import hf CONFIG --phase encode --plan PLAN' writes the steps" in said.stderr
    assert report("analyze", path)["totals"]["bound"]["time_s"] > 0
    cluster = () if command[0] == "memory" else ("-C", "dgx-h100")
    named = run(command[0], "llama-3-8b", "--phase", "encode", *cluster, *command[1:], code=2).stderr
    assert "phase encode: a plan and its memory are of layers of text" in named


@pytest.mark.parametrize(("key", "keys", "part"), REFUSED)
def test_a_key_that_would_change_nothing_is_refused(run: Any, written: Any, key: str, keys: Any, part: str) -> None:  # noqa: F811
    result = run("plan", written(keys), code=2)
    assert part in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("names", [("batch", "global_batch"), ("global_batch", "batch")])
def test_the_second_of_two_names_is_the_one_too_many(run: Any, written: Any, names: tuple[str, str]) -> None:  # noqa: F811
    path = written({**TRAIN, "params": f"{{{names[0]}: 16, {names[1]}: 16}}"})
    column = len(f"params: {{{names[0]}: 16, ") + 1
    assert run("plan", path, code=2).stderr.startswith(f"{path}:6:{column}: '{names[0]}' and '{names[1]}' are one size")


def test_every_key_of_a_model_is_among_those_tried() -> None:
    assert set(MODEL_NAMES) <= {case[0] for case in (*CHANGES, *REFUSED)}


# --------------------------------------------------------------------------- options
@pytest.mark.parametrize(
    ("base", "words"),
    [
        (SERVE, ("--kv-dtype", "fp8")),
        (FILL, ("--attention", "naive")),
        (TRAIN, ("--optimizer", "sgd")),
        (TRAIN, ("--gradient-dtype", "fp32")),
        (FILL, ("--set", "cached=512")),
        (SERVE, ("--set", "page=512")),
    ],
)
@pytest.mark.parametrize("command", ["plan", "memory", "search"])
def test_an_option_stands_in_the_place_of_a_key(report: Any, written: Any, command: str, base: Any, words: Any) -> None:  # noqa: F811
    key, _, value = words[1].partition("=") if words[0] == "--set" else (words[0][2:].replace("-", "_"), "", words[1])
    more = ("--devices", "4", "--top", "2", "--plan", "pp=1") if command == "search" else ()
    within = key == "cached"
    keys = {"params": "{batch: 8, seq: 1024, cached: 512}"} if within else {key: value}
    said = report(command, written(base), *words, *more)
    assert said == report(command, written({**base, **keys}), *more)
    assert said != report(command, written(base), *more)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--phase", "train", "--kv-dtype", "fp8"), "--kv-dtype is of --phase prefill, decode or mixed, and this is train"),
        (("--phase", "decode", "--gradient-dtype", "fp32"), "--gradient-dtype is of --phase train, and this is decode"),
        (("--phase", "decode", "--optimizer", "sgd"), "--optimizer is of --phase train, and this is decode"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "memory", "search"])
def test_an_option_of_another_phase_is_refused(run: Any, command: str, words: Any, part: str) -> None:  # noqa: F811
    more = {"plan": ("-C", "dgx-h100"), "search": ("-C", "dgx-h100", "--devices", "8"), "memory": ()}[command]
    sizes = ("--set", "batch=8", "--set", "seq=1024" if words[1] == "train" else "context=1024")
    assert part in run(command, "llama-3-8b", *words, *sizes, *more, code=2).stderr


# --------------------------------------------------------------------------- one batch, two names
@pytest.mark.parametrize("base", [SERVE, {**SERVE, "plan": "tp=2,dp=2"}, FILL, {**FILL, "plan": "dp=4"}, TRAIN, MIX])
@pytest.mark.parametrize("command", ["plan", "memory", "search"])
def test_the_batch_of_all_devices_has_both_names_everywhere(report: Any, written: Any, command: str, base: Any) -> None:  # noqa: F811
    more = ("--devices", "4", "--top", "2", "--plan", "pp=1,cp=1") if command == "search" else ()
    found = [report(command, written(base), "--set", f"{name}=32", *more) for name in ("batch", "global_batch")]
    keyed = base["params"].replace("global_batch", "batch").replace("batch: 8", "batch: 32").replace("batch: 16", "batch: 32")
    assert found[0] == found[1] == report(command, written({**base, "params": keyed}), *more)
    assert (found[0]["settings"] if command == "memory" else found[0]["job"])["batch"] == 32


def test_the_steps_of_a_file_are_of_the_batch_of_all_devices(report: Any, written: Any, run: Any) -> None:  # noqa: F811
    """Of 32 sequences on two replicas each device attends to 16; the same by `import hf` and along a sweep."""
    path = written({**SERVE, "plan": "tp=2,dp=2"})
    rows = [report("analyze", path, "--set", f"{name}=32")["rows"] for name in ("batch", "global_batch")]
    assert rows[0] == rows[1]
    imported = [
        run("import", "hf", "llama-3-8b", "--phase", "decode", "--plan", "tp=2,dp=2", "--cluster", "dgx-h100", "--set", f"{name}=32").stdout
        for name in ("batch", "global_batch")
    ]
    assert imported[0] == imported[1]
    assert "global_batch: 32, batch: global_batch / dp" in imported[0]
    one, other = (report("sweep", path, "--set", f"{name}=8..32:x2")["points"] for name in ("batch", "global_batch"))
    assert [p["bound_s"] for p in one] == [p["bound_s"] for p in other]


def test_a_microbatch_of_the_file_is_the_plans(report: Any, written: Any) -> None:  # noqa: F811
    """And that of --plan stands before it."""
    params = {"params": "{global_batch: 16, seq: 1024, microbatch: 4}"}
    found = report("plan", written({**TRAIN, **params}))
    assert found == report("plan", written({**TRAIN, "plan": "tp=2,dp=2,microbatch=4"}))
    assert found["schedule"]["microbatches"] == 2
    path = written({**TRAIN, **params})
    assert report("plan", path, "--plan", "dp=2,microbatch=2")["schedule"]["microbatches"] == 4
    assert report("plan", path, "--plan", "dp=2")["schedule"]["microbatches"] == 2
    assert report("plan", path, "--set", "microbatch=8")["schedule"]["microbatches"] == 1


def test_a_microbatch_of_a_prefill_is_that_of_its_plan_and_of_its_steps(report: Any, run: Any, written: Any) -> None:  # noqa: F811
    """Eight prompts in parts of four, said in the plan, the file or by --set: the steps of the file read the weights as often as that."""
    base, parts = {**FILL, "plan": "pp=2"}, {**FILL, "plan": "pp=2,microbatch=4"}
    found = report("plan", written(parts))
    assert found["schedule"]["microbatches"] == 2
    assert found == report("plan", written({**base, "params": "{batch: 8, seq: 1024, microbatch: 4}"}))
    assert report("plan", written(base), "--set", "microbatch=8")["schedule"]["microbatches"] == 1
    rows = report("analyze", written(parts))["rows"]
    assert rows == report("analyze", written(base), "--set", "microbatch=4")["rows"]
    layers = {r["id"]: r["repeat"] for r in rows}
    assert layers["qkv_proj"] + layers["qkv_proj_more"] == layers["attention"] == 16 * 2
    assert "give it in one place" in run("plan", written(parts), "--set", "microbatch=2", code=2).stderr
    assert "no param 'microbatch'" in run("plan", written(FILL), "--set", "microbatch=2", code=2).stderr
    assert "divides the prompts of a replica" in run("analyze", written(parts), "--largest", "microbatch", code=2).stderr


@pytest.mark.parametrize(
    ("base", "param", "step"),
    [
        ({**SERVE, "plan": "tp=2,dp=2"}, "batch", 2),
        ({**SERVE, "plan": "dp=3", "params": "{batch: 9, context: 4000}"}, "global_batch", 3),
        ({**SERVE, "plan": "cp=2", "params": "{batch: 64, context: 1000}"}, "context", 1),
        ({**MIX, "plan": "dp=2,pp=2"}, "chunk", 4),
        ({**FILL, "plan": "tp=2,sp", "params": "{batch: 8, seq: 1025, cached: 511}"}, "seq", 2),
    ],
)
def test_the_largest_is_one_that_the_plan_allows(
    report: Any,  # noqa: F811
    run: Any,  # noqa: F811
    written: Any,
    base: Any,
    param: str,
    step: int,
) -> None:
    """It fits, and the next that the rules of plans let be does not; a search for it asks of no other."""
    path = written(base)
    found = report("analyze", path, "--largest", param)
    said = run("analyze", path, "--largest", param).stdout.splitlines()[-1]
    value, following = (int(word) for word in re.findall(r": (\d+), which .*; (\d+) would be", said)[0])
    assert following == value + step
    assert found["totals"]["memory"]["needed_bytes"] <= 80e9
    assert report("analyze", path, "--set", f"{param}={following}")["totals"]["memory"]["needed_bytes"] > 80e9


def test_of_guessed_tokens_nobody_knows_how_many_stay(report: Any, run: Any, written: Any) -> None:  # noqa: F811
    """A step with guesses has a time and no rate: neither tokens a second nor seconds a token."""
    path = written({**SERVE, "draft": "3"})
    found = report("plan", path)
    assert found["rates"] is None
    assert "how many are accepted" in found["unavailable"]["rates"]
    assert "No rates: of 3 guessed tokens a sequence nobody says" in run("plan", path).stdout
    assert report("search", path, "--devices", "2", "--top", "1")["best"][0]["tokens_per_s"] is None


# --------------------------------------------------------------------------- a search from a file
def test_a_search_of_a_file_looks_at_all_plans_and_says_so(report: Any, run: Any, written: Any) -> None:  # noqa: F811
    """What the file's plan says of the layout is not held, as one line on stderr says; --plan holds what it names."""
    found, more = [], ("--devices", "4", "--top", "2")
    for plan in ("tp=2,dp=2", "{tp: 4, sp: true}"):
        path = written({**SERVE, "plan": plan})
        said = run("search", path, *more)
        assert said.stderr.count("\n") == 1
        assert "is not held: a search looks at all plans" in said.stderr
        assert run("--quiet", "search", path, *more).stderr == ""
        assert run("search", path, *more, "--plan", "tp=2").stderr == ""
        found.append(report("search", path, *more))
    assert found[0] == found[1]
    assert found[0]["looked_at"] > report("search", path, *more, "--plan", "tp=2")["looked_at"]
    fill = {**FILL, "plan": "pp=2,microbatch=8"}
    assert "pp=2,microbatch=8, is not held" in run("search", written(fill), "--devices", "2").stderr


def test_what_no_search_varies_is_as_the_file_says(report: Any, run: Any, written: Any) -> None:  # noqa: F811
    """How tokens fall on experts and what software hides are known of every plan: a search that forgot them would call a bound too low."""
    base, more = {**FILL, "model": "mixtral-8x7b"}, ("--devices", "8", "--top", "3")
    path = written({**base, "plan": "{imbalance: 2, overlap: none}"})
    found = report("search", path, *more)
    assert run("search", path, *more).stderr == ""
    assert found == report("search", written({**base, "plan": "tp=2"}), *more, "--plan", "imbalance=2,overlap=none")
    assert all("overlap=none" in one["plan"] for one in found["best"])


@pytest.mark.parametrize("command", ["plan", "search"])
def test_pages_of_a_plan_are_those_of_its_file(report: Any, run: Any, written: Any, command: str) -> None:  # noqa: F811
    """Of 1,000 tokens whole pages of 512 are kept: 1,024 / 1,000 of the cache, which is read so often too."""
    more = ("--devices", "2", "--top", "1", "--plan", "tp=2") if command == "search" else ()
    of_file = report(command, written({**SERVE, "page": "512"}), *more)
    words = ("-C", "dgx-h100", "--phase", "decode", "--set", "batch=8", "--set", "context=1000", "--plan", "tp=2")
    assert of_file == report(command, written(SERVE), *more, "--page", "512")
    assert of_file == report(command, "llama-3-8b", *words, *more[:4], "--page", "512")
    assert of_file != report(command, written(SERVE), *more)
    train = ("-C", "dgx-h100", "--phase", "train", "--set", "batch=8", "--set", "seq=512")
    refused = run(command, "llama-3-8b", *train, "--page", "8", *more[:2], code=2)
    assert "--page is of --phase prefill, decode or mixed" in refused.stderr


# --------------------------------------------------------------------------- memory of a file
def test_memory_of_a_file_is_that_of_its_words(report: Any, written: Any) -> None:  # noqa: F811
    words = ("--plan", "tp=2", "-H", "h100-sxm")
    found = report("memory", written({**SERVE, "page": "64"}))
    assert found == report("memory", "llama-3-8b", *words, "--set", "batch=8", "--set", "context=1000", "--page", "64")
    again = report("memory", written({**SERVE, "params": "{batch: 8, context: 1000}"}), "--page", "64", "--weight-dtype", "fp8")
    assert again["settings"] == {**found["settings"], "weight_dtype": "fp8"}
    assert report("memory", written(SERVE), "-H", "b200-sxm")["hardware"] == "b200-sxm"
    trained = report("memory", written(TRAIN), "--lora", "8", "--dropout")
    assert trained["settings"]["trainable"] == "lora of rank 8"
    assert trained["settings"]["dropout"] == "yes"


def test_memory_behind_a_prefix(report: Any, run: Any) -> None:  # noqa: F811
    """Keys of whole prompts are held; what would fit can be asked for again."""
    words = ("llama-3-70b", "--phase", "prefill", "--set", "batch=400", "--set", "seq=8192", "--set", "cached=7168", "--plan", "tp=8")
    found = report("memory", *words, "-H", "h100-sxm")
    assert found["parts_bytes"]["kv_cache"] == 400 * 8192 * 327_680 / 8
    assert found["fits"] is False
    for change in found["changes"]:
        sizes = [w for name, value in change["settings"].items() if "dtype" not in name for w in ("--set", f"{name}={value}")]
        formats = [w for name, v in change["settings"].items() if "dtype" in name for w in (f"--{name.replace('_', '-')}", v)]
        asked = ("memory", "llama-3-70b", "--phase", "prefill", *sizes, *formats, "--plan", change["plan"], "-H", "h100-sxm")
        assert report(*asked)["needed_bytes"] == change["needed_bytes"]
        assert change["settings"]["cached"] == "7168"
    assert {c["said"].partition("=")[0] for c in found["changes"]} >= {"batch"}


@pytest.mark.parametrize("words", [[], ["--plan", "tp=2"]])
def test_devices_of_the_command_line_leave_the_rest_to_dp(report: Any, written: Any, words: list[str]) -> None:  # noqa: F811
    """As for a model by name; of the file's plan, or of one in its place."""
    found = report("plan", written(SERVE), "--devices", "8", *words)
    assert (found["devices"], found["plan"]) == (8, "tp=2,dp=4")


@pytest.mark.parametrize("command", ["plan", "memory"])
def test_no_pages_on_the_command_line_stand_before_those_of_the_file(report: Any, written: Any, command: str) -> None:  # noqa: F811
    """1,000 tokens in pages of 512 keep 1,024; without pages, as they are."""
    paged, plain = written({**SERVE, "page": "512"}), written(SERVE)
    key = "memory" if command == "plan" else "parts_bytes"
    kept = [report(command, *words)[key] for words in ((paged,), (paged, "--page", "0"), (plain,))]
    assert kept[1] == kept[2] != kept[0]
