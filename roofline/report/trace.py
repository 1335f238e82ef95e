"""What a profiler's trace says, as data: written by ``roofline ingest trace``, read by people, CI and ``advise``.

Times are seconds. ``sum`` times add up the lengths of GPU events; ``busy`` times are the length of their union, which is less where
streams overlap. What is not known is null with a reason, never zero. Nothing of the trace's metadata is in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roofline.report.model import Input, Notice, Scalar

TRACE_SCHEMA = 1
"""Version of the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceWork:
    """What one call does: an operator of ours with its fields and direction."""

    op: str
    direction: str
    fields: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """All calls of one recorded operator with equal arguments, in one phase.

    ``id`` is that of the step that ``--workload`` writes for it, ``order`` its place by when it first ran. ``time_s`` adds up
    the GPU events of all ``calls``; ``path_s`` is how much of it is on the critical path. ``work`` is what one call does, empty
    where unknown, and then ``unknown`` says why and all that follows is null. ``note`` says how ``work`` was counted, and how far it
    may be off, where that was not from recorded shapes, null otherwise. ``flop`` by engine and ``hbm_bytes`` (compulsory)
    are those of one call, ``link_bytes`` what one rank sends. ``bound_s`` is the least one call takes on the device named,
    ``limiter`` what decides that, and ``share_of_roof`` that time over the recorded one. ``unavailable`` says why a figure of
    known work is null.
    """

    id: str
    order: int
    name: str
    lane: str
    phase: str
    gradient_of: str | None
    calls: int
    kernels: int
    time_s: float
    share: float
    path_s: float
    work: tuple[TraceWork, ...]
    unknown: str | None
    note: str | None
    flop: Mapping[str, float] | None
    hbm_bytes: float | None
    link_bytes: float | None
    intensity_flop_per_byte: float | None
    bound_s: float | None
    limiter: str | None
    share_of_roof: float | None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time in which the device did nothing: why, and what came after it."""

    start_s: float
    time_s: float
    cause: str
    before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Times without work on the device between its first and its last event. ``causes`` explain the words used."""

    time_s: float
    share: float
    gaps: int
    by_cause_s: Mapping[str, float]
    longest: tuple[Gap, ...]
    causes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Communication beside computation: busy times, how long both run, and how long communication runs alone."""

    communication_s: float
    compute_s: float
    both_s: float
    exposed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamUse:
    """One stream of a device."""

    device: int
    stream: int
    events: int
    sum_s: float
    busy_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One step that the profiler marked: the host's time for it, and the GPU events launched in it."""

    number: int
    host_s: float
    kernels: int
    sum_s: float
    busy_s: float
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath:
    """The chain of events that ends last: each began when the one before it had ended, or when the host had launched it.

    ``gpu_s`` is spent in events, the rest waiting, by cause. ``off_path_s`` is the time of events that run beside the chain.
    """

    time_s: float
    gpu_s: float
    waiting_s: Mapping[str, float]
    off_path_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What a part of the critical path is worth end to end, by Amdahl.

    ``limit_speedup`` were it free, ``roof_speedup`` were it as fast as its bound (null without a bound).
    """

    part: str
    kind: str
    path_s: float
    fraction: float
    limit_speedup: float | None
    roof_speedup: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """Everything that was found in a trace.

    ``kernels`` and ``gpu_time_s`` (the sum of their times) are those of kernels; copies and sets by the driver are ``copies`` and
    ``copy_time_s``. ``coverage`` is the share of ``gpu_time_s`` spent in operators whose work is known, null without kernels;
    ``known_flop`` (by engine) and ``known_hbm_bytes`` are the sums of that work alone. ``window_s`` is from the first GPU event
    to the last, for each device, added up.
    """

    schema: int
    kind: str
    tool: str
    inputs: tuple[Input, ...]
    coverage: float | None
    kernels: int
    gpu_time_s: float
    known_time_s: float
    copies: int
    copy_time_s: float
    busy_s: float
    window_s: float
    events: int
    partial: str | None
    devices: int
    hardware: str | None
    suggested_hardware: str | None
    link: str | None
    by_phase_s: Mapping[str, float]
    known_flop: Mapping[str, float] | None
    known_hbm_bytes: float | None
    rows: tuple[TraceRow, ...]
    idle: Idle
    overlap: Overlap
    streams: tuple[StreamUse, ...]
    steps: tuple[TraceStep, ...]
    selected_steps: tuple[int, ...]
    critical_path: CriticalPath
    ranking: tuple[Ranked, ...]
    warnings: tuple[Notice, ...] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)
