"""Convolution by FFT as matrix products (FlashFFTConv), in Triton: two real sequences at a time as one complex one.

The filter is real, so that the convolution of u_0 + i u_1 is y_0 + i y_1: sequences of the same channel go in pairs, and nothing has to be
taken apart. A transform of F = N1 x N2 numbers (n = n1 N2 + n2, frequency k = k1 + N1 k2) is a product with the DFT matrix of N1
along n1, a twiddle exp(-2 pi i n2 k1 / F) and a product with that of N2 along n2. Complex numbers lie interleaved, [re, im], and a DFT matrix
is real, with a 2 x 2 block for each of its numbers: one real product is the complex one, the inverse matrix is the transpose (all
are scaled to be unitary), and its result falls apart into re and im within each thread. Zeros that pad the sequence are not multiplied.

Order 2 keeps all in registers between one read and one write. Order 3 has an outer factor N0 around that: a program walks over
its sequence in three phases with a scratch of F complex numbers between them, which stays in L2.
"""
# mypy: ignore-errors
# ruff: noqa: N803, N806, E501
# Triton is untyped, and writes compile-time constants in capitals.

from __future__ import annotations

from roofline.measure.kernels.triton_or_none import jit, tl


@jit
def _scaled(x, factors):
    """Complex product of two tiles [rows, 2 cols], [re, im] interleaved along the rows; [rows, cols, 2]."""
    rows: tl.constexpr = x.shape[0]
    cols: tl.constexpr = x.shape[1] // 2
    re, im = x.reshape(rows, cols, 2).split()
    by_re, by_im = factors.to(tl.float32).reshape(rows, cols, 2).split()
    return tl.join(re * by_re - im * by_im, re * by_im + im * by_re)


@jit
def _turned(x, P: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """[P x ROWS, 2 COLS] (or [..., COLS, 2]) to [P x COLS, 2 ROWS]: the matrix of each sequence transposed."""
    return x.reshape(P, ROWS, COLS, 2).permute(0, 2, 1, 3).reshape(P * COLS, 2 * ROWS)


@jit
def _table(t, P: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """[P x ROWS, 2 COLS] that repeats the table [ROWS, COLS, 2] for each of P sequences."""
    return tl.load(t + (tl.arange(0, P * ROWS) % ROWS)[:, None] * (2 * COLS) + tl.arange(0, 2 * COLS)[None])


@jit
def _transformed(x, f1, f2, t, P: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr):
    """Spectra [P x N1, 2 N2] of sequences [P x N2, 2 n1]."""
    outer = _scaled(tl.dot(x, f1), _table(t, P, N2, N1)).to(x.dtype)
    return tl.dot(_turned(outer, P, N2, N1), f2)


@jit
def _convolved(x, f1, f2, t, k, P: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr):
    """Sequences [P x N2, 2 n1] convolved with filters of spectra k [P x N1, 2 N2], in fp32; ``t`` holds the twiddles by [n2, k1], and
    after them their conjugates by [k1, n2]."""
    spectra = _scaled(_transformed(x, f1, f2, t, P, N1, N2), k).to(x.dtype)
    back = tl.dot(spectra.reshape(P * N1, 2 * N2), tl.trans(f2))
    inner = _scaled(back, _table(t + 2 * N1 * N2, P, N1, N2)).to(x.dtype)
    return tl.dot(_turned(inner, P, N1, N2), tl.trans(f1))


@jit
def _square(f, ROWS: tl.constexpr, COLS: tl.constexpr):
    """A DFT matrix, [2 ROWS, 2 COLS]."""
    return tl.load(f + tl.arange(0, 2 * ROWS)[:, None] * (2 * COLS) + tl.arange(0, 2 * COLS)[None])


@jit
def _squares(f1, f2, ROWS: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr):
    """The DFT matrices of N1 and N2; one in shared memory where they are the same."""
    first = _square(f1, ROWS, N1)
    if ROWS == N2 and N1 == N2:
        return first, first
    return first, _square(f2, N2, N2)


@jit
def convolve(u, pre, post, y, k, f1, f2, t, batch, channels, seq,
             P: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr, ROWS: tl.constexpr, GATED: tl.constexpr, EVEN: tl.constexpr):  # fmt: skip
    """Order 2: P pairs of sequences of one channel a program. ROWS of the N1 rows of a sequence are not zero."""
    blocks = tl.cdiv(batch, 2 * P)
    channel = tl.program_id(0) // blocks
    first = (tl.program_id(0) % blocks) * 2 * P
    row = tl.arange(0, P * N2)
    col = tl.arange(0, 2 * ROWS)
    member = 2 * (row // N2)[:, None] + (col % 2)[None]
    place = (col // 2)[None] * N2 + (row % N2)[:, None]
    at = (first.to(tl.int64) * channels + channel) * seq + (member * channels * seq + place)
    here = (first + member < batch) & (place < seq)
    if EVEN:
        x = tl.load(u + at)
        x = x * tl.load(pre + at) if GATED else x
    else:
        x = tl.load(u + at, mask=here, other=0.0)
        x = x * tl.load(pre + at, mask=here, other=0.0) if GATED else x
    matrix1, matrix2 = _squares(f1, f2, ROWS, N1, N2)
    filters = _table(k + channel.to(tl.int64) * (2 * N1 * N2), P, N1, N2)
    out = _convolved(x, matrix1, matrix2, t, filters, P, N1, N2)
    if EVEN:
        out = out * tl.load(post + at) if GATED else out
        tl.store(y + at, out.to(y.dtype.element_ty))
    else:
        out = out * tl.load(post + at, mask=here, other=0.0) if GATED else out
        tl.store(y + at, out.to(y.dtype.element_ty), mask=here)


@jit
def spectrum(k, out, f1, f2, t, channels, length, scale, TYPE: tl.constexpr,
             P: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr, ROWS: tl.constexpr):  # fmt: skip
    """Spectra [N1, N2, 2] of P filters, in the order in which `convolve` multiplies with them."""
    first = tl.program_id(0) * P
    row = tl.arange(0, P * N2)
    col = tl.arange(0, 2 * ROWS)
    channel = first + (row // N2)[:, None]
    place = (col // 2)[None] * N2 + (row % N2)[:, None]
    here = (channel < channels) & (place < length) & (col % 2 == 0)[None]
    x = tl.load(k + channel.to(tl.int64) * length + place, mask=here, other=0.0).to(TYPE)
    matrix1, matrix2 = _squares(f1, f2, ROWS, N1, N2)
    found = _transformed(x, matrix1, matrix2, t, P, N1, N2) * scale
    row = first.to(tl.int64) * N1 + tl.arange(0, P * N1)
    at = out + row[:, None] * (2 * N2) + tl.arange(0, 2 * N2)[None]
    tl.store(at, found.to(out.dtype.element_ty), mask=(row < channels * N1)[:, None])


# --------------------------------------------------------------------------- order 3
@jit
def _flat(first, count, ROWS: tl.constexpr, WIDTH: tl.constexpr, COLS: tl.constexpr):
    """Where ROWS rows of a matrix of WIDTH columns lie, COLS of each from ``count`` on, the first row being ``first``."""
    return (first + tl.arange(0, ROWS))[:, None] * WIDTH + count + tl.arange(0, COLS)[None]


@jit
def _outer(x, f0, t0, scratch, m, BLOCK: tl.constexpr, N0: tl.constexpr, M: tl.constexpr):
    """Outer transform of BLOCK columns from m on of a sequence [N0, M], with twiddles, into the scratch [N0, M, 2]."""
    found = _scaled(tl.dot(x, f0), tl.load(t0 + _flat(m, 0, BLOCK, 2 * N0, 2 * N0))).to(x.dtype)
    tl.store(scratch + _flat(0, 2 * m, N0, 2 * M, 2 * BLOCK), _turned(found, 1, BLOCK, N0))


@jit
def _inner(scratch, k, f1, f2, t, t0, k0, P: tl.constexpr, N0: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr):
    """Convolution of the P inner sequences from k0 on, in place, with the outer twiddles undone."""
    at = scratch + _flat(k0, 0, P, 2 * N1 * N2, 2 * N1 * N2)
    x = _turned(tl.load(at), P, N1, N2)
    filters = tl.load(k + _flat(k0 * N1, 0, P * N1, 2 * N2, 2 * N2))
    out = _convolved(x, f1, f2, t, filters, P, N1, N2)
    undo = tl.load(t0 + 2 * N0 * N1 * N2 + _flat(k0 * N2, 0, P * N2, 2 * N1, 2 * N1))
    out = _turned(_scaled(out, undo).to(x.dtype), P, N2, N1)
    tl.store(at, out.reshape(P, 2 * N1 * N2))


@jit
def convolve_outer(u, pre, post, y, k, f0, f1, f2, t0, t, scratch, batch, channels, seq, BLOCK: tl.constexpr, P: tl.constexpr,
                   N0: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr, ROWS: tl.constexpr,
                   GATED: tl.constexpr, EVEN: tl.constexpr):  # fmt: skip
    """Order 3: each program takes one pair of sequences after another through its own scratch. What is used once is to leave L2 first."""
    M: tl.constexpr = N1 * N2
    scratch += tl.program_id(0).to(tl.int64) * (2 * N0 * M)
    pairs = tl.cdiv(batch, 2)
    col = tl.arange(0, 2 * ROWS)
    member = (col % 2)[None]
    lane = tl.arange(0, BLOCK)
    matrix0 = _square(f0, ROWS, N0)
    matrix1, matrix2 = _squares(f1, f2, N1, N1, N2)
    for item in range(tl.program_id(0), pairs * channels, tl.num_programs(0)):
        channel = item // pairs
        first = item % pairs * 2
        base = (first.to(tl.int64) * channels + channel) * seq
        for m in range(0, M, BLOCK):
            place = (col // 2)[None] * M + (m + lane)[:, None]
            at = base + (member * channels * seq + place)
            here = (first + member < batch) & (place < seq)
            if EVEN:
                x = tl.load(u + at, eviction_policy="evict_first")
                x = x * tl.load(pre + at, eviction_policy="evict_first") if GATED else x
            else:
                x = tl.load(u + at, mask=here, other=0.0, eviction_policy="evict_first")
                x = x * tl.load(pre + at, mask=here, other=0.0, eviction_policy="evict_first") if GATED else x
            _outer(x, matrix0, t0, scratch, m, BLOCK, N0, M)
        tl.debug_barrier()
        spectrum = k + channel.to(tl.int64) * (2 * N0 * M)
        for k0 in range(0, N0, P):
            _inner(scratch, spectrum, matrix1, matrix2, t, t0, k0, P, N0, N1, N2)
        tl.debug_barrier()
        for m in range(0, M, BLOCK):
            x = tl.load(scratch + _flat(0, 2 * m, N0, 2 * M, 2 * BLOCK))
            out = tl.dot(_turned(x, 1, N0, BLOCK), tl.trans(matrix0))
            place = (col // 2)[None] * M + (m + lane)[:, None]
            at = base + (member * channels * seq + place)
            here = (first + member < batch) & (place < seq)
            if EVEN:
                out = out * tl.load(post + at, eviction_policy="evict_first") if GATED else out
                tl.store(y + at, out.to(y.dtype.element_ty), eviction_policy="evict_first")
            else:
                out = out * tl.load(post + at, mask=here, other=0.0, eviction_policy="evict_first") if GATED else out
                tl.store(y + at, out.to(y.dtype.element_ty), mask=here, eviction_policy="evict_first")
        tl.debug_barrier()


@jit
def spectrum_outer(k, out, f0, f1, f2, t0, t, scratch, channels, length, scale, TYPE: tl.constexpr, BLOCK: tl.constexpr,
                   P: tl.constexpr, N0: tl.constexpr, N1: tl.constexpr, N2: tl.constexpr, ROWS: tl.constexpr):  # fmt: skip
    """Spectrum [N0, N1, N2, 2] of one filter a program, in the order in which `convolve_outer` multiplies with it."""
    M: tl.constexpr = N1 * N2
    channel = tl.program_id(0).to(tl.int64)
    scratch += channel * (2 * N0 * M)
    out += channel * (2 * N0 * M)
    col = tl.arange(0, 2 * ROWS)
    lane = tl.arange(0, BLOCK)
    matrix0 = _square(f0, ROWS, N0)
    matrix1, matrix2 = _squares(f1, f2, N1, N1, N2)
    for m in range(0, M, BLOCK):
        place = (col // 2)[None] * M + (m + lane)[:, None]
        x = tl.load(k + channel * length + place, mask=(place < length) & (col % 2 == 0)[None], other=0.0).to(TYPE)
        _outer(x, matrix0, t0, scratch, m, BLOCK, N0, M)
    tl.debug_barrier()
    for k0 in range(0, N0, P):
        x = _turned(tl.load(scratch + _flat(k0, 0, P, 2 * M, 2 * M)), P, N1, N2)
        found = _transformed(x, matrix1, matrix2, t, P, N1, N2) * scale
        tl.store(out + _flat(k0 * N1, 0, P * N1, 2 * N2, 2 * N2), found.to(out.dtype.element_ty))
