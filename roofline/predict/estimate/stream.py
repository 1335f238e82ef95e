"""Time of a kernel that streams memory: a start, then whichever is slowest of its bytes, its instructions and its longest block.

    time = fixed + fill + smooth maximum of (bytes and rows, instructions, longest block)

Bytes move at a share of the HBM bandwidth; a row costs time that no byte explains (reductions across threads, synchronisation).
With few blocks the time is that of one block, which alone keeps only some of a processor's lanes and loads busy. Libraries
switch kernels with the width of a row and its alignment (`roofline.predict.estimate.paths`): each path has shares of its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from roofline.numeric import Number, anywhere, ceil_div, fourth, is_array, maximum, minimum, root, where
from roofline.ops.launched import Stream
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms
from roofline.predict.estimate.paths import (
    BLOCK_A_ROW,
    BLOCK_ELEMENTS,
    FEW_ELEMENTS,
    FEW_ROWS,
    NUMBER_OF_PATHS,
    ONE_BLOCK,
    PADDED,
    PATHS,
    ROWS_RESIDENT,
    SHARED_ROWS,
    STRIDED,
    SWEEPS,
    VECTORISED,
)
from roofline.predict.estimate.stream_beliefs import BELIEFS, RELATIVES

LANES = 128
"""Elements that a processor of any GPU since 2016 handles in one clock, one instruction each."""
WORDS = frozenset(("fp32", "tf32", "fp64", "int32", "int64"))
"""Formats that are computed as they are stored."""
SECTOR_BYTES = 32
"""What L2 moves at least; each element of a strided access costs one."""
MOST_PATHS = 7


def _of_a_path() -> tuple[Parameter, ...]:
    """Parameters that each path has, with the path's number after the first one's names."""
    found = []
    for number in range(1, MOST_PATHS + 1):
        end = "" if number == 1 else f"_{number}"
        on = "" if number == 1 else f"; on path {number}"
        found += [
            Parameter(f"hbm_share{end}", f"of the HBM bandwidth{on}", 0.85, 0.02, 3.0, 0.3),
            Parameter(f"row_clocks{end}", f"clocks of a processor for a row, beyond its bytes{on}", 20.0, 0.01, 2e4, 1.0),
            Parameter(f"element_clocks{end}", f"instructions for an element, beyond those counted{on}", 4.0, 0.1, 500.0, 0.7),
            Parameter(f"block_share{end}", f"of the HBM bandwidth of one processor, for a single block{on}", 0.5, 0.005, 50.0, 0.7),
            Parameter(f"block_lanes{end}", f"share of a processor's lanes that a single block keeps busy{on}", 0.5, 0.005, 2.0, 0.7),
        ]
    return tuple(found)


class StreamModel:
    """Model of `Stream`."""

    name: ClassVar[str] = "stream"
    nearest_device: ClassVar[bool] = False
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("fixed_s", "start and end of a kernel, in seconds", 1.2e-6, 5e-7, 3e-5, 0.3),
        Parameter("fill_s", "until memory is busy and again until the last bytes are written, in seconds", 8e-7, 1e-8, 3e-5, 0.5),
        Parameter("fill_bytes", "of which half of that shows, in bytes", 2e6, 1e4, 1e8, 0.7),
        Parameter("flop_clocks", "instructions for a FLOP", 2.0, 0.1, 20.0, 0.5),
        Parameter("sfu_clocks", "instructions for a special function", 12.0, 1.0, 200.0, 0.5),
        Parameter("word_share", "of those for an element, where it has 4 bytes or more and needs no conversion", 0.8, 0.2, 3.0, 0.3),
        Parameter("matrix_share", "of the matrix rate, for kernels that multiply matrices too", 0.6, 0.05, 1.0, 0.3),
        Parameter("overlap", "0: bytes, instructions and blocks meet as the root of squares; 1: of fourth powers", 0.5, 0.01, 1.0, 0.5),
        Parameter("tail", "how much of a last, partial wave of rows shows", 0.5, 0.01, 1.0, 0.5),
        Parameter("l2_share", "share of L2 that rows in flight may fill before further sweeps go to HBM", 0.7, 0.1, 4.0, 0.4),
        Parameter("remainder", "how much longer a block takes that is not full, where blocks read in vectors", 0.7, 0.01, 5.0, 0.7),
        Parameter("fresh_share", "share of L2 up to which half of what the kernel before wrote is read from there", 0.5, 0.05, 2.0, 0.4),
        Parameter(
            "kept_gain", "share of the bytes that do not wait for HBM, for a kernel that moves less than L2 holds", 0.1, 0.001, 0.6, 0.5
        ),
        Parameter("kept_share", "share of L2 up to which half of that holds", 0.8, 0.1, 3.0, 0.4),
        Parameter("warm_share", "share of L2 below which operands are found there", 0.03, 0.002, 0.3, 0.3),
        Parameter("warm_gain", "how much sooner a single block is done then", 0.3, 0.01, 0.8, 0.5),
        *_of_a_path(),
    )

    def sets(self, kernel: Stream, library: str) -> tuple[str, ...]:
        """Of its sort, of its relative, of any sort; an engine's first, then torch's. Formats share a set."""
        return _sets(kernel.kind, library)

    def parameters_of(self, name: str) -> tuple[Parameter, ...]:
        """The parameters of a set by its name: those of the paths that its sort of kernel takes, begun from what is thought of it."""
        return _declared(name.split(".")[1])

    def terms(self, kernel: Stream, device: Device, p: Parameters) -> Terms:
        """The time of one call."""
        kind, rows = kernel.kind, kernel.rows
        elements, moved = rows * kernel.cols, kernel.read_bytes + kernel.write_bytes
        share, row_clocks, element_clocks, block_share, block_lanes = _path(kernel, p)
        blocks, rows_s = _blocks(kernel, elements, row_clocks, device)
        from_hbm = moved + SECTOR_BYTES * elements if kind in STRIDED else moved
        if is_array(kernel.fresh_bytes) or kernel.fresh_bytes:
            from_hbm = from_hbm - kernel.fresh_bytes / (1 + fourth(kernel.fresh_bytes / (p["fresh_share"] * device.l2_bytes)))
        in_flight: Number = rows
        if kind in ROWS_RESIDENT:
            in_flight = ROWS_RESIDENT[kind](kernel) * device.processors
        if kind in SWEEPS:
            from_hbm = from_hbm + _swept_again(kernel, minimum(in_flight, rows), device, p)
        bandwidth = device.hbm_bytes_per_s
        if kind in PADDED:
            elements = rows * PADDED[kind](kernel)
        if kernel.dtype in WORDS:
            element_clocks = element_clocks * p["word_share"]
        kept = p["kept_gain"] / (1 + fourth(moved / (p["kept_share"] * device.l2_bytes)))
        bytes_s, compute = from_hbm * (1 - kept) / (share * bandwidth) + rows_s, _compute_s(kernel, elements * element_clocks, device, p)
        if kind in ROWS_RESIDENT:
            uneven = 1 + p["tail"] * _unevenness(rows / in_flight)
            bytes_s, compute = bytes_s * uneven, compute * uneven
        each = device.processors / maximum(blocks, 1.0)
        warm = p["warm_gain"] / (1 + fourth(moved / (p["warm_share"] * device.l2_bytes)))
        block_s = (moved / (block_share * bandwidth) + compute / block_lanes) * each * (1 - warm)
        if kind in VECTORISED:
            block_s = block_s * where(elements % VECTORISED[kind] > 0, 1 + p["remainder"], 1.0)
        filled = moved / p["fill_bytes"]
        fixed = p["fixed_s"] + p["fill_s"] * filled * filled / (1 + filled * filled)
        time = fixed + _slowest(bytes_s, compute, block_s, p["overlap"])
        return Terms(time, {"fixed": fixed, "memory": bytes_s, "compute": compute, "block": block_s})


def _blocks(kernel: Stream, elements: Number, row_clocks: Number, device: Device) -> tuple[Number, Number]:
    """Blocks that the work is cut into, and seconds that its rows cost beyond bytes.

    Blocks that share a row wait for each other at the end, the longer the more of them there are; a single block takes its rows
    one after the other, all its threads side by side.
    """
    kind, rows, clock = kernel.kind, kernel.rows, device.clock_hz
    if kind in ONE_BLOCK:
        threads, least = ONE_BLOCK[kind]
        return 1.0, maximum(rows / threads, minimum(rows, least)) * row_clocks / clock
    pieces = elements / BLOCK_ELEMENTS.get(kind, FEW_ELEMENTS)
    if kind not in BLOCK_A_ROW:
        return pieces, 0.0
    rows_s = rows * row_clocks / (clock * device.processors)
    if kind not in SHARED_ROWS:
        return rows, rows_s
    shared, met = rows < FEW_ROWS, pieces / (pieces + device.processors)
    return where(shared, pieces, rows), where(shared, met * row_clocks / clock, rows_s)


@cache
def _sets(kind: str, library: str) -> tuple[str, ...]:
    owners = (library,) if library == "torch" else (library, "torch")
    kinds = dict.fromkeys((kind, RELATIVES.get(kind, kind), "any"))
    return tuple(f"stream.{which}.{who}.any" for which in kinds for who in owners)


@cache
def _declared(kind: str) -> tuple[Parameter, ...]:
    common = StreamModel.parameters[: -len(_of_a_path())]
    paths = MOST_PATHS if kind == "any" else NUMBER_OF_PATHS.get(kind, 1)
    begun = BELIEFS.get(kind, {})
    each = len(_of_a_path()) // MOST_PATHS
    return tuple(replace(p, start=begun.get(p.name, p.start)) for p in (*common, *_of_a_path()[: paths * each]))


_NAMES = tuple(
    tuple(f"{name}{'' if n == 1 else f'_{n}'}" for name in ("hbm_share", "row_clocks", "element_clocks", "block_share", "block_lanes"))
    for n in range(1, MOST_PATHS + 1)
)


def _path(kernel: Stream, p: Parameters) -> list[Number]:
    """The parameters of the path that each kernel takes: the last whose condition holds, else the first."""
    if kernel.kind not in PATHS:
        return [p[name] for name in _NAMES[0]]
    number: Any = 0
    for following, taken in enumerate(PATHS[kernel.kind](kernel), start=1):
        number = where(taken, following, number)
    if not is_array(number):
        return [p[name] for name in _NAMES[number]]
    import numpy as np

    used = int(number.max()) + 1
    return [np.array([p[names[which]] for names in _NAMES[:used]])[number] for which in range(len(_NAMES[0]))]


def _unevenness(waves: Number) -> Number:
    """By how much whole waves exceed the waves there are, as a share of these; nothing below one."""
    return where(waves > 1, ceil_div(waves, 1.0) / waves - 1, 0.0)


def _swept_again(kernel: Stream, in_flight: Number, device: Device, p: Parameters) -> Number:
    """Bytes that further sweeps over a row read from HBM: those of all rows, once the rows in flight no longer fit in L2."""
    full = fourth(in_flight * (kernel.read_bytes / kernel.rows) / (p["l2_share"] * device.l2_bytes))
    return SWEEPS[kernel.kind](kernel) * kernel.read_bytes * full / (1 + full)


def _compute_s(kernel: Stream, instructions: Number, device: Device, p: Parameters) -> Number:
    """Instructions over the lanes of all processors (fp64 at the rate of its own), and matrix FLOP over their rate."""
    slower = device.vector("fp32") / device.vector("fp64") if kernel.dtype == "fp64" else 1.0
    counted: Number = p["flop_clocks"] * kernel.flop + p["sfu_clocks"] * kernel.sfu
    seconds = (instructions + slower * counted) / (LANES * device.processors * device.clock_hz)
    if anywhere(kernel.tensor_flop > 0):
        seconds = seconds + kernel.tensor_flop / (p["matrix_share"] * device.matrix(kernel.dtype))
    return seconds


def _slowest(a: Number, b: Number, c: Number, overlap: float) -> Number:
    """A smooth maximum between the root of squares and that of fourth powers, by products and square roots alone."""
    a, b, c = a * a, b * b, c * c
    loose, tight = root(a + b + c), root(root(a * a + b * b + c * c))
    return loose + overlap * (tight - loose)
