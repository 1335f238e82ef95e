"""The kernels that come with roofline, as data: what each runs, what it needs, and where its code is.

Shapes: ``example`` is large enough for the H200 class to reach its rate and takes less than 50 ms a call there; ``small`` is for
a comparison in float64 and for tests on a CPU, with sizes that quantised products accept (multiples of 16).
"""

from __future__ import annotations

from collections.abc import Mapping

from roofline.measure.catalog_triton import TRITON_CATALOG
from roofline.measure.spec import KernelSpec, kernel

FLOATS = ("bf16", "fp16", "fp32", "fp64")
MATRIX = ("bf16", "fp16", "tf32", "fp32", "fp64")
GIB = 2**30
TF32: Mapping[str, tuple[str, ...]] = {"tf32": ("cuda", "sm80")}

_ATTENTION = {"dtype": "bf16", "batch": 4, "heads": 32, "q_len": 4096, "kv_len": 4096, "head_dim": 128, "causal": True}
_SCORES = {"dtype": "bf16", "batch": 4, "heads": 16, "q_len": 2048, "kv_len": 2048, "head_dim": 64, "causal": True, "scale_pass": True}
_SMALL_ATTENTION = {"dtype": "fp32", "batch": 2, "heads": 4, "kv_heads": 2, "q_len": 64, "kv_len": 64, "head_dim": 32, "causal": True}
_SMALL_SCORES = {**_SMALL_ATTENTION, "scale_pass": True}
_EXPERTS = {"dtype": "bf16", "tokens": 4096, "experts": 8, "active": 2, "n": 28672, "k": 4096}
_SMALL_EXPERTS = {"dtype": "fp32", "tokens": 24, "experts": 6, "active": 2, "n": 48, "k": 64}
_HALF = {"dtype": "bf16"}
_MHA = {"kv_heads": 0}
_ROWS = {"dtype": "bf16", "rows": 16384, "cols": 8192}
_SMALL_ROWS = {"dtype": "fp32", "rows": 48, "cols": 80}


_PRODUCTS = (
    kernel(
        "gemm",
        "gemm",
        "cuBLAS or oneDNN product: matmul, with fp8 torch._scaled_mm (fast accumulation), int8 torch._int_mm",
        "gemm:gemm+gemm_backward",
        dtypes=(*MATRIX, "fp8", "fp8_e4m3", "int8"),
        needs_by_dtype={**TF32, "fp8": ("sm89",), "fp8_e4m3": ("sm89",), "int8": ("sm80",)},
        example={"dtype": "bf16", "m": 8192, "n": 8192, "k": 8192},
        small={"dtype": "fp32", "m": 48, "n": 64, "k": 96},
    ),
    kernel(
        "batched_gemm",
        "batched_gemm",
        "torch.bmm",
        "gemm:batched_gemm+batched_gemm_backward",
        dtypes=MATRIX,
        needs_by_dtype=TF32,
        example={"dtype": "bf16", "batch": 256, "m": 1024, "n": 1024, "k": 1024},
        small={"dtype": "fp32", "batch": 3, "m": 32, "n": 48, "k": 64},
    ),
    kernel(
        "grouped_gemm",
        "grouped_gemm",
        "torch._grouped_mm, all experts in one kernel; on a CPU one product an expert",
        "grouped:grouped_gemm",
        needs=("sm90",),
        dtypes=("bf16", "fp16", "fp32", "fp64"),
        needs_by_dtype={"fp16": ("cpu",), "fp32": ("cpu",), "fp64": ("cpu",)},
        example=_EXPERTS,
        small=_SMALL_EXPERTS,
    ),
    kernel(
        "grouped_gemm_looped",
        "grouped_gemm",
        "one product an expert, those without rows left out",
        "grouped:looped",
        dtypes=FLOATS,
        example=_EXPERTS,
        small=_SMALL_EXPERTS,
    ),
    kernel(
        "conv2d",
        "conv2d",
        "cuDNN or oneDNN convolution, channels last",
        "conv:conv2d+conv2d_backward",
        dtypes=MATRIX,
        needs_by_dtype=TF32,
        example={
            "dtype": "bf16",
            "batch": 64,
            "in_channels": 256,
            "out_channels": 256,
            "height": 56,
            "width": 56,
            "kernel": 3,
            "padding": 1,
        },
        small={"dtype": "fp32", "batch": 2, "in_channels": 16, "out_channels": 32, "height": 12, "width": 10, "kernel": 3, "padding": 1},
    ),
)

_ATTENTIONS = (
    kernel(
        "flash",
        "attention",
        "FlashAttention as built into torch",
        "attention:flash+flash_backward",
        needs=("sm80",),
        dtypes=("bf16", "fp16", "fp32", "fp64"),
        needs_by_dtype={"fp32": ("cpu",), "fp64": ("cpu",)},
        fields={"implementation": "flash"},
        example=_ATTENTION,
        small=_SMALL_ATTENTION,
    ),
    kernel(
        "cudnn",
        "attention",
        "fused attention of cuDNN",
        "attention:cudnn+cudnn_backward",
        needs=("cuda", "sm80"),
        dtypes=("bf16", "fp16"),
        fields={"implementation": "cudnn"},
        example=_ATTENTION,
        small={**_SMALL_ATTENTION, **_HALF, "head_dim": 64},
    ),
    kernel(
        "efficient",
        "attention",
        "memory-efficient attention (CUTLASS) as built into torch; as many key heads as query heads",
        "attention:efficient+efficient_backward",
        needs=("cuda",),
        dtypes=("bf16", "fp16", "fp32"),
        fields={"implementation": "efficient"},
        example=_ATTENTION,
        small={**_SMALL_ATTENTION, **_MHA, **_HALF},
    ),
    kernel(
        "decode",
        "attention",
        "FlashAttention of one new query a sequence over a cache of keys and values",
        "attention:flash",
        needs=("sm80",),
        dtypes=("bf16", "fp16", "fp32", "fp64"),
        needs_by_dtype={"fp32": ("cpu",), "fp64": ("cpu",)},
        fields={"implementation": "flash", "q_len": 1, "cache": True},
        example={"dtype": "bf16", "batch": 64, "heads": 32, "kv_heads": 8, "kv_len": 8192, "head_dim": 128, "causal": True},
        small={"dtype": "fp32", "batch": 2, "heads": 4, "kv_heads": 2, "kv_len": 80, "head_dim": 32, "causal": True},
    ),
    kernel(
        "naive",
        "attention",
        "eager torch: product, scale, causal mask built and applied, softmax, product; 5 kernels, 7 when causal",
        "attention_naive:naive+naive_backward",
        dtypes=MATRIX,
        needs_by_dtype=TF32,
        fields={"implementation": "naive"},
        example=_SCORES,
        small=_SMALL_SCORES,
    ),
    kernel(
        "math",
        "attention",
        "torch's own composite attention; scales Q and K apart and takes half precision by way of fp32",
        "attention_naive:math+math_backward",
        dtypes=MATRIX,
        needs_by_dtype=TF32,
        fields={"implementation": "naive"},
        capture_backward=False,
        example=_SCORES,
        small=_SMALL_SCORES,
    ),
)

_ROW_KERNELS = (
    kernel(
        "softmax",
        "softmax",
        "torch.softmax",
        "rows:softmax+softmax_backward",
        dtypes=FLOATS,
        fields={"implementation": "safe"},
        example=_ROWS,
        small=_SMALL_ROWS,
    ),
    kernel(
        "layernorm",
        "layernorm",
        "F.layer_norm; a residual is one kernel more",
        "rows:layernorm+layernorm_backward",
        dtypes=FLOATS,
        fields={"implementation": "fused"},
        capture_backward=False,
        example=_ROWS,
        small=_SMALL_ROWS,
    ),
    kernel(
        "rmsnorm",
        "rmsnorm",
        "F.rms_norm (several kernels before torch 2.9); a residual is one kernel more",
        "rows:rmsnorm+rmsnorm_backward",
        dtypes=FLOATS,
        capture_backward=False,
        example=_ROWS,
        small=_SMALL_ROWS,
    ),
    kernel(
        "rmsnorm_compiled",
        "rmsnorm",
        "F.rms_norm through torch.compile, a residual fused in",
        "compiled:rmsnorm",
        needs=("cuda", "triton"),
        dtypes=FLOATS,
        example={**_ROWS, "residual": True},
        small=_SMALL_ROWS,
    ),
    kernel(
        "cross_entropy",
        "cross_entropy",
        "F.cross_entropy: (cast,) log-softmax, pick; 2 or 3 kernels",
        "rows:cross_entropy+cross_entropy_backward",
        dtypes=FLOATS,
        fields={"fused": False, "mean": False},
        capture_backward=False,
        example={"dtype": "bf16", "tokens": 4096, "vocab": 128256, "scratch_dtype": "bf16"},
        small={"dtype": "fp32", "tokens": 40, "vocab": 112},
    ),
    kernel(
        "cross_entropy_compiled",
        "cross_entropy",
        "F.cross_entropy in fp32 through torch.compile, without log-probabilities in memory",
        "compiled:cross_entropy",
        needs=("cuda", "triton"),
        dtypes=FLOATS,
        fields={"fused": True, "mean": False},
        example={"dtype": "bf16", "tokens": 4096, "vocab": 128256},
        small={"dtype": "fp32", "tokens": 40, "vocab": 112},
    ),
    kernel(
        "reduction",
        "reduction",
        "torch.sum, torch.mean or torch.amax along rows",
        "memory:reduction+reduction_backward",
        dtypes=FLOATS,
        capture_backward=False,
        example={"dtype": "bf16", "rows": 16384, "cols": 16384},
        small={"dtype": "fp32", "rows": 24, "cols": 100},
    ),
)

_ELEMENT_KERNELS = (
    kernel(
        "elementwise",
        "elementwise",
        "one eager torch kernel for each function",
        "elementwise:elementwise+elementwise_backward",
        dtypes=FLOATS,
        capture_backward=False,
        example={"dtype": "bf16", "function": "gelu", "elements": 2**28},
        small={"dtype": "fp32", "function": "gelu", "elements": 1000},
    ),
    kernel(
        "elementwise_compiled",
        "elementwise",
        "the same functions through torch.compile",
        "compiled:elementwise",
        needs=("cuda", "triton"),
        dtypes=FLOATS,
        example={"dtype": "bf16", "function": "gelu", "elements": 2**28},
        small={"dtype": "fp32", "function": "gelu", "elements": 1000},
    ),
    kernel(
        "swiglu",
        "swiglu",
        "eager torch: silu, product; 2 kernels where the operator counts one pass",
        "elementwise:swiglu+swiglu_backward",
        dtypes=FLOATS,
        capture_backward=False,
        example={"dtype": "bf16", "rows": 16384, "cols": 14336},
        small=_SMALL_ROWS,
    ),
    kernel(
        "swiglu_compiled",
        "swiglu",
        "silu and product through torch.compile, 1 kernel",
        "compiled:swiglu",
        needs=("cuda", "triton"),
        dtypes=FLOATS,
        example={"dtype": "bf16", "rows": 16384, "cols": 14336},
        small=_SMALL_ROWS,
    ),
    kernel(
        "dropout",
        "dropout",
        "torch.native_dropout, which keeps a mask of one byte an element",
        "elementwise:dropout+dropout_backward",
        dtypes=FLOATS,
        fields={"seeded": False},
        example={"dtype": "bf16", "elements": 2**28},
        small={"dtype": "fp32", "elements": 4000},
    ),
    kernel(
        "rotary",
        "rotary",
        "eager torch: 4 products, sum, difference, concatenation for each of q and k; 14 kernels where the operator counts one pass",
        "elementwise:rotary+rotary_backward",
        dtypes=FLOATS,
        capture_backward=False,
        example={"dtype": "bf16", "tokens": 16384, "positions": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128},
        small={"dtype": "fp32", "tokens": 24, "positions": 8, "heads": 4, "kv_heads": 2, "head_dim": 16},
    ),
    kernel(
        "rotary_compiled",
        "rotary",
        "the same rotation through torch.compile",
        "compiled:rotary",
        needs=("cuda", "triton"),
        dtypes=FLOATS,
        fields={"in_place": False},
        example={"dtype": "bf16", "tokens": 16384, "positions": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128},
        small={"dtype": "fp32", "tokens": 24, "positions": 8, "heads": 4, "kv_heads": 2, "head_dim": 16},
    ),
)

_MEMORY_KERNELS = (
    kernel(
        "embedding",
        "embedding",
        "F.embedding, with ids all different as long as the vocabulary lasts",
        "memory:embedding+embedding_backward",
        dtypes=FLOATS,
        capture_backward=False,
        example={"dtype": "bf16", "tokens": 65536, "vocab": 128256, "hidden": 4096},
        small={"dtype": "fp32", "tokens": 40, "vocab": 64, "hidden": 32},
    ),
    kernel(
        "transpose",
        "transpose",
        "a strided copy, as x.t().contiguous() makes it",
        "memory:transpose+transpose_backward",
        dtypes=(*FLOATS, "int8"),
        fields={"implementation": "strided"},
        example={"dtype": "bf16", "rows": 8192, "cols": 8192},
        small={"dtype": "fp32", "rows": 48, "cols": 80},
    ),
    kernel(
        "copy",
        "copy",
        "copy within device memory",
        "memory:copy",
        dtypes=(*FLOATS, "int8", "int32", "int64"),
        fields={"over": ""},
        example={"dtype": "bf16", "elements": GIB // 2},
        small={"dtype": "fp32", "elements": 1000},
    ),
    kernel(
        "memcpy_h2d",
        "copy",
        "copy from pinned host memory to the device",
        "memory:host_to_device",
        needs=("cuda",),
        dtypes=(*FLOATS, "int8", "int32", "int64"),
        fields={"over": "pcie", "read": 0},
        example={"dtype": "int8", "write": GIB // 4},
        small={"dtype": "int8", "write": 4096},
    ),
    kernel(
        "memcpy_d2h",
        "copy",
        "copy from the device to pinned host memory",
        "memory:device_to_host",
        needs=("cuda",),
        dtypes=(*FLOATS, "int8", "int32", "int64"),
        fields={"over": "pcie", "write": 0, "elements": 0},
        example={"dtype": "int8", "read": GIB // 4},
        small={"dtype": "int8", "read": 4096},
    ),
    kernel(
        "adamw",
        "adamw",
        "fused AdamW of torch; a step count that stands still",
        "optimizer:adamw",
        dtypes=FLOATS,
        example={"dtype": "fp32", "parameters": 2**28},
        small={"dtype": "fp32", "parameters": 1000},
    ),
    kernel(
        "sgd",
        "sgd",
        "fused SGD of torch, not its first step",
        "optimizer:sgd",
        dtypes=FLOATS,
        # On a CPU torch's own step of 16 bits leaves whole vectors as they were (seen in 2.13).
        needs_by_dtype={"bf16": ("cuda",), "fp16": ("cuda",)},
        example={"dtype": "fp32", "parameters": 2**28, "momentum": True},
        small={"dtype": "fp32", "parameters": 1000, "momentum": True},
    ),
)

CATALOG: tuple[KernelSpec, ...] = (*_PRODUCTS, *_ATTENTIONS, *_ROW_KERNELS, *_ELEMENT_KERNELS, *_MEMORY_KERNELS, *TRITON_CATALOG)
"""Our kernels, in the order of the docs; of several that can run an operator the first is the default."""
