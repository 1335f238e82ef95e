"""Matrix products through the vendor's library: matmul, _scaled_mm for fp8, _int_mm for int8, bmm for batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors, torch_dtype
from roofline.measure.kernels.precision import exactly
from roofline.ops.gemm import BatchedGemm, Gemm

EPILOGUES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu_,
    "silu": lambda c: functional.silu(c, inplace=True),
    "gelu": torch.ops.aten.gelu_,
}
"""In place, as a kernel of its own: torch has no product that ends with all of them."""


def gemm(op: Gemm, tensors: Tensors) -> Callable[[], Any]:
    """C = A W, with bias and accumulation inside the product, an activation behind it."""
    if op.weight_dtype not in (None, op.dtype):
        raise UsageError(f"kernel 'gemm' runs W in the dtype of A, not {op.weight_dtype}; name your own with --kernel module:function")
    product = _quantised(op, tensors) if op.dtype in ("fp8", "fp8_e4m3", "int8") else _plain(op, tensors)
    if op.activation == "none":
        return exactly(op, product)
    epilogue = EPILOGUES[op.activation]
    return exactly(op, lambda: epilogue(product()))


def _plain(op: Gemm, tensors: Tensors) -> Callable[[], torch.Tensor]:
    _by_columns(tensors)
    a, w, c = tensors["a"], tensors["w"], tensors["c"]
    if c.dtype is not a.dtype:
        raise UsageError(f"kernel 'gemm' writes C in {op.dtype}, not {op.output_dtype}")
    if op.bias and op.accumulate:
        raise UsageError("kernel 'gemm' adds a bias or accumulates, not both")
    if op.bias:
        return lambda: torch.addmm(tensors["bias"], a, w, out=c)
    if op.accumulate:
        return lambda: c.addmm_(a, w)
    return lambda: torch.mm(a, w, out=c)


def _by_columns(tensors: Tensors) -> None:
    """W as linear layers store it: the weights of one output beside each other."""
    tensors["w"] = tensors["w"].t().contiguous().t()


def _quantised(op: Gemm, tensors: Tensors) -> Callable[[], torch.Tensor]:
    """8-bit products: the libraries want W by columns, and sizes that fill their instructions."""
    if op.bias or op.accumulate:
        raise UsageError(f"kernel 'gemm' in {op.dtype} adds no bias and does not accumulate")
    if op.k % 16 or op.n % 16 or (op.dtype == "int8" and op.m <= 16):
        raise UsageError(f"kernel 'gemm' in {op.dtype} needs k and n in multiples of 16, and int8 m above 16")
    _by_columns(tensors)
    return _int8(op, tensors) if op.dtype == "int8" else _fp8(op, tensors)


def _int8(op: Gemm, tensors: Tensors) -> Callable[[], torch.Tensor]:
    a, w, c = tensors["a"], tensors["w"], tensors["c"]
    if c.dtype is not torch.int32 or op.activation != "none":
        raise UsageError("kernel 'gemm' in int8 writes plain sums in int32")
    return lambda: torch.ops.aten._int_mm.out(a, w, out=c)


def _fp8(op: Gemm, tensors: Tensors) -> Callable[[], torch.Tensor]:
    """The operator itself and not torch._scaled_mm, whose Python signature changed between versions."""
    a, w, c = tensors["a"], tensors["w"], tensors["c"]
    one = torch.ones((), device=a.device)
    product = torch.ops.aten._scaled_mm.out
    return lambda: product(a, w, one, one, None, None, c.dtype, True, out=c)


def gemm_backward(op: Gemm, tensors: Tensors) -> Callable[[], Any]:
    """dA = dC W^T, dW = A^T dC, and the sum of dC for a bias."""
    if op.dtype in ("fp8", "fp8_e4m3", "int8") or op.activation != "none" or op.accumulate:
        raise UsageError("kernel 'gemm' runs the backward pass of plain products only")
    _by_columns(tensors)
    a, w, dc = tensors["a"], tensors["w"], tensors["dc"]
    da, dw = torch.empty_like(a), torch.empty_like(w)

    def both() -> tuple[torch.Tensor, ...]:
        bias = (dc.sum(0),) if op.bias else ()
        return (torch.mm(dc, w.t(), out=da), torch.mm(a.t(), dc, out=dw), *bias)

    return exactly(op, both)


def batched_gemm(op: BatchedGemm, tensors: Tensors) -> Callable[[], Any]:
    """C[b] = A[b] B[b]."""
    a, b, c = tensors["a"], tensors["b"], tensors["c"]
    if c.dtype is not torch_dtype(op.dtype):
        raise UsageError(f"kernel 'batched_gemm' writes C in {op.dtype}, not {op.output_dtype}")
    return exactly(op, lambda: torch.bmm(a, b, out=c))


def batched_gemm_backward(op: BatchedGemm, tensors: Tensors) -> Callable[[], Any]:
    """dA = dC B^T, dB = A^T dC."""
    a, b, dc = tensors["a"], tensors["b"], tensors["dc"]
    da, db = torch.empty_like(a), torch.empty_like(b)
    return exactly(op, lambda: (torch.bmm(dc, b.mT, out=da), torch.bmm(a.mT, dc, out=db)))
