"""A figure as PNG, by a renderer that is not installed with the rest."""

from __future__ import annotations

from roofline.errors import MissingCapabilityError, RooflineError
from roofline.report.plot.svg import Drawing

SCALE = 2.0
"""Pixels of the picture for one of the figure."""


def png(page: Drawing) -> bytes:
    """The picture. The figure must be of one theme: a picture cannot follow the reader's.

    Raises:
        MissingCapabilityError: the renderer is not installed.
    """
    try:
        import resvg_py
    except ImportError:
        raise MissingCapabilityError(
            "PNG needs a renderer: pip install 'roofline[plot-png]'; without it write SVG or HTML: -o FILE.svg, -o FILE.html"
        ) from None
    try:
        return bytes(resvg_py.svg_to_bytes(svg_string=page.svg(), zoom=SCALE, sans_serif_family="DejaVu Sans"))
    except ValueError as err:
        raise RooflineError(f"the renderer of PNG refused the figure: {err}") from None
