"""Kernels that stream memory, and transfers over links: times worked by hand, and what holds for all of them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.errors import RooflineError
from roofline.ops.launched import Stream, Transfer
from roofline.predict.estimate.base import Device
from roofline.predict.estimate.paths import NUMBER_OF_PATHS, PATHS
from roofline.predict.estimate.stream import MOST_PATHS, StreamModel
from roofline.predict.estimate.stream_beliefs import BELIEFS, RELATIVES
from roofline.predict.estimate.transfer import TransferModel

MODEL = StreamModel()
DEVICE = Device(
    name="round",
    architecture="none",
    processors=100,
    clock_hz=1e9,
    smem_bytes=2e5,
    l2_bytes=1e8,
    hbm_bytes_per_s=1e12,
    matrix_flop_per_s={"bf16": 1e15, "fp32": 2.56e13, "fp64": 1.28e13},
    vector_flop_per_s={"fp32": 2.56e13, "fp64": 1.28e13},
    sfu_per_s=1.6e12,
    link_bytes_per_s={"pcie": 1e11},
)
STARTS = {p.name: p.start for p in MODEL.parameters}
PLAIN = {
    **{name: value for name, value in STARTS.items() if "share" in name},
    **dict.fromkeys((n for n in STARTS if n.startswith(("hbm_share", "block_lanes"))), 1.0),
    **dict.fromkeys((n for n in STARTS if n.startswith(("row_clocks", "element_clocks", "fill_s", "flop", "sfu"))), 0.0),
    **dict.fromkeys((n for n in STARTS if n.startswith("block_share")), 1e12),
    **dict.fromkeys(("tail", "remainder", "kept_gain", "warm_gain"), 0.0),
    "fixed_s": 1e-6,
    "fill_bytes": 1.0,
    "overlap": 1.0,
}
"""Nothing costs anything but bytes, at the full bandwidth, after 1 us."""
KINDS = ("elementwise", "softmax", "layernorm", "reduction", "transpose", "adamw", "nll_mean", "copy", "cross_entropy", "unheard_of")


def kernel(kind: str = "elementwise", rows: Any = 1, cols: Any = 2**20, **rest: Any) -> Stream:
    """2 bytes an element read and as many written, unless given."""
    moved = {"read_bytes": 2 * rows * cols, "write_bytes": 2 * rows * cols}
    return Stream(kind=kind, rows=rows, cols=cols, dtype="bf16", **{**moved, **rest})


def time_of(k: Stream, **changed: float) -> float:
    """Seconds with plain parameters but for those given."""
    return float(MODEL.terms(k, DEVICE, {**PLAIN, **changed}).time_s)


class TestByHand:
    def test_bytes_over_bandwidth(self) -> None:
        """2 MiB read, 2 MiB written at 1 TB/s after 1 us; at half the bandwidth twice as long."""
        assert time_of(kernel()) == pytest.approx(1e-6 + 2**22 / 1e12)
        assert time_of(kernel(), hbm_share=0.5) == pytest.approx(1e-6 + 2 * 2**22 / 1e12)

    def test_instructions_over_lanes(self) -> None:
        """2^20 elements of 10 + 5 x 2 + 1 x 30 instructions over 128 x 100 lanes at 1 GHz, and no bytes."""
        k = kernel(read_bytes=0, write_bytes=0, flop=5 * 2**20, sfu=2**20)
        assert time_of(k, element_clocks=10, flop_clocks=2, sfu_clocks=30, block_lanes=1e9) == pytest.approx(1e-6 + 50 * 2**20 / 1.28e13)

    def test_fp64_arithmetic_takes_twice_as_long_here(self) -> None:
        k = kernel(read_bytes=0, write_bytes=0, flop=2**20)
        once = time_of(k, flop_clocks=2, block_lanes=1e9) - 1e-6
        assert time_of(replace(k, dtype="fp64"), flop_clocks=2, block_lanes=1e9) - 1e-6 == pytest.approx(2 * once)

    def test_formats_of_four_bytes_need_no_conversion(self) -> None:
        k = kernel(read_bytes=0, write_bytes=0)
        given = {"element_clocks": 10.0, "word_share": 0.5, "block_lanes": 1e9}
        assert time_of(replace(k, dtype="fp32"), **given) - 1e-6 == pytest.approx((time_of(k, **given) - 1e-6) / 2)

    def test_matrix_flop_over_the_matrix_rate(self) -> None:
        """1e10 FLOP at half of 1e15 FLOP/s."""
        assert time_of(kernel(read_bytes=0, write_bytes=0, tensor_flop=1e10), matrix_share=0.5, block_lanes=1e9) == pytest.approx(21e-6)

    def test_ties_meet_as_roots(self) -> None:
        """4 us of bytes and 4 us of instructions: sqrt(2) without overlap, the fourth root of 2 with."""
        k = kernel(cols=2**20, read_bytes=4e6, write_bytes=0)
        given = {"element_clocks": 4e-6 * 1.28e13 / 2**20, "block_lanes": 1e9}
        assert time_of(k, overlap=0, **given) == pytest.approx(1e-6 + 4e-6 * 2**0.5)
        assert time_of(k, overlap=1, **given) == pytest.approx(1e-6 + 4e-6 * 2**0.25)

    def test_fill_saturates(self) -> None:
        """Half of it shows when as many bytes move as the parameter says, all of it far beyond."""
        moving = 2**22 / 1e12
        assert time_of(kernel(), fill_s=2e-6, fill_bytes=2**22) - moving == pytest.approx(2e-6)
        assert time_of(kernel(), fill_s=2e-6, fill_bytes=1.0) - moving == pytest.approx(3e-6)

    def test_rows_cost_clocks(self) -> None:
        """1000 rows of 500 clocks over 100 processors at 1 GHz: 5 us."""
        k = kernel("layernorm", rows=1000, cols=512)
        assert time_of(k, row_clocks=500) == pytest.approx(time_of(k) + 5e-6)

    def test_few_rows_take_as_long_as_one_block(self) -> None:
        """4 rows of 1 MB, each by a block that moves a tenth of a processor's 10 GB/s: 1 ms, however many there are."""
        for rows in (1, 4):
            k = kernel("layernorm", rows=rows, cols=2**18, read_bytes=rows * 1e6, write_bytes=0)
            assert time_of(k, block_share=0.1) == pytest.approx(1e-6 + 1e-3, rel=1e-3)

    def test_a_block_with_a_remainder_takes_longer(self) -> None:
        """1025 elements, 4100 B in one block at a processor's bandwidth of 10 GB/s: 0.41 us, twice that with the remainder."""
        assert time_of(kernel(cols=1025), block_share=1.0, remainder=1.0) == pytest.approx(1e-6 + 0.82e-6, rel=1e-3)
        assert time_of(kernel(cols=1024), block_share=1.0, remainder=1.0) == pytest.approx(1e-6 + 0.4096e-6, rel=1e-3)

    def test_a_partial_wave_counts_as_a_whole_one(self) -> None:
        """Norms have 16 rows on each of 100 processors: 2400 rows are 1.5 waves and take 2, as 3200 do."""
        waves = [time_of(kernel("layernorm", rows=rows, cols=1024), tail=1.0, l2_share=1e9) - 1e-6 for rows in (2400, 3200)]
        assert waves[0] == pytest.approx(waves[1])

    def test_a_single_block_takes_its_rows_in_turns(self) -> None:
        """65536 rows by 1024 threads are 64 turns of 1000 clocks; 1000 rows still 16, since fewer threads run."""
        for rows, turns in ((65536, 64), (1000, 16), (4, 4)):
            k = kernel("nll_mean", rows=rows, cols=1, read_bytes=0, write_bytes=0)
            assert time_of(k, row_clocks=1000) == pytest.approx(1e-6 + turns * 1e-6)

    def test_a_warp_pads_its_row(self) -> None:
        """640 columns are 0.6 x 640 + 0.4 x 1024 = 793.6 of arithmetic, a power of two is itself."""
        for cols, counted in ((640, 793.6), (512, 512), (100, 111.2)):
            k = kernel("softmax", rows=12800, cols=cols, read_bytes=0, write_bytes=0)
            assert time_of(k, element_clocks=10, block_lanes=1e9) == pytest.approx(1e-6 + 12800 * counted * 10 / 1.28e13)

    def test_blocks_that_share_a_row_meet(self) -> None:
        """2^20 elements are 512 pieces on 100 processors: 512/612 of 9000 clocks; 16 rows need no meeting."""
        alone = kernel("reduction", rows=1, cols=2**20, read_bytes=0, write_bytes=0)
        assert time_of(alone, row_clocks_3=9000) == pytest.approx(1e-6 + 512 / 612 * 9e-6)
        assert time_of(replace(alone, rows=16), row_clocks_3=9000) == pytest.approx(1e-6)

    def test_strided_elements_move_sectors(self) -> None:
        """2^20 elements cost 32 B each on top of their own 4."""
        assert time_of(kernel("transpose", rows=1024, cols=1024)) == pytest.approx(1e-6 + 36 * 2**20 / 1e12)

    def test_fresh_bytes_come_from_l2(self) -> None:
        """Of 2 MB just written, a fifteenth of where half is lost, all come from L2; of 16 x that less than a hundred-thousandth."""
        k = kernel(read_bytes=2e6, write_bytes=0, fresh_bytes=2e6)
        assert time_of(k, fresh_share=0.3) == pytest.approx(1e-6, rel=1e-3)
        big = kernel(read_bytes=1.6e9, write_bytes=0, fresh_bytes=1.6e9)
        assert time_of(big, fresh_share=0.3) == pytest.approx(1e-6 + 1.6e9 / 1e12, rel=1e-3)

    def test_small_kernels_keep_bytes_in_l2(self) -> None:
        """4 MiB of the 80 MB up to which half is kept: with a gain of 0.25 nearly a quarter does not wait."""
        assert time_of(kernel(), kept_gain=0.25, kept_share=0.8) == pytest.approx(1e-6 + 0.75 * 2**22 / 1e12, rel=1e-3)

    def test_long_rows_are_read_again(self) -> None:
        """200 rows of 1 MB in flight do not fit in 100 MB: two more sweeps; rows of 8 KB do."""
        long = kernel("softmax", rows=200, cols=2**19)
        assert time_of(long, l2_share=0.1) == pytest.approx(1e-6 + 2 * long.read_bytes * 2 / 1e12, rel=1e-3)
        back = kernel("log_softmax_backward", rows=200, cols=2**18, read_bytes=400 * 2**20)
        assert time_of(back, l2_share=0.1) == pytest.approx(1e-6 + (1.5 * back.read_bytes + back.write_bytes) / 1e12, rel=1e-3)
        half = 2 * 100 * 2**20 / 1e8  # what the 200 rows in flight hold, as a share of L2
        assert time_of(long, l2_share=half) == pytest.approx(1e-6 + 1.5 * long.read_bytes * 2 / 1e12, rel=1e-3)
        short = kernel("layernorm", rows=1600, cols=128)
        assert time_of(short, l2_share=0.7) == pytest.approx(1e-6 + 2 * short.read_bytes / 1e12, rel=1e-3)


class TestPaths:
    @pytest.mark.parametrize(
        ("kind", "rows", "cols", "number"),
        [
            ("softmax", 64, 1024, 1),
            ("softmax", 64, 1025, 2),
            ("softmax", 64, 2049, 3),
            ("softmax", 64, 8192, 4),
            ("softmax", 64, 16384, 5),
            ("softmax", 64, 32768, 6),
            ("softmax", 64, 50257, 7),
            ("reduction", 64, 8160, 1),
            ("reduction", 64, 8161, 2),
            ("reduction", 1, 2**24, 3),
            ("layernorm", 64, 1024, 1),
            ("rmsnorm", 64, 1022, 2),
            ("copy", 1, 2**20, 1),
            ("copy", 1, 2**20 + 1, 2),
            ("copy", 1, 2**28, 2),
        ],
    )
    def test_width_and_alignment_choose_the_parameters(self, kind: str, rows: int, cols: int, number: int) -> None:
        """The share of that path, and no other, halves the bandwidth; arrays choose for each element."""
        k = kernel(kind, rows=rows, cols=cols)
        for path in range(1, 8):
            name = "hbm_share" if path == 1 else f"hbm_share_{path}"
            slower = time_of(k, l2_share=1e9, **{name: 0.25}) > 2 * time_of(k, l2_share=1e9) - 1e-6
            assert slower == (path == number)
        both = kernel(kind, rows=np.array([rows, 64.0]), cols=np.array([cols, 512.0]))
        p = {**PLAIN, **{f"hbm_share_{n}": 1 / n for n in range(2, 8)}}
        assert MODEL.terms(both, DEVICE, p).time_s[0] == MODEL.terms(k, DEVICE, p).time_s


class TestSets:
    def test_own_sort_first_then_its_relative_then_any(self) -> None:
        assert MODEL.sets(kernel("softmax"), "torch") == ("stream.softmax.torch.any", "stream.any.torch.any")
        assert MODEL.sets(kernel("log_softmax"), "engine") == (
            "stream.log_softmax.engine.any",
            "stream.log_softmax.torch.any",
            "stream.softmax.engine.any",
            "stream.softmax.torch.any",
            "stream.any.engine.any",
            "stream.any.torch.any",
        )

    def test_formats_share_a_set(self) -> None:
        assert MODEL.sets(replace(kernel("softmax"), dtype="fp32"), "torch") == MODEL.sets(kernel("softmax"), "torch")

    def test_a_set_has_the_paths_of_its_sort_begun_from_its_beliefs(self) -> None:
        """Two paths of rmsnorm, the second of which reduces rows in 2200 clocks; all seven for any sort, none of them believed."""
        found = {p.name: p for p in MODEL.parameters_of("stream.rmsnorm.torch.any")}
        assert {"hbm_share", "hbm_share_2"} == {name for name in found if name.startswith("hbm_share")}
        assert (found["row_clocks"].start, found["row_clocks_2"].start) == (120.0, 2200.0)
        one = [p.name for p in MODEL.parameters_of("stream.unheard_of.torch.any")]
        assert [p.name for p in MODEL.parameters][: len(one)] == one
        assert len(found) == len(one) + 5
        assert MODEL.parameters_of("stream.any.engine.any") == MODEL.parameters


class TestBeliefs:
    @pytest.mark.parametrize("kind", BELIEFS)
    def test_beliefs_are_of_declared_parameters_and_within_their_ranges(self, kind: str) -> None:
        """What a sort does not declare would be dropped without a word."""
        known = {p.name: p for p in MODEL.parameters_of(f"stream.{kind}.torch.any")}
        assert BELIEFS[kind].keys() <= known.keys()
        for name, start in BELIEFS[kind].items():
            assert known[name].low < start < known[name].high
            assert known[name].start == start

    @pytest.mark.parametrize(("kind", "relative"), sorted(RELATIVES.items()))
    def test_a_relative_has_the_paths_that_the_sort_may_take(self, kind: str, relative: str) -> None:
        """Its set serves the sort, and each path asks for parameters of its own."""
        assert NUMBER_OF_PATHS.get(relative, 1) >= NUMBER_OF_PATHS.get(kind, 1)
        assert kind != relative
        served = {p.name: p.start for p in MODEL.parameters_of(f"stream.{relative}.torch.any")}
        for cols in (1, 64, 1025, 4096, 8192, 50257, 2**20):
            assert MODEL.terms(kernel(kind, rows=64, cols=cols), DEVICE, served).time_s > 0

    def test_the_number_of_paths_is_that_of_the_conditions(self) -> None:
        counted = {kind: 1 + len(paths(kernel(kind, rows=4, cols=4096))) for kind, paths in PATHS.items()}
        assert counted == NUMBER_OF_PATHS
        assert max(counted.values()) == MOST_PATHS


SIZES = st.integers(1, 2**18)


@given(kind=st.sampled_from(KINDS), rows=SIZES, cols=SIZES, sfu=st.integers(0, 8), dtype=st.sampled_from(("bf16", "fp32", "fp64")))
def test_an_array_gives_the_same_bits(kind: str, rows: int, cols: int, sfu: int, dtype: str) -> None:
    one = replace(kernel(kind, rows=rows, cols=cols), dtype=dtype, flop=3 * rows * cols, sfu=sfu * rows * cols, fresh_bytes=2 * rows)
    names = [f.name for f in fields(one) if isinstance(getattr(one, f.name), int) and f.name != "calls"]
    many = replace(one, **{name: np.array([1.0, float(getattr(one, name))]) for name in names})
    scalar, array = (MODEL.terms(k, DEVICE, STARTS) for k in (one, many))
    assert scalar.time_s == array.time_s[1]
    assert scalar.regime() == array.regime()[1]


@given(
    kind=st.sampled_from(KINDS), rows=st.sampled_from((1, 7, 2**40)), cols=st.sampled_from((1, 2**12, 2**40)), e=st.sampled_from((0, 2, 8))
)
def test_times_are_finite_and_positive(kind: str, rows: int, cols: int, e: int) -> None:
    k = kernel(kind, rows=rows, cols=cols, read_bytes=e * rows * cols, write_bytes=e * rows * cols, flop=rows * cols)
    for p in (STARTS, {q.name: q.low for q in MODEL.parameters}, {q.name: q.high for q in MODEL.parameters}):
        terms = MODEL.terms(k, DEVICE, p)
        assert 0 < terms.time_s < float("inf")
        assert all(part >= 0 for part in terms.parts.values())


@given(kind=st.sampled_from([k for k in KINDS if k != "copy"]), rows=SIZES, cols=SIZES, less=st.floats(0, 1))
def test_more_bytes_never_take_less_time(kind: str, rows: int, cols: int, less: float) -> None:
    """Of the same shape; a copy, whose bytes choose its kernel, may."""
    whole = kernel(kind, rows=rows, cols=cols)
    part = replace(whole, write_bytes=less * whole.write_bytes)
    assert MODEL.terms(part, DEVICE, STARTS).time_s <= MODEL.terms(whole, DEVICE, STARTS).time_s * (1 + 1e-12)


LINK = {"fixed_s": 4e-6, "rank_s": 5e-7, "ramp_s": 2e-6, "half_bytes": 1e6, "link_share": 0.5}


class TestTransfer:
    def test_by_hand(self) -> None:
        """4 us, 8 ranks of 0.5 us, half of the ramp's 2 us at 1 MB, and 1 MB at half of 100 GB/s: 29 us."""
        terms = TransferModel().terms(Transfer(link="pcie", bytes=1e6, ranks=8), DEVICE, LINK)
        assert terms.time_s == pytest.approx(4e-6 + 4e-6 + 1e-6 + 20e-6)
        assert terms.parts == {"fixed": pytest.approx(9e-6), "memory": pytest.approx(20e-6), "compute": 0.0}

    def test_ranks_crowd_the_host_by_hand(self) -> None:
        """8 ranks are 4 times as many as fill it: squared, 20 us become 320 us. Two crowd nobody, and no other link has a host."""
        crowded = {**LINK, "crowding": 2.0}
        for ranks, moving in ((1, 20e-6), (2, 20e-6), (8, 320e-6)):
            terms = TransferModel().terms(Transfer(link="pcie", bytes=1e6, ranks=ranks, kind="all_reduce"), DEVICE, crowded)
            assert terms.parts["memory"] == pytest.approx(moving)
        extra = {
            name: len(TransferModel().parameters_of(name)) - len(LINK)
            for name in ("transfer.all_reduce.pcie.any", "transfer.copy.pcie.any")
        }
        assert extra == {"transfer.all_reduce.pcie.any": 1, "transfer.copy.pcie.any": 0}
        assert len(TransferModel().parameters_of("transfer.all_reduce.nvlink.any")) == len(LINK)

    def test_a_missing_link_is_named(self) -> None:
        with pytest.raises(RooflineError, match=r"round states no bandwidth of link 'pci'; did you mean 'pcie'\?"):
            TransferModel().terms(Transfer(link="pci", bytes=1), DEVICE, LINK)

    def test_sets_by_sort_and_link(self) -> None:
        kernel = Transfer(link="nvlink", bytes=1, kind="all_reduce", ranks=8)
        assert TransferModel().sets(kernel, "engine") == (
            "transfer.all_reduce.nvlink.any",
            "transfer.any.nvlink.any",
            "transfer.any.any.any",
        )

    @given(sent=st.integers(0, 2**44), ranks=st.integers(1, 1024))
    def test_an_array_gives_the_same_bits_and_more_takes_longer(self, sent: int, ranks: int) -> None:
        model = TransferModel()
        sizes = np.array([float(sent), sent + 1024.0])
        for p in (LINK, {**LINK, "crowding": 1.7}):
            one = model.terms(Transfer(link="pcie", bytes=sent, ranks=ranks), DEVICE, p).time_s
            many = model.terms(Transfer(link="pcie", bytes=sizes, ranks=np.array([ranks, ranks], dtype=float)), DEVICE, p).time_s
            assert 0 < one == many[0] <= many[1]
