"""Time of attention over many queries: tiles of queries walk along the keys, spread over the processors.

A tile starts up, then takes a step for each block of keys that it sees; the next free processor takes the next tile, the
longest first. The device is done when the work is spread, and not before its longest tile. The first reads of keys and
values come from memory and are only partly hidden by arithmetic.
"""

from __future__ import annotations

from typing import Any

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere, maximum, minimum, up, where
from roofline.ops.launched import FusedAttention
from roofline.predict.estimate.attention_tiles import Kernels, by_width, kernels_of, parts, relative, width_of
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms

FP32 = 4
"""Bytes of an element of a part."""

RAGGED_WIDTH = 128
"""Head dimensions up to which kernels have a faster variant for lengths that are multiples of their tiles."""

PARAMETERS: tuple[Parameter, ...] = (
    Parameter("fixed_s", "start and end of the call, in seconds", 9e-6, 5e-7, 4e-5, 0.7),
    Parameter("tile_s", "start and end of a tile, in seconds", 2e-6, 1e-8, 2e-5, 0.7),
    Parameter("row_s", "and for each of its rows, in seconds, at head_dim 128", 5e-9, 1e-11, 1e-7, 0.7),
    Parameter("matrix_share", "of the matrix rate in a step, head_dim 128", 0.6, 0.02, 1.2, 0.4),
    Parameter("matrix_share_64", "that of head_dim up to 64, over that of 128", 0.75, 0.1, 2.0, 0.3),
    Parameter("matrix_share_192", "that of head_dim up to 192, over that of 128", 1.05, 0.1, 2.0, 0.2),
    Parameter("matrix_share_256", "that of head_dim up to 256, over that of 128", 1.1, 0.1, 2.0, 0.2),
    Parameter("matrix_share_wide", "that of wider heads, over that of 128", 0.6, 0.1, 2.0, 0.3),
    Parameter("alone", "time of a tile that has a processor to itself, over its share of a full one", 1.0, 0.2, 1.5, 0.3),
    Parameter("wave_share", "of a last, partial wave's idle processors that count as busy", 0.3, 0.001, 1.0, 0.7),
    Parameter(
        "ragged_s", "a tile of a causal kernel takes longer by, in seconds, where lengths are no multiple of tiles", 1e-8, 1e-9, 2e-5, 2.0
    ),
    Parameter("tail", "share of the shorter of the longest tile and the spread work that adds to the longer", 0.2, 0.001, 1.0, 0.7),
    Parameter("combine_s", "a kernel that combines split keys, in seconds", 2.3e-6, 1e-7, 1e-5, 0.7),
    Parameter("part_share", "of the HBM bandwidth for parts in fp32, written and read", 1.0, 0.1, 8.0, 0.5),
    Parameter("query_share", "of the HBM bandwidth for queries and outputs", 0.9, 0.1, 4.0, 0.4),
    Parameter("key_share", "of the HBM bandwidth for keys and values of many heads", 0.5, 0.02, 1.5, 0.5),
    Parameter("narrow", "how much longer keys and values take where a token has few of them", 4.0, 0.001, 20.0, 1.0),
    Parameter("narrow_half", "keys of a token, over all heads, at which half of that is left", 1024.0, 64.0, 3e4, 0.7),
    Parameter("exposed", "share of the shorter of memory and compute that is not hidden by the longer", 0.8, 0.01, 1.2, 0.7),
)


def prefill(kernel: FusedAttention, device: Device, p: Parameters) -> Terms:
    """Spread tiles beside memory, and what combines parts of keys after them."""
    kernels = kernels_of(kernel.implementation, device.architecture)
    compute, splits = _tiles(kernel, kernels, device, p)
    memory = _memory(kernel, device, p)
    fixed: Number = p["fixed_s"]
    if kernels.split_prefill:
        moved = 2 * FP32 * splits * (kernel.batch * kernel.heads * kernel.q_len * kernel.v_head_dim)
        split: Any = splits > 1
        fixed = fixed + split * (p["combine_s"] + moved / (p["part_share"] * device.hbm_bytes_per_s))
    time = fixed + maximum(compute, memory) + p["exposed"] * minimum(compute, memory)
    return Terms(time, {"fixed": fixed, "memory": memory, "compute": compute})


def _tiles(kernel: FusedAttention, kernels: Kernels, device: Device, p: Parameters) -> tuple[Number, Number]:
    """Seconds of all tiles, and the parts of their keys."""
    d, width = kernel.head_dim, width_of(kernel.head_dim)
    shared = kernel.heads / kernel.kv_heads if kernels.packed else 1.0
    rows, sequences = kernel.q_len * shared, kernel.batch * kernel.heads / shared
    tile_rows, tile_keys, splits = _cut(kernel, kernels, width, device)
    down = up(rows / tile_rows)
    blocks, mean = seen_blocks(kernel, tile_rows / shared, tile_keys)
    if kernels.packed and kernels.split_prefill:
        splits = parts(sequences * down, blocks, kernels, device.processors)
    rate = device.matrix(kernel.dtype) / device.processors
    step = 2 * tile_rows * tile_keys * (d + kernel.v_head_dim) / (rate * by_width(width, relative(p, "matrix_share")))
    begin = p["tile_s"] + p["row_s"] / 128 * d * minimum(rows, tile_rows)
    if kernel.causal:
        ragged: Any = ((down * tile_rows > rows) | (blocks * tile_keys > kernel.kv_len)) & (d <= RAGGED_WIDTH)
        begin = begin + p["ragged_s"] * ragged
    waves = sequences * down * splits / device.processors
    spread = (waves + p["wave_share"] * (up(waves) - waves)) * (begin + mean * step / splits)
    longest = begin + up(blocks / splits) * step * p["alone"]
    whole = maximum(spread, longest)
    return (whole + p["tail"] * minimum(spread, longest) if kernel.causal else whole), splits


def _cut(kernel: FusedAttention, kernels: Kernels, width: Any, device: Device) -> tuple[Number, Number, Number]:
    """Rows and keys of a tile, and parts of its keys; FlashAttention 2 has a kernel with tiles of its own for split keys."""
    rows, keys = by_width(width, kernels.rows), by_width(width, kernels.keys)
    if kernels.packed or not kernels.split_prefill:
        return rows, keys, 1.0
    few_rows, few_keys = by_width(width, kernels.decode_rows), by_width(width, kernels.decode_keys)
    tiles = kernel.batch * kernel.heads * up(kernel.q_len / few_rows)
    splits = parts(tiles, up(kernel.kv_len / few_keys), kernels, device.processors)
    split: Any = splits > 1
    return rows + split * (few_rows - rows), keys + split * (few_keys - keys), splits


def seen_blocks(kernel: FusedAttention, queries: Number, tile_keys: Number) -> tuple[Number, Number]:
    """Blocks of keys that the last tile of ``queries`` sees, and a tile's mean."""
    keys = kernel.kv_len
    if anywhere(kernel.window > 0):
        keys = minimum(keys, where(kernel.window > 0, kernel.window + queries, keys))
    last = up(keys / tile_keys)
    if not kernel.causal:
        return last, last
    mean = (kernel.kv_len - kernel.q_len / 2) / tile_keys + maximum(queries / tile_keys, 1.0) / 2
    return last, minimum(maximum(mean, 1.0), last)


def _memory(kernel: FusedAttention, device: Device, p: Parameters) -> Number:
    """Seconds of queries and outputs, keys and values once; those that were just written, in narrow rows, come slower.

    The tables that told so have as many queries as keys; cached keys are taken to stream as they do when decoding.
    """
    widths = kernel.head_dim + kernel.v_head_dim
    queries = kernel.batch * kernel.heads * kernel.q_len * widths * find_dtype(kernel.dtype).bytes
    seen = kernel.kv_len
    if anywhere(kernel.window > 0):
        seen = minimum(seen, where(kernel.window > 0, kernel.window + kernel.q_len, seen))
    narrow = p["narrow"] / (1 + kernel.kv_heads * kernel.head_dim / p["narrow_half"])
    tokens = seen + narrow * minimum(seen, kernel.q_len)
    keys = kernel.batch * kernel.kv_heads * tokens * widths * find_dtype(kernel.kv_dtype).bytes
    return (queries / p["query_share"] + keys / p["key_share"]) / device.hbm_bytes_per_s
