"""The sentences that end an analysis: what binds, what it is worth to fix, what binds next, and whether it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.units import Dimension, format_quantity

if TYPE_CHECKING:  # the sentences of `roofline amdahl` need neither operators nor the report
    from roofline.report.model import BoundResult, Headline, Memory, Report, Row


def percent(share: float) -> str:
    """A share as a percentage with three digits at most.

    >>> percent(0.1111)
    '11.1 %'
    """
    value = share * 100
    return f"{value:.0f} %" if value >= 99.95 else f"{value:.1f} %" if value >= 1 else f"{value:.2g} %"


def times(factor: float | None) -> str:
    """A speedup in words."""
    return "without limit" if factor is None else f"{factor:.2f}x" if factor < 100 else f"{factor:.0f}x"


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "gate")
    '1 gate'
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def resource(name: str | None) -> str:
    """A resource with its kind: ``hbm (memory)``."""
    from roofline.predict.bound import kind_of

    return "nothing" if name is None else f"{name} ({kind_of(name)})"


def headline(found: Headline) -> list[str]:
    """What binds end to end, what the best case of fixing it is worth, and what would bind next."""
    lines = [
        f"{resource(found.resource)} binds {percent(found.share)} of the time; were it free, the whole would be "
        f"{times(found.best_speedup)} faster at best"
        + (f", and {resource(found.next_resource)} would bind next." if found.next_resource else ".")
    ]
    if found.next_step:
        lines.append(
            f"The largest step is {found.step} with {percent(found.step_share)}: no change to it alone can give more than "
            f"{times(found.step_limit_speedup)} end to end; after it comes {found.next_step}."
        )
    else:
        lines.append(f"The only step that takes time is {found.step}: its speedup is the end-to-end speedup.")
    return lines


def memory(found: Memory) -> str:
    """Whether it fits, and by how much not."""
    need = _bytes(found.needed_bytes)
    if found.available_bytes is None:
        return f"Memory needed: {need}."
    parts = f"weights {_bytes(found.weight_bytes)}, caches {_bytes(found.cache_bytes)}, activations {_bytes(found.activation_bytes)}"
    if found.fits:
        return f"Memory: {need} of {_bytes(found.available_bytes)} ({parts}): fits."
    return (
        f"Memory: DOES NOT FIT: {need} needed ({parts}), {_bytes(found.available_bytes)} available, "
        f"{_bytes(found.shortfall_bytes or 0)} short."
    )


def _bytes(value: float) -> str:
    return format_quantity(value, Dimension.BYTES)


def closing(report: Report) -> list[str]:
    """All sentences of a report, memory first."""
    lines = [memory(report.totals.memory)]
    if report.totals.headline:
        lines += headline(report.totals.headline)
    return lines


def explain(report: Report) -> list[str]:
    """Every convention in force, and the arithmetic of the row that takes longest."""
    lines = ["Conventions:"] + [f"  {name}: {text}" for name, text in report.conventions.items()]
    rows = [r for r in report.rows if r.bound]
    if rows:
        row = max(rows, key=lambda r: r.bound.time_s * r.repeat if r.bound else 0)
        lines += ["", f"Arithmetic of {row.id}, one execution:"] + [f"  {line}" for line in _arithmetic(row)]
    return lines


def divisions(found: BoundResult, row: Row) -> list[str]:
    """Work over rate for each resource that the row needs."""
    lines = []
    for name, time in found.per_resource_s.items():
        amount, unit = _amount(row, name)
        if amount:
            shown = format_quantity(amount, unit)
            per_s = format_quantity(amount / time, Dimension.BYTES_PER_S if unit is Dimension.BYTES else Dimension.FLOP_PER_S)
            if name == "sfu":
                shown, per_s = shown.replace("FLOP", "op"), per_s.replace("FLOP", "op")
            mark = "   <- binds" if name == found.limiter else ""
            lines.append(f"{name}: {shown} / {per_s} = {format_quantity(time, Dimension.SECONDS, ascii=True)}{mark}")
    return lines


def _arithmetic(row: Row) -> list[str]:
    assert row.bound is not None
    return [
        *divisions(row.bound, row),
        *(f"{name}: no rate ({why})" for name, why in row.bound.missing.items()),
        f"bound = the largest = {format_quantity(row.bound.time_s, Dimension.SECONDS, ascii=True)}",
        f"without any overlap = the sum = {format_quantity(row.bound.no_overlap_s, Dimension.SECONDS, ascii=True)}",
    ]


def _amount(row: Row, name: str) -> tuple[float, Dimension]:
    if name in row.flop:
        return row.flop[name], Dimension.FLOP
    return (row.bytes[name] if name in row.bytes else row.link_bytes[name]), Dimension.BYTES
