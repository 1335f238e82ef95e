"""The roofline for a terminal: roofs as dots, a letter for each step, and a table of what the letters are."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

from rich.console import Console

from roofline.errors import visible
from roofline.report.columns import Column, number
from roofline.report.model import Report
from roofline.report.plot.braille import Canvas
from roofline.report.plot.marks import Mark, Marks, marks_of
from roofline.report.plot.roofline import view_ends
from roofline.report.plot.roofs import Roofs, roofs_of
from roofline.report.plot.scale import Place, log_scale, log_ticks, quantity, tick_label
from roofline.report.plot.stages import Stages
from roofline.report.plot.waterfall import bars
from roofline.report.sentences import closing, headline, percent
from roofline.report.text import print_columns, styled, title
from roofline.units import Dimension, format_quantity

WIDEST, NARROWEST = 120, 30
MARGIN = 8
"""Columns of the labels of the rates."""


def print_roofline(report: Report, console: Console) -> None:
    """The sentence that matters, the figure, the roofs and the steps.

    Raises:
        UsageError: the report has no device.
    """
    roofs, found = roofs_of(report), marks_of(report)
    plain = not _braille(console)
    headed = report.totals.headline
    console.print(styled(_ascii((headline(headed) if headed else closing(report))[0], plain)))
    console.print()
    console.print(styled(title(report), "bold"))
    keys = letters(found)
    if found.marks:
        for line in figure(roofs, found, keys, console.width, plain=plain):
            console.print(styled(line), soft_wrap=True)
    console.print(styled("roofs: " + _ascii(", ".join(r.said for r in (*roofs.memory, *roofs.compute)), plain)))
    for name, why in roofs.missing.items():
        console.print(styled(f"no roof for {name}: {why}"))
    console.print()
    print_columns(columns(found, keys, plain), console)
    if found.left_out:
        console.print(styled("not drawn: " + ", ".join(f"{name} ({why})" for name, why in found.left_out.items())))


def _braille(console: Console) -> bool:
    try:
        "\u28ff·⁻⁹µ…".encode(console.encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _ascii(text: str, plain: bool) -> str:
    return text.replace("µ", "u").replace("…", "~") if plain else text


def letters(found: Marks) -> dict[int, str]:
    """A letter for each row that has marks, the largest shares first; a dot for those beyond the alphabet."""
    shares = {m.row: m.share or 0.0 for m in found.marks}
    order = sorted(shares, key=lambda row: (-shares[row], row))
    return {row: ascii_lowercase[i] if i < len(ascii_lowercase) else "." for i, row in enumerate(order)}


def figure(roofs: Roofs, found: Marks, keys: dict[int, str], width: int, *, plain: bool = False) -> list[str]:
    """Lines of text no wider than ``width``: small letters are bounds, capitals the measurement or else the estimate, * several."""
    columns = max(NARROWEST, min(width, WIDEST) - MARGIN - 1)
    rows = max(10, min(22, columns // 4))
    canvas = Canvas(columns, rows, plain)
    (low_x, high_x), (low_y, high_y) = view_ends(found.marks, roofs)
    across, down = log_scale(low_x, high_x, 0, 2 * columns - 1), log_scale(low_y, high_y, 4 * rows - 1, 0)
    _letters(canvas, across, down, found.marks, keys)
    _roofs(canvas, across, down, roofs, (low_x, high_x), (low_y, high_y))
    full = [kind for kind in ("measured", "estimate") if any(m.kind == kind for m in found.marks)]
    body = canvas.lines()
    names = {int(down(v)) // 4: _rate(v, plain) for v in log_ticks(low_y, high_y, 6)}
    lines = [f"{names.get(i, ''):>{MARGIN - 1}} {'|' if plain else '│'}{text}".rstrip() for i, text in enumerate(body)]
    lines.append(" " * MARGIN + ("+" + "-" * columns if plain else "└" + "─" * columns))
    lines.append(_bottom(across, low_x, high_x, columns, plain))
    lines.append(" " * max(0, min(MARGIN + 1, width - 34)) + "x: FLOP per byte of HBM, y: FLOP/s")
    lines.append(" " * max(0, min(MARGIN + 1, width - 34)) + f"a bound{''.join(f', A {kind}' for kind in full[:1])}, * several")
    return lines


def _rate(value: float, plain: bool) -> str:
    if 1 <= value < 1e21:
        return quantity(value, Dimension.FLOP_PER_S, 1).removesuffix("FLOP/s").strip()
    return f"{value:.0e}" if plain else tick_label(value)


def _bottom(across: Place, low: float, high: float, columns: int, plain: bool) -> str:
    line = [" "] * (columns + MARGIN + 1)
    free = 0
    for value in log_ticks(low, high, 6):
        said = f"{value:g}" if plain else tick_label(value)
        start = MARGIN + 1 + int(across(value)) // 2 - len(said) // 2
        if start >= free and start + len(said) <= len(line):
            line[start : start + len(said)] = said
            free = start + len(said) + 1
    return "".join(line).rstrip()


def _letters(canvas: Canvas, across: Place, down: Place, marks: Sequence[Mark], keys: dict[int, str]) -> None:
    """The largest shares first, so that they keep their cell; bounds last."""
    best = {m.row: m for m in marks}
    ordered = sorted(best.values(), key=lambda m: (-(m.share or 0.0), m.row))
    for mark in [*(m for m in ordered if m.kind != "bound"), *(m for m in marks if m.kind == "bound")]:
        key = keys[mark.row]
        canvas.letter(int(across(mark.intensity)) // 2, int(down(mark.flop_per_s)) // 4, key if mark.kind == "bound" else key.upper())


def _roofs(canvas: Canvas, across: Place, down: Place, roofs: Roofs, x: tuple[float, float], y: tuple[float, float]) -> None:
    top = roofs.compute[0].rate if roofs.compute else y[1]
    for roof in roofs.memory:
        start, end = max(x[0], y[0] / roof.rate), min(x[1], top / roof.rate)
        if start < end:
            canvas.line(across(start), down(start * roof.rate), across(end), down(end * roof.rate))
            middle = start * (end / start) ** 0.55
            canvas.text(int(across(middle)) // 2 - len(roof.label) - 1, int(down(middle * roof.rate)) // 4, roof.label)
    fastest = max((r.rate for r in roofs.memory), default=None)
    for roof in roofs.compute:
        start = max(x[0], roof.rate / fastest) if fastest else x[0]
        if start < x[1]:
            canvas.line(across(start), down(roof.rate), across(x[1]), down(roof.rate))
            canvas.text(canvas.columns - len(roof.label) - 1, int(down(roof.rate)) // 4 - 1, roof.label)


def columns(found: Marks, keys: dict[int, str], plain: bool) -> list[Column]:
    """What each letter is: its step, share, limiter, intensity and rates."""
    by_row: dict[int, dict[str, Mark]] = {}
    for mark in found.marks:
        by_row.setdefault(mark.row, {})[mark.kind] = mark
    rows = [(keys[row], by_row[row]) for row in keys]
    firsts = [next(iter(kinds.values())) for _, kinds in rows]

    def rates(kind: str) -> tuple[str, ...]:
        return tuple(_flop(kinds.get(kind), plain) for _, kinds in rows)

    made = [
        Column("", tuple(key for key, _ in rows), right=False),
        Column("step", tuple(visible(m.id) for m in firsts), right=False),
        Column("share", tuple("-" if m.share is None else percent(m.share) for m in firsts), priority=2),
        Column("binds", tuple(m.limiter or "nothing" for m in firsts), right=False, priority=3),
        Column("FLOP/B", tuple(number(m.intensity) for m in firsts), priority=5),
        Column("bound", rates("bound"), priority=6),
    ]
    for kind, priority in (("estimate", 4), ("measured", 1)):
        if any(kind in kinds for _, kinds in rows):
            made.append(Column(kind, rates(kind), priority=priority))
    return made


def _flop(mark: Mark | None, plain: bool) -> str:
    return "-" if mark is None else _ascii(format_quantity(mark.flop_per_s, Dimension.FLOP_PER_S), plain)


def print_waterfall(found: Stages, console: Console) -> None:
    """The stages as bars of letters, each beginning where the one before it ended."""
    plain = not _braille(console)
    drawn = bars(found)
    longest = max(max(a, b) for _, a, b, _ in drawn) or 1.0
    names = max(len(name) for name, *_ in drawn)
    wide = max(8, min(console.width, WIDEST) - names - 24)
    console.print(styled(f"where the time of {found.of} goes", "bold"))
    for name, start, stop, sort in drawn:
        left, right = (max(0, round(end / longest * wide)) for end in sorted((start, stop)))
        bar = " " * left + ("#" if plain else "█") * max(1, right - left)
        took = format_quantity(abs(stop - start), Dimension.SECONDS, digits=3, ascii=plain)
        sign = {"total": " ", "more": "+", "less": "-"}[sort]
        share = percent(abs(stop - start) / (drawn[-1][2] or 1.0))
        console.print(styled(f"{name:<{names}} {bar:<{wide}} {sign}{took:>8} {share:>7}"), soft_wrap=True)
    if found.why:
        console.print(styled(f"no estimate: {found.why}"))
