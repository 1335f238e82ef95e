"""Published tables of what one tile step needs on chip, from the shipped files."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofline.dataflow.account import KernelAccount

KIB = 1024


def main(found: Any) -> KernelAccount:
    """The kernel that multiplies."""
    return max(found.kernels, key=lambda k: k.work.tensor)


def step(found: Any) -> Any:
    """Its innermost step."""
    return main(found).time.steps[-1]


# --------------------------------------------------------------------------- FlashAttention 3
def test_fa3_forward_128x192_takes_224_kib_and_9_33_bytes_a_score(counted: Any) -> None:
    found = counted("attention:flash3", "h100-sxm", tile_n=192)
    assert main(found).room.smem_bytes == 224 * KIB
    assert main(found).room.fits
    assert step(found).cycles["smem"] * 128 / (128 * 192) == pytest.approx(28 / 3)


TILES = [
    # head_dim, warpgroups, tile_n, ahead, element dtype, KiB, accumulator registers
    (64, 3, 192, 0, "bf16", 120, 128),
    (96, 3, 144, 0, "bf16", 144, 120),
    (128, 2, 176, 1, "bf16", 208, 196),
    (128, 2, 128, 1, "bf16", 160, 160),
    (192, 2, 112, 1, "bf16", 216, 180),
    (256, 2, 80, 1, "bf16", 224, 188),
    (128, 2, 224, 1, "fp8", 128, 204),
]
"""The default tiles of FlashAttention 3 (hopper/tile_size.h) with what its own rules give for them."""


@pytest.mark.parametrize(("width", "groups", "tile_n", "ahead", "dtype", "kib", "registers"), TILES)
def test_the_default_tiles_of_fa3_fit_a_hopper(
    counted: Any, width: int, groups: int, tile_n: int, ahead: int, dtype: str, kib: int, registers: int
) -> None:
    found = counted("attention:flash3", "h100-sxm", head_dim=width, warpgroups=groups, tile_n=tile_n, ahead=ahead, dtype=dtype)
    room = main(found).room
    assert room.smem_bytes == kib * KIB
    assert room.accumulators_per_thread == registers
    assert room.fits


@pytest.mark.parametrize(("groups", "usable"), [(2, 216), (3, 128)])
def test_registers_that_accumulators_may_use_are_216_and_128(counted: Any, groups: int, usable: int) -> None:
    room = main(counted("attention:flash3", "h100-sxm", warpgroups=groups)).room
    assert room.register_limit - (room.registers_per_thread - room.accumulators_per_thread) == usable


def test_fa3_backward_80x128_takes_204_kib_208_registers_and_39_6_bytes_a_score(counted: Any) -> None:
    found = counted("attention:backward", "h100-sxm")
    room = main(found).room
    assert room.smem_bytes == 204 * KIB
    assert room.accumulators_per_thread == 208
    assert room.fits
    assert step(found).cycles["smem"] * 128 / (80 * 128) == pytest.approx(39.6)


def test_a_tile_wider_by_one_step_has_no_room(counted: Any) -> None:
    assert not counted("attention:flash3", "h100-sxm", tile_n=208).fits
    assert not counted("attention:backward", "h100-sxm", tile_m=96).fits


# --------------------------------------------------------------------------- FlashAttention 4
def test_fa4_forward_on_a_b200_ties_products_and_exponentials(counted: Any) -> None:
    cycles = step(counted("attention:flash4", "b200-sxm")).cycles
    assert (cycles["tensor"], cycles["sfu"], cycles["smem"]) == (1024, 1024, 768)


def test_fa4_backward_on_a_b200_binds_at_shared_memory(counted: Any) -> None:
    found = step(counted("attention:backward4", "b200-sxm"))
    assert (found.cycles["tensor"], found.cycles["sfu"], found.cycles["smem"]) == (2560, 1024, 3328)
    assert found.scheduled == 3328


def test_two_processors_that_share_right_operands_move_the_limit_to_the_products(counted: Any) -> None:
    found = step(counted("attention:backward4", "b200-sxm", pair=2))
    assert found.cycles["smem"] == 3328 - 5 * 128  # five of the eight operands are right ones, each 256 cycles
    assert found.scheduled == 3328 - 5 * 128


def test_a_quarter_of_the_exponentials_in_software_unties_them(counted: Any) -> None:
    cycles = step(counted("attention:flash4", "b200-sxm", software=0.25)).cycles
    assert cycles["sfu"] == 768
    assert cycles["vector"] < 1024


# --------------------------------------------------------------------------- overlap
def test_fa2_adds_its_exponentials_and_fa3_hides_them(counted: Any) -> None:
    """989 / 1.5 = 659 TFLOP/s at head dimension 128: exponentials take half the time of the products."""
    waits, hides = (step(counted(f"attention:{n}", "h100-sxm", tile_n=128)) for n in ("flash2", "flash3"))
    assert waits.cycles["tensor"] == hides.cycles["tensor"] == 2048
    assert waits.scheduled == 1.5 * hides.scheduled


def test_one_warpgroup_of_128x256_spills(counted: Any) -> None:
    """256 accumulators a thread: the spill that the worklog of fast.cu measured at a fifth of the rate."""
    one, two = (main(counted("gemm:pipelined", "h100-sxm", warpgroups=n)).room for n in (1, 2))
    assert one.accumulators_per_thread == 256
    assert not one.fits
    assert two.fits


def test_a_stage_alone_puts_copies_before_the_products(counted: Any) -> None:
    alone, ahead = (step(counted("gemm:tensor", "a100-sxm", stages=n)) for n in (1, 2))
    copies = max(alone.cycles["l2"], alone.cycles["hbm"])
    assert alone.scheduled == ahead.scheduled + copies


def test_a_cluster_divides_what_l2_serves_of_the_shared_operand(counted: Any) -> None:
    one, two = (counted("gemm:cluster", "h100-sxm", cluster_m=n).sum("l2_bytes") for n in (1, 2))
    operand_b = 4096 * 4096 * 2 * (4096 // 128)
    assert one - two == operand_b / 2


def test_blocks_in_groups_share_panels_of_their_height(counted: Any) -> None:
    """132 tiles of 128 x 256 at once, 8 down and all 16 across: A once, W by each of 32 / 8.25 waves, C once."""
    operand = 4096 * 4096 * 2
    found = counted("gemm:pipelined", "h200-sxm", group=8)
    assert found.sum("hbm_bytes") == pytest.approx(operand * (1 + 32 / 8.25 + 1), rel=1e-6)
    whole_columns = counted("gemm:pipelined", "h200-sxm", group=32)
    assert whole_columns.sum("hbm_bytes") == pytest.approx(operand * (16 / 4.125 + 1 + 1), rel=1e-6)
    assert found.sum("l2_bytes") == whole_columns.sum("l2_bytes")


@given(group=st.integers(1, 64), m=st.sampled_from([1024, 4096, 16384]), n=st.sampled_from([1024, 4096, 16384]))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_group_lets_fewer_bytes_through_than_each_tensor_once_or_more_than_all_visits(counted: Any, group: int, m: int, n: int) -> None:
    found = counted("gemm:pipelined", "h200-sxm", group=group, m=m, n=n)
    assert found.sum("once_bytes") <= found.sum("hbm_bytes") <= found.sum("l2_bytes")


def test_fill_drain_and_waves(counted: Any) -> None:
    """A second wave begins with one block more than the processors hold."""
    kernel = counted("gemm:pipelined", "h100-sxm", m=128 * 12, n=256 * 11, k=4096).kernels[0]
    assert (kernel.time.blocks, kernel.time.rounds, kernel.time.waves) == (132, 1, 1)
    more = counted("gemm:pipelined", "h100-sxm", m=128 * 7, n=256 * 19, k=4096).kernels[0]
    assert (more.time.blocks, more.time.rounds, more.time.waves) == (133, 2, 2)
    hbm = 3352e9 / 132 / 1.83e9
    assert kernel.time.fill_cycles == pytest.approx((128 + 256) * 64 * 2 / hbm)
    assert kernel.time.drain_cycles == pytest.approx(128 * 256 * 2 / hbm)
    assert kernel.time.scheduled_s == pytest.approx((64 * 1024 + (384 * 128 + 65536) / hbm) / 1.83e9)


def test_more_blocks_than_a_processor_holds_take_turns(counted: Any) -> None:
    """A block that waits for its exponentials leaves the matrix unit to the block beside it, of which there must be one."""
    alone = counted("attention:flash2", "h100-sxm", warps=8, tile_n=256).kernels[0]
    beside = counted("attention:flash2", "h100-sxm").kernels[0]
    assert (alone.room.occupancy, beside.room.occupancy) == (1, 2)
    waits = 512 * 128 * 4096 * 128 * 4 / 4096 * 1.5 / 132 / 1.83e9  # products and exponentials one after the other
    assert alone.time.scheduled_s > waits
    assert beside.time.scheduled_s < waits


def test_sums_of_blocks_in_flight_stay_in_l2_while_they_fit(counted: Any) -> None:
    """dQ of a head is 2 MiB in fp32: it reaches HBM once from 50 MiB of L2, and in every visit were it 1024 times as long."""

    def sums(length: int) -> Any:
        found = counted("attention:backward", "h100-sxm", q_len=length, kv_len=4096, heads=64)
        return next(m for m in found.kernels[1].work.moved if m.tensor == "dq_fp32")

    short, long = sums(4096), sums(4096 * 64)
    assert short.hbm_bytes == short.once_bytes < short.l2_bytes
    assert long.hbm_bytes == long.l2_bytes
