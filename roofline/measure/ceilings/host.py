"""What the host and the launching cost: one eager call, the gap between queued kernels, one node of a captured graph.

``launch.host`` is what one torch operator on a tiny tensor costs the host, nothing waited for; ``launch.gap`` the period of
tiny dependent kernels that the device finds queued; ``launch.graph_node`` the slope of time over the nodes of a graph.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from roofline.measure.ceilings.base import Bench, Call, Candidate, Measured, Unmeasured, seconds_of
from roofline.measure.cpu import CpuDevice

REPEATS = 20
NODES = (100, 200, 500, 1000)
SLEEP_CYCLES = 30_000_000
"""About 15 ms: longer than the host takes to queue the kernels."""
FLOATS = 64


def tiny(bench: Bench) -> Call:
    """One addition to a tensor that fits a cache line or two."""
    import torch

    x = torch.zeros(FLOATS, device=bench.place)
    return lambda: x.add_(1.0)


def eager(bench: Bench) -> Measured:
    """Seconds of the host for one eager call: the host's clock around many, the queue never full."""
    call, count = tiny(bench), bench.sizes.launches
    samples = [_host_s(bench, call, count) for _ in range(REPEATS + 2)][2:]
    return seconds_of(samples, f"torch add_ on {FLOATS} floats, {count} calls")


def _host_s(bench: Bench, call: Call, count: int) -> float:
    bench.device.synchronize()
    began = bench.device.now()
    for _ in range(count):
        call()
    taken = bench.device.now() - began
    bench.device.synchronize()
    return taken / count


def gap(bench: Bench) -> Measured:
    """Seconds from one tiny kernel to the next when the device finds them queued behind a sleep."""
    if not bench.cuda:
        raise Unmeasured("the CPU has no queue of kernels")
    import torch

    call, count = tiny(bench), bench.sizes.launches
    samples: list[float] = []
    for _ in range(REPEATS):
        queued, seconds = _queued_s(torch, call, count)
        samples += [seconds / count] if queued else []
    if not samples:
        raise Unmeasured("the host could not queue the kernels before the device began")
    return seconds_of(samples, f"add_ on {FLOATS} floats, {count} kernels queued")


def _queued_s(torch: Any, call: Call, count: int) -> tuple[bool, float]:
    """Whether all kernels were queued before the first ran, and their seconds on the device."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(SLEEP_CYCLES)
    start.record()
    for _ in range(count):
        call()
    end.record()
    queued = not start.query()
    torch.cuda.synchronize()
    return queued, float(start.elapsed_time(end)) / 1e3


def graph_node(bench: Bench) -> Measured:
    """Seconds a node: the slope of the shortest times over graphs of 100 to 1000 nodes."""
    if not bench.cuda:
        raise Unmeasured("the CPU captures no graphs")
    call = tiny(bench)
    times: list[list[float]] = []
    for nodes in NODES:
        runner = bench.device.prepare([call], nodes, "graph")
        try:
            times.append([runner.time() for _ in range(REPEATS + 2)][2:])
        finally:
            runner.close()
    slopes = [slope(NODES, [t[i] for t in times]) for i in range(REPEATS)]
    return seconds_of(slopes, f"slope over graphs of {NODES[0]} to {NODES[-1]} add_ on {FLOATS} floats")


def slope(counts: Sequence[int], seconds: Sequence[float]) -> float:
    """Least squares, seconds a count.

    >>> slope([100, 200, 400], [2e-4, 3e-4, 5e-4])
    1e-06
    """
    mean_count, mean_s = sum(counts) / len(counts), sum(seconds) / len(seconds)
    above = sum((c - mean_count) * (s - mean_s) for c, s in zip(counts, seconds, strict=True))
    return float(f"{above / sum((c - mean_count) ** 2 for c in counts):.12g}")


def memcpy(bench: Bench) -> Measured:
    """Bytes read and written a second by one thread of the C library's memcpy."""
    import torch

    size = bench.sizes.transfer_bytes
    x, y = (torch.ones(size, dtype=torch.uint8) for _ in range(2))
    to, origin = y.data_ptr(), x.data_ptr()

    def copy() -> None:
        ctypes.memmove(to, origin, size)

    host = replace(bench, device=CpuDevice())  # whatever device is calibrated, its host's memory is timed by the host
    found = host.fastest(2.0 * size, [Candidate(label=f"memcpy of {size / 1e6:.0f} MB, one thread", build=lambda: copy)])
    del x, y  # alive until here: the copies go to and from their memory
    return found
