"""What the shipped dataflows say of whole algorithms, beside published figures."""

from __future__ import annotations

import math
from typing import Any

import pytest

FIGURE_2 = {"batch": 64, "heads": 16, "q_len": 1024, "kv_len": 1024, "head_dim": 64, "backward": 1}
S, X = 64 * 16 * 1024 * 1024 * 2, 64 * 16 * 1024 * 64 * 2


# --------------------------------------------------------------------------- attention, figure 2 of FlashAttention
def test_naive_attention_moves_18_s_and_12_x(counted: Any) -> None:
    found = counted("attention:naive", "a100-sxm", **FIGURE_2, mask=1, dropout=1)
    assert found.sum("once_bytes") == found.sum("hbm_bytes") == 18 * S + 12 * X
    assert found.sum("tensor") == 824633720832


def test_flash_attention_moves_a_ninth_for_17_percent_more_flop(counted: Any) -> None:
    found = counted("attention:flash", "a100-sxm", **FIGURE_2)
    assert found.sum("hbm_bytes") == pytest.approx(4.4e9, rel=0.05)
    assert found.sum("tensor") == 962072674304
    assert found.bound_s < 7.3e-3  # measured


def test_bytes_of_flash_attention_fall_as_the_inverse_of_the_sram(counted: Any) -> None:
    """N^2 d^2 / M: halving the SRAM doubles what is read again."""
    again = {}
    for blocks in (64, 128, 256, 512):
        found = counted("attention:flash1", "h100-sxm", tile_n=blocks, tile_m=64)
        again[blocks] = found.sum("l2_bytes") + found.kernels[0].work.moved[2].once_bytes
    fixed = 16 * 4096 * 128 * 2 * 2 + 16 * 4096 * 8  # K, V and the statistics
    assert (again[64] - fixed) / (again[128] - fixed) == pytest.approx(2, rel=0.02)
    assert (again[256] - fixed) / (again[512] - fixed) == pytest.approx(2, rel=0.15)


def test_the_block_of_flash_attention_follows_from_the_sram(counted: Any) -> None:
    assert counted("attention:flash1", "a100-sxm", head_dim=64).names["tile_n"] == 163 * 1024 // (4 * 64 * 2)


# --------------------------------------------------------------------------- the ladder of products
LADDER = {"naive": 309.0, "coalesced": 1986.5, "smem": 2980.3, "tile1d": 8474.7, "tile2d": 15971.7, "vectorised": 18237.3, "warp": 21779.3}
"""GFLOP/s at 4096^3 in fp32 on an RTX A6000 (worklog of SGEMM_CUDA)."""


@pytest.mark.parametrize("rung", LADDER)
def test_no_rung_is_published_faster_than_its_bound(counted: Any, rung: str) -> None:
    rate = 2 * 4096**3 / LADDER[rung] / 1e9
    assert counted(f"gemm:{rung}", "rtx-a6000").bound_s < rate


def test_each_rung_needs_no_more_time_than_the_one_below(counted: Any) -> None:
    """Shared memory comes after coalescing in the worklog, but through L1 it moves more bytes: there the gain is latency."""
    bounds = [counted(f"gemm:{rung}", "rtx-a6000").bound_s for rung in ("naive", "smem", "tile1d", "tile2d", "warp")]
    assert bounds == sorted(bounds, reverse=True)


def test_uncoalesced_sectors_cost_what_the_worklog_measured(counted: Any) -> None:
    """33 sectors a warp against 5: 6.6 times; measured 1986.5 / 309 = 6.4 times."""
    naive, coalesced = (counted(f"gemm:{rung}", "rtx-a6000").bound_s for rung in ("naive", "coalesced"))
    assert naive / coalesced == pytest.approx(1986.5 / 309, rel=0.05)


CLOCK_H200 = 1.98e9
"""At which the ladder of results/h200 ran."""


@pytest.mark.parametrize(("rung", "lines", "measured"), [("naive", 33, 271.26e-3), ("coalesced", 2, 15.849e-3)])
def test_l1_gives_a_line_a_cycle(counted: Any, rung: str, lines: int, measured: float) -> None:
    """The schedule counts lines where they take longer than bytes; on an H200 that is what was measured, within a tenth."""
    found = counted(f"gemm:{rung}", "h200-sxm", dtype="bf16")
    (kernel,) = found.kernels
    assert kernel.time.steps[-1].cycles["smem"] == lines * 32 * 32 / 32
    cycles = found.scheduled_s * 1.83e9
    assert cycles == pytest.approx(lines * 4096**3 / 32 / 132, rel=0.02)
    assert cycles / CLOCK_H200 == pytest.approx(measured, rel=0.1)
    assert found.sum("smem_bytes") == 32 * {33: 33, 2: 3}[lines] * 4096**3 / 32


def test_what_binds_moves_from_shared_memory_to_the_lanes(counted: Any) -> None:
    found = {rung: counted(f"gemm:{rung}", "rtx-a6000").kernels[0].time.steps[-1].cycles for rung in LADDER}
    first = {rung: max(c, key=lambda r: c[r]) for rung, c in found.items()}
    assert [first[r] for r in ("naive", "coalesced", "smem", "tile1d")] == ["smem"] * 4
    assert first["warp"] == "vector"
    assert found["tile2d"]["vector"] == pytest.approx(found["tile2d"]["smem"])


def test_shared_memory_bytes_an_fma(counted: Any) -> None:
    fma = 4096**3
    found = {rung: counted(f"gemm:{rung}", "rtx-a6000").sum("smem_bytes") / fma for rung in ("smem", "tile1d", "tile2d", "warp")}
    assert found == {"smem": 8, "tile1d": 4.5, "tile2d": 1, "warp": 0.75}


@pytest.mark.parametrize(("rung", "published"), [("tensor", 423e12), ("pipelined", 631e12), ("cluster", 734e12)])
def test_no_published_rate_on_an_h100_beats_the_schedule(counted: Any, rung: str, published: float) -> None:
    """Rates of fast.cu at 4096^3; the schedule is the least that these tiles take at published rates."""
    found = counted(f"gemm:{rung}", "h100-sxm")
    assert found.scheduled_s < 2 * 4096**3 / published
    assert found.bound_s <= found.scheduled_s <= found.no_overlap_s


# --------------------------------------------------------------------------- convolution
def test_the_cufft_path_of_the_paper_moves_76_bytes_an_element(counted: Any) -> None:
    """Complex transforms; torch's real ones are held against the operator (`test_operators_agree`)."""
    elements = 64 * 768 * 4096
    filter_bytes = 768 * 4096 * 8
    assert counted("fft_conv:cufft", "h100-sxm", real=0).sum("once_bytes") == 76 * elements + filter_bytes
    assert counted("fft_conv:cufft", "h100-sxm", real=0, gated=1).sum("once_bytes") == 88 * elements + filter_bytes


FACTORS = {256: (16, 16), 1024: (32, 32), 4096: (16, 16, 16), 8192: (32, 16, 16), 16384: (16, 32, 32), 32768: (32, 32, 32)}
PUBLISHED_MS = {256: 0.11, 1024: 0.29, 4096: 1.43, 8192: 3.58, 16384: 12.2, 32768: 26.3}


@pytest.mark.parametrize("n", FACTORS)
def test_flash_fft_conv_of_a_gated_real_sequence(counted: Any, n: int) -> None:
    """8 B H N sum N_i FLOP, 8 bytes an element and the filter; the published time lies above the bound."""
    factors = FACTORS[n]
    sizes = {f"n{i + 1}": f for i, f in enumerate(factors)}
    found = counted(f"fft_conv:order{len(factors)}", "h100-sxm", gated=1, **sizes)
    elements = 64 * 768 * n
    assert found.sum("tensor") == 8 * elements * sum(factors)
    matrices = sum(2 * f * f * 2 for f in factors)
    assert found.sum("once_bytes") == 8 * elements + 768 * n * 2 + matrices
    assert found.bound_s < PUBLISHED_MS[n] * 1e-3
    assert len(found.kernels) == 1


def test_an_outer_product_through_hbm_above_32k(counted: Any) -> None:
    found = counted("fft_conv:order4", "h100-sxm", gated=1)
    elements = 64 * 768 * 2**20
    assert found.sum("tensor") == 8 * elements * (32 * 4)
    assert found.sum("once_bytes") / elements == pytest.approx(16, rel=0.01)  # 8 of operands, 8 between the kernels
    assert found.bound_s < 1768.9e-3  # published


def test_real_packing_halves_the_products(counted: Any) -> None:
    real, full = (counted("fft_conv:order2", "h100-sxm", packed=p).sum("tensor") for p in (1, 0))
    assert full == 2 * real


@pytest.mark.parametrize("factors", [(64, 64), (128, 64), (32, 32, 16), (32, 32, 32)])
def test_our_kernel_of_pairs_multiplies_with_real_matrices(counted: Any, factors: tuple[int, ...]) -> None:
    """16 n sum(n_i) FLOP for two sequences, as one complex one."""
    found = counted(f"fft_conv:pairs{len(factors)}", "h200-sxm", gated=1, **{f"n{i}": n for i, n in enumerate(factors, 1)})
    assert found.sum("tensor") == 768 * 32 * 16 * math.prod(factors) * sum(factors)


def test_bytes_of_a_pair_of_sequences_by_order_3(counted: Any) -> None:
    """Of a pair of 16384 in units of its 64 KiB as complex numbers: two sequences, two gates each; a scratch written and read twice; the
    spectrum, the outer twiddles twice, and the inner ones in each of 8 steps, 4 KiB: half a unit."""
    unit, pairs = 65536, 32 * 768
    found = counted("fft_conv:pairs3", "h200-sxm", gated=1)
    assert found.sum("l2_bytes") == round(pairs * unit * (4 + 4 + 1 + 2 + 0.5))
    ahead = counted("fft_conv:pairs3", "h200-sxm", gated=1, stages=3)  # past L1: for each of 32 inner sequences
    assert ahead.sum("l2_bytes") == pairs * unit * (4 + 4 + 1 + 2 + 2)
    once = 4 * pairs * unit + 768 * unit + 2 * unit + 4096
    assert found.sum("once_bytes") == once  # 3 programs a processor keep 26 MB of scratch in L2
    assert counted("fft_conv:pairs3", "h200-sxm", gated=1, at_once=4).sum("once_bytes") == once + 2 * pairs * unit


# --------------------------------------------------------------------------- Monarch, norms
def test_a_monarch_matrix_needs_sqrt_n_over_2_fewer_products(counted: Any) -> None:
    for n in (1024, 4096):
        found = counted("monarch:order2", "h100-sxm", n=n).sum("tensor")
        assert found == 4 * n**1.5 * 8192
        assert 2 * n * n * 8192 / found == n**0.5 / 2
    assert counted("monarch:order3", "h100-sxm", n=4096).sum("tensor") == 6 * 4096 * 16 * 8192


def test_fusing_the_permutations_saves_three_quarters_of_the_bytes(counted: Any) -> None:
    vectors, weights = 2 * 8192 * 4096 * 2, 2 * 64 * 64 * 64 * 2
    assert counted("monarch:order2", "h100-sxm").sum("once_bytes") == vectors + weights
    assert counted("monarch:unfused", "h100-sxm").sum("once_bytes") == 4 * vectors + weights


@pytest.mark.parametrize(("rows", "n"), [(16384, 4096), (8192, 16384)])
def test_a_kernel_a_factor_moves_twice_the_bytes_and_has_room_at_any_width(counted: Any, rows: int, n: int) -> None:
    found = counted("monarch:factors", "h200-sxm", batch=rows, n=n)
    between, weights = rows * n * 2, round(2 * n**1.5 * 2)
    assert found.fits
    assert found.sum("tensor") == 4 * n**1.5 * rows
    assert found.sum("once_bytes") == found.sum("hbm_bytes") == 4 * between + weights
    assert found.extra_memory_bytes == between
    measured = {4096: 247.1e-6, 16384: 1118.39e-6}[n]
    assert found.bound_s <= found.scheduled_s < found.no_overlap_s < measured


def test_a_store_of_joined_results_touches_a_line_a_piece(counted: Any) -> None:
    """64 rows and 64 columns in pieces of 8 numbers, 16 bytes: 4096 lines where 512 would hold them, beside 2 x 512 lines of operands."""
    sizes = {"batch": 16384, "n": 4096, "tile_m": 64, "at_once": 10**6}
    found = counted("monarch:factors", "h200-sxm", joined=8, **sizes)
    assert found.kernels[0].time.block["smem"] == 4096 + 1024
    narrow = counted("monarch:factors", "h200-sxm", joined=1, **sizes)
    assert narrow.kernels[0].time.block["smem"] == 4096 + 128  # for an eighth of the blocks


def test_programs_that_keep_their_weights_read_them_once(counted: Any) -> None:
    """64 matrices of 8 KiB a factor: by each of 33 programs that share the rows, or by each of 1024 tiles of them."""
    kept, anew = (counted("monarch:factors", "h200-sxm", batch=16384, n=4096, at_once=n) for n in (1, 10**6))
    assert (kept.names["parts"], anew.names["parts"]) == (33, 1024)
    rows, weights = 16384 * 4096 * 2, 64**3 * 2
    assert kept.sum("l2_bytes") == 4 * rows + 2 * 33 * weights
    assert anew.sum("l2_bytes") == 4 * rows + 2 * 1024 * weights


def test_rows_in_parts_keep_what_lies_between_in_l2(counted: Any) -> None:
    """Two parts must fit in 50 MiB, since what streams by takes as much."""
    rows, n = 16384, 4096
    row_bytes, weights = n * 2, 2 * 64**3 * 2
    for part, held in ((2048, True), (3072, True), (3201, False), (rows, False)):
        found = counted("monarch:factors", "h200-sxm", batch=rows, n=n, part=part)
        assert found.sum("hbm_bytes") == found.sum("once_bytes") == (2 if held else 4) * rows * row_bytes + weights
        assert found.sum("kept_bytes") == (2 * rows * row_bytes if held else 0)
        assert found.sum("l2_bytes") == counted("monarch:factors", "h200-sxm", batch=rows, n=n).sum("l2_bytes")
        assert found.extra_memory_bytes == part * row_bytes
    few = counted("monarch:factors", "h200-sxm", batch=1024, n=n)
    assert few.sum("kept_bytes") == 2 * 1024 * row_bytes


def test_bytes_kept_in_l2_still_count_at_l2(counted: Any) -> None:
    """The rate of an A100's L2 is published, so that its time is counted: that of all bytes, kept or not."""
    kept, passed = (counted("monarch:factors", "a100-sxm", batch=8192, part=part).kernels[0].time.per_resource_s for part in (512, 8192))
    assert kept["hbm"] < passed["hbm"]
    assert kept["l2"] == passed["l2"] > 0


def test_a_monarch_mixer_layer_grows_less_than_with_the_square(counted: Any) -> None:
    short, long = (counted("monarch:m2", "h100-sxm", n1=s, n2=s).sum("tensor") for s in (32, 64))
    assert 4 < long / short < 8


def test_a_fused_norm_moves_four_elements_and_an_unfused_one_seven(counted: Any) -> None:
    element = 16384 * 4096 * 2
    assert counted("layernorm:fused", "h100-sxm").sum("once_bytes") / element == pytest.approx(4, rel=1e-3)
    assert counted("layernorm:unfused", "h100-sxm").sum("once_bytes") / element == pytest.approx(7, rel=1e-2)
