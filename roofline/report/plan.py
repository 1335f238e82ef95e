"""A plan judged, as data: what `roofline plan` answers and writes as JSON. A value that cannot be given is null, `unavailable` says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline.report.model import Notice, Scalar

SCHEMA = 1
"""Version of this format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """The time of one step, in seconds, of one kind: bound, efficiency, estimate, or rate where a reached rate was stated.

    ``parts_s`` add up to ``step_s``: compute, recompute, bubble, exposed_<axis> (exchanges that are waited for), exposed_host (launches by
    the host that are) and optimizer; they are empty for a stated rate, of which nobody knows the parts. ``by_limiter_s`` are those of
    compute by what decides them, in the shares of the slowest stage. ``low_s`` and ``high_s`` are the band of an estimate, else null.
    """

    kind: str
    label: str
    step_s: float
    low_s: float | None
    high_s: float | None
    parts_s: Mapping[str, float]
    by_limiter_s: Mapping[str, float]
    binds: str | None
    binds_share: float | None
    without_it_speedup: float | None
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What the time means: tokens a second of all, of a device, of a user (decode), and times that users wait.

    ``ttft_s`` is the prefill of the batch, ``tpot_s`` a token of every sequence.
    """

    tokens_per_step: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    tokens_per_s_per_user: float | None
    ttft_s: float | None
    tpot_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """Shares of peaks. ``mfu`` by rule of attention (causal, full, products, six_nd); ``rule`` is the one meant where none is named.

    ``model_flop`` are those of a step on all devices. ``leaves_memory_at_batch`` is the batch of a replica from which decode is no
    longer bound by memory, null with a reason where none is.
    """

    peak_flop_per_s: float | None
    peak_dtype: str
    model_flop: Mapping[str, float]
    rule: str
    mfu: Mapping[str, float | None]
    hfu: float | None
    mbu: float | None
    leaves_memory_at_batch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMemory:
    """Bytes of one device of the fullest stage by what they are for, and whether they fit."""

    parts_bytes: Mapping[str, float]
    needed_bytes: float
    available_bytes: float | None
    fits: bool | None
    shortfall_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The pipeline: microbatches of a replica, and idle time over ideal time for equal stages by the schedule's formula.

    In prefill microbatches are equal parts of a replica's batch. ``chosen`` says that the plan left their size open, and ``degrees`` has
    that of the quickest.
    """

    microbatches: float
    bubble_fraction: float
    stage_layers: tuple[int, ...]
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """Everything `roofline plan` found about one plan of one job.

    ``memory_words`` are the arguments with which `roofline memory` asks about the same step, and for what would fit; empty if not known.
    """

    schema: int
    tool: str
    model: str
    parameters: int
    cluster: str
    device: str
    devices: int
    job: Mapping[str, Scalar]
    plan: str
    degrees: Mapping[str, Scalar]
    schedule: Schedule
    time: StepTime | None
    rates: Rates | None
    utilisation: Utilisation
    memory: PlanMemory
    conventions: Mapping[str, str]
    warnings: tuple[Notice, ...]
    unavailable: Mapping[str, str] = field(default_factory=dict)
    memory_words: tuple[str, ...] = ()
