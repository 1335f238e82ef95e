"""Time of a matrix product: numbers worked by hand, properties over all dims, and the kernels that operators become."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.conv import Conv2d
from roofline.ops.gemm import BatchedGemm, Gemm
from roofline.ops.launched import EXECUTIONS, Product, Stream, alignment
from roofline.predict.estimate.base import Device
from roofline.predict.estimate.product import ProductModel

MODEL = ProductModel()
DEVICE = Device(
    name="round",
    architecture="none",
    processors=100,
    clock_hz=1e9,
    smem_bytes=2e5,
    l2_bytes=1e8,
    hbm_bytes_per_s=1e12,
    matrix_flop_per_s={"bf16": 1e14, "fp8": 2e14, "fp32": 1e12},
    vector_flop_per_s={"fp32": 1e12},
    sfu_per_s=1e11,
    link_bytes_per_s={},
)
"""100 processors of 1 TFLOP/s at 1 GHz, 1 TB/s, 100 MB of L2."""
BELIEVED = {q.name: q.start for q in MODEL.parameters}
ROUND = {
    **BELIEVED,
    "fixed_s": 2e-6,
    "read_share": 1.0,
    "write_share": 1.0,
    "matrix_share": 1.0,
    "power_share": 1.0,
    "balanced_edge": 2.0,
    "step_clocks": 1.0,
    "step_power": 1.0,
    "block_clocks": 1000.0,
    "store_bytes_per_clock": 16.0,
    "hidden_share": 0.0,
    "exposed_share": 0.5,
    "exposed_s": 3 * 23.3472e-6,
    "warm_a": 1e-9,
    "warm_b": 1e-9,
    "warm_c": 1e-9,
}

KINDS = ("gemm", "batched_gemm", "conv2d", "quantised_gemm")
dims = st.integers(1, 1_000_000)
numbers = st.tuples(dims, dims, dims)


def product(m: Any, n: Any, k: Any, kind: str = "gemm", batch: Any = 1, aligned: Any = True, dtype: str = "bf16") -> Product:
    """A product whose operands all lie in memory once."""
    e = 1 if dtype == "fp8" else 2
    read, write = e * batch * k * (m + n), 2 * batch * m * n
    return Product(kind=kind, batch=batch, m=m, n=n, k=k, dtype=dtype, read_bytes=read, write_bytes=write, aligned=aligned)


def seconds(kernel: Product, **changes: float) -> Any:
    return MODEL.terms(kernel, DEVICE, {**BELIEVED, **changes}).time_s


# --------------------------------------------------------------------------- numbers worked by hand
def test_one_wave_of_large_blocks_by_hand() -> None:
    """2560 x 2560 x 1000: 10 x 10 blocks of 256 x 256, one on each processor.

    A step: 2 x 256 x 256 / 1e12 = 131.072 ns, loads 512 x 2 / 1e12 = 1.024 ns, latency 1 ns: 133.096 us along k. Begin 1 us,
    storing 131,072 B at 16 GB/s 8.192 us: 142.288 us. Memory: 10.24 MB + 13.1072 MB at 1 TB/s = 23.3472 us, of which half is
    exposed, over root(1 + 1 / 3).
    """
    terms = MODEL.terms(product(2560, 2560, 1000), DEVICE, ROUND)
    assert terms.parts["compute"] == pytest.approx(142.288e-6, rel=1e-9)
    assert terms.parts["memory"] == pytest.approx(23.3472e-6, rel=1e-9)
    assert terms.parts["power"] == pytest.approx(131.072e-6, rel=1e-9)
    assert terms.time_s == pytest.approx(2e-6 + 142.288e-6 + 0.5 * 23.3472e-6 / math.sqrt(4 / 3), rel=1e-9)


def test_the_power_limit_holds_back_what_blocks_could_do() -> None:
    """At half of the rate 2 x 2560 x 2560 x 1000 FLOP take 262.144 us, more than the blocks."""
    terms = MODEL.terms(product(2560, 2560, 1000), DEVICE, {**ROUND, "power_share": 0.5})
    assert terms.parts["compute"] == terms.parts["power"] == pytest.approx(262.144e-6, rel=1e-9)


def test_a_lone_block_is_split_along_k_by_hand() -> None:
    """4 x 64 x 1,000,000: one block, a step of 2 x 4 x 64 / 1e12 + 68 x 2 / 1e12 + 1e-9 s = 1.648 ns, so 1648 us along k.

    Parts cost 10 ns and 8 B for each of 256 elements at 1 TB/s, 12.048 ns: root(1648 us / 12.048 ns) = 369.8 would be best, but
    100 run at once: 16.48 us, begin 1 us, store 512 B / 16 GB/s = 0.032 us, split 3 us, parts 1.2048 us: 21.7168 us.
    """
    one = {**ROUND, "split_s": 3e-6, "split_part_s": 1e-8, "partial_share": 1.0}
    terms = MODEL.terms(product(4, 64, 1_000_000), DEVICE, one)
    assert terms.parts["compute"] == pytest.approx(21.7168e-6, rel=1e-9)


def test_unaligned_rows_slow_steps_and_stores_by_hand() -> None:
    """At half of the rates: begin 1 us, twice 133.096 us along k and twice 8.192 us of storing."""
    terms = MODEL.terms(product(2560, 2560, 1000, aligned=0.25), DEVICE, {**ROUND, "unaligned_share": 0.5})
    assert terms.parts["compute"] == pytest.approx(1e-6 + 2 * 141.288e-6, rel=1e-9)


def test_a_second_wave_of_one_block_costs_its_share() -> None:
    """101 columns of tiles on 100 processors: 1.01 waves, plus the share of the 0.99 that idle."""
    whole = {**ROUND, "wave_share": 1.0, "split_s": 1.0}
    one, two = (MODEL.terms(product(256, n * 256, 1000), DEVICE, whole).parts["compute"] for n in (100, 101))
    some = MODEL.terms(product(256, 101 * 256, 1000), DEVICE, {**whole, "wave_share": 0.5}).parts["compute"]
    assert one == pytest.approx(142.288e-6, rel=1e-9)
    assert one < some < two


def test_blocks_hide_their_ends_behind_the_next_wave() -> None:
    """Two waves: all of the second one's 9.192 us of begin and end hide."""
    shown, hidden = (MODEL.terms(product(2560, 5120, 1000), DEVICE, {**ROUND, "hidden_share": h}).parts["compute"] for h in (0.0, 1.0))
    assert shown == pytest.approx(2 * 142.288e-6, rel=1e-9)
    assert shown - hidden == pytest.approx(9.192e-6, rel=1e-9)


def test_what_l2_holds_costs_no_memory_time() -> None:
    """B of 100,000 B at a limit of 100,000 B is half cold; of 10,000 B 1 / 10,001 is; of 1 MB all but 1 / 10,001."""
    warm = {**ROUND, "warm_b": 1e-3}
    for n, share in ((500, 1 / 2), (50, 1 / 10_001), (5000, 10_000 / 10_001)):
        only_b = replace(product(1, n, 100), read_bytes=200 + 200 * n, write_bytes=0)
        expected = (200 + share * 200 * n) / 1e12
        assert MODEL.terms(only_b, DEVICE, warm).parts["memory"] == pytest.approx(expected, rel=1e-3)


def test_weights_of_fewer_bits_are_fewer_bytes() -> None:
    full = Gemm(m=1, n=4096, k=4096, dtype="bf16").launched("engine")[0]
    small = Gemm(m=1, n=4096, k=4096, dtype="bf16", weight_dtype="int4").launched("engine")[0]
    assert isinstance(full, Product)
    assert isinstance(small, Product)
    memory = [MODEL.terms(kernel, DEVICE, ROUND).parts["memory"] for kernel in (full, small)]
    assert memory[1] / memory[0] == pytest.approx(0.25, abs=0.01)


def test_an_engine_quantises_rows_before_the_product() -> None:
    """400 rows on 200 halves of processors: two after the other, each 1 us and 2048 elements of 1 ns."""
    given = {**ROUND, "prepare_row_s": 1e-6, "prepare_element_s": 1e-9}
    kernel = product(400, 256, 2048, "quantised_gemm", dtype="fp8")
    terms = MODEL.terms(kernel, DEVICE, given)
    assert terms.parts["prepare"] == pytest.approx(2 * 3.048e-6)
    slower = MODEL.terms(kernel, DEVICE, {**given, "prepare_row_s": 2e-6})
    assert slower.time_s - terms.time_s == pytest.approx(2e-6)


def test_rows_alone_decide_the_tile_of_an_engines_8_bit_product() -> None:
    """64 rows of up to 1280 columns take the smallest tile, 65 to 128 rows the next; 257 rows pay for 512, two pairs of 128."""
    cool = {**BELIEVED, "power_share": 1.2}
    compute = {
        (m, n): MODEL.terms(product(m, n, 4096, "quantised_gemm", dtype="fp8"), DEVICE, cool).parts["compute"]
        for m, n in ((16, 64), (64, 64), (65, 64), (128, 64), (64, 1281), (128, 25600), (129, 25600), (257, 25600), (512, 25600))
    }
    assert compute[16, 64] == compute[64, 64] < compute[65, 64] == compute[128, 64]
    assert compute[64, 1281] > compute[64, 64]
    assert compute[257, 25600] == compute[512, 25600]
    assert compute[128, 25600] < 0.7 * compute[129, 25600]


@pytest.mark.parametrize(("m", "n", "k", "regime"), [(1, 64, 64, "launch"), (1, 40960, 4096, "memory"), (4096, 4096, 4096, "compute")])
def test_regimes(m: int, n: int, k: int, regime: str) -> None:
    assert MODEL.terms(product(m, n, k), DEVICE, BELIEVED).regime() == regime


# --------------------------------------------------------------------------- properties
@given(numbers, st.sampled_from(KINDS), st.integers(1, 4096), st.sampled_from((True, False, 0.25)))
def test_times_are_finite_and_beyond_the_fixed_cost(shape: tuple[int, int, int], kind: str, batch: int, aligned: Any) -> None:
    terms = MODEL.terms(product(*shape, kind, batch, aligned), DEVICE, BELIEVED)
    assert math.isfinite(terms.time_s)
    assert terms.time_s > BELIEVED["fixed_s"]
    assert all(part >= 0 for part in terms.parts.values())
    assert terms.time_s >= BELIEVED["fixed_s"] + max(terms.parts["memory"], terms.parts["compute"])


@given(numbers, st.integers(1, 100_000), st.sampled_from(("m", "n", "k", "batch")), st.sampled_from(("gemm", "batched_gemm")))
def test_more_of_anything_is_never_faster(shape: tuple[int, int, int], more: int, which: str, kind: str) -> None:
    kernel = product(*shape, kind)
    sizes = {"m": kernel.m, "n": kernel.n, "k": kernel.k, "batch": kernel.batch}
    sizes[which] += more
    larger = product(sizes["m"], sizes["n"], sizes["k"], kind, sizes["batch"])
    assert seconds(larger) >= seconds(kernel) * (1 - 1e-9)


@given(numbers, st.integers(1, 100_000))
def test_a_deeper_8_bit_product_is_never_faster(shape: tuple[int, int, int], more: int) -> None:
    m, n, k = shape
    slow, quick = (seconds(product(m, n, depth, "quantised_gemm", dtype="fp8")) for depth in (k + more, k))
    assert slow >= quick


@given(st.lists(st.tuples(numbers, st.integers(1, 64), st.sampled_from((1.0, 0.5, 0.25, 0.125))), min_size=1), st.sampled_from(KINDS))
def test_a_number_and_an_array_give_the_same_bits(rows: list[tuple[tuple[int, int, int], int, float]], kind: str) -> None:
    m, n, k, batch, aligned = np.array([(*shape, batch, aligned) for shape, batch, aligned in rows], dtype=np.float64).T
    table = MODEL.terms(product(m, n, k, kind, batch, aligned), DEVICE, BELIEVED)
    times: Any = table.time_s
    for at, (shape, one_batch, one_aligned) in enumerate(rows):
        one = MODEL.terms(product(*shape, kind, one_batch, one_aligned), DEVICE, BELIEVED)
        assert one.time_s == times[at]
        assert one.regime() == table.regime()[at]


@given(numbers)
def test_rows_off_16_bytes_are_slower_and_at_2_bytes_more_so(shape: tuple[int, int, int]) -> None:
    whole, half, odd, no = (seconds(product(*shape, aligned=aligned)) for aligned in (True, 0.5, 0.125, False))
    assert whole <= half <= odd == no
    assert seconds(product(4096, 4096, 4096, aligned=0.125)) > 4 * seconds(product(4096, 4096, 4096))


@given(numbers)
def test_vector_lanes_mind_no_alignment(shape: tuple[int, int, int]) -> None:
    assert seconds(product(*shape, aligned=False, dtype="fp32")) == seconds(product(*shape, dtype="fp32"))


def test_vector_lanes_by_hand() -> None:
    """Given the rate of the other tests and their bytes of C, blocks take as long."""
    as_fast = replace(DEVICE, matrix_flop_per_s={"fp32": 1e14})
    terms = MODEL.terms(product(2560, 2560, 1000, aligned=False, dtype="fp32"), as_fast, ROUND)
    assert terms.parts["compute"] == pytest.approx(142.288e-6, rel=1e-9)


@given(numbers)
def test_a_split_only_ever_helps(shape: tuple[int, int, int]) -> None:
    assert seconds(product(*shape)) <= seconds(product(*shape), split_s=1.0)


# --------------------------------------------------------------------------- whose parameters
def test_parameters_start_inside_their_ranges() -> None:
    assert all(q.low < q.start < q.high or q.start == q.high for q in MODEL.parameters)
    assert len({q.name for q in MODEL.parameters}) == len(MODEL.parameters)


def test_sets_go_from_the_kernels_own_to_plain_products() -> None:
    conv = replace(product(1, 1, 1, "conv2d"), dtype="tf32")
    assert MODEL.sets(conv, "torch") == (
        "product.conv2d.torch.tf32",
        "product.conv2d.engine.tf32",
        "product.conv2d.torch.bf16",
        "product.conv2d.engine.bf16",
        "product.gemm.torch.tf32",
        "product.gemm.engine.tf32",
        "product.gemm.torch.bf16",
        "product.gemm.engine.bf16",
    )


def test_sixteen_bit_formats_share_a_set() -> None:
    half, brain = (MODEL.sets(replace(product(1, 1, 1), dtype=dtype), "engine") for dtype in ("fp16", "bf16"))
    assert half == brain == ("product.gemm.engine.bf16", "product.gemm.torch.bf16")


# --------------------------------------------------------------------------- what is launched
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_bias_is_no_kernel_and_an_activation_one_only_in_torch(execution: str) -> None:
    first, *rest = Gemm(m=8, n=64, k=32, dtype="bf16", bias=True, activation="gelu").launched(execution)
    assert isinstance(first, Product)
    assert first.kind == "gemm"
    assert first.read_bytes == 2 * (8 * 32 + 32 * 64 + 64)
    assert first.write_bytes == 2 * 8 * 64
    kinds = {"engine": [], "compiled": ["fused"]}.get(execution, ["elementwise"])
    assert [kernel.kind for kernel in rest if isinstance(kernel, Stream)] == kinds
    assert all(kernel.read_bytes == kernel.write_bytes == 1024 for kernel in rest if isinstance(kernel, Stream))


def test_adding_to_c_reads_it_in_the_same_kernel() -> None:
    plain, added = (Gemm(m=8, n=64, k=32, dtype="bf16", accumulate=a).launched("graph") for a in (False, True))
    assert isinstance(plain[0], Product)
    assert isinstance(added[0], Product)
    assert added[0].read_bytes - plain[0].read_bytes == 2 * 8 * 64


@pytest.mark.parametrize(
    ("dtype", "execution", "kind"), [("fp8", "engine", "quantised_gemm"), ("fp8", "graph", "gemm"), ("bf16", "engine", "gemm")]
)
def test_only_an_engine_quantises_within_the_call(dtype: str, execution: str, kind: str) -> None:
    kernel = Gemm(m=8, n=64, k=32, dtype=dtype).launched(execution)[0]
    assert isinstance(kernel, Product)
    assert kernel.kind == kind


@pytest.mark.parametrize(("n", "k", "aligned"), [(64, 64, 1), (50257, 768, 0.125), (64, 63, 0.125), (62, 64, 0.25), (64, 68, 0.5)])
def test_alignment_of_the_worst_rows(n: int, k: int, aligned: float) -> None:
    one, many = (op.launched("eager")[0] for op in (Gemm(m=3, n=n, k=k, dtype="bf16"), BatchedGemm(batch=7, m=3, n=n, k=k, dtype="bf16")))
    assert isinstance(one, Product)
    assert isinstance(many, Product)
    assert one.aligned == many.aligned == aligned
    assert many.batch == 7
    assert many.read_bytes == 7 * one.read_bytes


def test_alignment_of_arrays() -> None:
    assert alignment(np.array([32.0, 24.0, 20.0, 6.0, 3.0])).tolist() == [1.0, 0.5, 0.25, 0.125, 0.125]  # type: ignore[union-attr]


CONV = Conv2d(batch=2, in_channels=64, out_channels=128, height=56, width=56, kernel=3, padding=1, dtype="bf16")


def test_a_convolution_is_an_implicit_product_of_its_own_bytes() -> None:
    (kernel,) = CONV.launched("eager")
    assert isinstance(kernel, Product)
    assert (kernel.kind, kernel.batch, kernel.m, kernel.n, kernel.k) == ("conv2d", 1, 2 * 56 * 56, 128, 64 * 9)
    assert kernel.read_bytes == 2 * (2 * 64 * 56 * 56 + 128 * 64 * 9)
    memory = MODEL.terms(kernel, DEVICE, ROUND).parts["memory"]
    assert memory == pytest.approx((kernel.read_bytes + kernel.write_bytes) / 1e12, rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "kind"), [({}, "gemm"), ({"stride": 2}, "conv2d"), ({"padding": 1}, "conv2d"), ({"groups": 2}, "conv2d")]
)
def test_a_convolution_of_single_pixels_is_a_plain_product(changes: dict[str, int], kind: str) -> None:
    kernel = replace(replace(CONV, kernel=1, padding=0), **changes).launched("graph")[0]  # type: ignore[arg-type]
    assert isinstance(kernel, Product)
    assert kernel.kind == kind


def test_groups_are_a_batch_and_single_channels_no_product() -> None:
    grouped = replace(CONV, groups=4).launched("graph")[0]
    assert isinstance(grouped, Product)
    assert (grouped.batch, grouped.n, grouped.k) == (4, 32, 16 * 9)
    depthwise = replace(CONV, groups=64, out_channels=64).launched("graph")[0]
    assert isinstance(depthwise, Stream)
    assert depthwise.flop == 2 * 9 * 64 * 2 * 56 * 56


def test_torch_adds_the_bias_of_a_convolution_in_a_second_kernel() -> None:
    biased = replace(CONV, bias=True)
    assert [type(kernel) for kernel in biased.launched("eager")] == [Product, Stream]
    assert [type(kernel) for kernel in biased.launched("engine")] == [Product]
