"""The collectives that a plan adds to the steps of a model, each with the axis whose ranks exchange.

Tensor parallelism by Megatron (Shoeybi et al., arXiv 1909.08053): columns of the first product and rows of the second are shared, so
that a sum over ranks stands behind the second, and in the backward pass one before the first. With sequence parallelism (Korthikanti et
al., arXiv 2205.05198) each sum becomes a reduce-scatter and, before the next product, an all-gather; the gathered input is not kept, so
that the gradient of the weights gathers it again.
"""

from __future__ import annotations

from collections.abc import Iterator

from roofline.models.expansion import Expansion, Fields

RANKS = {"data": "cp * dp", "expert_data": "tp * cp * dp / (ep * etp)"}
"""How many ranks a group has that is no axis by itself; see `roofline.plan.plan.groups`."""
NEEDED = "needed"
"""Why an exchange is waited for whatever overlaps: it follows from the step before it, and the step behind it from all of it."""
SUM = 4
"""Bytes of a sum of exponentials, which is kept in fp32."""


def collective(name: str, op: str, axis: str, size: str, **more: str | bool) -> Fields:
    """A collective of ``size`` bytes (as its operator counts them) along an axis; ``more`` are further keys of its step."""
    return {"id": name, "op": op, "size": f"{size} B", "ranks": RANKS.get(axis, axis), "axis": axis, **more}


def _both(expansion: Expansion) -> dict[str, str]:
    return {"pass": "forward+backward"} if expansion.training else {}


def enter(expansion: Expansion, name: str, width: int | None = None, rows: str = "tokens") -> Iterator[Fields]:
    """Before products whose columns are shared: their input on every rank, and in training its gradient summed over ranks."""
    if not expansion.parallel:
        return
    size = f"{expansion.element * (width or expansion.model.hidden)} * {rows}"
    if expansion.sequence_parallel:
        yield collective(f"{name}_gather", "all_gather", "tp", size, **_both(expansion))
        if expansion.training:
            yield collective(f"{name}_regather", "all_gather", "tp", size, when="backward", why="regather")
    elif expansion.training:
        yield collective(f"{name}_gradient_reduce", "all_reduce", "tp", size, when="backward")


def leave(expansion: Expansion, name: str, rows: str = "tokens") -> Iterator[Fields]:
    """Behind a product whose rows are shared: the sum over ranks, of which each keeps its tokens with sequence parallelism."""
    if not expansion.parallel:
        return
    size = f"{expansion.element * expansion.model.hidden} * {rows}"
    if expansion.sequence_parallel:
        yield collective(f"{name}_scatter", "reduce_scatter", "tp", size, **_both(expansion))
    else:
        yield collective(f"{name}_reduce", "all_reduce", "tp", size, when="forward")


def boundary(expansion: Expansion) -> Iterator[Fields]:
    """What a stage of the pipeline sends to the next, and in training the gradient that comes back.

    Each of tp ranks sends its share of the tokens; where ranks hold all of them the others' are gathered behind it (Narayanan et al. 2021,
    arXiv 2104.04473, section 4.1).
    """
    if not expansion.parallel:
        return
    size, more = f"{expansion.element * expansion.model.hidden} * tokens", {**_both(expansion), "part": "boundary"}
    yield collective("to_next_stage", "send_recv", "pp", f"{size} / tp", **more)
    if not expansion.sequence_parallel:
        yield collective("stage_gather", "all_gather", "tp", size, **more)


# --------------------------------------------------------------------------- context parallelism
def context_exchange(expansion: Expansion, heads: int, kv_heads: int, head_dim: int, v_head_dim: int, window: int) -> Iterator[Fields]:
    """Keys and values that a rank needs of the others, before attention over a whole sequence whose tokens cp ranks share.

    A ring passes keys and values on in cp - 1 hops, in the backward pass together with their gradients (Liu et al., arXiv 2310.01889).
    Gathering brings all of them at once (Llama 3, arXiv 2407.21783). Ulysses exchanges tokens for heads (arXiv 2309.14509). Keys of a
    window come from neighbours only, whichever of the first two is chosen: each rank holds two pieces of a sequence.
    """
    plan = expansion.plan
    if plan is None or expansion.phase not in ("train", "prefill"):
        return
    keys = f"{expansion.element} * {expansion.kv_width(kv_heads, head_dim + v_head_dim)}"
    training = expansion.training
    if plan.context_kind == "ulysses":
        wide = f"{expansion.element} * tokens * ({heads * head_dim} / tp + {expansion.kv_width(kv_heads, head_dim + v_head_dim)})"
        yield collective("context_to_heads", "all_to_all", "cp", wide, **_both(expansion))
    elif window:
        size = f"{keys} * batch * min({2 * window}, seq - seq / cp)"
        yield collective("window_exchange", "send_recv", "cp", size, **_both(expansion))
    elif plan.context_kind == "ring":
        hop = {**collective("ring", "send_recv", "cp", f"{keys} * tokens", when="forward"), "repeat": "cp - 1"}
        yield hop
        if training:
            yield {**hop, "id": "ring_backward", "size": f"2 * {keys} * tokens B", "when": "backward"}
    else:
        yield collective("context_gather", "all_gather", "cp", f"{keys} * batch * seq", **_both(expansion))


def context_return(expansion: Expansion, heads: int, v_head_dim: int) -> Iterator[Fields]:
    """Behind attention: heads for tokens again (Ulysses), or the parts of an answer over cached keys that ranks share.

    While decoding each rank has all queries and a share of the keys, so that queries are not sent. Ranks gather the logarithm of each
    part's sum of exponentials, fp32 and one a head; each scales its own part by it, and the parts are added up, as each rank goes on with
    the whole (vLLM's decode context parallelism, cp_lse_ag_out_ar; FlashDecoding combines its splits alike). What follows needs all of it.
    """
    plan = expansion.plan
    if plan is None:
        return
    if expansion.decoding:
        answers = f"tokens * {heads} / tp"
        yield collective("context_sums", "all_gather", "cp", f"{SUM} * {answers} * cp", why=NEEDED)
        yield collective("context_reduce", "all_reduce", "cp", f"{expansion.element * v_head_dim} * {answers}", why=NEEDED)
    elif plan.context_kind == "ulysses" and expansion.phase in ("train", "prefill"):
        size = f"{expansion.element} * tokens * {heads * v_head_dim} / tp"
        yield collective("context_to_tokens", "all_to_all", "cp", size, **_both(expansion))
