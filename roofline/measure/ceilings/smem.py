"""Shared memory: 16 B a lane and load, neighbours side by side, two blocks of 1024 threads a processor.

Needs CUDA C, since Triton lays out shared memory itself. Without a compiler the figure is derived: 32 banks of 4 B a clock
and processor, at the clock seen while the multiply-adds ran.
"""

from __future__ import annotations

from roofline.measure.ceilings import nvrtc_kernels as source
from roofline.measure.ceilings.base import Bench, Call, Candidate, Measured, Unmeasured, close

BANK_BYTES = 128
OPERAND_BYTES = 12
"""A multiply-add reads three registers of 4 B."""


def read(bench: Bench) -> Measured:
    """Measured with CUDA C, or derived from a measured clock."""
    if not bench.cuda:
        raise Unmeasured("a call of torch takes longer than a pass over the first cache")
    try:
        return bench.fastest(1.0, [_shared(bench, threads) for threads in (source.SHARED_THREADS, source.SHARED_THREADS // 2)])
    except Unmeasured as err:
        return _derived(bench, str(err))


def _shared(bench: Bench, threads: int) -> Candidate:
    import torch

    steps, blocks = bench.sizes.steps, bench.processors * source.SHARED_BLOCKS_PER_PROCESSOR
    out = torch.zeros(blocks * threads, device=bench.place)

    def build() -> Call:
        kernel = source.compiled(source.SHARED_SOURCE, "shared_reads")
        return lambda: kernel(grid=(blocks, 1, 1), block=(threads, 1, 1), args=[out, steps, 32])

    return Candidate(
        label=f"CUDA C, LDS.128, {blocks} blocks of {threads} threads",
        build=build,
        check=lambda: close(out.min().item(), 4.0 * source.SHARED_READS * steps, 1e-6, "shared_reads"),
        work=float(blocks) * threads * steps * source.SHARED_READS * 16,
    )


def _derived(bench: Bench, why: str) -> Measured:
    fma = bench.found.get("vector.fp32")
    if fma is None or fma.clock_hz is None:
        raise Unmeasured(f"{why}; and no clock was read to derive it from")
    rate = BANK_BYTES * bench.processors * fma.clock_hz
    label = f"32 banks x 4 B x {bench.processors} processors x clock"
    note = f"not measured: {why}"
    return Measured(label=label, value=rate, low=rate, high=rate, best=rate, clock_hz=fma.clock_hz, kind="derived", note=note)


def registers(bench: Bench) -> Measured:
    """What the multiply-adds read from registers: three operands of 4 B each, at their measured rate."""
    if not bench.cuda:
        raise Unmeasured("not known how many registers an instruction of this CPU reads")
    fma = bench.found.get("vector.fp32")
    if fma is None:
        raise Unmeasured("it follows from vector.fp32, which was not measured")
    factor = OPERAND_BYTES / 2
    return Measured(
        label="vector.fp32 x 3 operands x 4 B / 2 FLOP",
        value=fma.value * factor,
        low=fma.low * factor,
        high=fma.high * factor,
        best=fma.best * factor,
        clock_hz=fma.clock_hz,
        kind="derived",
    )
