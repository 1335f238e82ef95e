"""A workload at every point of a grid, through arrays.

Discrete axes (text, settings, how often a step runs) are walked; for each of their combinations all numeric axes are evaluated at once,
as arrays that broadcast. The corners are evaluated a second time through the report of a single point: an operator whose form depends
on a dimension (a group of one head, a filter that fits on chip) cannot be an array, and where the two differ each point is evaluated
on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from roofline.decide.swept_bound import SweptBound, bounds, memory_size
from roofline.decide.swept_estimate import LIMITERS, SweptEstimate, estimates
from roofline.errors import UsageError, did_you_mean
from roofline.hardware.profile import Hardware
from roofline.numeric import anywhere
from roofline.report.build import analyze
from roofline.report.model import Report
from roofline.report.resident import UNCOUNTED
from roofline.spec.axes import Axis, Value, spelt
from roofline.spec.expression import ExpressionError, evaluate
from roofline.spec.formula import Formula
from roofline.spec.hardware import load_hardware
from roofline.spec.source import Source, read_source
from roofline.spec.swept import discrete, swept
from roofline.spec.workload import read_workload
from roofline.workload.packed import fed
from roofline.workload.workload import Workload

CLOSE = 1e-9
"""Relative difference below which the arrays and the report of a point agree: sums are in another order."""
MOST_ALONE = 5_000
"""Points that are evaluated one by one where arrays cannot serve."""
MOST_CORNERS = 64
CHUNK = 2**16
"""Points that are evaluated at once."""
FIGURES = (
    "bound_s",
    "step_bound_s",
    "estimate_s",
    "estimate_low_s",
    "estimate_high_s",
    "intensity",
    "memory_bytes",
    "memory_size",
    "fits",
    "tokens",
)
WORDS = ("limiter", "step_limiter", "estimate_limiter")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is swept: the workload's text, what stays, the axes, the device, a step and the tokens of a run.

    The device is ``hardware``, else the workload's, else ``otherwise``.
    """

    source: Source
    overrides: tuple[str, ...]
    axes: tuple[Axis, ...]
    hardware: str | None = None
    otherwise: str | None = None
    step: str | None = None
    tokens: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Columns of figures (not a number where there is none) and of words (numbers of ``names``, -1 for none), one entry a point."""

    figures: Mapping[str, Any]
    words: Mapping[str, Any]
    names: Mapping[str, tuple[str, ...]]
    unavailable: Mapping[str, str]
    alone: bool


def sweep(asked: Asked) -> Grid:
    """Every point, the last axis fastest.

    Raises:
        InputError: problems in the workload or in a value, at any point.
        UsageError: no device, no such step, or a form of an operator that only changes between too many points.
    """
    walked = discrete(asked.source, asked.overrides, asked.axes)
    shape = tuple(len(a.values) for a in asked.axes)
    columns = _Columns(shape)
    for fixed in product(*(a.values for a in walked)):
        chosen = dict(zip((a.key for a in walked), fixed, strict=True))
        place = tuple(a.values.index(chosen[a.key]) if a.key in chosen else slice(None) for a in asked.axes)
        free = [a for a in asked.axes if a.key not in chosen]
        columns.put(place, _block(asked, chosen, free))
    return columns.grid()


def words_of(grid: Grid, column: str) -> list[str | None]:
    """A column of words as text."""
    names = (*grid.names[column], None)
    return [names[i] for i in grid.words[column].tolist()]


def first_of(asked: Asked) -> Workload:
    """The workload at the first point.

    Raises:
        InputError: problems in the workload, or in a value.
        UsageError: tokens that cannot be worked out from its params.
    """
    workload = read_workload(asked.source, _all_first(asked))
    if asked.tokens is not None:
        try:
            evaluate(asked.tokens, workload.params)
        except ExpressionError as err:
            raise UsageError(f"--tokens {asked.tokens}: {err}") from None
    return workload


def devices(asked: Asked) -> dict[str, str]:
    """The profiles of all points by name, with their text."""
    names = next((a.values for a in asked.axes if a.key == "hardware"), None) if asked.hardware is None else None
    chosen = [load_hardware(str(n)) for n in names] if names else [device(asked, _all_first(asked))]
    return {h.name: read_source(h.path).text for h in chosen}


def _all_first(asked: Asked) -> list[str]:
    return [*asked.overrides, *(f"{a.key}={spelt(a.values[0])}" for a in asked.axes)]


def device(asked: Asked, overrides: Sequence[str]) -> Hardware:
    """The device of a point.

    Raises:
        UsageError: nothing names one.
    """
    name = asked.hardware or read_workload(asked.source, overrides).hardware or asked.otherwise
    if name is None:
        raise UsageError("a sweep needs a device: add -H NAME")
    return load_hardware(name)


# --------------------------------------------------------------------------- one combination of the discrete axes
@dataclass(frozen=True, slots=True)
class Block:
    """The figures and words of one combination, arrays over the numeric axes."""

    figures: Mapping[str, Any]
    words: Mapping[str, Any]
    names: Mapping[str, tuple[str, ...]]
    unavailable: Mapping[str, str]
    alone: bool = False


def arrays_of(axes: Sequence[Axis]) -> dict[str, Any]:
    """The values of each axis along a dimension of its own."""
    count = len(axes)
    return {a.key: np.array(a.values, dtype=np.float64).reshape([-1 if i == at else 1 for i in range(count)]) for at, a in enumerate(axes)}


def _block(asked: Asked, chosen: Mapping[str, Value], free: Sequence[Axis]) -> Block:
    overrides = [*asked.overrides, *(f"{key}={spelt(v)}" for key, v in chosen.items())]
    hardware = device(asked, [*overrides, *(f"{a.key}={spelt(a.values[0])}" for a in free)])
    shape = tuple(len(a.values) for a in free)
    found = _in_chunks(asked, overrides, free, shape, hardware)
    if all(_agrees(found, at, shape, _alone(asked, overrides, free, at, hardware)) for at in _corners(shape)):
        return found
    points = int(np.prod(shape))
    if points > MOST_ALONE:
        raise UsageError(
            f"an operator takes another form at some of the {points:,} points, which are then evaluated one by one; at most "
            f"{MOST_ALONE:,} are: give fewer values"
        )
    return _each(asked, overrides, free, shape, hardware)


def _in_chunks(asked: Asked, overrides: Sequence[str], free: Sequence[Axis], shape: tuple[int, ...], hardware: Hardware) -> Block:
    """All points, as many at once as the processor's cache holds arrays of: several times faster than all of a large grid together."""
    points = int(np.prod(shape))
    if points <= CHUNK:
        return evaluated(asked, overrides, arrays_of(free), hardware)
    rows = max(1, CHUNK * shape[0] // points)
    columns = _Columns(shape)
    for at in range(0, shape[0], rows):
        part = [Axis(free[0].key, free[0].values[at : at + rows]), *free[1:]]
        columns.put(slice(at, at + rows), evaluated(asked, overrides, arrays_of(part), hardware))
    return columns.block(shape)


def evaluated(asked: Asked, overrides: Sequence[str], arrays: Mapping[str, Any], hardware: Hardware, *, estimated: bool = True) -> Block:
    """All points of the arrays, which broadcast against one another; without ``estimated`` the bound alone.

    Raises:
        InputError: a value out of its range.
        UsageError: no such step.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        workload = swept(asked.source, overrides, arrays)
        steps = fed(workload.steps)
        bound = bounds(steps, workload, hardware)
        estimate = estimates(bound.steps, workload.execution, hardware) if estimated else "not asked for"
        return _as_block(asked, bound, estimate, hardware, _tokens(asked, workload.params))


def _as_block(asked: Asked, bound: SweptBound, estimate: SweptEstimate | str, hardware: Hardware, tokens: Any) -> Block:
    step = _followed(asked, bound)
    size = memory_size(hardware)
    fits = bound.memory.verdict(size)
    figures = {
        "bound_s": bound.time_s,
        "step_bound_s": step.time_s * step.step.repeat if step else np.nan,
        "intensity": bound.intensity,
        "memory_bytes": bound.memory.needed,
        "memory_size": np.nan if size is None else size,
        "fits": fits,
        "tokens": tokens,
        **{
            f"estimate{end}_s": np.nan if isinstance(estimate, str) else getattr(estimate, f"{end.lstrip('_') or 'time'}_s") for end in ENDS
        },
    }
    words = {
        "limiter": bound.limiter,
        "step_limiter": step.limiter if step else -1,
        "estimate_limiter": -1 if isinstance(estimate, str) else estimate.limiter,
    }
    names = {"limiter": bound.resources, "step_limiter": bound.resources, "estimate_limiter": LIMITERS}
    why = {"estimate": estimate} if isinstance(estimate, str) else {}
    if size is not None and anywhere(fits != fits):  # not a number
        why["fits"] = UNCOUNTED
    return Block(figures, words, names, why)


ENDS = ("", "_low", "_high")


def _followed(asked: Asked, bound: SweptBound) -> Any:
    if asked.step is None:
        return None
    ids = [s.step.id for s in bound.steps]
    if asked.step not in ids:
        raise UsageError(f"--step: the workload has no step '{asked.step}'; {did_you_mean(asked.step, ids)}")
    return bound.steps[ids.index(asked.step)]


def _tokens(asked: Asked, params: Mapping[str, Any]) -> Any:
    """The tokens of one execution, where it was said; a param of that name may count those of a part of it."""
    return np.nan if asked.tokens is None else Formula(asked.tokens)(params)


# --------------------------------------------------------------------------- single points
def _corners(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The ends of every axis in all combinations, as many as are looked at."""
    for number, at in enumerate(product(*(sorted({0, n - 1}) for n in shape))):
        if number >= MOST_CORNERS:
            return
        yield at


def _alone(asked: Asked, overrides: Sequence[str], free: Sequence[Axis], at: Sequence[int], hardware: Hardware) -> Block:
    """One point through the report of a single workload."""
    own = [f"{a.key}={spelt(a.values[i])}" for a, i in zip(free, at, strict=True)]
    workload = read_workload(asked.source, [*overrides, *own])
    return _of_report(asked, analyze(workload, hardware), _tokens(asked, workload.params))


def _of_report(asked: Asked, report: Report, tokens: Any) -> Block:
    totals = report.totals
    row = report.row(asked.step) if asked.step else None
    bound, estimate = totals.bound, totals.estimate
    assert bound is not None
    size, fits = totals.memory.available_bytes, totals.memory.fits
    intensity = totals.intensity_flop_per_byte["hbm"]
    figures = {
        "bound_s": bound.time_s,
        "step_bound_s": row.bound.time_s * row.repeat if row and row.bound else np.nan,
        "estimate_s": estimate.time_s if estimate else np.nan,
        "estimate_low_s": estimate.low_s if estimate else np.nan,
        "estimate_high_s": estimate.high_s if estimate else np.nan,
        "intensity": np.nan if intensity is None else intensity,
        "memory_bytes": totals.memory.needed_bytes,
        "memory_size": np.nan if size is None else size,
        "fits": np.nan if fits is None else float(fits),
        "tokens": tokens,
    }
    said = {
        "limiter": bound.limiter,
        "step_limiter": row.bound.limiter if row and row.bound else None,
        "estimate_limiter": estimate.limiter if estimate else None,
    }
    names = {column: () if word is None else (word,) for column, word in said.items()}
    return Block(figures, {c: -1 if w is None else 0 for c, w in said.items()}, names, dict(totals.unavailable), True)


def _agrees(found: Block, at: tuple[int, ...], shape: tuple[int, ...], alone: Block) -> bool:
    """Whether the arrays say of that point what its report says."""
    for name in FIGURES:
        one, many = float(alone.figures[name]), float(np.broadcast_to(found.figures[name], shape)[at])
        if not (np.isnan(one) and np.isnan(many)) and not abs(one - many) <= CLOSE * abs(one):
            return False
    return True


def _each(asked: Asked, overrides: Sequence[str], free: Sequence[Axis], shape: tuple[int, ...], hardware: Hardware) -> Block:
    columns = _Columns(shape)
    for at in np.ndindex(*shape):
        columns.put(at, _alone(asked, overrides, free, at, hardware))
    return columns.block(shape)


class _Columns:
    """Arrays that blocks are put into; words of different blocks get the numbers of one list."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.figures = {name: np.full(shape, np.nan) for name in FIGURES}
        self.words = {name: np.full(shape, -1, dtype=np.int64) for name in WORDS}
        self.names: dict[str, list[str]] = {name: [] for name in WORDS}
        self.unavailable: dict[str, str] = {}
        self.alone = False

    def put(self, place: Any, block: Block) -> None:
        """The columns of a block at its place."""
        for name, figures in self.figures.items():
            figures[place] = block.figures[name]
        for name, words in self.words.items():
            known = self.names[name]
            known += [n for n in block.names[name] if n not in known]
            renumbered = np.array([*(known.index(n) for n in block.names[name]), -1])
            words[place] = renumbered[block.words[name]]
        self.unavailable |= block.unavailable
        self.alone |= block.alone

    def block(self, shape: tuple[int, ...]) -> Block:
        """All points in the form of their axes."""
        grid = self.grid()
        figures, words = ({name: v.reshape(shape) for name, v in found.items()} for found in (grid.figures, grid.words))
        return Block(figures, words, grid.names, grid.unavailable, grid.alone)

    def grid(self) -> Grid:
        """All points in one dimension."""
        figures, words = ({name: v.ravel() for name, v in found.items()} for found in (self.figures, self.words))
        return Grid(
            figures=figures,
            words=words,
            names={name: tuple(known) for name, known in self.names.items()},
            unavailable=self.unavailable,
            alone=self.alone,
        )
