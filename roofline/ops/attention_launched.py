"""Kernels that attention launches: one fused, or the products and sweeps of the materialised form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.dtypes import dtype as find_dtype
from roofline.numeric import Number, anywhere
from roofline.ops.launched import FusedAttention, Launched, Product, Stream, fuses

if TYPE_CHECKING:
    from roofline.ops.attention import Attention, AttentionBackward

ALIGNMENT = 16
"""Bytes at a multiple of which each row must start for the fast kernels of a product."""
BACKENDS = ("flash", "cudnn", "efficient")
"""Implementations whose kernels are known by name; `flash1` is estimated as flash."""


def forward(op: Attention, execution: str) -> tuple[Launched, ...]:
    """The kernels of the forward pass."""
    return _naive(op, execution) if op.implementation == "naive" else (fused(op, execution, "forward"),)


def backward(op: AttentionBackward, execution: str) -> tuple[Launched, ...]:
    """The kernels of the backward pass; row sums and the conversion of dQ belong to the fused one."""
    return _naive_backward(op, execution) if op.forward.implementation == "naive" else (fused(op.forward, execution, "backward"),)


def fused(op: Attention, execution: str, direction: str) -> FusedAttention:
    """All of it as one call. An engine has its own kernel whatever the workload names; parts of split keys are its own matter."""
    named = op.implementation if op.implementation in BACKENDS else "flash"
    return FusedAttention(
        batch=op.batch,
        heads=op.heads,
        kv_heads=op._kv_heads,
        q_len=op.q_len,
        kv_len=op.kv_len,
        head_dim=op.head_dim,
        v_head_dim=op._v_dim,
        dtype=op.dtype,
        kv_dtype=op.kv_dtype or op.dtype,
        causal=op.causal,
        window=op.window,
        direction=direction,
        implementation="engine" if execution == "engine" else named,
    )


# --------------------------------------------------------------------------- materialised
def _naive(op: Attention, execution: str) -> tuple[Launched, ...]:
    """Q K^T, scale, mask, softmax, dropout, P V; a compiler folds the sweeps before the softmax into it."""
    q, k, v, o = (t.bytes for t in op.tensors())
    group, scores = op.heads / op._kv_heads, op._square("s")
    elements, moved, kept = scores.elements, scores.bytes, op._square("dropout_mask", "bool").bytes
    apart = not fuses(execution)
    kernels: list[Launched] = []
    if anywhere(group > 1):
        kernels += [_copy(op, width, k_or_v, group) for width, k_or_v in ((op.head_dim, k), (op._v_dim, v))]
    kernels.append(_product(op, (op.q_len, op.kv_len, op.head_dim), q + group * k, moved))
    if op.scale_pass and apart:
        kernels.append(_sweep(op, "elementwise", moved, moved, flop=elements))
    if (op.mask or op.causal) and apart:  # one mask for all heads: each element's place in it is worked out
        kernels.append(_sweep(op, "broadcast", moved, moved, flop=elements))
    kernels.append(_sweep(op, "softmax" if apart else "fused", moved, moved, flop=4 * elements, sfu=elements))
    if op.dropout > 0:
        kernels.append(_sweep(op, "dropout", moved, moved + kept, flop=elements))
    kernels.append(_product(op, (op.q_len, op._v_dim, op.kv_len), moved + group * v, o))
    return tuple(kernels)


def _naive_backward(backward: AttentionBackward, execution: str) -> tuple[Launched, ...]:
    """dV = P^T dO, dP = dO V^T, dS by the softmax, dQ = dS K, dK = dS^T Q; gradients of repeated heads are added up."""
    op = backward.forward
    q, k, v, o = (t.bytes for t in op.tensors())
    group, scores = op.heads / op._kv_heads, op._square("p")
    elements, moved, kept = scores.elements, scores.bytes, op._square("dropout_mask", "bool").bytes
    apart = not fuses(execution)
    kernels: list[Launched] = [
        _product(op, (op.kv_len, op._v_dim, op.q_len), moved + o, group * v),
        _product(op, (op.q_len, op.kv_len, op._v_dim), o + group * v, moved),
    ]
    if op.dropout > 0:
        kernels.append(_sweep(op, "elementwise", moved + kept, moved, flop=elements))
    if apart:  # torch multiplies P and dP first, in a kernel of its own
        kernels.append(_sweep(op, "elementwise", 2 * moved, moved, flop=elements))
    kernels.append(_sweep(op, "softmax_backward" if apart else "fused", 2 * moved, moved, flop=3 * elements))
    if op.scale_pass and apart:
        kernels.append(_sweep(op, "elementwise", moved, moved, flop=elements))
    kernels.append(_product(op, (op.q_len, op.head_dim, op.kv_len), moved + group * k, q))
    kernels.append(_product(op, (op.kv_len, op.head_dim, op.q_len), moved + q, group * k))
    if anywhere(group > 1):
        for width, one in ((op.head_dim, k), (op._v_dim, v)):
            kernels.append(_over_keys(op, width, group * one, one))
    return tuple(kernels)


def _sweep(op: Attention, kind: str, read: Number, write: Number, flop: Number = 0, sfu: Number = 0) -> Stream:
    """A pass over the scores, bytes read and written. A mask is small and stays in cache, so that it costs none."""
    return Stream(kind=kind, rows=op.rows, cols=op.kv_len, read_bytes=read, write_bytes=write, dtype=op.dtype, flop=flop, sfu=sfu)


def _copy(op: Attention, width: Number, once: Number, group: Number) -> Stream:
    """Keys or values read once and written for each head that shares them."""
    return _over_keys(op, width, once, group * once)


def _over_keys(op: Attention, width: Number, read: Number, write: Number) -> Stream:
    rows = op.batch * op.heads * op.kv_len
    return Stream(kind="broadcast", rows=rows, cols=width, read_bytes=read, write_bytes=write, dtype=op.dtype)


def _product(op: Attention, shape: tuple[Number, Number, Number], read: Number, write: Number) -> Product:
    """A product for each head; all rows are aligned if the widths of Q, V and of the scores are."""
    m, n, k = shape
    e = find_dtype(op.dtype).bytes
    aligned = (op.kv_len * e % ALIGNMENT == 0) & (op.head_dim * e % ALIGNMENT == 0) & (op._v_dim * e % ALIGNMENT == 0)
    return Product(
        kind="batched_gemm",
        batch=op.batch * op.heads,
        m=m,
        n=n,
        k=k,
        dtype=op.dtype,
        read_bytes=read,
        write_bytes=write,
        aligned=aligned,
    )
