"""The front of a search: plans that no other beats in both time and memory."""

from __future__ import annotations

from itertools import pairwise

from roofline.errors import UsageError
from roofline.report.plot.frame import SIZE, Axis, frame
from roofline.report.plot.labels import Taken, around, placed
from roofline.report.plot.legend import Entry, legend, legend_height
from roofline.report.plot.scale import quantity
from roofline.report.plot.svg import Drawing, clean, shortened
from roofline.report.plot.theme import shape
from roofline.report.search import Ranked, SearchReport
from roofline.report.search_view import answer
from roofline.units import Dimension, format_quantity

LONGEST = 28
MOST_LABELS = 24


def front(found: SearchReport, *, width: float = 640.0, theme: str = "auto") -> Drawing:
    """The figure: plans of the front as full marks on a line, the other best ones hollow.

    Raises:
        UsageError: the search found no plan.
    """
    if not (found.pareto or found.best):
        raise UsageError("the search found no plan that fits, so that there is no front")
    shown = list({r.plan: r for r in (*found.pareto, *found.best)}.values())
    on_front = {r.plan for r in found.pareto}
    x = Axis(values=[r.memory_bytes for r in shown], said="memory of a device", written=lambda v: quantity(v, Dimension.BYTES))
    y = Axis(values=[r.step_s for r in shown], said=f"time of a step ({found.kind})", written=lambda v: quantity(v, Dimension.SECONDS))
    entries = [
        Entry(limit="hbm", kind="measured", said="no plan beats it in both"),
        *([Entry(limit="tensor", kind="bound", said="other best plans")] if len(shown) > len(on_front) else []),
    ]
    heading = f"{found.model} on {' or '.join(map(str, found.devices))} x {found.device}"
    f = frame(heading, x, y, width=width, theme=theme, below=legend_height(entries, width, SIZE))
    line = sorted(found.pareto, key=lambda r: (r.memory_bytes, r.step_s))
    if len(line) > 1:
        f.page.curve(_stairs([(f.across(r.memory_bytes), f.down(r.step_s)) for r in line]), "curve c-hbm")
    taken = Taken((f.left, f.top, f.right, f.bottom))
    for r in shown:
        at, down = f.across(r.memory_bytes), f.down(r.step_s)
        limit, kind = ("hbm", "measured") if r.plan in on_front else ("tensor", "bound")
        where = f'transform="translate({at:.1f} {down:.1f})" d="{shape(limit, 5)}"'
        f.page.parts.append(f'<path class="mark k-{kind} l-{limit}" {where}><title>{clean(_said(r))}</title></path>')
        taken.take((at - 6, down - 6, at + 6, down + 6))
    for r in [*found.best[:1], *line, *found.best[1:]][:MOST_LABELS]:
        said = shortened(r.plan, LONGEST)
        if any(box[4] == said for box in f.page.boxes):
            continue
        spot = placed(said, around(f.across(r.memory_bytes), f.down(r.step_s), 5, SIZE), taken, SIZE)
        if spot:
            f.page.text(spot.x, spot.y, said, at=spot.at, style="halo name")
    legend(f.page, entries, f.page.height - legend_height(entries, width, SIZE) - 2, SIZE)
    f.page.about += [answer(found), *(_said(r) for r in shown[:20])]
    return f.page


def _stairs(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """What is reachable at most with each amount of memory: along a step, then down to the next point."""
    found = points[:1]
    for (_, before), (x, y) in pairwise(points):
        found += [(x, before), (x, y)]
    return found


def _said(r: Ranked) -> str:
    return f"{r.plan}: step {_time(r.step_s)}, {_bytes(r.memory_bytes)} a device"


def _time(value: float) -> str:
    return format_quantity(value, Dimension.SECONDS, digits=3)


def _bytes(value: float) -> str:
    return format_quantity(value, Dimension.BYTES, digits=3)
