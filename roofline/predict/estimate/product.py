"""Time of a matrix product: blocks in waves, split along k where they are too few, beside memory and the power limit.

A block of C walks along k; a step costs the largest of its arithmetic, its loads through L2 and the latency of one step. The
library picks the tile, and whether to split k over more processors, for the least time; so does the model. Meanwhile HBM moves
what L2 does not hold, and no product runs faster than the power limit sustains. Method: the tiles and waves of CUTLASS; every
number is fitted. Not modelled: heuristics that miss the best tile, which is what most of the remaining error is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import ClassVar

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, fourth, is_array, maximum, minimum, root, up, where
from roofline.ops.launched import Product
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms
from roofline.records import dataclass

TILES = ((4, 64), (16, 64), (64, 64), (64, 128), (128, 128), (256, 256))
"""Rows and columns of C that one block computes; the largest needs the accumulators of Blackwell. More shapes change no estimate."""
QUANTISED_TILES = ((16, 64), (64, 64), (64, 128), (128, 128))
"""Those that an engine's 8-bit product chooses among by its rows alone, and never splits."""
FEW_COLUMNS = 1280
"""Up to so many columns that choice stays with the smallest tile for 64 rows."""
VECTOR_FORMATS = ("fp32", "fp64")
"""Multiplied on vector lanes, which load single elements and mind no alignment."""
LEAST_SPLIT_K = 128
"""Of k that one part of a split keeps at least."""
PARTIAL_BYTES = 8
"""A partial sum in fp32 is written and read once."""
NEVER_S = 1e6
"""The time of a choice that is not there."""

RELATED = {
    "bf16": ("bf16",),
    "fp16": ("bf16",),
    "fp8": ("fp8", "int8", "bf16"),
    "int8": ("int8", "fp8", "bf16"),
    "tf32": ("tf32", "bf16"),
    "fp32": ("fp32", "tf32", "bf16"),
    "fp64": ("fp64", "fp32", "tf32", "bf16"),
}
"""By matrix format, whose parameters serve it, the best first; fp16 and bf16 run the same kernels and share one set."""


@dataclass(frozen=True, slots=True)
class _Blocks:
    """What blocks cost on this device, in seconds: of a step along k for each tile, to begin, and to store an element of C.

    ``depth`` is how many steps k is for its rows, ``wave`` and ``hidden`` the shares of the parameters.
    """

    steps: tuple[float, ...]
    begin: float
    store: Number
    depth: Number
    wave: float
    hidden: float


class ProductModel:
    """Model of `Product`."""

    name: ClassVar[str] = "product"
    nearest_device: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("fixed_s", "start and end of a kernel, in seconds", 2.3e-6, 5e-7, 2e-5, 0.5),
        Parameter("read_share", "of the HBM bandwidth, reading", 0.88, 0.3, 1.0, 0.2),
        Parameter("write_share", "of the HBM bandwidth, writing", 0.85, 0.2, 1.0, 0.3),
        Parameter("matrix_share", "of a processor's matrix rate inside a block", 0.9, 0.2, 1.2, 0.3),
        Parameter("power_share", "of the device's matrix rate that its power sustains", 0.8, 0.2, 1.2, 0.3),
        Parameter("balanced_edge", "of the square tile whose loads take as long as its arithmetic at the peak", 90.0, 2.0, 1000.0, 0.5),
        Parameter("step_clocks", "latency of one of k, in clocks", 2.7, 0.01, 100.0, 0.7),
        Parameter("step_power", "power of the sum of arithmetic, loads and latency in a step", 4.5, 1.0, 12.0, 0.5),
        Parameter("block_clocks", "start of a block, in clocks", 350.0, 10.0, 1e4, 0.7),
        Parameter("store_bytes_per_clock", "that a processor stores of C", 18.0, 2.0, 400.0, 0.7),
        Parameter("wave_share", "of a last, partial wave's idle processors that count as busy", 0.2, 0.01, 1.0, 0.7),
        Parameter("hidden_share", "of the start and end of a block that hides behind another wave", 0.3, 0.001, 1.0, 0.5),
        Parameter("split_s", "a split along k costs, in seconds", 2.8e-6, 1e-7, 1e-5, 0.5),
        Parameter("split_part_s", "and each part of it, in seconds", 1e-8, 1e-10, 5e-7, 1.0),
        Parameter("partial_share", "of the HBM bandwidth at which partial sums go", 1.0, 0.02, 5.0, 1.0),
        Parameter("warm_a", "share of L2 up to which half of A is found there from the call before", 0.1, 0.0005, 2.0, 2.0),
        Parameter("warm_b", "the same of B", 0.05, 0.0005, 2.0, 2.0),
        Parameter("warm_c", "the same of C, which is overwritten there", 0.1, 0.0005, 2.0, 2.0),
        Parameter("exposed_share", "of the shorter of blocks and memory that nothing hides, while both are short", 0.6, 0.01, 1.0, 0.5),
        Parameter("exposed_s", "seconds from which ever less is exposed", 5e-6, 1e-7, 1e-3, 1.0),
        Parameter("unaligned_share", "of the rates inside a block where rows start at 4 or 8 bytes", 0.4, 0.02, 1.0, 0.5),
        Parameter("odd_share", "the same at 2 bytes or fewer", 0.15, 0.01, 1.0, 0.5),
        Parameter("prepare_row_s", "quantising a row of A, at least, in seconds", 1.6e-6, 1e-8, 1e-5, 0.5),
        Parameter("prepare_element_s", "and each of its elements, in seconds", 4e-10, 1e-12, 1e-8, 0.7),
    )

    def sets(self, kernel: Product, library: str) -> tuple[str, ...]:
        """Of its own kind before those of plain products; a related format's before the other library's."""
        return _sets(kernel.kind, kernel.dtype, library)

    def terms(self, kernel: Product, device: Device, p: Parameters) -> Terms:
        """Blocks and memory overlap, but for a part of the shorter; power holds back what the blocks could do."""
        memory, power = _memory(kernel, device, p), _power(kernel, device, p)
        compute = maximum(_blocks(kernel, device, p), power)
        short = minimum(compute, memory)
        busy = maximum(compute, memory) + p["exposed_share"] * short / root(1 + short / p["exposed_s"])
        parts = {"fixed": p["fixed_s"], "memory": memory, "compute": compute, "power": power}
        if kernel.kind == "quantised_gemm":
            parts["prepare"] = _prepare(kernel, device, p)
            busy = busy + parts["prepare"]
        return Terms(p["fixed_s"] + busy, parts)


def _prepare(kernel: Product, device: Device, p: Parameters) -> Number:
    """Seconds of quantising A by rows in a kernel before the product, a row on each half of a processor."""
    rows = maximum(kernel.m / (2 * device.processors), 1)
    return rows * (p["prepare_row_s"] + kernel.k * p["prepare_element_s"])


@cache
def _sets(kind: str, dtype_name: str, library: str) -> tuple[str, ...]:
    """Names are made once for each sort: making them takes a tenth of an estimate."""
    kinds = dict.fromkeys((kind, "gemm"))
    formats = RELATED.get(find_dtype(dtype_name).matrix, ("fp8", "bf16"))
    libraries = dict.fromkeys((library, "torch", "engine"))
    return tuple(f"{ProductModel.name}.{which}.{lib}.{dtype}" for which in kinds for dtype in formats for lib in libraries)


def _memory(kernel: Product, device: Device, p: Parameters) -> Number:
    """HBM seconds of what L2 does not hold."""
    size = find_dtype(kernel.dtype).bytes
    if kernel.kind == "conv2d":  # A is unfolded on chip: its bytes are fewer than those of m k elements
        b = minimum(kernel.batch * kernel.n * kernel.k * size, kernel.read_bytes)
        a = kernel.read_bytes - b
    else:  # B may be quantised on its own
        a = minimum(kernel.batch * kernel.m * kernel.k * size, kernel.read_bytes)
        b = kernel.read_bytes - a
    c = kernel.write_bytes
    read = a * _cold(a / (p["warm_a"] * device.l2_bytes)) + b * _cold(b / (p["warm_b"] * device.l2_bytes))
    written = c * _cold(c / (p["warm_c"] * device.l2_bytes))
    return read / (device.hbm_bytes_per_s * p["read_share"]) + written / (device.hbm_bytes_per_s * p["write_share"])


def _cold(fill: Number) -> Number:
    """Share that comes from HBM: half at a fill of 1, soon less below and all above."""
    return 1 - 1 / (1 + fourth(fill))


def _power(kernel: Product, device: Device, p: Parameters) -> Number:
    """Seconds of all FLOP at the rate that the power limit sustains."""
    flop = 2 * kernel.batch * kernel.m * kernel.n * kernel.k
    return flop / (device.matrix(kernel.dtype) * p["power_share"])


def _blocks(kernel: Product, device: Device, p: Parameters) -> Number:
    """Seconds of all blocks under the tile that the library takes."""
    elements = kernel.batch * kernel.m * kernel.n
    on_lanes = find_dtype(kernel.dtype).matrix in VECTOR_FORMATS
    slow = 1.0 if on_lanes else where(kernel.aligned >= 1, 1.0, where(kernel.aligned >= 0.25, p["unaligned_share"], p["odd_share"]))
    tiles = QUANTISED_TILES if kernel.kind == "quantised_gemm" else TILES
    blocks = _Blocks(
        steps=_steps(
            tiles,
            2 * device.processors / (device.matrix(kernel.dtype) * p["matrix_share"]),
            p["balanced_edge"] * device.processors / device.matrix(kernel.dtype),
            p["step_clocks"] / device.clock_hz,
            p["step_power"],
        ),
        begin=p["block_clocks"] / device.clock_hz,
        store=kernel.write_bytes / elements / slow / (p["store_bytes_per_clock"] * device.clock_hz),
        depth=kernel.k / slow,
        wave=p["wave_share"],
        hidden=p["hidden_share"],
    )
    if kernel.kind == "quantised_gemm":
        return _by_rows(kernel, device, blocks)
    part = p["split_part_s"] + elements * (PARTIAL_BYTES / (device.hbm_bytes_per_s * p["partial_share"]))
    return _best(kernel, device, blocks, part, p["split_s"])


@lru_cache(maxsize=64)
def _steps(tiles: tuple[tuple[int, int], ...], arithmetic: float, load: float, latency: float, power: float) -> tuple[float, ...]:
    """Seconds of one of k in a block, for each tile: arithmetic of an element, loads of an edge and latency overlap.

    Kept from one product to the next: nothing in it depends on the shape.
    """
    last = latency**power
    return tuple(((m * n * arithmetic) ** power + ((m + n) * load) ** power + last) ** (1 / power) for m, n in tiles)


def _best(kernel: Product, device: Device, blocks: _Blocks, part: Number, split_s: float) -> Number:
    """Over tiles the least time, of blocks that walk along all of k or of parts of them that still run at once.

    A split pays ``split_s`` and ``part`` for each part; the best number of parts balances that against the way along k. Below
    one part the sum exceeds the time without a split, so that it is not taken.
    """
    rows = {edge: kernel.batch * up(kernel.m / edge) for edge in (4, 16, 64, 128, 256)}
    columns = {edge: up(kernel.n / edge) / device.processors for edge in (64, 128, 256)}
    most = kernel.k / LEAST_SPLIT_K
    arrays = is_array(kernel.batch, kernel.m, kernel.n, kernel.k, blocks.depth, blocks.store, part)
    # Thirty comparisons of two numbers are half of a single estimate: the built-in ones take a third of the time.
    lower: Callable[[Number, Number], Number] = minimum if arrays else min
    higher: Callable[[Number, Number], Number] = maximum if arrays else max
    best: Number = NEVER_S
    for (tile_m, tile_n), step in zip(TILES, blocks.steps, strict=True):
        waves = rows[tile_m] * columns[tile_n]
        along, ends = blocks.depth * step, blocks.begin + tile_m * tile_n * blocks.store
        count = higher(waves + blocks.wave * (up(waves) - waves), 1)
        parts = lower(lower(root(along / part), 1 / waves), most)
        split = count * (ends + along / parts) + split_s + part * parts
        best = lower(best, lower(_whole(count, ends, along, blocks.hidden, lower), split))
    return best


def _by_rows(kernel: Product, device: Device, blocks: _Blocks) -> Number:
    """The tile that the number of rows decides; the largest come in pairs along the rows."""
    few = (kernel.m <= 16) | ((kernel.m <= 64) & (kernel.n <= FEW_COLUMNS))
    choices = (few, kernel.m <= 64, kernel.m <= 128, True)
    seconds: Number = NEVER_S
    for chosen, (tile_m, tile_n), step in reversed(tuple(zip(choices, QUANTISED_TILES, blocks.steps, strict=True))):
        rows = up(kernel.m / tile_m) if tile_m < 128 else 2 * up(kernel.m / (2 * tile_m))
        waves = kernel.batch * rows * up(kernel.n / tile_n) / device.processors
        count = maximum(waves + blocks.wave * (up(waves) - waves), 1)
        along, ends = blocks.depth * step, blocks.begin + tile_m * tile_n * blocks.store
        seconds = where(chosen, _whole(count, ends, along, blocks.hidden), seconds)
    return seconds


def _whole(count: Number, ends: Number, along: Number, hidden: float, lower: Callable[[Number, Number], Number] = minimum) -> Number:
    """Seconds of waves of blocks that each walk along all of k; what begins and ends one hides in part behind the next."""
    return count * (ends + along) - hidden * (count - 1) * lower(ends, along)
