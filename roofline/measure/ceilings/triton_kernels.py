"""Triton kernels of the ceilings: main memory, L2, fused multiply-add and exp2 chains.

Importable without Triton, where ``available`` says no; what the kernels move or compute is written beside each.
"""
# mypy: ignore-errors
# Triton is untyped, and absent wherever there is no GPU.

from __future__ import annotations

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

available = triton is not None

if triton is not None:

    @triton.jit
    def read_sums(x, sums, n, BLOCK: tl.constexpr):  # noqa: N803
        """Reads ``n`` floats once: every program strides over the array and stores its lanes' sums at the end."""
        pid = tl.program_id(0).to(tl.int64)
        lanes = tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        step = tl.num_programs(0).to(tl.int64) * BLOCK
        for start in range(pid * BLOCK, n, step):
            total += tl.load(x + start + lanes, eviction_policy="evict_first")
        tl.store(sums + pid, tl.sum(total, axis=0))

    @triton.jit
    def write_all(y, value, BLOCK: tl.constexpr):  # noqa: N803
        """Writes one block of floats a program."""
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.zeros((BLOCK,), dtype=tl.float32) + value)

    @triton.jit
    def copy_all(x, y, BLOCK: tl.constexpr):  # noqa: N803
        """Reads and writes one block of floats a program."""
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at))

    @triton.jit
    def triad_all(b, c, a, scale, BLOCK: tl.constexpr):  # noqa: N803
        """a = b + scale * c: reads two blocks and writes one a program."""
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        tl.store(a + at, tl.load(b + at) + scale * tl.load(c + at))

    @triton.jit
    def l2_reads(x, sums, tiles, rounds, TILE: tl.constexpr):  # noqa: N803
        """Every program reads all tiles ``rounds`` times from a place of its own on, past L1 (``.cg``)."""
        pid = tl.program_id(0)
        lanes = tl.arange(0, TILE)
        total = tl.zeros((TILE,), dtype=tl.float32)
        tile = (pid * tiles) // tl.num_programs(0)
        for _ in range(rounds * tiles):
            total += tl.load(x + tile * TILE + lanes, cache_modifier=".cg")
            tile += 1
            tile = tl.where(tile == tiles, 0, tile)
        tl.store(sums + pid, tl.sum(total, axis=0))

    @triton.jit
    def fma_chains(out, factor, addend, steps, BLOCK: tl.constexpr):  # noqa: N803
        """Eight independent chains a lane, four links a step: 2 x 8 x 4 x steps FLOP a lane."""
        lanes = tl.arange(0, BLOCK)
        start = (lanes % 8).to(tl.float32) * 0.125
        a0, a1, a2, a3 = start, start + 1.0, start + 2.0, start + 3.0
        a4, a5, a6, a7 = start + 4.0, start + 5.0, start + 6.0, start + 7.0
        for _ in range(steps):
            for _link in tl.static_range(4):
                a0 = tl.fma(a0, factor, addend)
                a1 = tl.fma(a1, factor, addend)
                a2 = tl.fma(a2, factor, addend)
                a3 = tl.fma(a3, factor, addend)
                a4 = tl.fma(a4, factor, addend)
                a5 = tl.fma(a5, factor, addend)
                a6 = tl.fma(a6, factor, addend)
                a7 = tl.fma(a7, factor, addend)
        total = (a0 + a1) + (a2 + a3) + (a4 + a5) + (a6 + a7)
        tl.store(out + tl.program_id(0) * BLOCK + lanes, total)

    @triton.jit
    def _ex2(x):
        return tl.inline_asm_elementwise(
            "{ .reg .f32 t; neg.f32 t, $1; ex2.approx.ftz.f32 $0, t; }", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )

    @triton.jit
    def exp2_chains(out, steps, BLOCK: tl.constexpr):  # noqa: N803
        """Four independent chains x <- 2**-x a lane, four links a step: 16 x steps operations a lane."""
        lanes = tl.arange(0, BLOCK)
        start = (lanes % 8).to(tl.float32) * 0.125
        a0, a1, a2, a3 = start, start + 0.25, start + 0.5, start + 0.75
        for _ in range(steps):
            for _link in tl.static_range(4):
                a0, a1, a2, a3 = _ex2(a0), _ex2(a1), _ex2(a2), _ex2(a3)
        tl.store(out + tl.program_id(0) * BLOCK + lanes, (a0 + a1) + (a2 + a3))
