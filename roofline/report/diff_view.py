"""A comparison for people: verdict first, then what has no partner, then the rows that changed and why."""

from __future__ import annotations

from roofline.report.columns import Column, seconds
from roofline.report.diff import Diff, Quantity, RowChange, signed
from roofline.report.measured import VERDICTS, MeasuredChange
from roofline.report.sentences import percent, plural, resource


def verdict(found: Diff) -> str:
    """One line: what was not comparable, the gates if any, the measured verdicts, the total, and what was compared."""
    return "; ".join([*_allowed(found), *_gates(found), *_verdicts(found), _time(found), counts(found)])


def _allowed(found: Diff) -> list[str]:
    return [f"NOT COMPARABLE, compared all the same: {', '.join(found.allowed)}"] if found.allowed else []


def _verdicts(found: Diff) -> list[str]:
    return ["measured " + ", ".join(f"{n} {v}" for v, n in found.measured.verdicts.items())] if found.measured else []


def _gates(found: Diff) -> list[str]:
    failed = sum(not g.held for g in found.gates)
    if failed:
        return [f"FAILED {failed} of {plural(len(found.gates), 'gate')}"]
    return [f"{plural(len(found.gates), 'gate')} held"] if found.gates else []


def _time(found: Diff) -> str:
    ratio = found.total_time_ratio
    what = "predicted total time" if found.measured and not found.total_measured else "total time"
    estimated = "" if found.total_estimate_ratio in (None, 1) else f", estimated {signed(found.total_estimate_ratio)}"
    if ratio is None:
        return f"{what} unknown{estimated}"
    return f"{what} unchanged{estimated}" if ratio == 1 else f"{what} {signed(ratio)}{estimated}"


def counts(found: Diff) -> str:
    """How many rows were compared, changed, added and removed."""
    changed = sum(r.status == "changed" for r in found.rows)
    return f"compared {found.compared} ({changed} changed), removed {len(found.removed)}, added {len(found.added)}"


def head_lines(found: Diff) -> list[str]:
    """What must be read before any number."""
    lines = [verdict(found)]
    if found.removed:
        lines.append(f"removed: {', '.join(found.removed)}")
    if found.added:
        lines.append(f"added: {', '.join(found.added)}")
    lines += list(found.context)
    for gate in found.gates:
        if not gate.held:
            lines += [f"gate {gate.rule}: {f}" for f in gate.found]
    return lines


def total_lines(found: Diff) -> list[str]:
    """The effect on the whole."""
    lines = [f"total {q.name}: {_value(q.base)} -> {_value(q.head)} ({signed(q.ratio)})" for q in found.totals]
    if found.geomean_time_ratio is not None:
        lines.append(f"geometric mean of {found.compared} time ratios: {found.geomean_time_ratio:.3f}")
    if found.measured and found.measured.ratio is not None:
        lines.append(
            f"geometric mean of {plural(found.measured.rows, 'measured ratio')}: {found.measured.ratio:.3f} "
            f"({_interval(found.measured.low, found.measured.high)})"
        )
    if found.limiter_base != found.limiter_head:
        lines.append(f"end to end now bound by {resource(found.limiter_head)}, was {resource(found.limiter_base)}")
    return lines


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def changed_columns(found: Diff) -> list[Column]:
    """The rows that changed, largest effect on the whole first."""
    rows = sorted((r for r in found.rows if r.status == "changed"), key=by_weight, reverse=True)
    return [
        Column("row", tuple(r.id for r in rows), right=False),
        Column("time", tuple(signed(r.time_ratio) if r.time_ratio != 1 else "same" for r in rows)),
        Column("FLOP", tuple(_of(r, "flop.tensor") for r in rows), priority=2),
        Column("HBM", tuple(_of(r, "bytes.hbm") for r in rows), priority=1),
        *_estimates(rows),
        Column("whole", tuple("-" if r.end_to_end is None else signed(r.end_to_end) for r in rows)),
        Column("binds", tuple(_limiters(r) for r in rows), right=False),
    ]


def _estimates(rows: list[RowChange]) -> list[Column]:
    """How estimates changed, where there are any."""
    if all(r.estimate_ratio is None for r in rows):
        return []
    cells = ("-" if r.estimate_ratio is None else "same" if r.estimate_ratio == 1 else signed(r.estimate_ratio) for r in rows)
    return [Column("estimate", tuple(cells))]


def by_weight(row: RowChange) -> tuple[float, float]:
    """How much a row moved the whole, then its own estimate: the order in which changes are shown."""
    return abs((row.end_to_end or 1) - 1), abs((row.estimate_ratio or 1) - 1)


def _of(row: RowChange, name: str) -> str:
    found: Quantity | None = next((q for q in row.quantities if q.name == name), None)
    return signed(found.ratio) if found else "same"


def _limiters(row: RowChange) -> str:
    return str(row.limiter_head) if row.limiter_base == row.limiter_head else f"{row.limiter_base} -> {row.limiter_head}"


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{signed(low)} to {signed(high)}"


def measured_columns(found: Diff) -> list[Column]:
    """Every row measured on both sides, those that need a look first: change, interval, and what could have been seen."""
    rows = _measured_rows(found)
    return [
        Column("measured", tuple(name for name, _ in rows), right=False),
        Column("base", tuple(seconds(m.base_s, ascii_=True) for _, m in rows), priority=3),
        Column("head", tuple(seconds(m.head_s, ascii_=True) for _, m in rows), priority=3),
        Column("change", tuple("-" if m.ratio is None else signed(m.ratio) for _, m in rows)),
        Column("95 % interval", tuple(_interval(m.low, m.high) for _, m in rows), priority=1),
        Column("tolerance", tuple(_share(m.tolerance) for _, m in rows), priority=2),
        Column("detectable", tuple(_share(m.detectable) for _, m in rows), priority=2),
        Column("verdict", tuple(m.verdict for _, m in rows), right=False),
    ]


def _measured_rows(found: Diff) -> list[tuple[str, MeasuredChange]]:
    rows = [(r.id, r.measured) for r in found.rows if r.measured]
    return sorted(rows, key=lambda row: (VERDICTS.index(row[1].verdict), -abs((row[1].ratio or 1) - 1)))


def _share(value: float | None) -> str:
    return "-" if value is None else percent(value)


def why_lines(found: Diff) -> list[str]:
    """The explanation of each changed row, then of each measured verdict but *same*."""
    changed = [f"{r.id}: {r.explanation}" for r in found.rows if r.status == "changed"]
    return changed + [f"{name}: measured {m.verdict}: {m.reason}" for name, m in _measured_rows(found) if m.verdict != "same"]
