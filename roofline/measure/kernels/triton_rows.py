"""Softmax and RMS norm in Triton. A row that fits in a program's registers is read once; a longer one is streamed twice.

The online softmax finds maximum and sum in one sweep: each lane keeps its own pair and rescales its sum when its maximum moves;
the lanes' pairs are joined at the end of the sweep.
"""
# mypy: ignore-errors
# ruff: noqa: N803
# Triton is untyped, and writes compile-time constants in capitals.

from __future__ import annotations

from roofline.measure.kernels.triton_or_none import jit, tl

LOG2_E: tl.constexpr = 1.4426950408889634 if tl is None else tl.constexpr(1.4426950408889634)


@jit
def softmax_row(x, y, cols, BLOCK: tl.constexpr):
    """One row, held in registers."""
    col = tl.arange(0, BLOCK)
    here = col < cols
    at = tl.program_id(0).to(tl.int64) * cols + col
    values = tl.load(x + at, mask=here, other=-float("inf")).to(tl.float32) * LOG2_E
    powers = tl.math.exp2(values - tl.max(values, 0))
    tl.store(y + at, (powers / tl.sum(powers, 0)).to(y.dtype.element_ty), mask=here)


@jit
def softmax_online(x, y, cols, BLOCK: tl.constexpr):
    """One row in two sweeps: maximum and sum, then the result."""
    row = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    high = tl.full((BLOCK,), -1.0e30, dtype=tl.float32)
    low = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=3):
        values = tl.load(x + row + start + lane, mask=start + lane < cols, other=-float("inf")).to(tl.float32) * LOG2_E
        new = tl.maximum(high, values)
        low = low * tl.math.exp2(high - new) + tl.math.exp2(values - new)
        high = new
    top = tl.max(high, 0)
    scale = 1.0 / tl.sum(low * tl.math.exp2(high - top), 0)
    for start in tl.range(0, cols, BLOCK, num_stages=3):
        here = start + lane < cols
        values = tl.load(x + row + start + lane, mask=here, other=0.0).to(tl.float32) * LOG2_E
        tl.store(y + row + start + lane, (tl.math.exp2(values - top) * scale).to(y.dtype.element_ty), mask=here)


@jit
def rmsnorm_row(x, residual, gamma, total, y, cols, epsilon, BLOCK: tl.constexpr, RESIDUAL: tl.constexpr):
    """One row, held in registers: the sum with the residual, if there is one, and the norm of it."""
    col = tl.arange(0, BLOCK)
    here = col < cols
    at = tl.program_id(0).to(tl.int64) * cols + col
    values = tl.load(x + at, mask=here, other=0.0).to(tl.float32)
    if RESIDUAL:
        values += tl.load(residual + at, mask=here, other=0.0).to(tl.float32)
        tl.store(total + at, values.to(total.dtype.element_ty), mask=here)
    scale = tl.rsqrt(tl.sum(values * values, 0) / cols + epsilon)
    gain = tl.load(gamma + col, mask=here, other=0.0).to(tl.float32)
    tl.store(y + at, (values * scale * gain).to(y.dtype.element_ty), mask=here)


@jit
def rmsnorm_streamed(x, residual, gamma, total, y, cols, epsilon, BLOCK: tl.constexpr, RESIDUAL: tl.constexpr):
    """One row in two sweeps: the sum of squares, then the result."""
    row = tl.program_id(0).to(tl.int64) * cols
    lane = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=3):
        here = start + lane < cols
        values = tl.load(x + row + start + lane, mask=here, other=0.0).to(tl.float32)
        if RESIDUAL:
            values += tl.load(residual + row + start + lane, mask=here, other=0.0).to(tl.float32)
        squares += values * values
    scale = tl.rsqrt(tl.sum(squares, 0) / cols + epsilon)
    for start in tl.range(0, cols, BLOCK, num_stages=3):
        here = start + lane < cols
        values = tl.load(x + row + start + lane, mask=here, other=0.0).to(tl.float32)
        if RESIDUAL:
            values += tl.load(residual + row + start + lane, mask=here, other=0.0).to(tl.float32)
            tl.store(total + row + start + lane, values.to(total.dtype.element_ty), mask=here)
        gain = tl.load(gamma + start + lane, mask=here, other=0.0).to(tl.float32)
        tl.store(y + row + start + lane, (values * scale * gain).to(y.dtype.element_ty), mask=here)
