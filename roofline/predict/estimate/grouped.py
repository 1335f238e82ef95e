"""Time of a grouped product: rows sorted by their matrix, a grid of tiles over all of them, weights of the matrices chosen.

A tile holds rows of one matrix, so that each matrix pads its rows to whole tiles; the library has tiles of several heights, and
the best is taken. A tile walks along k as a block of a plain product does; tiles run in waves. Meanwhile HBM moves the weights of the
matrices chosen once, and rows in and out. Kernels: those of fused mixtures of experts in Triton, as engines launch them. Which tile
the engine's tables pick for a shape is not modelled, and is most of the error that remains.
"""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, exp2, fourth, log2, maximum, minimum, total, up, where
from roofline.ops.launched import GroupedProduct
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms

HEIGHTS = (16, 32, 64, 128)
"""Rows of a tile."""
WIDTHS = (64, 128)
"""Columns of a tile."""
POINTS = 6
"""Experts, evenly from the emptiest to the fullest, that stand for all when tiles are counted."""
SHARES = tuple(log2((at + 0.5) / POINTS) for at in range(POINTS))
"""Logarithms of the shares of experts that are emptier than each of them."""
RELATED = {"bf16": ("bf16",), "fp16": ("bf16",), "fp8": ("fp8", "bf16"), "int8": ("int8", "fp8", "bf16")}
"""By matrix format, whose parameters serve it, the best first; all others run as bf16 would at their own rates and bytes."""


class GroupedModel:
    """Model of `GroupedProduct`."""

    name: ClassVar[str] = "grouped"
    nearest_device: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("fixed_s", "start and end of a kernel, and its half of sorting the rows, in seconds", 1.3e-5, 1e-6, 6e-5, 0.7),
        Parameter("expert_s", "each matrix costs the sorting, in seconds", 1e-9, 1e-12, 1e-7, 1.0),
        Parameter("read_share", "of the HBM bandwidth, reading weights; copies reach no more", 0.92, 0.3, 0.96, 0.05),
        Parameter("row_share", "of the HBM bandwidth for rows in and out", 0.7, 0.1, 1.5, 0.5),
        Parameter("matrix_share", "of a processor's matrix rate inside a tile", 0.7, 0.1, 1.2, 0.3),
        Parameter("balanced_edge", "of the square tile whose loads take as long as its arithmetic at the peak", 110.0, 2.0, 1000.0, 0.5),
        Parameter("step_clocks", "of a processor for one of k, of tiles that run side by side", 1.2, 0.01, 100.0, 0.7),
        Parameter("tile_clocks", "start and end of a tile, in clocks", 1100.0, 10.0, 1e5, 0.7),
        Parameter("wave_share", "of a last, partial wave's idle processors that count as busy", 0.3, 0.01, 1.0, 0.7),
        Parameter("exposed_share", "of the shorter of tiles and memory that the longer does not hide", 0.45, 0.01, 1.0, 0.5),
        Parameter("odd_share", "of the rate of tiles where rows hold no multiple of 16 elements", 0.15, 0.01, 1.0, 0.7),
    )

    def sets(self, kernel: GroupedProduct, library: str) -> tuple[str, ...]:
        """Of its format and library, else of a related format, else an engine's."""
        key = find_dtype(kernel.dtype).matrix
        libraries = (library,) if library == "engine" else (library, "engine")
        return tuple(f"grouped.{own}.{name}" for own in libraries for name in RELATED.get(key, (key, "bf16")))

    def terms(self, kernel: GroupedProduct, device: Device, p: Parameters) -> Terms:
        """Tiles and memory overlap, but for a part of the shorter."""
        compute, memory = _tiles(kernel, device, p), _memory(kernel, device, p)
        fixed = p["fixed_s"] + p["expert_s"] * kernel.experts
        time = fixed + maximum(compute, memory) + p["exposed_share"] * minimum(compute, memory)
        return Terms(time, {"fixed": fixed, "memory": memory, "compute": compute})


def _memory(kernel: GroupedProduct, device: Device, p: Parameters) -> Number:
    """Seconds of the weights chosen and of rows in and out, each once."""
    rows = kernel.read_bytes - kernel.weight_bytes + kernel.write_bytes
    return (kernel.weight_bytes / p["read_share"] + rows / p["row_share"]) / device.hbm_bytes_per_s


def _tiles(kernel: GroupedProduct, device: Device, p: Parameters) -> Number:
    """Seconds of all tiles under the best height and width."""
    rate = device.matrix(kernel.dtype)
    arithmetic = 2 * device.processors / (rate * p["matrix_share"])
    steps = _steps(arithmetic, p["balanced_edge"] * device.processors / rate, p["step_clocks"] / device.clock_hz)
    begin = p["tile_clocks"] / device.clock_hz
    points = _rows_by_expert(kernel)
    best: Number = 1e6
    for height, by_width in zip(HEIGHTS, steps, strict=True):
        tall = kernel.chosen / POINTS * total(up(rows / height) for rows in points)
        for width, step in zip(WIDTHS, by_width, strict=True):
            waves = tall * up(kernel.n / width) / device.processors
            count = maximum(waves + p["wave_share"] * (up(waves) - waves), 1.0)
            best = minimum(best, count * (kernel.k * step + begin))
    return best / where(kernel.aligned, 1.0, p["odd_share"])


@lru_cache(maxsize=64)
def _steps(arithmetic: float, load: float, latency: float) -> tuple[tuple[float, ...], ...]:
    """Seconds of one of k by height and width: arithmetic of an element, loads of an edge and latency meet as the root of fourth powers."""
    last = fourth(latency)
    return tuple(tuple(float(fourth(m * n * arithmetic) + fourth((m + n) * load) + last) ** 0.25 for n in WIDTHS) for m in HEIGHTS)


def _rows_by_expert(kernel: GroupedProduct) -> list[Number]:
    """Rows of some of the chosen matrices, at least one: fullest u^s at shares u of them, with s such that the mean is right.

    The mean of u^s is 1 / (1 + s), so s = fullest / mean - 1: 0 where all have as many, large where few have most.
    """
    skew = maximum(kernel.fullest * kernel.chosen / kernel.rows - 1, 0.0)
    return [maximum(kernel.fullest * exp2(skew * share), 1.0) for share in SHARES]
