"""Every parameter set that the kernels of measured tables ask for: fitted on three fifths of the rows, judged on the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from roofline.fit.band import bands
from roofline.fit.choose import fittable, general_sets, settled
from roofline.fit.solve import FITTED_TIGHTNESS, Item, Numbers, Values, components, items_of, solve
from roofline.fit.split import divided
from roofline.fit.tables import Row
from roofline.hardware.profile import Hardware
from roofline.numeric import scalar
from roofline.predict.estimate.base import Device, Terms, device_of
from roofline.predict.estimate.estimator import Estimator

RELATIVE = 20
"""Rows that a set of this run was fitted to before it is the belief of its relatives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedSet:
    """A set with its numbers, the rows it was fitted to and held against, and its mean errors on both (fractions)."""

    name: str
    values: Values
    rows: int
    held: int
    error: float
    held_error: float | None
    band: Mapping[str, tuple[float, float]]
    belief: str


@dataclass(slots=True)
class Fitting:
    """What a run fitted, and why it did not fit the rest."""

    sets: list[FittedSet] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)


def fit(rows: Sequence[Row], hardware: Hardware, *, from_prior: bool = False) -> Fitting:
    """Fit what the rows' kernels ask for; ``from_prior`` starts from the profile's own parameters where it has some.

    Raises:
        MissingCapabilityError: scipy is not installed.
        RooflineError: the profile lacks a figure that models need.
    """
    found = Fitting()
    usable = [row for row in rows if row.execution != "eager"]
    if len(usable) < len(rows):
        found.skipped["eager rows"] = f"{len(rows) - len(usable)} rows hold the cost of launching from Python"
    run = _Run(hardware, from_prior, found, *(alone(part, hardware) for part in divided(usable)))
    for component in sorted(components(fittable(run.items)), key=lambda items: -sum(len(i.at) for i in items)):
        run.fit(component, run.held)
    done = {s.name for s in found.sets}
    for name, items in general_sets(run.items, done).items():
        run.fit(items, general_sets(run.held, done).get(name, []))
    found.sets.sort(key=lambda s: s.name)
    return found


def alone(rows: Sequence[Row], hardware: Hardware) -> list[Row]:
    """Rows of calls with what they are about alone: the estimate of what else ran is taken off their times.

    What is left is at least a tenth, so that no row says that the kernel took no time.

    Raises:
        RooflineError: nothing is known of a kernel that ran beside.
    """
    estimators: dict[str, Estimator] = {}
    found = []
    for row in rows:
        others = [op for op in row.more if op.name != row.op.name]
        if others:
            estimator = estimators.setdefault(row.execution, Estimator(hardware, row.execution))
            rest_s = row.time_s - row.lead_s - sum(scalar(estimator.op(op).time_s) for op in others)
            row = replace(row, time_s=max(rest_s, row.time_s / 10), more=tuple(op for op in row.more if op.name == row.op.name))
        found.append(row)
    return found


class _Run:
    """The rows of a run as kernels, those to fit and those held out, and the sets found so far."""

    def __init__(self, hardware: Hardware, from_prior: bool, found: Fitting, chosen: Sequence[Row], others: Sequence[Row]) -> None:
        self.hardware, self.from_prior, self.found = hardware, from_prior, found
        self.device = device_of(hardware)
        self.measured, self.held_measured = (np.array([row.time_s for row in part], dtype=np.float64) for part in (chosen, others))
        missing: dict[str, int] = {}
        items, held = items_of(chosen, missing), items_of(others, missing)
        found.skipped |= {f"kernels of the sort {sort}": f"{n} rows have one, which no model estimates" for sort, n in missing.items()}
        self.items, self.held, skipped = settled(items, held)
        found.skipped |= skipped

    def fit(self, component: Sequence[Item], held: Sequence[Item]) -> None:
        """The sets of one component, judged on the held-out rows that need no other set."""
        names = sorted({a.name for item in component for a in item.asked})
        beliefs = {name: _belief(name, component, self.found.sets, self.hardware, self.from_prior) for name in names}
        tight = {name: FITTED_TIGHTNESS for name, belief in beliefs.items() if belief.fitted}
        values = solve(component, self.measured, self.device, {name: b.start for name, b in beliefs.items()}, tight)
        seen = _Times(component, self.measured, self.device, values)
        unseen = _Times([i for i in held if i.names <= values.keys()], self.held_measured, self.device, values)
        self.found.sets += [_fitted(name, values[name], seen, unseen, beliefs[name].whence) for name in names]


@dataclass(frozen=True, slots=True)
class Belief:
    """What is thought of a set before a fit, whence, and whether it was fitted to measurements of a like device."""

    whence: str
    start: Mapping[str, float]
    fitted: bool = False


def _belief(name: str, items: Iterable[Item], done: Sequence[FittedSet], hardware: Hardware, from_prior: bool) -> Belief:
    """That of the profile, of a relative of this run, or the model's own."""
    others = next(a.others for item in items for a in item.asked if a.name == name)
    if from_prior:
        for wanted in (name, *others):
            for sets in (hardware.fitted, hardware.priors):
                if wanted in sets:
                    return Belief(f"{wanted} of {sets[wanted].device}", sets[wanted].values, fitted=wanted == name)
    relatives = {s.name: s for s in done if s.rows >= RELATIVE}
    near = next((relatives[other] for other in others if other in relatives), None)
    return Belief(near.name, near.values) if near else Belief("the model", {})


class _Times:
    """Predicted over measured time, and regimes, of rows under fitted values."""

    def __init__(self, items: Sequence[Item], measured: Numbers, device: Device, values: Mapping[str, Values]) -> None:
        self.parts: list[tuple[Item, Numbers, dict[str, Any]]] = []
        for item in items:
            terms = [(a, a.model.terms(a.kernel, device, values[a.name])) for a in item.asked]
            time = sum(np.asarray(t.time_s, dtype=np.float64) * a.kernel.calls for a, t in terms)
            ratio = np.broadcast_to(np.asarray(time), item.at.shape) / measured[item.at]
            self.parts.append((item, ratio, {a.name: _regimes(t, len(item.at)) for a, t in terms}))

    def of(self, name: str) -> tuple[Numbers, Any]:
        """The ratios and the set's regimes of all rows in which it occurs."""
        mine = [(ratio, regimes[name]) for _, ratio, regimes in self.parts if name in regimes]
        if not mine:
            return np.empty(0), np.empty(0, dtype=str)
        return np.concatenate([ratio for ratio, _ in mine]), np.concatenate([regime for _, regime in mine])


def _regimes(terms: Terms, count: int) -> Any:
    return np.broadcast_to(np.asarray(terms.regime()), (count,))


def _fitted(name: str, values: Values, seen: _Times, unseen: _Times, belief: str) -> FittedSet:
    ratio, _ = seen.of(name)
    held, regimes = unseen.of(name)
    return FittedSet(
        name=name,
        values=values,
        rows=len(ratio),
        held=len(held),
        error=float(np.abs(ratio - 1).mean()),
        held_error=float(np.abs(held - 1).mean()) if len(held) else None,
        band=bands(-np.log(held), regimes),
        belief=belief,
    )
