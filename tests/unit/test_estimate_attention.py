"""Fused attention: numbers worked by hand, properties of the three formulas, and the kernels that the operator launches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import RooflineError
from roofline.ops.attention import Attention
from roofline.ops.launched import FusedAttention, Launched, Product, Stream
from roofline.predict.estimate.attention import AttentionModel, phase_of
from roofline.predict.estimate.attention_prefill import seen_blocks
from roofline.predict.estimate.attention_tiles import FA2, FA3, TRTLLM, Kernels, by_width, parts, width_of
from roofline.predict.estimate.base import Device

MODEL = AttentionModel()
DIMS = ("batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "v_head_dim", "window")


def device(**changes: Any) -> Device:
    known = {
        "name": "d",
        "architecture": "hopper",
        "processors": 132.0,
        "clock_hz": 1.98e9,
        "smem_bytes": 232448.0,
        "l2_bytes": 52428800.0,
        "hbm_bytes_per_s": 4.8e12,
        "matrix_flop_per_s": {"bf16": 989.4e12, "fp8": 1978.9e12},
        "vector_flop_per_s": {"fp32": 66.9e12},
        "sfu_per_s": 3.9e12,
        "link_bytes_per_s": {},
    }
    return Device(**{**known, **changes})


def kernel(**changes: Any) -> FusedAttention:
    shape = {"batch": 2, "heads": 16, "kv_heads": 4, "q_len": 1024, "kv_len": 1024, "head_dim": 128, "v_head_dim": 128}
    return FusedAttention(**{**shape, "dtype": "bf16", "kv_dtype": "bf16", "causal": False, **changes})


def before_any_fit(one: FusedAttention) -> dict[str, float]:
    library = "engine" if one.implementation == "engine" else "torch"
    return {p.name: p.start for p in MODEL.parameters_of(MODEL.sets(one, library)[0])}


def seconds(one: FusedAttention, on: Device | None = None, **values: float) -> Any:
    return MODEL.terms(one, on or device(), {**before_any_fit(one), **values}).time_s


# --------------------------------------------------------------------------- worked by hand
def test_prefill_is_waves_of_tiles_beside_memory() -> None:
    """32 tiles of 128 packed rows, 8 steps each, on 10 processors: 3.2 waves, of which the idle share counts half."""
    step = 2 * 128 * 128 * 256
    on = device(processors=10.0, matrix_flop_per_s={"bf16": 10 * step / 1e-6}, hbm_bytes_per_s=4.194304e11)
    one = kernel(batch=1, heads=4, kv_heads=1, implementation="engine")
    terms = MODEL.terms(
        one,
        on,
        before_any_fit(one)
        | {"fixed_s": 5e-6, "tile_s": 1e-6, "row_s": 1e-8, "matrix_share": 0.5, "wave_share": 0.5, "exposed": 0.1}
        | {"query_share": 1.0, "key_share": 0.5, "narrow": 2.0, "narrow_half": 128.0},
    )
    tile = 1 + 1.28 + 8 * 2  # start, 128 rows of 10 ns, 8 steps of 1 us at half of the rate
    memory = (2 * 1024 * 1024 + 2 * 512 * 1024 / 0.5) / 4.194304e5  # keys twice as slow, being narrow, and again by their share
    assert terms.parts["compute"] == pytest.approx(3.6 * tile * 1e-6)
    assert terms.parts["memory"] == pytest.approx(memory * 1e-6) == pytest.approx(10e-6)
    assert terms.time_s == pytest.approx((5 + 3.6 * tile + 0.1 * memory) * 1e-6) == pytest.approx(71.808e-6)
    assert terms.regime() == "compute"


def test_decode_is_split_keys_beside_a_memory_half_warm() -> None:
    """8 tiles of 8 blocks on 16 processors: two parts of 4 blocks. As many bytes as the warm share of L2 are half there."""
    moved = 2 * 4 * 8 * 128 + 2 * 4 * 2 * 1000 * 128
    on = device(
        architecture="blackwell",
        processors=16.0,
        matrix_flop_per_s={"bf16": 2 * 8 * 64 * 8 * 128 * 128 / 0.5e-6},
        l2_bytes=moved / 0.5,
        hbm_bytes_per_s=moved / 10e-6,
    )
    one = kernel(batch=4, heads=8, kv_heads=2, q_len=1, kv_len=1000, head_dim=64, v_head_dim=64, implementation="engine")
    terms = MODEL.terms(
        one,
        on,
        before_any_fit(one)
        | {"fixed_s": 5e-6, "row_s": 1e-9, "combine_s": 1e-6, "part_s": 1e-7, "tile_s": 1e-6, "tile_s_64": 0.8, "head_s": 1e-8}
        | {"matrix_share": 0.5, "block_s": 1e-6, "heads_block": 0.4, "read_share": 0.75, "warm_share": 0.5, "warm_speed": 2.0}
        | {"exposed": 0.5, "wave_share": 1.0},
    )
    fixed = 5 + 32 * 0.001 + 1 + 2 * 0.1
    longest = 0.8 + 4 * 0.01 + 4 * 0.5 * 1.1  # blocks of half the width, a tenth longer with four heads
    assert terms.parts["fixed"] == pytest.approx(fixed * 1e-6)
    assert terms.parts["compute"] == pytest.approx(longest * 1e-6)
    assert terms.parts["memory"] == pytest.approx(10e-6)
    assert terms.time_s == pytest.approx((fixed + 10 + longest / 2) * 1e-6) == pytest.approx(17.752e-6)


def test_backward_is_five_products_a_step_and_fp32_gradients() -> None:
    """Two heads, 4 tiles of 128 keys each over 8 blocks of 64 queries; 8 tiles on 4 processors."""
    step = 2 * 64 * 128 * 5 * 128
    on = device(processors=4.0, matrix_flop_per_s={"bf16": 4 * step / 1e-6}, hbm_bytes_per_s=1e12)
    one = kernel(batch=1, heads=2, kv_heads=2, q_len=512, kv_len=512, direction="backward")
    terms = MODEL.terms(
        one,
        on,
        before_any_fit(one) | {"fixed_s": 9e-6, "tile_s": 1e-6, "matrix_share": 0.5, "tail": 0.0, "read_share": 0.5, "exposed": 1.0},
    )
    spread = (8 * 1 + 2 * 8 * 4 * 2) / 4  # 64 steps of 2 us and 8 starts, over 4 processors
    memory = (2 * 512 * (12 + 8) * 128 + 2 * 2 * 2 * 512 * 256) / 0.5e6
    assert terms.parts["compute"] == pytest.approx(spread * 1e-6)
    assert terms.parts["memory"] == pytest.approx(memory * 1e-6)
    assert terms.time_s == pytest.approx((9 + spread + memory) * 1e-6)


def parts_of(one: FusedAttention, on: Device | None = None, **values: float) -> Any:
    return MODEL.terms(one, on or device(), {**before_any_fit(one), **values}).parts


def test_parts_of_split_keys_are_written_read_and_combined() -> None:
    """One tile of 64 blocks on 132 processors: 32 parts of 2 blocks, 128 rows of 128 values in fp32 each."""
    one = kernel(batch=1, heads=1, kv_heads=1, q_len=128, kv_len=8192, implementation="engine")
    step = 2 * 128 * 128 * 256 * 132 / 989.4e12
    found = parts_of(one, fixed_s=5e-6, combine_s=1e-6, part_share=0.5, tile_s=1e-6, row_s=0.0, matrix_share=1.0, alone=0.5)
    assert found["fixed"] == pytest.approx(6e-6 + 2 * 4 * 32 * 128 * 128 / (0.5 * 4.8e12))
    assert found["compute"] == pytest.approx(1e-6 + 2 * step * 0.5)


def test_tiles_of_lengths_between_tiles_take_longer_up_to_width_128() -> None:
    for length, d, slower in ((1024, 128, False), (1000, 128, True), (1000, 256, False)):
        one = kernel(q_len=length, kv_len=length, head_dim=d, causal=True)
        assert (parts_of(one, ragged_s=1e-5)["compute"] > parts_of(one, ragged_s=1e-9)["compute"] * 1.01) is slower


@pytest.mark.parametrize(("batch", "fixed"), [(512, 8 + 1 + 32 * 0.1 + 512 * 0.02), (513, 8)])
def test_an_engine_combines_parts_and_splits_wide_heads_while_it_replays_a_graph(batch: int, fixed: float) -> None:
    one = kernel(batch=batch, heads=1, kv_heads=1, q_len=1, kv_len=64, head_dim=512, v_head_dim=512, implementation="engine")
    found = parts_of(one, fixed_s=8e-6, combine_s=1e-6, part_s=1e-7, sequence_s=2e-8, row_s=0.0)
    assert found["fixed"] == pytest.approx(fixed * 1e-6)


def test_keys_twice_the_warm_share_of_l2_are_hardly_there() -> None:
    one = kernel(q_len=1, batch=64)
    moved = 2 * 256 * 64 * (16 + 4 * 1024)
    found = parts_of(one, device(l2_bytes=moved / 2), read_share=1.0, warm_share=1.0, warm_speed=2.0)
    assert found["memory"] == pytest.approx(moved * (1 - 0.5 / 17) / 4.8e12)


@pytest.mark.parametrize(("batch", "kv_heads", "swapped"), [(2, 4, True), (1, 4, False), (2, 1, False), (2, 16, False)])
def test_heads_that_share_keys_are_brought_together_by_copies_on_ampere(batch: int, kv_heads: int, swapped: bool) -> None:
    one = kernel(batch=batch, kv_heads=kv_heads, q_len=1, kv_len=64, implementation="engine")
    found = parts_of(one, device(architecture="ampere"), fixed_s=5e-6, swap_s=6e-6, row_s=0.0)
    assert found["fixed"] == pytest.approx(11e-6 if swapped else 5e-6)


def test_gradients_of_shared_keys_are_written_for_each_head_and_added_up() -> None:
    alone, shared = (parts_of(kernel(kv_heads=n, direction="backward"), read_share=1.0)["memory"] for n in (16, 4))
    keys = 2 * 2 * 2 * 1024 * 256
    assert shared - alone == pytest.approx(keys * (4 + 16 - 16) / 4.8e12)


@pytest.mark.parametrize(("head_dim", "width"), [(8, 0), (64, 0), (65, 1), (128, 1), (129, 2), (192, 2), (193, 3), (256, 3), (257, 4)])
def test_head_dimensions_fall_into_five_widths(head_dim: int, width: int) -> None:
    assert width_of(head_dim) == width
    assert by_width(width_of(np.array([float(head_dim)])), (0, 1, 2, 3, 4)) == [width]


@given(st.integers(1, 12), st.integers(0, 6), st.sampled_from([16, 32, 64, 128]))
def test_blocks_seen_follow_a_walk_over_the_tiles(tiles: int, before: int, queries: int) -> None:
    """Tiles that divide a block of 128 keys, whole blocks of queries after whole blocks of cached keys."""
    length = tiles * 128
    one = kernel(q_len=length, kv_len=length + 128 * before, causal=True)
    walked = [math.ceil((128 * before + first + queries) / 128) for first in range(0, length, queries)]
    last, mean = seen_blocks(one, queries, 128)
    assert last == max(walked)
    assert mean == pytest.approx(sum(walked) / len(walked))


# --------------------------------------------------------------------------- properties
dims = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 300),
        "kv_heads": st.integers(1, 16),
        "group": st.sampled_from([1, 2, 3, 8]),
        "kv_len": st.integers(1, 40000),
        "head_dim": st.sampled_from([32, 64, 80, 128, 192, 256, 512]),
        "window": st.sampled_from([0, 0, 100, 5000]),
    }
)
kinds = st.tuples(
    st.sampled_from(["ampere", "hopper", "blackwell"]),
    st.sampled_from(["engine", "flash", "cudnn", "efficient"]),
    st.sampled_from(["forward", "backward"]),
)


def shaped(shape: dict[str, int], q_len: int, implementation: str, direction: str, causal: bool) -> FusedAttention:
    heads = shape["kv_heads"] * shape["group"]
    named = {n: shape[n] for n in ("batch", "kv_heads", "kv_len", "head_dim", "window")}
    return kernel(
        **named, heads=heads, q_len=q_len, v_head_dim=shape["head_dim"], implementation=implementation, direction=direction, causal=causal
    )


def stacked(kernels: list[FusedAttention]) -> FusedAttention:
    columns: dict[str, Any] = {name: np.array([float(getattr(k, name)) for k in kernels]) for name in DIMS}
    return replace(kernels[0], **columns)


@given(st.lists(dims, min_size=1, max_size=4), kinds, st.sampled_from([1, 2, 100, 128, 5000]), st.booleans())
def test_an_array_has_the_same_bits_as_its_elements(shapes: list[dict[str, int]], kind: Any, q_len: int, causal: bool) -> None:
    architecture, implementation, direction = kind
    on = device(architecture=architecture)
    kernels = [shaped(s, q_len, implementation, direction, causal) for s in shapes]
    p = before_any_fit(kernels[0])
    together = MODEL.terms(stacked(kernels), on, p)
    assert np.broadcast_to(together.time_s, len(kernels)).tolist() == [MODEL.terms(k, on, p).time_s for k in kernels]
    assert np.broadcast_to(together.regime(), len(kernels)).tolist() == [MODEL.terms(k, on, p).regime() for k in kernels]


@given(kinds, st.sampled_from([1, 3, 2**20]), st.sampled_from([1, 2**20]), st.sampled_from([1, 2**14]), st.sampled_from([8, 1024]))
def test_times_of_extreme_shapes_are_finite_and_not_below_the_fixed_cost(kind: Any, q: int, kv: int, batch: int, d: int) -> None:
    architecture, implementation, direction = kind
    one = kernel(batch=batch, q_len=q, kv_len=kv, head_dim=d, v_head_dim=d, implementation=implementation, direction=direction, causal=True)
    terms = MODEL.terms(one, device(architecture=architecture), before_any_fit(one))
    assert math.isfinite(terms.time_s)
    assert terms.time_s > terms.parts["fixed"] > 0
    assert min(terms.parts.values()) > 0


@given(dims, kinds, st.sampled_from([1, 1, 64, 1000]))
def test_twice_the_keys_take_longer_but_for_a_better_split(shape: dict[str, int], kind: Any, q_len: int) -> None:
    architecture, implementation, direction = kind
    on = device(architecture=architecture)
    short = shaped({**shape, "kv_len": max(shape["kv_len"], q_len), "window": 0}, q_len, implementation, direction, q_len > 1)
    longer = replace(short, kv_len=2 * short.kv_len)
    assert seconds(longer, on) > 0.75 * seconds(short, on)
    assert seconds(replace(short, kv_len=64 * short.kv_len), on) > seconds(short, on)


def test_a_causal_mask_a_window_and_a_narrow_cache_save_time() -> None:
    long = kernel(q_len=8192, kv_len=8192, implementation="engine")
    assert seconds(replace(long, causal=True)) < 0.6 * seconds(long)
    assert seconds(replace(long, causal=True, window=512)) < 0.4 * seconds(replace(long, causal=True))
    decode = kernel(q_len=1, kv_len=65536, batch=32, implementation="engine")
    assert seconds(replace(decode, kv_dtype="fp8")) < 0.65 * seconds(decode)


def test_a_chunk_of_a_long_prompt_lies_between_its_bare_length_and_the_whole() -> None:
    chunk = kernel(q_len=512, kv_len=8192, batch=4, causal=True, implementation="engine")
    assert seconds(replace(chunk, kv_len=512)) < seconds(chunk) < 0.3 * seconds(replace(chunk, q_len=8192))


def test_one_long_sequence_is_split_over_processors() -> None:
    one = kernel(batch=1, heads=8, kv_heads=1, q_len=1, kv_len=131072, implementation="engine")
    assert seconds(one) < 0.1 * seconds(one, device(processors=1.0))


def fewest_parts(tiles: int, blocks: int, slots: int, most: int) -> int:
    """The rule of FlashAttention 2, as its source walks over the numbers of parts."""
    if tiles >= 0.8 * slots:
        return 1
    shares = [tiles * n / slots for n in range(1, min(most, blocks) + 1)]
    busy = [share / math.ceil(share) for share in shares]
    return next(n for n, share in enumerate(busy, start=1) if share >= 0.85 * max(busy))


@given(st.integers(1, 300), st.integers(1, 200))
def test_parts_follow_the_rule_of_flash_attention_2(tiles: int, blocks: int) -> None:
    exact, found = fewest_parts(tiles, blocks, 264, 128), parts(tiles, blocks, FA2, 132)
    assert 1 <= found <= blocks
    if blocks <= 6 or exact == 1:
        assert found == exact
    filled, best = tiles * found / 264, tiles * exact / 264
    assert filled / math.ceil(filled) >= 0.85 * best / math.ceil(best)


@pytest.mark.parametrize("kernels", [FA3, TRTLLM])
def test_balanced_parts_give_each_processor_as_many_blocks(kernels: Kernels) -> None:
    """8 tiles of 64 blocks, a tenth more for imbalance, on 132 processors: 5 blocks each, so 13 parts of a tile."""
    assert parts(8, 64, kernels, 132) == 13
    assert parts(1, 10**6, kernels, 132) == 32
    assert parts(1000, 64, kernels, 132) == 1


# --------------------------------------------------------------------------- which parameters
def test_sets_name_the_phase_the_kernel_and_the_format() -> None:
    assert MODEL.sets(kernel(implementation="engine"), "engine")[:2] == ("attention.prefill.engine.bf16", "attention.prefill.engine.fp16")
    assert MODEL.sets(kernel(q_len=1), "torch")[0] == "attention.decode.torch.bf16"
    assert MODEL.sets(kernel(implementation="cudnn", dtype="fp16"), "torch")[0] == "attention.cudnn.torch.fp16"
    assert MODEL.sets(kernel(direction="backward", q_len=1), "torch")[0] == "attention.backward.torch.bf16"
    assert MODEL.sets(kernel(dtype="fp8", implementation="engine"), "engine")[:2] == (
        "attention.prefill.engine.fp8",
        "attention.prefill.engine.bf16",
    )


@pytest.mark.parametrize("implementation", ["flash", "efficient"])
def test_an_engine_serves_for_torch_only_at_the_end(implementation: str) -> None:
    sets = MODEL.sets(kernel(implementation=implementation), "torch")
    assert [".engine." in name for name in sets] == sorted(".engine." in name for name in sets)


def test_each_set_has_the_parameters_of_its_formula() -> None:
    known = {"prefill.engine": "narrow", "decode_cudnn.torch": "block_s", "backward.torch": "tail", "flash.torch": "alone"}
    for name, own in known.items():
        found = MODEL.parameters_of(f"attention.{name}.bf16")
        assert own in {p.name for p in found}
        assert len({p.name for p in found}) == len(found)
        assert all(p.low < p.start < p.high and p.spread > 0 and p.doc for p in found)


def test_lengths_of_one_and_of_many_queries_are_told_apart() -> None:
    lengths = np.array([1.0, 64.0])
    with pytest.raises(RooflineError, match="sweep q_len 1 apart"):
        phase_of(kernel(q_len=lengths))
    assert [phase_of(kernel(q_len=np.array([q, q]))) for q in (1.0, 2.0)] == ["decode", "prefill"]
    assert phase_of(kernel(q_len=lengths, direction="backward")) == "backward"


# --------------------------------------------------------------------------- kernels launched
def attention(**changes: object) -> Attention:
    shape = {"batch": 2, "heads": 4, "q_len": 256, "kv_len": 256, "head_dim": 64, "dtype": "bf16", **changes}
    return Attention(**shape)  # type: ignore[arg-type]


S, X = 2 * 4 * 256 * 256, 2 * 4 * 256 * 64


def moved(kernels: tuple[Launched, ...]) -> Any:
    return sum(k.read_bytes + k.write_bytes for k in kernels if isinstance(k, Product | Stream))


def names(kernels: tuple[Launched, ...]) -> list[str]:
    return [k.kind if isinstance(k, Product | Stream) else type(k).__name__ for k in kernels]


@pytest.mark.parametrize(("execution", "implementation"), [("engine", "engine"), ("eager", "efficient"), ("graph", "efficient")])
def test_fused_attention_is_one_kernel_and_an_engine_has_its_own(execution: str, implementation: str) -> None:
    (forward,) = attention(implementation="efficient", kv_splits=2).launched(execution)
    assert isinstance(forward, FusedAttention)
    assert (forward.implementation, forward.kv_heads, forward.v_head_dim, forward.kv_dtype) == (implementation, 4, 64, "bf16")
    (backward,) = attention(implementation="flash1", kv_heads=2).backward()[0].launched("eager")
    assert isinstance(backward, FusedAttention)
    assert (backward.implementation, backward.direction, backward.kv_heads) == ("flash", "backward", 2)


def test_naive_attention_is_its_products_and_sweeps() -> None:
    op = attention(implementation="naive", mask=True, scale_pass=True)
    kernels = op.launched("eager")
    assert names(kernels) == ["batched_gemm", "elementwise", "broadcast", "softmax", "batched_gemm"]
    assert moved(kernels) == op.compulsory(None).hbm == 2 * (8 * S + 4 * X)
    first, last = kernels[0], kernels[-1]
    assert isinstance(first, Product)
    assert isinstance(last, Product)
    assert ((first.m, first.n, first.k), (last.m, last.n, last.k), first.batch) == ((256, 256, 64), (256, 64, 256), 8)
    assert names(op.launched("compiled")) == ["batched_gemm", "fused", "batched_gemm"]
    assert moved(op.launched("compiled")) == 2 * (4 * S + 4 * X)


def test_naive_backward_is_four_products_and_the_softmax() -> None:
    (op,) = attention(implementation="naive", scale_pass=True).backward()
    assert names(op.launched("eager")) == ["batched_gemm"] * 2 + ["elementwise", "softmax_backward", "elementwise"] + ["batched_gemm"] * 2
    assert moved(op.launched("eager")) == 2 * (7 * S + 8 * X) + 2 * (3 + 2) * S
    assert moved(op.launched("compiled")) == op.compulsory(None).hbm == 2 * (7 * S + 8 * X)


def test_dropout_has_kernels_of_its_own() -> None:
    op = attention(implementation="naive", dropout=0.1)
    assert names(op.launched("eager"))[-2:] == ["dropout", "batched_gemm"]
    assert moved(op.launched("eager")) == op.compulsory(None).hbm
    assert names(op.backward()[0].launched("compiled"))[2] == "elementwise"


def test_plain_code_repeats_keys_that_heads_share() -> None:
    op, alone = attention(implementation="naive", kv_heads=2), attention(implementation="naive")
    kernels = op.launched("eager")
    copies = kernels[:2]
    assert names(copies) == ["broadcast", "broadcast"]
    assert moved(copies) == 2 * 2 * (X / 2 + X)
    assert moved(kernels[2:]) == moved(alone.launched("eager"))
    gradients = op.backward()[0].launched("eager")[-2:]
    assert [(k.read_bytes, k.write_bytes) for k in gradients if isinstance(k, Stream)] == [(2 * X, X)] * 2


@pytest.mark.parametrize(("head_dim", "kv_len", "aligned"), [(64, 256, True), (64, 257, False), (60, 256, False)])
def test_products_are_aligned_where_all_rows_are(head_dim: int, kv_len: int, aligned: bool) -> None:
    products = attention(implementation="naive", head_dim=head_dim, kv_len=kv_len).launched("eager")
    assert {bool(k.aligned) for k in products if isinstance(k, Product)} == {aligned}
