"""One tile of FlashAttention on chip: FLOP, exponentials and shared-memory bytes of a step, footprint.

A step multiplies ``tile_m`` queries with ``tile_n`` keys. The right operand of a product is read from shared memory
once for each ``mma_rows`` rows of the left one; P (and, backward, P and dS for dV and dK) stay in registers or tensor
memory. Reproduces the cycle table of FlashAttention 4 (B200: forward 1024 / 1024 / 768, backward 2560 / 1024 / 3328)
and the footprints printed by FlashAttention 3's tile search (224 and 204 KiB). The dataflows of attention derive
the same, and registers; this is what `roofline op` says of an operator of any shape.
"""

from __future__ import annotations

from dataclasses import dataclass

FP32 = 4


@dataclass(frozen=True, slots=True)
class TileStep:
    """Work of one step."""

    flop: float
    exps: float
    smem_bytes: float


def forward_step(tile_m: int, tile_n: int, width: int, value_width: int, element: float, mma_rows: int) -> TileStep:
    """S = Q K^T reads Q and K, O = P V reads V: each right operand once for each block of MMA rows."""
    blocks = tile_m / mma_rows
    scores = blocks * (mma_rows * width + tile_n * width) * element
    output = blocks * tile_n * value_width * element
    return TileStep(2 * tile_m * tile_n * (width + value_width), tile_m * tile_n, scores + output)


def backward_step(tile_m: int, tile_n: int, width: int, value_width: int, element: float, mma_rows: int) -> TileStep:
    """Five products; two of the ten operands (P for dV, dS for dK) do not come from shared memory.

    dS is written for dQ, and the fp32 dQ is written and read on its way to memory.
    """
    q, k = tile_m * width, tile_n * width
    v, do = tile_n * value_width, tile_m * value_width
    score = tile_m * tile_n
    again = max(1.0, tile_m / mma_rows)
    scores = q + k * again  # S = Q K^T
    dp = do + v * again  # dP = dO V^T
    operands = scores + dp + do + (score + k) + q  # dV reads dO; dQ reads dS and K; dK reads Q
    moved = (operands + score) * element + 2 * FP32 * q
    return TileStep(2 * score * (3 * width + 2 * value_width), score, moved)


def smem_footprint(
    tile_m: int, tile_n: int, width: int, value_width: int, element: float, direction: str = "forward", stages: int = 2
) -> float:
    """Shared memory of a block.

    Forward: the larger of Q and O, K and V once a stage. Backward: Q and dO once a stage, K, V, dS, and the fp32 dQ
    accumulator.
    """
    if direction != "backward":
        return (max(tile_m * width, tile_m * value_width) + stages * tile_n * (width + value_width)) * element
    q, do = stages * tile_m * width, stages * tile_m * value_width
    return (q + do + tile_n * width + tile_n * value_width + tile_m * tile_n) * element + tile_m * width * FP32
