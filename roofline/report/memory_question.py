"""A question about memory, and the two sorts of answer beside yes and no: a change with which it fits, the most that fits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from roofline.models.description import Model
from roofline.models.memory import Memory, memory
from roofline.models.memory_saved import Kept
from roofline.models.quantised import Quantisation
from roofline.models.shape import case_of
from roofline.numeric import scalar
from roofline.plan.job import Job
from roofline.plan.pipeline import left_open
from roofline.plan.plan import Plan
from roofline.plan.validate import problems
from roofline.spec.vectorised import LANGUAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A model and a job under a plan, which says how many prompts the parts of a prefill in stages have: one, which needs least, where it
    was left open. ``reserve_bytes`` is what the user sets aside for libraries and fragments."""

    model: Model
    how: Quantisation | None
    job: Job
    plan: Plan
    kept: Kept = field(default_factory=Kept)
    reserve_bytes: float = 0

    def __post_init__(self) -> None:
        """The plan is the one that is counted."""
        if left_open(self.plan, self.job):
            object.__setattr__(self, "plan", replace(self.plan, microbatch=1))

    def memory(self) -> Memory:
        """What it needs, without the reserve."""
        return memory(self.model, self.how, self.job, self.plan, LANGUAGE, kept=self.kept)

    def needed_bytes(self) -> float:
        """What it needs, with the reserve."""
        return scalar(self.memory().needed) + self.reserve_bytes

    def obeys(self) -> bool:
        """Whether the plan can be carried out for this model and job."""
        return not any(p.fatal for p in problems(case_of(self.model, self.plan, self.job)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change with which it fits: in words, as plan and settings, on how many devices, and what it needs then."""

    said: str
    plan: str
    settings: dict[str, str]
    devices: int
    needed_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest value of a setting that fits, all else as asked; ``value`` is null where not even the smallest fits."""

    setting: str
    value: int | None
    needed_bytes: float | None
    reason: str | None = None
