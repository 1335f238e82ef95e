"""What changed between two reports, why, and what it does to the whole.

Predicted quantities are exact: any difference is real and is explained from the fields that changed. Measured times
are samples: their verdict needs samples on both sides. Rows are matched by id; what has no partner is listed and never
silently dropped, and a comparison of nothing is an error, not a pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import MissingCapabilityError
from roofline.report.model import MeasuredResult, Report, Row
from roofline.report.sentences import percent, resource
from roofline.report.shape import encode

CLOSE = 1e-9
"""Relative difference below which two predicted numbers are the same."""
EXACT = ("kernels", "useful_flop", "parameters", "weight_bytes", "cache_bytes", "extra_memory_bytes", "saved_bytes", "repeat")
BY_KEY = ("flop", "bytes", "link_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A number that changed. ``ratio`` is head over base, None where base is 0 or one side has no number."""

    name: str
    base: float | None
    head: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """A field of the step that changed: the cause."""

    name: str
    base: Any
    head: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredChange:
    """Measured times side by side. ``verdict``: better, worse, same, or unclear where samples are lacking."""

    base_s: float
    head_s: float
    ratio: float
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """One row of both reports. ``status`` is changed or same; ``end_to_end`` the whole's ratio if only this row changed."""

    id: str
    status: str
    time_ratio: float | None
    limiter_base: str | None
    limiter_head: str | None
    fields: tuple[FieldChange, ...] = ()
    quantities: tuple[Quantity, ...] = ()
    measured: MeasuredChange | None = None
    end_to_end: float | None = None
    explanation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The comparison. Counts first: how many rows were compared, and which have no partner."""

    schema: int
    base: str
    head: str
    compared: int
    added: tuple[str, ...]
    removed: tuple[str, ...]
    context: tuple[str, ...]
    rows: tuple[RowChange, ...]
    totals: tuple[Quantity, ...]
    total_time_ratio: float | None
    limiter_base: str | None
    limiter_head: str | None
    geomean_time_ratio: float | None
    gates: tuple[Any, ...] = field(default=())


def compare(base: Report, head: Report, base_name: str, head_name: str, *, allow_context_change: bool = False) -> Diff:
    """Compare two reports.

    Raises:
        MissingCapabilityError: the reports cannot be compared, or no row has a partner.
    """
    context = tuple(_context(base, head))
    refused = [c for c in context if c.startswith(("hardware", "traffic"))]
    if refused and not allow_context_change:
        raise MissingCapabilityError("not comparable: " + "; ".join(refused) + " (--allow-context-change compares all the same)")
    heads = {r.id: r for r in head.rows}
    pairs = [(r, heads[r.id]) for r in base.rows if r.id in heads]
    known = {r.id for r in base.rows}
    if not pairs:
        raise MissingCapabilityError(
            f"nothing was compared: no row of {base_name} ({len(base.rows)} rows) has the id of one of {head_name} ({len(head.rows)} rows)"
        )
    rows = tuple(_row(b, h, base) for b, h in pairs)
    ratios = [r.time_ratio for r in rows if r.time_ratio is not None]
    totals = tuple(_total_quantities(base, head))
    return Diff(
        schema=1,
        base=base_name,
        head=head_name,
        compared=len(pairs),
        added=tuple(r.id for r in head.rows if r.id not in known),
        removed=tuple(r.id for r in base.rows if r.id not in heads),
        context=context,
        rows=rows,
        totals=totals,
        total_time_ratio=_ratio(_total_time(base), _total_time(head)),
        limiter_base=base.totals.bound.limiter if base.totals.bound else None,
        limiter_head=head.totals.bound.limiter if head.totals.bound else None,
        geomean_time_ratio=math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios and min(ratios) > 0 else None,
    )


# --------------------------------------------------------------------------- context
def _context(base: Report, head: Report) -> Iterator[str]:
    """What differs besides the rows: device, its figures, conventions, params."""
    names = [r.hardware["name"] if r.hardware else None for r in (base, head)]
    if names[0] != names[1]:
        yield f"hardware {names[0]} -> {names[1]}"
    elif base.hardware and head.hardware:
        for key, old, new in _leaves(base.hardware, head.hardware):
            yield f"profile figure {key}: {old} -> {new}"
    for name in sorted({*base.conventions, *head.conventions}):
        old, new = base.conventions.get(name), head.conventions.get(name)
        if old != new:
            yield f"{name} convention: '{old}' -> '{new}'" if name != "traffic" else f"traffic counted differently: '{old}' -> '{new}'"
    for name in sorted({*base.params, *head.params}):
        if base.params.get(name) != head.params.get(name):
            yield f"param {name}: {base.params.get(name)} -> {head.params.get(name)}"


def _leaves(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Numbers that differ, at their path; words are commentary."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _leaves(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new and (isinstance(old, (int, float)) or isinstance(new, (int, float))):
        yield path.removesuffix(".value"), old, new


# --------------------------------------------------------------------------- rows
def row_time(row: Row) -> float | None:
    """The time a row is compared by: measured where it was, else the bound; all repetitions."""
    if row.measured:
        return row.measured.time_s * row.repeat
    return row.bound.time_s * row.repeat if row.bound else None


def _time_pair(base: Row, head: Row) -> tuple[float | None, float | None]:
    """Times of the same kind: a bound is never compared with a measurement."""
    if base.measured and head.measured:
        return row_time(base), row_time(head)
    old = base.bound.time_s * base.repeat if base.bound else None
    return old, head.bound.time_s * head.repeat if head.bound else None


def _row(base: Row, head: Row, whole: Report) -> RowChange:
    old, new = _time_pair(base, head)
    fields = tuple(_fields(base, head))
    quantities = tuple(_quantities(base, head))
    measured = _measured(base.measured, head.measured)
    limiters = (base.bound.limiter if base.bound else None, head.bound.limiter if head.bound else None)
    moved = bool(fields or quantities or limiters[0] != limiters[1] or (measured and measured.ratio != 1))
    return RowChange(
        id=base.id,
        status="changed" if moved else "same",
        time_ratio=_ratio(old, new),
        limiter_base=limiters[0],
        limiter_head=limiters[1],
        fields=fields,
        quantities=quantities,
        measured=measured,
        end_to_end=_end_to_end(base, old, new, whole),
        explanation=explanation(fields, quantities, limiters) if moved else "",
    )


def _fields(base: Row, head: Row) -> Iterator[FieldChange]:
    for name in ("op", "direction", "dtype"):
        if getattr(base, name) != getattr(head, name):
            yield FieldChange(name=name, base=getattr(base, name), head=getattr(head, name))
    for name in dict.fromkeys([*base.fields, *head.fields]):
        if name != "dtype" and base.fields.get(name) != head.fields.get(name):
            yield FieldChange(name=name, base=base.fields.get(name), head=head.fields.get(name))


def _quantities(base: Row, head: Row) -> Iterator[Quantity]:
    for name in EXACT:
        yield from _quantity(name, getattr(base, name), getattr(head, name))
    for group in BY_KEY:
        old, new = getattr(base, group), getattr(head, group)
        for key in dict.fromkeys([*old, *new]):
            yield from _quantity(f"{group}.{key}", old.get(key, 0), new.get(key, 0))
    old_bound, new_bound = (encode(r.bound) if r.bound else {} for r in (base, head))
    for key in ("time_s", "no_overlap_s"):
        yield from _quantity(f"bound.{key}", old_bound.get(key), new_bound.get(key))


def _quantity(name: str, old: float | None, new: float | None) -> Iterator[Quantity]:
    same = old == new or (old is not None and new is not None and math.isclose(old, new, rel_tol=CLOSE))
    if not same:
        yield Quantity(name=name, base=old, head=new, ratio=_ratio(old, new))


def _ratio(old: float | None, new: float | None) -> float | None:
    if old is None or new is None:
        return None
    if old == new:
        return 1.0
    return new / old if old else None


def _measured(base: MeasuredResult | None, head: MeasuredResult | None) -> MeasuredChange | None:
    """The place of the statistics: without samples on both sides no verdict is possible."""
    if base is None or head is None:
        return None
    return MeasuredChange(
        base_s=base.time_s,
        head_s=head.time_s,
        ratio=head.time_s / base.time_s,
        verdict="unclear",
        reason="one value on each side: without samples a difference cannot be told from noise",
    )


def _end_to_end(base: Row, old: float | None, new: float | None, whole: Report) -> float | None:
    """Ratio of the whole time if only this row changed, by Amdahl; None where steps overlap."""
    total = _total_time(whole)
    if old is None or new is None or not total or (whole.totals.bound and whole.totals.bound.overlapped):
        return None
    return (total - old + new) / total


def _total_time(report: Report) -> float | None:
    if report.totals.measured:
        return report.totals.measured.time_s
    return report.totals.bound.time_s if report.totals.bound else None


def explanation(fields: Sequence[FieldChange], quantities: Sequence[Quantity], limiters: tuple[str | None, str | None]) -> str:
    """Why a row changed: what became of its work, the fields that did it, and what binds now."""
    work = [q for q in quantities if q.name in ("flop.tensor", "flop.vector", "flop.sfu", "bytes.hbm", "bytes.l2")]
    said = [f"{_readable(q.name)} {signed(q.ratio)}" for q in work]
    causes = [f"{f.name} {_word(f.base)} -> {_word(f.head)}" for f in fields]
    parts = [", ".join(said) + (": " if said and causes else "") + ", ".join(causes)] if said or causes else []
    if limiters[0] != limiters[1]:
        parts.append(f"now bound by {resource(limiters[1])}, was {resource(limiters[0])}")
    elif limiters[1]:
        parts.append(f"still bound by {resource(limiters[1])}")
    if not said and not causes:
        parts.insert(0, "the profile's rates changed")
    return "; ".join(parts)


def _readable(name: str) -> str:
    kind, _, where = name.partition(".")
    return f"bytes at {where}" if kind == "bytes" else f"{where} FLOP" if where != "sfu" else "special functions"


def _word(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def signed(ratio: float | None) -> str:
    """A ratio as a signed percentage.

    >>> signed(1.38)
    '+38.0 %'
    """
    if ratio is None:
        return "new"
    return f"{'+' if ratio >= 1 else '-'}{percent(abs(ratio - 1))}"


def _total_quantities(base: Report, head: Report) -> Iterator[Quantity]:
    old, new = encode(base.totals), encode(head.totals)
    for name in ("kernels", "useful_flop", "parameters", "flop.tensor", "flop.vector", "flop.sfu", "bytes.hbm", "bytes.l2",
                 "memory.needed_bytes", "bound.time_s"):  # fmt: skip
        yield from _quantity(name, _at(old, name), _at(new, name))


def _at(value: Any, path: str) -> float | None:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, (int, float)) else None
