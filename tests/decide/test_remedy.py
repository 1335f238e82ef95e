"""What does not fit has no cost, and the refusal names a command that asks the same of memory; tokens are asked for by their own option."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from roofline.spec.find import find_model
from tests.commands import Answer, Run
from tests.decide.test_cost_fits import PAID
from tests.decide.test_cost_fits import plan as plan

DRAFT = "schema: 1\nmodel: llama-3-70b\nphase: decode\ndraft: 3\nplan: tp=8\ncluster: dgx-h100\nparams: {batch: 256, context: 8192}\n"
ADAPTED = "schema: 1\nmodel: llama-3-70b\nphase: train\ntrainable: lora\nlora_rank: 16\ndtype: fp16\nparams: {batch: 8, seq: 8192}\n"
WIDER = "schema: 1\nmodel: llama-3-70b\nphase: decode\ndtype: fp32\nplan: tp=8\nparams: {batch: 128, context: 8192}\n"
PLAIN = WIDER.replace("dtype: fp32\n", "page: 64\n")
CONFIG = json.loads(find_model("llama-3-70b").read_text(encoding="utf-8"))


def recommended(run: Run, said: str) -> tuple[str, str]:
    """The command that a refusal names, without the tool's own name, and what it answers."""
    command = said.partition("see '")[2].rpartition("' for what would")[0]
    tool, *words = shlex.split(command)
    assert tool == "roofline"
    return shlex.join(words), run(*words).stdout


# --------------------------------------------------------------------------- plans
def test_a_plan_that_does_not_fit_has_no_cost_and_the_command_says_what_would(run: Run, plan: Callable[[int], str]) -> None:
    """256 sequences of 8,192 tokens are 85.9 GB of keys and values beside 17.6 GB of weights: 23.6 GB more than there are."""
    path = plan(256)
    said = run("cost", "tokens", "--decode", path, *PAID, code=2)
    assert said.stdout == ""
    assert f"{path} does not fit the memory of the device: 23.56 GB short" in said.stderr
    command, fitting = recommended(run, said.stderr)
    assert command == "memory llama-3-70b --phase decode --set batch=256 --set context=8192 --plan tp=8 -H dgx-h100"
    assert "DOES NOT FIT, 23.56 GB" in fitting
    assert "Smallest change that fits" in fitting


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (
            ("llama-3-70b", "--phase", "mixed", "--plan", "tp=8", "--set", "batch=256", "--set", "context=8192", "--set", "chunk=512",
             "--set", "cached=64"),
            "llama-3-70b --phase mixed --set batch=256 --set context=8192 --set chunk=512 --set cached=64 --plan tp=8 -H dgx-h100",
        ),
        (
            ("llama-3-70b", "--phase", "prefill", "--plan", "tp=2,pp=4,microbatch=2", "--set", "batch=64", "--set", "seq=65536",
             "--set", "cached=1024", "--kv-dtype", "fp16", "--page", "64", "--reserve", "1.5 GiB"),
            "llama-3-70b --phase prefill --set batch=64 --set seq=65536 --set cached=1024 --kv-dtype fp16 --page 64 "
            "--plan tp=2,pp=4,microbatch=2 -H dgx-h100 --reserve '1610612736 B'",
        ),
        (
            ("llama-3-70b", "--phase", "train", "--plan", "tp=8", "--set", "batch=8", "--set", "seq=8192", "--gradient-dtype", "fp32",
             "--optimizer", "sgd", "--attention", "naive"),
            "llama-3-70b --phase train --set batch=8 --set seq=8192 --gradient-dtype fp32 --optimizer sgd --attention naive "
            "--plan tp=8 -H dgx-h100",
        ),
        (
            ("my model/config.json", "--phase", "decode", "--plan", "tp=8", "--set", "batch=256", "--set", "context=8192"),
            "'my model/config.json' --phase decode --set batch=256 --set context=8192 --plan tp=8 -H dgx-h100",
        ),
        (("draft.yaml",), "draft.yaml --plan tp=8 -H dgx-h100"),
        (("wider.yaml",), "wider.yaml --plan tp=8 -H dgx-h100"),
        (
            ("plain.yaml", "--set", "batch=256"),
            "llama-3-70b --phase decode --set batch=256 --set context=8192 --page 64 --plan tp=8 -H dgx-h100",
        ),
        (
            ("adapted.yaml", "--set", "dtype=bf16", "--set", "batch=4", "--optimizer", "sgd"),
            "adapted.yaml --optimizer sgd --set dtype=bf16 --set batch=4 --plan tp=1 -H dgx-h100",
        ),
    ],
    ids=["mixed", "prefill", "train", "config", "draft", "dtype", "a file that options can say", "lora and dtype"],
)  # fmt: skip
def test_the_command_that_is_named_asks_for_the_same_bytes(
    run: Run, report: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], asked: str
) -> None:
    """It runs as it is written, and what it says is needed is what the plan needs, part by part."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my model").mkdir()
    (tmp_path / "my model" / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    for name, text in (("draft", DRAFT), ("wider", WIDER), ("plain", PLAIN), ("adapted", ADAPTED)):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    run("plan", *words, "-C", "dgx-h100", "-o", "plan.json")
    made = json.loads(Path("plan.json").read_text(encoding="utf-8"))
    arguments = ("run", "plan.json", "--total-tokens", "1T") if made["job"]["phase"] == "train" else ("tokens", "--decode", "plan.json")
    if made["job"]["phase"] == "prefill":
        arguments = ("tokens", "--prefill", "plan.json")
    command, answer = recommended(run, run("cost", *arguments, *PAID, code=2).stderr)
    assert command == f"memory {asked}"
    assert "DOES NOT FIT" in answer
    found = report(*shlex.split(command))
    assert found["parts_bytes"] == made["memory"]["parts_bytes"]
    assert found["needed_bytes"] == made["memory"]["needed_bytes"]
    assert found["changes"]


def test_a_report_that_says_no_command_is_refused_without_one(run: Run, plan: Callable[[int], str]) -> None:
    """As older ones do not, and those of a model that the library was given."""
    path = plan(256)
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    del found["memory_words"]
    Path(path).write_text(json.dumps(found), encoding="utf-8")
    said = run("cost", "tokens", "--decode", path, *PAID, code=2).stderr
    assert said.rstrip().endswith("23.56 GB short, so that it has no cost")


MODEL = "schema: 1\nmodel: llama-3-70b\nphase: {}\nplan: {}\ncluster: dgx-h100\nparams: {{global_batch: 2}}\n"


@pytest.mark.parametrize(
    ("text", "words", "asked"),
    [
        (None, ("--set", "batch=256"), "analyze qwen3_8b_decode -H h100-sxm --largest batch"),
        (None, ("--set", "batch=256", "--set", "context=4096", "-H", "a100-sxm"),
         "analyze qwen3_8b_decode --set context=4096 -H a100-sxm --largest batch"),
        (MODEL.format("decode", "tp=4,dp=2"), ("--set", "global_batch=256", "--set", "context=9216"),
         "analyze w.yaml --set context=9216 -H dgx-h100 --largest global_batch"),
        (MODEL.format("train", "tp=4,dp=2"), ("--set", "seq=1024"), "memory w.yaml --set seq=1024 -H dgx-h100"),
    ],
    ids=["a file", "a device and a size", "a model", "training"],
)  # fmt: skip
def test_a_report_of_analyze_that_does_not_fit_names_a_command_that_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, words: tuple[str, ...], asked: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "w.yaml").write_text(text, encoding="utf-8")
    run("analyze", "w.yaml" if text else "qwen3_8b_decode", *words, "-o", "w.json")
    arguments = ("run", "w.json", "--total-tokens", "1T", "--tokens", "1") if asked.startswith("memory") else \
        ("tokens", "--decode", "w.json", "--decode-tokens", "1")  # fmt: skip
    said = run("cost", *arguments, "--devices", "1", *PAID, code=2).stderr
    assert "does not fit the memory of the device: " in said
    command, answer = recommended(run, said)
    assert command == asked
    assert "Smallest change" in answer or "Largest " in answer


def test_a_file_that_a_report_names_is_read_only_if_it_is_what_the_report_was_made_of(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "w.yaml"
    path.write_text(MODEL.format("decode", "tp=4,dp=2"), encoding="utf-8")
    run("analyze", "w.yaml", "--set", "global_batch=256", "--set", "context=9216", "-o", "w.json")
    path.write_text(MODEL.format("decode", "tp=4,dp=2") + "# another\n", encoding="utf-8")
    arguments = ("cost", "tokens", "--decode", "w.json", "--decode-tokens", "1", "--devices", "1", *PAID)
    assert run(*arguments, code=2).stderr.rstrip().endswith("so that it has no cost")
    path.unlink()
    assert run(*arguments, code=2).stderr.rstrip().endswith("so that it has no cost")


# --------------------------------------------------------------------------- tokens
@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("tokens", "--prefill"), "--prefill-tokens"),
        (("tokens", "--decode"), "--decode-tokens"),
        (("run", "--total-tokens", "1T"), "--tokens"),
    ],
)
def test_the_tokens_of_a_report_are_asked_for_by_the_option_that_says_them(
    run: Run, tmp_path: Path, words: tuple[str, ...], option: str
) -> None:
    """Each command has its own, and every refusal names it."""
    path = str(tmp_path / "w.json")
    run("analyze", "qwen3_8b_decode", "-o", path)
    arguments = ("cost", *words, path, "--devices", "1", *PAID)
    unsaid = run(*arguments, code=2).stderr
    assert unsaid.endswith(f"how many tokens one execution makes; give {option}, such as {option} batch\n")
    assert run(*arguments, option, "0", code=2).stderr == f"error: {option} 0: 0 tokens; they must be above 0\n"
    assert run(*arguments, option, "bach", code=2).stderr.startswith(f"error: {option} bach: ")
