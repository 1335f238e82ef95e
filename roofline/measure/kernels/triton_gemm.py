"""Matrix products in Triton, rung by rung: the same sums with less and less traffic at the level that binds.

``naive`` and ``coalesced`` differ in which index neighbouring lanes hold; ``blocked`` goes through shared memory on vector lanes, with
one or with many results a thread; ``tensor`` uses the matrix unit, loads pipelined or not; ``persistent`` keeps one program on each
processor and copies tiles with the memory accelerator (TMA). Accumulation is fp32 throughout.
"""
# mypy: ignore-errors
# ruff: noqa: N803
# Triton is untyped, and writes compile-time constants in capitals.

from __future__ import annotations

from roofline.measure.kernels.triton_or_none import jit, tl


@jit
def naive(a, w, c, m, n, k, BLOCK: tl.constexpr):
    """Neighbouring lanes hold neighbouring rows of C: each load of A touches a sector a lane, W is one number for all."""
    blocks = tl.cdiv(m, BLOCK)
    row = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    col = tl.program_id(0) // blocks
    here = row < m
    row = row.to(tl.int64)
    x_at, y_at = a + row * k, w + col
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(k):
        total += tl.load(x_at, mask=here, other=0.0).to(tl.float32) * tl.load(y_at).to(tl.float32)
        x_at += 1
        y_at += n
    tl.store(c + row * n + col, total, mask=here)


@jit
def coalesced(a, w, c, m, n, k, BLOCK: tl.constexpr):
    """Neighbouring lanes hold neighbouring columns of C: a load of W is one piece, A is one number for all."""
    blocks = tl.cdiv(n, BLOCK)
    row = (tl.program_id(0) // blocks).to(tl.int64)
    col = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    here = col < n
    x_at, y_at = a + row * k, w + col
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(k):
        total += tl.load(x_at).to(tl.float32) * tl.load(y_at, mask=here, other=0.0).to(tl.float32)
        x_at += 1
        y_at += n
    tl.store(c + row * n + col, total, mask=here)


@jit
def tile_of(m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr, tile):
    """Row and column of the tile with that number: GROUP rows of tiles are walked down before the next column, so that what is
    in flight shares its panels of A and W in L2. GROUP 1 goes along rows."""
    across = tl.cdiv(n, BLOCK_N)
    down = tl.cdiv(m, BLOCK_M)
    first = tile // (GROUP * across) * GROUP
    rows = min(down - first, GROUP)
    within = tile % (GROUP * across)
    return first + within % rows, within // rows


@jit
def blocked(a, w, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Tiles of A and W in shared memory, products in fp32 on vector lanes; the results of a thread are a register tile."""
    tile_m, tile_n = tile_of(m, n, BLOCK_M, BLOCK_N, 1, tl.program_id(0))
    row = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    deep = tl.arange(0, BLOCK_K)
    x_at = a + row[:, None].to(tl.int64) * k + deep[None]
    y_at = w + deep[:, None].to(tl.int64) * n + col[None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for i in range(0, k, BLOCK_K):
        x = tl.load(x_at, mask=(row[:, None] < m) & (deep[None] + i < k), other=0.0).to(tl.float32)
        y = tl.load(y_at, mask=(deep[:, None] + i < k) & (col[None] < n), other=0.0).to(tl.float32)
        total = tl.dot(x, y, total, input_precision="ieee")
        x_at += BLOCK_K
        y_at += BLOCK_K * n.to(tl.int64)
    tl.store(c + row[:, None].to(tl.int64) * n + col[None], total, mask=(row[:, None] < m) & (col[None] < n))


@jit
def tensor(
    a, w, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, EVEN_K: tl.constexpr
):
    """Tiles through shared memory into the matrix unit; W lies by columns. Rows beyond the edge repeat others, and are not stored."""
    tile_m, tile_n = tile_of(m, n, BLOCK_M, BLOCK_N, GROUP, tl.program_id(0))
    row = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    deep = tl.arange(0, BLOCK_K)
    x_at = a + (row % m)[:, None].to(tl.int64) * k + deep[None]
    y_at = w + (col % n)[None].to(tl.int64) * k + deep[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for i in range(0, k, BLOCK_K):
        if EVEN_K:
            x, y = tl.load(x_at), tl.load(y_at)
        else:
            x = tl.load(x_at, mask=deep[None] + i < k, other=0.0)
            y = tl.load(y_at, mask=deep[:, None] + i < k, other=0.0)
        total = tl.dot(x, y, total)
        x_at += BLOCK_K
        y_at += BLOCK_K
    at = c + row[:, None].to(tl.int64) * n + col[None]
    tl.store(at, total.to(c.dtype.element_ty), mask=(row[:, None] < m) & (col[None] < n))


@jit
def persistent(
    a, w, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
    HALVES: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    """One program a processor takes tile after tile; a, w and c are tensor descriptors, w of the columns. HALVES stores C in two parts."""
    tiles = tl.cdiv(m, BLOCK_M) * tl.cdiv(n, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN):
        tile_m, tile_n = tile_of(m, n, BLOCK_M, BLOCK_N, GROUP, tile)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for i in range(tl.cdiv(k, BLOCK_K)):
            x = a.load([tile_m * BLOCK_M, i * BLOCK_K])
            y = w.load([tile_n * BLOCK_N, i * BLOCK_K])
            total = tl.dot(x, y.T, total)
        if HALVES:
            left, right = total.reshape(BLOCK_M, 2, BLOCK_N // 2).permute(0, 2, 1).split()
            c.store([tile_m * BLOCK_M, tile_n * BLOCK_N], left.to(c.dtype))
            c.store([tile_m * BLOCK_M, tile_n * BLOCK_N + BLOCK_N // 2], right.to(c.dtype))
        else:
            c.store([tile_m * BLOCK_M, tile_n * BLOCK_N], total.to(c.dtype))
