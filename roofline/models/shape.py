"""What a plan must divide of a model."""

from __future__ import annotations

import math
from typing import Any

from roofline.hardware.cluster import Cluster
from roofline.models.description import Attention, Experts, LatentAttention, Model
from roofline.models.tower_params import with_towers
from roofline.models.weights import heads_of
from roofline.plan.job import Job
from roofline.plan.plan import Plan
from roofline.plan.validate import Case, Shape


def shape_of(model: Model) -> Shape:
    """Layers, the fewest heads and key heads of any layer (with an encoder what divides the heads of both), experts and their width."""
    mixers = [layer.mixer for layer in model.layers]
    heads = [m.heads for m in mixers if isinstance(m, (Attention, LatentAttention))]
    keys = [m.kv_heads for m in mixers if isinstance(m, Attention)]
    feeds = [layer.feed for layer in model.layers if isinstance(layer.feed, Experts)]
    return Shape(
        layers=len(model.layers),
        heads=math.gcd(*heads, heads_of(model.encoder.model)) if model.encoder else min(heads, default=0),
        kv_heads=min(keys, default=0),
        experts=feeds[0].experts if feeds else 0,
        choices=min((f.experts / f.active for f in feeds), default=0),
        width=feeds[0].width if feeds else 0,
        causal=model.kind == "decoder",
        encoder=model.encoder is not None,
    )


def case_of(model: Model, plan: Plan, job: Job, cluster: Cluster | None = None, devices: int | None = None) -> Case:
    """What the rules of plans are asked about: of a cluster they know its nodes and how many devices it joins."""
    known: dict[str, Any] = {} if cluster is None else {"node_ranks": cluster.node_ranks, "capacity": cluster.capacity}
    return Case(plan=plan, job=with_towers(model, job), shape=shape_of(model), devices=devices, **known)
