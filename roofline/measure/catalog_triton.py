"""Kernels of our own in Triton, and those beside which they stand; and families of kernels of one operator, in order.

A kernel names the shipped dataflow that describes it (``workloads/dataflows``; sizes of the operator may be part of the name), so that
what should bind stands beside what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roofline.measure.spec import KernelSpec, kernel

HALF = ("bf16", "fp16")
ROWS = ("bf16", "fp16", "fp32")
TRITON, MATRIX = ("triton",), ("triton", "sm80")

_GEMM = {"dtype": "bf16", "m": 4096, "n": 4096, "k": 4096}
_SHORT = {"dtype": "bf16", "m": 1024, "n": 1024, "k": 1024}
_SMALL = {"dtype": "fp16", "m": 72, "n": 48, "k": 80}
_CONV = {"dtype": "bf16", "batch": 64, "channels": 768, "seq": 4096, "padding": "circular"}
_SMALL_CONV = {"dtype": "fp16", "batch": 3, "channels": 2, "seq": 8192, "padding": "circular"}
_MONARCH = {"dtype": "bf16", "rows": 16384, "n": 4096}
_SMALL_MONARCH = {"dtype": "fp16", "rows": 40, "n": 256}
_LAYER = {"dtype": "bf16", "batch": 32, "seq": 1024, "hidden": 768}
_SMALL_LAYER = {"dtype": "fp16", "batch": 3, "seq": 4096, "hidden": 64, "ffn": 128}

_LADDER = (
    kernel(
        "gemm_naive",
        "gemm",
        "a result a lane, lanes along rows: each load of A touches a sector a lane",
        "gemm_ladder:gemm_naive",
        needs=TRITON,
        dtypes=ROWS,
        example=_SHORT,
        small=_SMALL,
        dataflow="gemm:naive",
    ),
    kernel(
        "gemm_coalesced",
        "gemm",
        "a result a lane, lanes along columns: loads of W are one piece",
        "gemm_ladder:gemm_coalesced",
        needs=TRITON,
        dtypes=ROWS,
        example=_SHORT,
        small=_SMALL,
        dataflow="gemm:coalesced",
    ),
    kernel(
        "gemm_shared",
        "gemm",
        "tiles in shared memory, a result a thread, on vector lanes",
        "gemm_ladder:gemm_shared",
        needs=TRITON,
        dtypes=ROWS,
        example=_SHORT,
        small=_SMALL,
        dataflow="gemm:smem",
    ),
    kernel(
        "gemm_tiled",
        "gemm",
        "tiles in shared memory, a register tile of results a thread, on vector lanes",
        "gemm_ladder:gemm_tiled",
        needs=TRITON,
        dtypes=ROWS,
        example=_GEMM,
        small=_SMALL,
        dataflow="gemm:tile2d",
    ),
    kernel(
        "gemm_tensor",
        "gemm",
        "tiles into the matrix unit, loads and products one after the other",
        "gemm_ladder:gemm_tensor",
        needs=MATRIX,
        dtypes=HALF,
        example=_GEMM,
        small=_SMALL,
        dataflow="gemm:tensor",
    ),
    kernel(
        "gemm_pipelined",
        "gemm",
        "several tiles in flight by asynchronous copies, in an order that shares panels in L2",
        "gemm_ladder:gemm_pipelined",
        needs=MATRIX,
        dtypes=HALF,
        example=_GEMM,
        small=_SMALL,
        dataflow="gemm:pipelined",
    ),
    kernel(
        "gemm_persistent",
        "gemm",
        "one program a processor, tiles copied by TMA",
        "gemm_ladder:gemm_persistent",
        needs=("triton", "sm90"),
        dtypes=HALF,
        example=_GEMM,
        small=_SMALL,
        dataflow="gemm:pipelined",
    ),
)

_ATTENTION = (
    kernel(
        "flash_triton",
        "attention",
        "FlashAttention of ours: keys and values past a block of queries; backward by keys and by queries",
        "flash_tiled:flash_triton+flash_triton_backward",
        needs=MATRIX,
        dtypes=HALF,
        fields={"implementation": "flash"},
        example={"dtype": "bf16", "batch": 4, "heads": 32, "q_len": 4096, "kv_len": 4096, "head_dim": 128, "causal": True},
        small={"dtype": "fp16", "batch": 2, "heads": 4, "kv_heads": 2, "q_len": 200, "kv_len": 200, "head_dim": 64, "causal": True},
        dataflow="attention:flash2",
    ),
)

_BY_ROWS = (
    kernel(
        "softmax_triton",
        "softmax",
        "rows in registers; longer ones with maximum and sum in one sweep",
        "rows_tiled:softmax_triton",
        needs=TRITON,
        dtypes=ROWS,
        fields={"implementation": "online"},
        example={"dtype": "bf16", "rows": 16384, "cols": 8192},
        small={"dtype": "fp32", "rows": 5, "cols": 80},
        dataflow="softmax:online",
    ),
    kernel(
        "rmsnorm_triton",
        "rmsnorm",
        "residual, sum and norm in one kernel",
        "rows_tiled:rmsnorm_triton",
        needs=TRITON,
        dtypes=ROWS,
        example={"dtype": "bf16", "rows": 16384, "cols": 8192, "residual": True},
        small={"dtype": "fp32", "rows": 5, "cols": 80},
    ),
)

_MIXERS = (
    kernel(
        "fft_conv",
        "fft_conv",
        "torch.fft: cast, gate, transform, product of spectra, inverse, gate, cast",
        "fft_conv:fft_conv",
        dtypes=("bf16", "fp16", "fp32"),
        fields={"implementation": "cufft"},
        example=_CONV,
        small={"dtype": "fp32", "batch": 2, "channels": 3, "seq": 100},
        dataflow="fft_conv:cufft",
    ),
    kernel(
        "fft_conv_triton",
        "fft_conv",
        "FlashFFTConv of ours: DFT matrices on the matrix unit, pairs of sequences as complex ones, orders 2 and 3",
        "fft_conv_tiled:fft_conv_triton",
        needs=MATRIX,
        dtypes=HALF,
        fields={"implementation": "flash"},
        example={**_CONV, "real_packing": True},
        small={**_SMALL_CONV, "real_packing": True},
        dataflow="fft_conv:pairs{order}",
    ),
    kernel(
        "monarch",
        "monarch",
        "torch.bmm and a permuting copy for each factor",
        "monarch:monarch",
        dtypes=("bf16", "fp16", "fp32", "fp64"),
        fields={"implementation": "bmm"},
        example=_MONARCH,
        small={**_SMALL_MONARCH, "dtype": "fp32"},
        dataflow="monarch:unfused",
    ),
    kernel(
        "monarch_triton",
        "monarch",
        "a kernel a factor with its permutation in the store; programs keep their weights",
        "monarch_tiled:monarch_triton",
        needs=MATRIX,
        dtypes=HALF,
        fields={"implementation": "fused"},
        example=_MONARCH,
        small=_SMALL_MONARCH,
        dataflow="monarch:factors",
    ),
    kernel(
        "m2",
        "m2",
        "Monarch Mixer layer in torch: bmm, torch.fft, GELU a kernel of its own",
        "monarch:m2",
        dtypes=("bf16", "fp16", "fp32"),
        fields={"implementation": "cufft", "projection_blocks": 1},
        example=_LAYER,
        small={**_SMALL_LAYER, "dtype": "fp32", "seq": 100},
    ),
    kernel(
        "m2_triton",
        "m2",
        "Monarch Mixer layer with our convolution and block products; projections by torch",
        "monarch_tiled:m2_triton",
        needs=MATRIX,
        dtypes=HALF,
        fields={"implementation": "flash", "projection_blocks": 1},
        example=_LAYER,
        small=_SMALL_LAYER,
    ),
)

TRITON_CATALOG: tuple[KernelSpec, ...] = (*_LADDER, *_ATTENTION, *_BY_ROWS, *_MIXERS)
"""In the order of the docs."""


# --------------------------------------------------------------------------- families
@dataclass(frozen=True, kw_only=True)
class Family:
    """Kernels of one operator in an order, such as from the slowest to the fastest, with a shape that all of them run."""

    op: str
    name: str
    title: str
    kernels: tuple[str, ...]
    example: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)


_HEADS = {"dtype": "bf16", "batch": 2, "heads": 16, "q_len": 4096, "kv_len": 4096, "head_dim": 128, "causal": True}
_FEW_HEADS = {"dtype": "fp16", "batch": 1, "heads": 2, "q_len": 48, "kv_len": 48, "head_dim": 64, "causal": True}

FAMILIES: tuple[Family, ...] = (
    Family(
        op="gemm",
        name="ladder",
        title="the same product with less and less traffic at the level that binds",
        kernels=(*(spec.name for spec in _LADDER), "gemm"),
        example=_GEMM,
        small={"dtype": "fp16", "m": 16, "n": 16, "k": 16},
    ),
    Family(
        op="attention",
        name="dataflows",
        title="scores in memory, and on chip",
        kernels=("naive", "flash_triton", "flash", "cudnn"),
        example=_HEADS,
        small=_FEW_HEADS,
    ),
    Family(
        op="fft_conv",
        name="dataflows",
        title="every step through memory, and one kernel",
        kernels=("fft_conv", "fft_conv_triton"),
        example=_CONV,
        small={"dtype": "fp16", "batch": 2, "channels": 1, "seq": 512},
    ),
    Family(
        op="monarch",
        name="dataflows",
        title="products and permuting copies, and permutations in the stores",
        kernels=("monarch", "monarch_triton"),
        example=_MONARCH,
        small=_SMALL_MONARCH,
    ),
)
"""What ``--implementation`` names."""
