"""The roofs of a report: what its device moves at each memory level and computes with each engine that a step uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from roofline.errors import UsageError
from roofline.hardware.profile import LEVELS
from roofline.report.model import Report
from roofline.units import Dimension, format_quantity

ENGINES = ("tensor", "vector")


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """A limit. ``rate`` is in B/s for a memory level, a line of FLOP/s = intensity x rate, else in FLOP/s, a flat line."""

    name: str
    label: str
    memory: bool
    rate: float

    @property
    def said(self) -> str:
        """The label with the rate."""
        unit = Dimension.BYTES_PER_S if self.memory else Dimension.FLOP_PER_S
        return f"{self.label} {format_quantity(self.rate, unit, digits=3)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofs:
    """Memory levels from HBM inwards, engines from the fastest; ``missing`` are levels without a published rate, and why."""

    memory: tuple[Roof, ...]
    compute: tuple[Roof, ...]
    missing: Mapping[str, str]

    def ridge(self, memory: Roof) -> float | None:
        """FLOP/B at which the fastest engine and that level take equally long; None without an engine."""
        return self.compute[0].rate / memory.rate if self.compute else None


def roofs_of(report: Report) -> Roofs:
    """The roofs of a report.

    Raises:
        UsageError: the report has no device.
    """
    if report.hardware is None:
        raise UsageError("the report has no device, so that there is no roof; write it again with 'roofline analyze ... -H PROFILE'")
    memory, missing = [], {}
    levels = report.hardware.get("levels")
    for name in reversed(LEVELS):
        level = levels.get(name) if isinstance(levels, dict) else None
        found = level.get("bandwidth") if isinstance(level, dict) else None
        label = str(level.get("label") or name) if isinstance(level, dict) else name
        rate = _number(found)
        if rate is None:
            missing[name] = str(found["reason"]) if isinstance(found, dict) and "reason" in found else "the report does not say"
        else:
            memory.append(Roof(name=name, label=label, memory=True, rate=rate))
    return Roofs(memory=tuple(memory), compute=tuple(_engines(report)), missing=missing)


def _number(value: Any) -> float | None:
    """The value of a figure as the report keeps it."""
    found = value.get("value") if isinstance(value, dict) else None
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) and 0 < found < 1e100 else None


def _engines(report: Report) -> list[Roof]:
    """The rate at which each engine was taken to do the rows' arithmetic, work over time of their own bounds."""
    found: dict[tuple[str, str], list[str]] = {}
    rates: dict[tuple[str, str], float] = {}
    for row in report.rows:
        for engine in ENGINES:
            time = row.bound.per_resource_s.get(engine) if row.bound else None
            if not time or not row.flop.get(engine):
                continue
            rate = row.flop[engine] / time
            key = engine, f"{rate:.10g}"  # the quotient of two floats: equal rates differ in the last digit
            dtypes = found.setdefault(key, [])
            rates.setdefault(key, float(f"{rate:.10g}"))
            if row.dtype not in dtypes:
                dtypes.append(row.dtype)
    several = [engine for engine, _ in found]
    named = [
        Roof(
            name=engine + (str(n) if (n := several[:i].count(engine)) else ""),
            label=_engine_label(engine, dtypes, several),
            memory=False,
            rate=rates[engine, text],
        )
        for i, ((engine, text), dtypes) in enumerate(found.items())
    ]
    return sorted(named, key=lambda r: -r.rate)


def _engine_label(engine: str, dtypes: list[str], several: list[str]) -> str:
    """``tensor bf16``; the vector lanes compute in their own format whatever that of the tensors, so they get theirs where it matters."""
    if engine == "vector" and several.count("vector") == 1:
        return "vector"
    return f"{engine} {'/'.join(dtypes[:3])}{'…' if len(dtypes) > 3 else ''}"
