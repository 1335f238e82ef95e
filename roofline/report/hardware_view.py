"""Hardware profiles as tables and JSON: figures with their sources, ridge points, comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from roofline.dtypes import DTYPES
from roofline.errors import UsageError, did_you_mean
from roofline.hardware.profile import LEVELS, Absent, Ceiling, Figure, Hardware, ParameterSet, Value, si
from roofline.report.columns import Column, number
from roofline.report.shape import encode
from roofline.units import Dimension, format_quantity

_BY_UNIT = {d.si: d for d in Dimension}


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The main figures of a profile; None where the profile states none."""

    name: str
    product: str
    bf16_flop_per_s: float | None
    fp16_flop_per_s: float | None
    fp8_flop_per_s: float | None
    hbm_bytes_per_s: float | None
    hbm_bytes: float | None
    ridge_flop_per_byte: float | None


def summaries(profiles: Sequence[Hardware]) -> tuple[Summary, ...]:
    """One summary a profile; the ridge is that of bf16, or of fp16 where there is no bf16."""
    return tuple(_summary(h) for h in profiles)


def _summary(h: Hardware) -> Summary:
    bf16, fp16, hbm = si(h.tensor.get("bf16")), si(h.tensor.get("fp16")), si(h.levels["hbm"].bandwidth)
    peak = bf16 or fp16
    return Summary(
        name=h.name,
        product=h.product,
        bf16_flop_per_s=bf16,
        fp16_flop_per_s=fp16,
        fp8_flop_per_s=si(h.tensor.get("fp8")),
        hbm_bytes_per_s=hbm,
        hbm_bytes=si(h.levels["hbm"].size),
        ridge_flop_per_byte=peak / hbm if peak and hbm else None,
    )


def show(value: float | None, dimension: Dimension) -> str:
    """A quantity, or a dash."""
    return "-" if value is None else format_quantity(value, dimension)


def summary_columns(found: Sequence[Summary]) -> list[Column]:
    """The list of profiles."""
    rate = Dimension.FLOP_PER_S
    return [
        Column("name", tuple(s.name for s in found), right=False),
        Column("bf16", tuple(show(s.bf16_flop_per_s, rate) for s in found)),
        Column("fp16", tuple(show(s.fp16_flop_per_s, rate) for s in found), priority=3),
        Column("fp8", tuple(show(s.fp8_flop_per_s, rate) for s in found), priority=2),
        Column("memory", tuple(show(s.hbm_bytes, Dimension.BYTES) for s in found), priority=1),
        Column("bandwidth", tuple(show(s.hbm_bytes_per_s, Dimension.BYTES_PER_S) for s in found)),
        Column("ridge FLOP/B", tuple("-" if s.ridge_flop_per_byte is None else f"{s.ridge_flop_per_byte:.1f}" for s in found)),
        Column("product", tuple(s.product for s in found), right=False, priority=4),
    ]


# --------------------------------------------------------------------------- one profile
def figures(h: Hardware) -> Iterator[tuple[str, Value]]:
    """Every figure of a profile under its key."""
    yield "processors.count", h.processors
    for group, values in (
        ("clocks", h.clocks),
        ("engines.tensor", h.tensor),
        ("engines.tensor_sparse", h.tensor_sparse),
        ("engines.vector", h.vector),
    ):
        for name, value in values.items():
            yield f"{group}.{name}", value
    yield "engines.sfu", h.sfu
    for level in h.levels.values():
        for key in ("size", "bandwidth", "latency"):
            if (value := getattr(level, key)) is not None:
                yield f"levels.{level.name}.{key}", value
    for link in h.links.values():
        for key in ("bandwidth", "both_ways_bandwidth", "ports", "latency"):
            if (value := getattr(link, key)) is not None:
                yield f"links.{link.name}.{key}", value
    for group, values in (("limits", h.limits), ("power", h.power), ("price", h.price)):
        for name, value in values.items():
            yield f"{group}.{name}", value


def figure_text(key: str, value: Value) -> str:
    """The figure with its unit; memory on the chip in binary units."""
    if not isinstance(value, Figure):
        return "absent"
    dimension = _BY_UNIT.get(value.unit)
    if dimension is None:
        return f"{value.value:g}"
    return format_quantity(value.value, dimension, binary=dimension is Dimension.BYTES and "hbm" not in key)


def figure_columns(h: Hardware) -> list[Column]:
    """All figures: value, kind, and where it comes from."""
    found = list(figures(h))
    return [
        Column("figure", tuple(k for k, _ in found), right=False),
        Column("value", tuple(figure_text(k, v) for k, v in found)),
        Column("kind", tuple(v.kind if isinstance(v, Figure) else "absent" for _, v in found), right=False),
        Column("source", tuple(_source(h, v) for _, v in found), right=False, priority=1),
    ]


def _source(h: Hardware, value: Value) -> str:
    if not isinstance(value, Figure):
        return value.reason
    formula = f" = {value.formula}" if value.formula else ""
    return h.sources.get(value.source, value.source) + formula


def ceiling_columns(h: Hardware) -> list[Column]:
    """Measured ceilings beside the published figures; ``of`` is the one over the other."""
    found = h.measured
    measured = [c if isinstance(c, Ceiling) else None for c in found.values()]
    published = [_published(h.published(name)) for name in found]

    def cells(key: str) -> tuple[str, ...]:
        return tuple(_ceiling_text(getattr(c, key), c) if c else "-" for c in measured)

    return [
        Column("measured", tuple(found), right=False),
        Column("median", tuple("absent" if c is None else _ceiling_text(c.value, c) for c in measured)),
        Column("low", cells("low"), priority=2),
        Column("high", cells("high"), priority=2),
        Column("best", cells("best"), priority=1),
        Column("published", tuple(_ceiling_text(p, c) if c else "-" for p, c in zip(published, measured, strict=True))),
        Column("of", tuple(f"{c.value / p:.1%}" if c and p else "-" for p, c in zip(published, measured, strict=True))),
        Column("clock", tuple(show(c.clock_hz if c else None, Dimension.HERTZ) for c in measured), priority=1),
        Column("how", tuple(_how(c) for c in found.values()), right=False, priority=3),
    ]


def _published(value: Value | None) -> float | None:
    """A figure that does not come from measurements as well: those of a profile without a data sheet are its own ceilings."""
    return None if isinstance(value, Figure) and value.kind == "measured" else si(value)


def _ceiling_text(value: float | None, ceiling: Ceiling) -> str:
    return show(value, _BY_UNIT[ceiling.unit])


def set_columns(h: Hardware) -> list[Column]:
    """Fitted parameter sets, and those that other profiles lend: device, rows, and the band of each regime."""
    found = [*h.fitted.values(), *h.priors.values()]
    return [
        Column("parameters", tuple(s.name for s in found), right=False),
        Column("kind", tuple("prior" if s.device != h.name else s.kind for s in found), right=False),
        Column("device", tuple(s.device for s in found), right=False),
        Column("rows", tuple(str(s.rows) for s in found)),
        *(Column(f"band {regime}", tuple(_ends(s, regime) for s in found), priority=1) for regime in ("launch", "memory", "compute")),
        Column("date", tuple(s.date for s in found), right=False, priority=2),
    ]


def _ends(found: ParameterSet, regime: str) -> str:
    ends = found.band.get(regime)
    return "-" if ends is None else f"{ends[0]:.2f}-{ends[1]:.2f}"


MOST_HOW = 72
"""Longest reason or method shown in a table; the file has it whole."""


def _how(ceiling: Ceiling | Absent) -> str:
    """The kernel and shape, or the reason; what else is noted stays in the file."""
    if isinstance(ceiling, Absent):
        text = ceiling.reason
    else:
        text = ("" if ceiling.kind == "measured" else f"{ceiling.kind}: ") + (ceiling.note or "").split(";")[0]
    return text if len(text) <= MOST_HOW else text[: MOST_HOW - 3] + "..."


def _dtypes(h: Hardware, only: str | None) -> list[str]:
    known = [d for d in dict.fromkeys([*h.tensor, *h.vector]) if si(h.tensor.get(d)) or si(h.vector.get(d))]
    if only is None:
        return known
    key = DTYPES[only].matrix if only in DTYPES else only
    if key not in known:
        raise UsageError(f"{h.name} has no rate for '{only}'; {did_you_mean(only, known)}; it has {', '.join(known)}")
    return [key]


def ridges(h: Hardware, only: str | None = None) -> dict[str, dict[str, float | None]]:
    """FLOP per byte at which the engine of each dtype and each level take equally long."""
    found = {}
    for name in _dtypes(h, only):
        peak = si(h.matrix_engine(name)[1])
        rates = {level: si(h.levels[level].bandwidth) for level in LEVELS}
        found[name] = {level: peak / rate if peak and rate else None for level, rate in rates.items()}
    return found


def ridge_columns(h: Hardware, only: str | None = None) -> list[Column]:
    """Ridge points, dtype by level, with the peak they belong to."""
    found = ridges(h, only)
    engines = [h.matrix_engine(name) for name in found]
    return [
        Column("ridge FLOP/B", tuple(found), right=False),
        Column("engine", tuple(e for e, _ in engines), right=False),
        Column("peak", tuple(show(si(v), Dimension.FLOP_PER_S) for _, v in engines)),
        *(Column(level, tuple(_one(r[level]) for r in found.values())) for level in reversed(LEVELS)),
    ]


def _one(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def ridge_lines(h: Hardware, only: str | None = None) -> list[str]:
    """What the ridge means for a matrix of weights."""
    lines = []
    for name, by_level in ridges(h, only).items():
        ridge = by_level["hbm"]
        if ridge and name in ("bf16", "fp16", "fp8", only):
            rows = math.ceil(ridge * DTYPES[name].bytes / 2)
            lines.append(f"{name}: {ridge:.1f} FLOP/B at hbm; a GEMM with {name} weights needs M >= {rows} rows to leave the memory roof.")
    return lines


def details(h: Hardware, only: str | None = None) -> dict[str, Any]:
    """The profile with its ridge points."""
    found: dict[str, Any] = encode(h)
    found.pop("path")
    return {**found, "ridge_flop_per_byte": ridges(h, only)}


# --------------------------------------------------------------------------- several profiles
@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure over several profiles, and the ratio of each to the first."""

    figure: str
    unit: str
    values: tuple[float | None, ...]
    ratios: tuple[float | None, ...]


def comparison(profiles: Sequence[Hardware]) -> dict[str, Any]:
    """Figures that any of the profiles states, and bf16 ridge points."""
    tables = [{k: v for k, v in figures(h) if isinstance(v, Figure)} for h in profiles]
    keys = list(dict.fromkeys(k for t in tables for k in t))
    rows = []
    for key in keys:
        values = tuple(t[key].value if key in t else None for t in tables)
        unit = next(t[key].unit for t in tables if key in t)
        rows.append(Compared(figure=key, unit=unit, values=values, ratios=_ratios(values)))
    for name in dict.fromkeys(d for h in profiles for d in h.tensor):
        points = tuple(ridges(h).get(name, {}).get("hbm") for h in profiles)
        rows.append(Compared(figure=f"ridge.{name}.hbm", unit="FLOP/B", values=points, ratios=_ratios(points)))
    return {"profiles": [h.name for h in profiles], "figures": rows}


def _ratios(values: Sequence[float | None]) -> tuple[float | None, ...]:
    first = values[0]
    return tuple(v / first if v is not None and first else None for v in values)


def comparison_columns(found: dict[str, Any]) -> list[Column]:
    """A column a profile, and the ratio of the others to the first."""
    rows: list[Compared] = found["figures"]
    columns = [Column("figure", tuple(r.figure for r in rows), right=False)]
    for i, name in enumerate(found["profiles"]):
        columns.append(Column(name, tuple(_value(r, r.values[i]) for r in rows)))
        if i:
            columns.append(Column("ratio", tuple("-" if r.ratios[i] is None else f"{number(r.ratios[i])}x" for r in rows), priority=1))
    return columns


def _value(row: Compared, value: float | None) -> str:
    if value is None:
        return "-"
    dimension = _BY_UNIT.get(row.unit)
    if row.unit == "FLOP/B":
        return f"{value:.1f}"
    if dimension is None:
        return f"{value:g}"
    return format_quantity(value, dimension, binary=dimension is Dimension.BYTES and "hbm" not in row.figure)
