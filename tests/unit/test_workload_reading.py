"""Workload files to `Workload`: params, steps, overrides, expectations, single steps, and the hash of what was read."""

from __future__ import annotations

import hashlib
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import InputError, UsageError
from roofline.ops import OPERATORS
from roofline.spec.find import shipped
from roofline.spec.source import Source
from roofline.spec.workload import load_workload, one_step, read_workload, workload_record
from roofline.workload.workload import Expectation, Workload

TEXT = """\
schema: 1
name: two steps
hardware: h100-sxm
params: {batch: 8, seq: 1024, tokens: batch * seq}
dtype: bf16
steps:
  - {id: qkv, op: gemm, m: tokens, n: 3072, k: 1024, repeat: 24}
  - {id: norm, op: rmsnorm, rows: tokens, cols: 1024, dtype: fp32, after: qkv, measured: 5 us}
expect:
  qkv.bound.limiter: tensor
  total.bound.time_s: <= 5 ms
"""


def read(text: str, *overrides: str) -> Workload:
    return read_workload(Source("w.yaml", text), overrides)


def refused(text: str, *overrides: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(text, *overrides)
    return [f"{p.path}:{p.line}:{p.column} {p.message}" for p in caught.value.problems]


def test_a_workload_is_read_with_all_that_it_says() -> None:
    found = read(TEXT)
    assert (found.name, found.hardware, found.dtype, found.execution, found.traffic) == (
        "two steps", "h100-sxm", "bf16", "eager", "compulsory",
    )  # fmt: skip
    assert found.params == {"batch": 8, "seq": 1024, "tokens": 8192}
    assert [(s.id, s.op.name, s.repeat, s.direction, s.after, s.measured_s) for s in found.steps] == [
        ("qkv", "gemm", 24, "forward", None, None),
        ("norm", "rmsnorm", 1, "forward", ("qkv",), 5e-6),
    ]
    assert found.steps[0].op == OPERATORS["gemm"](m=8192, n=3072, k=1024, dtype="bf16")  # type: ignore[call-arg]
    assert found.steps[1].op.dtype == "fp32"
    assert found.expect == (
        Expectation(path="qkv.bound.limiter", comparison="==", value="tensor", line=10),
        Expectation(path="total.bound.time_s", comparison="<=", value="5 ms", line=11),
    )
    assert found.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()


def test_a_step_without_an_id_is_called_as_its_operator() -> None:
    assert read("schema: 1\ndtype: bf16\nsteps: [{op: softmax, rows: 1, cols: 2}]").steps[0].id == "softmax"


def test_params_may_use_those_above_and_not_those_below() -> None:
    assert read(TEXT.replace("tokens: batch * seq", "tokens: batch * seq, twice: 2 * tokens")).params["twice"] == 16384
    assert refused(TEXT.replace("batch: 8", "batch: seq")) == ["w.yaml:4:17 unknown name 'seq'; none is known here"]


def test_a_param_that_is_refused_is_reported_once_however_often_it_is_used() -> None:
    assert len(refused(TEXT.replace("seq: 1024", "seq: 1/0"))) == 1
    assert len(refused(TEXT.replace("params: {batch: 8, seq: 1024, tokens: batch * seq}", "params: [8]"))) == 1
    assert len(refused(TEXT.replace("dtype: bf16\n", "dtype: bf61\n"))) == 1


# ---- overrides -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("batch=16", lambda w: w.params["tokens"] == 16384 and w.steps[0].op.m == 16384),
        ("batch = 2 ** 4", lambda w: w.params["batch"] == 16),
        ("dtype=fp16", lambda w: w.steps[0].op.dtype == "fp16" and w.steps[1].op.dtype == "fp32"),
        ("name=other", lambda w: w.name == "other"),
        ("hardware=h200-sxm", lambda w: w.hardware == "h200-sxm"),
        ("execution=compiled", lambda w: w.execution == "compiled"),
        ("qkv.m=5", lambda w: w.steps[0].op.m == 5),
        ("qkv.repeat=batch", lambda w: w.steps[0].repeat == 8),
        ("norm.op=layernorm", lambda w: w.steps[1].op.name == "layernorm"),
        ("qkv.note=a=b", lambda w: w.steps[0].op.m == 8192),
    ],
)
def test_an_override_replaces_a_param_a_setting_or_a_field(override: str, found: Any) -> None:
    assert found(read(TEXT, override))
    assert not found(read(TEXT)) or "note" in override


def test_later_overrides_win_and_the_hash_is_that_of_the_file() -> None:
    assert read(TEXT, "batch=1", "batch=2").params["batch"] == 2
    assert read(TEXT, "batch=1").sha256 == read(TEXT).sha256


def test_an_override_of_an_operator_name_finds_a_step_without_an_id() -> None:
    text = "schema: 1\ndtype: bf16\nsteps: [{op: softmax, rows: 1, cols: 2}]"
    assert read(text, "softmax.rows=7").steps[0].op.rows == 7  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("batch=abc", "--set batch:1:7 unknown name 'abc'"),
        ("batch=", "--set batch:1:7 expected a number or an expression"),
        ("batch=0", "w.yaml:7:28 'tokens' is 0 (tokens = 0), which is out of range: at least 1"),
        ("bacth=1", "--set bacth:1:1 the workload has no param 'bacth'; did you mean 'batch'"),
        ("steps=1", "--set steps:1:1 the workload has no param 'steps'"),
        ("qvk.m=1", "--set qvk.m:1:1 no step is called 'qvk'; did you mean 'qkv'"),
        ("qkv.mm=1", "--set qkv.mm:1:1 unknown key 'mm' in a gemm step; did you mean 'm'"),
        ("qkv.m=1.5", "--set qkv.m:1:7 expected a whole number"),
        ("qkv.id=norm", "w.yaml:8:10 two steps are called 'norm'"),
        ("dtype=bf61", "--set dtype:1:7 unknown dtype 'bf61'; did you mean 'bf16'"),
        ("hardware=h100-smx", "--set hardware:1:10 unknown hardware profile 'h100-smx'; did you mean 'h100-sxm'"),
        ("hardware=./h.yaml", "--set hardware:1:10 unknown hardware profile './h.yaml'; give a file with -H"),
        ("norm.measured=5", "--set norm.measured:1:15 '5' has no unit"),
    ],
)
def test_a_bad_override_is_shown_on_the_command_line_it_came_from(override: str, said: str) -> None:
    assert any(p.startswith(said) for p in refused(TEXT, override)), refused(TEXT, override)


def test_all_bad_overrides_are_shown_at_once() -> None:
    assert len(refused(TEXT, "bacth=1", "qvk.m=1")) == 2


@pytest.mark.parametrize("override", ["batch", "=1", "", " = "])
def test_an_override_is_key_and_value(override: str) -> None:
    with pytest.raises(UsageError, match="write key=value"):
        read(TEXT, override)


# ---- steps ---------------------------------------------------------------------------------------------------------
STEPS = [
    ("id: norm", "id: qkv", "w.yaml:8:10 two steps are called 'qkv' (the other on line 7); give each an id"),
    ("id: norm", "id: total", "w.yaml:8:10 step id 'total' is taken"),
    ("id: norm", "id: a.b", "w.yaml:8:10 step id 'a.b': letters, digits"),
    ("after: qkv", "after: norm", "w.yaml:8:75 step 'norm' names 'norm', which no step before it is called"),
    ("after: qkv", "after: [qkv, qvk]", "w.yaml:8:75 step 'norm' names 'qvk', which no step before it is called; did you mean 'qkv'?"),
    ("after: qkv", "tied_to: nobody", "w.yaml:8:77 step 'norm' names 'nobody'"),
    ("after: qkv", "pass: up", "w.yaml:8:74 unknown value 'up'"),
    ("k: 1024, ", "", "w.yaml:7:5 a gemm step lacks 'k'"),
    ("rows: tokens", "rows: 0", "w.yaml:8:35 0 is out of range: at least 1"),
    ("dtype: bf16\n", "", "w.yaml:6:5 a step needs a dtype"),
]


@pytest.mark.parametrize(("old", "new", "said"), STEPS)
def test_a_bad_step_is_refused_at_its_place(old: str, new: str, said: str) -> None:
    assert old in TEXT
    found = [p for p in refused(TEXT.replace(old, new, 1)) if not p.startswith("w.yaml:1")]
    assert found[0].startswith(said), found


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_refuses_an_empty_step_by_naming_its_keys(name: str) -> None:
    text = f"schema: 1\ndtype: bf16\nsteps: [{{op: {name}, nonsense: 1}}]"
    assert any(f"unknown key 'nonsense' in a {name} step" in p for p in refused(text))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("qkv: tensor", "w.yaml:10:3 'qkv' names no figure"),
        ("kqv.bound.limiter: tensor", "w.yaml:10:3 no step is called 'kqv'; did you mean 'qkv'"),
        ("qkv.bound.limiter: [tensor]", "w.yaml:10:22 expected a value, or a comparison"),
    ],
)
def test_a_bad_expectation_is_refused_at_its_place(line: str, said: str) -> None:
    (found,) = refused(TEXT.replace("qkv.bound.limiter: tensor", line))
    assert found.startswith(said)


# ---- a single step -------------------------------------------------------------------------------------------------
def test_one_step_is_read_from_words() -> None:
    found = one_step("gemm", ["m=1", "n=2*3", "k=4", "dtype=bf16"])
    assert found.steps[0].op == OPERATORS["gemm"](m=1, n=6, k=4, dtype="bf16")  # type: ignore[call-arg]


def test_words_of_one_step_are_refused_at_their_place() -> None:
    with pytest.raises(InputError) as caught:
        one_step("gemm", ["m=1", "n=x", "kk=4", "dtype=bf16"])
    assert [(p.column, p.message.partition(";")[0]) for p in caught.value.problems] == [
        (1, "a gemm step lacks 'k'"),
        (15, "unknown name 'x'"),
        (17, "unknown key 'kk' in a gemm step"),
    ]
    for words, said in ((["m"], "not key=value"), (["=1"], "not key=value"), (["m=1", "m=2"], "given twice")):
        with pytest.raises(UsageError, match=said):
            one_step("gemm", words)


# ---- shipped files and the schema ----------------------------------------------------------------------------------
FITS = jsonschema.Draft202012Validator(workload_record().json_schema())
SHIPPED = sorted(shipped("workloads").glob("*.yaml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_a_shipped_workload_is_read_and_fits_the_json_schema(path: Any) -> None:
    assert load_workload(str(path)).steps
    FITS.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_workloads_are_shipped() -> None:
    assert len(SHIPPED) >= 5


@given(st.integers(), st.integers(1, 2**20))
def test_a_dimension_is_taken_exactly(m: int, n: int) -> None:
    text = f"schema: 1\ndtype: bf16\nsteps: [{{op: gemm, m: {m}, n: {n}, k: 1}}]"
    if 1 <= m < 2**63:
        assert read(text).steps[0].op.m == m  # type: ignore[attr-defined]
    else:
        assert len(refused(text)) == 1
