"""The steps of a layer's feed-forward: products and activation, or a router and experts, spread over devices where a plan says so."""

from __future__ import annotations

from collections.abc import Iterator

from roofline.dtypes import dtype as find_dtype
from roofline.models.collectives import collective, enter, leave
from roofline.models.description import Experts, Mlp
from roofline.models.expansion import Expansion, Fields
from roofline.plan.routed import Routed


def feed_steps(expansion: Expansion, feed: Mlp | Experts) -> Iterator[Fields]:
    """The steps of any feed-forward; a sum over ranks stands behind experts here, and behind a plain one in its layer."""
    return mlp_steps(expansion, feed) if isinstance(feed, Mlp) else _experts(expansion, feed)


def mlp_steps(expansion: Expansion, m: Mlp, name: str = "", path: str = "mlp") -> Iterator[Fields]:
    """Up and gate in one product, activation, down; ranks share the inner width."""
    hidden = expansion.model.hidden
    up = f"{name}{'gate_up' if m.gated else 'up'}_proj"
    yield expansion.product(up, f"layers.0.{path}.up_proj", (1 + m.gated) * m.width, hidden, bias=m.bias, split="n")
    yield from _activation(m.activation, m.gated, "tokens", expansion.over(m.width), name)
    yield expansion.product(f"{name}down_proj", f"layers.0.{path}.down_proj", hidden, m.width, bias=m.bias, split="k")


def _activation(function: str, gated: bool, rows: str, width: int | str, name: str) -> Iterator[Fields]:
    if gated and function == "silu":
        yield {"id": f"{name}swiglu", "op": "swiglu", "rows": rows, "cols": width}
        return
    elements = f"{rows} * {width}"
    yield {"id": f"{name}activation", "op": "elementwise", "function": function, "elements": elements}
    if gated:
        yield {"id": f"{name}gated", "op": "elementwise", "function": "mul", "elements": elements}


# --------------------------------------------------------------------------- experts
def _experts(expansion: Expansion, e: Experts) -> Iterator[Fields]:
    """Router, experts, the sum of their results, and what every token passes.

    Under a plan each of tp ranks sends its share of the tokens to the ranks that hold their experts, ep ranks with experts / ep each;
    these are matrices whole or shared by etp ranks, which gather tokens before and add up results behind.
    """
    hidden, base, element = expansion.model.hidden, "layers.0.mlp.experts.0", expansion.element
    yield expansion.product("router", "layers.0.mlp.router", e.experts, hidden, rows=expansion.spread, bias=e.router_bias, kept=True)
    yield from _dispatch(expansion, e)
    chosen: Fields = {"op": "grouped_gemm", "tokens": _block(expansion), "experts": e.experts, "active": e.active}
    biased = {"bias": True} if e.bias else {}
    ranks = {"ranks": "ep"} if expansion.parallel else {}
    wide, inner = (1 + e.gated) * e.width, expansion.over(e.width, "etp")
    up = {**biased, **_scaled(expansion, expansion.formats(f"{base}.up_proj", hidden, wide)), **ranks}
    down = {**biased, **_scaled(expansion, expansion.formats(f"{base}.down_proj", e.width, hidden)), **ranks}
    yield {"id": f"experts_{'gate_up' if e.gated else 'up'}", **chosen, "n": expansion.over(wide, "etp"), "k": hidden, **up}
    yield from _activation(e.activation, e.gated, _rows(expansion, e), inner, "experts_")
    yield {"id": "experts_down", **chosen, "n": hidden, "k": inner, **down}
    if expansion.parallel:
        yield from _combine(expansion, e)
    sent_back = "ceil_div(tokens * max(etp * (2 - ep), 1), tp)" if expansion.parallel else "tokens"  # of etp ranks where ep is 1
    yield {"id": "experts_combine", "op": "elementwise", "function": "add", "elements": f"{sent_back} * {hidden}", "inputs": e.active}
    if expansion.parallel and not expansion.sequence_parallel:
        both = {"pass": "forward+backward"} if expansion.training else {}
        yield collective("experts_gather_tokens", "all_gather", "tp", f"{element * hidden} * tokens", **both)
    yield from _shared(expansion, e)


def _block(expansion: Expansion) -> str:
    """Tokens of the devices that hold a set of experts between them; the fullest of these has ``imbalance`` times the mean."""
    return "ceil(imbalance * tokens * etp * ep / tp)" if expansion.parallel else "tokens"


def _rows(expansion: Expansion, e: Experts) -> str:
    """Rows that the experts of a device compute."""
    return f"ceil_div({_block(expansion)} * {e.active}, ep)" if expansion.parallel else f"tokens * {e.active}"


def _dispatch(expansion: Expansion, e: Experts) -> Iterator[Fields]:
    """Each token's hidden state to the ranks of its experts, once to each; then to the ranks that share these experts.

    Figures are those of the fullest rank of experts: it takes in ``imbalance`` times what ranks do in the mean, and sends that much back.
    """
    if not expansion.parallel:
        return
    both = {"pass": "forward+backward"} if expansion.training else {}
    hidden = expansion.model.hidden
    size = find_dtype(expansion.dispatch_dtype or expansion.model.dtype).bytes
    yield collective("dispatch", "all_to_all", "ep", f"{size * hidden} * tokens / tp * {arriving(routed(e))}", **both)
    here = "" if expansion.sequence_parallel else "min(ep - 1, 1) * "  # of a single rank of experts all tp ranks have the tokens
    gathered = f"{expansion.element * hidden} * tokens * etp / tp * {here}{arriving(routed(e))}"
    yield collective("experts_gather", "all_gather", "etp", gathered, **both)


def _combine(expansion: Expansion, e: Experts) -> Iterator[Fields]:
    """The way back of `_dispatch`: what a rank's experts make of a token is added up there and sent once."""
    both = {"pass": "forward+backward"} if expansion.training else {}
    width = expansion.element * expansion.model.hidden
    yield collective("experts_scatter", "reduce_scatter", "etp", f"{width} * tokens * etp / tp * {arriving(routed(e))}", **both)
    yield collective("combine", "all_to_all", "ep", f"{width} * tokens / tp * {arriving(routed(e))}", **both)


def arriving(tokens: Routed) -> str:
    """Rows a token at the ranks of experts, were all as full as the fullest: that takes in each token once at most."""
    return f"min(imbalance * {tokens.text('ep')}, ep)"


def routed(e: Experts) -> Routed:
    """To how many ranks tokens go."""
    return Routed(e.experts, e.active)


def _shared(expansion: Expansion, e: Experts) -> Iterator[Fields]:
    """Experts that every token passes, shared by tp ranks as a plain feed-forward is."""
    if e.shared_width:
        yield from enter(expansion, "shared")
        shared = Mlp(width=e.shared_width, gated=e.gated, activation=e.activation)
        yield from mlp_steps(expansion, shared, "shared_", "mlp.shared_experts")
        yield from leave(expansion, "shared")
    if e.shared_gate:
        rows = expansion.spread
        yield expansion.product("shared_gate", "layers.0.mlp.shared_expert_gate", 1, expansion.model.hidden, rows=rows, kept=True)


def _scaled(expansion: Expansion, formats: Fields) -> Fields:
    """With the size of a scale where it is not 2 bytes."""
    if "group_size" in formats and expansion.how is not None and expansion.how.scale_bytes != 2:
        return {**formats, "scale_bytes": expansion.how.scale_bytes}
    return formats
