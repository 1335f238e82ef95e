"""The steps that only encoder-decoders have: attention over the encoder's result, and position biases shared by all layers.

Keys and values of the source are made once, by the step that reads the prompt, and kept. A bias by position (T5) is either worked out
inside the kernel from the small table (flash; an addition for each score), or looked up once for all pairs of positions and added to the
scores in a pass of their own (naive), which is how eager code runs it. Ranks of tensor parallelism share heads, as in the mixer; the source
is whole on each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from roofline.models.collectives import enter, leave
from roofline.models.description import Attention
from roofline.models.expansion import Expansion, Fields
from roofline.models.mixer_steps import softmax
from roofline.models.phases import Call
from roofline.models.weights import heads_of


def cross_steps(expansion: Expansion, a: Attention) -> Iterator[Fields]:
    """Queries of the tokens, keys and values of the source where they are not there yet, attention that sees all of it, output."""
    hidden, base, width = expansion.model.hidden, "layers.0.encoder_attn", a.heads * a.head_dim
    yield from enter(expansion, "cross")
    yield expansion.product("cross_q_proj", f"{base}.q_proj", width, hidden, bias=a.qkv_bias, split="n")
    if not expansion.decoding:
        yield from _keys(expansion, a, base)
    queries = {"q_len": "draft + 1" if expansion.draft else 1} if expansion.decoding else {"q_len": "seq"}
    call = Call("", {"batch": "batch", **queries, "kv_len": "source"}, "tokens", cached=expansion.decoding)
    yield {**softmax(expansion, call, a.heads, a.kv_heads, a.head_dim, a.v_head_dim), "id": "cross_attention"}
    yield expansion.product("cross_o_proj", f"{base}.o_proj", hidden, width, bias=a.out_bias, split="k")
    yield from leave(expansion, "cross")


def _keys(expansion: Expansion, a: Attention, base: str) -> Iterator[Fields]:
    """One product for both, or one each where only values have a bias."""
    hidden, keys, values = expansion.model.hidden, a.kv_heads * a.head_dim, a.kv_heads * a.v_head_dim
    if a.qkv_bias and not a.k_bias:
        yield expansion.product("cross_k_proj", f"{base}.k_proj", keys, hidden, rows="source_tokens", split="n")
        yield expansion.product("cross_v_proj", f"{base}.v_proj", values, hidden, rows="source_tokens", bias=True, split="n")
    else:
        yield expansion.product("cross_kv_proj", f"{base}.k_proj", keys + values, hidden, rows="source_tokens", bias=a.qkv_bias, split="n")


def position_bias(expansion: Expansion) -> Iterator[Fields]:
    """The table of position biases of a stack, with what its use costs outside the kernels of attention."""
    model = expansion.model
    own, causal = expansion.over(heads_of(model)), all(isinstance(x.mixer, Attention) and x.mixer.causal for x in model.layers)
    queries, keys = ("(draft + 1)" if expansion.draft else "1", "context") if expansion.decoding else ("seq", "seq")
    if expansion.attention == "naive":
        yield {"id": "position_bias", "op": "embedding", "tokens": f"{queries} * {keys}", "vocab": model.relative, "hidden": own}
        return
    seen = "(seq + 1) / 2" if causal and not expansion.decoding else keys
    flop = f"{expansion.over(len(model.layers) * heads_of(model))} * tokens * {seen} FLOP"
    table = expansion.over(model.relative * heads_of(model))
    yield {"id": "position_bias", "op": "custom", "vector_flop": flop, "read": "0 B", "weights": table}
    if expansion.training:  # gradients of scores are added up by bucket, in fp32
        yield {"id": "position_bias_gradient", "op": "custom", "vector_flop": flop, "write": f"{4 * model.relative * heads_of(model)} B"}
