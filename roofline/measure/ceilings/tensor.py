"""Matrix rates by dtype: products of random normal matrices, the fastest of a few shapes, burst and sustained.

Burst: short samples with rests, the clock high. Sustained: the fastest shape back to back for seconds, under the power cap
where there is one. The kernel is that of ``roofline measure --kernel gemm`` (fp8 with fast accumulation), compared with a
float64 reference first; W lies by columns, as the weights of a linear layer do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from roofline.measure.ceilings.base import Bench, Call, Candidate, Measured, Shape, Unmeasured

CHECKED: Shape = (256, 256, 256)
TRIES = 5
LONGEST_CALL_S = 1.0
"""A product that takes longer on a CPU is left out: torch has no fast path for every dtype there."""
FP64_LARGEST = 2 * 4096.0**3
"""Products in fp64 stop here: a GPU without a matrix path for them would take seconds a call."""


def burst(dtype: str) -> Callable[[Bench], Measured]:
    """How the burst rate of a dtype is measured."""

    def measure(bench: Bench) -> Measured:
        return products(bench, dtype)

    return measure


def sustained(dtype: str) -> Callable[[Bench], Measured]:
    """How the sustained rate of a dtype is measured: the fastest shape of the burst."""

    def measure(bench: Bench) -> Measured:
        if f"tensor.{dtype}.burst" in bench.failed:
            raise Unmeasured(bench.failed[f"tensor.{dtype}.burst"])
        before = bench.found.get(f"tensor.{dtype}.burst")
        fastest = [s for s in bench.sizes.shapes if before and before.label == label_of(s)] or shapes_for(bench, dtype)[-1:]
        check(bench, dtype)
        return bench.fastest(1.0, [_candidate(bench, dtype, s) for s in fastest], bench.sizes.sustained)

    return measure


def products(bench: Bench, dtype: str) -> Measured:
    """The fastest product of the dtype."""
    check(bench, dtype)
    return bench.fastest(1.0, [_candidate(bench, dtype, shape) for shape in shapes_for(bench, dtype)])


def _candidate(bench: Bench, dtype: str, shape: Shape) -> Candidate:
    return Candidate(label=label_of(shape), build=lambda: product(bench, dtype, shape), work=flop(shape))


def flop(shape: Shape) -> float:
    """Two a multiply-add."""
    return 2.0 * math.prod(shape)


def label_of(shape: Shape) -> str:
    """The shape in words."""
    return "{}x{}x{}".format(*shape)


def product(bench: Bench, dtype: str, shape: Shape) -> Call:
    """A call that multiplies new random matrices."""
    from roofline.measure.allocate import allocate
    from roofline.measure.registry import find, prepare
    from roofline.ops.gemm import Gemm

    m, n, k = shape
    op = Gemm(m=m, n=n, k=k, dtype=dtype)
    tensors = allocate(op, bench.place)
    tensors["w"] = tensors["w"].t().contiguous().t()
    return prepare(find("gemm"), op, tensors, device=bench.place)


def check(bench: Bench, dtype: str) -> None:
    """A small product against float64; for tf32 also that it is not more exact than tf32 can be.

    Raises:
        Unmeasured: it is wrong, or the wrong format ran.
    """
    from roofline.measure.check import check as compared
    from roofline.measure.registry import find
    from roofline.ops.gemm import Gemm

    m, n, k = CHECKED
    found = compared(find("gemm"), Gemm(m=m, n=n, k=k, dtype=dtype), bench.place)
    if not found.passed:
        raise Unmeasured(f"a product in {dtype} is off by {found.error:.3g}, allowed {found.tolerance:.3g} ({found.against})")


# --------------------------------------------------------------------------- shapes
def shapes_for(bench: Bench, dtype: str) -> list[Shape]:
    """The shapes that a call of this dtype does in reasonable time; at least the smallest.

    Raises:
        Unmeasured: the CPU has no product in the dtype worth the name.
    """
    shapes = [s for s in bench.sizes.shapes if dtype != "fp64" or flop(s) <= FP64_LARGEST]
    smallest = [min(bench.sizes.shapes)]
    if bench.cuda:
        return shapes or smallest
    rate = _rate(bench, dtype)
    quick = [s for s in shapes if flop(s) / rate <= LONGEST_CALL_S]
    if not quick and dtype not in ("fp32", "fp64"):
        raise Unmeasured(f"torch has no fast {dtype} product on this CPU ({rate / 1e9:.2g} GFLOP/s)")
    return quick or smallest


def _rate(bench: Bench, dtype: str) -> float:
    """FLOP a second of a small product: the best of a few, since the first ones choose an algorithm."""
    call, seconds = product(bench, dtype, CHECKED), []
    for _ in range(TRIES):
        began = bench.device.now()
        call()
        seconds.append(bench.device.now() - began)
    return flop(CHECKED) / max(1e-9, min(seconds))
