"""Operators of serving engines, under the names by which vLLM registers them.

Results come first and are written in place, as their schemas have it. Paged attention is not among them: how many keys each
sequence has lies in tensors whose values no trace records.
"""

from __future__ import annotations

from math import prod

from roofline.ingest.aten import Call, Mapped, Scalar, Tensor, Unrecognised, handles


@handles("_C::rms_norm")
def rms_norm(call: Call) -> tuple[Mapped, ...]:
    """``rms_norm(out, x[..., cols], gamma, eps)``."""
    return _norm(call.tensor(1), residual=False)


@handles("_C::fused_add_rms_norm")
def fused_add_rms_norm(call: Call) -> tuple[Mapped, ...]:
    """``fused_add_rms_norm(x, residual, gamma, eps)``: the sum goes to the residual, the result to x."""
    return _norm(call.tensor(0), residual=True)


def _norm(x: Tensor, *, residual: bool) -> tuple[Mapped, ...]:
    rows = prod(x.shape[:-1])
    if not x.shape or not x.elements:
        raise Unrecognised("a norm of nothing")
    return (Mapped("rmsnorm", {"rows": rows, "cols": x.shape[-1], "dtype": x.dtype, **({"residual": True} if residual else {})}),)


@handles("_C::silu_and_mul")
def silu_and_mul(call: Call) -> tuple[Mapped, ...]:
    """``silu_and_mul(out[..., cols], x[..., 2 cols])``: gate and up are halves of a row."""
    out = call.tensor(0)
    if not out.shape or not out.elements:
        raise Unrecognised("an activation of nothing")
    return (Mapped("swiglu", {"rows": prod(out.shape[:-1]), "cols": out.shape[-1], "dtype": out.dtype, "packed": True}),)


@handles("_C::rotary_embedding")
def rotary_embedding(call: Call) -> tuple[Mapped, ...]:
    """``rotary_embedding(positions, q, k, head_size, table, is_neox)``, in place; the rotated width is that of a table row."""
    q, k, table, head = call.tensor(1), call.tensor(2), call.tensor(4), call.argument(3)
    if not isinstance(head, int) or head < 2 or table.shape[-1:] != (head,):
        raise Unrecognised("a rotary embedding of a part of each head")
    tokens = call.tensor(0).elements
    if not tokens or q.elements % (tokens * head) or k.elements % (tokens * head) or not q.elements * k.elements:
        raise Unrecognised("a rotary embedding whose heads do not divide")
    heads, kv_heads = q.elements // (tokens * head), k.elements // (tokens * head)
    fields: dict[str, Scalar] = {"tokens": tokens, "heads": heads, "kv_heads": kv_heads, "head_dim": head, "dtype": q.dtype}
    fields["in_place"] = True
    return (Mapped("rotary", fields),)


@handles("_C::static_scaled_fp8_quant", "_C::dynamic_scaled_fp8_quant")
def scaled_fp8_quant(call: Call) -> tuple[Mapped, ...]:
    """``static_scaled_fp8_quant(out, x, scale)``: a product and a conversion of each element; dynamic ones also find the maximum."""
    out, x = call.tensor(0), call.tensor(1)
    if not x.elements:
        raise Unrecognised("a conversion of nothing")
    if call.base.startswith("_C::dynamic"):
        raise Unrecognised("how often a dynamic conversion reads its input is not recorded")
    return (Mapped("elementwise", {"function": "scale", "elements": x.elements, "dtype": x.dtype, "out_dtype": out.dtype}),)


@handles("_C_cache_ops::reshape_and_cache_flash", "_C_cache_ops::reshape_and_cache")
def reshape_and_cache(call: Call) -> tuple[Mapped, ...]:
    """``reshape_and_cache_flash(k, v, k_cache, v_cache, slots, ...)``: new keys and values, written in the cache's format."""
    k, v, cache = call.tensor(0), call.tensor(1), call.tensor(2)
    elements = k.elements + v.elements
    if not elements:
        raise Unrecognised("a copy of nothing")
    return (Mapped("elementwise", {"function": "cast", "elements": elements, "dtype": k.dtype, "out_dtype": cache.dtype}),)


@handles("vllm::moe_forward", "vllm::moe_forward_shared")
def moe_forward(_call: Call) -> tuple[Mapped, ...]:
    """The experts are found by the layer's name, which is all that it is given."""
    raise Unrecognised("the sizes of the experts are not among its arguments")


@handles("vllm::unified_attention_with_output", "vllm::unified_attention", "vllm::unified_mla_attention_with_output")
def paged_attention(_call: Call) -> tuple[Mapped, ...]:
    """The cache is found by the layer's name, and lengths lie in tensors."""
    raise Unrecognised("how many keys each sequence has is not recorded")


@handles("symm_mem::multimem_all_reduce_", "symm_mem::one_shot_all_reduce", "symm_mem::two_shot_all_reduce_", "_C_custom_ar::all_reduce")
def symmetric_memory(_call: Call) -> tuple[Mapped, ...]:
    """Its group is given by name."""
    raise Unrecognised("the size of the group is not recorded")
