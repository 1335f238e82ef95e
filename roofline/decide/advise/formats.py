"""Fewer bits: of weights, of the cache of keys and values, of both operands of products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.decide.advise.rewrite import changed, swapped
from roofline.decide.advise.situation import APPROXIMATE, Change, Situation
from roofline.dtypes import dtype as find_dtype
from roofline.hardware.profile import Figure, Hardware
from roofline.ops.attention import Attention
from roofline.ops.base import Op
from roofline.ops.gemm import Gemm
from roofline.ops.grouped import GroupedGemm
from roofline.ops.latent import LatentAttention

WEIGHTS = (("fp8", 0, "fp8 weights, one scale a column"), ("int4", 128, "int4 weights, a scale for each 128"))
HALVES = ("bf16", "fp16")
WIDE = (*HALVES, "fp32", "tf32")
DEQUANTISED = "a kernel that widens them on the way; it is estimated as a product in the wider format that reads fewer bytes"
QUANTISED = "activations arrive in 8 bits: the operator before writes them so, which is not counted"


def weights(now: Situation) -> Iterator[Change]:
    """Weights of products in 8 and in 4 bits, arithmetic as before."""
    if now.training:
        return
    for name, group, title in WEIGHTS:
        ops: dict[str, Op] = {}
        for s in now.workload.steps:
            op = s.op
            if (
                isinstance(op, (Gemm, GroupedGemm))
                and op.dtype in WIDE
                and find_dtype(op.weight_dtype or op.dtype).bits > find_dtype(name).bits
            ):
                ops[s.id] = replace(op, weight_dtype=name, group_size=group)
        if ops:
            settings = tuple(w for i in ops for w in (f"{i}.weight_dtype={name}", *((f"{i}.group_size={group}",) if group else ())))
            yield _change(now, f"weights-{name}", "weight format", title, ops, settings, DEQUANTISED)


def caches(now: Situation) -> Iterator[Change]:
    """Cached keys and values in 8 bits."""
    ops: dict[str, Op] = {}
    for s in now.workload.steps:
        op = s.op
        cached = isinstance(op, LatentAttention) or (isinstance(op, Attention) and op.cache)
        if cached and isinstance(op, (Attention, LatentAttention)) and find_dtype(op.kv_dtype or op.dtype).bits > 8:
            ops[s.id] = replace(op, kv_dtype="fp8")
    if ops and not now.training:
        settings = tuple(f"{i}.kv_dtype=fp8" for i in ops)
        yield _change(now, "kv-fp8", "KV format", "fp8 cache of keys and values", ops, settings, "an attention kernel that reads it")


def products(now: Situation) -> Iterator[Change]:
    """Both operands of products in 8 bits, on the matrix units for those."""
    if now.training or not _has_matrix(now.hardware, "fp8"):
        return
    ops: dict[str, Op] = {}
    settings: list[str] = []
    for s in now.workload.steps:
        if isinstance(s.op, (Gemm, GroupedGemm)) and s.op.dtype in HALVES and s.op.weight_dtype in (None, *HALVES, "fp8"):
            ops[s.id] = replace(s.op, dtype="fp8", out_dtype=s.op.out_dtype or s.op.dtype, weight_dtype=None, group_size=0)
            settings += [f"{s.id}.dtype=fp8", f"{s.id}.out_dtype={s.op.out_dtype or s.op.dtype}"]
    if ops:
        yield _change(now, "products-fp8", "activation format", "fp8 products, weights and activations", ops, tuple(settings), QUANTISED)


def halves(now: Situation) -> Iterator[Change]:
    """fp32 work as products on tf32 matrix units, or in bf16 throughout."""
    wide = [s for s in now.workload.steps if s.op.dtype == "fp32" and s.op.family != "optimizer"]
    matrix = {s.id: replace(s.op, dtype="tf32", out_dtype="fp32") for s in wide if isinstance(s.op, Gemm)}
    if matrix and _has_matrix(now.hardware, "tf32"):
        settings = tuple(w for i in matrix for w in (f"{i}.dtype=tf32", f"{i}.out_dtype=fp32"))
        yield _change(
            now, "tf32", "arithmetic format", "tf32 products", dict(matrix), settings, "torch.set_float32_matmul_precision('high')"
        )
    if wide and _has_matrix(now.hardware, "bf16"):
        ops = {s.id: changed(s.op, dtype="bf16") for s in wide}
        settings = tuple(f"{i}.dtype=bf16" for i in ops)
        yield _change(now, "bf16", "arithmetic format", "bf16 instead of fp32", ops, settings, "sums stay fp32 inside the kernels")


def _has_matrix(hardware: Hardware, name: str) -> bool:
    return isinstance(hardware.tensor.get(find_dtype(name).matrix), Figure)


def _change(now: Situation, key: str, rule: str, title: str, ops: dict[str, Op], settings: tuple[str, ...], condition: str) -> Change:
    result = now.with_steps(swapped(now.workload.steps, ops), settings)
    return Change(
        key=key,
        rule=rule,
        title=title,
        exactness=APPROXIMATE,
        result=result,
        conditions=(condition, "quality is measured on the task"),
        check=tuple(c for c in (now.command(result),) if c),
    )
