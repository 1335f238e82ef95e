"""Measured tables: what a row means, and every mistake at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError
from roofline.fit.tables import Row, read_table, read_tables
from roofline.ops.registry import OPERATORS


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def one(folder: Path, name: str, head: str, line: str) -> Row:
    """The only row of a table."""
    (found,) = read_table(write(folder, name, f"# x\n{head}\n{line}\n")).rows
    return found


def problems(folder: Path, name: str, text: str) -> list[str]:
    """What is said of a bad table, as line:column: message."""
    path = write(folder, name, text)
    with pytest.raises(InputError) as raised:
        read_table(path)
    assert all(p.path == path for p in raised.value.problems)
    return [f"{p.line}:{p.column}: {p.message}" for p in raised.value.problems]


MEANINGS: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("gemm.csv", "m,n,k,dtype,time_us", "8,16,32,bf16,1.5", "gemm", {"m": 8, "n": 16, "k": 32, "dtype": "bf16"}),
    ("batched_gemm_x.csv", "batch,m,n,k,dtype,time_us", "2,8,16,32,fp8,1.5", "batched_gemm", {"batch": 2}),
    ("cross_entropy.csv", "rows,cols,dtype,time_us", "9,7,bf16,1", "cross_entropy", {"tokens": 9, "vocab": 7, "scratch_dtype": "bf16"}),
    ("cross_entropy.csv", "tokens,vocab,dtype,time_us", "9,7,bf16,1", "cross_entropy", {"tokens": 9, "scratch_dtype": "fp32"}),
    (
        "fft_conv.csv",
        "batch,channels,seq,dtype,implementation,time_us",
        "2,3,64,fp32,cufft,1",
        "fft_conv",
        {"seq": 64, "implementation": "cufft", "spectrum": True},
    ),
    (
        "fft_conv.csv",
        "batch,channels,seq,dtype,implementation,spectrum,time_us",
        "2,3,64,fp32,cufft,false,1",
        "fft_conv",
        {"implementation": "cufft", "spectrum": False},
    ),
    ("monarch.csv", "rows,n,dtype,implementation,time_us", "9,64,bf16,bmm,1", "monarch", {"rows": 9, "n": 64, "implementation": "bmm"}),
    ("embedding.csv", "rows,cols,dtype,time_us", "9,7,bf16,1", "embedding", {"tokens": 9, "vocab": 9, "hidden": 7}),
    ("embedding.csv", "tokens,hidden,vocab,dtype,time_us", "9,7,50,bf16,1", "embedding", {"tokens": 9, "vocab": 50, "hidden": 7}),
    ("elementwise.csv", "function,elements,dtype,time_us", "gelu,640,fp32,1", "elementwise", {"function": "gelu", "elements": 640}),
    ("elementwise.csv", "function,elements,dtype,time_us", "sum,640,fp32,1", "reduction", {"function": "sum", "rows": 1, "cols": 640}),
    ("adamw.csv", "parameters,dtype,implementation,time_us", "100,fp32,fused,1", "adamw", {"parameters": 100}),
]


@pytest.mark.parametrize(("name", "head", "line", "operator", "fields"), MEANINGS)
def test_a_row_is_an_operator(tmp_path: Path, name: str, head: str, line: str, operator: str, fields: dict[str, Any]) -> None:
    found = one(tmp_path, name, head, line)
    assert found.op.name == operator
    assert {k: getattr(found.op, k) for k in fields} == fields
    assert found.ops == (found.op,)


CONV = "batch,in_channels,out_channels,height,width,kernel,stride,dtype,layout,time_us"


def test_an_unsaid_padding_keeps_the_size(tmp_path: Path) -> None:
    assert one(tmp_path, "conv2d.csv", CONV, "1,3,64,224,224,7,2,bf16,channels_last,9").op.padding == 3  # type: ignore[attr-defined]
    said = one(tmp_path, "conv2d.csv", f"{CONV},padding", "1,3,64,224,224,7,2,bf16,channels_last,9,0")
    assert said.op.padding == 0  # type: ignore[attr-defined]


ATTENTION = "batch,heads,kv_heads,q_len,kv_len,head_dim,causal,pass,implementation,dtype,time_us"


def test_attention_backends_and_passes(tmp_path: Path) -> None:
    def row(causal: str, direction: str, implementation: str) -> Row:
        return one(tmp_path, "attention_h200.csv", ATTENTION, f"1,4,2,64,64,128,{causal},{direction},{implementation},bf16,9")

    naive, cudnn, backward = row("True", "forward", "naive"), row("false", "forward", "cudnn"), row("True", "backward", "flash")
    assert (naive.op.implementation, naive.op.scale_pass, naive.op.causal) == ("naive", True, True)  # type: ignore[attr-defined]
    assert (cudnn.op.implementation in ("flash", "cudnn"), cudnn.op.scale_pass, cudnn.op.causal) == (True, False, False)  # type: ignore[attr-defined]
    assert backward.ops == backward.op.backward() != ()
    assert row("True", "forward+backward", "flash").ops == (backward.op, *backward.ops)


def test_times_are_seconds(tmp_path: Path) -> None:
    head = "m,n,k,dtype,time_us,time_s,eager_us"
    assert one(tmp_path, "gemm.csv", head, "8,8,8,bf16,2,,").time_s == pytest.approx(2e-6)
    assert one(tmp_path, "gemm.csv", head, "8,8,8,bf16,,0.25,").time_s == 0.25
    path = write(tmp_path, "gemm.csv", f"{head}\n8,8,8,bf16,,,7\n8,8,8,bf16,2,,9\n")
    assert [(r.time_s) for r in read_table(path).rows] == [pytest.approx(2e-6)]
    assert read_table(path).skipped == 1
    assert [r.time_s for r in read_table(path, times=("time_us", "eager_us")).rows] == pytest.approx([7e-6, 2e-6])


def test_the_execution_is_asked_said_or_guessed(tmp_path: Path) -> None:
    text = "m,n,k,dtype,time_us\n8,8,8,bf16,2\n"
    said = "m,n,k,dtype,time_us,execution\n8,8,8,bf16,2,eager\n8,8,8,bf16,2,\n"

    def executions(name: str, content: str, **options: str) -> list[str]:
        return [r.execution for r in read_table(write(tmp_path, name, content), **options).rows]

    assert executions("gemm.csv", text) == ["graph"]
    assert executions("gemm_vllm.csv", text) == ["engine"]
    assert executions("gemm.csv", f"# note: framework=sglang 0.5\n{text}") == ["engine"]
    assert executions("gemm_vllm.csv", said) == ["eager", "engine"]
    assert executions("gemm_vllm.csv", said, execution="compiled") == ["compiled", "compiled"]


def test_a_column_may_name_the_operators(tmp_path: Path) -> None:
    text = "op,m,n,k,rows,cols,dtype,time_us\ngemm,8,8,8,,,bf16,1\nsoftmax,,,,4,5,bf16,2\n"
    found = read_table(write(tmp_path, "mine.csv", text)).rows
    assert [(r.operator, r.op.name, r.line) for r in found] == [("gemm", "gemm", 2), ("softmax", "softmax", 3)]
    assert problems(tmp_path, "mine.csv", text.replace("gemm,8,8,8,,", "gemm,8,8,8,4,")) == [
        "2:12: gemm has no field 'rows'; " + f"known: {', '.join(sorted(OPERATORS['gemm'].__dataclass_fields__))}"  # type: ignore[attr-defined]
    ]
    assert problems(tmp_path, "mine.csv", text.replace("softmax", "sofmax"))[0].startswith(
        "3:1: unknown operator 'sofmax'; did you mean 'softmax'"
    )


def test_rows_of_kernels_keep_their_line_and_provenance(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "gemm.csv", "# measured by me\n\nm,n,k,dtype,time_us\n\n# a note\n8,8,8,bf16,2\n"))
    assert (table.rows[0].line, table.rows[0].text) == (6, "8,8,8,bf16,2")
    assert table.provenance == ("measured by me", "a note")


HEAD = "m,n,k,dtype,time_us"
WRONG = [
    (f"{HEAD}\n8,8,8,bf16,2\n8,x,8,bf16,2\n", ["3:3: 'x' is not a number; write it in decimal digits, e.g. 1024"]),
    (f"{HEAD}\n8,8,0,bf16,2\n", ["2:5: 0 is out of range: at least 1"]),
    (f"{HEAD}\n8,8,8,bf61,2\n", ["2:7: unknown dtype 'bf61'; did you mean 'bf16' or 'fp6'?"]),
    (f"{HEAD}\n8,8,8,bf16,-2\n", ["2:12: -2 is out of range: above 0"]),
    (f"{HEAD}\n8,8,8,bf16,nan\n", ["2:12: 'nan' is not a finite number"]),
    (f"{HEAD}\n8,8,bf16,2\n", ["2:1: expected 5 cells, one for each column, found 4 cells"]),
    (f'{HEAD}\n8,8,8,"bf16,2\n', ["2:1: expected 5 cells, one for each column, found quotes that do not end"]),
    (f'{HEAD}\n"8",8,8,"bf61",2\n', ["2:9: unknown dtype 'bf61'; did you mean 'bf16' or 'fp6'?"]),
    ('m,n,k,note,dtype,time_us\n8,8,8,"a, b",bf61,2\n', ["2:14: unknown dtype 'bf61'; did you mean 'bf16' or 'fp6'?"]),
    (f"{HEAD}\n8,,8,bf16,2\n", ["2:1: a row of gemm lacks 'n'"]),
    ("m,n,k,dtyp,time_us\n8,8,8,bf16,2\n", ["1:7: unknown column 'dtyp' in a table of gemm; did you mean 'dtype'"]),
    ("m,n,k,m,dtype,time_us\n8,8,8,8,bf16,2\n", ["1:7: column 'm' stands twice; keep one"]),
    ("m,n,k,dtype\n8,8,8,bf16\n", ["1:1: no time is measured here: expected a column time_us or time_s"]),
    ("", ["1:1: no table is written here"]),
    ("# nothing\n", ["1:1: no table is written here"]),
    (f"{HEAD}\n", ["1:1: the table has no rows below its column names"]),
    (f"{HEAD},pass\n8,8,8,bf16,2,sideways\n", ["2:14: unknown value 'sideways'"]),
    (f"{HEAD},execution\n8,8,8,bf16,2,graf\n", ["2:14: unknown value 'graf'; did you mean 'graph'?"]),
    (f"{HEAD}\nx,y,8,bf16,2\n8,8,8,bf16,z\n", ["2:1: 'x' is not a number", "2:3: 'y' is not a number", "3:12: 'z' is not a number"]),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_mistakes_are_told_where_they_stand_and_all_at_once(tmp_path: Path, text: str, said: list[str]) -> None:
    found = problems(tmp_path, "gemm_bad.csv", text)
    assert len(found) == len(said)
    assert all(f.startswith(s) for f, s in zip(found, said, strict=True)), found


def test_an_impossible_operator_is_told_where_it_stands(tmp_path: Path) -> None:
    text = f"{ATTENTION}\n1,4,2,64,64,128,True,forward,flash,bf16,9\n1,4,3,64,64,128,True,forward,flash,bf16,9\n"
    assert problems(tmp_path, "attention.csv", text) == ["3:1: heads 4 is not a multiple of kv_heads 3"]


def test_a_file_that_names_no_operator(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "gem_x.csv", f"{HEAD}\n8,8,8,bf16,2\n")
    assert found.startswith("1:1: no operator is named: add a column 'op', or call the file after one ('gem_x': did you mean 'gemm'")


def test_a_backward_pass_that_does_not_exist(tmp_path: Path) -> None:
    text = "parameters,dtype,pass,time_us\n100,fp32,backward,1\n"
    assert problems(tmp_path, "adamw.csv", text) == ["2:10: adamw has no backward pass of its own"]


def test_problems_of_several_files_come_together(tmp_path: Path) -> None:
    paths = [write(tmp_path, f"gemm_{i}.csv", f"{HEAD}\n8,8,x,bf16,2\n") for i in range(2)]
    with pytest.raises(InputError) as raised:
        read_tables(paths)
    assert [p.path for p in raised.value.problems] == paths


def test_reading_stops_when_nobody_can_repair_so_much(tmp_path: Path) -> None:
    assert 100 <= len(problems(tmp_path, "gemm.csv", HEAD + "\n" + "x,y,z,bf16,1\n" * 500)) < 110
