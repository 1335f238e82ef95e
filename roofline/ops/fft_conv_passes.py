"""Kernels of a convolution by FFT: those of torch and cuFFT, and those of FlashFFTConv; their bytes and FLOP.

Which kernels cuFFT takes was seen by a profiler on an H200 (torch 2.11, CUDA 13): real transforms of 2^n elements are one
kernel up to 65536 and two with a last pass that separates the halves above; other lengths one and that pass.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, ceil_div, minimum, total, where
from roofline.ops.base import Counts, Machine, Pass, TensorSpec
from roofline.ops.factors import is_power_of_two, least, stages
from roofline.ops.launched import Launched, Stream, fuses

if TYPE_CHECKING:
    from roofline.ops.fft_conv import FftConv

ONE_KERNEL = 65536
"""Elements of a real sequence that cuFFT transforms in one kernel, for powers of two."""
PRODUCT_FLOP = 6
"""Of a complex product: four products, a sum and a difference."""
SEPARATE_FLOP = 10
"""To separate, or join, the spectra of two interleaved halves: a complex product and two complex sums."""
DFT_FLOP = 8
"""Of a complex multiply-add, on the matrix engine."""
E = "fp32"
"""Format in which cuFFT computes."""


# --------------------------------------------------------------------------- lengths
def half(length: Number) -> Number:
    """Complex numbers in the spectrum of a real sequence: F / 2 + 1."""
    return length // 2 + 1


def kernels_of(length: Number) -> Number:
    """Kernels of one real transform: 1, 2 or 3."""
    return where(length > ONE_KERNEL, 3, 2 - is_power_of_two(length))


def least_kernels(length: Number) -> int:
    """The fewest that any of the lengths takes."""
    return least(kernels_of(length))


def fft_flop(op: FftConv, sequences: Number) -> Number:
    """Of real transforms, half of 5 F log2 F each, with the stages of a radix-2 transform for the logarithm."""
    return 5 * ceil_div(op.transform_len, 2) * stages(op.transform_len) * sequences


# --------------------------------------------------------------------------- tensors
def spectrum(op: FftConv, sequences: Number, name: str, role: str = "scratch") -> TensorSpec:
    """Spectra of so many real sequences in fp32, pairs of real and imaginary part."""
    return TensorSpec(name, (sequences, half(op.transform_len), 2), E, role)


def flash_spectrum(op: FftConv, role: str = "scratch") -> TensorSpec:
    """Spectra of the filters in the order and the format in which flash multiplies."""
    return TensorSpec("k" if role == "weight" else "k_spectrum", (op.channels, op.complex_len, 2), op.dtype, role)


def _padded(op: FftConv, sequences: Number, name: str) -> TensorSpec:
    return TensorSpec(name, (sequences, op.transform_len), E, "scratch")


# --------------------------------------------------------------------------- torch and cuFFT
def cufft(op: FftConv) -> tuple[Pass, ...]:
    """Pad, transform, multiply, copy, transform back, scale; casts and gates before and after."""
    found, u = _before(op)
    u_padded, padding = _pad(op, u, op.sequences, "u")
    u_spectrum = spectrum(op, op.sequences, "u_spectrum")
    found += [*padding, *_forward(op, u_padded, u_spectrum, op.sequences, "u")]
    filters, more = _filter(op)
    found += more
    y_spectrum, kept = spectrum(op, op.sequences, "y_spectrum"), spectrum(op, op.sequences, "y_copy")
    y_padded = _padded(op, op.sequences, "y_padded")
    product = Counts(vector=PRODUCT_FLOP * op.sequences * half(op.transform_len))
    found.append(Pass("product", (u_spectrum, filters), (y_spectrum,), product))
    found.append(Pass("clone", (y_spectrum,), (kept,)))
    found += _backward(op, kept, y_padded, op.sequences)
    found.append(Pass("scale", (y_padded,), (y_padded,), Counts(vector=op.sequences * op.transform_len)))
    return (*found, *_after(op, y_padded))


def _before(op: FftConv) -> tuple[list[Pass], TensorSpec]:
    """u in fp32 and multiplied by its gate."""
    u, found = op.sequence("u", "in"), []
    if op.dtype != E:
        wide = op.sequence("u_fp32", "scratch", E)
        found.append(Pass("cast", (u,), (wide,)))
        u = wide
    if op.gated:
        gated = op.sequence("u_gated", "scratch", E)
        found.append(Pass("gate", (u, op.gates()[0]), (gated,), Counts(vector=u.elements)))
        u = gated
    return found, u


def _after(op: FftConv, y_padded: TensorSpec) -> tuple[Pass, ...]:
    """The gate and the cast; without them the result is a view of the padded one."""
    y, found = replace(y_padded, touched=op.sequences * op.seq), []
    if op.gated:
        gated = op.sequence("y", "out") if op.dtype == E else op.sequence("y_gated", "scratch", E)
        found.append(Pass("gate", (y, op.gates()[1]), (gated,), Counts(vector=op.sequences * op.seq)))
        y = gated
    if op.dtype != E:
        found.append(Pass("cast", (y,), (op.sequence("y", "out"),)))
    return tuple(found)


def _pad(op: FftConv, x: TensorSpec, sequences: Number, name: str) -> tuple[TensorSpec, list[Pass]]:
    """Zeros of the whole length, and the sequence copied over their start; nothing where it wraps."""
    if op.padding == "circular" and name == "u":
        return x, []
    padded = _padded(op, sequences, f"{name}_padded")
    into = replace(padded, touched=x.elements)
    return padded, [Pass("fill", (), (padded,)), Pass("pad", (x,), (into,))]


def _filter(op: FftConv) -> tuple[TensorSpec, list[Pass]]:
    """The spectra of the filters, transformed here unless they are given."""
    given = op.filter_tensor()
    if op.spectrum:
        return given, []
    padded, padding = _pad(op, given, op.channels, "k")
    found = spectrum(op, op.channels, "k_spectrum")
    return found, [*padding, *_forward(op, padded, found, op.channels, "k")]


def _halves(op: FftConv, sequences: Number, name: str) -> list[TensorSpec]:
    """What lies between the kernels of one transform: F reals as F / 2 complex numbers."""
    count = least_kernels(op.transform_len) - 1
    return [TensorSpec(f"{name}_{i}", (sequences, ceil_div(op.transform_len, 2), 2), E, "scratch") for i in range(1, count + 1)]


def _forward(op: FftConv, x: TensorSpec, result: TensorSpec, sequences: Number, name: str) -> list[Pass]:
    """A real transform: one kernel, or factors and then the pass that separates the halves."""
    chain = [x, *_halves(op, sequences, f"{name}_part"), result]
    names = ["transform", *["factor"] * (len(chain) - 3), "separate"][: len(chain) - 1]
    return _chain(chain, names, fft_flop(op, sequences))


def _backward(op: FftConv, x: TensorSpec, result: TensorSpec, sequences: Number) -> list[Pass]:
    """The inverse: the pass that joins the halves first."""
    chain = [x, *_halves(op, sequences, "y_part"), result]
    names = ["join", *["factor"] * (len(chain) - 2)] if len(chain) > 2 else ["inverse"]
    return _chain(chain, names, fft_flop(op, sequences))


def _chain(chain: list[TensorSpec], names: list[str], flop: Number) -> list[Pass]:
    """A kernel from each tensor to the next; their FLOP are told of the first."""
    pairs = zip(names, chain, chain[1:], strict=False)
    return [Pass(name, (a,), (b,), Counts(vector=flop if i == 0 else 0)) for i, (name, a, b) in enumerate(pairs)]


# --------------------------------------------------------------------------- FlashFFTConv
def flash(op: FftConv) -> tuple[Pass, ...]:
    """One kernel, or three where the outer factor goes through memory; before it the filters' own transform."""
    u, y, gates = op.sequence("u", "in"), op.sequence("y", "out"), op.gates()
    filters, before = _flash_filter(op)
    counts = _flash_counts(op)
    if op._order() < 4:
        return (*before, Pass("flash", (u, filters, *gates), (y,), counts))
    parts = [TensorSpec(name, (op.sequences, op.complex_len, 2), op.dtype, "scratch") for name in ("outer", "inner")]
    outer = Counts(tensor=DFT_FLOP * op.sequences * op.complex_len * op.transform_factors()[0], vector=_twiddles(op))
    inner = Counts(tensor=counts.tensor - 2 * outer.tensor, vector=counts.vector - 2 * outer.vector)
    return (
        *before,
        Pass("butterfly", (u, *gates[:1]), (parts[0],), outer),
        Pass("flash", (parts[0], filters), (parts[1],), inner),
        Pass("butterfly", (parts[1], *gates[1:]), (y,), outer),
    )


def _flash_filter(op: FftConv) -> tuple[TensorSpec, list[Pass]]:
    """The filters' spectra by cuFFT, permuted and rounded to what the kernel multiplies by."""
    if op.spectrum:
        return op.filter_tensor(), []
    wide, before = _filter(op)
    permuted = flash_spectrum(op)
    return permuted, [*before, Pass("permute", (wide,), (permuted,))]


def _twiddles(op: FftConv) -> Number:
    """Between two factors, one way."""
    return PRODUCT_FLOP * op.sequences * op.complex_len


def flash_transform(op: FftConv) -> Counts:
    """One way: a product with the DFT matrix of each factor, twiddles between them, and what packing costs."""
    factors, numbers = op.transform_factors(), op.sequences * op.complex_len
    width = total(where(n > 1, n, 0) for n in factors)
    between = total(where(n > 1, 1, 0) for n in factors) - 1
    separate = SEPARATE_FLOP * numbers if op.real_packing else 0
    return Counts(tensor=DFT_FLOP * numbers * width, vector=_twiddles(op) * between + separate)


def _flash_counts(op: FftConv) -> Counts:
    one = flash_transform(op)
    gates = 2 * op.sequences * op.seq if op.gated else 0
    return Counts(tensor=2 * one.tensor, vector=2 * one.vector + PRODUCT_FLOP * op.sequences * op.complex_len + gates)


def flash_smem_bytes(op: FftConv, machine: Machine) -> Number:
    """Each product of a DFT matrix reads its complex operand once for each block of rows that shares it, and writes the result."""
    numbers = op.sequences * op.complex_len * 2 * find_dtype(op.dtype).bytes
    reads = total(where(n > 1, ceil_div(n, minimum(machine.mma_rows, n)) + 1, 0) for n in op.transform_factors())
    return 2 * numbers * reads


# --------------------------------------------------------------------------- as launched
KINDS = {
    "fill": "fill",
    "pad": "strided_copy",
    "clone": "copy",
    "product": "spectra",
    "transform": "fft",
    "inverse": "fft",
    "factor": "fft_factor",
    "separate": "elementwise",
    "join": "elementwise",
    "permute": "transpose",
    "scale": "elementwise",
    "cast": "elementwise",
    "gate": "elementwise",
    "flash": "fft_conv",
    "butterfly": "fft_conv",
}
"""The sort of kernel by the name of the pass."""


def launched(op: FftConv, step: Pass, execution: str) -> tuple[Launched, ...]:
    """The pass as a kernel in the format that it reads: transforms by their length, products with the spectra of a sequence as a row."""
    kind = KINDS[step.name]
    if step.name == "transform" and least_kernels(op.transform_len) == 3:
        kind = "fft_factor"
    if kind == "elementwise" and fuses(execution):
        kind = "fused"
    stream = step.stream(kind, (step.reads or step.writes)[0].dtype)
    if kind == "fft":
        return (replace(stream, rows=_rows(step), cols=op.transform_len),)
    if kind == "spectra":
        return (replace(stream, rows=op.batch, cols=op.channels * half(op.transform_len) * 2),)
    return (_along(stream) if kind in ("fill", "copy", "elementwise", "fused") else stream,)


def _rows(step: Pass) -> Number:
    """Sequences of a transform."""
    return step.writes[0].shape[0] if step.name == "transform" else step.reads[0].shape[0]


def _along(stream: Stream) -> Stream:
    """As one long row, since rows make no difference to it."""
    return replace(stream, rows=1, cols=stream.rows * stream.cols)
