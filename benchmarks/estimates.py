"""Estimates a second: one operator after the other, from its dimensions to time and band, and many at once through arrays.

    python benchmarks/estimates.py > benchmarks/estimates.txt

The parameters are the start values of each model: what they are does not change what an estimate costs. Each rate is the fastest
of many short rounds on one core, so that other work on the machine hardly counts. A few of the points are
also compared, scalar against array.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from roofline.hardware.profile import Hardware, ParameterSet
from roofline.ops.attention import Attention
from roofline.ops.base import Op
from roofline.ops.elementwise import Elementwise
from roofline.ops.gemm import Gemm
from roofline.ops.grouped import GroupedGemm
from roofline.ops.softmax import Softmax
from roofline.predict.estimate.catalog import MODELS
from roofline.predict.estimate.estimator import Estimator
from roofline.spec.hardware import load_hardware

SCALARS, POINTS, CHUNK, ROUNDS, SAMPLE = 500, 131_072, 16_384, 40, 200
SCALAR_TARGET, ARRAY_TARGET = 20_000, 2_000_000
TARGETED = "gemm"
PROBES = (2, 64, 4096)
"""Sizes at which the operators launch every sort of kernel that they have."""
CLOSE = 1e-12
BAND = {"launch": (0.9, 1.1), "memory": (0.9, 1.1), "compute": (0.9, 1.1)}


def gemm(m: Any, n: Any, k: Any) -> Op:
    """A bf16 product."""
    return Gemm(m=m, n=n, k=k, dtype="bf16")


def attention(m: Any, n: Any, k: Any) -> Op:
    """A causal prefill of 1 to 16 sequences."""
    return Attention(batch=1 + m // 1024, heads=32, kv_heads=8, q_len=n, kv_len=n, head_dim=128, causal=True, dtype="bf16")


def softmax(m: Any, n: Any, k: Any) -> Op:
    """Rows of bf16."""
    return Softmax(rows=m, cols=n, dtype="bf16")


def elementwise(m: Any, n: Any, k: Any) -> Op:
    """A gelu of bf16."""
    return Elementwise(function="gelu", elements=m * n, dtype="bf16")


def grouped(m: Any, n: Any, k: Any) -> Op:
    """A bf16 product of tokens with 8 of 128 experts each."""
    return GroupedGemm(tokens=m, experts=128, active=8, n=n, k=k, dtype="bf16")


OPERATORS: dict[str, Callable[[Any, Any, Any], Op]] = {f.__name__: f for f in (gemm, grouped, attention, softmax, elementwise)}


def device(execution: str) -> Hardware:
    """An H100 with a set for each sort of kernel that is launched here, under its best name."""
    profile = load_hardware("h100-sxm")
    names = {}
    for make in OPERATORS.values():
        for kernel in (k for size in PROBES for k in make(size, size, size).launched(execution)):
            model = MODELS[type(kernel).__name__]
            name = model.sets(kernel, "torch")[0]
            declared = model.parameters_of(name) if hasattr(model, "parameters_of") else model.parameters
            names[name] = {p.name: p.start for p in declared}
    sets = {
        name: ParameterSet(name=name, values=values, device="h100-sxm", kind="fitted", source="start", date="-", rows=0, band=BAND)
        for name, values in names.items()
    }
    return replace(profile, fitted=sets, priors={})


def fastest(make: Callable[[Any, Any, Any], Op], estimator: Estimator, points: Sequence[Any]) -> float:
    """CPU seconds of the fastest round over the points."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for point in points:
            estimator.op(make(*point))
        times.append(time.process_time() - start)
    return min(times)


def differing(make: Callable[[Any, Any, Any], Op], estimator: Estimator, dims: np.ndarray) -> int:
    """Points of a sample whose time or band as an array element is not that of the scalar."""
    many = estimator.op(make(*dims[:, :SAMPLE]))
    wrong = 0
    for i in range(SAMPLE):
        one = estimator.op(make(*(int(d) for d in dims[:, i])))
        for a, b in zip(one.kernels, many.kernels, strict=True):
            pairs = [(x, np.broadcast_to(y, SAMPLE)[i]) for x, y in ((a.time_s, b.time_s), (a.low_s, b.low_s), (a.high_s, b.high_s))]
            wrong += any(abs(x / y - 1) > CLOSE for x, y in pairs)
    return wrong


def main() -> None:
    """Measure, compare and print; exit 1 when a target is missed or a sample differs."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    estimator = Estimator(device("graph"), "graph")
    dims = np.random.default_rng(0).integers(2, 16_384, size=(3, POINTS)).astype(np.float64)
    sample = [tuple(int(d) for d in dims[:, i]) for i in range(SCALARS)]
    chunks = [dims[:, i : i + CHUNK] for i in range(0, POINTS, CHUNK)]
    print("python benchmarks/estimates.py")
    print(f"CPython {platform.python_version()}, numpy {np.__version__}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores")
    print(
        f"time and band on an H100 in a graph, random dimensions from 2 to 16,383; CPU time of the fastest of {ROUNDS} rounds, one process"
    )
    met, wrong = True, 0
    for name, make in OPERATORS.items():
        scalar = SCALARS / fastest(make, estimator, sample)
        arrays = POINTS / fastest(make, estimator, chunks)
        wrong += differing(make, estimator, dims)
        print(f"{name:12} {scalar:10,.0f} operators a second one by one, {arrays:12,.0f} through arrays of {CHUNK:,}")
        if name == TARGETED:
            met = scalar >= SCALAR_TARGET and arrays >= ARRAY_TARGET
    print(f"target for {TARGETED}: {SCALAR_TARGET:,} one by one, {ARRAY_TARGET:,} through arrays: {'met' if met else 'MISSED'}")
    print(f"of {SAMPLE} points of each, kernels that differ between scalar and array by more than {CLOSE:g}: {wrong}")
    sys.exit(0 if met and not wrong else 1)


if __name__ == "__main__":
    main()
