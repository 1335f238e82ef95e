"""Where what binds changes between neighbouring points of a sweep, to the whole number.

Along each numeric axis the neighbours that differ in their limiter (of the whole, and of the step that is followed) or in whether they
fit are taken together, and their intervals halved together through the same formulas as the points. Between two neighbours more than
one change may lie: the first is found, then those after it. Only changes that leave a trace at the points are looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from roofline.decide.sweep import Asked, Block, Grid, device, evaluated
from roofline.errors import InputError
from roofline.report.sweep import Crossing
from roofline.spec.axes import Axis, Value, spelt
from roofline.spec.swept import discrete

MOST = 10_000
"""Changes of one thing along one axis that are looked for."""
FEW = 64
"""Changes that are solved one by one where together they cannot be: between the points of one lies a value that is refused."""
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Change:
    """Two neighbours along an axis that differ in ``what``, what is the case at each, and the values of the other axes."""

    what: str
    low: Value
    high: Value
    before: str
    after: str
    params: Mapping[str, Value]


Labels: TypeAlias = Callable[[Any, Sequence[Change]], Any]
"""What is the case at these values of the axis, the other axes and what is asked for as in the changes."""


def crossings(asked: Asked, grid: Grid) -> tuple[Crossing, ...]:
    """All changes, by axis in the order given, then by what changes, then in the order of the points."""
    walked = {a.key for a in discrete(asked.source, asked.overrides, asked.axes)}
    shape = tuple(len(a.values) for a in asked.axes)
    found: list[Crossing] = []
    for number, axis in enumerate(asked.axes):
        exact = not (axis.key in walked or grid.alone) and all(isinstance(v, int) for v in axis.values)
        followed = ("limiter", *([asked.step] if asked.step else []), "fits") if axis.numeric else ()
        changes = [c for what in followed for c in _changes(asked.axes, number, what, _labels(grid, what).reshape(shape))]
        mine: list[Crossing] = []
        for fixed, members in _by_walked(changes, walked):
            solved = _together(members, _evaluator(asked, axis, fixed)) if exact else [_unsolved(c) for c in members]
            mine += [replace(c, axis=axis.key) for c in solved]
        found += sorted(mine, key=lambda c: followed.index(c.what))
    return tuple(found)


def _changes(axes: Sequence[Axis], number: int, what: str, labels: Any) -> list[Change]:
    """The neighbours along an axis that differ."""
    axis, others = axes[number], [a for i, a in enumerate(axes) if i != number]
    lines = np.moveaxis(labels, number, -1)
    found = []
    for *place, i in np.argwhere(lines[..., 1:] != lines[..., :-1])[:MOST].tolist():
        line = lines[tuple(place)]
        params = {a.key: a.values[at] for a, at in zip(others, place, strict=True)}
        found.append(Change(what, axis.values[i], axis.values[i + 1], str(line[i]), str(line[i + 1]), params))
    return found


def _by_walked(changes: Sequence[Change], walked: set[str]) -> Iterator[tuple[dict[str, Value], list[Change]]]:
    """The changes by the values of the discrete axes, which no array can hold."""
    groups: dict[tuple[tuple[str, Value], ...], list[Change]] = {}
    for change in changes:
        groups.setdefault(tuple((k, v) for k, v in change.params.items() if k in walked), []).append(change)
    for key, members in groups.items():
        yield dict(key), members


def _labels(found: Grid | Block, what: str) -> Any:
    """What is the case at each point, in words."""
    if what == "fits":
        fits = found.figures["fits"]
        return np.where(np.isnan(fits), "unknown", np.where(fits > 0, "fits", "does not fit"))
    column = "limiter" if what == "limiter" else "step_limiter"
    return np.array([*found.names[column], NOTHING])[found.words[column]]


def _evaluator(asked: Asked, axis: Axis, fixed: Mapping[str, Value]) -> Labels:
    """`Labels` through the operators and the bound, as the points were found."""
    overrides = [*asked.overrides, *(f"{key}={spelt(v)}" for key, v in fixed.items())]
    free = [a.key for a in asked.axes if a.key not in fixed and a.key != axis.key]
    hardware = device(asked, [*overrides, *(f"{a.key}={spelt(a.values[0])}" for a in asked.axes if a.key not in fixed)])

    def labels(values: Any, changes: Sequence[Change]) -> Any:
        arrays = {key: np.array([c.params[key] for c in changes], dtype=np.float64) for key in free}
        block = evaluated(asked, overrides, {axis.key: values, **arrays}, hardware, estimated=False)
        said = {what: np.broadcast_to(_labels(block, what), values.shape) for what in {c.what for c in changes}}
        return np.array([said[c.what][i] for i, c in enumerate(changes)])

    return labels


def _together(changes: Sequence[Change], labels: Labels) -> list[Crossing]:
    """The crossings of all changes; of those between whose points a value is refused the interval alone."""
    try:
        return _solved(changes, labels)
    except InputError:
        if len(changes) == 1 or len(changes) > FEW:
            return [_unsolved(c) for c in changes]
        return [found for c in changes for found in _together([c], labels)]


def _solved(changes: Sequence[Change], labels: Labels) -> list[Crossing]:
    found: list[list[Crossing]] = [[] for _ in changes]
    left = list(enumerate(changes))
    while left:
        members = [c for _, c in left]
        at = _first_other(members, labels)
        words = labels(at, members)
        after = []
        for (i, change), value, word in zip(left, at.tolist(), words.tolist(), strict=True):
            found[i].append(replace(_unsolved(change), after=word, at=int(value)))
            if word != change.after and value < float(change.high):
                after.append((i, replace(change, low=int(value), before=word)))
        left = after
    return [crossing for one in found for crossing in one]


def _first_other(changes: Sequence[Change], labels: Labels) -> Any:
    """A value for each at which it is no longer what it was one below, by halving; the first such where there is one change."""
    low = np.array([c.low for c in changes], dtype=np.float64)
    high = np.array([c.high for c in changes], dtype=np.float64)
    before = np.array([c.before for c in changes])
    while (high - low > 1).any():
        middle = np.maximum((low + high) // 2, low)
        same = labels(middle, changes) == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return high


def _unsolved(change: Change) -> Crossing:
    """The crossing of which the interval is known."""
    return Crossing(
        axis="",
        what=change.what,
        before=change.before,
        after=change.after,
        at=None,
        low=float(change.low),
        high=float(change.high),
        params=change.params,
    )
