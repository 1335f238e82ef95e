"""Colours and shapes, light and dark: what limits a step is told by both, so that neither eyes nor a printer need colour."""

from __future__ import annotations

import math

HUES = {
    "hbm": ("#0072b2", "#56b4e9"),
    "l2": ("#007a5a", "#2bbd93"),
    "smem": ("#6b6b00", "#e0d84a"),
    "register": ("#7a5195", "#c3a6e0"),
    "tensor": ("#c44e00", "#ff9d5c"),
    "vector": ("#a3660a", "#e69f00"),
    "sfu": ("#8c1d40", "#f08a9d"),
    "link": ("#a8327d", "#e7a1c9"),
    "none": ("#59636e", "#9198a1"),
}
"""By what limits: on a light page and on a dark one. Hues of Okabe and Ito, moved to a contrast of 4.5 against the page."""

KINDS = ("bound", "estimate", "measured")
"""Hollow, half and full."""

PAPER, INK = ("#ffffff", "#0d1117"), ("#1f2328", "#e6edf3")
THEMES = ("auto", "light", "dark")


def limit_class(limiter: str | None) -> str:
    """The class of a limiter: its own, ``link`` for any link, ``none`` where nothing limits.

    >>> limit_class("hbm"), limit_class("nvlink"), limit_class(None)
    ('hbm', 'link', 'none')
    """
    return "none" if limiter is None else limiter if limiter in HUES else "link"


_CORNERS: dict[str, tuple[tuple[float, float], ...]] = {
    "l2": ((-1.15, -0.8), (1.15, -0.8), (0.0, 1.2)),
    "smem": ((0.8, -1.15), (0.8, 1.15), (-1.2, 0.0)),
    "register": ((-0.8, -1.15), (-0.8, 1.15), (1.2, 0.0)),
    "tensor": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "vector": ((0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)),
    "sfu": tuple((r * math.sin(i * math.pi / 5), -r * math.cos(i * math.pi / 5)) for i in range(10) for r in [1.4 if i % 2 == 0 else 0.6]),
    "link": ((-1.15, 0.8), (1.15, 0.8), (0.0, -1.2)),
    "none": tuple((x, y) for x, y in ((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2),
                                      (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4))),
}  # fmt: skip
"""Corners of each shape for a radius of 1; hbm is a circle."""


def shape(limit: str, radius: float) -> str:
    """The outline of the mark of a limiter around the origin, as the ``d`` of a path."""
    if limit == "hbm":
        r = f"{radius:.1f}"
        return f"M-{r} 0a{r} {r} 0 1 0 {2 * float(r):.1f} 0a{r} {r} 0 1 0 -{2 * float(r):.1f} 0z"
    return "M" + "L".join(f"{x * radius:.1f} {y * radius:.1f}" for x, y in _CORNERS[limit]) + "z"


FONT = 'system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif'


def _coloured(which: int, before: str) -> str:
    """The rules that differ between light and dark, each after ``before``."""
    rules = [
        f"{before}text,{before}.fore{{fill:{INK[which]}}}",
        f"{before}.paper{{fill:{PAPER[which]}}}",
        f"{before}.halo{{stroke:{PAPER[which]}}}",
        f"{before}.grid,{before}.axis,{before}.roof,{before}.ridge,{before}.join{{stroke:{INK[which]}}}",
        f"{before}.on{{fill:{PAPER[which]}}}",
        *(
            f"{before}.l-{name}{{fill:{hues[which]};stroke:{hues[which]}}}"
            f"{before}.t-{name}{{fill:{hues[which]}}}{before}.c-{name}{{stroke:{hues[which]}}}"
            for name, hues in HUES.items()
        ),
    ]
    return "".join(rules)


_PLAIN = """
text{font-family:FONT;font-size:SIZEpx}
.head{font-weight:600} .quiet{opacity:.8}
.grid{stroke-opacity:.13} .axis{stroke-opacity:.6} .roof{stroke-width:1.8;fill:none} .roof-compute{stroke-width:2.2}
.ridge{stroke-dasharray:2 4;stroke-opacity:.5} .join{stroke-opacity:.45;fill:none}
.curve{fill:none;stroke-width:2.2} .dash{stroke-dasharray:6 4}
.mark{stroke-width:1.7;stroke-linejoin:round} .k-bound{fill-opacity:.08} .k-estimate{fill-opacity:.42} .k-measured{fill-opacity:1}
.band{fill-opacity:.16;stroke:none} .bar{stroke:none} .base{stroke-dasharray:2 2;fill-opacity:0}
.halo{stroke-width:4;stroke-linejoin:round;paint-order:stroke}
"""


def style_sheet(theme: str = "auto", size: float = 14.0) -> str:
    """The style sheet of a figure: of one theme, or of both, the reader's setting or a ``data-theme`` of the root choosing."""
    plain = _PLAIN.replace("FONT", FONT).replace("SIZE", f"{size:g}")
    if theme != "auto":
        return plain + _coloured(THEMES.index(theme) - 1, "")
    chosen = _coloured(1, ':root[data-theme="dark"] ')
    own = f"@media (prefers-color-scheme:dark){{{_coloured(1, ':root:not([data-theme=light]) ')}}}"
    return f"{plain}{_coloured(0, '')}\n{own}\n{chosen}\n"
