"""Whether a model fits a device, as data: what it needs and of what, what is short, what would fit. Not fitting is an answer, no error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from roofline.models.memory import PARTS
from roofline.models.memory_states import Each, State, model_state
from roofline.numeric import scalar
from roofline.plan.plan import Plan
from roofline.report.memory_changes import changes, largest, scalable
from roofline.report.memory_question import Change, Limit, Question
from roofline.spec.plan import written

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """What `roofline memory` answers: bytes of one rank of the fullest stage. Null where no device was named."""

    schema: int
    kind: str
    model: str
    phase: str
    plan: str
    devices: int
    settings: dict[str, float | str]
    hardware: str | None
    needed_bytes: float
    parts_bytes: dict[str, float]
    stage: int
    stages: int
    microbatches_in_flight: float
    available_bytes: float | None
    fits: bool | None
    shortfall_bytes: float | None
    changes: tuple[Change, ...]
    largest: tuple[Limit, ...]
    notes: tuple[str, ...]

    def _repr_html_(self) -> str:
        """In a notebook."""
        from roofline.report.notebook import memory_html

        return memory_html(self)


def report_of(question: Question, hardware: str | None, available: float | None, settings: dict[str, float | str]) -> MemoryReport:
    """The whole answer; without a device what is needed, and no verdict."""
    found = question.memory()
    needed = scalar(found.needed) + question.reserve_bytes
    fits = None if available is None else needed <= available
    return MemoryReport(
        schema=SCHEMA,
        kind="memory",
        model=question.model.name,
        phase=question.job.phase,
        plan=written(question.plan, question.job.phase),
        devices=int(scalar(question.plan.devices)),
        settings=settings,
        hardware=hardware,
        needed_bytes=needed,
        parts_bytes={**{name: scalar(getattr(found, name)) for name in PARTS}, "reserve": question.reserve_bytes},
        stage=int(scalar(found.stage)),
        stages=int(scalar(question.plan.pp)),
        microbatches_in_flight=scalar(found.in_flight),
        available_bytes=available,
        fits=fits,
        shortfall_bytes=None if available is None else max(0.0, needed - available),
        changes=changes(question, available) if available is not None and not fits else (),
        largest=tuple(largest(question, name, available) for name in scalable(question.job)) if available is not None else (),
        notes=notes_of(question),
    )


def notes_of(question: Question) -> tuple[str, ...]:
    """What is and is not in the numbers."""
    said = [
        "buffers of libraries, fragments and temporary tensors are not counted"
        + ("" if question.reserve_bytes else " (--reserve sets some aside)")
    ]
    if question.job.phase == "train":
        said.append("activations are those that operators keep for their backward passes")
    if question.model.mtp and not question.job.mtp:
        said.append("modules for further tokens (MTP) are left out")
    return tuple(said)


# --------------------------------------------------------------------------- of a number of parameters
def states_report(
    parameters: float,
    plan: Plan,
    each: Each,
    *,
    settings: dict[str, float | str],
    hardware: str | None,
    available: float | None,
    reserve: float,
) -> MemoryReport:
    """The answer for so many parameters and nothing else known: weights, gradients and states of a training step.

    Parameters are taken to lie evenly on tp and pp; a change is a higher ZeRO stage or more replicas to shard over.
    """

    def state(other: Plan) -> State:
        ranks = scalar(other.tp * other.pp)
        return model_state(parameters / ranks, other.cp * other.dp, other.zero, each)

    found = state(plan)
    needed = scalar(found.total) + reserve
    parts = {**dict.fromkeys(PARTS, 0.0), "weights": found.weights, "gradients": found.gradients, "optimizer": found.optimizer}
    fits = None if available is None else needed <= available
    return MemoryReport(
        schema=SCHEMA,
        kind="memory",
        model=f"{parameters:,.0f} parameters",
        phase="train",
        plan=written(plan),
        devices=int(scalar(plan.devices)),
        settings=settings,
        hardware=hardware,
        needed_bytes=needed,
        parts_bytes={**{name: scalar(amount) for name, amount in parts.items()}, "reserve": reserve},
        stage=0,
        stages=int(scalar(plan.pp)),
        microbatches_in_flight=0,
        available_bytes=available,
        fits=fits,
        shortfall_bytes=None if available is None else max(0.0, needed - available),
        changes=_sharded(plan, lambda p: scalar(state(p).total) + reserve, available) if available is not None and not fits else (),
        largest=(),
        notes=(
            "weights, gradients and optimizer states alone: activations, logits and whole layers under zero=2 and 3 depend on the model",
        ),
    )


def _sharded(plan: Plan, needed: Callable[[Plan], float], available: float) -> tuple[Change, ...]:
    """Higher ZeRO stages, then more replicas under the highest, with which it fits."""
    higher = [(f"zero={z}", replace(plan, zero=z)) for z in range(plan.zero + 1, 4) if plan.cp * plan.dp != 1]
    more = [(f"zero=3, dp={scalar(plan.dp) * n:.0f}", replace(plan, zero=3, dp=plan.dp * n)) for n in (2, 4, 8, 16, 32, 64)]
    return tuple(
        Change(said=said, plan=written(p), settings={}, devices=int(scalar(p.devices)), needed_bytes=needed(p))
        for said, p in (*higher, *more)
        if needed(p) <= available
    )
