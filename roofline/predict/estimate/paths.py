"""How libraries cut streaming kernels into blocks, and where they take another kernel for the same function.

Facts of eager torch on CUDA (2.9 to 2.11), read from its dispatch and visible in its times: softmax keeps a row in a warp up to
2048 columns, in the registers of a block up to 9216, in shared memory where the row fits and is aligned, else streams it; a row
is reduced by one warp below 8192 columns; norms vectorise rows of a multiple of four; the driver copies whole pages faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from roofline.numeric import Number, where
from roofline.ops.launched import Stream

BLOCK_A_ROW = frozenset(
    (
        "softmax",
        "log_softmax",
        "softmax_backward",
        "log_softmax_backward",
        "layernorm",
        "rmsnorm",
        "norm_backward",
        "cross_entropy",
        "reduction",
        "fused_rows",
    )
)
"""Sorts of kernels in which a block, or a part of one, has a row to itself; the others cut all elements into blocks of one size."""
BLOCK_ELEMENTS = {"adamw": 65536, "sgd": 65536}
"""Elements of a block where these are many: multi-tensor kernels cut tensors into chunks of so many."""
FEW_ELEMENTS = 2048
"""Elements of a block elsewhere."""
SHARED_ROWS = frozenset(("reduction",))
FEW_ROWS = 16
"""Of these sorts so few rows are cut among many blocks."""
ONE_BLOCK = {"nll_mean": (1024.0, 16.0)}
"""Sorts of kernels that run in a single block: its most threads, and how many rows each takes before there are as many."""
STRIDED = frozenset(("transpose", "permute"))
"""Sorts of kernels that move a sector for each element on one side."""

HALF_WARP_COLS = 1024
WARP_COLS = 2048
"""A warp keeps a row of up to 1024, and with twice the registers of up to 2048."""
REGISTER_COLS = 6144
"""Up to here two blocks with a row in registers run on a processor, then one."""
BLOCK_COLS = 9216
SHARED_BYTES = 48 * 1024 - 128
"""Static shared memory of a block, less what the reductions take."""
VECTOR_BYTES = 16
REDUCED_BY_BLOCK_COLS = 8161
"""Columns of which a warp's lane would add 256 or more; then all warps of a block share a row."""
VECTORISED = {"elementwise": 1024}
"""Elements of a block that reads them in vectors; a block with fewer, at the end, reads one at a time."""
PAGE_BYTES = 4096
FAST_COPY_BYTES = 3e8
"""The driver's faster copy takes whole pages up to about so many bytes."""
BLOCK_FFTS = (512, 8192, 16384, 32768)
"""Elements of a real transform beyond which a block takes more threads, then so much shared memory that fewer blocks run together."""
RESIDENT_SPECTRA = 4.4e6
"""Numbers of a set of spectra that L2 (50 MiB) still holds beside as much read and as much written."""
NEAR_LINES = (16, 64, 1024)
"""Lines that half a warp, a warp and a block read before they come back to one."""
L2_LINES = (3.9e5, 7.8e5)
"""Lines of 64 bytes that fill half of L2 (50 MiB), and all of it."""
WIDE_LINES = 96
"""Elements beyond which lines that are read one after the other lie in other pages of memory."""
RESIDENT_BYTES = 4e7
"""A tensor that stays in L2 as a whole, however it is read."""


def _softmax(kernel: Stream) -> tuple[Any, ...]:
    """A wide warp; a block's registers; one such block at a time; shared memory; streamed; streamed without alignment."""
    cols, row_bytes = kernel.cols, kernel.read_bytes / kernel.rows
    beyond, unaligned = cols > BLOCK_COLS, row_bytes % VECTOR_BYTES > 0
    narrow = (cols > HALF_WARP_COLS, cols > WARP_COLS, cols > REGISTER_COLS)
    return *narrow, beyond, beyond & (row_bytes > SHARED_BYTES), beyond & unaligned


def _reduction(kernel: Stream) -> tuple[Any, ...]:
    """A row by all warps of a block; and a few rows by all blocks."""
    return kernel.cols >= REDUCED_BY_BLOCK_COLS, kernel.rows < FEW_ROWS


def _norm(kernel: Stream) -> tuple[Any, ...]:
    """Rows that cannot be read four elements at a time."""
    return (kernel.cols % 4 > 0,)


def _copy(kernel: Stream) -> tuple[Any, ...]:
    """By the driver's slower kernel."""
    return ((kernel.write_bytes % PAGE_BYTES > 0) | (kernel.write_bytes > FAST_COPY_BYTES),)


def _fft(kernel: Stream) -> tuple[Any, ...]:
    """By the length of a transform that one block takes."""
    return tuple(kernel.cols > longest for longest in BLOCK_FFTS)


def _spectra(kernel: Stream) -> tuple[Any, ...]:
    """Spectra that each row of the batch reads again from memory; and a single row, which is read in vectors."""
    return kernel.cols > RESIDENT_SPECTRA, kernel.rows < 2


def _permute(kernel: Stream) -> tuple[Any, ...]:
    """By where a line waits until its next element is read, with as many lines as rows between: in L1, in L2, or in memory."""
    half, full = ((kernel.rows > held) & (kernel.read_bytes > RESIDENT_BYTES) for held in L2_LINES)
    return *(kernel.rows > held for held in NEAR_LINES), half, full, full & (kernel.cols > WIDE_LINES)


PATHS: Mapping[str, Callable[[Stream], tuple[Any, ...]]] = {
    "softmax": _softmax,
    "log_softmax": _softmax,
    "reduction": _reduction,
    "layernorm": _norm,
    "rmsnorm": _norm,
    "copy": _copy,
    "fft": _fft,
    "spectra": _spectra,
    "permute": _permute,
}
"""By sort of kernel: whether it is on the second path, the third ...; the last that is true holds, else the first."""
NUMBER_OF_PATHS = {
    "softmax": 7,
    "log_softmax": 7,
    "reduction": 3,
    "layernorm": 2,
    "rmsnorm": 2,
    "copy": 2,
    "fft": 5,
    "spectra": 3,
    "permute": 7,
}
"""With the first."""


def _softmax_rows(kernel: Stream) -> Number:
    return where(kernel.cols > WARP_COLS, where((kernel.cols > REGISTER_COLS) & (kernel.cols <= BLOCK_COLS), 1.0, 2.0), 32.0)


def _reduction_rows(kernel: Stream) -> Number:
    return where(kernel.cols >= REDUCED_BY_BLOCK_COLS, 4.0, 64.0)


def _norm_rows(kernel: Stream) -> Number:
    return 16.0


ROWS_RESIDENT: Mapping[str, Callable[[Stream], Number]] = {
    "softmax": _softmax_rows,
    "log_softmax": _softmax_rows,
    "reduction": _reduction_rows,
    "layernorm": _norm_rows,
    "rmsnorm": _norm_rows,
    "cross_entropy": _norm_rows,
    "softmax_backward": _softmax_rows,
    "log_softmax_backward": _softmax_rows,
}
"""Rows in flight on a processor: 2048 threads over those of a block, times the rows of a block, less where registers are short."""


def _streamed_back(kernel: Stream) -> Number:
    """The gradient, half of what is read, is summed first; only what fits in shared memory is kept for the second sweep."""
    return where(kernel.read_bytes / kernel.rows > 2 * SHARED_BYTES, 0.5, 0.0)


def _streamed(kernel: Stream) -> Number:
    return where((kernel.cols > BLOCK_COLS) & (kernel.read_bytes / kernel.rows > SHARED_BYTES), 2.0, 0.0)


SWEEPS: Mapping[str, Callable[[Stream], Number]] = {
    "softmax": _streamed,
    "log_softmax": _streamed,
    "layernorm": lambda kernel: 1.0,
    "rmsnorm": lambda kernel: 1.0,
    "cross_entropy": lambda kernel: 1.0,
    "softmax_backward": _streamed_back,
    "log_softmax_backward": _streamed_back,
}
"""Further sweeps over a row that is not kept on chip."""


def _warp_cols(kernel: Stream) -> Number:
    """Lanes of a warp hold a power of two of columns; those beyond the row are computed but not loaded: two parts in five."""
    cols = kernel.cols
    padded: Number = cols
    for power in (2048.0, 1024.0, 512.0, 256.0, 128.0):
        padded = where(cols <= power, power, padded)
    return 0.6 * cols + 0.4 * padded


PADDED: Mapping[str, Callable[[Stream], Number]] = {"softmax": _warp_cols, "log_softmax": _warp_cols}
"""Columns that count as arithmetic, for sorts that round them up."""
