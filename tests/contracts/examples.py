"""A small valid example of every operator, and the dimension along which its work grows in proportion."""

from __future__ import annotations

from typing import Any

from roofline.ops import OPERATORS
from roofline.ops.base import Op

EXAMPLES: dict[str, tuple[dict[str, Any], ...]] = {
    "gemm": (
        {"m": 300, "n": 520, "k": 192},
        {"m": 7, "n": 512, "k": 256, "weight_dtype": "int4", "group_size": 64, "bias": True, "activation": "gelu", "accumulate": True},
        {"m": 4096, "n": 4096, "k": 4096, "dtype": "fp8"},
    ),
    "batched_gemm": ({"batch": 6, "m": 130, "n": 260, "k": 64},),
    "grouped_gemm": (
        {"tokens": 40, "experts": 8, "active": 2, "n": 512, "k": 256},
        {
            "tokens": 3,
            "experts": 60,
            "active": 4,
            "n": 520,
            "k": 192,
            "weight_dtype": "fp4",
            "group_size": 32,
            "scale_bytes": 1,
            "bias": True,
        },
        {"tokens": 4096, "experts": 8, "active": 8, "n": 512, "k": 128, "dtype": "fp8"},
    ),
    "attention": (
        {"batch": 2, "heads": 4, "q_len": 300, "kv_len": 300, "head_dim": 64},
        {"batch": 2, "heads": 8, "kv_heads": 2, "q_len": 256, "kv_len": 512, "head_dim": 64, "causal": True, "window": 100},
        {"batch": 2, "heads": 4, "q_len": 256, "kv_len": 256, "head_dim": 64, "implementation": "naive", "causal": True, "dropout": 0.1},
        {"batch": 2, "heads": 4, "q_len": 256, "kv_len": 256, "head_dim": 64, "implementation": "flash1", "sram": 100000},
        {
            "batch": 2,
            "heads": 8,
            "kv_heads": 2,
            "q_len": 1,
            "kv_len": 4096,
            "head_dim": 128,
            "cache": True,
            "kv_dtype": "fp8",
            "kv_splits": 8,
        },
    ),
    "latent_attention": (
        {"batch": 2, "heads": 16, "q_len": 1, "kv_len": 4096, "rank": 512, "rope": 64},
        {"batch": 2, "heads": 16, "q_len": 2, "kv_len": 4096, "rank": 512, "rope": 64, "top_k": 512, "kv_dtype": "fp8"},
    ),
    "softmax": (
        {"rows": 300, "cols": 1000},
        {"rows": 300, "cols": 200000, "implementation": "online"},
    ),
    "layernorm": (
        {"rows": 300, "cols": 768, "residual": True},
        {"rows": 300, "cols": 200000, "bias": False},
        {"rows": 300, "cols": 768, "residual": True, "implementation": "unfused"},
    ),
    "rmsnorm": ({"rows": 300, "cols": 768}, {"rows": 300, "cols": 200000, "residual": True}),
    "elementwise": (
        {"function": "gelu", "elements": 4096},
        {"function": "add", "elements": 4096, "out_dtype": "fp32"},
        {"function": "where", "elements": 4096},
        {"function": "fill", "elements": 4096},
    ),
    "swiglu": ({"rows": 300, "cols": 768},),
    "dropout": ({"elements": 4096}, {"elements": 4096, "seeded": True}),
    "rotary": ({"tokens": 300, "heads": 8, "kv_heads": 2, "head_dim": 64}, {"tokens": 300, "heads": 8, "head_dim": 64, "in_place": True}),
    "embedding": ({"tokens": 300, "vocab": 1000, "hidden": 64}, {"tokens": 3000, "vocab": 1000, "hidden": 64}),
    "cross_entropy": ({"tokens": 300, "vocab": 1000}, {"tokens": 300, "vocab": 200000, "fused": True}),
    "reduction": (
        {"rows": 300, "cols": 1000},
        {"rows": 300, "cols": 1000, "function": "mean"},
        {"rows": 300, "cols": 1000, "function": "max"},
    ),
    "transpose": ({"rows": 300, "cols": 520}, {"rows": 300, "cols": 520, "implementation": "staged"}),
    "copy": ({"elements": 4096}, {"read": 4096, "write": 8192}, {"elements": 4096, "over": "nvlink"}),
    "conv2d": (
        {"batch": 4, "in_channels": 64, "height": 28, "width": 28, "out_channels": 128, "kernel": 3, "padding": 1, "bias": True},
        {
            "batch": 4,
            "in_channels": 64,
            "height": 28,
            "width": 30,
            "out_channels": 64,
            "kernel": 3,
            "stride": 2,
            "groups": 64,
            "kernel_w": 1,
        },
    ),
    "fft_conv": (
        {"batch": 4, "channels": 64, "seq": 4096},
        {"batch": 4, "channels": 64, "seq": 1000, "kernel_len": 64, "fft_len": 1100, "gated": True, "dtype": "fp32"},
        {"batch": 1, "channels": 16, "seq": 131072, "dtype": "fp32", "spectrum": True},
        {"batch": 4, "channels": 64, "seq": 4096, "implementation": "flash", "gated": True, "real_packing": True},
        {"batch": 4, "channels": 64, "seq": 1024, "implementation": "flash", "padding": "circular", "order": 2, "spectrum": True},
        {"batch": 4, "channels": 64, "seq": 1048576, "implementation": "flash", "padding": "circular", "gated": True},
    ),
    "monarch": (
        {"rows": 300, "n": 1024},
        {"rows": 300, "n": 4096, "order": 3},
        {"rows": 300, "n": 16384, "implementation": "fused"},
    ),
    "m2": (
        {"batch": 4, "seq": 1024, "hidden": 768},
        {"batch": 4, "seq": 1024, "hidden": 768, "implementation": "cufft", "projections": False, "ffn": 768, "blocks": 1},
    ),
    "adamw": ({"parameters": 4096}, {"parameters": 4096, "master": True}),
    "sgd": ({"parameters": 4096}, {"parameters": 4096, "momentum": True, "master": True}),
    "all_reduce": (
        {"size": 12288, "ranks": 4, "over": "nvlink"},
        {"size": 12288, "ranks": 3, "over": "nvlink", "algorithm": "switch"},
    ),
    "all_gather": ({"size": 12288, "ranks": 4, "over": "nvlink"},),
    "reduce_scatter": ({"size": 12288, "ranks": 4, "over": "nvlink"},),
    "all_to_all": ({"size": 12288, "ranks": 4, "over": "nvlink"},),
    "broadcast": ({"size": 12288, "ranks": 4, "over": "nvlink"},),
    "send_recv": ({"size": 12288, "ranks": 4, "over": "nvlink"},),
    "custom": (
        {"tensor_flop": 1000, "vector_flop": 100, "sfu_ops": 10, "read": 4096, "write": 8192},
        {},
        {"tensor_flop": 1000, "read": 4096, "weights": 512, "cache": 2048},
    ),
}

GROWS_WITH = {
    "gemm": "m",
    "batched_gemm": "batch",
    "grouped_gemm": "tokens",
    "attention": "batch",
    "latent_attention": "batch",
    "softmax": "rows",
    "layernorm": "rows",
    "rmsnorm": "rows",
    "elementwise": "elements",
    "swiglu": "rows",
    "dropout": "elements",
    "rotary": "tokens",
    "embedding": "tokens",
    "cross_entropy": "tokens",
    "reduction": "rows",
    "transpose": "rows",
    "copy": "elements",
    "conv2d": "batch",
    "fft_conv": "channels",
    "monarch": "rows",
    "m2": "batch",
    "adamw": "parameters",
    "sgd": "parameters",
    "all_reduce": "size",
    "all_gather": "size",
    "reduce_scatter": "size",
    "all_to_all": "size",
    "broadcast": "size",
    "send_recv": "size",
    "custom": None,  # its work is what it is told
}


def op_of(name: str, values: dict[str, Any]) -> Op:
    """An operator of that name, in bf16 unless the values say otherwise."""
    return OPERATORS[name](**{"dtype": "bf16", **values})  # type: ignore[call-arg]


def examples() -> list[tuple[str, Op]]:
    """Each example under a readable id."""
    return [(f"{name}-{i}", op_of(name, values)) for name, variants in EXAMPLES.items() for i, values in enumerate(variants)]
