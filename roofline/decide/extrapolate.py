"""A large configuration from measured small ones.

The time of a step is fitted as a sum of the terms that the model of a plan has, each with a coefficient of 0 or more (a negative time
means nothing): work that is divided over devices, attention scores, the gradient exchange that each device sends whatever their number,
one hop for each device of a ring, one for each level of a tree, and what is always there. Relative errors are minimised, since a small
configuration counts as much as a large one. Terms that the rows cannot tell apart are left out.

The band is a profile likelihood (as in Bates and Watts, Nonlinear Regression Analysis, 1988, chapter 6): all times that the terms can
reach at the target while they miss the rows by little more than the best fit does, how little by Student's quantile for the rows to
spare; so terms that the rows hardly tell apart, but that part ways at scale, widen it. The scatter of a single measurement is added. It
covers nothing that happens only at scale (another network tier, stragglers): how far beyond the rows the target lies is said beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from roofline.errors import UsageError
from roofline.report.cost import Amount

VARIABLES = ("devices", "batch", "seq")
FEWEST_ROWS = 4
EXACT = 1e-20
"""Mean square of the relative errors below which the rows are met exactly."""
HELD = 1e3
"""How much more than a row a prediction counts that is held where it is wanted."""
HALVINGS = 12
"""Of the interval in which an end of the band lies."""
COVERAGE = 0.9
"""Share of measurements that the band is made for."""
CONDITION = 1e8
"""Condition number of the scaled terms beyond which they cannot be told apart."""

TERMS: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "work": lambda devices, batch, seq: batch * seq / devices,
    "attention": lambda devices, batch, seq: batch * seq * seq / devices,
    "exchange": lambda devices, batch, seq: (devices - 1) / devices,
    "ring_hops": lambda devices, batch, seq: devices - 1.0,
    "tree_levels": lambda devices, batch, seq: np.log2(devices),
    "fixed": lambda devices, batch, seq: np.ones_like(devices * 1.0),
}
"""Terms of a step's time over devices, sequences of all devices (``batch``) and tokens of a sequence (``seq``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured configuration: time of a step in s."""

    devices: float
    batch: float
    seq: float
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Extrapolation:
    """``coefficients`` by term, ``seconds`` of each at the target, relative errors of each row when left out, and the time.

    ``beyond`` is by which factor the target lies outside the rows, by variable; 1 inside.
    """

    coefficients: Mapping[str, float]
    seconds: Mapping[str, float]
    errors: tuple[float, ...]
    beyond: Mapping[str, float]
    time_s: Amount


def extrapolate(rows: Sequence[Row], target: Mapping[str, float]) -> Extrapolation:
    """The time of ``target`` (devices, batch, seq) from the rows.

    Raises:
        UsageError: too few rows, a variable that never varies in them but differs in the target, or times of 0.
    """
    _check(rows, target)
    names = _usable(rows)
    table, times = _table(rows, names), np.array([r.time_s for r in rows])
    at = _table([Row(**target, time_s=1.0)], names)[0]
    found = _fit(table, times)
    seconds = found * at
    left_out = [_fit(np.delete(table, i, axis=0), np.delete(times, i)) for i in range(len(rows))]
    errors = [float(row @ other / took - 1) for row, other, took in zip(table, left_out, times, strict=True)]
    time = float(seconds.sum())
    low, high = _band(table, times, at, found)
    return Extrapolation(
        coefficients=dict(zip(names, found.tolist(), strict=True)),
        seconds=dict(zip(names, seconds.tolist(), strict=True)),
        errors=tuple(errors),
        beyond={v: _beyond([getattr(r, v) for r in rows], target[v]) for v in VARIABLES},
        time_s=Amount(value=time, low=low, high=high),
    )


def _band(table: Any, times: Any, at: Any, found: Any) -> tuple[float, float]:
    """The ends of the band around the best fit."""
    time = float(at @ found)
    spare = len(times) - int((found > 0).sum())
    quantile, best = student_quantile(spare), _misfit(table, times, found)
    scatter = quantile * float(np.sqrt(best / spare)) * time
    allowed = best * (1 + quantile**2 / spare)
    if best < EXACT * len(times):
        return time, time
    down, up = (abs(_end(table, times, at, time, allowed, factor) - time) for factor in (0.5, 2.0))
    return max(0.0, time - float(np.hypot(down, scatter))), time + float(np.hypot(up, scatter))


def _end(table: Any, times: Any, at: Any, time: float, allowed: float, factor: float) -> float:
    """How far the prediction can be moved, down or up, before the terms miss the rows by more than is allowed."""

    def reached(target: float) -> bool:
        held = _fit(np.vstack([table, at * HELD]), np.append(times, target * HELD), weights=np.append(np.ones(len(times)), HELD))
        return _misfit(table, times, held) <= allowed and bool(abs(at @ held - target) <= target * 1e-3)

    near, far = time, time * factor
    while reached(far) and 1e-6 < far / time < 1e6:
        near, far = far, far * factor
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if reached(middle) else (near, middle)
    return near


def _misfit(table: Any, times: Any, found: Any) -> float:
    """Sum of the squares of the relative errors."""
    return float(((table @ found / times - 1) ** 2).sum())


def student_quantile(freedom: int, inside: float = COVERAGE) -> float:
    """Between which Student's t lies with that probability, plus and minus; with t = sqrt(n) tan(a) its density is cos(a)^(n-1).

    >>> round(student_quantile(5), 2)
    2.02
    """
    angles = np.linspace(0.0, np.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return float(np.sqrt(freedom) * np.tan(np.interp(inside, below / below[-1], angles)))


def _check(rows: Sequence[Row], target: Mapping[str, float]) -> None:
    if len(rows) < FEWEST_ROWS:
        raise UsageError(f"{len(rows)} configurations; at least {FEWEST_ROWS} are needed, so that one can be left out")
    for variable in VARIABLES:
        seen = {getattr(r, variable) for r in rows}
        if len(seen) == 1 and target[variable] not in seen:
            only = seen.pop()
            raise UsageError(
                f"every configuration has {variable} = {only:g}: nothing says what {variable} = {target[variable]:g} takes; measure another"
            )


def _usable(rows: Sequence[Row]) -> tuple[str, ...]:
    """Terms that the rows tell apart, in order, never more than leaves a row to spare when one is left out."""
    names: list[str] = []
    for name in TERMS:
        table = _table(rows, (*names, name))
        scaled = table / np.maximum(np.abs(table).max(axis=0), 1e-300)
        if len(names) < len(rows) - 2 and np.abs(table[:, -1]).max() > 0 and np.linalg.cond(scaled) < CONDITION:
            names.append(name)
    return tuple(names)


def _table(rows: Sequence[Row], names: Sequence[str]) -> Any:
    columns = [np.array([getattr(r, v) for r in rows], dtype=np.float64) for v in VARIABLES]
    return np.stack([TERMS[name](*columns) for name in names], axis=1)


def _fit(table: Any, times: Any, weights: Any = None) -> Any:
    """Coefficients of 0 or more with the smallest relative errors.

    The best such point solves the plain problem for the terms that it uses; with six terms all choices are tried.
    """
    wanted = np.ones(len(times)) if weights is None else weights
    weighed = table / times[:, None] * wanted[:, None]
    scale = np.maximum(np.abs(weighed).max(axis=0), 1e-300)
    best, best_error = np.zeros(table.shape[1]), np.inf
    for count in range(1, table.shape[1] + 1):
        for chosen in combinations(range(table.shape[1]), count):
            part = weighed[:, chosen] / scale[list(chosen)]
            found, *_ = np.linalg.lstsq(part, wanted, rcond=None)
            error = float(((part @ found - wanted) ** 2).sum())
            if (found >= 0).all() and error < best_error * (1 - 1e-12):
                best_error = error
                best = np.zeros(table.shape[1])
                best[list(chosen)] = found / scale[list(chosen)]
    return best


def _beyond(seen: Sequence[float], value: float) -> float:
    return max(1.0, value / max(seen), min(seen) / value)
