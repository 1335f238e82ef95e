"""The rungs of the matmul ladder (`roofline.measure.kernels.triton_gemm`) as kernels of the operator gemm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from roofline.errors import UsageError
from roofline.measure.allocate import Tensors
from roofline.measure.kernels import triton_gemm
from roofline.measure.kernels.triton_or_none import descriptor
from roofline.measure.kernels.tuning import Config, Launch, tuned
from roofline.ops.gemm import Gemm

LINE = ({"BLOCK": 256, "num_warps": 8},)
SHARED = ({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "num_warps": 32, "num_stages": 1},)
"""One result a thread."""
REGISTERS = (
    {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2},
    {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 16, "num_warps": 4, "num_stages": 2},
    {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 16, "num_warps": 8, "num_stages": 2},
)
UNPIPELINED = ({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 1, "num_warps": 8, "num_stages": 1},)
PIPELINED = (
    {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "num_warps": 8, "num_stages": 4},
    {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8, "num_warps": 4, "num_stages": 4},
)
PERSISTENT = (
    {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "HALVES": False, "FLATTEN": False, "num_warps": 8, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "HALVES": True, "FLATTEN": True, "num_warps": 8, "num_stages": 3},
    {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP": 8, "HALVES": True, "FLATTEN": False, "num_warps": 8, "num_stages": 4},
)


def _refuse(op: Gemm, kernel: str) -> None:
    """Say no to what the ladder does not compute.

    Raises:
        UsageError: with what it is.
    """
    reasons = {
        "a bias": op.bias,
        "accumulation": op.accumulate,
        "an activation": op.activation != "none",
        "W in another dtype": op.weight_dtype not in (None, op.dtype),
        "C in another dtype": op.out_dtype not in (None, op.dtype),
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise UsageError(f"kernel '{kernel}' computes C = A W and cannot run {', '.join(found)}")


def _launched(op: Gemm, tensors: Tensors, configs: Sequence[Config], name: str, make: Callable[[Config], Launch]) -> Callable[[], Any]:
    """The fastest of the configurations, as a callable that returns C."""
    key = (name, op.dtype, int(op.m), int(op.n), int(op.k))
    run = tuned(key, configs, make, tensors["c"].device)

    def call() -> torch.Tensor:
        run()
        return tensors["c"]

    return call


def _sizes(op: Gemm) -> tuple[int, int, int]:
    return int(op.m), int(op.n), int(op.k)


def _tiles(op: Gemm, config: Config) -> int:
    return int(-(-op.m // config["BLOCK_M"]) * -(-op.n // config["BLOCK_N"]))


# --------------------------------------------------------------------------- vector lanes
def gemm_naive(op: Gemm, tensors: Tensors) -> Callable[[], Any]:
    """Lanes along the rows of C."""
    return _by_lines(op, tensors, "naive", int(op.m), int(op.n))


def gemm_coalesced(op: Gemm, tensors: Tensors) -> Callable[[], Any]:
    """Lanes along the columns of C."""
    return _by_lines(op, tensors, "coalesced", int(op.n), int(op.m))


def _by_lines(op: Gemm, tensors: Tensors, name: str, along: int, lines: int) -> Callable[[], Any]:
    _refuse(op, f"gemm_{name}")
    kernel, a, w, c = getattr(triton_gemm, name), tensors["a"], tensors["w"], tensors["c"]

    def make(config: Config) -> Launch:
        grid = (-(-along // config["BLOCK"]) * lines,)
        return lambda: kernel[grid](a, w, c, *_sizes(op), **config)

    return _launched(op, tensors, LINE, name, make)


def gemm_shared(op: Gemm, tensors: Tensors) -> Callable[[], Any]:
    """Tiles in shared memory, one result a thread."""
    return _blocked(op, tensors, "shared", SHARED)


def gemm_tiled(op: Gemm, tensors: Tensors) -> Callable[[], Any]:
    """Tiles in shared memory, a register tile of results a thread."""
    return _blocked(op, tensors, "tiled", REGISTERS)


def _blocked(op: Gemm, tensors: Tensors, name: str, configs: Sequence[Config]) -> Callable[[], Any]:
    _refuse(op, f"gemm_{name}")
    a, w, c = tensors["a"], tensors["w"], tensors["c"]

    def make(config: Config) -> Launch:
        return lambda: triton_gemm.blocked[(_tiles(op, config),)](a, w, c, *_sizes(op), **config)

    return _launched(op, tensors, configs, name, make)


# --------------------------------------------------------------------------- matrix unit
def _by_columns(tensors: Tensors) -> None:
    """W as linear layers store it: the weights of one output beside each other."""
    tensors["w"] = tensors["w"].t().contiguous().t()


def gemm_tensor(op: Gemm, tensors: Tensors) -> Callable[[], Any]:
    """Tiles into the matrix unit, loads and products one after the other, tiles along rows."""
    return _tensor(op, tensors, "tensor", UNPIPELINED)


def gemm_pipelined(op: Gemm, tensors: Tensors) -> Callable[[], Any]:
    """Several tiles in flight by asynchronous copies, in an order that shares panels in L2."""
    return _tensor(op, tensors, "pipelined", PIPELINED)


def _tensor(op: Gemm, tensors: Tensors, name: str, configs: Sequence[Config]) -> Callable[[], Any]:
    _refuse(op, f"gemm_{name}")
    _by_columns(tensors)
    a, w, c = tensors["a"], tensors["w"], tensors["c"]

    def make(config: Config) -> Launch:
        even = not op.k % config["BLOCK_K"]
        return lambda: triton_gemm.tensor[(_tiles(op, config),)](a, w, c, *_sizes(op), EVEN_K=even, **config)

    return _launched(op, tensors, configs, name, make)


def gemm_persistent(op: Gemm, tensors: Tensors) -> Callable[[], Any]:
    """One program a processor, tiles by TMA."""
    _refuse(op, "gemm_persistent")
    size = tensors["a"].element_size()
    if op.k * size % 16 or op.n * size % 16:
        raise UsageError("kernel 'gemm_persistent' copies with TMA, whose rows start at multiples of 16 bytes: k and n do not give them")
    _by_columns(tensors)
    a, w, c = tensors["a"], tensors["w"].t(), tensors["c"]
    at_once = torch.cuda.get_device_properties(a.device).multi_processor_count if a.is_cuda else 2

    def make(config: Config) -> Launch:
        m, n, k = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
        stored = n // 2 if config["HALVES"] else n
        tiles = [descriptor(t, block) for t, block in ((a, (m, k)), (w, (n, k)), (c, (m, stored)))]
        grid = (min(_tiles(op, config), at_once),)
        return lambda: triton_gemm.persistent[grid](*tiles, *_sizes(op), **config)

    return _launched(op, tensors, PERSISTENT, "persistent", make)
