"""FlashAttention in Triton: scores of a block of queries stay in registers while keys and values stream past.

Forward: outer loop over blocks of queries, softmax by running maximum and sum, the first loop over keys that every query of
the block sees and a second, masked, over those around the diagonal and the edge. The log-sum-exp of each row, to base 2, is kept.
Backward: one pass over blocks of keys for dK and dV, one over blocks of queries for dQ; both compute the scores again. Grouped
heads: the queries of a group read one head of keys, and its dK and dV add up in registers.
"""
# mypy: ignore-errors
# ruff: noqa: N803, E501
# Triton is untyped, and writes compile-time constants in capitals.

from __future__ import annotations

from roofline.measure.kernels.triton_or_none import jit, tl


@jit
def _online(total, low, high, q, k, v, base, start, stop, rows, kv_len, ahead, scale2,
            HEAD: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, MASK: tl.constexpr):  # fmt: skip
    """Softmax and product over keys start..stop: ``total`` is O without its divisor, ``low`` that divisor, ``high`` the maximum."""
    for at in tl.range(start, stop, BLOCK_N):
        at = tl.multiple_of(at, BLOCK_N)
        keys = k.load([base + at, 0])
        scores = tl.dot(q, keys.T)
        if MASK:
            key = at + tl.arange(0, BLOCK_N)
            seen = key[None] < kv_len
            if CAUSAL:
                seen = seen & (key[None] <= rows[:, None] + ahead)
            scores = tl.where(seen, scores * scale2, -1.0e30)
            new = tl.maximum(high, tl.max(scores, 1))
            weights = tl.math.exp2(scores - new[:, None])
        else:
            new = tl.maximum(high, tl.max(scores, 1) * scale2)
            weights = tl.math.exp2(scores * scale2 - new[:, None])
        fade = tl.math.exp2(high - new)
        low = low * fade + tl.sum(weights, 1)
        total = total * fade[:, None]
        values = v.load([base + at, 0])
        total = tl.dot(weights.to(values.dtype), values, total)
        high = new
    return total, low, high


@jit
def forward(q, k, v, o, lse, group, q_len, kv_len, scale2,
            HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    """O and the log-sum-exp of one block of queries; q, k, v are tensor descriptors of [batch x heads x length, HEAD]."""
    block = tl.num_programs(0) - 1 - tl.program_id(0)  # the longest first
    head = tl.program_id(1)
    base = head // group * kv_len
    row = block * BLOCK_M + tl.arange(0, BLOCK_M)
    ahead = kv_len - q_len
    queries = q.load([head * q_len + block * BLOCK_M, 0])
    total = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    low = tl.zeros((BLOCK_M,), dtype=tl.float32)
    high = tl.full((BLOCK_M,), -1.0e30, dtype=tl.float32)
    stop = kv_len
    if CAUSAL:
        stop = tl.minimum(kv_len, (block + 1) * BLOCK_M + ahead)
        full = (tl.minimum(block * BLOCK_M + ahead + 1, kv_len)) // BLOCK_N * BLOCK_N
    else:
        full = kv_len // BLOCK_N * BLOCK_N
    total, low, high = _online(total, low, high, queries, k, v, base, 0, full, row, kv_len, ahead, scale2, HEAD, BLOCK_N, CAUSAL, False)
    total, low, high = _online(total, low, high, queries, k, v, base, full, stop, row, kv_len, ahead, scale2, HEAD, BLOCK_N, CAUSAL, True)
    total = total / low[:, None]
    here = row < q_len
    place = head.to(tl.int64) * q_len + row
    tl.store(lse + place, high + tl.math.log2(low), mask=here)
    at = o + place[:, None] * HEAD + tl.arange(0, HEAD)[None]
    tl.store(at, total.to(o.dtype.element_ty), mask=here[:, None])


@jit
def row_sums(o, do, delta, rows, HEAD: tl.constexpr, BLOCK: tl.constexpr):
    """delta = sum of O dO along each row, which the softmax's gradient subtracts."""
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = row[:, None] * HEAD + tl.arange(0, HEAD)[None]
    here = row < rows
    product = tl.load(o + at, mask=here[:, None], other=0.0).to(tl.float32) * tl.load(do + at, mask=here[:, None], other=0.0)
    tl.store(delta + row, tl.sum(product, 1), mask=here)


@jit
def _rows_of(x, base, row, length, HEAD: tl.constexpr, EVEN: tl.constexpr):
    """Rows of one head, zeros beyond its length."""
    at = x + (base + row)[:, None] * HEAD + tl.arange(0, HEAD)[None]
    if EVEN:
        return tl.load(at)
    return tl.load(at, mask=row[:, None] < length, other=0.0)


@jit
def backward_keys(q, k, v, do, lse, delta, dk, dv, group, q_len, kv_len, scale, scale2,
                  HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN: tl.constexpr):  # fmt: skip
    """dK and dV of one block of keys, over the queries of all heads of its group."""
    kv_head = tl.program_id(1).to(tl.int64)
    key = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    keys = _rows_of(k, kv_head * kv_len, key, kv_len, HEAD, EVEN)
    values = _rows_of(v, kv_head * kv_len, key, kv_len, HEAD, EVEN)
    ahead = kv_len - q_len
    d_keys = tl.zeros((BLOCK_N, HEAD), dtype=tl.float32)
    d_values = tl.zeros((BLOCK_N, HEAD), dtype=tl.float32)
    start = 0
    if CAUSAL:
        start = tl.maximum(tl.program_id(0) * BLOCK_N - ahead, 0) // BLOCK_M * BLOCK_M
    for member in range(group):
        base = (kv_head * group + member) * q_len
        for at in range(start, q_len, BLOCK_M):
            row = at + tl.arange(0, BLOCK_M)
            queries = _rows_of(q, base, row, q_len, HEAD, EVEN)
            grads = _rows_of(do, base, row, q_len, HEAD, EVEN)
            here = row < q_len
            sums = tl.load(lse + base + row, mask=here, other=0.0)
            less = tl.load(delta + base + row, mask=here, other=0.0)
            weights = tl.math.exp2(tl.dot(keys, tl.trans(queries)) * scale2 - sums[None])
            if CAUSAL:
                weights = tl.where(key[:, None] <= row[None] + ahead, weights, 0.0)
            d_values = tl.dot(weights.to(grads.dtype), grads, d_values)
            d_scores = weights * (tl.dot(values, tl.trans(grads)) - less[None])
            d_keys = tl.dot(d_scores.to(queries.dtype), queries, d_keys)
    at = (kv_head * kv_len + key)[:, None] * HEAD + tl.arange(0, HEAD)[None]
    here = key[:, None] < kv_len
    tl.store(dk + at, (d_keys * scale).to(dk.dtype.element_ty), mask=here)
    tl.store(dv + at, d_values.to(dv.dtype.element_ty), mask=here)


@jit
def backward_queries(q, k, v, do, lse, delta, dq, group, q_len, kv_len, scale, scale2,
                     HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, EVEN: tl.constexpr):  # fmt: skip
    """dQ of one block of queries, over the keys that they see."""
    head = tl.program_id(1).to(tl.int64)
    base, kv_base = head * q_len, head // group * kv_len
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    here = row < q_len
    queries = _rows_of(q, base, row, q_len, HEAD, EVEN)
    grads = _rows_of(do, base, row, q_len, HEAD, EVEN)
    sums = tl.load(lse + base + row, mask=here, other=0.0)
    less = tl.load(delta + base + row, mask=here, other=0.0)
    ahead = kv_len - q_len
    d_queries = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    stop = kv_len
    if CAUSAL:
        stop = tl.minimum(kv_len, (tl.program_id(0) + 1) * BLOCK_M + ahead)
    for at in range(0, stop, BLOCK_N):
        key = at + tl.arange(0, BLOCK_N)
        keys = _rows_of(k, kv_base, key, kv_len, HEAD, EVEN)
        values = _rows_of(v, kv_base, key, kv_len, HEAD, EVEN)
        weights = tl.math.exp2(tl.dot(queries, tl.trans(keys)) * scale2 - sums[:, None])
        seen = key[None] < kv_len
        if CAUSAL:
            seen = seen & (key[None] <= row[:, None] + ahead)
        weights = tl.where(seen, weights, 0.0)
        d_scores = weights * (tl.dot(grads, tl.trans(values)) - less[:, None])
        d_queries = tl.dot(d_scores.to(keys.dtype), keys, d_queries)
    at = (base + row)[:, None] * HEAD + tl.arange(0, HEAD)[None]
    tl.store(dq + at, (d_queries * scale).to(dq.dtype.element_ty), mask=here[:, None])
