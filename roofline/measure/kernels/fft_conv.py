"""Convolution by FFT through torch.fft, which runs cuFFT on a GPU: every step a kernel of its own, in fp32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofline.measure.allocate import Tensors
from roofline.ops.fft_conv import FftConv


def filter_spectra(op: FftConv, tensors: Tensors) -> torch.Tensor:
    """Spectra of the filters, transformed now unless they are given."""
    if op.spectrum:
        return torch.view_as_complex(tensors["k"])
    found: torch.Tensor = torch.fft.rfft(tensors["k"], n=int(op.transform_len))
    return found


def fft_conv(op: FftConv, tensors: Tensors) -> Callable[[], Any]:
    """y of u: cast, gate, transform, product of spectra, inverse, gate, cast."""
    length, seq = int(op.transform_len), int(op.seq)

    def run() -> torch.Tensor:
        x = tensors["u"].float()
        x = x * tensors["pre_gate"] if op.gated else x
        spectra = torch.fft.rfft(x, n=length) * filter_spectra(op, tensors)
        y = torch.fft.irfft(spectra, n=length)[..., :seq]
        tensors["y"].copy_(y * tensors["post_gate"] if op.gated else y)
        return tensors["y"]

    return run
