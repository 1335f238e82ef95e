"""Spectra of filters as the kernels of fft_conv multiply with them: by torch.fft half of them in order, by ours all in another.

Ours takes a transform apart into factors N_0, N_1 ... (outermost first): frequency k = k_0 + N_0 (k_1 + N_1 k_2 ...) comes out where
[k_0, k_1 ...] lies, and no kernel puts it back in order.
"""

from __future__ import annotations

import torch

from roofline.errors import UsageError
from roofline.numeric import scalar
from roofline.ops.factors import even_factors
from roofline.ops.fft_conv import SHORT, FftConv


def flash_factors(op: FftConv) -> tuple[int, ...]:
    """Factors of the transform of F complex numbers, as many as the order says; where it is 0, as the operator chooses it."""
    order = int(op.order) or (2 if op.complex_len < SHORT else 3)
    return tuple(int(scalar(n)) for n in even_factors(int(op.transform_len), order))


def frequencies(op: FftConv) -> torch.Tensor:
    """Which frequency lies at each place of a spectrum of ours.

    >>> frequencies(FftConv(batch=1, channels=1, seq=256, padding="circular", dtype="bf16", implementation="flash", order=2))[:3]
    tensor([ 0, 16, 32])
    """
    factors = flash_factors(op)
    places = torch.arange(int(op.transform_len)).reshape(factors[::-1])
    return places.permute(*range(len(factors) - 1, -1, -1)).reshape(-1)


def spectra_of(op: FftConv, filters: torch.Tensor) -> torch.Tensor:
    """Spectra of real filters [channels, length] as the operator's implementation takes them, pairs of re and im.

    Raises:
        UsageError: half a spectrum for packed reals, of which each kernel has an order of its own.
    """
    if op.implementation == "flash" and op.real_packing:
        raise UsageError("spectra of packed reals are in an order that only their kernel knows: leave out spectrum or real_packing")
    length = int(op.transform_len)
    if op.implementation == "cufft":
        return torch.view_as_real(torch.fft.rfft(filters, n=length))
    return torch.view_as_real(torch.fft.fft(filters, n=length)[:, frequencies(op).to(filters.device)])


def filters_of(op: FftConv, spectra: torch.Tensor) -> torch.Tensor:
    """Real filters [channels, F] of spectra as `spectra_of` gives them."""
    length, found = int(op.transform_len), torch.view_as_complex(spectra.contiguous())
    if op.implementation == "cufft":
        half: torch.Tensor = torch.fft.irfft(found, n=length)
        return half
    ordered = torch.empty_like(found)
    ordered[:, frequencies(op).to(found.device)] = found
    whole: torch.Tensor = torch.fft.ifft(ordered).real
    return whole
