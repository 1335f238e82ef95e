"""Monarch matrices and the Monarch Mixer layer of ours (`roofline.measure.kernels.triton_monarch`) as kernels of their operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors
from roofline.measure.kernels import triton_monarch
from roofline.measure.kernels.fft_conv_tiled import fft_conv_triton
from roofline.measure.kernels.monarch import mix
from roofline.measure.kernels.tuning import Config, Launch, tuned
from roofline.ops.m2 import MonarchMixer
from roofline.ops.monarch import Monarch

WIDTHS = (16, 32, 64, 128, 256)
"""Of a block: a power of two that the matrix unit takes."""
MOST_HELD = 512
"""Results of a row that a program joins in registers: width x blocks."""
TILES = (
    {"ROWS": 64, "joined": 8, "num_warps": 8},
    {"ROWS": 64, "joined": 8, "num_warps": 8, "maxnreg": 128},
    {"ROWS": 64, "joined": 4, "num_warps": 4},
)
"""``joined``: blocks side by side, if the width leaves room for them."""
CHUNK_BYTES = (2**24, 2**25, 2**62)
"""What lies between two factors is kept to that, by taking rows in parts, so that it stays in L2; the last is no limit."""
PRODUCT = (
    {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},
)


# --------------------------------------------------------------------------- Monarch matrices
def monarch_triton(op: Monarch, tensors: Tensors) -> Callable[[], Any]:
    """y of x: a kernel for each factor, its permutation within; rows in parts between which L2 keeps the results."""
    widths = [int(n) for n in op.block_widths()]
    if any(n not in WIDTHS for n in widths) or op.dtype not in ("bf16", "fp16"):
        raise UsageError(f"kernel 'monarch_triton' runs bf16 and fp16 with blocks of {', '.join(map(str, WIDTHS))}, not {widths}")
    weights = [tensors[t.name] for t in op.factors()]
    x, y, rows, n = tensors["x"], tensors["y"], int(op.rows), int(op.n)

    def make(config: Config) -> Launch:
        part = min(rows, max(1, int(config["chunk"]) // (n * x.element_size())))
        between = [x.new_empty((part, n)) for _ in range(min(2, len(weights) - 1))]
        steps = []
        for first in range(0, rows, part):
            count = min(part, rows - first)
            chain = [x[first : first + count], *(between[i % 2] for i in range(len(weights) - 1)), y[first : first + count]]
            steps += [_factor(source, w, to, count, config) for source, w, to in zip(chain, weights, chain[1:], strict=False)]

        def run() -> None:
            for step in steps:
                step()

        return run

    key = ("monarch", op.dtype, rows, n, len(widths))
    run = tuned(key, _tiles(rows * n * x.element_size()), make, x.device)

    def call() -> torch.Tensor:
        run()
        return y

    return call


def _tiles(total_bytes: int) -> list[Config]:
    """Rows and warps of a tile with each size of the parts that is a part."""
    chunks = [c for i, c in enumerate(CHUNK_BYTES) if i == 0 or CHUNK_BYTES[i - 1] < total_bytes]
    return [{**tile, "chunk": c} for tile in TILES for c in chunks]


def _factor(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, rows: int, config: Config) -> Launch:
    """One factor of ``rows`` rows, from x to y."""
    blocks, width, _ = w.shape
    tile = int(config["ROWS"])
    joined = next(n for n in (8, 4, 2, 1) if n == 1 or (n <= config["joined"] and blocks % n == 0 and width * n <= MOST_HELD))
    grid = (-(-rows // tile) * (blocks // joined),)
    how = {k: v for k, v in config.items() if k not in ("joined", "chunk")}
    constants = {"WIDTH": width, "BLOCKS": joined, "EVEN": rows % tile == 0, **how}
    return lambda: triton_monarch.monarch_factor[grid](x, w, y, rows, blocks, **constants)


# --------------------------------------------------------------------------- the layer
def m2_triton(op: MonarchMixer, tensors: Tensors) -> Callable[[], Any]:
    """y of x: dense projections by torch, the gated convolution and the block products, one with its GELU, by ours."""
    y = tensors["y"]
    mixed, h = torch.empty_like(y), y.new_empty((int(op.tokens), int(op.inner)))
    inside = mix(op, tensors, fft_conv_triton, mixed)
    up = _block_product(mixed, tensors["w_up"], h, True)
    down = _block_product(h, tensors["w_down"], y, False)

    def call() -> torch.Tensor:
        inside()
        up()
        down()
        return y

    return call


def _block_product(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, gelu: bool) -> Launch:
    blocks, deep, wide = w.shape
    rows = x.numel() // (blocks * deep)

    def make(config: Config) -> Launch:
        tiles = -(-rows // config["BLOCK_M"]) * blocks * -(-wide // config["BLOCK_N"])
        return lambda: triton_monarch.block_product[(tiles,)](x, w, y, rows, blocks, deep, wide, GELU=gelu, **config)

    return tuned(("block product", str(x.dtype), rows, blocks, deep, wide, gelu), PRODUCT, make, x.device)
