"""Long convolution by FFT: y[b, c] = u[b, c] * k[c] along the sequence, as products of spectra.

With F the length of the transform and p its factors N_1 ... N_p:

- ``cufft`` is what torch.fft launches: fill and copy to pad, a real transform, the product of spectra, a copy (the inverse
  overwrites its input), the inverse transform, a scaling. Each is a sweep over memory in fp32, 5/2 F log2 F FLOP a transform.
- ``flash`` is FlashFFTConv: a transform is p products with the DFT matrices of its factors, 8 F N_i FLOP each, with twiddles
  between them, and all of it (gates too) is one kernel as long as a sequence fits on chip. Longer ones take their first
  factor in a kernel before and after it (order 4). ``real_packing`` transforms F reals as F / 2 complex numbers.

Sources: Fu et al., arXiv 2311.05908, and its code; kernels of torch 2.11 and cuFFT as seen by a profiler on an H200.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline.numeric import Number, anywhere, total, where
from roofline.ops import fft_conv_passes as parts
from roofline.ops.base import Counts, Kernel, Machine, Op, Pass, TensorSpec, Traffic, choice, dim, flag, number_format, operator
from roofline.ops.factors import even_factors, first, is_power_of_two, least
from roofline.ops.launched import Launched
from roofline.ops.live import peak_scratch_bytes

SHORT = 4096
"""Published kernels of order 2 serve complex lengths below it, those of order 3 from it on."""
ON_CHIP = 32768
"""Complex numbers of 2 x 16 bits that one block keeps on chip; longer sequences take their outer factor through memory."""
LEAST_FACTOR, MOST_FACTOR = 16, 128
"""Widths of the DFT matrices: tensor cores multiply 16 x 16, and 128 is the widest published one."""
PADDINGS = ("causal", "circular")
IMPLEMENTATIONS = ("cufft", "flash")


@operator(
    "fft_conv",
    family="convolution",
    title="convolution as long as the sequence, by FFT",
    formula="flash 16 b c F sum(N_i) matrix FLOP; cufft 5 b c F log2 F vector FLOP; F = 2 seq where causal",
    source="Fu et al. 2023 (arXiv 2311.05908) and its code; cuFFT's kernels seen on an H200",
)
@dataclass(frozen=True, kw_only=True)
class FftConv(Op):
    """y[b, c, seq] = post_gate (k[c] * (pre_gate u[b, c, seq])), a filter of its own for each channel."""

    batch: Number = dim("sequences")
    channels: Number = dim("channels, each with a filter of its own")
    seq: Number = dim("elements of a sequence")
    kernel_len: Number = dim("elements of a filter, at most seq; 0 for as many", default=0, minimum=0)
    dtype: str = number_format("format of u, the gates and y; filters are fp32")
    implementation: str = choice("how it is computed", IMPLEMENTATIONS, default="cufft")
    padding: str = choice("causal: zeros after the sequence; circular: its end wraps to its start", PADDINGS, default="causal")
    fft_len: Number = dim("length of the transform; 0 for 2 seq where causal, seq where circular", default=0, minimum=0)
    gated: bool = flag("multiply by a gate before and by another after")
    spectrum: bool = flag("filters come as their spectra, transformed once before")
    order: Number = dim("flash: factors of the transform, 2 to 4; 0 as the published kernels choose by length", default=0, minimum=0)
    real_packing: bool = flag("flash: transform the real sequence as half as many complex numbers")

    # ---------------------------------------------------------------- shape
    @property
    def transform_len(self) -> Number:
        """F, elements of the padded sequence."""
        usual = 2 * self.seq if self.padding == "causal" else self.seq
        return where(self.fft_len > 0, self.fft_len, usual)

    @property
    def filter_len(self) -> Number:
        """Elements of a filter."""
        return where(self.kernel_len > 0, self.kernel_len, self.seq)

    @property
    def complex_len(self) -> Number:
        """flash: complex numbers that a sequence is transformed as."""
        return self.transform_len // 2 if self.real_packing else self.transform_len

    @property
    def sequences(self) -> Number:
        """Transforms of u: one for each sequence and channel."""
        return self.batch * self.channels

    def transform_factors(self) -> tuple[Number, ...]:
        """flash: widths of the DFT matrices, at least four, filled up with ones; the outer factor first where there are four.

        >>> FftConv(batch=1, channels=1, seq=4096, dtype="bf16", implementation="flash").transform_factors()
        (32, 16, 16, 1)
        """
        length, order = self.complex_len, self._order()
        if order >= 4:
            outer = self._outer_factor()
            return (outer, *even_factors(length // outer, int(order) - 1))
        if order > 0:
            return _filled(even_factors(length, int(order)))
        two, three = _filled(even_factors(length, 2)), _filled(even_factors(length, 3))
        return tuple(where(length < SHORT, a, b) for a, b in zip(two, three, strict=True))

    def _order(self) -> int:
        """The order as one number: as given, 4 for all that is too long for a chip, else 0 for 2 or 3 by length."""
        return first(self.order) or (4 if anywhere(self.complex_len > ON_CHIP) else 0)

    def _outer_factor(self) -> Number:
        """What is left on chip is the published inner transform: 16 x 4096, then 32 x 4096 to 128 x 32768."""
        fitting = where(self.complex_len > 2 * ON_CHIP, 32, LEAST_FACTOR)
        for outer in (64, 128):
            fitting = where(self.complex_len > outer // 2 * ON_CHIP, outer, fitting)
        return fitting

    def check(self) -> str | None:
        """Lengths that hold the result, and for flash lengths that factor."""
        if anywhere(self.filter_len > self.seq):
            return "kernel_len must be at most seq; what lies beyond meets no element"
        if self.padding == "circular" and anywhere(self.transform_len != self.seq):
            return "a circular convolution wraps at seq, so that fft_len must be seq or not given"
        if self.padding == "causal" and anywhere(self.transform_len < self.seq + self.filter_len - 1):
            return "fft_len must be at least seq + kernel_len - 1, or the end of the result wraps to its start"
        if self.implementation == "flash":
            return self._check_factors()
        if anywhere(self.order > 0) or self.real_packing:
            return "order and real_packing need implementation: flash"
        if anywhere(parts.kernels_of(self.transform_len) != parts.least_kernels(self.transform_len)):
            return "some lengths of the sweep take more kernels a transform than others; sweep them apart"
        return None

    def _check_factors(self) -> str | None:
        length = self.complex_len
        if anywhere((self.order == 1) | (self.order > 4)):
            return "order must be 2, 3 or 4, or 0 to choose it by length"
        if anywhere(self.order != first(self.order)):
            return "order differs in the cases of a sweep; sweep them apart"
        if anywhere(is_power_of_two(length) < 1):
            return f"flash needs a transform of 2^n complex numbers, not {least(length)}; give fft_len"
        if self._order() == 4 and anywhere(self.order == 0) and anywhere(length <= ON_CHIP):
            return "some lengths of the sweep fit on chip and others take three kernels; sweep them apart"
        low, high = LEAST_FACTOR ** max(self._order(), 2), MOST_FACTOR * ON_CHIP
        if anywhere(length < low) or anywhere(length > high):
            return f"flash needs a transform of {low} to {high} complex numbers at this order, not {least(length)}"
        if self._order() < 4 and anywhere(length > ON_CHIP):
            return f"a transform of {least(length)} complex numbers does not fit on chip at order {self._order()}; give order: 4"
        if anywhere(self.transform_factors()[0] > MOST_FACTOR):
            return f"a factor of {least(length)} at order {self._order()} is wider than {MOST_FACTOR}; give a higher order"
        return None

    # ---------------------------------------------------------------- tensors
    def sequence(self, name: str, role: str, dtype: str | None = None) -> TensorSpec:
        """A tensor like u."""
        return TensorSpec(name, (self.batch, self.channels, self.seq), dtype or self.dtype, role)

    def filter_tensor(self) -> TensorSpec:
        """The filters, or their spectra as pairs of real and imaginary part."""
        if not self.spectrum:
            return TensorSpec("k", (self.channels, self.filter_len), "fp32", "weight")
        return (
            parts.flash_spectrum(self, "weight") if self.implementation == "flash" else parts.spectrum(self, self.channels, "k", "weight")
        )

    def gates(self) -> tuple[TensorSpec, ...]:
        """Before and after, or none."""
        return (self.sequence("pre_gate", "in"), self.sequence("post_gate", "in")) if self.gated else ()

    def tensors(self) -> tuple[TensorSpec, ...]:
        """u[b, c, seq], k[c, kernel_len] (or spectra[c, F / 2 + 1, 2]), two gates like u, and y like u."""
        return (self.sequence("u", "in"), self.filter_tensor(), *self.gates(), self.sequence("y", "out"))

    # ---------------------------------------------------------------- work
    def passes(self) -> tuple[Pass, ...]:
        """The kernels: up to a dozen sweeps with cuFFT; one with flash, or three around memory, and the filter's before."""
        return parts.flash(self) if self.implementation == "flash" else parts.cufft(self)

    def counts(self) -> Counts:
        """Those of all passes."""
        return total_counts(self.passes())

    def launched(self, execution: str) -> tuple[Launched, ...]:
        """Each pass as the sort of kernel that it is."""
        return tuple(k for p in self.passes() for k in parts.launched(self, p, execution))

    def _spectra_bytes(self) -> Number:
        """One set of spectra, which each sequence of the batch reads."""
        names = ("k_spectrum", "k") if self.spectrum else ("k_spectrum",)
        product = next(p for p in self.passes() if p.name in ("product", "flash"))
        return total(t.bytes for t in product.reads if t.name in names)

    def tiled(self, machine: Machine) -> Traffic:
        """The spectra again for each sequence; the products of flash feed from shared memory, and keep what lies between there."""
        traffic, again = self.compulsory(machine), self._spectra_bytes() * (self.batch - 1)
        smem = parts.flash_smem_bytes(self, machine) if self.implementation == "flash" else 0
        return replace(traffic, smem=smem, l2=traffic.l2 + again, hbm=traffic.hbm + again)

    def cached(self, machine: Machine) -> Traffic:
        """Spectra stay in L2 while they and what passes by of one sequence of the batch, twice as much, fit there."""
        tiled, spectra = self.tiled(machine), self._spectra_bytes()
        saved = where(3 * spectra <= machine.l2_bytes, spectra * (self.batch - 1), 0)
        return replace(tiled, hbm=tiled.hbm - saved - self.resident_bytes(machine))

    def extra_memory_bytes(self) -> Number:
        """What lies between the passes, as long as it is used."""
        return peak_scratch_bytes(self.passes())

    # ---------------------------------------------------------------- backward
    def saved(self) -> tuple[TensorSpec, ...]:
        """u, the filters and the gates: the transforms are computed again."""
        return (self.sequence("u", "in"), self.filter_tensor(), *self.gates())

    def backward(self) -> tuple[Op, ...]:
        """du = dy correlated with k, dk = dy correlated with u summed over the batch: the transforms of u, of dy and back.

        As one kernel that reads its operands once; with gates y is computed again for the gradient of the second one.
        """
        reads = (*self.saved(), self.sequence("dy", "in"))
        gates = tuple(self.sequence(f"d{g.name}", "out") for g in self.gates())
        one_way = self._transforms()
        products = parts.PRODUCT_FLOP * self.sequences * parts.half(self.transform_len) * (2 + int(self.gated))
        sums = 2 * self.sequences * parts.half(self.transform_len) + 4 * int(self.gated) * self.sequences * self.seq
        ways = 3 + int(self.gated)
        return (
            Kernel(
                label="fft_conv_backward",
                dtype=self.dtype,
                reads=reads,
                writes=(self.sequence("du", "out"), *gates, replace(self.filter_tensor(), name="dk", role="out")),
                arithmetic=Counts(tensor=ways * one_way.tensor, vector=ways * one_way.vector + products + sums),
            ),
        )

    def _transforms(self) -> Counts:
        """One transform of every sequence."""
        return parts.flash_transform(self) if self.implementation == "flash" else Counts(vector=parts.fft_flop(self, self.sequences))


def total_counts(passes: tuple[Pass, ...]) -> Counts:
    """The arithmetic of all passes."""
    return sum((p.counts for p in passes), Counts())


def _filled(factors: tuple[Number, ...]) -> tuple[Number, ...]:
    return (*factors, *(1,) * (4 - len(factors)))
