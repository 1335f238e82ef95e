"""The report of a sweep from its grid: points one by one, and the crossings between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from roofline import __version__
from roofline.decide.crossovers import crossings
from roofline.decide.sweep import Asked, Grid, words_of
from roofline.report.model import Input
from roofline.report.sweep import SWEEP_SCHEMA, Point, SweepReport

NO_TOKENS = "say with --tokens how many one execution makes, such as --tokens batch"
NO_STEP = "no step is followed; name one with --step"
NO_BYTES = "no bytes move at some point"


def report_of(asked: Asked, grid: Grid, workload: str, hardware: tuple[str, ...], inputs: tuple[Input, ...]) -> SweepReport:
    """All that the grid says, its crossings found."""
    unavailable = dict(grid.unavailable)
    for name, column, reason in (("tokens", "tokens", NO_TOKENS), ("step", "step_bound_s", NO_STEP), ("intensity", "intensity", NO_BYTES)):
        if any(math.isnan(v) for v in grid.figures[column].tolist()):
            unavailable[name] = reason
    return SweepReport(
        schema=SWEEP_SCHEMA,
        kind="sweep",
        tool=f"roofline {__version__}",
        workload=workload,
        hardware=hardware,
        inputs=inputs,
        axes={a.key: a.values for a in asked.axes},
        overrides=asked.overrides,
        step=asked.step,
        tokens=asked.tokens,
        points=tuple(_points(asked, grid)),
        crossings=crossings(asked, grid),
        unavailable=unavailable,
    )


def _points(asked: Asked, grid: Grid) -> Iterator[Point]:
    figures = {name: [None if math.isnan(v) else v for v in column.tolist()] for name, column in grid.figures.items()}
    words = {name: words_of(grid, name) for name in grid.words}
    keys = [a.key for a in asked.axes]
    for i, values in enumerate(product(*(a.values for a in asked.axes))):
        needed, fits, tokens = (figures[name][i] for name in ("memory_bytes", "fits", "tokens"))
        bound, estimate = figures["bound_s"][i], figures["estimate_s"][i]
        yield Point(
            params=dict(zip(keys, values, strict=True)),
            bound_s=bound or 0.0,
            limiter=words["limiter"][i],
            step_bound_s=figures["step_bound_s"][i],
            step_limiter=words["step_limiter"][i],
            estimate_s=estimate,
            estimate_low_s=figures["estimate_low_s"][i],
            estimate_high_s=figures["estimate_high_s"][i],
            estimate_limiter=words["estimate_limiter"][i],
            intensity_flop_per_byte=figures["intensity"][i],
            memory_bytes=needed or 0.0,
            fits=None if fits is None else fits > 0,
            tokens=tokens,
            bound_tokens_per_s=tokens / bound if tokens and bound else None,
            tokens_per_s=tokens / estimate if tokens and estimate else None,
        )
