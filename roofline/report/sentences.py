"""The sentences that end an analysis: what binds, what it is worth to fix, what binds next, and whether it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofline.units import Dimension, format_quantity

if TYPE_CHECKING:  # the sentences of `roofline amdahl` need neither operators nor the report
    from roofline.report.model import BoundResult, EstimateResult, Headline, Memory, Report, Row


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


LIMITERS = {"host": "host launches", "fixed": "fixed costs of kernels", "memory": "memory", "compute": "compute"}
"""What decides an estimate, in words."""


def estimate(found: EstimateResult, bound_s: float | None) -> list[str]:
    """What it will take, against the bound and why; the verdict launch-bound; and whose parameters say so where they are priors."""
    against = f", {times(found.time_s / bound_s)} its bound of {_time(bound_s)}" if bound_s else ""
    shares = ", ".join(f"{LIMITERS[name]} {percent(t / found.time_s)}" for name, t in found.by_limiter_s.items())
    lines = [
        f"Estimated {_time(found.time_s)} ({_time(found.low_s)} to {_time(found.high_s)} in 90 % of runs){against}; "
        f"{plural(found.kernels, 'kernel')} launched ({found.execution}); {shares or 'nothing'} of the time."
    ]
    if found.limiter == "host":
        lines.append(
            f"Launch-bound: the host needs {_time(found.host_s)} to issue {plural(found.kernels, 'kernel')}, and the device idles "
            f"{percent(found.idle_share)} of the time; without the host it would take {_time(found.device_s)}."
        )
    priors = dict.fromkeys(share.device for share in found.parameters.values() if share.prior)
    if priors:
        lines.append(f"The estimate uses priors, parameters fitted on {' and '.join(priors)}: its band is wider for that.")
    return lines


def estimate_terms(found: EstimateResult) -> list[str]:
    """The estimate by parameter set: its kernels, their time, the terms before they overlap, and where the set comes from."""
    lines = []
    for name, share in found.parameters.items():
        parts = ", ".join(f"{term} {_time(t)}" for term, t in share.terms.items() if t)
        origin = f"{share.kind} on {share.device}{' (a prior here)' if share.prior else ''}: {share.source}"
        lines.append(f"{name} x{share.kernels}: {_time(share.time_s)} ({parts or 'nothing'}); {origin}")
    if found.host_s:
        lines.append(f"the slower of device {_time(found.device_s)} (gaps between launches included) and host {_time(found.host_s)}")
    return [*lines, f"estimate = {_time(found.time_s)}, {_time(found.low_s)} to {_time(found.high_s)}"]


def _time(value: float) -> str:
    return format_quantity(value, Dimension.SECONDS, ascii=True)


def memory(found: Memory, why: str = "") -> str:
    """Whether it fits, and by how much not; ``why`` nobody can say."""
    need = size(found.needed_bytes)
    if found.available_bytes is None:
        return f"Memory needed: {need}."
    states = f", optimizer states {size(found.optimizer_bytes)}" if found.optimizer_bytes else ""
    elsewhere = f" less {size(found.gathered_bytes)} that are gathered" if found.gathered_bytes else ""
    parts = f"weights {size(found.weight_bytes)}{elsewhere}, caches {size(found.cache_bytes)}{states}"
    parts += f", activations {size(found.activation_bytes)}"
    if found.fits is None:
        return f"Memory: at least {need} of {size(found.available_bytes)} ({parts}); {why}."
    if found.fits:
        return f"Memory: {need} of {size(found.available_bytes)} ({parts}): fits."
    return (
        f"Memory: DOES NOT FIT: {need} needed ({parts}), {size(found.available_bytes)} available, {size(found.shortfall_bytes or 0)} short."
    )


def size(value: float | None) -> str:
    """Bytes with their unit; a dash where they are not known."""
    return "-" if value is None else format_quantity(value, Dimension.BYTES)


def closing(report: Report) -> list[str]:
    """All sentences of a report, memory first."""
    totals = report.totals
    lines = [memory(totals.memory, totals.unavailable.get("fits", ""))]
    if totals.estimate:
        lines += estimate(totals.estimate, totals.bound.time_s if totals.bound else None)
    if totals.headline:
        lines += headline(totals.headline)
    return lines


def explain(report: Report) -> list[str]:
    """Every convention in force, the arithmetic of the row with the longest bound, and the terms of the estimates."""
    lines = ["Conventions:"] + [f"  {name}: {text}" for name, text in report.conventions.items()]
    rows = [r for r in report.rows if r.bound]
    if rows:
        row = max(rows, key=lambda r: r.bound.time_s * r.repeat if r.bound else 0)
        lines += ["", f"Arithmetic of {row.id}, one execution:"] + [f"  {line}" for line in _arithmetic(row)]
    return lines + _estimated(report)


def _estimated(report: Report) -> list[str]:
    """The estimate of each row, and of the whole, in its terms, or why there is none."""
    if report.hardware is None:
        return []
    lines = [""]
    for row in report.rows:
        if row.estimate:
            lines += [f"Estimate of {row.id}, one execution ({row.estimate.execution}):"]
            lines += [f"  {line}" for line in estimate_terms(row.estimate)]
        else:
            lines.append(f"No estimate of {row.id}: {row.unavailable.get('estimate', 'not given')}")
    whole = report.totals.estimate
    if whole and len(report.rows) > 1:
        lines += [f"Estimate of the whole, all repetitions ({whole.execution}):", *(f"  {line}" for line in estimate_terms(whole))]
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
