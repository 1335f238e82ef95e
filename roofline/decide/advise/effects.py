"""What a change is worth: the real analysis of the workload before and after, by bound and by estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from roofline.decide.advise.measured import Measured, carried, relaunched, scaled, summed, whole_s
from roofline.decide.advise.memory import needed_bytes, unknown_fit
from roofline.decide.advise.rewrite import without
from roofline.decide.advise.situation import COUNTERS, Change, Situation
from roofline.errors import RooflineError
from roofline.report.advice import KINDS, Advice, Binds, Gain, Tried
from roofline.report.build import analyze
from roofline.report.model import Report
from roofline.workload.workload import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A situation with its report and, where something was measured, the measured times as they would be."""

    now: Situation
    report: Report
    measured: Measured | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A change evaluated: the state after it, and the gains by kind, those that are missing with the reason."""

    change: Change
    before: State
    after: State
    old: tuple[str, ...]
    new: tuple[str, ...]
    basis: str
    gains: Mapping[str, Gain]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def gain(self) -> Gain:
        """What it is ranked by: of measured times where there are any, else of its basis."""
        return self.gains.get("measured") or self.gains[self.basis]


def state_of(now: Situation, measured: Measured | None = None) -> State:
    """The situation analysed."""
    return State(now=now, report=analyze(now.workload, now.hardware), measured=measured)


def evaluated(change: Change, before: State, basis: str) -> Outcome | Tried:
    """The change against the state before it, or why it has no number."""
    result = change.result
    if result is None:
        return Tried(key=change.key, title=change.title, speedup=None, reason=change.reason)
    wrong = next((f"{s.id}: {said}" for s in result.workload.steps if (said := s.op.check())), None)
    if wrong:
        return Tried(key=change.key, title=change.title, speedup=None, reason=wrong)
    try:
        report = analyze(result.workload, result.hardware)
    except RooflineError as err:
        return Tried(key=change.key, title=change.title, speedup=None, reason=str(err))
    old, new = _touched(before.now.workload.steps, result.workload.steps)
    gains: dict[str, Gain] = {}
    missing: dict[str, str] = {}
    for kind in KINDS:
        gain = _gain(before, result, report, kind, old, new)
        if gain is None:
            missing[kind] = _why(before.report, report, kind)
        else:
            gains[kind] = gain
    used = basis if basis in gains else "bound" if basis == "estimate" and "bound" in gains else None
    if used is None:
        return Tried(key=change.key, title=change.title, speedup=None, reason=missing.get(basis, "it takes no time"))
    measured = _measured(before, result, report, used, old, new)
    if before.measured is not None and measured is None:
        missing["measured"] = "the measured time cannot be carried over: a prediction of a step is missing"
    elif before.measured is not None and measured is not None:
        gains["measured"] = _measured_gain(before.now, result, before.measured, measured, old, new)
    after = State(now=result, report=report, measured=measured)
    return Outcome(change=change, before=before, after=after, old=old, new=new, basis=used, gains=gains, missing=missing)


def _touched(before: tuple[Step, ...], after: tuple[Step, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids of steps whose work differs or that are gone, and of those that are new or differ."""
    was = {s.id: (s.op, s.repeat, s.direction) for s in before}
    now = {s.id: (s.op, s.repeat, s.direction) for s in after}
    return tuple(i for i in was if now.get(i) != was[i]), tuple(i for i in now if was.get(i) != now[i])


def _gain(before: State, result: Situation, report: Report, kind: str, old: tuple[str, ...], new: tuple[str, ...]) -> Gain | None:
    then, now = whole_s(before.report, kind), whole_s(report, kind)
    if not then or not now:
        return None
    work = result.work / before.now.work
    local_before, local_after = (summed(before.report, kind, old), summed(report, kind, new)) if old else (None, None)
    return Gain(
        before_s=then,
        after_s=now,
        speedup=work * then / now,
        local_before_s=local_before,
        local_after_s=local_after,
        local_speedup=work * local_before / local_after if local_before and local_after else None,
        limit_speedup=None,
    )


def limited(found: Outcome) -> dict[str, Gain]:
    """The gains with Amdahl's limit: the whole without the changed steps, on the real critical path, by every kind."""
    before = found.before.now
    same = found.after.now.work == before.work and found.after.now.hardware is before.hardware
    left = without(before.workload.steps, found.old)
    if not (found.old and left and same):
        return dict(found.gains)
    report = analyze(replace(before.workload, steps=left), before.hardware)
    rest = {kind: whole_s(report, kind) for kind in KINDS}
    return {k: replace(g, limit_speedup=g.before_s / t) if (t := rest.get(k)) else g for k, g in found.gains.items()}


def _why(before: Report, after: Report, kind: str) -> str:
    for report in (before, after):
        if whole_s(report, kind) is None:
            return report.totals.unavailable.get(kind, f"there is no {kind}")
    return "it takes no time"


def _measured(before: State, result: Situation, report: Report, kind: str, old: tuple[str, ...], new: tuple[str, ...]) -> Measured | None:
    found = before.measured
    if found is None:
        return None
    if result.hardware is not before.now.hardware:
        return scaled(found, before.report, report, kind)
    if result.workload.execution != before.now.workload.execution:
        return relaunched(found, before.report, report)
    if not found.steps_s or result.work != before.now.work:
        return scaled(found, before.report, report, kind)
    return carried(found, before.report, report, kind, old, new)


def _measured_gain(then: Situation, now: Situation, old: Measured, new: Measured, gone: tuple[str, ...], come: tuple[str, ...]) -> Gain:
    work = now.work / then.work
    local = tuple(sum(m.steps_s.get(s, 0.0) for s in ids) for m, ids in ((old, gone), (new, come)))
    rest = old.whole_s - local[0]
    known = bool(gone) and local[0] > 0
    return Gain(
        before_s=old.whole_s,
        after_s=new.whole_s,
        speedup=work * old.whole_s / new.whole_s,
        local_before_s=local[0] if known else None,
        local_after_s=local[1] if known else None,
        local_speedup=work * local[0] / local[1] if known and local[1] else None,
        limit_speedup=old.whole_s / rest if known and rest > 0 and work == 1 else None,
    )


def binds(state: State, kind: str) -> Binds:
    """What decides the time: by measured times the largest step, else by the kind asked for."""
    report, totals = state.report, state.report.totals
    times = {r.id: summed(report, kind, (r.id,)) or 0.0 for r in report.rows}
    whole = sum(times.values())
    if state.measured and state.measured.steps_s:
        times, whole = dict(state.measured.steps_s), state.measured.whole_s
        rest = 1 - state.measured.covered
        if rest > max(times.values()) / whole:
            return Binds(limiter=None, step=None, share=rest)
    step = max(times, key=lambda i: times[i], default=None)
    if kind == "estimate":
        limiter = totals.estimate.limiter if totals.estimate else None
    else:
        limiter = totals.bound.limiter if totals.bound else None
    return Binds(limiter=limiter, step=step, share=times[step] / whole if step and whole else None)


def _check(found: Outcome) -> tuple[str, ...]:
    """Commands that would show the effect: the change's own, else a trace of the changed run; counters where bytes change."""
    device = found.after.now.hardware.name
    own = found.change.check or (f"roofline ingest trace after.pt.trace.json.gz -H {device}",)
    before, after = (s.report.totals.bytes["hbm"] for s in (found.before, found.after))
    return own if before == after else tuple(dict.fromkeys([*own, f"{COUNTERS} -H {device}"]))


def advice_of(found: Outcome) -> Advice:
    """The outcome as data."""
    change, gains = found.change, limited(found)
    return Advice(
        key=change.key,
        rule=change.rule,
        title=change.title,
        steps=found.old,
        basis=found.basis,
        speedup=found.gain.speedup,
        work=found.after.now.work / found.before.now.work,
        bound=gains.get("bound"),
        estimate=gains.get("estimate"),
        measured=gains.get("measured"),
        memory_delta_bytes=needed_bytes(found.after.report) - needed_bytes(found.before.report),
        fits=found.after.report.totals.memory.fits,
        exactness=change.exactness,
        conditions=change.conditions,
        check=_check(found),
        binds_after=binds(found.after, found.basis),
        unavailable={**found.missing, **unknown_fit(found.after.report)},
    )
