"""Time of attention of few queries over a latent: all heads of a sequence share one row a key, which is key and value.

Heads fill tiles of 64 rows; a tile meets every row of the latent twice, as a key over its whole width and as a value over the rank.
Rows are read once, since the tiles of one sequence find them in L2. Splitting the keys keeps all processors busy, so that no tile is
longest. With 64 heads and more arithmetic and memory take about as long, which no other decoding attention comes near.
"""

from __future__ import annotations

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, maximum, minimum, up
from roofline.ops.launched import FusedAttention
from roofline.predict.estimate.base import Device, Parameter, Parameters, Terms

TILE_ROWS = 64
"""Heads times queries of a tile: what one instruction of the matrix unit takes; read off FlashAttention 3 and FlashMLA."""
TILE_KEYS = 64

PARAMETERS: tuple[Parameter, ...] = (
    Parameter("fixed_s", "start and end of the call and combining what was split, in seconds", 2e-5, 2e-6, 1e-4, 0.5),
    Parameter("row_s", "each head of a sequence costs, in seconds", 1e-10, 1e-12, 1e-8, 1.0),
    Parameter("read_share", "of the HBM bandwidth for latent rows", 0.88, 0.3, 1.0, 0.2),
    Parameter("matrix_share", "of the matrix rate, rows of a tile that hold no head counted", 0.65, 0.1, 1.2, 0.3),
    Parameter("exposed", "share of the shorter of memory and compute that is not hidden by the longer", 0.1, 0.01, 1.2, 0.7),
)


def latent(kernel: FusedAttention, device: Device, p: Parameters) -> Terms:
    """Tiles spread evenly beside memory."""
    compute, memory = _tiles(kernel, device, p), _memory(kernel, device, p)
    fixed = p["fixed_s"] + p["row_s"] * kernel.batch * kernel.heads * kernel.q_len
    time = fixed + maximum(compute, memory) + p["exposed"] * minimum(compute, memory)
    return Terms(time, {"fixed": fixed, "memory": memory, "compute": compute})


def _tiles(kernel: FusedAttention, device: Device, p: Parameters) -> Number:
    """Seconds of scores and values, 2 (width + rank) FLOP for each row of a tile and key."""
    rows = TILE_ROWS * up(kernel.heads * kernel.q_len / TILE_ROWS)
    keys = TILE_KEYS * up(kernel.kv_len / TILE_KEYS)
    flop = 2 * kernel.batch * rows * keys * (kernel.head_dim + kernel.v_head_dim)
    return flop / (device.matrix(kernel.dtype) * p["matrix_share"])


def _memory(kernel: FusedAttention, device: Device, p: Parameters) -> Number:
    """Seconds of the latent rows once, queries and outputs."""
    size = find_dtype(kernel.dtype).bytes
    queries = kernel.batch * kernel.heads * kernel.q_len * (kernel.head_dim + kernel.v_head_dim) * size
    rows = kernel.batch * kernel.kv_len * kernel.head_dim * find_dtype(kernel.kv_dtype).bytes
    return (queries + rows) / (p["read_share"] * device.hbm_bytes_per_s)
