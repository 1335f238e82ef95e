"""A device as figures: what each engine computes, each memory level moves and holds, each link carries.

Every figure says where it comes from (`Figure.source`) and of what kind it is; a figure that nobody publishes is
`Absent` with the reason, never invented. Peaks are dense, link bandwidths one-way, values in SI units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from roofline.dtypes import dtype as find_dtype
from roofline.errors import UsageError, did_you_mean
from roofline.records import dataclass

LEVELS = ("register", "smem", "l2", "hbm")
"""Memory levels from the arithmetic outwards."""

KINDS = ("datasheet", "measured", "fitted", "derived")
"""Where a figure comes from: the vendor, a measurement, a fit to measurements, or a formula over other figures."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with its provenance. ``unit`` is the SI unit of ``value``; ``formula`` is set for derived figures."""

    value: float
    unit: str
    kind: str
    source: str
    formula: str | None = None
    note: str | None = None
    per_clock: float | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """A figure that is not known, and why."""

    reason: str


Value: TypeAlias = Figure | Absent


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What a device was measured to reach: the median, its 95 % interval, the fastest sample, the clock meanwhile.

    Ceilings stand beside the published figures, under names such as ``hbm.copy`` and ``tensor.bf16.sustained``; bounds are
    made from the published ones. ``kind`` is derived where a ceiling was worked out from a measured clock.
    """

    value: float
    unit: str
    kind: str
    source: str
    low: float | None = None
    high: float | None = None
    best: float | None = None
    clock_hz: float | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSet:
    """Parameters of a model for one sort of kernel of one library, fitted to measurements on the profile ``device``.

    ``name`` is ``model.variant.library.dtype``, with as many parts as the model needs. ``band`` holds by regime (launch,
    memory, compute) the 5th and 95th percentile of measured over estimated time on rows that were not fitted. A set found
    in the profile of another ``product`` is a prior there, a better one within one ``architecture``.
    """

    name: str
    values: Mapping[str, float]
    device: str
    kind: str
    source: str
    date: str
    rows: int
    band: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    note: str | None = None
    product: str | None = None
    architecture: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A memory level. ``size`` is per unit of ``scope`` (processor or device), ``bandwidth`` over the whole device."""

    name: str
    label: str
    scope: str
    size: Value
    bandwidth: Value
    latency: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A way out of the device; ``bandwidth`` is one-way, over all ports."""

    name: str
    bandwidth: Value
    topology: str
    ports: Value | None = None
    latency: Value | None = None
    both_ways_bandwidth: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One device profile. Rates are found by `matrix_rate`, `vector_rate`, `bandwidth`; all fail by name."""

    name: str
    vendor: str
    product: str
    architecture: str
    match: tuple[str, ...]
    sources: Mapping[str, str]
    processor_label: str
    processors: Value
    clocks: Mapping[str, Value]
    tensor: Mapping[str, Value]
    vector: Mapping[str, Value]
    sfu: Value
    levels: Mapping[str, Level]
    tensor_sparse: Mapping[str, Value] = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    limits: Mapping[str, Value] = field(default_factory=dict)
    power: Mapping[str, Value] = field(default_factory=dict)
    price: Mapping[str, Value] = field(default_factory=dict)
    measured: Mapping[str, Ceiling | Absent] = field(default_factory=dict)
    fitted: Mapping[str, ParameterSet] = field(default_factory=dict)
    priors: Mapping[str, ParameterSet] = field(default_factory=dict)
    notes: str | None = None
    path: str = ""

    def published(self, ceiling: str) -> Value | None:
        """The profile's own figure for what a ceiling measures, None where there is no such figure."""
        first, _, rest = ceiling.partition(".")
        if first in self.levels:
            return self.levels[first].bandwidth
        if first in self.links:
            return self.links[first].bandwidth
        rates = {"tensor": self.tensor, "vector": self.vector, "sfu": {"": self.sfu}}.get(first, {})
        return rates.get(rest.partition(".")[0])

    def matrix_engine(self, dtype_name: str) -> tuple[str, Value]:
        """The engine that multiplies matrices of this dtype, ``("tensor" | "vector", rate in FLOP/s)``.

        A dtype without a matrix path (fp32 on most GPUs) runs on the vector lanes if they have a rate for it.

        Raises:
            UsageError: the device has no rate for the dtype; the message lists what it has.
        """
        key = find_dtype(dtype_name).matrix
        for engine, rates in (("tensor", self.tensor), ("vector", self.vector)):
            if isinstance(rates.get(key), Figure):
                return engine, rates[key]
        for engine, rates in (("tensor", self.tensor), ("vector", self.vector)):
            if key in rates:
                return engine, rates[key]
        known = sorted({*self.tensor, *self.vector})
        raise UsageError(f"{self.name} has no matrix rate for {dtype_name} (profile key engines.tensor.{key}); it has {', '.join(known)}")

    def vector_rate(self, dtype_name: str) -> Value:
        """The rate of the vector lanes in FLOP/s, FMA counted as 2."""
        return self.vector.get(dtype_name, Absent(f"{self.name} states no vector rate for {dtype_name}"))

    def link(self, name: str) -> Link:
        """The link of that name.

        Raises:
            UsageError: no such link; the message names the nearest.
        """
        if name not in self.links:
            raise UsageError(f"{self.name} has no link '{name}'; {did_you_mean(name, list(self.links))}")
        return self.links[name]


def si(value: Value | None) -> float | None:
    """The number of a figure, or None where it is absent."""
    return value.value if isinstance(value, Figure) else None
