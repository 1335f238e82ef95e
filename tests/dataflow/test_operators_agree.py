"""Where a dataflow and an operator count the same kernel, they count the same: two derivations of one truth."""

from __future__ import annotations

from typing import Any

import pytest

from roofline.ops.attention import Attention
from roofline.ops.base import Machine, Op, Traffic, Work, work_of
from roofline.ops.fft_conv import FftConv
from roofline.ops.gemm import Gemm
from roofline.ops.softmax import Softmax
from roofline.predict.bound import machine_of
from roofline.spec.hardware import load_hardware


def machine(name: str) -> Machine:
    found = machine_of(load_hardware(name))
    assert found is not None
    return found


def work(op: Op, name: str) -> Work:
    return work_of(op, machine(name))


def tiled(op: Op, name: str) -> Traffic:
    found = work(op, name).tiled
    assert found is not None
    return found


SHAPES = [(4096, 4096, 4096), (8192, 1024, 2048), (1024, 4000, 512), (512, 8192, 28672)]
"""Products, one of them with a partial tile of columns."""


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("hardware", ["h100-sxm", "b200-sxm", "a100-sxm"])
def test_a_product_on_matrix_units(counted: Any, hardware: str, m: int, n: int, k: int) -> None:
    found = counted("gemm:pipelined", hardware, m=m, n=n, k=k)
    op = Gemm(m=m, n=n, k=k, dtype="bf16", tile_m=128, tile_n=256)
    expected = tiled(op, hardware)
    assert found.sum("tensor") == op.counts().tensor
    assert found.sum("once_bytes") == work(op, hardware).compulsory.hbm
    assert found.sum("l2_bytes") == expected.l2
    assert found.sum("fill_bytes") + found.sum("smem_bytes") == expected.smem
    assert found.sum("register_bytes") == expected.register


@pytest.mark.parametrize("rung", ["smem", "tile1d", "tile2d", "vectorised", "warp"])
@pytest.mark.parametrize(("m", "n", "k"), [(4096, 4096, 4096), (4096, 2048, 1024)])
def test_a_product_on_vector_lanes(counted: Any, rung: str, m: int, n: int, k: int) -> None:
    found = counted(f"gemm:{rung}", "rtx-a6000", m=m, n=n, k=k)
    tiles = {name: int(found.names.get(name, 1)) for name in ("tile_m", "tile_n", "thread_m", "thread_n")}
    expected = tiled(Gemm(m=m, n=n, k=k, dtype="fp32", **tiles), "rtx-a6000")
    assert found.sum("vector") == 2 * m * n * k
    assert found.sum("l2_bytes") == expected.l2
    assert found.sum("fill_bytes") + found.sum("smem_bytes") == expected.smem
    assert found.sum("register_bytes") == expected.register


@pytest.mark.parametrize(("m", "n", "k"), [(4096, 4096, 4096), (8192, 8192, 8192), (16384, 2048, 4096)])
def test_a_product_through_l2(counted: Any, m: int, n: int, k: int) -> None:
    """The model of L2 is the operator's."""
    found = counted("gemm:pipelined", "h100-sxm", m=m, n=n, k=k)
    cached = Gemm(m=m, n=n, k=k, dtype="bf16", tile_m=128, tile_n=256).cached(machine("h100-sxm"))
    assert found.sum("hbm_bytes") == pytest.approx(cached.hbm, rel=1e-9)


# --------------------------------------------------------------------------- attention
SHAPE = {"batch": 64, "heads": 16, "q_len": 1024, "kv_len": 1024, "head_dim": 64}


@pytest.mark.parametrize("extra", [False, True])
def test_naive_attention_forward_and_backward(counted: Any, extra: bool) -> None:
    found = counted("attention:naive", "a100-sxm", **SHAPE, mask=int(extra), dropout=int(extra), backward=1)
    op = Attention(**SHAPE, dtype="bf16", implementation="naive", mask=extra, dropout=0.1 if extra else 0.0)
    both = [op, *op.backward()]
    assert found.sum("once_bytes") == sum(work(o, "a100-sxm").compulsory.hbm for o in both)
    assert found.sum("tensor") == sum(o.counts().tensor for o in both)
    assert len(found.kernels) == sum(len(o.passes()) for o in both)
    assert found.kernels[0].work.once_bytes == op.passes()[0].hbm_bytes


@pytest.mark.parametrize("hardware", ["a100-sxm", "h100-sxm"])
@pytest.mark.parametrize("length", [1024, 4096])
def test_flash_attention_1(counted: Any, hardware: str, length: int) -> None:
    shape = {**SHAPE, "q_len": length, "kv_len": length}
    found = counted("attention:flash1", hardware, **shape)
    op = Attention(**shape, dtype="bf16", implementation="flash1")
    assert found.sum("l2_bytes") == tiled(op, hardware).hbm
    assert found.sum("once_bytes") == work(op, hardware).compulsory.hbm
    assert found.sum("tensor") == op.counts().tensor
    assert found.sum("sfu") == op.counts().sfu


def test_flash_attention_1_backward(counted: Any) -> None:
    """The operator reads the statistics twice for the row sums and itself; the dataflow hands the row sums over instead."""
    found = counted("attention:flash1", "a100-sxm", **SHAPE, backward=1)
    (op,) = Attention(**SHAPE, dtype="bf16", implementation="flash1").backward()
    rows = 64 * 16 * 1024
    ours = sum(k.work.l2_bytes for k in found.kernels[1:])
    assert ours - 2 * rows * 4 - rows * 8 == tiled(op, "a100-sxm").hbm - 2 * rows * 8
    assert sum(k.work.tensor for k in found.kernels[1:]) == op.counts().tensor


@pytest.mark.parametrize(("kv_heads", "seen"), [(16, 4096), (4, 4096), (16, 2048)])
def test_flash_attention_2(counted: Any, kv_heads: int, seen: float) -> None:
    shape = {"batch": 2, "heads": 16, "kv_heads": kv_heads, "q_len": 4096, "kv_len": 4096, "head_dim": 128}
    found = counted("attention:flash2", "h100-sxm", **shape, seen=seen, tile_n=128, warps=8)
    op = Attention(**shape, dtype="bf16", tile_m=128, tile_n=128, causal=seen < 4096, window=0)
    expected = tiled(op, "h100-sxm")
    exact = 1 if seen == 4096 else 2048 / op.seen_keys()
    assert found.sum("once_bytes") == work(op, "h100-sxm").compulsory.hbm
    assert found.sum("tensor") == pytest.approx(op.counts().tensor * exact)
    if seen == 4096:
        assert found.sum("l2_bytes") == expected.l2
        lse = 4 * 2 * 16 * 4096  # written from registers here, counted with the copies there
        assert found.sum("fill_bytes") + found.sum("smem_bytes") == expected.smem - lse


@pytest.mark.parametrize(("length", "heads", "kv_heads"), [(4096, 16, 16), (16384, 32, 8), (2048, 64, 64)])
def test_flash_attention_2_through_l2(counted: Any, length: int, heads: int, kv_heads: int) -> None:
    shape = {"batch": 4, "heads": heads, "kv_heads": kv_heads, "q_len": length, "kv_len": length, "head_dim": 128}
    found = counted("attention:flash3", "h100-sxm", **shape, tile_n=128)
    cached = Attention(**shape, dtype="bf16", tile_m=128, tile_n=128).cached(machine("h100-sxm"))
    assert found.sum("hbm_bytes") == pytest.approx(cached.hbm, rel=1e-6)


def test_the_backward_pass_of_flash_attention_2(counted: Any) -> None:
    """All but the row statistics, which the operator counts once and a block reads again with each block of queries."""
    shape = {"batch": 1, "heads": 16, "q_len": 4096, "kv_len": 4096, "head_dim": 128}
    found = counted("attention:flash2", "h100-sxm", **shape, backward=1)
    (op,) = Attention(**shape, dtype="bf16", tile_m=128, tile_n=128).backward()
    again = 4096 // 128 - 1
    assert sum(k.work.l2_bytes for k in found.kernels[1:]) - again * 2 * 16 * 4096 * 4 == tiled(op, "h100-sxm").l2
    passes = [p.hbm_bytes for p in op.passes()]
    assert [k.work.once_bytes for k in found.kernels[1:]] == passes


@pytest.mark.parametrize("splits", [2, 8])
def test_decoding_with_split_keys(counted: Any, splits: int) -> None:
    found = counted("attention:decode", "h100-sxm", splits=splits)
    op = Attention(batch=8, heads=32, kv_heads=8, q_len=1, kv_len=8192, head_dim=128, dtype="bf16", kv_splits=splits, tile_m=1, cache=True)
    assert found.sum("once_bytes") == work(op, "h100-sxm").compulsory.hbm
    assert found.sum("tensor") == op.counts().tensor
    assert found.extra_memory_bytes == op.passes()[1].reads[0].bytes


# --------------------------------------------------------------------------- softmax
@pytest.mark.parametrize("kind", ["naive", "safe", "online"])
@pytest.mark.parametrize(("rows", "cols"), [(16384, 4096), (64, 262144)])
def test_softmax(counted: Any, kind: str, rows: int, cols: int) -> None:
    found = counted(f"softmax:{kind}", "h200-sxm", rows=rows, cols=cols)
    op = Softmax(rows=rows, cols=cols, dtype="bf16", implementation=kind)
    assert found.sum("once_bytes") == work(op, "h200-sxm").compulsory.hbm
    assert found.sum("l2_bytes") == tiled(op, "h200-sxm").l2
    assert found.sum("hbm_bytes") == op.cached(machine("h200-sxm")).hbm
    assert found.sum("vector") == op.counts().vector
    assert found.sum("sfu") == op.counts().sfu


def test_accesses_of_long_rows_are_three_four_and_three(counted: Any) -> None:
    """Milakov and Gimelshein: 2 reads and 1 write, 3 and 1, 2 and 1."""
    element = 2 * 64 * 262144
    found = [counted(f"softmax:{k}", "h200-sxm", rows=64, cols=262144).sum("l2_bytes") / element for k in ("naive", "safe", "online")]
    assert found == [3, 4, 3]


# --------------------------------------------------------------------------- long convolution
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize(("dtype", "spectrum"), [("bf16", False), ("fp32", False), ("bf16", True)])
@pytest.mark.parametrize("n", [1024, 4096, 65536])
def test_a_convolution_by_real_transforms(counted: Any, n: int, dtype: str, spectrum: bool, gated: bool) -> None:
    """As torch runs it: the kernels of the operator, one by one."""
    shape = {"batch": 64, "n": n, "gated": int(gated), "spectrum": int(spectrum), "dtype": dtype}
    found = counted("fft_conv:cufft", "h200-sxm", hidden=768, **shape)
    op = FftConv(batch=64, channels=768, seq=n, padding="circular", gated=gated, spectrum=spectrum, dtype=dtype)
    assert sorted(k.work.once_bytes for k in found.kernels) == sorted(p.hbm_bytes for p in op.passes())
    assert found.sum("once_bytes") == work(op, "h200-sxm").compulsory.hbm
    assert found.sum("l2_bytes") == tiled(op, "h200-sxm").l2
    assert found.sum("vector") == op.counts().vector


def test_real_transforms_move_a_fifth_less_than_complex_ones(counted: Any) -> None:
    """At 64 x 768 x 4096 with gates 14.57 GB in twelve kernels against 17.74 GB in eight."""
    real, whole = (counted("fft_conv:cufft", "h200-sxm", gated=1, real=r) for r in (1, 0))
    assert (len(real.kernels), len(whole.kernels)) == (12, 8)
    assert real.sum("once_bytes") == pytest.approx(14.57e9, rel=1e-3)
    assert whole.sum("once_bytes") == pytest.approx(17.74e9, rel=1e-3)
