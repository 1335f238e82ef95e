"""More sequences at a time, as far as it pays or memory lasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from roofline.decide.advise.fused import grown
from roofline.decide.advise.memory import crowded
from roofline.decide.advise.situation import EXACT, OTHER_MODEL, Change, Situation
from roofline.report.build import analyze
from roofline.report.model import Report

LEAST_OF_A_DOUBLING = 1.1
"""Below this gain in throughput a doubled batch only makes each step longer."""
MOST_DOUBLINGS = 12


def larger_batch(now: Situation) -> Iterator[Change]:
    """The largest doubling of the batch that still raises throughput by a tenth, and fits."""
    if now.batch is None:
        yield Change(
            key="batch", rule="batch", title="a larger batch", exactness=EXACT, result=None, reason=now.without_batch, combines=False
        )
        return
    found, factor, why = None, 1, ""
    before = _time(analyze(now.workload, now.hardware))
    for _ in range(MOST_DOUBLINGS):
        tried = of_batch(now, 2 * factor)
        report = analyze(tried.workload, tried.hardware)
        if crowded(report):
            why = f"at {now.batch.size * 2 * factor} memory ends"
            break
        after = _time(report)
        if before is None or after is None or 2 * before / after < LEAST_OF_A_DOUBLING:
            gain = "" if before is None or after is None else f", at {2 * before / after:.3g}x"
            why = f"doubling it once more gains less than a tenth{gain}"
            break
        found, factor, before = tried, 2 * factor, after
    if found is None or found.batch is None:
        reason = f"{why} (batch {now.batch.size})"
        yield Change(key="batch", rule="batch", title="a larger batch", exactness=EXACT, result=None, reason=reason, combines=False)
        return
    latency = "the optimiser sees a larger batch" if now.training else "each step takes longer: latency is paid for throughput"
    yield Change(
        key=f"batch-{found.batch.size}",
        rule="batch",
        title=f"{found.batch.param} {now.batch.size} -> {found.batch.size}",
        exactness=OTHER_MODEL if now.training else EXACT,
        result=found,
        conditions=(latency, *((why,) if why else ())),
        check=tuple(c for c in (now.command(found),) if c),
    )


def of_batch(now: Situation, factor: int) -> Situation:
    """The situation with so many times the sequences."""
    assert now.batch is not None
    size = now.batch.size * factor
    steps = tuple(replace(s, op=grown(s.id, s.op, now.batch.fields, factor), measured_s=None) for s in now.workload.steps)
    own = f"{now.batch.param}="
    settings = None if now.settings is None else (*(w for w in now.settings if not w.startswith(own)), f"{own}{size}")
    workload = replace(now.workload, steps=steps, params={**now.workload.params, now.batch.param: size})
    return replace(now, workload=workload, settings=settings, work=now.work * factor, batch=replace(now.batch, size=size))


def _time(report: Report) -> float | None:
    """The estimate, or the bound where there is none."""
    totals = report.totals
    return totals.estimate.time_s if totals.estimate else totals.bound.time_s if totals.bound else None
