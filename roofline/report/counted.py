"""A step with its work and its bound: what rows and totals are made from."""

from __future__ import annotations

from roofline.hardware.profile import Hardware
from roofline.numeric import scalar
from roofline.ops.base import Op, Work, work_of
from roofline.predict.bound import Bound, bound, machine_of
from roofline.predict.compose import Task
from roofline.records import dataclass
from roofline.workload.workload import Step


@dataclass(frozen=True, slots=True)
class Counted:
    """A step with its work and, on a device, its bound."""

    step: Step
    ops: tuple[Op, ...]
    work: Work
    bound: Bound | None

    @property
    def time_s(self) -> float:
        """All repetitions."""
        return scalar(self.bound.time_s) * self.step.repeat if self.bound else 0.0

    def without(self, resource: str) -> float:
        """All repetitions, were that resource free."""
        return scalar(self.bound.without(resource)) * self.step.repeat if self.bound else 0.0

    def task(self, time_s: float) -> Task:
        """The step as a task of that length."""
        return Task(self.step.id, time_s, self.ops[0].lane, self.step.after)


def count(step: Step, hardware: Hardware | None, traffic: str) -> Counted:
    """The work of one execution of a step, and its bound on the device."""
    machine = machine_of(hardware) if hardware else None
    ops = step.ops()
    works = [work_of(op, machine) for op in ops]
    work = works[0]
    for more in works[1:]:
        work = work + more
    return Counted(step, ops, work, bound(work, hardware, traffic) if hardware else None)
