"""Main memory: bytes a second of reading, writing, copying, and of a = b + s*c.

Bytes a call, with N bytes an array: read N, write N, copy 2N, triad 3N. Arrays are far larger than the caches. Numbers are
32-bit floats, four a lane, so that each access is 16 B.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from roofline.measure.ceilings.base import Bench, Call, Candidate, Measured, close, with_note

READ_BLOCKS = ((4096, 8, 8), (8192, 8, 16), (2048, 4, 32))
"""Triton: floats a block, warps, and programs a processor."""
STREAM_BLOCKS = ((1024, 4), (2048, 4), (4096, 8))
SCALE = 3.0
CACHES = 3
"""Size of an array in caches from which on none of it is found there again."""


def arrays(bench: Bench, count: int) -> list[Any]:
    """So many arrays of random numbers, whose length any block size divides."""
    import torch

    length = max(1, bench.sizes.array_bytes // 4 // 8192) * 8192
    return [torch.randn(length, device=bench.place) for _ in range(count)]


def array_bytes(bench: Bench) -> int:
    """Bytes of one array as made."""
    return max(1, bench.sizes.array_bytes // 4 // 8192) * 8192 * 4


def read(bench: Bench) -> Measured:
    """N bytes read: sums."""
    import torch

    (x,) = arrays(bench, 1)
    found = [Candidate(label="torch.sum", build=lambda: lambda: torch.sum(x))]
    if bench.cuda:
        found += [_triton_read(bench, x, *block) for block in READ_BLOCKS]
    else:
        found += [
            Candidate(label="torch.dot(x, x)", build=lambda: lambda: torch.dot(x, x)),
            Candidate(label="torch.amax", build=lambda: lambda: torch.amax(x)),
        ]
    return _rated(bench, 1, found)


def _triton_read(bench: Bench, x: Any, block: int, warps: int, programs: int) -> Candidate:
    import torch

    sums = torch.zeros(bench.processors * programs, device=x.device)

    def build() -> Call:
        kernel = triton_kernel("read_sums")
        return lambda: kernel[(len(sums),)](x, sums, x.numel(), BLOCK=block, num_warps=warps)

    def check() -> None:
        scale = x.abs().sum(dtype=torch.float64).item()
        error = (sums.sum(dtype=torch.float64) - x.sum(dtype=torch.float64)).item()
        close(1.0 + error / scale, 1.0, 1e-5, "read_sums")

    return Candidate(label=f"Triton sums, {block} floats x {len(sums)} programs", build=build, check=check)


def write(bench: Bench) -> Measured:
    """N bytes written: fills."""
    (y,) = arrays(bench, 1)
    found = [
        Candidate(label="fill_", build=lambda: lambda: y.fill_(1.0)),
        Candidate(label="zero_", build=lambda: lambda: y.zero_()),
    ]
    if bench.cuda:
        found += [_triton_stream("write_all", (y, SCALE), y, block, lambda: SCALE, "fill") for block in STREAM_BLOCKS]
    return _rated(bench, 1, found)


def copy(bench: Bench) -> Measured:
    """2N bytes: read one array, write another."""
    import torch

    x, y = arrays(bench, 2)
    found = [
        Candidate(label="copy_", build=lambda: lambda: y.copy_(x)),
        Candidate(label="torch.mul(x, 1)", build=lambda: lambda: torch.mul(x, 1.0, out=y)),
    ]
    if bench.cuda:
        found += [_triton_stream("copy_all", (x, y), y, block, lambda: x[-1].item(), "copy") for block in STREAM_BLOCKS]
    return _rated(bench, 2, found)


def triad(bench: Bench) -> Measured:
    """3N bytes: read two arrays, write a third."""
    import torch

    a, b, c = arrays(bench, 3)
    found = [Candidate(label="torch.add(b, c, alpha=s)", build=lambda: lambda: torch.add(b, c, alpha=SCALE, out=a))]
    if bench.cuda:
        found += [
            _triton_stream("triad_all", (b, c, a, SCALE), a, block, lambda: (b[-1] + SCALE * c[-1]).item(), "triad")
            for block in STREAM_BLOCKS
        ]
    return _rated(bench, 3, found)


def _rated(bench: Bench, arrays_moved: int, found: list[Candidate]) -> Measured:
    """The fastest, and a warning where a cache may have kept part of the arrays."""
    measured = bench.fastest(arrays_moved * array_bytes(bench), found)
    cache = bench.device.info.l2_bytes
    if cache is None or array_bytes(bench) >= CACHES * cache:
        return measured
    return with_note(measured, f"one array is {array_bytes(bench) / cache:.2g} caches, {CACHES} were wanted: the rate may be too high")


def _triton_stream(
    name: str, args: tuple[Any, ...], out: Any, size: tuple[int, int], expected: Callable[[], float], title: str
) -> Candidate:
    block, warps = size

    def build() -> Call:
        kernel = triton_kernel(name)
        return lambda: kernel[(out.numel() // block,)](*args, BLOCK=block, num_warps=warps)

    return Candidate(
        label=f"Triton {title}, {block} floats a program",
        build=build,
        check=lambda: close(out[-1].item(), expected(), 1e-5, name),
    )


def triton_kernel(name: str) -> Any:
    """A Triton kernel of ours.

    Raises:
        ImportError: no Triton.
    """
    from roofline.measure.ceilings import triton_kernels

    if not triton_kernels.available:
        raise ImportError("Triton is not installed")
    return getattr(triton_kernels, name)
