"""The parameters that explain measured times best, given what was thought of them before.

Minimised over all sets that occur together in a row: soft-L1 of log(predicted / measured) over the noise between collections,
plus ((log p - log start) / spread)^2 for each parameter. Many rows overrule the belief, few rows leave it standing, and single
rows far off (a clock that dropped, a kernel of another kind) pull little. Only scipy's solver knows scipy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.errors import MissingCapabilityError
from roofline.fit.batches import batches
from roofline.fit.tables import Row
from roofline.ops.launched import library_of
from roofline.predict.estimate.base import Device, Model, Parameter
from roofline.predict.estimate.catalog import MODELS, declared

NOISE = 0.06
"""How far independent collections of the same kernels lie apart, in the natural logarithm."""
STEP = 1e-5
"""Of the finite differences, in the logarithm of a parameter."""
MOST_EVALUATIONS = 60
FITTED_TIGHTNESS = 0.3
"""Share of a parameter's own spread that is left to it where it starts from a fit on a like device."""
ANY = "any"
"""A part of a set's name that stands for all words in its place."""

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Asked:
    """A kernel of a batch, its model, the set that is fitted for it, and those that may serve it else."""

    kernel: Any
    model: Model
    name: str
    others: tuple[str, ...]
    library: str

    @property
    def general(self) -> str | None:
        """The nearest set of its own library that stands for several sorts or formats: one with a part ``any``."""
        return next((n for n in self.others if ANY in (parts := n.split(".")) and self.library in parts), None)


@dataclass(frozen=True, slots=True)
class Item:
    """Rows ``at`` these places, each the sum of the same sorts of kernels."""

    at: Numbers
    asked: tuple[Asked, ...]

    @property
    def names(self) -> frozenset[str]:
        """The sets that its kernels ask for."""
        return frozenset(a.name for a in self.asked)


def items_of(rows: Sequence[Row], missing: dict[str, int] | None = None) -> list[Item]:
    """The rows as kernels. Those of which a kernel has no model are left out, and counted in ``missing`` by its sort."""
    found = []
    for batch in batches(rows):
        library = library_of(batch.execution)
        kernels = [k for op in batch.ops for k in op.launched(batch.execution)]
        models = [MODELS.get(type(k).__name__) for k in kernels]
        asked = [_asked(k, m, library) for k, m in zip(kernels, models, strict=True) if m is not None]
        if len(asked) == len(kernels):
            found.append(Item(np.array(batch.at, dtype=np.intp), tuple(asked)))
        elif missing is not None:
            sort = next(type(k).__name__ for k, m in zip(kernels, models, strict=True) if m is None)
            missing[sort] = missing.get(sort, 0) + len(batch.at)
    return found


def _asked(kernel: Any, model: Model, library: str) -> Asked:
    first, *others = model.sets(kernel, library)
    return Asked(kernel, model, first, tuple(others), library)


def components(items: Sequence[Item]) -> list[list[Item]]:
    """The items in groups that share no set, so that each can be fitted alone."""
    groups: list[tuple[set[str], list[Item]]] = []
    for item in items:
        joined = [g for g in groups if g[0] & item.names]
        names = set(item.names).union(*(g[0] for g in joined))
        members = [i for g in joined for i in g[1]] + [item]
        groups = [g for g in groups if not g[0] & item.names] + [(names, members)]
    return [members for _, members in groups]


@dataclass(frozen=True, slots=True)
class Space:
    """A set's parameters as the coordinates of a solver: logarithms where a parameter is above 0, else as they are."""

    name: str
    declared: tuple[Parameter, ...]
    start: Numbers
    low: Numbers
    high: Numbers
    spread: Numbers

    def values(self, x: Numbers) -> Values:
        """The parameters at a point, within their ranges."""
        found = {}
        for p, at in zip(self.declared, x, strict=True):
            found[p.name] = min(max(float(np.exp(at)) if p.low > 0 else float(at), p.low), p.high)
        return found


def space_of(name: str, model: Model, start: Mapping[str, float], tightness: float = 1.0) -> Space:
    """The coordinates of a set; ``start`` replaces the model's own beliefs by name, ``tightness`` multiplies their spread."""
    known = declared(model, name)
    begun = [min(max(start.get(p.name, p.start), p.low), p.high) for p in known]

    def coordinates(values: Sequence[float]) -> Numbers:
        return np.array([np.log(v) if p.low > 0 else v for p, v in zip(known, values, strict=True)], dtype=np.float64)

    # A parameter that may be 0 has no logarithm: its spread is a share of its range.
    spread = [tightness * (p.spread if p.low > 0 else p.spread * (p.high - p.low)) for p in known]
    low, high = (coordinates([getattr(p, end) for p in known]) for end in ("low", "high"))
    return Space(name, known, coordinates(begun), low, high, np.array(spread, dtype=np.float64))


class Objective:
    """Residuals of the rows of one component and of the beliefs, and how they change with each parameter."""

    def __init__(self, items: Sequence[Item], measured: Numbers, spaces: Sequence[Space], device: Device) -> None:
        self.items, self.device = list(items), device
        self.measured = [measured[item.at] for item in items]
        self.spaces = list(spaces)
        self.ends = np.cumsum([0, *(len(s.declared) for s in spaces)])
        self.start, self.spread = (np.concatenate([getattr(s, k) for s in spaces]) for k in ("start", "spread"))
        self.rows = sum(len(m) for m in self.measured)
        self._at: Numbers | None = None
        self._times: list[list[Numbers]] = []

    def values(self, x: Numbers) -> dict[str, Values]:
        """Parameters by set at a point."""
        return {s.name: s.values(x[self.ends[i] : self.ends[i + 1]]) for i, s in enumerate(self.spaces)}

    def _time(self, asked: Asked, values: Mapping[str, float], count: int) -> Numbers:
        time = np.asarray(asked.model.terms(asked.kernel, self.device, values).time_s, dtype=np.float64)
        return np.broadcast_to(time * asked.kernel.calls, (count,))

    def times(self, x: Numbers) -> list[list[Numbers]]:
        """Seconds of each kernel of each item; those of the last point are kept."""
        if self._at is None or not np.array_equal(self._at, x):
            values = self.values(x)
            pairs = zip(self.items, self.measured, strict=True)
            self._times = [[self._time(a, values[a.name], len(m)) for a in item.asked] for item, m in pairs]
            self._at = x.copy()
        return self._times

    def residuals(self, x: Numbers) -> Numbers:
        """Rows first, then beliefs."""
        logs = [np.log(np.sum(times, axis=0) / m) for times, m in zip(self.times(x), self.measured, strict=True)]
        return np.concatenate([*(log / NOISE for log in logs), (x - self.start) / self.spread])

    def jacobian(self, x: Numbers) -> Numbers:
        """By differences; a parameter changes the kernels of its own set alone."""
        base = [list(times) for times in self.times(x)]
        totals = [np.sum(times, axis=0) for times in base]
        found = np.zeros((self.rows + len(x), len(x)))
        found[self.rows :] = np.diag(1 / self.spread)
        for i, space in enumerate(self.spaces):
            for j in range(len(space.declared)):
                moved = x[self.ends[i] : self.ends[i + 1]].copy()
                step = STEP if moved[j] + STEP <= space.high[j] else -STEP
                moved[j] += step
                column = self._changes(space.name, space.values(moved), base, totals)
                found[: self.rows, self.ends[i] + j] = column / (step * NOISE)
        return found

    def _changes(self, name: str, values: Values, base: list[list[Numbers]], totals: list[Numbers]) -> Numbers:
        """What other values of a set change in the logarithm of each row's time."""
        parts = []
        for item, times, whole in zip(self.items, base, totals, strict=True):
            change: Any = 0.0
            for asked, time in zip(item.asked, times, strict=True):
                if asked.name == name:
                    change = change + (self._time(asked, values, len(whole)) - time)
            parts.append(np.broadcast_to(np.log1p(change / whole), whole.shape))
        return np.concatenate(parts)

    def loss(self, z: Numbers) -> Numbers:
        """Soft-L1 for rows, squares for beliefs, with both derivatives, as scipy wants them."""
        rho = np.empty((3, len(z)))
        rows = z[: self.rows]
        rho[0, : self.rows] = 2 * (np.sqrt(1 + rows) - 1)
        rho[1, : self.rows] = 1 / np.sqrt(1 + rows)
        rho[2, : self.rows] = -0.5 * (1 + rows) ** -1.5
        rho[:, self.rows :] = [z[self.rows :], np.ones(len(z) - self.rows), np.zeros(len(z) - self.rows)]
        return rho


def solve(
    items: Sequence[Item],
    measured: Numbers,
    device: Device,
    start: Mapping[str, Mapping[str, float]],
    tightness: Mapping[str, float] | None = None,
) -> dict[str, Values]:
    """Parameters by set, fitted to the rows of one component; ``start`` holds beliefs that replace those of the models.

    ``tightness`` says by set how much of the models' spreads is left to them, 1 where it does not say.

    Raises:
        MissingCapabilityError: scipy is not installed.
    """
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise MissingCapabilityError("fitting needs scipy, which is not installed: pip install 'roofline[fit]'") from None
    models = {a.name: a.model for item in items for a in item.asked}
    left = tightness or {}
    spaces = [space_of(name, models[name], start.get(name, {}), left.get(name, 1.0)) for name in sorted(models)]
    objective = Objective(items, measured, spaces, device)
    low, high = (np.concatenate([getattr(s, end) for s in objective.spaces]) for end in ("low", "high"))
    inner = 1e-9 * (high - low)  # the solver starts strictly within the ranges
    found = least_squares(
        objective.residuals,
        np.clip(objective.start, low + inner, high - inner),
        jac=objective.jacobian,
        bounds=(low, high),
        loss=objective.loss,
        x_scale=objective.spread,
        max_nfev=MOST_EVALUATIONS,
    )
    return objective.values(found.x)
