"""The largest value of a param with which a workload still fits the device's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roofline.errors import UsageError, did_you_mean
from roofline.hardware.profile import Hardware, si
from roofline.plan.multiples import allowed
from roofline.report.bisection import last_within
from roofline.report.build import analyze
from roofline.report.resident import UNCOUNTED, resident
from roofline.report.sentences import percent, size
from roofline.spec.model_key import plan_of_file
from roofline.spec.sizes import SAME
from roofline.spec.source import Source
from roofline.spec.workload import read_workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Largest:
    """The answer; ``value`` is None where not even ``least`` fits, and ``next_bytes`` is what ``step`` more would need.

    ``least`` and ``step`` are 1, but for sizes that a plan divides: these grow by what it lets them be a multiple of.
    """

    param: str
    value: int | None
    needed_bytes: float
    next_bytes: float
    allowed_bytes: float
    fraction: float
    hardware: str
    least: int = 1
    step: int = 1

    @property
    def override(self) -> str:
        """The param at its largest value, or at its least where none fits, as ``--set`` takes it."""
        return f"{self.param}={self.value or self.least}"

    def sentence(self) -> str:
        """The answer in words."""
        room = f"{percent(self.fraction)} of {self.hardware}'s memory ({size(self.allowed_bytes)})"
        if self.value is None:
            return f"No {self.param} fits {room}: {self.param} = {self.least} needs {size(self.next_bytes)}."
        return (
            f"Largest {self.param} that fits {room}: {self.value}, which needs {size(self.needed_bytes)}; "
            f"{self.value + self.step} would be {size(self.next_bytes - self.allowed_bytes)} over."
        )


def largest(source: Source, overrides: Sequence[str], hardware: Hardware, param: str, fraction: float) -> Largest:
    """The largest value of ``param`` whose memory stays within ``fraction`` of the device's: whole, and one that a model's plan allows.

    Takes for granted that more of the param never needs less memory.

    Raises:
        UsageError: no such param, a fraction outside (0, 1], a device without a memory size, a param on which memory does
            not depend, or a training step, whose rows do not hold all that it needs.
    """
    capacity = si(hardware.levels["hbm"].size)
    if not 0 < fraction <= 1:
        raise UsageError(f"--memory-fraction {fraction:g} is out of range: above 0 and at most 1")
    if capacity is None:
        raise UsageError(f"{hardware.name} states no size of its memory")
    asked = read_workload(source, overrides)
    if resident((step, step.ops()) for step in asked.steps).training:
        raise UsageError(f"--largest {param}: {UNCOUNTED}, which names the largest that fits")
    params = asked.params
    if param not in params:
        raise UsageError(f"--largest: the workload has no param '{param}'; {did_you_mean(param, list(params))}")

    before, step = _steps(source, overrides, param)

    def needed(count: int) -> float:
        value = before + count * step
        workload = read_workload(source, [*overrides, f"{param}={value}"])
        return analyze(workload, None).totals.memory.needed_bytes

    found = last_within(needed, capacity * fraction)
    if found is None:
        raise UsageError(f"--largest {param}: the memory needed does not grow with it")
    return Largest(
        param=param,
        value=before + found * step if found else None,
        needed_bytes=needed(found) if found else 0,
        next_bytes=needed(found + 1),
        allowed_bytes=capacity * fraction,
        fraction=fraction,
        hardware=hardware.name,
        least=before + step,
        step=step,
    )


def _steps(source: Source, overrides: Sequence[str], param: str) -> tuple[int, int]:
    """The value below the least, and from one allowed value to the next: those of any whole number, unless a plan divides the param.

    Raises:
        UsageError: a microbatch, which must divide the prompts of a replica, so that it cannot just grow.
    """
    case = plan_of_file(source, overrides)
    if case is None:
        return 0, 1
    if param == "microbatch":
        raise UsageError("--largest microbatch: it divides the prompts of a replica, which stay as they are; ask for batch")
    return allowed(case, next((size for size, (names, _) in SAME.items() if param in names), param))
