"""Attention: hand-worked numbers, properties, and counts by walking over the mask."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.attention import Attention
from roofline.ops.base import Machine, work_of


def attention(**changes: object) -> Attention:
    shape = {"batch": 2, "heads": 4, "q_len": 256, "kv_len": 256, "head_dim": 64, "dtype": "bf16", **changes}
    return Attention(**shape)  # type: ignore[arg-type]


S = 2 * 4 * 256 * 256
X = 2 * 4 * 256 * 64


def test_naive_forward_moves_four_score_matrices_and_four_operands() -> None:
    assert attention(implementation="naive").compulsory(None).hbm == 2 * (4 * S + 4 * X)


def test_naive_backward_moves_seven_and_eight() -> None:
    (backward,) = attention(implementation="naive").backward()
    assert backward.compulsory(None).hbm == 2 * (7 * S + 8 * X)


def test_mask_and_dropout_passes_add_two_and_two_and_a_half() -> None:
    op = attention(implementation="naive", mask=True, dropout=0.1)
    assert op.compulsory(None).hbm == 2 * (8.5 * S + 4 * X)
    assert op.backward()[0].compulsory(None).hbm == 2 * (9.5 * S + 8 * X)
    assert len(op.passes()) == 5


def test_flash_moves_its_operands_and_a_float_a_row() -> None:
    assert attention().compulsory(None).hbm == 2 * 4 * X + 4 * 2 * 4 * 256


def test_a_causal_mask_halves_flash_and_only_what_is_useful_of_naive() -> None:
    full, flash = attention(), attention(causal=True)
    naive = attention(causal=True, implementation="naive")
    assert flash.counts().tensor * 2 == full.counts().tensor
    assert naive.counts().tensor == full.counts().tensor
    assert naive.useful_flop() == flash.useful_flop()


def test_backward_is_five_products_with_recomputation_and_four_without() -> None:
    forward = attention().counts().tensor
    assert attention().backward()[0].counts().tensor == 2.5 * forward
    assert attention(implementation="naive").backward()[0].counts().tensor == 2 * forward


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 50))
def test_seen_keys_follow_a_walk_over_the_mask(q_len: int, before: int, window: int) -> None:
    """The convention leaves out half of the rising diagonal: half a key for each query that sees a rising number."""
    op = attention(q_len=q_len, kv_len=q_len + before, causal=True, window=window)
    reach = window or q_len + before
    seen = [min(before + i + 1, reach) for i in range(q_len)]
    rising = sum(before + i + 1 <= reach for i in range(q_len)) if q_len > 1 else 0
    assert op.seen_keys() * q_len == pytest.approx(sum(seen) - rising / 2)


def test_one_query_sees_everything_before_it() -> None:
    assert attention(q_len=1, kv_len=4096, causal=True).seen_keys() == 4096


def test_grouped_heads_share_keys_and_not_queries() -> None:
    grouped = attention(heads=8, kv_heads=2)
    full = attention(heads=8)
    assert grouped.counts().tensor == full.counts().tensor
    assert grouped.tensors()[1].bytes * 4 == full.tensors()[1].bytes


def test_decode_with_a_window_reads_only_the_window() -> None:
    op = attention(q_len=1, kv_len=8192, causal=True, window=1024, cache=True)
    k = op.tensors()[1]
    assert k.role == "cache"
    assert k.moved_bytes * 8 == k.bytes


def test_a_quantised_cache_moves_fewer_bytes_with_the_same_arithmetic() -> None:
    op, half = attention(q_len=1), attention(q_len=1, kv_dtype="fp8")
    assert op.counts() == half.counts()
    assert half.tensors()[1].bytes * 2 == op.tensors()[1].bytes


def test_split_keys_cost_a_second_kernel_and_fp32_partials(h200: Machine) -> None:
    op = replace(attention(q_len=1), kv_splits=4)
    assert len(op.passes()) == 2
    partial = 4 * 4 * (2 * 4) * (64 + 1)
    assert op.passes()[0].writes[0].bytes == partial


def test_first_generation_flash_moves_more_with_less_sram(h200: Machine) -> None:
    small, large = (attention(implementation="flash1", kv_len=4096, sram=s).tiled(h200).hbm for s in (32 * 1024, 128 * 1024))
    assert small > 2 * large


def test_io_falls_as_the_sram_grows_whatever_the_shape(h200: Machine) -> None:
    moved = [attention(q_len=4096, kv_len=4096, sram=kib * 1024).tiled(h200).hbm for kib in (64, 128, 256, 512, 1024)]
    assert moved == sorted(moved, reverse=True)


@given(st.integers(1, 3), st.sampled_from([1, 2, 4]), st.integers(1, 600), st.integers(1, 600), st.booleans())
def test_traffic_is_ordered(batch: int, group: int, q_len: int, kv_len: int, causal: bool) -> None:
    machine = Machine(132, 227 * 1024, 50 * 2**20, frozenset({"bf16"}))
    op = attention(batch=batch, heads=4, kv_heads=4 // group, q_len=q_len, kv_len=kv_len, causal=causal)
    for part in (op, *op.backward()):
        work = work_of(part, machine)
        assert work.tiled is not None
        assert work.cached is not None
        assert work.compulsory.hbm <= work.cached.hbm <= work.tiled.hbm


def test_contradictions_are_named() -> None:
    assert "multiple" in str(attention(heads=6, kv_heads=4).check())
    assert "causal" in str(attention(window=8).check())
    assert "flash" in str(attention(implementation="naive", kv_splits=2).check())


def test_training_memory_grows_with_the_square_only_when_materialised() -> None:
    naive, flash = attention(implementation="naive"), attention()
    assert naive.training_peak_bytes() == 4 * 2 * S + 10 * 2 * X
    assert flash.training_peak_bytes() == 13 * 2 * X + 8 * 2 * 4 * 256
