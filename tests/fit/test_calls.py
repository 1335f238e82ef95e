"""Tables of calls: what each row ran, which rows tell nothing, and every mistake at its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofline.errors import InputError
from roofline.fit.accuracy import accuracy, predict
from roofline.fit.fitting import alone
from roofline.fit.tables import Row, Table, read_table, read_tables
from roofline.predict.estimate.estimator import Estimator
from roofline.spec.hardware import load_hardware

TABLES = Path(__file__).parents[2] / "results" / "tables" / "h100-sxm"
MOE = "num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,distribution,latency_us"
MLA = "kernel_source,mla_dtype,kv_cache_dtype,num_heads,batch_size,isl,tp_size,step,phase,latency_us"


def table(folder: Path, name: str, *lines: str) -> Table:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_table(str(folder / name))


def ran(row: Row) -> list[tuple[str, dict[str, Any]]]:
    """Operators with the numbers that were stated."""
    keys = ("tokens", "experts", "active", "chosen", "fullest", "batch", "heads", "q_len", "kv_len", "m", "n", "k", "rows", "cols")
    more = ("function", "elements", "inputs", "kv_dtype", "head_dim", "v_head_dim")
    return [(op.name, {key: getattr(op, key) for key in (*keys, *more) if getattr(op, key, None)}) for op in row.ops]


def test_experts_of_one_rank(tmp_path: Path) -> None:
    """4 tokens with 2 of 8 experts, a sixteenth of each: 8 rows, one an expert; gate and up 2 x 896 wide."""
    (row,) = table(tmp_path, "moe_vllm.csv", MOE, "4,4096,14336,2,8,16,1,balanced,82.976").rows
    loads = {"tokens": 8, "experts": 8, "active": 1, "chosen": 8, "fullest": 1}
    up, down, act, total = ran(row)
    assert up == ("grouped_gemm", {**loads, "n": 1792, "k": 4096, "rows": 8})
    assert down == ("grouped_gemm", {**loads, "n": 4096, "k": 896, "rows": 8})
    assert act == ("swiglu", {"rows": 8, "cols": 896})
    assert total == ("elementwise", {"function": "add", "elements": 4 * 4096, "inputs": 2})
    assert (row.operator, row.execution, row.time_s) == ("grouped_gemm", "engine", pytest.approx(82.976e-6))


def test_experts_of_other_ranks_are_zeros(tmp_path: Path) -> None:
    """8 of 32 rows lie here: the others are zeros after each product, and the sum starts from zeros."""
    (row,) = table(tmp_path, "moe.csv", MOE, "16,64,32,2,8,1,4,balanced,10").rows
    assert row.op.tokens == 8  # type: ignore[attr-defined]
    assert ran(row)[-1] == ("elementwise", {"function": "fill", "elements": 32 * 64 + (32 - 8) * (2 * 32 + 64)})


def test_experts_without_a_gate(tmp_path: Path) -> None:
    """By the widths of published models, or by a column."""
    (row,) = table(tmp_path, "moe.csv", MOE, "16,2688,1856,6,128,1,1,balanced,10").rows
    assert ran(row)[0][1]["n"] == 1856
    assert ran(row)[2] == ("elementwise", {"function": "relu", "elements": 16 * 6 * 1856})
    (row,) = table(tmp_path, "moe.csv", MOE + ",gated", "16,2688,1856,6,128,1,1,balanced,10,true").rows
    assert ran(row)[0][1]["n"] == 2 * 1856


def test_latent_attention_with_its_products_by_head(tmp_path: Path) -> None:
    """One new token and 8191 before it; queries into the latent, values out of it, two copies."""
    found = table(tmp_path, "mla_decode.csv", MLA, "x,bfloat16,fp8,16,512,1,8,8191,generation,2600")
    (row,) = found.rows
    latent, into, out, query, cache = ran(row)
    assert latent == ("latent_attention", {"batch": 512, "heads": 16, "q_len": 1, "kv_len": 8192, "kv_dtype": "fp8"})
    assert into == ("batched_gemm", {"batch": 16, "m": 512, "n": 512, "k": 128})
    assert out == ("batched_gemm", {"batch": 16, "m": 512, "n": 128, "k": 512})
    assert (query[1]["elements"], cache[1]["elements"]) == (512 * 16 * 576, 512 * 576)
    assert row.lead_s == pytest.approx(212e-6 / 6)
    (row,) = table(tmp_path, "mla_decode.csv", MLA, "x,bfloat16,fp8,16,512,2,8,8190,generation,2600").rows
    latent, into = ran(row)[:2]
    assert (latent[1]["q_len"], latent[1]["kv_len"], into[1]["m"]) == (2, 8192, 1024)


def test_latent_attention_expanded(tmp_path: Path) -> None:
    (row,) = table(tmp_path, "mla_prefill.csv", MLA, "x,bfloat16,bfloat16,16,4,4096,8,0,context,2600").rows
    attention, expand, copy = ran(row)
    assert attention[0] == "attention"
    assert (attention[1]["head_dim"], attention[1]["v_head_dim"], attention[1]["q_len"]) == (192, 128, 4096)
    assert expand == ("gemm", {"m": 4 * 4096, "n": 16 * 256, "k": 512})
    assert copy[1]["elements"] == 4 * 4096 * 16 * 192


def test_what_the_host_decides_is_left_out_by_its_shape(tmp_path: Path) -> None:
    """Not by its time: a short call that took long is left out, a long one that took short is not."""
    short, long = "x,bfloat16,bfloat16,16,2,1,8,31,generation,9000", "x,bfloat16,bfloat16,16,512,1,8,8191,generation,1"
    found = table(tmp_path, "mla.csv", MLA, short, long)
    assert (found.skipped, [row.line for row in found.rows]) == (1, [3])


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("0,4096,14336,2,8,1,1,balanced,1", "2:1: expected a whole number of at least 1 as num_tokens, found '0'"),
        ("4,4096,x,2,8,1,1,balanced,1", "2:8: expected a whole number of at least 1 as inter_size, found 'x'"),
        ("4,4096,14336,9,8,1,1,balanced,1", "2:14: topk 9 is more than num_experts 8"),
        ("4,4096,14336,2,8,1,3,balanced,1", "2:20: num_experts 8 is no multiple of moe_ep_size 3"),
        (
            "4,4096,14336,2,8,1,1,even,1",
            "2:22: unknown distribution 'even'; known: balanced, power_law_ and an exponent such as power_law_1.2",
        ),
        ("4,4096,14336,2,8,1,1,power_law_1,1", "2:22: the exponent 1.0 is not between 0 and 10, or is 1"),
    ],
)
def test_mistakes(tmp_path: Path, cell: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        table(tmp_path, "moe.csv", MOE, cell)
    assert [f"{p.line}:{p.column}: {p.message}" for p in raised.value.problems] == [message]


def test_what_ran_beside_is_taken_off_before_a_fit(tmp_path: Path) -> None:
    hardware = load_hardware("h100-sxm")
    (row,) = table(tmp_path, "mla.csv", MLA, "x,bfloat16,bfloat16,16,512,1,8,8191,generation,2600").rows
    (only,) = alone([row], hardware)
    estimator = Estimator(hardware, "engine")
    beside = sum(float(estimator.op(op).time_s) for op in row.more)
    assert only.ops == (row.op,)
    assert only.time_s == pytest.approx(2600e-6 - row.lead_s - beside)
    whole = predict([row], hardware)
    assert whole.estimate_s[0] == pytest.approx(row.lead_s + beside + float(estimator.op(row.op).time_s))


@pytest.mark.parametrize(("name", "rows", "most"), [("moe_vllm", 400, 0.10), ("mla_decode_vllm", 40, 0.08), ("mla_prefill_vllm", 50, 0.10)])
def test_held_out_rows_of_the_committed_tables(name: str, rows: int, most: float) -> None:
    """The goal of 10 %; the band holds nine of ten."""
    (group,) = [
        g for g in accuracy(read_tables([str(TABLES / f"{name}.csv")]), load_hardware("h100-sxm"), "held-out").groups if g.regime is None
    ]
    assert group.rows >= rows
    assert group.estimate.count == group.rows
    assert group.estimate.mape is not None
    assert group.estimate.mape <= most
    assert group.bound.mape is not None
    assert group.bound.mape > 3 * group.estimate.mape
    assert group.estimate.in_band is not None
    assert group.estimate.in_band >= 0.85
