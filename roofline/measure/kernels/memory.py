"""Kernels that move data: reduction, look-up, transposition, copies on the device and over PCIe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors, torch_dtype
from roofline.measure.kernels.autograd import backward_of
from roofline.ops.embedding import Embedding
from roofline.ops.memory import Copy, Reduction, Transpose


def reduction_of(op: Reduction, tensors: Tensors, out: torch.Tensor | None = None) -> tuple[torch.Tensor]:
    """y of x, into ``out`` where given."""
    x, target = tensors["x"], torch_dtype(op.out_dtype or op.dtype)
    if op.function == "max":
        return (torch.amax(x, 1) if out is None else torch.amax(x, 1, out=out),)
    reduce = torch.sum if op.function == "sum" else torch.mean
    return (reduce(x, 1, dtype=target) if out is None else reduce(x, 1, dtype=target, out=out),)


def reduction(op: Reduction, tensors: Tensors) -> Callable[[], Any]:
    """y, written where it belongs."""
    if op.function == "max" and op.out_dtype not in (None, op.dtype):
        raise UsageError("kernel 'reduction' gives a maximum in the format of x")
    return lambda: reduction_of(op, tensors, tensors["y"])


def reduction_backward(op: Reduction, tensors: Tensors) -> Callable[[], Any]:
    """dx; for a sum and a mean torch only spreads dy without writing it, so that it is written here."""
    backward = backward_of(op, tensors, reduction_of)
    return lambda: tuple(dx.contiguous() for dx in backward())


def embedding_of(op: Embedding, tensors: Tensors) -> tuple[torch.Tensor]:
    """Rows of the table."""
    return (torch.nn.functional.embedding(tensors["ids"], tensors["table"]),)


def embedding(op: Embedding, tensors: Tensors) -> Callable[[], Any]:
    """The same kernel as `torch.nn.functional.embedding`, writing into y."""
    ids, table, y = tensors["ids"], tensors["table"], tensors["y"]
    return lambda: torch.index_select(table, 0, ids, out=y)


def embedding_backward(op: Embedding, tensors: Tensors) -> Callable[[], Any]:
    """The dense gradient of the table, zeroed first."""
    return backward_of(op, tensors, embedding_of)


def transpose(op: Transpose, tensors: Tensors) -> Callable[[], Any]:
    """y[j, i] = x[i, j]."""
    x, y = tensors["x"], tensors["y"]
    return lambda: y.copy_(x.t())


def transpose_backward(op: Transpose, tensors: Tensors) -> Callable[[], Any]:
    """dx[i, j] = dy[j, i]."""
    dy, dx = tensors["dy"], torch.empty_like(tensors["x"])
    return lambda: dx.copy_(dy.t())


def copy(op: Copy, tensors: Tensors) -> Callable[[], Any]:
    """destination = source, by a kernel or by what torch takes for it."""
    source, destination = tensors["source"], tensors["destination"]
    if len(source) != len(destination):
        raise UsageError(f"kernel 'copy' writes what it reads, not {len(destination)} B of {len(source)}")
    return lambda: destination.copy_(source)


def host_to_device(op: Copy, tensors: Tensors) -> Callable[[], Any]:
    """The payload from pinned memory."""
    host, payload = tensors["host"], tensors["payload"]
    return lambda: payload.copy_(host, non_blocking=True)


def device_to_host(op: Copy, tensors: Tensors) -> Callable[[], Any]:
    """The payload into pinned memory; whoever reads it must wait for the device first."""
    host, payload = tensors["host"], tensors["payload"]
    return lambda: host.copy_(payload, non_blocking=True)
