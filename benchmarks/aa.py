"""Does `roofline diff` raise false alarms, and does it find a slowdown? Measured on a device, not simulated.

    python benchmarks/aa.py --device cpu --pairs 200 --kernel gemm
    python benchmarks/aa.py --device cuda --pairs 60 --hardware h200-sxm

A pair is three measurements through `roofline.measure.run.measure_op`: the base, the same code again, and the same code
really made slower, by running one more call after every twentieth (5 % more of the same work). `roofline.report.diff`
then judges again against base and slower against base, as the command does. Which of the two comes first alternates.

At most 5 % of the repetitions may be called worse, and at least 90 % of the slowdowns must be; else the exit code is 1.

Measurements follow one another as two runs of a user would (``--order runs``), or round by round with each other
(``--order rounds``: every block of the base has one of the others next to it in time), or sample by sample in one session
(``--order turns``: what `roofline.measure.run.measure_in_turns` does, judged by the ratio within each round). On a CPU one
thread is used, inputs are warm, and ``--clock thread`` counts the processor time of the calling thread in place of the time of
day, so that a neighbour that takes the processor away does not count (one that shares its core or caches still does).
"""

from __future__ import annotations

import argparse
import itertools
import math
import platform
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from roofline.errors import RooflineError
from roofline.measure.base import Device, Procedure
from roofline.measure.cpu import CpuDevice, CpuRunner
from roofline.measure.device import need_torch, open_device
from roofline.measure.registry import find, resolve
from roofline.measure.run import Case, measure_in_turns, measure_op
from roofline.measure.spec import KernelSpec
from roofline.ops.registry import OPERATORS
from roofline.report.build import analyze
from roofline.report.diff import compare
from roofline.report.measured import TOLERANCE, VERDICTS, MeasuredChange
from roofline.report.model import MeasuredResult, Report
from roofline.spec.hardware import load_hardware
from roofline.spec.source import Source
from roofline.spec.workload import read_workload

EVERY = 20
"""One call in so many is run twice: 5 % more work."""
MOST_FALSE, FEWEST_FOUND = 0.05, 0.90
SHAPES = {"cpu": {"dtype": "fp32", "m": 96, "n": 96, "k": 96}, "cuda": {"dtype": "bf16", "m": 1024, "n": 1024, "k": 1024}}
"""Of a gemm: small enough that a sample holds a hundred calls or more, so that the extra ones are 5 % of each sample."""
PROCEDURES = {
    "cpu": Procedure(
        cache="warm", launch="eager", warmup_s=0.1, shortest_sample_s=4e-3, fewest_samples=60, shortest_s=0.3, width=0.01, longest_s=3
    ),
    "cuda": Procedure(warmup_s=0.2, shortest_sample_s=4e-3, fewest_samples=60, shortest_s=0.5, longest_s=4),
}
Measure = Callable[[KernelSpec], MeasuredResult]


# --------------------------------------------------------------------------- the slower kernel
class Counted:
    """The kernel behind a counter of its calls. ``build`` is found by name, as every kernel is."""

    original = ""
    twice = False
    calls = itertools.count(1)

    @classmethod
    def build(cls, op: Any, tensors: Any) -> Callable[[], Any]:
        """A callable as the original makes it; calls are counted over all input sets together."""
        call = resolve(cls.original)(op, tensors)

        def counted() -> Any:
            if next(cls.calls) % EVERY == 0 and cls.twice:
                call()
            return call()

        return counted


class Slowdown(Counted):
    """With one call in twenty run twice."""

    twice = True
    calls = itertools.count(1)


def counted(spec: KernelSpec, kind: type[Counted] = Counted) -> KernelSpec:
    """The same kernel behind the counter, so that the counting itself is on both sides of a comparison."""
    Counted.original = spec.build
    return replace(spec, build=f"{__name__}:{kind.__name__}.build")


def slowed(spec: KernelSpec) -> KernelSpec:
    """The same kernel with more work."""
    return counted(spec, Slowdown)


# --------------------------------------------------------------------------- the clock of the thread
class ThreadClockRunner(CpuRunner):
    """Times by the processor time of this thread, in which one-threaded torch runs."""

    def time(self) -> float:
        """Processor seconds of all calls."""
        began = time.thread_time()
        super().time()
        return time.thread_time() - began


class ThreadClockDevice(CpuDevice):
    """A CPU on which time taken by other processes and threads does not count."""

    def prepare(self, calls: Sequence[Callable[[], Any]], repeats: int, launch: str) -> CpuRunner:
        """As a CPU does."""
        runner = ThreadClockRunner(calls, repeats)
        runner.once()
        return runner


# --------------------------------------------------------------------------- measuring
def in_runs(specs: Sequence[KernelSpec], measure: Measure) -> list[MeasuredResult]:
    """One whole measurement after the other."""
    return [measure(spec) for spec in specs]


def in_rounds(specs: Sequence[KernelSpec], measure: Measure, rounds: int) -> list[MeasuredResult]:
    """One block of each in turn, ``rounds`` times; the order turns around each time."""
    parts: list[list[MeasuredResult]] = [[] for _ in specs]
    for number in range(rounds):
        order = range(len(specs)) if number % 2 == 0 else reversed(range(len(specs)))
        for i in order:
            parts[i].append(measure(specs[i]))
    return [joined(p) for p in parts]


def joined(parts: Sequence[MeasuredResult]) -> MeasuredResult:
    """Measurements of one block each as one of many blocks."""
    samples = tuple(s for p in parts for s in p.samples_s or ())
    blocks = tuple(i for i, p in enumerate(parts) for _ in p.samples_s or ())
    clocks = [p.clocks.get("sm_mhz_median") for p in parts]
    known = [c for c in clocks if c is not None]
    return replace(
        parts[0], time_s=median(samples), samples_s=samples, blocks=blocks, clocks={"sm_mhz_median": median(known) if known else None}
    )


def in_turns(specs: Sequence[KernelSpec], op: Any, device: Device, procedure: Procedure) -> list[MeasuredResult]:
    """All in one session, sample by sample in turn."""
    cases = [Case(id=f"side_{i}", spec=spec, op=op) for i, spec in enumerate(specs)]
    # Short samples, many in a round: the more often the kernels alternate, the more alike is what disturbs them.
    turns = replace(procedure, shortest_sample_s=1e-3, fewest_samples=30 * procedure.blocks, shortest_s=0.0)
    found = measure_in_turns(cases, device, turns, "one")
    return [replace(m, conditions={**m.conditions, "kernel": specs[0].name}) for m in found]


def pairs(arguments: argparse.Namespace, device: Device) -> Iterator[tuple[MeasuredChange, MeasuredChange]]:
    """The verdicts of again and slower against base, pair by pair."""
    spec, op, report = subject(arguments, device)
    procedure = replace(PROCEDURES[device.info.kind], blocks=1 if arguments.order == "rounds" else arguments.blocks)
    if arguments.order == "rounds":
        shares = {name: getattr(procedure, name) / arguments.blocks for name in ("warmup_s", "shortest_s", "longest_s")}
        procedure = replace(procedure, fewest_samples=math.ceil(procedure.fewest_samples / arguments.blocks), width=1.0, **shares)

    def measure(kernel: KernelSpec) -> MeasuredResult:
        return measure_op(Case(id="step", spec=kernel, op=op), device, procedure)

    for number in range(arguments.pairs):
        again = counted(spec)
        others = [again, slowed(spec)]
        order = others if number % 2 == 0 else others[::-1]
        if arguments.order == "turns":
            found = in_turns([again, *order], op, device, procedure)
        elif arguments.order == "rounds":
            found = in_rounds([again, *order], measure, arguments.blocks)
        else:
            found = in_runs([again, *order], measure)
        repeated, slower = found[1:] if number % 2 == 0 else found[:0:-1]
        yield verdict(report, found[0], repeated, arguments.tolerance), verdict(report, found[0], slower, arguments.tolerance)


def subject(arguments: argparse.Namespace, device: Device) -> tuple[KernelSpec, Any, Report]:
    """The kernel, its operator, and a report with one row for it."""
    spec = find(arguments.kernel)
    fields = (
        SHAPES[device.info.kind] if spec.op == "gemm" else {**(spec.small if device.info.kind == "cpu" else spec.example), **spec.fields}
    )
    op = OPERATORS[spec.op](**fields)
    step = ", ".join(f"{k}: {v}" for k, v in {"id": "step", "op": spec.op, **fields}.items())
    workload = read_workload(Source("aa.yaml", f"schema: 1\nsteps:\n  - {{{step}}}\n"), ())
    return spec, op, analyze(workload, load_hardware(arguments.hardware) if arguments.hardware else None)


def verdict(report: Report, base: MeasuredResult, head: MeasuredResult, tolerance: float) -> MeasuredChange:
    """What the command says of the two."""
    sides = [replace(report, rows=(replace(report.rows[0], measured=m),)) for m in (base, head)]
    found = compare(sides[0], sides[1], "base", "head", tolerance=tolerance).rows[0].measured
    assert found is not None
    return found


# --------------------------------------------------------------------------- result
def summary(title: str, found: Sequence[MeasuredChange]) -> str:
    """Verdicts and ratios of one kind of pair in one line."""
    counts = Counter(c.verdict for c in found)
    said = ", ".join(f"{counts[v]} {v}" for v in VERDICTS if counts[v])
    ratios = sorted(c.ratio for c in found if c.ratio is not None)
    if not ratios:
        return f"{title}: {said}"
    low, middle, high = (ratios[round(q * (len(ratios) - 1))] for q in (0.05, 0.5, 0.95))
    detectable = median(c.detectable for c in found if c.detectable is not None)
    return f"{title}: {said}; ratio {middle:.4f} (90 % within {low:.4f} to {high:.4f}); detectable {detectable:.1%} at the median"


def report_on(arguments: argparse.Namespace, device: Device, found: Sequence[tuple[MeasuredChange, MeasuredChange]]) -> bool:
    """Print the rates; whether both are as promised."""
    again, slower = zip(*found, strict=True)
    false = sum(c.verdict == "worse" for c in again) / len(found)
    hits = sum(c.verdict == "worse" for c in slower) / len(found)
    versions = f"python {platform.python_version()}, torch {need_torch().__version__}"
    print(f"{len(found)} pairs of {arguments.kernel} on {device.info.name}, {versions}")
    print(f"order {arguments.order}, {arguments.blocks} blocks, clock {arguments.clock}, tolerance {arguments.tolerance:.0%}")
    print(summary("same code", again))
    print(summary(f"{1 / EVERY:.0%} more work", slower))
    print(f"false worse: {false:.1%} (at most {MOST_FALSE:.0%}); slowdown found: {hits:.1%} (at least {FEWEST_FOUND:.0%})")
    return false <= MOST_FALSE and hits >= FEWEST_FOUND


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--kernel", default="gemm")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--order", choices=("runs", "rounds", "turns"), default="runs")
    parser.add_argument("--clock", choices=("wall", "thread"), default="wall")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    parser.add_argument("--hardware", help="profile whose limiter decides whether cycles are looked at")
    return parser.parse_args()


def main() -> int:
    """Measure all pairs and print the rates."""
    arguments = parsed()
    need_torch().set_num_threads(1)
    device = ThreadClockDevice() if arguments.device == "cpu" and arguments.clock == "thread" else open_device(arguments.device)
    found, began = [], time.perf_counter()
    for again, slower in pairs(arguments, device):
        found.append((again, slower))
        print(f"{len(found)}/{arguments.pairs} {time.perf_counter() - began:.0f} s: {again.verdict}, {slower.verdict}", file=sys.stderr)
    return 0 if report_on(arguments, device, found) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RooflineError as error:
        sys.exit(f"error: {error}")
