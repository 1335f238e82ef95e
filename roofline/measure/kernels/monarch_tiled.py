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
KEPT_BYTES = 2**17
"""Weights that a program keeps in shared memory; the rest is for rows that arrive."""
WIDEST_KEPT = 128
"""A product of several wider ones needs more registers than there are."""
TILES = (
    {"ROWS": 16, "joined": 16, "AHEAD": 2, "AT_ONCE": 1, "num_warps": 8},
    {"ROWS": 16, "joined": 16, "AHEAD": 2, "AT_ONCE": 1, "num_warps": 16},
    {"ROWS": 16, "joined": 4, "AHEAD": 3, "AT_ONCE": 1, "num_warps": 8},
)
"""``joined``: blocks side by side, if there is room for them; ``AT_ONCE``: programs a processor, which keep their weights."""
WIDE = {"ROWS": 64, "num_warps": 8}
"""Of a factor whose blocks are too wide to be kept."""
PRODUCT = (
    {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},
)


# --------------------------------------------------------------------------- Monarch matrices
def monarch_triton(op: Monarch, tensors: Tensors) -> Callable[[], Any]:
    """y of x: a kernel for each factor, its permutation within."""
    widths = [int(n) for n in op.block_widths()]
    if any(n not in WIDTHS for n in widths) or op.dtype not in ("bf16", "fp16"):
        raise UsageError(f"kernel 'monarch_triton' runs bf16 and fp16 with blocks of {', '.join(map(str, WIDTHS))}, not {widths}")
    weights = [tensors[t.name] for t in op.factors()]
    x, y, rows, n = tensors["x"], tensors["y"], int(op.rows), int(op.n)
    between = [torch.empty_like(x) for _ in range(min(2, len(weights) - 1))]
    chain = [x, *(between[i % 2] for i in range(len(weights) - 1)), y]

    def make(config: Config) -> Launch:
        steps = [_factor(source, w, to, config) for source, w, to in zip(chain, weights, chain[1:], strict=False)]

        def run() -> None:
            for step in steps:
                step()

        return run

    tiles = TILES if min(widths) <= WIDEST_KEPT else TILES[:1]
    run = tuned(("monarch", op.dtype, rows, n, len(widths)), tiles, make, x.device)

    def call() -> torch.Tensor:
        run()
        return y

    return call


def _factor(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, config: Config) -> Launch:
    """One factor, from x to y."""
    rows, (blocks, width, _) = x.shape[0], w.shape
    if width > WIDEST_KEPT:
        programs = -(-rows // WIDE["ROWS"]) * (blocks // 2)
        even = rows % WIDE["ROWS"] == 0
        return lambda: triton_monarch.monarch_wide[(programs,)](x, w, y, rows, blocks, WIDTH=width, EVEN=even, **WIDE)
    tile, most = int(config["ROWS"]), min(int(config["joined"]), KEPT_BYTES // (width * width * w.element_size()))
    joined = next(n for n in (16, 8, 4, 2, 1) if n == 1 or (n <= most and blocks % n == 0))
    groups = blocks // joined
    each = min(-(-rows // tile), max(1, _processors(x) * int(config["AT_ONCE"]) // groups))
    how = {k: v for k, v in config.items() if k not in ("joined", "AT_ONCE")}
    constants = {"WIDTH": width, "BLOCKS": joined, "EVEN": rows % tile == 0, **how}
    return lambda: triton_monarch.monarch_kept[(each * groups,)](x, w, y, rows, blocks, **constants)


def _processors(x: torch.Tensor) -> int:
    return int(torch.cuda.get_device_properties(x.device).multi_processor_count) if x.is_cuda else 2


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
