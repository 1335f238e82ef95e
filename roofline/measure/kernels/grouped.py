"""Products of rows with one of many matrices each, as in a mixture of experts: torch's grouped product, and one product a matrix.

Rows lie sorted by their matrix; sorting them is not part of the operator. Which get how many is in `roofline.measure.loads`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from roofline.errors import MissingCapabilityError, UsageError
from roofline.measure.allocate import Tensors
from roofline.measure.kernels.precision import exactly
from roofline.measure.loads import ends
from roofline.ops.grouped import GroupedGemm

EIGHT = 8
"""Elements of bf16 in the 16 bytes at a multiple of which the grouped kernel wants each row to begin."""


def grouped_gemm(op: GroupedGemm, tensors: Tensors) -> Callable[[], Any]:
    """All matrices in one kernel on a GPU, where the offsets lie too; a product a matrix on a CPU, as torch itself does there."""
    if not tensors["a"].is_cuda:
        return looped(op, tensors)
    _plain(op, tensors)
    if op.k % EIGHT or op.n % EIGHT:
        raise UsageError(f"kernel 'grouped_gemm' needs k and n in multiples of {EIGHT}, not {op.k} and {op.n}")
    product = getattr(torch, "_grouped_mm", None)
    if product is None:
        raise MissingCapabilityError(f"kernel 'grouped_gemm' needs torch._grouped_mm, which torch {torch.__version__} lacks; update torch")
    a, w = tensors["a"], tensors["w"]
    offsets = torch.tensor(ends(op), dtype=torch.int32, device=a.device)
    return lambda: product(a, w, offs=offsets, out_dtype=a.dtype)


def looped(op: GroupedGemm, tensors: Tensors) -> Callable[[], Any]:
    """One product after the other, of the matrices that have rows."""
    _plain(op, tensors)
    a, w, c = tensors["a"], tensors["w"], tensors["c"]
    bounds = pairwise([0, *ends(op)])
    parts = [(a[first:end], w[at], c[first:end]) for at, (first, end) in enumerate(bounds) if end > first]

    def run() -> torch.Tensor:
        for x, matrix, y in parts:
            torch.mm(x, matrix, out=y)
        return c

    return exactly(op, run)


def _plain(op: GroupedGemm, tensors: Tensors) -> None:
    """Refuse what torch has no grouped product of, and lay each W as linear layers store it."""
    if op.weight_dtype not in (None, op.dtype) or op.out_dtype not in (None, op.dtype):
        raise UsageError(f"grouped products run here with W and C in the format of A, {op.dtype}")
    if op.bias or op.group_size:
        raise UsageError("grouped products run here without bias and without scales of quantised weights")
    tensors["w"] = tensors["w"].mT.contiguous().mT
