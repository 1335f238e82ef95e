"""The plain lanes: fused multiply-adds by dtype, counted 2, and exponentials of the special-function units.

Independent chains in registers, no memory. CUDA C with the instruction written out where a compiler is there, Triton
beside it for fp32 and exp2. On a CPU the lanes are measured by the product of fp32 (and fp64) matrices, which runs on them
and comes nearer to their peak than any chain of torch operators.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.measure.ceilings import nvrtc_kernels as source
from roofline.measure.ceilings.base import Bench, Call, Candidate, Measured, Unmeasured, close
from roofline.measure.ceilings.hbm import triton_kernel
from roofline.measure.ceilings.tensor import products

TRITON_BLOCK, TRITON_WARPS, TRITON_PROGRAMS = 512, 4, 16
TRITON_FMAS, TRITON_EXP2S = 8 * 4, 4 * 4
"""Links of all chains a step and lane."""


def fma(dtype: str) -> Callable[[Bench], Measured]:
    """How the multiply-adds of a dtype are measured."""

    def measure(bench: Bench) -> Measured:
        if not bench.cuda:
            return products(bench, dtype)
        found = [_cuda_fma(bench, dtype)]
        if dtype == "fp32":
            found.append(_triton_fma(bench))
        return bench.fastest(1.0, found)

    return measure


def exp2(bench: Bench) -> Measured:
    """Exponentials a second, one operation each."""
    if not bench.cuda:
        raise Unmeasured("no hardware unit; exp and the like are vector instruction sequences")
    return bench.fastest(1.0, [_cuda_exp2(bench), _triton_exp2(bench)])


# --------------------------------------------------------------------------- CUDA C
def _cuda_fma(bench: Bench, dtype: str) -> Candidate:
    import torch

    out = torch.zeros(_threads(bench), device=bench.place, dtype={"fp32": torch.float32, "fp64": torch.float64}.get(dtype, torch.int32))

    def check() -> None:
        if dtype in source.PACKED_SUMS:
            wrong = (out.to(torch.int64) & 0xFFFFFFFF) != source.PACKED_SUMS[dtype]
            close(1.0 + wrong.sum().item(), 1.0, 0.0, f"{dtype} chains")
        else:
            close(out[:8].double().sum().item(), sum(28.0 + 8 * 0.125 * lane for lane in range(8)), 1e-6, f"{dtype} chains")

    # A consumer GPU does 64-bit work at a thirty-second of the rate; it need not run for as long.
    steps = max(1, bench.sizes.steps // (8 if dtype == "fp64" else 1))
    links = _threads(bench) * steps * source.CHAINS * source.UNROLL
    return _chains(bench, source.FMA_SOURCES[dtype], out, steps, f"CUDA C, {dtype} multiply-adds", check, 2.0 * source.LANES[dtype] * links)


def _cuda_exp2(bench: Bench) -> Candidate:
    import torch

    out, steps = torch.zeros(_threads(bench), device=bench.place), max(1, bench.sizes.steps // 4)
    work = float(_threads(bench)) * steps * source.CHAINS * source.UNROLL

    def check() -> None:
        close(out.mean().item(), source.CHAINS * source.EXP2_FIXED_POINT, 1e-3, "exp2 chains")

    return _chains(bench, source.EXP2_SOURCE, out, steps, "CUDA C, ex2.approx.ftz.f32", check, work)


def _threads(bench: Bench) -> int:
    return bench.processors * source.BLOCKS_PER_PROCESSOR * source.THREADS


def _chains(bench: Bench, text: str, out: object, steps: int, label: str, check: Callable[[], None], work: float) -> Candidate:
    grid = (bench.processors * source.BLOCKS_PER_PROCESSOR, 1, 1)

    def build() -> Call:
        kernel = source.compiled(text, "chains")
        return lambda: kernel(grid=grid, block=(source.THREADS, 1, 1), args=[out, steps])

    return Candidate(label=label, build=build, check=check, work=work)


# --------------------------------------------------------------------------- Triton
def _triton_fma(bench: Bench) -> Candidate:
    import torch

    grid, steps = bench.processors * TRITON_PROGRAMS, bench.sizes.steps
    out = torch.zeros(grid * TRITON_BLOCK, device=bench.place)

    def build() -> Call:
        kernel = triton_kernel("fma_chains")
        return lambda: kernel[(grid,)](out, -1.0, 1.0, steps, BLOCK=TRITON_BLOCK, num_warps=TRITON_WARPS)

    return Candidate(
        label="Triton, fp32 multiply-adds",
        build=build,
        check=lambda: close(out[:8].sum().item(), sum(28.0 + lane for lane in range(8)), 1e-6, "fma_chains"),
        work=2.0 * grid * TRITON_BLOCK * steps * TRITON_FMAS,
    )


def _triton_exp2(bench: Bench) -> Candidate:
    import torch

    grid, steps = bench.processors * TRITON_PROGRAMS, max(1, bench.sizes.steps // 4)
    out = torch.zeros(grid * TRITON_BLOCK, device=bench.place)

    def build() -> Call:
        kernel = triton_kernel("exp2_chains")
        return lambda: kernel[(grid,)](out, steps, BLOCK=TRITON_BLOCK, num_warps=TRITON_WARPS)

    return Candidate(
        label="Triton, ex2.approx.ftz.f32",
        build=build,
        check=lambda: close(out.mean().item(), 4 * source.EXP2_FIXED_POINT, 1e-3, "exp2_chains"),
        work=float(grid) * TRITON_BLOCK * steps * TRITON_EXP2S,
    )
