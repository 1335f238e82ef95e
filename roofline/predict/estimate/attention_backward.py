"""Time of the backward pass of fused attention: tiles of keys walk along the queries, five products a step.

Three kernels in one term: row sums of dO times O, the tiles, the conversion of dQ from fp32. dQ is added up in memory, so that
what tiles wait for is hidden as little as its share says.
"""

from __future__ import annotations

from typing import Any

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, maximum, minimum, up
from roofline.ops.launched import FusedAttention
from roofline.predict.estimate.attention_prefill import seen_blocks
from roofline.predict.estimate.attention_tiles import by_width, relative, width_of
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms

TILE_KEYS = (128.0, 128.0, 64.0, 64.0, 64.0)
TILE_QUERIES = (128.0, 64.0, 64.0, 64.0, 64.0)
FP32 = 4

PARAMETERS: tuple[Parameter, ...] = (
    Parameter("fixed_s", "start and end of three kernels, in seconds", 1.5e-5, 2e-6, 6e-5, 0.5),
    Parameter("tile_s", "start and end of a tile, in seconds", 3e-6, 1e-8, 5e-5, 0.7),
    Parameter("matrix_share", "of the matrix rate in a step, head_dim 128", 0.35, 0.02, 1.2, 0.4),
    Parameter("matrix_share_64", "that of head_dim up to 64, over that of 128", 0.85, 0.1, 2.0, 0.2),
    Parameter("matrix_share_192", "that of head_dim up to 192, over that of 128", 0.9, 0.1, 2.0, 0.2),
    Parameter("matrix_share_256", "that of head_dim up to 256, over that of 128", 0.85, 0.1, 2.0, 0.2),
    Parameter("matrix_share_wide", "that of wider heads, over that of 128", 0.6, 0.1, 2.0, 0.3),
    Parameter("tail", "share of the shorter of the longest tile and the spread work that adds to the longer", 0.3, 0.001, 1.0, 0.7),
    Parameter("read_share", "of the HBM bandwidth", 0.6, 0.1, 1.0, 0.4),
    Parameter("exposed", "share of the shorter of memory and compute that is not hidden by the longer", 0.8, 0.01, 1.2, 0.5),
)


def backward(kernel: FusedAttention, device: Device, p: Parameters) -> Terms:
    """Spread tiles beside memory."""
    compute, memory = _tiles(kernel, device, p), _memory(kernel, device, p)
    time = p["fixed_s"] + maximum(compute, memory) + p["exposed"] * minimum(compute, memory)
    return Terms(time, {"fixed": p["fixed_s"], "memory": memory, "compute": compute})


def _tiles(kernel: FusedAttention, device: Device, p: Parameters) -> Number:
    """Seconds of all tiles: as many steps as the forward pass takes with these blocks, whichever way they are walked."""
    d, width = kernel.head_dim, width_of(kernel.head_dim)
    keys, queries = by_width(width, TILE_KEYS), by_width(width, TILE_QUERIES)
    _, mean = seen_blocks(kernel, queries, keys)
    rows = up(kernel.q_len / queries)
    tiles = kernel.batch * kernel.heads * up(kernel.kv_len / keys)
    share = by_width(width, relative(p, "matrix_share"))
    flop = 2 * queries * keys * (3 * d + 2 * kernel.v_head_dim)
    step = flop * device.processors / (device.matrix(kernel.dtype) * share)
    steps = kernel.batch * kernel.heads * rows * mean
    spread = (tiles * p["tile_s"] + steps * step) / device.processors
    longest = p["tile_s"] + rows * step
    return maximum(spread, longest) + p["tail"] * minimum(spread, longest)


def _memory(kernel: FusedAttention, device: Device, p: Parameters) -> Number:
    """Seconds of Q, K, V, O, dO and the gradients once, O and dO again for the row sums, dQ in fp32 twice.

    Where heads share keys, dK and dV are written for each head and added up by another kernel.
    """
    e = find_dtype(kernel.dtype).bytes
    queries = kernel.batch * kernel.heads * kernel.q_len * ((2 * e + 2 * FP32) * kernel.head_dim + 4 * e * kernel.v_head_dim)
    grouped: Any = kernel.heads > kernel.kv_heads
    keys: Number = 2 * e * kernel.batch * (kernel.kv_heads + grouped * kernel.heads) * kernel.kv_len * (kernel.head_dim + kernel.v_head_dim)
    return (queries + keys) / (p["read_share"] * device.hbm_bytes_per_s)
