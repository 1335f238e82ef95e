"""A sweep for people: sentences of what changes where, a table of the points, and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from math import prod

from roofline.report.columns import Column, number, seconds
from roofline.report.csv_view import cell
from roofline.report.model import Scalar
from roofline.report.sweep import Crossing, Point, SweepReport
from roofline.units import Dimension, format_quantity

MOST_ROWS = 64
"""Rows of a table for people; CSV and JSON have all."""
MOST_EACH = 3
"""Crossings of one sort that are named one by one."""


def sentences(report: SweepReport) -> Iterator[str]:
    """What changes where, then the point with the most tokens a second that fits, then what is missing."""
    groups: dict[tuple[str, str, str, str], list[Crossing]] = {}
    for c in report.crossings:
        groups.setdefault((c.what, c.axis, c.before, c.after), []).append(c)
    for group in groups.values():
        yield from _of_group(report, group)
    if not groups:
        limiters = sorted({p.limiter or "nothing" for p in report.points})
        yield f"Nothing changes between the points: {' and '.join(limiters)} {'binds' if len(limiters) == 1 else 'bind'} everywhere."
    if best := _best(report.points):
        yield best


def _of_group(report: SweepReport, group: Sequence[Crossing]) -> Iterator[str]:
    """One change of several lines of the grid: once where it is at the same value, else one by one, else its range."""
    c = group[0]
    others = {key: len(v) for key, v in report.axes.items() if key != c.axis}
    everywhere = len(group) > 1 and len({(g.at, g.low, g.high) for g in group}) == 1
    if everywhere:
        lines = prod(others.values())
        whatever = f"whatever {' and '.join(others)} {'is' if len(others) == 1 else 'are'}"
        scope = whatever if len(group) == lines else f"in {len(group)} of {lines} lines of the grid"
        yield f"{_says(c)} {_where(c)}, {scope}."
    elif len(group) <= MOST_EACH:
        for one in group:
            yield f"{_says(one)} {_where(one)}{_given(one)}."
    else:
        first, last = (f(group, key=lambda g: g.low if g.at is None else g.at) for f in (min, max))
        yield f"{_says(c)} in {len(group)} lines of the grid, first {_where(first)}{_given(first)}, last {_where(last)}{_given(last)}."


def _says(c: Crossing) -> str:
    if c.what == "fits":
        lost = "It does not fit" if c.before == "unknown" else "It no longer fits"
        return {"fits": "It fits", "unknown": "It may fit"}.get(c.after, lost)
    who = "The whole" if c.what == "limiter" else f"Step {c.what}"
    return f"{who} leaves {c.before} for {c.after}"


def _where(c: Crossing) -> str:
    """From which value on; what is between two points where no value is known."""
    return f"between {c.axis} = {number(c.low)} and {number(c.high)}" if c.at is None else f"from {c.axis} = {c.at} on"


def _given(c: Crossing) -> str:
    said = ", ".join(f"{key} = {_shown(v)}" for key, v in c.params.items())
    return f" ({said})" if said else ""


def _shown(value: Scalar) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _best(points: Sequence[Point]) -> str | None:
    """The point that fits with the most tokens a second, by estimate where there is one, else by bound."""
    estimated = any(p.tokens_per_s for p in points)

    def rate(p: Point) -> float:
        return (p.tokens_per_s if estimated else p.bound_tokens_per_s) or 0.0

    fitting = [p for p in points if p.fits is not False and rate(p)]
    if not fitting:
        return None
    best = max(fitting, key=rate)
    at = ", ".join(f"{key} = {_shown(v)}" for key, v in best.params.items())
    said = "may fit" if best.fits is None else "fit"
    return f"Most tokens a second of the points that {said}: {number(rate(best))} at {at} ({'estimate' if estimated else 'bound'})."


def columns(report: SweepReport, ascii_: bool = False) -> list[Column]:
    """The table of the points, as many as are shown."""
    points = report.points[:MOST_ROWS]

    def column(heading: str, of: Callable[[Point], str], *, right: bool = True, priority: int = 0) -> Column:
        return Column(heading, tuple(of(p) for p in points), right, priority)

    found = [column(key, lambda p, key=key: _shown(p.params[key])) for key in report.axes]  # type: ignore[misc]
    found += [column("bound", lambda p: seconds(p.bound_s, ascii_)), column("binds", lambda p: p.limiter or "nothing", right=False)]
    if report.step is not None:
        found.append(column(report.step, lambda p: seconds(p.step_bound_s, ascii_), priority=3))
        found.append(column("step binds", lambda p: p.step_limiter or "nothing", right=False, priority=3))
    if any(p.estimate_s for p in points):
        found.append(column("estimate", lambda p: seconds(p.estimate_s, ascii_)))
        found.append(column("band", _band, priority=4))
        found.append(column("limits", lambda p: p.estimate_limiter or "-", right=False, priority=4))
    found.append(column("FLOP/B", lambda p: number(p.intensity_flop_per_byte), priority=2))
    found.append(column("memory", lambda p: format_quantity(p.memory_bytes, Dimension.BYTES), priority=1))
    found.append(column("fits", lambda p: {True: "yes", False: "NO", None: "-"}[p.fits], right=False))
    if any(p.tokens for p in points):
        found.append(column("tokens/s", lambda p: number(p.tokens_per_s or p.bound_tokens_per_s)))
    return found


def _band(p: Point) -> str:
    if p.estimate_s is None or p.estimate_low_s is None or p.estimate_high_s is None:
        return "-"
    low, high = (round((end / p.estimate_s - 1) * 100) for end in (p.estimate_low_s, p.estimate_high_s))
    return f"-{-low}/+{high} %"


CSV_FIGURES = tuple(f for f in Point.__dataclass_fields__ if f != "params")


def to_csv(report: SweepReport) -> str:
    """A heading and a line for each point, SI units, full precision."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*map(cell, report.axes), *CSV_FIGURES])
    for p in report.points:
        writer.writerow([*(cell(v) for v in p.params.values()), *(cell(getattr(p, f)) for f in CSV_FIGURES)])
    return stream.getvalue()
