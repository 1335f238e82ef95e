"""The report of a search: its plans in words, and why the best beats the next."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from roofline import __version__
from roofline.decide.costs import FOREIGN, Coster, EstimateCoster, matrix_rate
from roofline.decide.evaluate import Subject
from roofline.decide.judge import job_of, product_dtype, rule_of
from roofline.decide.search import Candidate, Found
from roofline.decide.utilisation import model_flop
from roofline.models.positions import BEYOND, beyond
from roofline.numeric import scalar
from roofline.report.columns import seconds
from roofline.report.model import Notice
from roofline.report.plan_view import part_name
from roofline.report.search import SCHEMA, Ranked, SearchReport
from roofline.report.sentences import percent
from roofline.spec.plan import written
from roofline.units import Dimension, format_quantity

SMALL = 0.02
"""Parts of a difference below this share of the largest are not worth a word."""


def report_of(found: Found, subject: Subject, devices: tuple[int, ...], coster: Coster, objective: str) -> SearchReport:
    """What was found, as data."""
    rule = rule_of(subject)
    rate = matrix_rate(subject.cluster.device, product_dtype(subject))
    tokens = scalar(subject.job.tokens)

    @cache
    def flop_of(pieces: int) -> float:
        return scalar(model_flop(subject.model, subject.job, rule, pieces))

    def ranked(one: Candidate) -> Ranked:
        flop = flop_of(int(scalar(one.plan.dp * one.plan.pp)) if subject.job.phase == "mixed" else 1)
        return Ranked(
            plan=written(one.plan, subject.job.phase),
            devices=one.devices,
            step_s=one.step_s,
            tokens_per_s=None if subject.job.draft else tokens / one.step_s,  # nobody says how many guesses are accepted
            mfu=flop / (rate.value * one.device_s) if rate and subject.job.trainable == "full" else None,
            device_s=one.device_s,
            memory_bytes=one.memory_bytes,
            parts_s=dict(one.parts_s),
        )

    two = found.best[:2]
    return SearchReport(
        schema=SCHEMA,
        tool=f"roofline {__version__}",
        model=subject.model.name,
        cluster=subject.cluster.name,
        device=subject.cluster.device.name,
        devices=devices,
        job=job_of(subject),
        objective=objective,
        kind=coster.kind,
        label=coster.label,
        mfu_rule=rule,
        looked_at=found.counted.looked_at,
        feasible=found.counted.feasible,
        infeasible=dict(sorted(found.counted.infeasible.items(), key=lambda item: (-item[1], item[0]))),
        best=tuple(ranked(c) for c in found.best),
        pareto=tuple(ranked(c) for c in found.pareto),
        why=why(*two, objective, subject.job.phase) if len(two) == 2 else None,
        difference_s=difference(*two) if len(two) == 2 else {},
        warnings=(*(Notice(code=BEYOND, message=said) for said in beyond(subject.model, subject.job)), *_warnings(coster)),
    )


def _warnings(coster: Coster) -> tuple[Notice, ...]:
    """What an estimate is short of."""
    if not isinstance(coster, EstimateCoster):
        return ()
    found = [Notice(code="W022", message=FOREIGN)] if coster.prior else []
    return (*found, *(Notice(code="W023", message=said) for said in coster.unknown.values()))


def difference(first: Candidate, second: Candidate) -> dict[str, float]:
    """Seconds by which the second takes longer, by part; negative where it takes less. They add up to the difference of the steps."""
    names = dict.fromkeys((*first.parts_s, *second.parts_s))
    return {name: second.parts_s.get(name, 0.0) - first.parts_s.get(name, 0.0) for name in names}


def why(first: Candidate, second: Candidate, objective: str, phase: str = "train") -> str:
    """Why the first is the better one, in a sentence."""
    other = written(second.plan, phase)
    if objective == "memory":
        less = format_quantity(second.memory_bytes - first.memory_bytes, Dimension.BYTES)
        return f"It needs {less} a device less than {other}, for {_longer(first, second)}."
    by = difference(first, second)
    gains, losses = _worded(by, 1), _worded(by, -1)
    fewer = f"{first.devices:,} devices in place of {second.devices:,}" if first.devices < second.devices else ""
    head = f"It beats {other}"
    if objective == "cost":
        head += f" by {percent(1 - first.device_s / second.device_s)} of device time"
    else:
        head += f" by {percent(1 - first.step_s / second.step_s)}"
    reasons = [f"{', '.join(gains)} less" if gains else "", fewer]
    said = " and ".join(r for r in reasons if r) or "by rounding alone"
    return f"{head}: {said}" + (f", against {', '.join(losses)} more." if losses else ".")


def _longer(first: Candidate, second: Candidate) -> str:
    change = first.step_s / second.step_s - 1
    return f"a step {percent(abs(change))} {'longer' if change > 0 else 'shorter'}"


def _worded(by: Mapping[str, float], sign: int) -> list[str]:
    """The parts that count on one side, largest first."""
    largest = max((abs(s) for s in by.values()), default=0.0)
    side = sorted(((sign * s, name) for name, s in by.items() if sign * s > SMALL * largest), key=lambda pair: (-pair[0], pair[1]))
    return [f"{seconds(s)} {part_name(name).removeprefix('waits: ')}" for s, name in side]
