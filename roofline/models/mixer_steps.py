"""The steps of a layer's mixer: attention, latent attention, the gated delta rule, Mamba-2."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.dtypes import dtype as find_dtype
from roofline.models.description import Attention, DeltaNet, LatentAttention, Mamba2, Mixer
from roofline.models.expansion import Expansion, Fields


def mixer_steps(expansion: Expansion, mixer: Mixer) -> Iterator[Fields]:
    """The steps of any mixer."""
    if isinstance(mixer, Attention):
        return _attention(expansion, mixer)
    if isinstance(mixer, LatentAttention):
        return _latent(expansion, mixer)
    return _delta(expansion, mixer) if isinstance(mixer, DeltaNet) else _mamba(expansion, mixer)


def _attention(expansion: Expansion, a: Attention) -> Iterator[Fields]:
    hidden = expansion.model.hidden
    wide = a.heads * a.head_dim * (2 if a.gate else 1) + a.kv_heads * (a.head_dim + a.v_head_dim)
    yield expansion.product("qkv_proj", "layers.0.self_attn.q_proj", wide, hidden, bias=a.qkv_bias)
    if a.qk_norm == "head":
        yield expansion.norm("q_norm", f"tokens * {a.heads}", a.head_dim)
        yield expansion.norm("k_norm", f"tokens * {a.kv_heads}", a.head_dim)
    elif a.qk_norm == "row":
        yield expansion.norm("q_norm", "tokens", a.heads * a.head_dim)
        yield expansion.norm("k_norm", "tokens", a.kv_heads * a.head_dim)
    if a.rotary:
        yield _rotary(expansion, a.heads, a.kv_heads, a.rotary)
    if a.sinks:
        yield {"id": "sinks", "op": "custom", "read": "0 B", "weights": a.heads}
    if expansion.decoding:
        yield _write(expansion, a.kv_heads * (a.head_dim + a.v_head_dim))
    yield {
        "id": "attention",
        "op": "attention",
        "implementation": "flash",
        "heads": a.heads,
        "kv_heads": a.kv_heads,
        **_lengths(expansion, a),
        "head_dim": a.head_dim,
        **({"v_head_dim": a.v_head_dim} if a.v_head_dim != a.head_dim else {}),
        **({"causal": True} if a.causal and not expansion.decoding else {}),
        **_cache(expansion),
    }
    if a.gate:
        elements = f"tokens * {a.heads * a.v_head_dim}"
        yield {"id": "attention_gate", "op": "elementwise", "function": "sigmoid", "elements": elements}
        yield {"id": "attention_gated", "op": "elementwise", "function": "mul", "elements": elements}
    yield expansion.product("o_proj", "layers.0.self_attn.o_proj", hidden, a.heads * a.v_head_dim, bias=a.out_bias)


def _lengths(expansion: Expansion, a: Attention) -> Fields:
    """Sequences, queries and keys: those of a window when decoding, and chunks of a sequence as sequences of their own."""
    if expansion.decoding:
        return {"batch": "batch", "q_len": 1, "kv_len": f"min(context, {a.window})" if a.window else "context"}
    if a.window and a.chunked:
        length = f"min(seq, {a.window})"
        return {"batch": f"batch * ceil_div(seq, {a.window})", "q_len": length, "kv_len": length}
    return {"batch": "batch", "q_len": "seq", "kv_len": "seq", **({"window": a.window} if a.window else {})}


def _cache(expansion: Expansion) -> Fields:
    if not expansion.decoding:
        return {}
    kv = expansion.kv_dtype or (expansion.how.kv_dtype if expansion.how else None)
    return {"cache": True, **({"kv_dtype": kv} if kv and kv != expansion.model.dtype else {})}


def _write(expansion: Expansion, width: int) -> Fields:
    return {"id": "cache_write", "op": "elementwise", "function": "copy", "elements": f"tokens * {width}"}


def _rotary(expansion: Expansion, heads: int, kv_heads: int, width: int) -> Fields:
    positions = "batch" if expansion.decoding else "seq"
    return {
        "id": "rotary", "op": "rotary", "tokens": "tokens", "heads": heads, "kv_heads": kv_heads, "head_dim": width,
        "positions": positions, "in_place": True,
    }  # fmt: skip


def _latent(expansion: Expansion, a: LatentAttention) -> Iterator[Fields]:
    hidden, query, base = expansion.model.hidden, a.heads * (a.nope + a.rope), "layers.0.self_attn"
    if a.q_rank:
        yield expansion.product("q_a_proj", f"{base}.q_a_proj", a.q_rank, hidden, bias=a.bias)
        yield expansion.norm("q_a_norm", cols=a.q_rank)
        yield expansion.product("q_b_proj", f"{base}.q_b_proj", query, a.q_rank)
    else:
        yield expansion.product("q_proj", f"{base}.q_proj", query, hidden)
    yield expansion.product("kv_a_proj", f"{base}.kv_a_proj_with_mqa", a.rank + a.rope, hidden, bias=a.bias)
    yield expansion.norm("kv_a_norm", cols=a.rank)
    yield _rotary(expansion, a.heads, 1, a.rope)
    if a.indexer:
        yield from _indexer(expansion, a)
    yield from _absorbed(expansion, a) if expansion.decoding else _expanded(expansion, a)
    yield expansion.product("o_proj", f"{base}.o_proj", hidden, a.heads * a.v_head_dim, bias=a.bias)


def _expanded(expansion: Expansion, a: LatentAttention) -> Iterator[Fields]:
    """Keys and values made from the latent, then attention with a head of keys for each of queries."""
    yield expansion.product("kv_b_proj", "layers.0.self_attn.kv_b_proj", a.heads * (a.nope + a.v_head_dim), a.rank)
    shape = {"batch": "batch", "heads": a.heads, "q_len": "seq", "kv_len": "seq", "head_dim": a.nope + a.rope, "v_head_dim": a.v_head_dim}
    window = {"window": a.indexer.top_k} if a.indexer else {}
    yield {"id": "attention", "op": "attention", "implementation": "flash", **shape, "causal": True, **window}


def _absorbed(expansion: Expansion, a: LatentAttention) -> Iterator[Fields]:
    """Queries taken into the latent space by head, attention over the cached latent, its result brought back by head."""
    yield _write(expansion, a.rank + a.rope)
    formats = expansion.formats("layers.0.self_attn.kv_b_proj", a.rank, a.heads * (a.nope + a.v_head_dim))
    by_head = {"op": "grouped_gemm", "tokens": "tokens", "experts": a.heads, "active": a.heads}
    yield {"id": "q_absorb", **by_head, "n": a.rank, "k": a.nope, **formats}
    kv = expansion.kv_dtype or (expansion.how.kv_dtype if expansion.how else None)
    yield {
        "id": "attention", "op": "latent_attention", "batch": "batch", "heads": a.heads, "q_len": 1, "kv_len": "context",
        "rank": a.rank, "rope": a.rope,
        **({"top_k": a.indexer.top_k} if a.indexer else {}),
        **({"kv_dtype": kv} if kv and kv != expansion.model.dtype else {}),
    }  # fmt: skip
    yield {"id": "v_absorb", **by_head, "n": a.v_head_dim, "k": a.rank, **formats}


def _indexer(expansion: Expansion, a: LatentAttention) -> Iterator[Fields]:
    """Queries and one key of the indexer, and its scores; causal where a sequence is filled."""
    i, hidden, base = a.indexer, expansion.model.hidden, "layers.0.self_attn.indexer"
    assert i is not None
    yield expansion.product("index_q_proj", f"{base}.wq_b", i.heads * i.head_dim, a.q_rank or hidden)
    yield expansion.product("index_k_proj", f"{base}.wk", i.head_dim, hidden)
    yield {"id": "index_k_norm", "op": "layernorm", "rows": "tokens", "cols": i.head_dim}
    yield expansion.product("index_weights", f"{base}.weights_proj", i.heads, hidden, kept=True)
    keys = expansion.keys()
    seen = "context" if expansion.decoding else "(seq + 1) / 2"
    flop = f"2 * tokens * {i.heads * i.head_dim} * {seen} FLOP"
    size = find_dtype(expansion.kv_dtype or expansion.model.dtype).bytes
    queries, cached = f"2 * tokens * {i.heads * i.head_dim}", f"{size} * batch * {keys} * {i.head_dim}"
    moved = {"read": f"{queries} B", "cache": f"{cached} B"} if expansion.decoding else {"read": f"{queries} + {cached} B"}
    yield {"id": "index_scores", "op": "custom", "tensor_flop": flop, **moved, "write": f"4 * tokens * {seen} B"}


def _delta(expansion: Expansion, d: DeltaNet) -> Iterator[Fields]:
    """The gated delta rule by its recurrence: a state is decayed, corrected and read for each token, once through memory a sequence."""
    hidden, keys, values = expansion.model.hidden, d.key_heads * d.key_dim, d.value_heads * d.value_dim
    base = "layers.0.linear_attn"
    yield expansion.product("in_proj_qkvz", f"{base}.in_proj_qkvz", 2 * keys + 2 * values, hidden)
    yield expansion.product("in_proj_ba", f"{base}.in_proj_ba", 2 * d.value_heads, hidden, kept=True)
    yield _conv(expansion, 2 * keys + values, d.conv)
    state, moved = d.value_heads * d.key_dim * d.value_dim, 2 * (2 * keys + values)
    yield _recurrence(expansion, state, moved, 2 * values, 2 * d.value_heads)
    yield expansion.norm("gated_norm", f"tokens * {d.value_heads}", d.value_dim)
    yield expansion.product("out_proj", f"{base}.out_proj", hidden, values)


def _mamba(expansion: Expansion, m: Mamba2) -> Iterator[Fields]:
    """Mamba-2 by its recurrence."""
    hidden, conv, base = expansion.model.hidden, m.width + 2 * m.groups * m.state, "layers.0.mixer"
    yield expansion.product("in_proj", f"{base}.in_proj", m.width + conv + m.heads, hidden, bias=m.bias)
    yield _conv(expansion, conv, m.conv, bias=m.conv_bias)
    yield _recurrence(expansion, m.width * m.state, 2 * conv, 2 * m.width, 3 * m.heads)
    yield expansion.norm("gated_norm", "tokens", m.width)
    yield expansion.product("out_proj", f"{base}.out_proj", hidden, m.width, bias=m.bias)


def _conv(expansion: Expansion, channels: int, taps: int, *, bias: bool = False) -> Fields:
    """A short causal convolution of each channel, which keeps its last inputs when decoding."""
    kept = {"cache": f"2 * batch * {channels * (taps - 1)} B"} if expansion.decoding and taps > 1 else {}
    return {
        "id": "conv", "op": "custom", "vector_flop": f"2 * tokens * {channels * taps} FLOP", "read": f"2 * tokens * {channels} B",
        "write": f"2 * tokens * {channels} B", "weights": channels * (taps + int(bias)), **kept,
    }  # fmt: skip


def _recurrence(expansion: Expansion, state: int, read: int, write: int, weights: int) -> Fields:
    """6 FLOP a token for each number of the fp32 state, which a decoding step reads and writes and a prefill only writes."""
    kept = {"cache": f"4 * batch * {state} B"} if expansion.decoding else {}
    return {
        "id": "recurrence", "op": "custom", "tensor_flop": f"6 * tokens * {state} FLOP", "read": f"tokens * {read} B",
        "write": f"4 * batch * {state} + tokens * {write} B", "weights": weights, **kept,
    }  # fmt: skip
