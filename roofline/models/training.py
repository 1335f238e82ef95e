"""What training adds to the steps of a model: backward passes, adapters, recomputation, and what ranks do with gradients and weights.

Recomputation runs forward steps again in the backward pass: all of a layer (full), or what is large and cheap, the scores of attention
(selective; Korthikanti et al., arXiv 2205.05198). FlashAttention recomputes scores in its own backward pass, so that selective adds
nothing to it. ZeRO (Rajbhandari et al., arXiv 1910.02054): stage 0 adds gradients up on all ranks that share weights, stages 1 and 2 on the
rank that updates them, whose weights are then gathered; stage 3 gathers the weights of each layer for each pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from roofline.dtypes import dtype as find_dtype
from roofline.errors import UsageError, did_you_mean
from roofline.models.collectives import RANKS, collective
from roofline.models.expansion import Expansion, Fields
from roofline.models.memory_states import optimizer_step
from roofline.models.sharded import Shares

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
NO_BACKWARD = ("custom", *COLLECTIVES)
"""Operators whose steps say themselves what runs in which pass."""
TARGETS = ("qkv_proj", "o_proj", "gate_up_proj", "down_proj")
"""Products of a layer that usually get adapters."""


def trained(expansion: Expansion, steps: Iterable[Fields]) -> list[Fields]:
    """Steps with their backward passes; with adapters, frozen ones without gradients of weights."""
    steps = list(steps)
    if any("recurrence" in s["id"] or "index_scores" in s["id"] for s in steps):
        raise UsageError(
            f"no backward pass of the recurrent layers or the indexer of '{expansion.model.model_type}' is known; use prefill or decode"
        )
    both = {"pass": "forward+backward"}
    found = [s if s["op"] in NO_BACKWARD or s.get("function") == "add" else {**s, **both} for s in steps]
    return list(_adapted(expansion, found)) if expansion.lora else found


def again(expansion: Expansion, steps: Iterable[Fields]) -> Iterator[Fields]:
    """Forward steps of a layer that run again in the backward pass."""
    chosen = expansion.plan.recompute if expansion.plan is not None else "none"
    if chosen == "none":
        return
    for step in steps:
        forward = step.get("when", "forward") == "forward" and step.get("why") not in ("weights", "gradients")
        if forward and (chosen == "full" or (step["op"] == "attention" and step.get("implementation") == "naive")):
            tied = {"tied_to": step.get("tied_to", step["id"])} if has_weights(step) else {}
            plain = {k: v for k, v in step.items() if k not in ("pass", "when")}
            yield {**plain, "id": f"{step['id']}_again", **tied, "when": "backward", "why": "recompute"}


def has_weights(step: Fields) -> bool:
    """Whether a step holds parameters."""
    norms = step["op"] in ("rmsnorm", "layernorm")
    return norms or step["op"] in ("gemm", "grouped_gemm", "embedding", "conv2d") or "weights" in step


# --------------------------------------------------------------------------- adapters
def _adapted(expansion: Expansion, steps: list[Fields]) -> Iterator[Fields]:
    """Two thin products beside each target; no gradient of what is frozen, and none at all in front of the first layer."""
    lora = expansion.lora
    assert lora is not None
    for step in steps:
        if step["op"] == "embedding":
            yield {k: v for k, v in step.items() if k != "pass"}
            continue
        yield {**step, "frozen": True} if step["op"] in ("gemm", "grouped_gemm") else step
        if step["id"] in lora.targets:
            yield from _adapter(step, lora.rank)


def _adapter(step: Fields, rank: int) -> Iterator[Fields]:
    """x A B of a low rank, added to the product; A is whole where B is shared by columns, and the other way round."""
    both = {"pass": "forward+backward", "why": "adapter"}
    yield {"id": f"{step['id']}_lora_a", "op": "gemm", "m": step["m"], "n": rank, "k": step["k"], **both}
    yield {"id": f"{step['id']}_lora_b", "op": "gemm", "m": step["m"], "n": step["n"], "k": rank, **both, "accumulate": True}


def check_targets(expansion: Expansion, steps: Iterable[Fields]) -> None:
    """Refuse adapters beside products that are not there.

    Raises:
        UsageError: with the products that are.
    """
    if expansion.lora is None:
        return
    known = list(dict.fromkeys(s["id"] for s in steps if s["op"] == "gemm"))
    for target in expansion.lora.targets:
        if target not in known:
            raise UsageError(f"no product of a layer is called '{target}', which lora_targets names; {did_you_mean(target, known)}")


def adapter_parameters(steps: Iterable[Fields]) -> str:
    """The expression of the parameters of all adapters among these steps."""
    terms = [f"({s['n']}) * ({s['k']})" for s in steps if s.get("why") == "adapter" and s["op"] == "gemm"]
    return " + ".join(terms) or "0"


# --------------------------------------------------------------------------- gradients, weights, optimizer
def updates(expansion: Expansion, shares: Shares) -> Iterator[Fields]:
    """What ranks exchange and update of the parameters of a part: a layer, the embedding, the head."""
    for share, group, name in ((shares.dense, "data", ""), (shares.experts, "expert_data", "experts_")):
        if share != "0":
            yield from _updated(expansion, share, group, name)


def _updated(expansion: Expansion, share: str, group: str, name: str) -> Iterator[Fields]:
    plan = expansion.plan
    assert plan is not None
    weights = f"{expansion.element} * ({share})"
    gradient = find_dtype(expansion.gradient_dtype or expansion.model.dtype).bytes
    gradients = f"{int(gradient)} * ({share})"
    if plan.zero == 3:
        brought: dict[str, Any] = {"why": "weights", "sharded_weights": True}
        yield collective(f"{name}weights_gather", "all_gather", group, weights, when="forward", **brought)
        yield collective(f"{name}weights_gather_backward", "all_gather", group, weights, when="backward", **brought)
        yield collective(f"{name}gradients_scatter", "reduce_scatter", group, gradients, when="backward", why="gradients")
    elif plan.zero:
        yield collective(f"{name}gradients_scatter", "reduce_scatter", group, gradients, when="step", why="gradients")
        yield collective(f"{name}weights_gather", "all_gather", group, weights, when="step", why="weights")
    else:
        yield collective(f"{name}gradients_reduce", "all_reduce", group, gradients, when="step", why="gradients")
    owned = f"ceil_div({share}, {RANKS[group]})" if plan.zero else share
    yield {**optimizer(expansion, f"{name}optimizer", owned), "when": "step", "why": "optimizer"}


def optimizer(expansion: Expansion, name: str, parameters: int | str) -> Fields:
    """The step that updates so many parameters, as the optimizer of the expansion runs."""
    keys = optimizer_step(expansion.optimizer, expansion.model.dtype, expansion.gradient_dtype)
    return {"id": name, "op": keys.pop("op"), "parameters": parameters, **keys}
