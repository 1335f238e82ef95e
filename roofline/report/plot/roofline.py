"""The hierarchical roofline: all roofs of the profile, and each step as bound (hollow), estimate (half) and measured (full)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from roofline.errors import UsageError
from roofline.report.model import Report
from roofline.report.plot.frame import name_ticks
from roofline.report.plot.labels import Spot, Taken, around, placed
from roofline.report.plot.legend import Entry, legend, legend_height
from roofline.report.plot.marks import Mark, Marks, marks_of
from roofline.report.plot.roofs import Roof, Roofs, roofs_of
from roofline.report.plot.scale import Place, log_scale, log_ticks, tick_label
from roofline.report.plot.svg import Drawing, classed, clean, shortened, text_box
from roofline.report.plot.theme import HUES, KINDS, limit_class, shape, style_sheet
from roofline.report.sentences import percent
from roofline.report.text import title
from roofline.units import Dimension, format_quantity

SIZE = 14.0
LONGEST = 22
"""Letters of a label; the name in full is what a mark says of itself."""
MOST_LABELS = 40
LEFT, RIGHT, TOP, BOTTOM = 62.0, 16.0, 34.0, 46.0
SMALLEST, LARGEST = 3.6, 13.0
"""Radius of a mark without a share, and with all of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The two axes: the values at their ends, and where values lie."""

    x: tuple[float, float]
    y: tuple[float, float]
    across: Place
    down: Place
    left: float
    right: float
    top: float
    bottom: float


Ends = tuple[float, float]


def view_ends(marks: Sequence[Mark], roofs: Roofs) -> tuple[Ends, Ends]:
    """Ends of both axes: they hold all marks, the ridge of HBM and the fastest engine, with room for labels."""
    xs = [m.intensity for m in marks] + [m.at_limit for m in marks if m.at_limit]
    ys = [m.flop_per_s for m in marks] + [r.rate for r in roofs.compute]
    ridges = [ridge for memory in roofs.memory[:1] if (ridge := roofs.ridge(memory))]
    xs += [end for ridge in ridges for end in (ridge / 3, ridge * 4)]
    return (min(xs) / 2.5, max(xs) * 2.5), (min(ys) / 3, max(ys) * 4)


def view_of(marks: Sequence[Mark], roofs: Roofs, width: float, height: float) -> View:
    """The axes on a page of that size."""
    x, y = view_ends(marks, roofs)
    left, right, top, bottom = LEFT, width - RIGHT, TOP, height - BOTTOM
    return View(
        x=x,
        y=y,
        across=log_scale(*x, left, right),
        down=log_scale(*y, bottom, top),
        left=left,
        right=right,
        top=top,
        bottom=bottom,
    )


def roofline(
    report: Report, base: Report | None = None, *, width: float = 640.0, theme: str = "auto", interactive: bool = False
) -> Drawing:
    """The figure. ``base`` is an earlier report, whose steps are drawn dashed where they stood elsewhere.

    ``interactive`` leaves out what the page says itself, and lets its marks be reached one by one.

    Raises:
        UsageError: a report without a device, or one with nothing to draw.
    """
    roofs, found = roofs_of(report), marks_of(report)
    if not found.marks:
        reasons = ", ".join(f"{name}: {why}" for name, why in list(found.left_out.items())[:3])
        raise UsageError(f"no step has a place on a roofline ({reasons or 'the report has no rows'})")
    before = moved(found, marks_of(base)) if base else {}
    entries = [] if interactive else _entries(found, bool(before))
    area = max(300.0, round(width * 0.66))
    height = area + legend_height(entries, width, SIZE)
    page = Drawing(title(report), height, width=width, style=style_sheet(theme, SIZE), size=SIZE, paper=not interactive)
    page.theme, page.role = ("" if theme == "auto" else theme), "group" if interactive else "img"
    view = view_of([*found.marks, *before.values()], roofs, width, area)
    if not interactive:
        page.text(LEFT, 20, shortened(page.title, int((width - LEFT - RIGHT) / SIZE / 0.6)), style="head")
    _axes(page, view, interactive)
    taken = Taken((view.left, view.top, view.right, view.bottom))
    for mark in found.marks:
        x, y, r = _place(mark, view)
        taken.take((x - r, y - r, x + r, y + r))
    page.parts.append(_clip(view))
    page.parts.append('<g class="roofs" clip-path="url(#area)">')
    _roof_lines(page, view, roofs)
    page.parts.append("</g>")
    _roof_labels(page, view, roofs, taken)
    _draw_marks(page, view, found.marks, before, interactive)
    without = _mark_labels(page, view, found.marks, taken)
    legend(page, entries, area + 4, SIZE)
    page.about += [*_words(roofs, found), *([f"{without} labels had no room"] if without else [])]
    return page


def _clip(view: View) -> str:
    wide, tall = view.right - view.left, view.bottom - view.top
    return f'<clipPath id="area"><rect x="{view.left:.1f}" y="{view.top:.1f}" width="{wide:.1f}" height="{tall:.1f}"/></clipPath>'


# --------------------------------------------------------------------------- axes and roofs
def _axes(page: Drawing, view: View, interactive: bool) -> None:
    ticks = log_ticks(*view.x, most=5 if page.width < 500 else 8)
    for value in ticks:
        more = f' data-t="{tick_label(value)}"' if interactive else ""
        page.line(view.across(value), view.top, view.across(value), view.bottom, "grid gx", more=more)
    name_ticks(page, [(view.across(v), tick_label(v)) for v in ticks], view.bottom + 20, "quiet tx")
    for value in log_ticks(*view.y):
        y = view.down(value)
        page.line(view.left, y, view.right, y, "grid gy")
        page.text(view.left - 6, y + 5, _rate_label(value), at="end", style="quiet ty")
    page.line(view.left, view.bottom, view.right, view.bottom, "axis")
    page.line(view.left, view.top, view.left, view.bottom, "axis")
    page.text((view.left + view.right) / 2, view.bottom + 40, "FLOP per byte of HBM", at="middle", style="quiet")
    page.text(4, 20, "FLOP/s", style="quiet")


def _rate_label(value: float) -> str:
    """``10 T`` for 10**13; a power of ten where there is no prefix."""
    if not 1 <= value < 1e21:
        return tick_label(value)
    return format_quantity(value, Dimension.FLOP_PER_S, digits=1).removesuffix("FLOP/s").strip()


def _roof_lines(page: Drawing, view: View, roofs: Roofs) -> None:
    """Memory levels up to the fastest engine, engines from the fastest level on, and the ridge of HBM."""
    low, high = view.x[0], view.x[1]
    top = roofs.compute[0].rate if roofs.compute else view.y[1]
    for roof in roofs.memory:
        start, end = max(low, view.y[0] / roof.rate), min(high, top / roof.rate)
        if start < end:
            more = f' data-roof="{roof.name}"'
            ends = (view.across(start), view.down(start * roof.rate), view.across(end), view.down(end * roof.rate))
            page.line(*ends, f"roof l-{limit_class(roof.name)}", more=more)
    fastest = max((r.rate for r in roofs.memory), default=None)
    for roof in roofs.compute:
        start = max(low, roof.rate / fastest) if fastest else low
        y = view.down(roof.rate)
        if start < high:
            page.line(view.across(start), y, view.right, y, f"roof l-{_engine(roof)}", more=f' data-roof="{roof.name}"')
    for memory in roofs.memory[:1]:
        ridge = roofs.ridge(memory)
        if ridge and low < ridge < high:
            page.line(view.across(ridge), view.down(top), view.across(ridge), view.bottom, "ridge", more=' data-roof="ridge"')


def _engine(roof: Roof) -> str:
    return "tensor" if roof.name.startswith("tensor") else "vector"


def _roof_labels(page: Drawing, view: View, roofs: Roofs, taken: Taken) -> None:
    for roof in roofs.compute:
        y = view.down(roof.rate)
        spots = [Spot(view.right - 4 - back, y + off, "end") for back in range(0, 400, 40) for off in (-6, 17)]
        _roof_label(page, roof.said, roof.name, spots, taken)
    for roof in roofs.memory:
        _roof_label(page, roof.said, roof.name, list(_along(view, roof, roofs)), taken)
    for memory in roofs.memory[:1]:
        ridge = roofs.ridge(memory)
        if ridge and view.left < view.across(ridge) < view.right:
            x = view.across(ridge)
            spots = [Spot(x + 5, view.bottom - 8 - up, "start") for up in (0, 20, 40)]
            spots += [Spot(x - 5, view.bottom - 8 - up, "end") for up in (0, 20, 40)]
            _roof_label(page, f"ridge {ridge:.3g}", "ridge", spots, taken)


def _roof_label(page: Drawing, said: str, name: str, spots: list[Spot], taken: Taken) -> None:
    """A roof's name in its colour; ``name`` is one of ours."""
    spot = placed(said, spots, taken, SIZE)
    if spot is not None:
        colour = next((f" t-{known}" for known in HUES if name.startswith(known)), "")
        page.tagged(f'data-roof="{name}"').text(spot.x, spot.y, said, at=spot.at, style=f"halo{colour or ' quiet'}")


def _along(view: View, roof: Roof, roofs: Roofs) -> Iterator[Spot]:
    """Places left of a rising line, from its upper end down, then right of it."""
    top = roofs.compute[0].rate if roofs.compute else view.y[1]
    low = max(view.x[0], view.y[0] / roof.rate)
    high = min(view.x[1], top / roof.rate)
    if not low < high:
        return
    places = [low * (high / low) ** t for t in (0.8, 0.65, 0.9, 0.5, 0.35, 0.2, 0.1)]
    for side, at in ((-7, "end"), (9, "start")):
        for x in places:
            yield Spot(view.across(x) + side, view.down(x * roof.rate) + (0 if side < 0 else 9), at)


# --------------------------------------------------------------------------- marks
def radius(share: float | None) -> float:
    """Radius of a mark: its area grows with the share of the time."""
    return SMALLEST + (LARGEST - SMALLEST) * math.sqrt(min(1.0, max(0.0, share or 0.0)))


def _place(mark: Mark, view: View) -> tuple[float, float, float]:
    return view.across(mark.intensity), view.down(mark.flop_per_s), radius(mark.share)


def described(mark: Mark) -> str:
    """A mark in words."""
    rate = format_quantity(mark.flop_per_s, Dimension.FLOP_PER_S, digits=3)
    share = "" if mark.share is None else f", {percent(mark.share)} of the bound's time"
    return f"{mark.id}, {mark.kind}: {rate} at {mark.intensity:.3g} FLOP/B, {mark.limiter or 'nothing'} binds{share}"


def moved(found: Marks, base: Marks) -> dict[int, Mark]:
    """By row of the head, the mark of the base of the same step and kind, the most believed one, where it stands elsewhere."""
    best = {m.row: m for m in found.marks}
    old = {(m.id, m.kind): m for m in base.marks}
    pairs = {row: old.get((m.id, m.kind)) for row, m in best.items()}
    return {
        row: was
        for row, was in pairs.items()
        if was and not (math.isclose(was.intensity, best[row].intensity) and math.isclose(was.flop_per_s, best[row].flop_per_s))
    }


def _draw_marks(page: Drawing, view: View, marks: Sequence[Mark], before: Mapping[int, Mark], interactive: bool) -> None:
    """Larger marks below smaller ones; the marks of one step joined."""
    page.parts.append('<g class="marks">')
    by_row: dict[int, list[Mark]] = {}
    for mark in marks:
        by_row.setdefault(mark.row, []).append(mark)
    for row in sorted(by_row, key=lambda r: (-(by_row[r][0].share or 0.0), r)):
        group = by_row[row]
        ends = [view.down(m.flop_per_s) for m in group]
        x = view.across(group[0].intensity)
        if len(group) > 1:
            page.line(x, min(ends), x, max(ends), "join", more=f' data-i="{row}"')
        if group[0].at_limit and group[0].kind == "bound":
            inner, y = view.across(group[0].at_limit), view.down(group[0].flop_per_s)
            page.line(x, y, inner, y, "join dash", more=f' data-i="{row}"')
            page.line(inner, y - 5, inner, y + 5, f"join l-{limit_class(group[0].limiter)}", more=f' data-i="{row}"')
        if row in before:
            (x, y, _), (to_x, to_y, _) = _place(before[row], view), _place(group[-1], view)
            page.line(x, y, to_x, to_y, "join", more=f' data-i="{row}"')
            page.parts.append(_mark(replace(before[row], row=row), view, interactive, " base"))
        for mark in group:
            page.parts.append(_mark(mark, view, interactive))
    page.parts.append("</g>")


def _mark(mark: Mark, view: View, interactive: bool, more: str = "") -> str:
    x, y, r = _place(mark, view)
    limit = limit_class(mark.limiter)
    style = classed(f"mark k-{mark.kind} l-{limit}{more}")
    where = f'transform="translate({x:.1f} {y:.1f})" d="{shape(limit, r)}"'
    if interactive:
        return f'<path{style} data-i="{mark.row}" {where}/>'
    return f"<path{style} {where}><title>{clean(described(mark))}</title></path>"


def _mark_labels(page: Drawing, view: View, marks: Sequence[Mark], taken: Taken) -> int:
    """Names beside the fastest believed mark of each step, the largest shares first; how many found no room."""
    best = {m.row: m for m in sorted(marks, key=lambda m: KINDS.index(m.kind))}
    seen: dict[tuple[int, int], list[Mark]] = {}
    for mark in sorted(best.values(), key=lambda m: (-(m.share or 0.0), m.row)):
        x, y, _ = _place(mark, view)
        seen.setdefault((round(x / 3), round(y / 3)), []).append(mark)
    without = 0
    for i, group in enumerate(seen.values()):
        x, y, r = _place(group[0], view)
        said = shortened(group[0].id, LONGEST) + (f" +{len(group) - 1}" if len(group) > 1 else "")
        spot = placed(said, around(x, y, r, SIZE), taken, SIZE) if i < MOST_LABELS else None
        if spot is None:
            without += len(group)
        else:
            data = f'data-i="{group[0].row}"'
            ends = _leader(x, y, r, spot, said)
            if ends:
                page.line(*ends, "join", more=f" {data}")
            page.tagged(data).text(spot.x, spot.y, said, at=spot.at, style="halo name")
    return without


def _leader(x: float, y: float, r: float, spot: Spot, said: str) -> tuple[float, float, float, float] | None:
    """A line from a mark to the nearest point of a label that does not lie beside it."""
    left, top, right, bottom = text_box(spot.x, spot.y, said, spot.at, SIZE)[:4]
    to_x, to_y = min(max(x, left), right), min(max(y, top), bottom)
    away = math.hypot(to_x - x, to_y - y)
    return None if away < r + 9 else (x + (to_x - x) * r / away, y + (to_y - y) * r / away, to_x, to_y)


# --------------------------------------------------------------------------- words
def _entries(found: Marks, compared: bool) -> list[Entry]:
    limits = dict.fromkeys(limit_class(m.limiter) for m in sorted(found.marks, key=lambda m: -(m.share or 0.0)))
    names = {"none": "nothing binds", "link": "a link binds"}
    entries = [Entry(limit=limit, kind="measured", said=names.get(limit, f"{limit} binds")) for limit in limits]
    kinds = [kind for kind in KINDS if any(m.kind == kind for m in found.marks)]
    entries += [Entry(limit="none", kind=kind, said=kind, sort="round") for kind in kinds]
    return entries + ([Entry(limit="none", kind="bound base", said="before", sort="round")] if compared else [])


def _words(roofs: Roofs, found: Marks) -> list[str]:
    """What the figure shows, for those who do not see it."""
    lines = ["roofs: " + ", ".join(r.said for r in (*roofs.memory, *roofs.compute))]
    lines += [f"no roof for {name}: {why}" for name, why in roofs.missing.items()]
    lines += [described(m) for m in sorted(found.marks, key=lambda m: (-(m.share or 0.0), m.row))[:30]]
    if found.left_out:
        lines.append("not drawn: " + ", ".join(f"{name} ({why})" for name, why in found.left_out.items()))
    return lines
