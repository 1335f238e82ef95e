"""A workload file as the start of advice, with what of it grows with the batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from roofline.decide.advise.measured import Measured
from roofline.decide.advise.situation import Batch, Situation
from roofline.errors import RooflineError
from roofline.hardware.profile import Hardware
from roofline.ops.base import Op
from roofline.spec.workload import load_workload
from roofline.workload.workload import Workload

BATCH = "batch"


def of_workload(
    name: str, overrides: Sequence[str], workload: Workload, hardware: Hardware, others: Sequence[Hardware] = ()
) -> tuple[Situation, Measured | None]:
    """The workload read from ``name`` with those overrides, on a device, and the times that its steps state."""
    batch, why = batch_of(name, overrides, workload)
    now = Situation(
        workload=workload,
        hardware=hardware,
        source="" if name == "-" else name,
        settings=tuple(overrides),
        batch=batch,
        without_batch=why,
        others=tuple(others),
    )
    return now, stated(workload)


def stated(workload: Workload) -> Measured | None:
    """The times that every step states; None where one lacks its own."""
    times = {s.id: s.measured_s * s.repeat for s in workload.steps if s.measured_s}
    return Measured(whole_s=sum(times.values()), steps_s=times) if times and len(times) == len(workload.steps) else None


def batch_of(name: str, overrides: Sequence[str], workload: Workload) -> tuple[Batch | None, str]:
    """The param ``batch``, and the fields that are in proportion to it; None, and why, where the workload has none or more changes."""
    size = workload.params.get(BATCH)
    if not isinstance(size, int) or size < 1:
        return None, f"the workload has no whole-number param '{BATCH}'"
    try:
        twice, thrice = (load_workload(name, [*overrides, f"{BATCH}={k * size}"]) for k in (2, 3))
    except RooflineError as err:
        return None, f"the workload cannot be read with another {BATCH}: {str(err).splitlines()[0]}"
    found: dict[str, tuple[str, ...]] = {}
    for other, factor in ((twice, 2), (thrice, 3)):
        if [(s.id, s.repeat, s.op.name) for s in other.steps] != [(s.id, s.repeat, s.op.name) for s in workload.steps]:
            return None, f"with another {BATCH} the workload has other steps"
        for step, grown in zip(workload.steps, other.steps, strict=True):
            names = _in_proportion(step.op, grown.op, factor)
            if names is None or found.setdefault(step.id, names) != names:
                return None, f"{step.id} does not grow in proportion to {BATCH}"
    if not any(found.values()):
        return None, f"no step grows with {BATCH}"
    return Batch(param=BATCH, size=size, fields=found), ""


def _in_proportion(one: Op, other: Op, factor: int) -> tuple[str, ...] | None:
    """The fields that are ``factor`` times as large; None where one changes otherwise."""
    changed = [f.name for f in fields(one) if getattr(one, f.name) != getattr(other, f.name)]  # type: ignore[arg-type]
    if any(getattr(other, f) != factor * getattr(one, f) for f in changed):
        return None
    return tuple(changed)
