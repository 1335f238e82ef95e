"""The steps of a layer's mixer: attention, latent attention, the gated delta rule, Mamba-2."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.dtypes import dtype as find_dtype
from roofline.models.collectives import NEEDED, collective, context_exchange, context_return, enter
from roofline.models.description import Attention, DeltaNet, LatentAttention, Mamba2, Mixer
from roofline.models.expansion import Expansion, Fields
from roofline.models.phases import Call, calls, positions


def mixer_steps(expansion: Expansion, mixer: Mixer) -> Iterator[Fields]:
    """The steps of any mixer."""
    if isinstance(mixer, Attention):
        return _attention(expansion, mixer)
    if isinstance(mixer, LatentAttention):
        return _latent(expansion, mixer)
    return _delta(expansion, mixer) if isinstance(mixer, DeltaNet) else _mamba(expansion, mixer)


def _attention(expansion: Expansion, a: Attention) -> Iterator[Fields]:
    hidden, queries = expansion.model.hidden, a.heads * a.head_dim * (2 if a.gate else 1)
    kv = a.head_dim + a.v_head_dim
    wide = f"{queries} / tp + {expansion.kv_width(a.kv_heads, kv)}"
    base, heads, kv_heads = "layers.0.self_attn", expansion.over(a.heads), expansion.kv_heads(a.kv_heads)
    if a.qkv_bias and not a.k_bias:  # one bias for both would give keys one too
        yield expansion.product("qv_proj", f"{base}.q_proj", queries + a.kv_heads * a.v_head_dim, hidden, bias=True, split="n")
        yield expansion.product("k_proj", f"{base}.k_proj", a.kv_heads * a.head_dim, hidden, split="n")
    else:
        yield expansion.product("qkv_proj", f"{base}.q_proj", queries + a.kv_heads * kv, hidden, bias=a.qkv_bias, wide=wide)
    if a.qk_norm == "head":
        yield expansion.norm("q_norm", f"tokens * {heads}", a.head_dim)
        yield expansion.norm("k_norm", f"tokens * {kv_heads}", a.head_dim)
    elif a.qk_norm == "row":
        yield expansion.norm("q_norm", "tokens", expansion.over(a.heads * a.head_dim))
        yield expansion.norm("k_norm", "tokens", expansion.kv_width(a.kv_heads, a.head_dim))
    if a.rotary:
        yield _rotary(expansion, heads, kv_heads, a.rotary)
    if a.sinks:
        yield {"id": "sinks", "op": "custom", "read": "0 B", "weights": heads}
    if writes_cache(expansion):
        yield _write(expansion, expansion.kv_width(a.kv_heads, kv))
    yield from context_exchange(expansion, a.heads, a.kv_heads, a.head_dim, a.v_head_dim, a.window)
    for call in calls(expansion, causal=a.causal, window=a.window, chunked=a.chunked):
        biased = {"mask": True} if expansion.model.relative and expansion.attention == "naive" else {}
        yield {**softmax(expansion, call, a.heads, a.kv_heads, a.head_dim, a.v_head_dim), **biased}
    yield from context_return(expansion, a.heads, a.v_head_dim)
    if a.gate:
        elements = f"tokens * {expansion.over(a.heads * a.v_head_dim)}"
        yield {"id": "attention_gate", "op": "elementwise", "function": "sigmoid", "elements": elements}
        yield {"id": "attention_gated", "op": "elementwise", "function": "mul", "elements": elements}
    yield expansion.product("o_proj", f"{base}.o_proj", hidden, a.heads * a.v_head_dim, bias=a.out_bias, split="k")


def softmax(expansion: Expansion, call: Call, heads: int, kv_heads: int | None, head_dim: int, v_head_dim: int) -> Fields:
    """One launch of attention with keys and values of their own; no ``kv_heads`` where each query head has its keys."""
    lengths = dict(call.lengths)
    masked: Fields = {"causal": lengths.pop("causal")} if "causal" in lengths else {}
    window: Fields = {"window": lengths.pop("window")} if "window" in lengths else {}
    own = {"kv_heads": f"max({kv_heads} / {call.split}, 1)" if expansion.parallel else kv_heads} if kv_heads else {}
    shape = {"heads": expansion.over(heads, call.split), **own}
    wide = {"head_dim": head_dim, **({"v_head_dim": v_head_dim} if v_head_dim != head_dim or not kv_heads else {})}
    order: Fields = {**shape, **lengths, **window, **wide, **masked}
    if not kv_heads:
        order = {"batch": lengths.pop("batch"), **shape, **lengths, **wide, **masked, **window}
    repeat = {"repeat": call.repeat} if call.repeat else {}
    named = {"id": f"attention{call.ending}", "op": "attention", "implementation": expansion.attention}
    return {**named, **order, **(_cache(expansion) if call.cached else {}), **repeat}


def writes_cache(expansion: Expansion) -> bool:
    """Whether keys and values of the tokens are written behind those that are there."""
    return expansion.decoding or expansion.cached or expansion.phase == "mixed"


def _kv_dtype(expansion: Expansion) -> Fields:
    kv = expansion.kv_dtype or (expansion.how.kv_dtype if expansion.how else None)
    return {"kv_dtype": kv} if kv and kv != expansion.model.dtype else {}


def _cache(expansion: Expansion) -> Fields:
    return {"cache": True, **_kv_dtype(expansion), **_pages(expansion)}


def _pages(expansion: Expansion) -> Fields:
    return {"page": expansion.page} if expansion.page else {}


def _write(expansion: Expansion, width: int | str) -> Fields:
    return {"id": "cache_write", "op": "elementwise", "function": "copy", "elements": f"tokens * {width}"}


def _rotary(expansion: Expansion, heads: int | str, kv_heads: int | str, width: int) -> Fields:
    return {
        "id": "rotary", "op": "rotary", "tokens": "tokens", "heads": heads, "kv_heads": kv_heads, "head_dim": width,
        "positions": positions(expansion), "in_place": True,
    }  # fmt: skip


def _latent(expansion: Expansion, a: LatentAttention) -> Iterator[Fields]:
    """The latent and its queries are made on every rank, of the tokens that norms see; heads are shared from there on."""
    hidden, query, base = expansion.model.hidden, a.heads * (a.nope + a.rope), "layers.0.self_attn"
    rows = expansion.spread
    if a.q_rank:
        yield expansion.product("q_a_proj", f"{base}.q_a_proj", a.q_rank, hidden, rows=rows, bias=a.bias)
        yield expansion.norm("q_a_norm", rows, a.q_rank)
        q_b = expansion.product("q_b_proj", f"{base}.q_b_proj", query, a.q_rank, split="n")
    else:
        q_b = expansion.product("q_proj", f"{base}.q_proj", query, hidden, split="n")
    kv_a = [
        expansion.product("kv_a_proj", f"{base}.kv_a_proj_with_mqa", a.rank + a.rope, hidden, rows=rows, bias=a.bias),
        expansion.norm("kv_a_norm", rows, a.rank),
    ]
    gathered = enter(expansion, "latent", (a.q_rank or hidden) + a.rank + a.rope)
    yield from (*kv_a, *gathered, q_b) if expansion.parallel else (q_b, *kv_a)
    yield _rotary(expansion, expansion.over(a.heads), 1, a.rope)
    if a.indexer:
        yield from _indexer(expansion, a)
    if writes_cache(expansion):
        yield _write(expansion, a.rank + a.rope)
    yield from _latent_calls(expansion, a)
    yield expansion.product("o_proj", f"{base}.o_proj", hidden, a.heads * a.v_head_dim, bias=a.bias, split="k")


def _latent_calls(expansion: Expansion, a: LatentAttention) -> Iterator[Fields]:
    """Expanded where a sequence is filled, absorbed where tokens are decoded."""
    yield from context_exchange(expansion, a.heads, a.heads, a.nope + a.rope, a.v_head_dim, 0)
    expanded = False
    for call in calls(expansion, window=a.indexer.top_k if a.indexer and not expansion.decoding else 0):
        if expansion.decoding or call.ending == "_decode":
            yield from _absorbed(expansion, a, call)
            continue
        if not expanded:
            rows = "batch * seq" if expansion.cached else "chunk + cached" if expansion.phase == "mixed" else "tokens"
            wide = a.heads * (a.nope + a.v_head_dim)
            yield expansion.product("kv_b_proj", "layers.0.self_attn.kv_b_proj", wide, a.rank, rows=rows, split="n")
            expanded = True
        made = Call(call.ending, call.lengths, call.rows, repeat=call.repeat, split=call.split)
        yield softmax(expansion, made, a.heads, None, a.nope + a.rope, a.v_head_dim)
        if call.cached:
            yield _latent_kept(expansion, a, call)
    yield from context_return(expansion, a.heads, a.rank if expansion.decoding else a.v_head_dim)


def _latent_kept(expansion: Expansion, a: LatentAttention, call: Call) -> Fields:
    """The rows of the latent that stay; the product that expands keys and values reads them."""
    keys = call.lengths["kv_len"]
    kept = f"ceil_div({keys}, {expansion.page}) * {expansion.page}" if expansion.page else f"({keys})"
    size = find_dtype(expansion.kv_dtype or expansion.model.dtype).bytes
    return {"id": f"latent_cache{call.ending}", "op": "custom", "cache": f"{size} * {call.lengths['batch']} * {kept} * {a.rank + a.rope} B"}


def _absorbed(expansion: Expansion, a: LatentAttention, call: Call) -> Iterator[Fields]:
    """Queries taken into the latent space by head, attention over the cached latent, its result brought back by head."""
    formats = expansion.formats("layers.0.self_attn.kv_b_proj", a.rank, a.heads * (a.nope + a.v_head_dim))
    heads = expansion.over(a.heads)
    by_head: Fields = {"op": "grouped_gemm", "tokens": call.rows, "experts": heads, "active": heads}
    if expansion.phase == "mixed":  # the weights are those of kv_b_proj, and counted there
        by_head, formats = {"op": "batched_gemm", "batch": heads, "m": call.rows}, {}
    yield {"id": "q_absorb", **by_head, "n": a.rank, "k": a.nope, **formats}
    lengths = {k: v for k, v in call.lengths.items() if k not in ("causal", "batch")}
    yield {
        "id": f"attention{call.ending}", "op": "latent_attention", "batch": call.lengths["batch"], "heads": heads, **lengths,
        "rank": a.rank, "rope": a.rope,
        **({"top_k": a.indexer.top_k} if a.indexer else {}),
        **_kv_dtype(expansion), **_pages(expansion),
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
    base, over = "layers.0.linear_attn", expansion.over
    yield expansion.product("in_proj_qkvz", f"{base}.in_proj_qkvz", 2 * keys + 2 * values, hidden, split="n")
    yield expansion.product("in_proj_ba", f"{base}.in_proj_ba", 2 * d.value_heads, hidden, kept=True, split="n")
    yield _conv(expansion, 2 * keys + values, d.conv)
    state, moved = d.value_heads * d.key_dim * d.value_dim, 2 * (2 * keys + values)
    yield from _recurrence(expansion, state, moved, 2 * values, 2 * d.value_heads)
    yield expansion.norm("gated_norm", f"tokens * {over(d.value_heads)}", d.value_dim)
    yield expansion.product("out_proj", f"{base}.out_proj", hidden, values, split="k")


def _mamba(expansion: Expansion, m: Mamba2) -> Iterator[Fields]:
    """Mamba-2 by its recurrence; heads and their groups are shared by ranks."""
    hidden, conv, base = expansion.model.hidden, m.width + 2 * m.groups * m.state, "layers.0.mixer"
    yield expansion.product("in_proj", f"{base}.in_proj", m.width + conv + m.heads, hidden, bias=m.bias, split="n")
    yield _conv(expansion, conv, m.conv, bias=m.conv_bias)
    yield from _recurrence(expansion, m.width * m.state, 2 * conv, 2 * m.width, 3 * m.heads)
    yield expansion.norm("gated_norm", "tokens", expansion.over(m.width))
    yield expansion.product("out_proj", f"{base}.out_proj", hidden, m.width, bias=m.bias, split="k")


def _conv(expansion: Expansion, channels: int, taps: int, *, bias: bool = False) -> Fields:
    """A short causal convolution of each channel, which keeps its last inputs when decoding."""
    over = expansion.over
    kept = {"cache": f"2 * batch * {over(channels * (taps - 1))} B"} if expansion.decoding and taps > 1 else {}
    return {
        "id": "conv", "op": "custom", "vector_flop": f"2 * tokens * {over(channels * taps)} FLOP",
        "read": f"2 * tokens * {over(channels)} B", "write": f"2 * tokens * {over(channels)} B",
        "weights": over(channels * (taps + int(bias))), **kept,
    }  # fmt: skip


def _recurrence(expansion: Expansion, state: int, read: int, write: int, weights: int) -> Iterator[Fields]:
    """6 FLOP a token for each number of the fp32 state, which a decoding step reads and writes and a prefill only writes.

    Ranks that share a sequence hand the state on, one after the other.
    """
    over = expansion.over
    kept = {"cache": f"4 * batch * {over(state)} B"} if expansion.decoding else {}
    yield {
        "id": "recurrence", "op": "custom", "tensor_flop": f"6 * tokens * {over(state)} FLOP", "read": f"tokens * {over(read)} B",
        "write": f"4 * batch * {over(state)} + tokens * {over(write)} B", "weights": over(weights), **kept,
    }  # fmt: skip
    if expansion.parallel and not expansion.decoding:
        yield collective("state_on", "send_recv", "cp", f"4 * batch * {over(state)}", why=NEEDED)
