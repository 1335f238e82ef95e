"""The kernels that an estimator is calibrated on, as data: a few shapes for each regime of each sort of kernel.

Regimes: ``launch`` (work far below what a launch costs), ``memory``, ``ridge`` (bytes and arithmetic tie), ``compute``, ``tail``
(a last wave that fills few processors, a size just above a tile), ``odd`` (rows that do not start at 16 bytes). Chosen to tell
the parameters of a model apart, not at random: a dozen random products leave the fixed cost or the bandwidth unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MIB = 2**20
Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """A kernel at one shape, and what decides its time there."""

    kernel: str
    regime: str
    fields: Fields
    direction: str = "forward"

    @property
    def label(self) -> str:
        """Kernel, shape and, where it is not forward, the pass, in one word each."""
        words = [self.kernel, *(f"{k}={v}" for k, v in self.fields.items())]
        return " ".join(words if self.direction == "forward" else [*words, f"pass={self.direction}"])


Shapes = Mapping[str, Sequence[tuple[Any, ...]]]
"""Shapes by regime, each in the order of the names."""


def _cases(kernel: str, names: str, shapes: Shapes, dtype: str = "bf16", **same: Any) -> Iterator[Regime]:
    keys = names.split()
    for regime, found in shapes.items():
        for shape in found:
            yield Regime(kernel=kernel, regime=regime, fields={**dict(zip(keys, shape, strict=True)), **same, "dtype": dtype})


_PRODUCTS: Shapes = {
    "launch": ((16, 512, 512), (128, 256, 256), (512, 512, 512), (1024, 1024, 256)),
    "memory": ((1, 8192, 8192), (16, 8192, 8192), (64, 14336, 4096), (32, 4096, 4096), (8, 2048, 2048), (128, 6144, 4096)),
    "ridge": ((256, 8192, 8192), (256, 4096, 14336), (512, 4096, 4096), (8192, 8192, 256), (4096, 4096, 64)),
    "compute": ((1024, 4096, 4096), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (2048, 28672, 4096)),
    "tail": ((2176, 4096, 4096), (4096, 4352, 4096), (1100, 3000, 2048), (128, 128, 16384), (16384, 64, 4096)),
    "odd": ((1001, 1001, 1001), (333, 777, 555), (4097, 4097, 4097)),
}
_FEW_PRODUCTS: Shapes = {
    "launch": ((128, 256, 256), (512, 512, 512)),
    "memory": ((32, 8192, 8192), (64, 14336, 4096)),
    "ridge": ((512, 4096, 4096), (4096, 4096, 256)),
    "compute": ((2048, 2048, 2048), (4096, 4096, 4096)),
    "tail": ((1104, 3008, 2048), (128, 128, 16384)),
}
_BATCHED: Shapes = {
    "launch": ((8, 64, 64, 64), (64, 128, 128, 64)),
    "memory": ((256, 32, 2048, 64), (64, 1024, 1024, 64), (512, 128, 128, 128)),
    "compute": ((64, 1024, 1024, 1024), (32, 2048, 128, 2048), (16, 4096, 4096, 128)),
}
_CONV: Shapes = {
    "launch": ((8, 64, 64, 14, 14, 1, 1, 0),),
    "memory": ((64, 64, 64, 56, 56, 1, 1, 0), (64, 3, 64, 224, 224, 7, 2, 3)),
    "compute": (
        (64, 64, 64, 56, 56, 3, 1, 1),
        (64, 128, 128, 28, 28, 3, 1, 1),
        (64, 256, 256, 14, 14, 3, 1, 1),
        (64, 512, 512, 14, 14, 1, 2, 0),
    ),
    "tail": ((32, 512, 512, 7, 7, 3, 1, 1),),
}
_SEQUENCES: Shapes = {
    "launch": ((1, 8, 8, 128, 128, 128, True), (2, 16, 4, 256, 256, 64, False)),
    "memory": ((32, 32, 32, 192, 192, 64, True), (16, 32, 8, 256, 256, 128, False)),
    "compute": (
        (1, 32, 8, 4096, 4096, 128, True),
        (8, 32, 32, 1024, 1024, 64, False),
        (4, 16, 16, 2048, 2048, 128, False),
        (2, 32, 8, 4096, 4096, 64, True),
        (4, 8, 8, 2048, 2048, 256, True),
        (1, 16, 16, 8192, 8192, 256, False),
    ),
    "tail": ((1, 12, 12, 1500, 1500, 128, True), (1, 8, 8, 2048, 2048, 64, True)),
}
_FEW_SEQUENCES: Shapes = {
    "launch": ((1, 8, 8, 128, 128, 128, True),),
    "compute": ((1, 32, 32, 4096, 4096, 128, True), (8, 16, 16, 1024, 1024, 64, False), (2, 16, 16, 2048, 2048, 128, False)),
}
_DECODES: Shapes = {
    "launch": ((1, 32, 8, 1, 256, 128, False), (8, 32, 32, 1, 128, 64, False)),
    "memory": (
        (1, 32, 8, 1, 65536, 128, False),
        (8, 32, 8, 1, 4096, 128, False),
        (32, 32, 8, 1, 4096, 128, False),
        (8, 16, 16, 1, 4096, 64, False),
        (64, 32, 32, 1, 2048, 128, False),
        (128, 32, 8, 1, 2048, 128, False),
        (16, 32, 32, 1, 8192, 128, False),
        (4, 64, 8, 1, 16384, 64, False),
    ),
    "tail": ((5, 40, 40, 1, 3000, 128, False), (1, 12, 12, 1, 8192, 64, False)),
}
_ROWS: Shapes = {
    "launch": ((64, 1024), (1024, 1024), (128, 8192)),
    "memory": ((16384, 8192), (65536, 768), (8192, 4096), (2048, 32768)),
    "tail": ((48, 65536),),
}
_TABLES: Shapes = {"launch": ((256, 512),), "memory": ((4096, 4096), (16384, 8192), (512, 32768))}
_ATTENTION = "batch heads kv_heads q_len kv_len head_dim causal"

GPU_CASES: tuple[Regime, ...] = (
    *_cases("gemm", "m n k", _PRODUCTS),
    *(case for dtype in ("fp8", "tf32", "fp32", "int8") for case in _cases("gemm", "m n k", _FEW_PRODUCTS, dtype)),
    *_cases("batched_gemm", "batch m n k", _BATCHED),
    *_cases("conv2d", "batch in_channels out_channels height width kernel stride padding", _CONV),
    *_cases("flash", _ATTENTION, _SEQUENCES),
    *_cases("cudnn", _ATTENTION, _FEW_SEQUENCES),
    *_cases("efficient", _ATTENTION, _FEW_SEQUENCES),
    *_cases("decode", _ATTENTION, _DECODES),
    *(case for kernel in ("softmax", "layernorm", "rmsnorm") for case in _cases(kernel, "rows cols", _ROWS)),
    *(case for kernel in ("reduction", "transpose") for case in _cases(kernel, "rows cols", _TABLES)),
    *_cases(
        "elementwise",
        "function elements",
        {
            "launch": (("gelu", 16384), ("add", MIB)),
            "memory": (("gelu", 128 * MIB), ("add", 64 * MIB), ("exp", 16 * MIB), ("add", 8 * MIB)),
        },
    ),
    *_cases("copy", "elements", {"launch": ((16384,),), "memory": ((4 * MIB,), (256 * MIB,))}),
    *_cases(
        "cross_entropy",
        "tokens vocab scratch_dtype",
        {"launch": ((256, 1000, "bf16"),), "memory": ((4096, 32000, "bf16"), (1024, 128256, "bf16"), (8192, 50257, "bf16"))},
    ),
    *_cases(
        "embedding", "tokens vocab hidden", {"launch": ((256, 32000, 1024),), "memory": ((16384, 128256, 4096), (65536, 128256, 1024))}
    ),
    *_cases("adamw", "parameters", {"launch": ((65536,),), "memory": ((16 * MIB,), (256 * MIB,))}),
)
CPU_CASES: tuple[Regime, ...] = (
    *_cases("gemm", "m n k", {"launch": ((16, 64, 64),), "memory": ((1, 4096, 4096),), "compute": ((1024, 1024, 1024),)}, "fp32"),
    *_cases("gemm", "m n k", {"compute": ((1024, 1024, 1024),)}),
    *(case for kernel in ("softmax", "rmsnorm") for case in _cases(kernel, "rows cols", {"memory": ((4096, 4096),)}, "fp32")),
    *_cases("elementwise", "function elements", {"memory": (("gelu", 16 * MIB),)}, "fp32"),
)


def cases_for(kind: str) -> tuple[Regime, ...]:
    """The set for a kind of device."""
    return CPU_CASES if kind == "cpu" else GPU_CASES
