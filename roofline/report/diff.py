"""What changed between two reports, why, and what it does to the whole.

Predicted quantities are exact: any difference is real and is explained from the fields that changed. Estimates are
predicted too, and change with the work or with the parameters alone. Measured times are samples: `roofline.report.measured`
judges them. Rows are matched by id; what has no partner is listed and never
silently dropped, and a comparison of nothing is an error, not a pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from roofline.errors import MissingCapabilityError, UsageError
from roofline.report.measured import TOLERANCE, MeasuredChange, MeasuredSummary, devices, judge_measured
from roofline.report.model import Report, Row
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
class RowChange:
    """One row of both reports. ``status`` is changed or same; ``end_to_end`` the whole's ratio if only this row changed.

    ``time_ratio`` is of bounds or of measurements, ``estimate_ratio`` of estimates, all repetitions.
    """

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
    estimate_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The comparison. Counts first: how many rows were compared, and which have no partner.

    ``total_measured`` says of which kind the total times are, measured or bounds; ``allowed`` is what would have been
    refused as not comparable, had it not been asked for.
    """

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
    measured: MeasuredSummary | None = None
    total_measured: bool = False
    allowed: tuple[str, ...] = ()
    total_estimate_ratio: float | None = None
    gates: tuple[Any, ...] = field(default=())

    def _repr_html_(self) -> str:
        """In a notebook."""
        from roofline.report.notebook import diff_html

        return diff_html(self)


def compare(
    base: Report, head: Report, base_name: str, head_name: str, *, allow_context_change: bool = False, tolerance: float = TOLERANCE
) -> Diff:
    """Compare two reports; measured times are judged with that tolerance.

    Raises:
        UsageError: the reports are not comparable, and it was not asked to compare them all the same.
        MissingCapabilityError: no row has a partner.
    """
    heads = {r.id: r for r in head.rows}
    pairs = [(r, heads[r.id]) for r in base.rows if r.id in heads]
    known = {r.id for r in base.rows}
    context = tuple(_context(base, head))
    refused = tuple(_refused(context, pairs))
    if refused and not allow_context_change:
        raise UsageError("not comparable: " + "; ".join(refused) + " (--allow-context-change compares all the same)")
    if not pairs:
        raise MissingCapabilityError(
            f"nothing was compared: no row of {base_name} ({len(base.rows)} rows) has the id of one of {head_name} ({len(head.rows)} rows)"
        )
    measured, summary = judge_measured(pairs, tolerance, any_context=allow_context_change)
    rows = tuple(_row(b, h, measured.get(b.id), base) for b, h in pairs)
    ratios = [r.time_ratio for r in rows if r.time_ratio is not None]
    total_measured = _totals_measured(base, head, measured)
    return Diff(
        schema=1,
        base=base_name,
        head=head_name,
        compared=len(pairs),
        added=tuple(r.id for r in head.rows if r.id not in known),
        removed=tuple(r.id for r in base.rows if r.id not in heads),
        context=context,
        rows=rows,
        totals=tuple(_total_quantities(base, head)),
        total_time_ratio=_ratio(*(_total_time(r, total_measured) for r in (base, head))),
        limiter_base=base.totals.bound.limiter if base.totals.bound else None,
        limiter_head=head.totals.bound.limiter if head.totals.bound else None,
        geomean_time_ratio=math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios and min(ratios) > 0 else None,
        measured=summary,
        total_measured=total_measured,
        allowed=refused,
        total_estimate_ratio=_ratio(*(r.totals.estimate.time_s if r.totals.estimate else None for r in (base, head))),
    )


# --------------------------------------------------------------------------- context
def _context(base: Report, head: Report) -> Iterator[str]:
    """What differs besides the rows: device, its figures, conventions, what was measured, params."""
    names = [r.hardware["name"] if r.hardware else None for r in (base, head)]
    if names[0] != names[1]:
        yield f"hardware {names[0]} -> {names[1]}"
    elif base.hardware and head.hardware:
        yield from _profile(base.hardware, head.hardware)
    for name in sorted({*base.conventions, *head.conventions}):
        old, new = base.conventions.get(name), head.conventions.get(name)
        if old != new:
            yield f"{name} convention: '{old}' -> '{new}'" if name != "traffic" else f"traffic counted differently: '{old}' -> '{new}'"
    yield from _half_measured(base, head)
    yield from _half_estimated(base, head)
    for name in sorted({*base.params, *head.params}):
        if base.params.get(name) != head.params.get(name):
            yield f"param {name}: {base.params.get(name)} -> {head.params.get(name)}"


PARAMETERS = ("fitted", "priors")
"""Where a profile keeps the parameters of estimates."""


def _profile(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Figures of the same device that changed, and parameter sets, each as one: a fit moves all of its values."""
    figures, others = ({k: v for k, v in h.items() if k not in PARAMETERS} for h in (old, new))
    for key, before, after in _leaves(figures, others):
        yield f"profile figure {key}: {before} -> {after}"
    sets = [{name: s for kind in reversed(PARAMETERS) for name, s in (h.get(kind) or {}).items()} for h in (old, new)]
    for name in sorted({*sets[0]} & {*sets[1]}):
        moved = [f"{key} {before} -> {after}" for key, before, after in _leaves(sets[0][name], sets[1][name])]
        if moved:
            more = f" and {len(moved) - 2} more" if len(moved) > 2 else ""
            yield f"parameters {name}: {', '.join(moved[:2])}{more}"


def _refused(context: Sequence[str], pairs: Sequence[tuple[Row, Row]]) -> Iterator[str]:
    """What makes the whole not comparable; a changed profile only where times were measured, which it does not explain."""
    measured = any(b.measured and b.measured.samples_s and h.measured and h.measured.samples_s for b, h in pairs)
    yield from (c for c in context if c.startswith(("hardware", "traffic")) or (measured and c.startswith("profile")))
    yield from devices(pairs)


def _half_measured(base: Report, head: Report) -> Iterator[str]:
    """Rows whose measured time stands on one side only, which must not look like rows that did not change."""
    pairs = [(r, other) for r in base.rows if (other := head.row(r.id))]
    for side, ids in (
        ("base", [b.id for b, h in pairs if b.measured and not h.measured]),
        ("head", [b.id for b, h in pairs if h.measured and not b.measured]),
    ):
        if ids:
            yield f"measured in the {side} only, so compared by the bound: {', '.join(ids)}"


def _half_estimated(base: Report, head: Report) -> Iterator[str]:
    """Rows with an estimate on one side only: a tool or a profile that learnt something is no change of the work."""
    pairs = [(r, other) for r in base.rows if (other := head.row(r.id))]
    for side, ids in (
        ("base", [b.id for b, h in pairs if b.estimate and not h.estimate]),
        ("head", [b.id for b, h in pairs if h.estimate and not b.estimate]),
    ):
        if ids:
            yield f"estimated in the {side} only: {', '.join(ids)}"


def _leaves(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Numbers that differ, at their path; words are commentary."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _leaves(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new and (isinstance(old, (int, float)) or isinstance(new, (int, float))):
        yield path.removesuffix(".value"), old, new


# --------------------------------------------------------------------------- rows
def _times(base: Row, head: Row, measured: MeasuredChange | None) -> tuple[float | None, float | None]:
    """Times of the same kind, all repetitions: a bound is never compared with a measurement, nor what is not comparable."""
    if measured and measured.ratio is not None:
        return measured.base_s * base.repeat, measured.base_s * measured.ratio * head.repeat
    old, new = (r.bound.time_s * r.repeat if r.bound else None for r in (base, head))
    return old, new


def _row(base: Row, head: Row, measured: MeasuredChange | None, whole: Report) -> RowChange:
    old, new = _times(base, head, measured)
    fields = tuple(_fields(base, head))
    quantities = tuple(_quantities(base, head))
    limiters = (base.bound.limiter if base.bound else None, head.bound.limiter if head.bound else None)
    moved = bool(fields or quantities or limiters[0] != limiters[1])
    return RowChange(
        id=base.id,
        status="changed" if moved or _moved(measured) else "same",
        time_ratio=_ratio(old, new),
        limiter_base=limiters[0],
        limiter_head=limiters[1],
        fields=fields,
        quantities=quantities,
        measured=measured,
        end_to_end=_end_to_end(old, new, whole, measured),
        explanation=explanation(fields, quantities, limiters) if moved or _moved(measured) else "",
        estimate_ratio=_ratio(*(r.estimate.time_s * r.repeat if r.estimate else None for r in (base, head))),
    )


def _moved(measured: MeasuredChange | None) -> bool:
    """Whether the measurement says that the row changed: noise does not; single values are taken as they stand."""
    if measured is None or measured.ratio in (None, 1):
        return False
    return measured.verdict in ("worse", "better") or measured.low is None


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
    if base.estimate and head.estimate:
        for key in ("time_s", "low_s", "high_s", "kernels"):
            yield from _quantity(f"estimate.{key}", getattr(base.estimate, key), getattr(head.estimate, key))


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


def _end_to_end(old: float | None, new: float | None, whole: Report, measured: MeasuredChange | None) -> float | None:
    """Ratio of the whole time if only this row changed, by Amdahl; None where steps overlap or the whole is of another kind."""
    if measured and measured.ratio is not None:
        total = whole.totals.measured.time_s if whole.totals.measured else None
    else:
        total = whole.totals.bound.time_s if whole.totals.bound else None
    if old is None or new is None or not total or (whole.totals.bound and whole.totals.bound.overlapped):
        return None
    return (total - old + new) / total


def _totals_measured(base: Report, head: Report, measured: Mapping[str, MeasuredChange]) -> bool:
    """Whether both wholes were measured, and no row differs in what was: else bounds are compared."""
    wholes = (base.totals.measured, head.totals.measured)
    return all(w and w.time_s > 0 for w in wholes) and all(m.ratio is not None for m in measured.values())


def _total_time(report: Report, measured: bool) -> float | None:
    if measured and report.totals.measured:
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
    estimated = next((q.ratio for q in quantities if q.name == "estimate.time_s"), None)
    if not said and not causes:
        bound = any(not q.name.startswith("estimate") for q in quantities)
        only = "only the estimate changed, by its parameters or model" if quantities else "only the measured time changed"
        parts.insert(0, "the profile's rates changed" if bound else only)
    if estimated is not None:
        parts.append(f"estimate {signed(estimated)}")
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
    if base.totals.estimate and head.totals.estimate:
        yield from _quantity("estimate.time_s", base.totals.estimate.time_s, head.totals.estimate.time_s)


def _at(value: Any, path: str) -> float | None:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, (int, float)) else None
