"""Small models and jobs for the tests of plans, and costers that cost little."""

from __future__ import annotations

from functools import cache
from typing import Any

from roofline.decide.evaluate import Subject
from roofline.hardware.cluster import Cluster
from roofline.models.description import Attention, Experts, Layer, Mlp, Model
from roofline.plan.job import Job
from roofline.spec.cluster import load_cluster

STATED = {"matrix": 0.6, "memory": 0.85, "link": 0.7}
MIXER = Attention(heads=16, kv_heads=4, head_dim=64, v_head_dim=64, rotary=64)
DENSE = Layer(mixer=MIXER, feed=Mlp(width=4096))
MIXED = Layer(mixer=MIXER, feed=Experts(experts=8, active=2, width=2048))


@cache
def cluster() -> Cluster:
    return load_cluster("dgx-h100")


def model(layers: tuple[Layer, ...] = (DENSE,) * 8, **changes: Any) -> Model:
    return Model(**{"name": "small", "model_type": "llama", "hidden": 1024, "vocab": 32000, "layers": layers, **changes})


def subject(phase: str = "train", layers: tuple[Layer, ...] = (DENSE,) * 8, attention: str = "flash", **sizes: Any) -> Subject:
    job = Job(phase=phase, **{"batch": 64, "seq": 2048, "context": 4096, **sizes})
    return Subject(model=model(layers), how=None, job=job, cluster=cluster(), attention=attention)
