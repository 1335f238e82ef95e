"""Matrix products: hand-worked numbers, properties, and an independent walk over the tiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.base import Machine, work_of
from roofline.ops.gemm import BatchedGemm, Gemm, tile_bytes

dims = st.integers(1, 5000)


def test_a_decode_product_moves_its_weights_and_little_else(h200: Machine) -> None:
    """1 x 28672 x 8192 in bf16: 2 m n k = 469,762,048 FLOP; 2 (k + k n + n) = 469,835,776 B."""
    work = work_of(Gemm(m=1, n=28672, k=8192, dtype="bf16"), h200)
    assert work.counts.tensor == 469_762_048
    assert work.compulsory.hbm == 469_835_776


def test_fused_bias_and_activation_add_vector_work_and_a_row_of_bytes() -> None:
    plain = Gemm(m=64, n=32, k=16, dtype="bf16")
    fused = Gemm(m=64, n=32, k=16, dtype="bf16", bias=True, activation="relu")
    assert fused.counts().tensor == plain.counts().tensor
    assert fused.counts().vector == 2 * 64 * 32
    assert fused.compulsory(None).hbm - plain.compulsory(None).hbm == 2 * 32


def test_adding_to_c_reads_it() -> None:
    plain = Gemm(m=64, n=32, k=16, dtype="bf16").compulsory(None).hbm
    assert Gemm(m=64, n=32, k=16, dtype="bf16", accumulate=True).compulsory(None).hbm == plain + 2 * 64 * 32


def test_four_bit_weights_with_scales_move_a_quarter_and_a_little() -> None:
    """k n / 2 bytes of weights and a 2-byte scale for each 128 of k in each column."""
    weights = Gemm(m=1, n=256, k=1024, dtype="bf16", weight_dtype="int4", group_size=128).tensors()[1]
    assert weights.bytes == 1024 * 256 // 2 + 2 * 256 * 8


def test_fp8_products_write_bf16() -> None:
    assert Gemm(m=8, n=8, k=8, dtype="fp8").tensors()[-1].dtype == "bf16"


def test_the_backward_pass_is_two_products_of_the_same_size() -> None:
    op = Gemm(m=128, n=512, k=256, dtype="bf16", bias=True, activation="gelu")
    data, weights = op.backward()
    assert data.counts().tensor == weights.counts().tensor == op.counts().tensor
    assert data.tensors()[-1].shape == (128, 256)
    assert weights.tensors()[-1].shape == (256, 512)


def test_re_reads_equal_a_walk_over_the_tiles(h200: Machine) -> None:
    op = Gemm(m=300, n=520, k=64, dtype="bf16", tile_m=128, tile_n=256)
    walked = 0
    for row in range(0, 300, 128):
        for column in range(0, 520, 256):
            walked += 2 * 64 * (min(128, 300 - row) + min(256, 520 - column))
    assert op.tiled(h200).l2 == walked + 2 * 300 * 520


@given(dims, dims, dims)
def test_traffic_is_ordered_and_doubles_with_the_batch(m: int, n: int, k: int) -> None:
    machine = Machine(132, 227 * 1024, 50 * 2**20, frozenset({"bf16"}))
    work = work_of(Gemm(m=m, n=n, k=k, dtype="bf16"), machine)
    assert work.tiled is not None
    assert work.cached is not None
    assert work.compulsory.hbm <= work.cached.hbm <= work.tiled.hbm
    batch = work_of(BatchedGemm(batch=2, m=m, n=n, k=k, dtype="bf16"), machine)
    assert batch.counts.tensor == 2 * work.counts.tensor
    assert batch.compulsory.hbm == 2 * work.compulsory.hbm


def test_vector_lanes_read_shared_memory_by_thread_tile() -> None:
    """fp32 4096^3 without matrix units: a 1 x 1 thread tile reads 8 B for each multiply-add, 8 x 8 reads 1 B."""
    machine = Machine(84, 99 * 1024, 6 * 2**20, frozenset())
    naive = Gemm(m=4096, n=4096, k=4096, dtype="fp32", tile_m=32, tile_n=32, thread_m=1, thread_n=1)
    tiled = Gemm(m=4096, n=4096, k=4096, dtype="fp32", tile_m=128, tile_n=128, thread_m=8, thread_n=8)
    fma = 4096**3
    assert naive.tiled(machine).smem - naive.tiled(machine).l2 == pytest.approx(8 * fma, rel=0.01)
    assert tiled.tiled(machine).smem - tiled.tiled(machine).l2 == pytest.approx(fma, rel=0.01)


def test_a_pipeline_stage_holds_both_tiles() -> None:
    assert tile_bytes(128, 256, 64, "bf16", stages=4) == (128 + 256) * 64 * 2 * 4
