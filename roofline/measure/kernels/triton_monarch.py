"""Block-diagonal products in Triton: a factor of a Monarch matrix with its permutation in the store, and one with a GELU.

A factor takes x[rows, blocks, W] to y[rows, W, blocks]: what one block gives ends up a row of blocks apart. A program therefore does
neighbouring blocks of a tile of rows, whose results come to lie side by side. `monarch_kept` multiplies them at once, keeps their weights
and goes on to the next rows while those arrive; `monarch_wide` is for blocks too wide for that, two of which it joins in registers.
"""
# mypy: ignore-errors
# ruff: noqa: N803
# Triton is untyped, and writes compile-time constants in capitals.

from __future__ import annotations

from roofline.measure.kernels.triton_or_none import jit, tl


@jit
def monarch_kept(x, w, y, rows, blocks, WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCKS: tl.constexpr, EVEN: tl.constexpr,
                 AHEAD: tl.constexpr):  # fmt: skip
    """y[r, j, i] = sum_p x[r, i, p] w[i, p, j] for BLOCKS blocks (a power of two) of one tile of ROWS rows after another.

    The grid is any multiple of the groups of so many blocks.
    """
    groups = blocks // BLOCKS
    first = (tl.program_id(0) % groups) * BLOCKS
    block = first + tl.arange(0, BLOCKS)
    deep = tl.arange(0, WIDTH)
    matrix = deep[:, None] * WIDTH + deep[None]
    weights = tl.load(w + block.to(tl.int64)[:, None, None] * (WIDTH * WIDTH) + matrix[None])
    source = x + block[:, None, None] * WIDTH + deep[None, None]
    col = tl.arange(0, WIDTH * BLOCKS)
    target = y + ((col // BLOCKS) * blocks + first + col % BLOCKS)[None]
    for tile in tl.range(tl.program_id(0) // groups, tl.cdiv(rows, ROWS), tl.num_programs(0) // groups, num_stages=AHEAD):
        row = tl.cast(tile, tl.int64) * ROWS + tl.arange(0, ROWS)
        here = row < rows
        at = row * (blocks * WIDTH)
        values = tl.load(source + at[None, :, None]) if EVEN else tl.load(source + at[None, :, None], mask=here[None, :, None], other=0.0)
        found = tl.dot(values, weights).to(x.dtype.element_ty)
        found = tl.permute(found, (1, 2, 0)).reshape(ROWS, WIDTH * BLOCKS)
        if EVEN:
            tl.store(target + at[:, None], found)
        else:
            tl.store(target + at[:, None], found, mask=here[:, None])


@jit
def _block(x, w, row, here, block, blocks, WIDTH: tl.constexpr, EVEN: tl.constexpr):
    """Rows of one block's result, [rows, WIDTH], in the format of x."""
    deep = tl.arange(0, WIDTH)
    at = x + row[:, None] * (blocks * WIDTH) + block * WIDTH + deep[None]
    tile = tl.load(at) if EVEN else tl.load(at, mask=here[:, None], other=0.0)
    weights = tl.load(w + block.to(tl.int64) * (WIDTH * WIDTH) + deep[:, None] * WIDTH + deep[None])
    return tl.dot(tile, weights).to(x.dtype.element_ty)


@jit
def monarch_wide(x, w, y, rows, blocks, WIDTH: tl.constexpr, ROWS: tl.constexpr, EVEN: tl.constexpr):
    """The same for two blocks of one tile of rows a program."""
    pairs = blocks // 2
    first = (tl.program_id(0) % pairs) * 2
    row = (tl.program_id(0) // pairs).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = row < rows
    found = tl.join(_block(x, w, row, here, first, blocks, WIDTH, EVEN), _block(x, w, row, here, first + 1, blocks, WIDTH, EVEN))
    found = found.reshape(ROWS, WIDTH * 2)
    col = tl.arange(0, WIDTH * 2)
    at = y + row[:, None] * (blocks * WIDTH) + ((col // 2) * blocks + first + col % 2)[None]
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
