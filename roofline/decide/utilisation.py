"""Shares of peaks: MFU and HFU by named rules, MBU, and the batch from which decode is no longer bound by memory.

Model FLOP are what the mathematics needs, three times the forward pass in training. The forward pass multiplies each token with the
weights that it passes (the embedding is looked up, the head multiplied) and counts attention by one of these rules:

- ``causal``: q queries, the last of which meets all k keys, meet k - (q - 1) / 2 in the mean, (s + 1) / 2 in a sequence of s;
- ``full``: all s keys, as PaLM (arXiv 2204.02311, appendix B) and Megatron count: 12 L H d s a token in training;
- ``products``: no attention;
- ``six_nd``: no attention, and 2 FLOP for every parameter a token passes, the looked-up embedding too: 6 N D in training.

HFU counts what is executed: recomputation included, and whatever a kernel computes beyond the mathematics.
"""

from __future__ import annotations

from collections.abc import Callable

from roofline.models.count import all_weights, flop_per_source_token, flop_per_token, parameters
from roofline.models.description import Model
from roofline.models.tower_params import image_flop
from roofline.numeric import Number
from roofline.plan.job import Job

RULES = ("causal", "full", "products", "six_nd")


def model_flop(model: Model, job: Job, rule: str, pieces: Number = 1) -> Number:
    """Model FLOP of a step on all devices together, attention by a rule. ``pieces`` are the prompts that the chunk of a mixed step is of.

    In decode a token meets its whole context under any rule that counts attention, and each guessed token is one more; a ``mixed`` step
    counts each piece of its chunk behind what is cached in front of it. Tokens of a cached prefix are met as keys and computed by nobody.
    Prompts multiply the head with the last token of a sequence, or of a piece, only, except under ``six_nd``.
    """
    weights = list(all_weights(model))
    if rule == "six_nd":
        each = 2 * parameters(model, weights).active
        return each * job.tokens * (3 if job.phase == "train" else 1)
    products = flop_per_token(model, weights, 0).weights
    head = 2 * model.vocab * model.hidden if model.head else 0

    def forward(queries: Number, keys: Number) -> Number:
        """Of so many queries, the last of which meets all keys."""
        seen = keys - (queries - 1) / 2 if model.kind == "decoder" and rule == "causal" else keys
        return queries * (products + (0 if rule == "products" else attention_flop(model, seen, job.source)))

    if job.phase == "decode":
        return forward(1 + job.draft, job.context) * job.batch
    if job.phase == "mixed":
        piece = job.chunk / pieces
        return forward(1, job.context) * job.batch + pieces * (forward(piece, job.cached + piece) - head * (piece - 1))
    beside = job.images * image_flop(model, job, attention=rule != "products") + job.source * flop_per_source_token(weights)
    whole = (forward(job.prompt, job.length) + beside) * job.batch
    return 3 * whole if job.phase == "train" else whole - head * job.batch * (job.prompt - 1)


def attention_flop(model: Model, keys: Number, source: Number = 0) -> Number:
    """Forward FLOP a token of attention over ``keys`` keys and those of a ``source``, of all layers; linear in the keys up to each window.

    Windows are met by linear interpolation at the keys of a query in the mean.
    """
    low, rest = flop_per_token(model, [], int(keys), int(source)).attention, keys - int(keys)
    return low + (rest * (flop_per_token(model, [], int(keys) + 1, int(source)).attention - low) if rest else 0)


def leaves_memory_roof(seconds: Callable[[int], tuple[float, float]], most: int = 2**20) -> int | None:
    """The smallest batch of a replica at which matrix units need as long as memory; None where none up to ``most`` does.

    ``seconds`` gives both for a batch. The cache of each sequence is read for it alone, so that with a long context memory can bind at
    any batch.
    """
    if _compute_bound(seconds, 1):
        return 1
    low, high = 1, 2
    while not _compute_bound(seconds, high):
        low, high = high, high * 2
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _compute_bound(seconds, middle) else (middle, high)
    return high


def _compute_bound(seconds: Callable[[int], tuple[float, float]], batch: int) -> bool:
    matrix, memory = seconds(batch)
    return matrix >= memory
