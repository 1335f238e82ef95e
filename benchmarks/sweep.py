"""One formula for scalars and arrays: a million GEMMs in one call, and a million points of a whole model as `roofline sweep` has them.

    python benchmarks/sweep.py > benchmarks/sweep.txt

The loop over scalars is timed on 2,000 of the GEMMs and scaled; those are also compared bit by bit with what the arrays gave. Of the
model, bound, estimate, band and memory of a decoding step are evaluated at 1,000 batches x 1,000 contexts, corners checked; and points
drawn at random are held to their own report.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from roofline.decide.sweep import Asked, Grid, sweep
from roofline.ops.base import work_of
from roofline.ops.gemm import Gemm
from roofline.predict.bound import Bound, bound, machine_of
from roofline.report.build import analyze
from roofline.spec.axes import read_axes
from roofline.spec.find import find_workload
from roofline.spec.hardware import load_hardware
from roofline.spec.source import read_source
from roofline.spec.workload import read_workload

POINTS, SAMPLE, ROUNDS, TARGET = 1_000_000, 2_000, 5, 100
MODEL, MODEL_TARGET_S, MODEL_SAMPLE, CLOSE = "qwen3_8b_decode", 5.0, 100, 1e-12
GRID = ("batch=1..1000", "context=100..100000:+100")
H100 = load_hardware("h100-sxm")
MACHINE = machine_of(H100)


def bound_of(m: object, n: object, k: object) -> Bound:
    """The bound of a bf16 product on an H100, for numbers and arrays alike."""
    return bound(work_of(Gemm(m=m, n=n, k=k, dtype="bf16"), MACHINE), H100)  # type: ignore[arg-type]


def seconds(run: object, rounds: int) -> float:
    """The fastest of some runs: what the work takes when nothing else disturbs it."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return min(times)


def processor_seconds(run: object, rounds: int) -> float:
    """The least processor time of some runs of this process, which other work on the machine hardly changes."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()  # type: ignore[operator]
        times.append(time.process_time() - start)
    return min(times)


def differing(dims: np.ndarray) -> int:
    """Points of the sample where any time, or the limiter, is not bit for bit that of the arrays."""
    many = bound_of(*dims)
    wrong = 0
    for i in range(SAMPLE):
        one = bound_of(*(int(d) for d in dims[:, i]))
        pairs = [(one.time_s, many.time_s), (one.no_overlap_s, many.no_overlap_s)]
        pairs += [(one.per_resource_s[name], many.per_resource_s[name]) for name in one.per_resource_s]
        same = all(np.float64(a).tobytes() == np.broadcast_to(np.asarray(b, dtype=np.float64), POINTS)[i].tobytes() for a, b in pairs)
        wrong += not (same and one.limiter == many.limiter[i])
    return wrong


def model() -> Asked:
    """A decoding step at a million points."""
    fixed, axes = read_axes(GRID)
    return Asked(source=read_source(str(find_workload(MODEL))), overrides=tuple(fixed), axes=tuple(axes), tokens="batch")


def apart(asked: Asked, grid: Grid) -> int:
    """Points of a sample whose bound, estimate or memory is not that of their own report."""
    wrong = 0
    batches, contexts = (axis.values for axis in asked.axes)
    for i in np.random.default_rng(1).integers(0, len(batches) * len(contexts), size=MODEL_SAMPLE).tolist():
        row, column = divmod(i, len(contexts))
        workload = read_workload(asked.source, [f"batch={batches[row]}", f"context={contexts[column]}"])
        totals = analyze(workload, load_hardware(workload.hardware or "")).totals
        assert totals.bound is not None
        assert totals.estimate is not None
        pairs = [(totals.bound.time_s, "bound_s"), (totals.estimate.time_s, "estimate_s"), (totals.memory.needed_bytes, "memory_bytes")]
        wrong += any(abs(one - grid.figures[name][i]) > CLOSE * one for one, name in pairs)
    return wrong


def main() -> None:
    """Measure, compare and print; exit 1 when the target is missed or a bit differs."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    dims = np.random.default_rng(0).integers(1, 20_000, size=(3, POINTS)).astype(np.float64)
    sample = [tuple(int(d) for d in dims[:, i]) for i in range(SAMPLE)]
    arrays = seconds(lambda: bound_of(*dims), ROUNDS)
    loop = seconds(lambda: [bound_of(*point) for point in sample], ROUNDS) * POINTS / SAMPLE
    wrong = differing(dims)
    print("python benchmarks/sweep.py")
    print(f"CPython {platform.python_version()}, numpy {np.__version__}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    print(f"work and bound of {POINTS:,} bf16 GEMMs on an H100; the fastest of {ROUNDS} runs")
    print(f"arrays, one call         {arrays:8.3f} s")
    print(f"Python loop over scalars {loop:8.1f} s  ({SAMPLE:,} points measured, scaled)")
    print(f"ratio {loop / arrays:.0f}x  target {TARGET}x: {'met' if loop / arrays >= TARGET else 'MISSED'}")
    print(f"points of the sample that differ in any bit: {wrong} of {SAMPLE:,}")
    asked = model()
    took = processor_seconds(lambda: sweep(asked), ROUNDS)
    different = apart(asked, sweep(asked))
    print(f"{MODEL}, {' '.join(GRID)}: bound, estimate, band, memory of {POINTS:,} points; the fastest of {ROUNDS} runs")
    verdict = "met" if took < MODEL_TARGET_S else "MISSED"
    print(f"processor time of one process, on one core: {took:.2f} s  target {MODEL_TARGET_S:g} s: {verdict}")
    print(f"points of a sample that differ from their own report by more than {CLOSE:g}: {different} of {MODEL_SAMPLE}")
    sys.exit(0 if loop / arrays >= TARGET and not wrong and took < MODEL_TARGET_S and not different else 1)


if __name__ == "__main__":
    main()
