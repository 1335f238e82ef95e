"""Advice as data: changes with what each is worth, the path that they make together, and what was tried in vain.

Times are seconds. Bounds, estimates and measured times stand apart and are never mixed: a gain is the ratio of two times of one
kind. Throughput decides: where a change also changes how much work a run does (a larger batch), ``speedup`` is that of the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline.report.model import Input, Notice

ADVICE_SCHEMA = 1
"""Version of the format."""
KINDS = ("estimate", "bound")
"""What changes are ranked by: estimates where every step has one, else bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """One kind of time before and after. ``speedup`` is work over time; ``local_speedup`` that of the changed steps alone.

    ``limit_speedup`` is what the whole would gain were the changed steps free: Amdahl's limit on the critical path. Null where
    nothing is left, or where no steps are replaced.
    """

    before_s: float
    after_s: float
    speedup: float
    local_before_s: float | None
    local_after_s: float | None
    local_speedup: float | None
    limit_speedup: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Binds:
    """What decides the time of a state: the limiter of most of it, and the step with the largest share.

    Without a step, ``share`` is that of measured time that lies in no step: work that is not known, and waiting.
    """

    limiter: str | None
    step: str | None
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change. ``steps`` are those that it changes or takes out, ``work`` how many times the work of a run it does then.

    ``basis`` says by which kind of time it is ranked; ``measured`` is the measured time scaled by predicted ratios. Memory is
    that of `needed` (with what training keeps); ``fits`` tells whether the result fits the device, which rows of a training step can
    only deny: null, with the reason, where they cannot tell. ``exactness`` is exact,
    rounding, approximate or changes the model; ``check`` are command lines that would show the effect.
    """

    key: str
    rule: str
    title: str
    steps: tuple[str, ...]
    basis: str
    speedup: float
    work: float
    bound: Gain | None
    estimate: Gain | None
    measured: Gain | None
    memory_delta_bytes: float
    fits: bool | None
    exactness: str
    conditions: tuple[str, ...]
    check: tuple[str, ...]
    binds_after: Binds
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """A change on top of those before it: its own gain, that of all so far, the time then, and what binds then."""

    number: int
    key: str
    title: str
    speedup: float
    total_speedup: float
    time_s: float
    exactness: str
    binds_after: Binds


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A change that is not advised, and why: it gains too little, makes it worse, does not fit, or cannot be quantified."""

    key: str
    title: str
    speedup: float | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceReport:
    """Everything that `roofline advise` found.

    ``basis`` is what is ranked by, with ``basis_reason``; ``time_s`` holds the present time by kind (bound, estimate, measured),
    ``coverage`` how much of a measured time lies in steps whose work is known. ``advice`` is ranked, best first; ``left_out``
    counts those beyond the cap. ``path`` combines changes greedily until the next gains less than ``least``.
    """

    schema: int
    kind: str
    tool: str
    workload: str
    source: str
    hardware: str
    execution: str
    inputs: tuple[Input, ...]
    basis: str
    basis_reason: str
    least: float
    time_s: Mapping[str, float | None]
    memory_bytes: float
    fits: bool | None
    coverage: float | None
    binds: Binds
    advice: tuple[Advice, ...]
    left_out: int
    path: tuple[PathStep, ...]
    path_speedup: float
    tried: tuple[Tried, ...]
    warnings: tuple[Notice, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """In a notebook."""
        from roofline.report.notebook import advice_html

        return advice_html(self)
