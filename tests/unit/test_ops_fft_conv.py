"""Convolution by FFT: DFT products and arrays worked out in numpy, the factors of published kernels, refusals."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline.ops.base import work_of
from roofline.ops.factors import even_factors, is_power_of_two, stages
from roofline.ops.fft_conv import FftConv
from roofline.ops.live import peak_scratch_bytes
from roofline.predict.bound import bound, machine_of
from roofline.predict.estimate.paths import PATHS
from roofline.spec.hardware import load_hardware

CUFFT = FftConv(batch=2, channels=3, seq=16, dtype="fp32")
FLASH = FftConv(batch=64, channels=768, seq=4096, dtype="bf16", implementation="flash", padding="circular", spectrum=True)


# --------------------------------------------------------------------------- worked by hand
def test_hand_worked_flash():
    """4096 = 16 x 16 x 16: 8 FLOP x 4096 x 48 a transform, two of them for each of 49,152 sequences; 4 tensors of 2 bytes gated."""
    assert FLASH.counts().tensor == 2 * 8 * 4096 * 48 * 49_152 == 154_618_822_656
    assert replace(FLASH, gated=True).compulsory(None).hbm == 4 * 2 * 49_152 * 4096 + 768 * 4096 * 2 * 2
    assert FLASH.counts().vector == 49_152 * 4096 * 6 * (2 + 2 + 1)  # twiddles twice each way, and the product


def test_hand_worked_cufft():
    """6 sequences of 16 in 32: 5/2 x 32 x 5 FLOP a transform of 6 + 3 forward and 6 back, 6 FLOP for 17 products each, 32 scalings."""
    assert CUFFT.counts().vector == 400 * (6 + 3 + 6) + 6 * (6 * 17 + 32)
    assert CUFFT.counts().tensor == 0


def test_the_published_comparison_at_4096():
    """H100, gated, 16 bits: a tenth of the bytes; 0.48 ms at least with flash (published 1.43), over 4 ms with cuFFT (9.49)."""
    h100 = load_hardware("h100-sxm")
    flash, cufft = (replace(FLASH, gated=True, implementation=i) for i in ("flash", "cufft"))
    times = [bound(work_of(op, machine_of(h100)), h100) for op in (flash, cufft)]
    assert times[0].limiter == times[1].limiter == "hbm"
    assert times[0].time_s == pytest.approx(0.48e-3, rel=0.02)
    assert 4e-3 < times[1].time_s < 9.49e-3


# --------------------------------------------------------------------------- counted independently
def dft(n):
    """The DFT matrix."""
    return np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)


def factored(x, factors):
    """A DFT by products with the matrices of its factors, and the complex multiply-adds and twiddles that takes."""
    if len(factors) == 1:
        return dft(x.size) @ x, x.size**2, 0
    outer, inner = factors[0], x.size // factors[0]
    table = dft(outer) @ x.reshape(outer, inner)
    table = table * np.exp(-2j * np.pi * np.outer(np.arange(outer), np.arange(inner)) / x.size)
    rows = [factored(row, factors[1:]) for row in table]
    macs, twiddles = outer * outer * inner + sum(r[1] for r in rows), x.size + sum(r[2] for r in rows)
    return np.array([r[0] for r in rows]).T.reshape(-1), macs, twiddles


@pytest.mark.parametrize(("length", "order"), [(256, 2), (1024, 2), (4096, 3), (8192, 3), (65536, 4)])
def test_flop_are_those_of_the_products_that_make_a_transform(length, order):
    """Numerically a transform, and 8 FLOP for each of its multiply-adds, 6 for each twiddle, there and back, 6 for the product."""
    op = FftConv(batch=1, channels=1, seq=length, dtype="bf16", implementation="flash", padding="circular", spectrum=True)
    factors = [int(n) for n in op.transform_factors() if n > 1]
    x = np.random.default_rng(1).standard_normal(length)
    found, macs, twiddles = factored(x, factors)
    assert len(factors) == order
    np.testing.assert_allclose(found, np.fft.fft(x), atol=1e-8 * length)
    assert (op.counts().tensor, op.counts().vector) == (2 * 8 * macs, 2 * 6 * twiddles + 6 * length)


class Moved:
    """Bytes that steps on arrays read and write."""

    def __init__(self):
        self.bytes = 0

    def step(self, function, *inputs):
        """The result, every array counted once."""
        result = function(*inputs)
        self.bytes += sum(i.nbytes for i in inputs) + result.nbytes
        return result


def test_bytes_of_cufft_are_those_of_the_arrays_of_each_step():
    """Written out in single precision: pad, transform, multiply, copy, transform back, scale, for the filters too; and it convolves."""
    rng, moved, length = np.random.default_rng(2), Moved(), 32
    u, k = rng.standard_normal((6, 16)).astype("f4"), rng.standard_normal((3, 16)).astype("f4")

    def spectrum(x):
        padded = moved.step(lambda: np.zeros((len(x), length), "f4"))
        padded[:, :16] = moved.step(np.copy, x)
        return moved.step(lambda p: np.fft.rfft(p).astype("c8"), padded)

    product = moved.step(lambda a, b: (a.reshape(2, 3, -1) * b).reshape(6, -1), spectrum(u), spectrum(k))
    product = moved.step(np.copy, product)
    y = moved.step(lambda p: (np.fft.irfft(p) * length).astype("f4"), product)
    y = moved.step(lambda p: p / np.float32(length), y)[:, :16]
    assert CUFFT.compulsory(None).hbm == moved.bytes
    np.testing.assert_allclose(y[4], np.convolve(u[4], k[1])[:16], atol=1e-4)


# --------------------------------------------------------------------------- variants
def test_lengths_beyond_a_chip_go_through_memory_twice():
    """1M elements ungated, 2-byte numbers: u 2 in, 4 out and in, 4 out and in, y 2."""
    op = replace(FLASH, batch=1, channels=1, seq=2**20, spectrum=True)
    assert [p.name for p in op.passes()] == ["butterfly", "flash", "butterfly"]
    assert op.compulsory(None).hbm == (2 + 4 + 4 + 4 + 4 + 2) * 2**20 + 4 * 2**20
    assert sum(p.counts.tensor for p in op.passes()) == op.counts().tensor == 16 * 2**20 * 128
    assert op.extra_memory_bytes() == 2 * 4 * 2**20


@pytest.mark.parametrize(("seq", "kernels"), [(4096, 1), (32768, 1), (65536, 3), (1048576, 3), (3000, 2)])
def test_cufft_takes_the_kernels_that_a_profiler_saw(seq, kernels):
    """Causal: transforms of twice the length. Between fill, copy, product, copy and scale there are two transforms."""
    op = FftConv(batch=1, channels=64, seq=seq, dtype="fp32", spectrum=True)
    assert len(op.passes()) == 5 + 2 * kernels
    assert {k.kind for k in op.launched("graph")} >= {"fill", "strided_copy", "spectra", "copy", "elementwise"}
    assert len(replace(op, padding="circular", seq=2 * seq).passes()) == 3 + 2 * kernels


@pytest.mark.parametrize(
    ("batch", "seq", "transform", "product"),
    [(64, 256, [], []), (64, 1024, [True], []), (64, 4096, [True], [True]), (8, 32768, [True] * 4, [True]), (1, 256, [], [False, True])],
)
def test_kernels_take_the_path_of_their_length(batch, seq, transform, product):
    """Transforms of one block by their length; products of spectra by whether L2 holds them, or a single row is read in vectors."""
    kernels = {k.kind: k for k in FftConv(batch=batch, channels=768, seq=seq, dtype="fp32", spectrum=True).launched("graph")}
    taken = [list(PATHS[kind](kernels[kind])) for kind in ("fft", "spectra")]
    assert taken == [transform + [False] * (4 - len(transform)), product + [False] * (2 - len(product))]


def test_real_packing_halves_the_numbers_and_not_the_result():
    """4096 reals as 2048 = 64 x 32 complex numbers."""
    packed = replace(FLASH, real_packing=True)
    assert packed.counts().tensor == 16 * 2048 * (64 + 32) * 49_152
    assert packed.tensors()[-1] == FLASH.tensors()[-1]


def test_16_bits_cost_casts_with_cufft_and_nothing_with_flash():
    """u in 2 and out 4 bytes, y in 4 and out 2; a fused kernel has the same passes in any format."""
    narrow = replace(CUFFT, dtype="bf16")
    assert narrow.compulsory(None).hbm - CUFFT.compulsory(None).hbm == 2 * 6 * 96
    assert [p.name for p in narrow.passes()].count("cast") == 2
    assert [p.name for p in replace(narrow, gated=True).passes()].count("gate") == 2
    assert [k.dtype for k in narrow.launched("graph")] == ["bf16", *["fp32"] * 11]


def test_memory_is_what_lives_at_once():
    """fp32, 6 sequences of 32: the inverse holds a copy of 17 complex numbers and its result, the transform u and its spectrum."""
    op = replace(CUFFT, spectrum=True)
    assert op.extra_memory_bytes() == max(2 * 6 * 17 * 8, 6 * (17 * 8 + 32 * 4))
    assert replace(FLASH, gated=True).extra_memory_bytes() == 0
    chain = replace(CUFFT, spectrum=True, seq=2**20).passes()
    assert peak_scratch_bytes(chain) < sum(t.bytes for p in chain for t in p.writes)
    assert peak_scratch_bytes(()) == 0


def test_spectra_are_read_again_where_they_do_not_stay_in_l2(h200):
    """768 channels of 8192: 25 MB with twice as much passing by, 64 times; of 1024: 3 MB, once."""
    long, short = (FftConv(batch=64, channels=768, seq=s, dtype="fp32", spectrum=True) for s in (4096, 512))
    spectra = 768 * 4097 * 8
    assert long.cached(h200).hbm - long.compulsory(h200).hbm == 63 * spectra
    assert short.cached(h200).hbm == short.compulsory(h200).hbm


def test_backward_transforms_what_was_saved_and_the_gradient():
    """u and dy there, du back: three transforms for two; with gates y again."""
    (plain,), (gated,) = FLASH.backward(), replace(FLASH, gated=True).backward()
    assert 2 * plain.counts().tensor == 3 * FLASH.counts().tensor
    assert gated.counts().tensor == 2 * FLASH.counts().tensor
    assert {t.name for t in gated.writes} == {"du", "dpre_gate", "dpost_gate", "dk"}


@given(batch=st.integers(1, 64), channels=st.integers(1, 64), gated=st.booleans(), flash=st.booleans())
def test_twice_the_channels_is_twice_the_work(batch, channels, gated, flash):
    """Channels share nothing, filters included."""
    op = FftConv(batch=batch, channels=channels, seq=2048, dtype="bf16", gated=gated, implementation="flash" if flash else "cufft")
    once, twice = (work_of(o, None) for o in (op, replace(op, channels=2 * channels)))
    assert twice.counts == once.counts + once.counts
    assert twice.compulsory == once.compulsory + once.compulsory


# --------------------------------------------------------------------------- factors
@given(n=st.integers(1, 5000), order=st.integers(1, 3))
def test_even_factors_have_the_least_sum(n, order):
    """Against every way to factor."""
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    ways = {1: [(n,)], 2: [(n // d, d) for d in divisors], 3: [(n // d // e, d, e) for d in divisors for e in divisors if n % (d * e) == 0]}
    found = even_factors(n, order)
    assert prod(found) == n
    assert list(found) == sorted(found, reverse=True)
    assert sum(found) == min(sum(w) for w in ways[order])


@given(n=st.integers(1, 10**9))
def test_stages_are_the_logarithm_rounded_up(n):
    """For numbers and arrays."""
    assert 2 ** stages(n) >= n > 2 ** (stages(n) - 1) or n == 1
    assert stages(np.array([float(n)]))[0] == stages(n)
    assert is_power_of_two(n) == is_power_of_two(np.array([float(n)]))[0] == (n.bit_count() == 1)


# --------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kernel_len": 5000}, "kernel_len must be at most seq"),
        ({"fft_len": 8192}, "wraps at seq"),
        ({"padding": "causal", "fft_len": 4096}, "at least seq + kernel_len - 1"),
        ({"seq": 3000}, "2^n complex numbers, not 3000"),
        ({"seq": 128}, "256 to 4194304 complex numbers at this order, not 128"),
        ({"order": 5}, "order must be 2, 3 or 4"),
        ({"seq": 65536, "order": 3}, "does not fit on chip at order 3; give order: 4"),
        ({"seq": 32768, "order": 2}, "wider than 128; give a higher order"),
        ({"implementation": "cufft", "order": 2}, "need implementation: flash"),
        ({"seq": np.array([4096.0, 65536.0])}, "sweep them apart"),
        ({"implementation": "cufft", "seq": np.array([4096.0, 2.0**20])}, "sweep them apart"),
        ({"order": np.array([2.0, 3.0])}, "sweep them apart"),
    ],
)
def test_contradictions_are_refused(fields, said):
    """With what would repair them."""
    assert FLASH.check() is None
    assert said in replace(FLASH, **fields).check()


def test_a_short_filter_needs_less_padding():
    """1000 elements and 64 of a filter fit in 1063."""
    op = FftConv(batch=1, channels=1, seq=1000, kernel_len=64, fft_len=1063, dtype="fp32")
    assert op.check() is None
    assert "at least" in replace(op, fft_len=1062).check()


@pytest.mark.parametrize("op", [CUFFT, FLASH, replace(FLASH, seq=2**20, gated=True), replace(CUFFT, dtype="bf16", gated=True, seq=70000)])
def test_arrays_give_the_same_bits(same_in_arrays, op):
    """A sweep is the same formula."""
    same_in_arrays(op, integers=False)


def test_orders_two_and_three_sweep_together():
    """Both are one kernel; each length takes the factors that it takes alone."""
    lengths = [256, 1024, 4096, 32768]
    swept = replace(FLASH, seq=np.array(lengths, dtype=np.float64))
    assert swept.check() is None
    assert list(swept.counts().tensor) == [replace(FLASH, seq=n).counts().tensor for n in lengths]
    assert list(swept.counts().vector) == [replace(FLASH, seq=n).counts().vector for n in lengths]
