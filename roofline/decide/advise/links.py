"""Communication: another link, and what runs beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.decide.advise.rewrite import changed, swapped
from roofline.decide.advise.situation import EXACT, Change, Situation
from roofline.hardware.profile import si
from roofline.workload.workload import Step


def faster_links(now: Situation) -> Iterator[Change]:
    """Each link of the profile with more bandwidth than the one in use, for all steps that use that one."""
    used = dict.fromkeys(str(getattr(s.op, "over", "") or "") for s in now.workload.steps)
    for name in (u for u in used if u in now.hardware.links):
        rate = si(now.hardware.links[name].bandwidth)
        for other, link in now.hardware.links.items():
            more = si(link.bandwidth)
            if rate is None or more is None or more <= rate:
                continue
            ops = {s.id: changed(s.op, over=other) for s in now.workload.steps if getattr(s.op, "over", "") == name}
            settings = tuple(f"{i}.over={other}" for i in ops)
            result = now.with_steps(swapped(now.workload.steps, ops), settings)
            yield Change(
                key=f"link-{name}-{other}",
                rule="faster link",
                title=f"{', '.join(ops)} over {other} instead of {name}",
                exactness=EXACT,
                result=result,
                conditions=(f"all ranks reach each other over {other}",),
                check=(f"roofline measure --kernel {next(iter(s.op.name for s in now.workload.steps if s.id in ops))}",),
            )


def overlapped(now: Situation) -> Iterator[Change]:
    """Transfers that run beside the step behind them, which then may not need what they bring."""
    steps = now.workload.steps
    found: list[Step] = []
    moved: list[str] = []
    producer: str | None = None
    for i, step in enumerate(steps):
        on_link = step.op.lane != "compute"
        behind = steps[i + 1] if i + 1 < len(steps) else None
        if on_link and step.after is None and producer and behind is not None and behind.op.lane == "compute" and behind.after is None:
            found.append(replace(step, after=(producer,)))
            moved.append(step.id)
            continue
        if moved and found and found[-1].id == moved[-1] and producer:
            found.append(replace(step, after=(producer,)))  # beside the transfer, not behind it
        else:
            found.append(step)
        producer = step.id if not on_link else producer
    if moved:
        yield Change(
            key="overlap",
            rule="overlap",
            title=f"{', '.join(moved)} beside the step behind",
            exactness=EXACT,
            result=now.with_steps(found),
            conditions=(
                "the step behind does not need the result: gradients, or two halves of a batch that take turns",
                "at best: a transfer takes neither processors nor memory bandwidth from the kernels beside it",
            ),
            check=(f"roofline ingest trace after.pt.trace.json.gz -H {now.hardware.name}",),
        )
