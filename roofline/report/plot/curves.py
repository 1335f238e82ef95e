"""The curves of a sweep: bound and estimate along one axis, a curve for each value of the others, and where what binds changes."""

from __future__ import annotations

from roofline.errors import UsageError
from roofline.report.model import Scalar
from roofline.report.plot.frame import SIZE, Axis, Frame, frame
from roofline.report.plot.labels import Spot, Taken, around, placed
from roofline.report.plot.legend import Entry, legend, legend_height
from roofline.report.plot.scale import quantity
from roofline.report.plot.svg import Drawing, shortened
from roofline.report.plot.theme import HUES, limit_class, shape
from roofline.report.sweep import Crossing, Point, SweepReport
from roofline.report.sweep_lines import sentences
from roofline.units import Dimension

MOST_CURVES = 8
COLOURS = tuple(name for name in HUES if name != "none")

Curve = tuple[str, list[tuple[float, Point]]]


def axis_of(report: SweepReport) -> str:
    """The axis that runs to the right: the first of numbers that has several values.

    Raises:
        UsageError: there is none.
    """
    for name, values in report.axes.items():
        if len(values) > 1 and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            return name
    raise UsageError("no axis of the sweep has several numbers, so that there is no curve")


def curves_of(report: SweepReport) -> list[Curve]:
    """By the values of the other axes, the points along the first one in order."""
    name = axis_of(report)
    found: dict[tuple[tuple[str, Scalar], ...], list[tuple[float, Point]]] = {}
    for point in report.points:
        others = tuple((key, value) for key, value in point.params.items() if key != name)
        at = point.params.get(name)
        if isinstance(at, (int, float)):
            found.setdefault(others, []).append((at, point))
    return [(", ".join(f"{k} = {_shown(v)}" for k, v in others), sorted(points, key=lambda p: p[0])) for others, points in found.items()]


def _shown(value: Scalar) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def curves(report: SweepReport, *, width: float = 640.0, theme: str = "auto") -> Drawing:
    """The figure. Dashed lines are bounds, full ones estimates; a hollow mark does not fit.

    Raises:
        UsageError: nothing to draw a curve of.
    """
    name, found = axis_of(report), curves_of(report)
    drawn = found[:MOST_CURVES]
    x = Axis(values=[at for _, points in drawn for at, _ in points], said=name, written=lambda v: f"{v:g}")
    ends = [t for _, points in drawn for _, p in points for t in (p.bound_s, p.estimate_high_s or p.estimate_s) if t]
    if not ends:
        raise UsageError("no point of the sweep takes any time")
    y = Axis(values=ends, said="time of one execution", written=lambda v: quantity(v, Dimension.SECONDS))
    entries = _entries(drawn)
    heading = f"{report.workload} on {', '.join(report.hardware)}"
    f = frame(heading, x, y, width=width, theme=theme, below=legend_height(entries, width, SIZE))
    taken = Taken((f.left, f.top, f.right, f.bottom))
    for i, (_, points) in enumerate(drawn):
        _curve(f, points, COLOURS[i % len(COLOURS)], taken, band=len(drawn) == 1)
    _crossings(f, report, name, taken)
    for said, points in drawn:
        _name(f, said, points, taken)
    legend(f.page, entries, f.page.height - legend_height(entries, width, SIZE) - 2, SIZE)
    f.page.about += list(sentences(report))
    if len(found) > len(drawn):
        f.page.about.append(f"{len(found) - len(drawn)} more curves are not drawn")
    return f.page


def _curve(f: Frame, points: list[tuple[float, Point]], colour: str, taken: Taken, *, band: bool) -> None:
    bounds = [(f.across(at), f.down(p.bound_s)) for at, p in points if p.bound_s > 0]
    estimates = [(f.across(at), f.down(p.estimate_s)) for at, p in points if p.estimate_s]
    edges = [(f.across(at), p.estimate_low_s, p.estimate_high_s) for at, p in points]
    if band and all(low and high for _, low, high in edges):
        around_it = [(x, f.down(high or 1)) for x, _, high in edges] + [(x, f.down(low or 1)) for x, low, _ in reversed(edges)]
        f.page.curve(around_it, f"band l-{colour}")
    for line, style in ((bounds, f"curve dash c-{colour}"), (estimates, f"curve c-{colour}")):
        if len(line) > 1:
            f.page.curve(line, style)
    for at, p in points:
        time = p.estimate_s or p.bound_s
        if time > 0:
            _dot(f, f.across(at), f.down(time), p, taken)


def _dot(f: Frame, x: float, y: float, p: Point, taken: Taken) -> None:
    limit, kind = limit_class(p.limiter), "bound" if p.fits is False else "measured"
    f.page.parts.append(f'<path class="mark k-{kind} l-{limit}" transform="translate({x:.1f} {y:.1f})" d="{shape(limit, 4.5)}"/>')
    taken.take((x - 5, y - 5, x + 5, y + 5))


def _crossings(f: Frame, report: SweepReport, name: str, taken: Taken) -> None:
    """A line where something changes along the axis, once for each place, and what."""
    seen: dict[float, Crossing] = {}
    for c in report.crossings:
        if c.axis == name:
            seen.setdefault(float(c.at if c.at is not None else c.high), c)
    for at, c in sorted(seen.items()):
        x = f.across(at)
        f.page.line(x, f.top, x, f.bottom, "ridge")
        what = "memory" if c.what == "fits" else "whole" if c.what == "limiter" else c.what
        said = f"{at:g} {shortened(what, 14)}: {shortened(c.after, 12)}"
        rows = [f.bottom - 8 - 18 * i for i in range(5)] + [f.top + 14 + 18 * i for i in range(4)]
        spot = placed(said, [Spot(x + side, y, at_) for y in rows for side, at_ in ((4, "start"), (-4, "end"))], taken, SIZE)
        if spot:
            f.page.text(spot.x, spot.y, said, at=spot.at, style="halo quiet")


def _name(f: Frame, said: str, points: list[tuple[float, Point]], taken: Taken) -> None:
    """The curve's own values beside one of its last points."""
    for at, p in reversed(points):
        time = p.estimate_s or p.bound_s
        said_short = shortened(said, 30)
        if not (said and time > 0):
            continue
        spot = placed(said_short, around(f.across(at), f.down(time), 4, SIZE), taken, SIZE)
        if spot:
            f.page.text(spot.x, spot.y, said_short, at=spot.at, style="halo name")
            return


def _entries(drawn: list[Curve]) -> list[Entry]:
    points = [p for _, line in drawn for _, p in line]
    limits = dict.fromkeys(limit_class(p.limiter) for p in points)
    entries = [Entry(limit=limit, kind="measured", said=f"{limit} binds" if limit != "none" else "nothing binds") for limit in limits]
    if any(p.fits is False for p in points):
        entries.append(Entry(limit="none", kind="bound", said="does not fit", sort="round"))
    return [*entries, Entry(limit="none", kind="line", said="full: estimate, dashed: bound", sort="words")]
