"""``roofline memory`` on the command line: its first line, its JSON, what it refuses, and the changes it proposes."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from roofline.cli.app import app
from roofline.report.published import schema_of

QWEN = ("qwen3-8b", "--set", "batch=64", "--set", "context=8192", "-H", "h100-sxm")


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["memory", *arguments])
    assert result.exit_code == code, result.output
    return result


def answer(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--format", "json").stdout)


def test_a_prefill_in_stages_says_which_parts_are_counted() -> None:
    """Sequences one by one where nobody says more, which need least; `plan` asked for those parts counts the same."""
    sizes = ("llama-3-8b", "--phase", "prefill", "--set", "batch=64", "--set", "seq=64")
    left, stated, more = (answer(*sizes, "--plan", f"tp=2,pp=4{parts}") for parts in ("", ",microbatch=1", ",microbatch=16"))
    assert (left["plan"], more["plan"]) == ("tp=2,pp=4,microbatch=1", "tp=2,pp=4,microbatch=16")
    assert left == stated
    assert left["needed_bytes"] < more["needed_bytes"]
    planned = CliRunner().invoke(app, ["plan", *sizes, "-C", "dgx-h100", "--plan", left["plan"], "--format", "json"])
    assert json.loads(planned.stdout)["memory"]["needed_bytes"] == left["needed_bytes"]
    proposed = answer("llama-3-70b", "--phase", "prefill", "--plan", "tp=2", "--set", "batch=64", "--set", "seq=4096", "-H", "h100-sxm")
    assert next(c["plan"] for c in proposed["changes"] if c["said"] == "pp=2") == "tp=2,pp=2,microbatch=1"
    assert answer(*sizes, "--plan", "tp=4")["plan"] == "tp=4"


@pytest.mark.parametrize(
    "arguments",
    [
        QWEN,
        ("llama-3-8b",),
        ("llama-3-8b", "--phase", "train", "--plan", "tp=2,sp", "-H", "h200-sxm"),
        ("deepseek-v3", "--phase", "prefill", "--plan", "tp=8,ep=8", "-H", "h200-sxm", "--reserve", "2 GiB"),
        ("--parameters", "7.5e9", "--plan", "dp=64,zero=1", "-H", "a10"),
    ],
)
def test_json_has_the_published_schema_and_adds_up(arguments: tuple[str, ...]) -> None:
    found = answer(*arguments)
    jsonschema.validate(found, schema_of("memory"))
    assert found["needed_bytes"] == pytest.approx(sum(found["parts_bytes"].values()))
    if found["available_bytes"] is None:
        assert found["fits"] is found["shortfall_bytes"] is None
    else:
        assert found["fits"] == (found["needed_bytes"] <= found["available_bytes"])
        assert found["shortfall_bytes"] == pytest.approx(max(0, found["needed_bytes"] - found["available_bytes"]))


def test_the_same_question_has_the_same_bytes() -> None:
    assert run(*QWEN, "--format", "json").stdout == run(*QWEN, "--format", "json").stdout


def test_the_first_line_answers() -> None:
    assert run("llama-3-8b", "--set", "context=1024", "-H", "h100-sxm").stdout.startswith(
        "llama-3-8b, decode on h100-sxm: fits, 16.20 GB (15.08 GiB) of 80.00 GB"
    )
    assert run("llama-3-8b").stdout.startswith("llama-3-8b, decode: needs at least ")


def test_the_keys_do_not_depend_on_the_answer() -> None:
    assert list(answer(*QWEN)) == list(answer("llama-3-8b")) == list(answer("--parameters", "1e9"))
    assert list(answer(*QWEN)["parts_bytes"]) == list(answer("--parameters", "1e9")["parts_bytes"])


def test_a_reserve_is_shown_and_taken_from_what_fits() -> None:
    plain, less = answer(*QWEN), answer(*QWEN, "--reserve", "4 GB")
    assert less["needed_bytes"] - plain["needed_bytes"] == less["parts_bytes"]["reserve"] == 4e9
    batches = [next(x for x in found["largest"] if x["setting"] == "batch")["value"] for found in (plain, less)]
    assert batches == [52, 49]


def test_experts_are_split_by_tp_where_the_plan_does_not_speak_of_them() -> None:
    split, whole = (answer("mixtral-8x7b", "--plan", plan)["parts_bytes"]["weights"] for plan in ("tp=8", "tp=8,ep=1,etp=1"))
    assert whole - split == 2 * 32 * 8 * 3 * 4096 * 14336 * 7 / 8


def test_pages_and_formats_of_the_cache() -> None:
    size = ("llama-3-8b", "--set", "batch=10", "--set", "context=1000")
    amounts = [answer(*size, *more)["parts_bytes"]["kv_cache"] for more in ((), ("--page", "64"), ("--kv-dtype", "fp8"))]
    assert amounts == [10 * 1000 * 131_072, 10 * 1024 * 131_072, 10 * 1000 * 65_536]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a model, or --parameters"),
        (("llama-3-8b", "--parameters", "8e9"), "not both"),
        (("lama-3-8b",), "llama-3-8b"),
        (("llama-3-8b", "--phase", "trian"), "did you mean 'train'"),
        (("llama-3-8b", "--plan", "tp=8,pq=2"), "--plan:1:6: unknown key 'pq'"),
        (("llama-3-8b", "--plan", "tp=7"), "32 heads do not divide by tp 7"),
        (("llama-3-8b", "--set", "btach=2"), "did you mean 'batch'"),
        (("llama-3-8b", "--set", "batch=0"), "out of range"),
        (("llama-3-8b", "--set", "seq=12"), "'seq' is no size of a decode step"),
        (("llama-3-8b", "--kv-dtype", "fp9"), "fp8"),
        (("llama-3-8b", "--reserve", "2"), "--reserve"),
        (("llama-3-8b", "--lora", "8"), "--lora is of --phase train"),
        (("llama-3-8b", "--phase", "train", "--page", "16"), "--page is of --phase prefill, decode or mixed"),
        (("llama-3-8b", "--phase", "train", "--optimizer", "adam"), "did you mean 'adamw'"),
        (("llama-3-8b", "--phase", "train", "--attention", "naiv"), "did you mean 'naive'"),
        (("llama-3-8b", "--phase", "train", "--weight-dtype", "int4"), "16 or 32 bits"),
        (("llama-3-8b", "-H", "h100-sxn"), "h100-sxm"),
        (("--parameters", "many"), "--parameters"),
        (("--parameters", "0"), "out of range"),
        (("--parameters", "1e9", "--set", "batch=2"), "--set needs a model"),
        (("--parameters", "1e9", "--phase", "decode"), "only training keeps more"),
        (("llama-3-8b", "--format", "xml"), "unknown format 'xml'"),
    ],
)
def test_what_is_refused_and_why(arguments: tuple[str, ...], said: str) -> None:
    assert said in run(*arguments, code=2).stderr


def test_all_sizes_that_are_wrong_are_named_at_once() -> None:
    said = run("llama-3-8b", "--set", "bacth=2", "--set", "context=1.5", code=2).stderr
    assert "bacth" in said
    assert "--set:1:9: context" in said


# --------------------------------------------------------------------------- changes
def changed(*arguments: str) -> list[Any]:
    found: list[Any] = answer(*arguments)["changes"]
    return found


def test_each_change_fits_when_it_is_asked_for() -> None:
    """Plans and settings of the answer go back in as they are."""
    for change in changed(*QWEN)[2:]:
        sizes = [w for k, v in change["settings"].items() if k in ("batch", "context") for w in ("--set", f"{k}={v}")]
        formats = [w for k, v in change["settings"].items() if k.endswith("dtype") for w in (f"--{k.replace('_', '-')}", v)]
        found = answer("qwen3-8b", "--plan", change["plan"], *sizes, *formats, "-H", "h100-sxm")
        assert found["fits"]
        assert found["needed_bytes"] == change["needed_bytes"]
        assert found["devices"] == change["devices"]


def test_changes_come_from_the_smallest_to_the_largest() -> None:
    """The same work run otherwise, then less work, then fewer bits, then more devices."""
    assert [c["said"] for c in changed(*QWEN)][:5] == ["context=6739", "batch=52", "kv_dtype=fp8", "kv_dtype=fp8, weight_dtype=fp8", "tp=2"]
    training = ("llama-3-8b", "--phase", "train", "--plan", "dp=8,microbatch=4", "--set", "batch=32", "--set", "seq=4096", "-H", "h200-sxm")
    said = [c["said"] for c in changed(*training)]
    assert said[0] == "zero=2"
    assert said.index("zero=3") < said.index("tp=2")
    assert all(c["devices"] == 8 for c in changed(*training)[: said.index("tp=2")])


def test_more_tensor_parallel_splits_experts_too() -> None:
    """Mixtral's 93 GB on two devices, as the plan that says nothing of experts has it."""
    found = next(c for c in changed("mixtral-8x7b", "-H", "h100-sxm") if c["said"] == "tp=2")
    assert found["plan"] == "tp=2,etp=2"
    assert found["needed_bytes"] == answer("mixtral-8x7b", "--plan", "tp=2")["needed_bytes"] < 48e9


def test_where_no_single_change_is_enough_several_are_named_together() -> None:
    first = changed("llama-3.1-405b", "--phase", "train", "--plan", "tp=8,pp=2", "--set", "batch=4", "--set", "seq=8192", "-H", "h100-sxm")[
        0
    ]
    assert first["said"].startswith("recompute=full, sp, microbatch=1, ")
    assert first["devices"] > 16


def test_where_nothing_helps_that_is_said() -> None:
    found = run("llama-3.1-405b", "--set", "context=100", "--plan", "tp=8", "-H", "t4", "--set", "batch=1000000")
    assert "DOES NOT FIT" in found.stdout


def test_more_parameters_than_any_sharding_fits_have_no_change() -> None:
    found = run("--parameters", "1e15", "-H", "h100-sxm").stdout
    assert "No change of the plan, of the sizes or of up to 64 times the devices makes it fit." in found
    assert "Smallest change that fits: zero=3, dp=64" in run("--parameters", "2e11", "-H", "h100-sxm").stdout
