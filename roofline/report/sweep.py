"""A sweep as data: points, and where what binds changes between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline.report.model import Input, Scalar

SWEEP_SCHEMA = 1
"""Version of the format of sweeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point: the values of the axes and what a report of that workload says in total, in seconds and bytes.

    ``limiter`` is what binds most of the bound's time, ``estimate_limiter`` what decides the estimate; ``tokens_per_s`` are tokens of
    one execution over the estimate, ``bound_tokens_per_s`` over the bound. What cannot be given is null; the sweep says why.
    """

    params: Mapping[str, Scalar]
    bound_s: float
    limiter: str | None
    step_bound_s: float | None
    step_limiter: str | None
    estimate_s: float | None
    estimate_low_s: float | None
    estimate_high_s: float | None
    estimate_limiter: str | None
    intensity_flop_per_byte: float | None
    memory_bytes: float
    fits: bool | None
    tokens: float | None
    bound_tokens_per_s: float | None
    tokens_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Where something changes along one axis while the others stay at ``params``.

    ``what`` is ``limiter`` (of the whole), ``fits``, or the id of the step that is followed. ``at`` is the first whole value at which it
    is ``after``; null where only the interval from ``low`` to ``high`` is known, since what lies between cannot be evaluated.
    """

    axis: str
    what: str
    before: str
    after: str
    at: int | None
    low: float
    high: float
    params: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReport:
    """All points of a sweep in order, the last axis fastest, and the crossings found between neighbours."""

    schema: int
    kind: str
    tool: str
    workload: str
    hardware: tuple[str, ...]
    inputs: tuple[Input, ...]
    axes: Mapping[str, tuple[Scalar, ...]]
    overrides: tuple[str, ...]
    step: str | None
    tokens: str | None
    points: tuple[Point, ...]
    crossings: tuple[Crossing, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """In a notebook."""
        from roofline.report.notebook import sweep_html

        return sweep_html(self)
