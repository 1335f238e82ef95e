"""Models with towers, under plans and without: the steps of a rank, what they add up to, what the rank keeps."""

from __future__ import annotations

from typing import Any

from roofline.models.description import Model
from roofline.models.expansion import Expansion
from roofline.models.memory import Memory, memory
from roofline.models.write import workload_text
from roofline.plan.job import Job
from roofline.plan.plan import Plan
from roofline.report.build import analyze
from roofline.spec.cluster import load_cluster
from roofline.spec.model import load_model
from roofline.spec.planned import Carrier, planned_text
from roofline.spec.source import Source
from roofline.spec.vectorised import LANGUAGE
from roofline.spec.workload import read_workload
from tests.models.conftest import CONFIGS

H100 = load_cluster("dgx-h100")
CARRIER = Carrier(cluster=H100)


def published(name: str) -> Model:
    """A published model, its weights not quantised."""
    return load_model(str(CONFIGS / f"{name}.json"))[0]


def expansion(model: Model, phase: str = "prefill", plan: Plan | None = None) -> Expansion:
    """With images where the model sees."""
    return Expansion(model=model, phase=phase, plan=plan, images=model.eyes is not None and phase != "decode")


def steps(model: Model, plan: Plan, given_: dict[str, int], phase: str = "prefill") -> dict[str, Any]:
    """The steps of a rank by id."""
    text = planned_text(expansion(model, phase, plan), given_, CARRIER)
    return {s.id: s for s in read_workload(Source("w.yaml", text)).steps}


def totals(model: Model, given_: dict[str, int], phase: str = "prefill", plan: Plan | None = None) -> Any:
    """Of the file of a phase."""
    own = expansion(model, phase, plan)
    text = workload_text(own, given_) if plan is None else planned_text(own, given_, CARRIER)
    return analyze(read_workload(Source("w.yaml", text)), None).totals


def kept(model: Model, plan: Plan, **job: Any) -> Memory:
    """What a rank keeps."""
    return memory(model, None, Job(**job), plan, LANGUAGE)


def flop(found: dict[str, Any], beginning: str) -> float:
    """Matrix FLOP of the steps whose ids begin so."""
    return float(sum(s.op.counts().tensor * s.repeat for name, s in found.items() if name.startswith(beginning)))
