"""CUDA C kernels of the ceilings, compiled at run time: shared-memory reads, fused multiply-add and exp2 chains.

They need NVRTC, which torch finds where a CUDA toolkit is installed. Each instruction is written in PTX and volatile, so
that the compiler can neither fold nor drop it. A chain a <- 1 - a, as a multiply-add, returns to its start after an even
number of links, which is exact and shows that the loop ran; x <- 2**-x tends to 0.641.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CHAINS = 8
UNROLL = 16
THREADS = 256
BLOCKS_PER_PROCESSOR = 8

_LOOP = """
extern "C" __global__ void __launch_bounds__(%(threads)d) chains(%(out)s* out, int steps) {
    %(register)s a[%(chains)d];
    const %(register)s m = %(minus_one)s, c = %(one)s;
    #pragma unroll
    for (int j = 0; j < %(chains)d; ++j) a[j] = %(start)s;
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int u = 0; u < %(unroll)d; ++u) {
            #pragma unroll
            for (int j = 0; j < %(chains)d; ++j) %(link)s
        }
    }
    %(out)s total = 0;
    #pragma unroll
    for (int j = 0; j < %(chains)d; ++j) total += a[j];
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
"""
_FMA = 'asm volatile("fma.rn.%s %%0, %%0, %%1, %%2;" : "+%s"(a[j]) : "%s"(m), "%s"(c));'
_COMMON = {"chains": CHAINS, "unroll": UNROLL, "threads": THREADS}


def _fma(suffix: str, register: str, out: str, letter: str, constants: tuple[str, str], start: str) -> str:
    link = _FMA % (suffix, letter, letter, letter)
    names = {"minus_one": constants[0], "one": constants[1], "start": start}
    return _LOOP % {**_COMMON, **names, "register": register, "out": out, "link": link}


FMA_SOURCES = {
    "fp32": _fma("f32", "float", "float", "f", ("-1.0f", "1.0f"), "j + (threadIdx.x & 7) * 0.125f"),
    "fp64": _fma("f64", "double", "double", "d", ("-1.0", "1.0"), "j + (threadIdx.x & 7) * 0.125"),
    "fp16": _fma("f16x2", "unsigned", "unsigned", "r", ("0xBC00BC00u", "0x3C003C00u"), "0x3A003800u"),
    "bf16": _fma("bf16x2", "unsigned", "unsigned", "r", ("0xBF80BF80u", "0x3F803F80u"), "0x3F403F00u"),
}
"""Chains of multiply-adds by dtype; the 16-bit ones carry 0.75 and 0.5 in one register and sum its bits."""
LANES = {"fp32": 1, "fp64": 1, "fp16": 2, "bf16": 2}
PACKED_SUMS = {"fp16": (CHAINS * 0x3A003800) % 2**32, "bf16": (CHAINS * 0x3F403F00) % 2**32}

EXP2_SOURCE = _LOOP % {
    **_COMMON,
    "register": "float",
    "out": "float",
    "minus_one": "0.0f",
    "one": "0.0f",
    "start": "j * 0.125f + (threadIdx.x & 7) * 0.01f + 0.0f * (m + c)",
    "link": 'asm volatile("{ .reg .f32 t; neg.f32 t, %0; ex2.approx.ftz.f32 %0, t; }" : "+f"(a[j]));',
}
EXP2_FIXED_POINT = 0.6411857445

SHARED_READS = 8
SHARED_THREADS = 1024
SHARED_BLOCKS_PER_PROCESSOR = 2
SHARED_SOURCE = """
extern "C" __global__ void __launch_bounds__(1024, 2) shared_reads(float* out, int steps, int stride) {
    __shared__ float4 tile[2816];
    for (int i = threadIdx.x; i < 2816; i += blockDim.x) tile[i] = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    __syncthreads();
    float x = 0.0f, y = 0.0f, z = 0.0f, w = 0.0f;
    int at = threadIdx.x;
    for (int s = 0; s < steps; ++s) {
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            float4 v = tile[at + j * 256];
            x += v.x; y += v.y; z += v.z; w += v.w;
        }
        at = (at + stride) & 1023;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = (x + y) + (z + w);
}
"""
"""Every lane reads 16 B, neighbours side by side, so that no two meet in a bank; ``stride`` keeps loads in the loop."""


def compiled(source: str, name: str) -> Callable[..., Any]:
    """The kernel, launched with ``grid=``, ``block=`` and ``args=``.

    Raises:
        ImportError: this torch has no run-time compiler.
        RuntimeError, OSError: no NVRTC or no toolkit, or the source was refused.
    """
    import torch

    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)
    if compile_kernel is None:
        raise ImportError("this torch has no run-time compiler (torch.cuda._compile_kernel)")
    kernel: Callable[..., Any] = compile_kernel(source, name)
    return kernel
