"""The report: what `analyze` found, as data. JSON is written from these classes and everything else is a view of them.

Figures of a row are those of one execution; ``repeat`` says how often it runs, and ``share`` and the totals include
the repetitions. A value that cannot be given is null, and ``unavailable`` says why. Nothing here depends on the host
or the time of day except ``environment``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from roofline.records import dataclass

SCHEMA = 1
"""Version of the report format; rises alone, see `roofline.report.store` for the upgrade chain."""

Scalar = str | int | float | bool | None


def arithmetic(flop: Mapping[str, float]) -> float:
    """The FLOP that intensity counts: those of the matrix engine, or of the vector lanes where there is no matrix work.

    The ridge they are held against is that of the same engine.
    """
    return flop["tensor"] or flop["vector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A file the report came from: its role, the path as given, and the hash of its text."""

    role: str
    path: str
    sha256: str

    @classmethod
    def of_text(cls, role: str, path: str, text: str) -> Input:
        """The file that was read as that text."""
        from hashlib import sha256

        return cls(role=role, path=path, sha256=sha256(text.encode()).hexdigest())

    @classmethod
    def of_hardware(cls, name: str) -> Input:
        """A profile by name or file; of a cluster the cluster's own file, not that of its device."""
        from roofline.spec.find import find_hardware
        from roofline.spec.source import read_source

        return cls.of_text("hardware", name, read_source(str(find_hardware(name))).text)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundResult:
    """What nothing can beat: ``time_s`` = the largest of ``per_resource_s``; ``no_overlap_s`` their sum.

    ``headroom`` is time over the next resource's time: how much the limiter can improve before the next one binds.
    """

    time_s: float
    no_overlap_s: float
    limiter: str | None
    next: str | None
    tied: bool
    headroom: float | None
    per_resource_s: Mapping[str, float]
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterShare:
    """What one set of parameters has to say in an estimate: kernels launched, device time, terms, and whose set it is.

    ``terms`` are seconds before they overlap. ``prior`` tells that the set was fitted on another device.
    """

    kernels: int
    time_s: float
    terms: Mapping[str, float]
    device: str
    kind: str
    source: str
    prior: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateResult:
    """What the hardware will really take, and the band that 90 % of measurements fall into.

    ``terms`` are seconds by name before they overlap, all kernels together. ``device_s`` is what the device needs,
    ``host_s`` what the host needs to issue the ``kernels`` (0 under a graph); ``limiter`` is host where that decides, else
    fixed, memory or compute, whichever has most of ``by_limiter_s``, in which host is the time that the device idles.
    ``parameters`` are the sets used, by name. ``raised`` tells that the parameters gave less than the device can do.
    """

    time_s: float
    low_s: float
    high_s: float
    terms: Mapping[str, float]
    execution: str = "eager"
    limiter: str | None = None
    by_limiter_s: Mapping[str, float] = field(default_factory=dict)
    kernels: int = 0
    device_s: float = 0.0
    host_s: float = 0.0
    prior: bool = False
    raised: bool = False
    parameters: Mapping[str, ParameterShare] = field(default_factory=dict)

    @property
    def idle_share(self) -> float:
        """How much of the time the device waits for the host."""
        return 1 - self.device_s / self.time_s if self.time_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """How far the kernel's output lies from a float64 reference: ``error`` relative to the largest reference value."""

    passed: bool
    error: float
    tolerance: float
    against: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredResult:
    """What one execution took: the median of the samples, with its 95 % interval where there are samples.

    ``samples_s`` are seconds a call and ``blocks`` the round each belongs to: samples of one round share their conditions.
    ``status`` is ok, throttled, interrupted, oom, failed or invalid; ``conditions`` say how it was run (kernel, device, cache,
    launch, mode), ``clocks`` what the device did meanwhile. ``achieved_per_s`` is work over time by resource (FLOP/s, B/s),
    ``share_of_peak`` that over the profile's rate.
    """

    time_s: float
    source: str
    samples_s: tuple[float, ...] | None = None
    blocks: tuple[int, ...] | None = None
    interval_s: tuple[float, ...] | None = None
    status: str = "ok"
    conditions: Mapping[str, Scalar] = field(default_factory=dict)
    clocks: Mapping[str, float | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    check: CheckResult | None = None
    achieved_per_s: Mapping[str, float] = field(default_factory=dict)
    share_of_peak: Mapping[str, float | None] = field(default_factory=dict)
    faster_than_bound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What a run on a device found: results by step id, the whole sequence as one run, and where it ran."""

    steps: Mapping[str, MeasuredResult] = field(default_factory=dict)
    whole: MeasuredResult | None = None
    environment: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One step of the workload."""

    id: str
    op: str
    direction: str
    dtype: str
    fields: Mapping[str, Scalar]
    repeat: int
    kernels: int
    flop: Mapping[str, float]
    useful_flop: float
    bytes: Mapping[str, float]
    traffic: Mapping[str, Mapping[str, float] | None]
    link_bytes: Mapping[str, float]
    intensity_flop_per_byte: Mapping[str, float | None]
    ridge_flop_per_byte: Mapping[str, float | None]
    bound: BoundResult | None
    estimate: EstimateResult | None
    measured: MeasuredResult | None
    share: float | None
    parameters: int
    weight_bytes: float
    cache_bytes: float
    extra_memory_bytes: float
    saved_bytes: float
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Does it fit: weights, caches and states of optimizers stay, activations are those of the largest step.

    ``gathered_bytes`` of the weights are kept by other ranks and whole here for a while (ZeRO 3), which is not needed all the time. Of a
    training step the sum is less than it needs, so that ``fits`` is false or null, and `Totals.unavailable` says why.
    """

    needed_bytes: float
    weight_bytes: float
    cache_bytes: float
    activation_bytes: float
    available_bytes: float | None
    shortfall_bytes: float | None
    fits: bool | None
    optimizer_bytes: float = 0.0
    gathered_bytes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalBound:
    """The whole: its critical path, and how long each resource is the limiter of a step on it."""

    time_s: float
    no_overlap_s: float
    limiter: str | None
    by_limiter_s: Mapping[str, float]
    critical_path: tuple[str, ...]
    lane_s: Mapping[str, float]
    overlapped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The sentence that matters, as data.

    ``resource`` binds ``share`` of the time; were it free everywhere the whole would be ``best_speedup`` times
    faster, and ``next_resource`` would bind. ``step`` is the largest step, ``step_limit_speedup`` what removing it
    would give, and ``next_step`` the largest one then.
    """

    resource: str
    share: float
    best_speedup: float | None
    next_resource: str | None
    step: str
    step_share: float
    step_limit_speedup: float | None
    next_step: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over all steps and repetitions."""

    kernels: int
    flop: Mapping[str, float]
    useful_flop: float
    bytes: Mapping[str, float]
    link_bytes: Mapping[str, float]
    intensity_flop_per_byte: Mapping[str, float | None]
    parameters: int
    memory: Memory
    bound: TotalBound | None
    estimate: EstimateResult | None
    measured: MeasuredResult | None
    headline: Headline | None
    unavailable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something a reader must know, with a code that can be made fatal or ignored."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything `analyze` found about one workload on one device."""

    schema: int
    tool: str
    workload: str
    inputs: tuple[Input, ...]
    hardware: Mapping[str, Any] | None
    params: Mapping[str, Scalar]
    conventions: Mapping[str, str]
    rows: tuple[Row, ...]
    totals: Totals
    warnings: tuple[Notice, ...]
    environment: Mapping[str, Scalar] = field(default_factory=dict)

    def row(self, row_id: str) -> Row | None:
        """The row of that id."""
        return next((r for r in self.rows if r.id == row_id), None)

    def _repr_html_(self) -> str:
        """In a notebook."""
        from roofline.report.notebook import report_html

        return report_html(self)
