"""FlashFFTConv of ours (`roofline.measure.kernels.triton_fft_conv`) as a kernel of the operator fft_conv.

Pairs of sequences are packed into complex ones, which costs what ``real_packing`` counts. Spectra of the filters are made on every call
unless they are given: as [channels, F, 2] in the order of `frequencies`, of filters that are real.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors, torch_dtype
from roofline.measure.kernels import triton_fft_conv
from roofline.measure.kernels.triton_or_none import type_of
from roofline.measure.kernels.tuning import Config, Launch, tuned
from roofline.measure.spectra import flash_factors
from roofline.ops.fft_conv import FftConv

MOST_ROWS = 128
"""Rows of a tile: pairs of sequences, or parts of one, are stacked up to that many; 64 fill an instruction of four warps."""
LEAST_ROWS = 64
THREE_BLOCKS = 168
"""Registers a thread with which three blocks of four warps share a processor."""
WIDEST = 128
"""Of a DFT matrix: a wider one does not fit in shared memory beside a tile."""
OUTER_TILES = (
    {"rows": LEAST_ROWS, "AT_ONCE": 3, "num_warps": 4, "num_stages": 1},
    {"rows": LEAST_ROWS, "AT_ONCE": 4, "num_warps": 4, "num_stages": 1, "maxnreg": 128},
    {"rows": LEAST_ROWS, "AT_ONCE": 4, "num_warps": 4, "num_stages": 3, "maxnreg": 128},
    {"rows": MOST_ROWS, "AT_ONCE": 2, "num_warps": 8, "num_stages": 1, "maxnreg": 128},
)
"""Order 3: programs a processor, with registers and shared memory for as many: stages that load ahead take the latter."""


def _refuse(op: FftConv) -> None:
    factors = flash_factors(op)
    padded = op.seq * 2 <= op.transform_len
    reasons = {
        "order 4": op.order == 4,
        f"a transform of {' x '.join(map(str, factors))}": max(factors) > WIDEST or min(factors) < 16,
        "two DFT matrices of 128 beside each other": factors == (WIDEST, WIDEST) and padded,
        "a dtype but bf16 and fp16": op.dtype not in ("bf16", "fp16"),
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise UsageError(f"kernel 'fft_conv_triton' cannot run {', '.join(found)}")


# --------------------------------------------------------------------------- constants
@lru_cache(maxsize=64)
def dft_matrix(n: int, rows: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """The unitary DFT matrix of n, its first ``rows`` rows, as [2 rows, 2 n] reals: a block [[re, im], [-im, re]] for each number."""
    angle = torch.outer(torch.arange(rows), torch.arange(n)).remainder(n).double() * (-2 * math.pi / n)
    re, im = angle.cos() / math.sqrt(n), angle.sin() / math.sqrt(n)
    blocks = torch.stack((torch.stack((re, im), -1), torch.stack((-im, re), -1)), 1)  # [rows, 2, n, 2]
    return blocks.reshape(2 * rows, 2 * n).to(device=device, dtype=dtype)


@lru_cache(maxsize=64)
def twiddles(outer: int, inner: tuple[int, ...], device: str) -> torch.Tensor:
    """exp(-2 pi i a b / (outer M)) of a < outer, b < M = the product of ``inner``, as [b, a, 2]; then the conjugates by [a, b, 2].

    Those are in the order of the tiles that they multiply: b = n1 N2 + n2 by [n2, n1] where ``inner`` is (N1, N2). fp16 has the digits.
    """
    m = math.prod(inner)
    angle = torch.outer(torch.arange(m), torch.arange(outer)).double() * (-2 * math.pi / (outer * m))
    forward = torch.stack((angle.cos(), angle.sin()), -1)
    back = torch.stack((angle.cos(), -angle.sin()), -1).transpose(0, 1)
    if len(inner) == 2:
        back = back.reshape(outer, *inner, 2).transpose(1, 2)
    return torch.cat([forward.reshape(-1), back.reshape(-1)]).to(device=device, dtype=torch.float16)


class _Plan:
    """Sizes and constants of a convolution."""

    def __init__(self, op: FftConv, device: torch.device) -> None:
        self.op, self.device = op, device
        self.factors = flash_factors(op)
        self.length, self.seq = int(op.transform_len), int(op.seq)
        self.batch, self.channels = int(op.batch), int(op.channels)
        self.filter_len = int(op.filter_len)
        self.dtype, place = torch_dtype(op.dtype), str(device)
        first = self.factors[0]
        self.rows = self._rows(self.seq)
        self.filter_rows = self._rows(self.filter_len)
        self.first = {rows: dft_matrix(first, rows, self.dtype, place) for rows in {self.rows, self.filter_rows}}
        self.rest = [dft_matrix(n, n, self.dtype, place) for n in self.factors[1:]]
        self.tables = [twiddles(n, self.factors[i + 1 :], place) for i, n in enumerate(self.factors[:-1])]

    def _rows(self, elements: int) -> int:
        """Rows [n, rest] of a sequence that are not all zero, as many as a tile may have: a power of two from 8 on."""
        return max(8, 1 << (-(-elements * self.factors[0] // self.length) - 1).bit_length())

    def names(self, last: int = 2) -> dict[str, int]:
        """The factors as the kernels call them: N1 and N2, before them N0."""
        return {f"N{i}": n for i, n in zip(range(last + 1 - len(self.factors), last + 1), self.factors, strict=True)}

    def stacked(self, rows: int) -> int:
        """Inner sequences of a tile of at least so many rows, whichever way it lies."""
        return max(1, rows // min(self.factors[-2:]))

    def block(self, rows: int) -> int:
        """Columns of an outer tile."""
        return min(rows, math.prod(self.factors[1:]))

    def configs(self) -> list[Config]:
        """Order 2: a warpgroup's rows, with registers as they come or for three; order 3: `OUTER_TILES`, fewer for long sequences."""
        if len(self.factors) == 2:
            return self._inner_tiles()
        return [self._outer_tile(**c) for c in OUTER_TILES if self.length <= 32768 or c["rows"] == LEAST_ROWS]

    def _inner_tiles(self) -> list[Config]:
        if max(self.factors) > LEAST_ROWS:
            return [{"P": 1, "num_warps": 8}]
        tile = {"P": self.stacked(LEAST_ROWS), "num_warps": 4}
        return [tile, {**tile, "maxnreg": THREE_BLOCKS}]

    def _outer_tile(self, rows: int, **how: int) -> Config:
        return {"BLOCK": self.block(rows), "P": min(self.stacked(rows), self.factors[0]), **how}


# --------------------------------------------------------------------------- launches
def fft_conv_triton(op: FftConv, tensors: Tensors) -> Callable[[], Any]:
    """y of u in one kernel, after one for the spectra of the filters."""
    _refuse(op)
    plan = _Plan(op, tensors["u"].device)
    spectra, before = _spectra(plan, tensors)
    u, y = tensors["u"], tensors["y"]
    around = [u, tensors.get("pre_gate", u), tensors.get("post_gate", u), y, spectra]  # without gates they are not read
    make = _order2(plan, around) if len(plan.factors) == 2 else _order3(plan, around)
    before()
    key = ("fft_conv", op.dtype, plan.batch, plan.channels, plan.seq, plan.length, plan.factors, bool(op.gated))
    run = tuned(key, plan.configs(), make, u.device)

    def call() -> torch.Tensor:
        before()
        run()
        return y

    return call


def _matrices(plan: _Plan, rows: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """DFT matrices and twiddles, in the kernels' order of arguments."""
    return [plan.first[rows], *plan.rest], plan.tables


def _order2(plan: _Plan, around: Sequence[torch.Tensor]) -> Callable[[Config], Launch]:
    matrices, tables = _matrices(plan, plan.rows)
    sizes = (plan.batch, plan.channels, plan.seq)

    def make(config: Config) -> Launch:
        pairs = 2 * int(config["P"])
        even = plan.batch % pairs == 0 and plan.rows * plan.factors[1] == plan.seq
        grid = (-(-plan.batch // pairs) * plan.channels,)
        constants = {**plan.names(), "ROWS": plan.rows, "GATED": bool(plan.op.gated), "EVEN": even, **config}
        return lambda: triton_fft_conv.convolve[grid](*around, *matrices, *tables, *sizes, **constants)

    return make


def _order3(plan: _Plan, around: Sequence[torch.Tensor]) -> Callable[[Config], Launch]:
    matrices, tables = _matrices(plan, plan.rows)
    sizes = (plan.batch, plan.channels, plan.seq)
    items = -(-plan.batch // 2) * plan.channels
    cuda = plan.device.type == "cuda"
    processors = torch.cuda.get_device_properties(plan.device).multi_processor_count if cuda else 1

    def make(config: Config) -> Launch:
        programs = min(items, processors * int(config["AT_ONCE"]))
        scratch = torch.empty((programs, plan.length, 2), dtype=plan.dtype, device=plan.device)
        even = plan.batch % 2 == 0 and plan.rows * math.prod(plan.factors[1:]) == plan.seq
        constants = {**plan.names(), "ROWS": plan.rows, "GATED": bool(plan.op.gated), "EVEN": even, **_without(config, "AT_ONCE")}
        return lambda: triton_fft_conv.convolve_outer[(programs,)](*around, *matrices, *tables, scratch, *sizes, **constants)

    return make


def _without(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {k: v for k, v in config.items() if k != name}


def _spectra(plan: _Plan, tensors: Tensors) -> tuple[torch.Tensor, Launch]:
    """Where the spectra lie, and what makes them: a kernel, or where they are given nothing."""
    if plan.op.spectrum:
        return tensors["k"], lambda: None
    k = tensors["k"]
    spectra = torch.empty((plan.channels, plan.length, 2), dtype=plan.dtype, device=plan.device)
    matrices, tables = _matrices(plan, plan.filter_rows)
    sizes = (plan.channels, plan.filter_len, math.sqrt(plan.length))
    warps = 8 if len(plan.factors) == 2 and max(plan.factors) > LEAST_ROWS else 4
    constants = {**plan.names(), "ROWS": plan.filter_rows, "TYPE": type_of(plan.dtype), "num_warps": warps, "num_stages": 1}
    if len(plan.factors) == 2:
        p = plan.stacked(LEAST_ROWS)
        grid = (-(-plan.channels // p),)
        return spectra, lambda: triton_fft_conv.spectrum[grid](k, spectra, *matrices, *tables, *sizes, P=p, **constants)
    block, p = plan.block(LEAST_ROWS), min(plan.stacked(LEAST_ROWS), plan.factors[0])
    scratch, grid = torch.empty_like(spectra), (plan.channels,)
    return spectra, lambda: triton_fft_conv.spectrum_outer[grid](
        k, spectra, *matrices, *tables, scratch, *sizes, BLOCK=block, P=p, **constants
    )
