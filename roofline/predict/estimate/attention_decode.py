"""Time of attention of one query a sequence: keys and values stream from memory, one block of keys after the other.

The heads that share a key fill one tile. Where there are fewer of these than processors, the keys of one are split over several
and a second pass combines the parts; where there are more, they run in waves. A processor streams no faster than its
latency allows, the device no faster than its memory; keys that fit into L2 may still be there from the last call.
"""

from __future__ import annotations

from typing import Any

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere, fourth, maximum, minimum, up, where
from roofline.ops.launched import FusedAttention
from roofline.predict.estimate.attention_tiles import WIDEST, Kernels, by_width, kernels_of, parts, relative, width_of
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms

PARAMETERS: tuple[Parameter, ...] = (
    Parameter("fixed_s", "start and end of the call, in seconds", 8e-6, 5e-7, 4e-5, 0.7),
    Parameter("sequence_s", "each sequence costs the scheduler, in seconds", 1e-9, 1e-12, 1e-7, 1.5),
    Parameter("row_s", "combining costs each query head of a sequence, in seconds", 1e-10, 1e-12, 1e-8, 1.5),
    Parameter("search", "how much longer a tile of the widest heads takes with 512 sequences", 0.5, 0.001, 5.0, 1.5),
    Parameter("tile_s", "start and end of a tile, head_dim 128, in seconds", 2e-6, 1e-7, 5e-5, 0.5),
    Parameter("tile_s_64", "that of head_dim up to 64, over that of 128", 0.8, 0.1, 3.0, 0.2),
    Parameter("tile_s_192", "that of head_dim up to 192, over that of 128", 1.1, 0.1, 3.0, 0.2),
    Parameter("tile_s_256", "that of head_dim up to 256, over that of 128", 1.2, 0.1, 3.0, 0.2),
    Parameter("tile_s_wide", "that of wider heads, over that of 128", 2.5, 0.1, 20.0, 0.3),
    Parameter("head_s", "and for each head that shares its keys, in seconds", 1e-8, 1e-10, 2e-7, 1.0),
    Parameter("wave_share", "of a last, partial wave's idle processors that count as busy", 0.3, 0.001, 1.0, 0.7),
    Parameter("matrix_share", "of the matrix rate, rows of a tile that hold no query counted", 0.5, 0.02, 4.0, 0.5),
    Parameter("block_s", "a block of keys at head_dim 128 takes on one processor, in seconds", 7e-7, 1e-8, 1e-5, 0.7),
    Parameter("heads_block", "how much longer a block takes with 16 heads that share a key", 0.2, 0.001, 5.0, 1.0),
    Parameter("read_share", "of the HBM bandwidth", 0.9, 0.2, 1.1, 0.2),
    Parameter("warm_share", "of L2 up to which half of the keys is found there", 0.5, 0.01, 3.0, 0.7),
    Parameter("warm_speed", "bandwidth of L2 over that of HBM", 2.0, 1.0, 6.0, 0.4),
    Parameter("exposed", "share of the shorter of memory and compute that is not hidden by the longer", 0.4, 0.01, 1.2, 0.7),
    Parameter("combine_s", "combining split keys, in seconds", 1.5e-6, 1e-8, 1e-5, 0.7),
    Parameter("part_s", "and for each part of a tile, in seconds", 1e-8, 1e-10, 1e-6, 1.5),
    Parameter("swap_s", "copies that bring the heads of several key heads together, in seconds", 6e-6, 1e-7, 3e-5, 0.7),
)


def decode(kernel: FusedAttention, device: Device, p: Parameters) -> Terms:
    """Waves of tiles, the longest of them, and memory."""
    kernels = kernels_of(kernel.implementation, device.architecture)
    compute, splits = _tiles(kernel, kernels, device, p)
    memory = _memory(kernel, device, p)
    split: Any = splits > 1
    fixed = p["fixed_s"] + _sequences(kernel, kernels, p) + split * (p["combine_s"] + p["part_s"] * splits)
    time = fixed + maximum(compute, memory) + p["exposed"] * minimum(compute, memory)
    return Terms(time, {"fixed": fixed, "memory": memory, "compute": compute})


def _sequences(kernel: FusedAttention, kernels: Kernels, p: Parameters) -> Number:
    """Seconds for each sequence and each of its rows, and for copies that bring together heads that share a key."""
    rows = p["row_s"] * kernel.batch * kernel.heads
    if kernels.swaps:
        swapped: Any = (kernel.kv_heads > 1) & (kernel.heads > kernel.kv_heads) & (kernel.batch > 1)
        copies: Number = swapped * (p["swap_s"] + rows)
        return copies
    captured: Any = kernel.batch <= kernels.captured
    return captured * (p["sequence_s"] * kernel.batch + rows) if kernels.captured else rows


def _tiles(kernel: FusedAttention, kernels: Kernels, device: Device, p: Parameters) -> tuple[Number, Number]:
    """Seconds of all waves or of the longest tile, and the parts that each tile is split into."""
    d, width, group = kernel.head_dim, width_of(kernel.head_dim), kernel.heads / kernel.kv_heads
    tile_keys = by_width(width, kernels.decode_keys)
    split_rows, whole_rows = by_width(width, kernels.decode_rows), by_width(width, kernels.whole_rows)
    units = kernel.batch * kernel.kv_heads * up(kernel.q_len * group / split_rows)
    blocks = up(_seen(kernel) / tile_keys)
    splits = parts(units, blocks, kernels, device.processors)
    if not kernels.split_alone:
        grouped: Any = group > 1
        splits = 1.0 + grouped * (splits - 1.0)
    begin = by_width(width, relative(p, "tile_s")) + p["head_s"] * group
    if kernels.captured:
        wide: Any = d > WIDEST
        splits = splits + (wide & (kernel.batch <= kernels.captured)) * (kernels.wide_splits - splits)
        begin = begin * (1 + p["search"] / 512 * wide * kernel.batch)
    waves = units * splits / (device.processors * kernels.blocks)
    split: Any = splits > 1
    rows = whole_rows + split * (split_rows - whole_rows)
    flop = 2 * units * rows * blocks * tile_keys * (d + kernel.v_head_dim)
    spread = flop / (device.matrix(kernel.dtype) * p["matrix_share"])
    block = p["block_s"] / (128 * 128) * d * tile_keys * (1 + p["heads_block"] / 16 * group)
    all_waves = (waves + p["wave_share"] * (up(waves) - waves)) * begin + spread
    return maximum(all_waves, begin + up(blocks / splits) * block), splits


def _seen(kernel: FusedAttention) -> Number:
    """Keys that the query sees."""
    keys, window = kernel.kv_len, kernel.window
    return minimum(keys, where(window > 0, window, keys)) if anywhere(window > 0) else keys


def _memory(kernel: FusedAttention, device: Device, p: Parameters) -> Number:
    """Seconds of keys and values once, from L2 as far as they stay there, and of queries and outputs."""
    widths = kernel.head_dim + kernel.v_head_dim
    queries = kernel.batch * kernel.heads * kernel.q_len * widths * find_dtype(kernel.dtype).bytes
    moved = queries + kernel.batch * kernel.kv_heads * _seen(kernel) * widths * find_dtype(kernel.kv_dtype).bytes
    warm = (1 - 1 / p["warm_speed"]) / (1 + fourth(moved / (p["warm_share"] * device.l2_bytes)))
    return moved * (1 - warm) / (p["read_share"] * device.hbm_bytes_per_s)
