"""Which of the evaluated changes are advised, in which order, and the path that they make one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roofline.decide.advise.effects import Outcome, State, binds, evaluated
from roofline.decide.advise.memory import crowded
from roofline.decide.advise.registry import changes
from roofline.decide.advise.situation import EXACTNESS
from roofline.report.advice import PathStep, Tried

MOST_STEPS = 12
BEST_OF = ("padding",)
"""Sorts of changes of which only the best is advised: the others are the same with other numbers."""
LOCAL = ("padding",)
"""Sorts of changes that leave every other step as it was: what they do not gain where they are made they gain nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for: what to rank by, the least gain, and the most that may happen to results."""

    basis: str
    least: float
    allow: str


def judged(state: State, wanted: Wanted) -> tuple[list[Outcome], list[Tried]]:
    """All changes that apply, ranked by what they gain, and those that are not advised with the reason."""
    good: list[Outcome] = []
    tried: list[Tried] = []
    for change in changes(state.now):
        found = evaluated(change, state, wanted.basis)
        why = refusal(found, state, wanted)
        if isinstance(found, Outcome) and why is None:
            good.append(found)
        else:
            tried.append(found if isinstance(found, Tried) else _tried(found, str(why)))
    ranked = _ranked(good, state, wanted.basis)
    for rule in BEST_OF:
        same = [o for o in ranked if o.change.rule == rule]
        ranked = [o for o in ranked if o not in same[1:]]
        tried += [_tried(o, f"{same[0].change.key} gains as much or more") for o in same[1:]]
    return ranked, tried


def _tried(found: Outcome, reason: str) -> Tried:
    return Tried(key=found.change.key, title=found.change.title, speedup=found.gain.speedup, reason=reason)


def refusal(found: Outcome | Tried, state: State, wanted: Wanted) -> str | None:
    """Why an outcome is not advised."""
    if isinstance(found, Tried):
        return found.reason
    if EXACTNESS.index(found.change.exactness) > EXACTNESS.index(wanted.allow):
        return f"{found.change.exactness}: more than --allow {wanted.allow}"
    if rescues(found, state):
        return None
    if crowded(found.after.report) and not crowded(state.report):
        return "it does not fit the device's memory"
    speedup, local = found.gain.speedup, found.gain.local_speedup
    if found.change.rule in LOCAL and local is not None and local <= 1:
        return f"the steps that it changes take no less: {local:.4g}x"
    if speedup < wanted.least:
        return f"it makes it worse: {speedup:.4g}x" if speedup < 1 else f"it gains {speedup:.4g}x, less than --least {wanted.least:g}"
    return None


def rescues(found: Outcome, state: State) -> bool:
    """Whether what is known of the workload's memory fits the device only with the change."""
    return crowded(state.report) and not crowded(found.after.report)


def _ranked(found: Iterable[Outcome], state: State, basis: str) -> list[Outcome]:
    """What makes it fit first; then by gain, those of the basis before those that have a bound alone, since the two cannot be compared."""
    return sorted(found, key=lambda o: (not rescues(o, state), o.basis != basis, -o.gain.speedup))


def path(state: State, wanted: Wanted, ranked: Sequence[Outcome]) -> list[PathStep]:
    """Greedily: the best of the ranked changes, then the best of what applies then, until the next gains less than ``least``."""
    steps: list[PathStep] = []
    total = 1.0
    while len(steps) < MOST_STEPS:
        best = _best(ranked, wanted)
        if best is None:
            break
        total *= best.gain.speedup
        state = best.after
        steps.append(
            PathStep(
                number=len(steps) + 1,
                key=best.change.key,
                title=best.change.title,
                speedup=best.gain.speedup,
                total_speedup=total,
                time_s=best.gain.after_s,
                exactness=best.change.exactness,
                binds_after=binds(state, wanted.basis),
            )
        )
        ranked = judged(state, wanted)[0]
    return steps


def _best(ranked: Sequence[Outcome], wanted: Wanted) -> Outcome | None:
    """The best change that may be a step of a path: it has a time of the kind that the path is in."""
    return next((o for o in ranked if o.change.combines and o.basis == wanted.basis), None)
