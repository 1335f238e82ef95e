"""Block-diagonal products in Triton: a factor of a Monarch matrix with its permutation in the store, and one with a GELU.

A factor takes x[rows, blocks, W] to y[rows, W, blocks]: what one block gives ends up a row of blocks apart. A program therefore does
BLOCKS neighbouring blocks of a tile of rows and joins their results in registers, where they come to lie side by side.
"""
# mypy: ignore-errors
# ruff: noqa: N803
# Triton is untyped, and writes compile-time constants in capitals.

from __future__ import annotations

from roofline.measure.kernels.triton_or_none import jit, tl


@jit
def _block(x, w, row, here, block, blocks, WIDTH: tl.constexpr, EVEN: tl.constexpr):
    """Rows of one block's result, [rows, WIDTH], in the format of x."""
    deep = tl.arange(0, WIDTH)
    at = x + row[:, None] * (blocks * WIDTH) + block * WIDTH + deep[None]
    tile = tl.load(at) if EVEN else tl.load(at, mask=here[:, None], other=0.0)
    weights = tl.load(w + block.to(tl.int64) * (WIDTH * WIDTH) + deep[:, None] * WIDTH + deep[None])
    return tl.dot(tile, weights).to(x.dtype.element_ty)


@jit
def _four(x, w, row, here, block, step, blocks, WIDTH: tl.constexpr, EVEN: tl.constexpr):
    """Blocks block, + step, + 2 step, + 3 step as [rows, WIDTH, 2, 2]."""
    high = tl.join(_block(x, w, row, here, block, blocks, WIDTH, EVEN), _block(x, w, row, here, block + 2 * step, blocks, WIDTH, EVEN))
    low = tl.join(
        _block(x, w, row, here, block + step, blocks, WIDTH, EVEN), _block(x, w, row, here, block + 3 * step, blocks, WIDTH, EVEN)
    )
    return tl.join(high, low)


@jit
def monarch_factor(x, w, y, rows, blocks, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCKS: tl.constexpr, EVEN: tl.constexpr):
    """y[r, j, i] = sum_p x[r, i, p] w[i, p, j] for ROWS rows and BLOCKS blocks (1, 2, 4 or 8)."""
    groups = blocks // BLOCKS
    first = (tl.program_id(0) % groups) * BLOCKS
    row = (tl.program_id(0) // groups).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = row < rows
    if BLOCKS == 8:
        found = tl.join(_four(x, w, row, here, first, 2, blocks, WIDTH, EVEN), _four(x, w, row, here, first + 1, 2, blocks, WIDTH, EVEN))
    elif BLOCKS == 2:
        found = tl.join(_block(x, w, row, here, first, blocks, WIDTH, EVEN), _block(x, w, row, here, first + 1, blocks, WIDTH, EVEN))
    elif BLOCKS == 4:
        found = _four(x, w, row, here, first, 1, blocks, WIDTH, EVEN)
    else:
        found = _block(x, w, row, here, first, blocks, WIDTH, EVEN)
    found = found.reshape(ROWS, WIDTH * BLOCKS)
    col = tl.arange(0, WIDTH * BLOCKS)
    at = y + row[:, None] * (blocks * WIDTH) + ((col // BLOCKS) * blocks + first + col % BLOCKS)[None]
    if EVEN:
        tl.store(at, found)
    else:
        tl.store(at, found, mask=here[:, None])


@jit
def block_product(x, w, y, rows, blocks, deep, wide, GELU: tl.constexpr,
                  BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """y[r, i, j] = sum_p x[r, i, p] w[i, p, j], with a GELU after it if asked for."""
    across = tl.cdiv(wide, BLOCK_N)
    tile = tl.program_id(0)
    block = tile // across % blocks
    col = tile % across * BLOCK_N + tl.arange(0, BLOCK_N)
    row = (tile // (across * blocks)).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    inner = tl.arange(0, BLOCK_K)
    x_at = x + row[:, None] * (blocks * deep) + block * deep + inner[None]
    w_at = w + block.to(tl.int64) * deep * wide + inner[:, None] * wide + col[None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, deep, BLOCK_K):
        a = tl.load(x_at, mask=(row[:, None] < rows) & (inner[None] + k < deep), other=0.0)
        b = tl.load(w_at, mask=(inner[:, None] + k < deep) & (col[None] < wide), other=0.0)
        total = tl.dot(a, b, total)
        x_at += BLOCK_K
        w_at += BLOCK_K * wide
    if GELU:
        total = total * 0.5 * (1.0 + tl.math.erf(total * 0.7071067811865476))
    at = y + row[:, None] * (blocks * wide) + block * wide + col[None]
    tl.store(at, total.to(y.dtype.element_ty), mask=(row[:, None] < rows) & (col[None] < wide))
