"""What steps keep from their forward to their backward pass, from the operators' own `saved`, each tensor once.

An operator knows what it keeps and not that its neighbour keeps the same tensor: the output of attention is the input of the product
behind it, and one normalised input feeds several products. Which are one and the same is told here by the ids of the steps.

Dropout keeps a mask of one byte an element behind both parts of a layer and behind the embedding. Materialised attention with dropout
keeps, beside the probabilities and their mask that the operator names, the probabilities that the product with V was given. Without
dropout masks and with all of it this is s b h (34 + 5 a s / h) for a layer of GPT (Korthikanti et al. 2022, arXiv 2205.05198, section 4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from roofline.models.expansion import Fields
from roofline.numeric import Number, total
from roofline.ops.attention import Attention
from roofline.ops.base import Op
from roofline.plan.plan import Plan

Build = Callable[[Fields, Mapping[str, Number]], Op]
"""A step's fields and the values of the names in its expressions to the operator; dimensions may become arrays."""

MIXER_INPUT = ("qkv_proj", "q_proj", "q_a_proj", "kv_a_proj", "in_proj", "in_proj_qkvz", "in_proj_ba")
FEED_INPUT = ("up_proj", "gate_up_proj", "router", "shared_up_proj", "shared_gate_up_proj", "shared_gate")
HEAD_INPUT = ("lm_head", "pooler")
GATHERED = ("mixer input", "feed input", "head input", "q_b_proj", "kv_b_proj")
"""Inputs that sequence parallelism keeps in parts and gathers again when they are needed."""
HELD_ELSEWHERE = {("attention", "o"), ("attention_gate", "y"), ("activation", "y"), ("experts_activation", "y"), ("shared_activation", "y")}
"""Results that the next step keeps as its input."""
SCORES = ("p", "dropout_mask")
RING = "attention_ring"
ATTENTION = ("attention", RING)
DROPPED = ("o_proj", "down_proj", "out_proj", "experts_combine", "embedding")
"""Steps behind whose result dropout stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How attention runs in training, ``flash`` or ``naive`` (scores in memory), and whether the model is trained with dropout."""

    attention: str = "flash"
    dropout: bool = False


@dataclass(frozen=True, slots=True)
class Saved:
    """Bytes of one microbatch: all that steps keep, and the part of it that is as large as the scores."""

    all: Number
    scores: Number

    def kept(self, recompute: str) -> Number:
        """What is kept under ``none`` or ``selective`` recomputation, which computes scores again."""
        return self.all - self.scores if recompute == "selective" else self.all


def base_id(fields: Fields) -> str:
    """A step's id without the prefix of its sort of layer."""
    return str(fields["id"]).rsplit("/", 1)[-1]


def forward_steps(steps: Iterable[Fields]) -> list[Fields]:
    """The steps of the forward pass that compute: no collectives, and nothing that stands for another pass."""
    return [s for s in steps if "axis" not in s and "when" not in s]


def saved_of(steps: Iterable[Fields], build: Build, names: Mapping[str, Number], plan: Plan, kept: Kept) -> Saved:
    """What the forward pass of these steps keeps on one rank."""
    own = forward_steps(steps)
    one_input = not any(base_id(s) == "mlp_norm" for s in own) and any(base_id(s) in MIXER_INPUT for s in own)
    found: dict[tuple[str, str], Number] = {}
    scores: dict[tuple[str, str], Number] = {}
    for step in own:
        name = base_id(step)
        group = _group(name.removesuffix("_lora_a"), one_input)
        for tensor, amount in _tensors(name, build(_dropped(step, name, kept), names), plan, kept):
            key = (group, tensor) if group == name else (group, "")
            gathered = plan.sequence_parallel and group in GATHERED and "/ tp" not in str(step.get("m"))
            (scores if tensor in SCORES else found)[key] = amount / plan.tp if gathered else amount
    # The probabilities that the product with V was given are as large as those before dropout.
    again = [amount for (_, tensor), amount in scores.items() if tensor == "p"] if kept.dropout else []
    square = total((*scores.values(), *again))
    return Saved(total(found.values()) + square, square)


def _dropped(step: Fields, name: str, kept: Kept) -> Fields:
    """Materialised attention with the mask that it keeps, whatever the probability."""
    return {**step, "dropout": 0.5} if kept.dropout and name in ATTENTION and step.get("implementation") == "naive" else step


def _tensors(name: str, op: Op, plan: Plan, kept: Kept) -> Iterator[tuple[str, Number]]:
    """What a step keeps by name, in bytes; a result that the next step keeps as its input is left to that."""
    for tensor in op.saved():
        if name == RING:
            if tensor.name in SCORES:  # keys and values of other ranks come round again, and queries and results are those of "attention"
                yield tensor.name, tensor.bytes * (plan.cp - 1)
        elif isinstance(op, Attention) and tensor.name in ("k", "v"):
            yield tensor.name, tensor.bytes * (op.q_len / op.kv_len)  # of the rank's own tokens, however many it meets
        elif (name, tensor.name) not in HELD_ELSEWHERE:
            yield tensor.name, tensor.bytes
    if kept.dropout and name in DROPPED:
        for result in op.tensors():
            if result.role == "out":
                yield "mask of dropout", result.elements / (plan.tp if plan.sequence_parallel else 1)


def _group(name: str, one_input: bool) -> str:
    """The tensor that several steps have as their input, or the step itself."""
    if name in MIXER_INPUT:
        return "mixer input"
    if name in FEED_INPUT:
        return "mixer input" if one_input else "feed input"
    return "head input" if name in HEAD_INPUT else name
