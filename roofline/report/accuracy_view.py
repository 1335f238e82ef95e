"""Accuracy as tables, CSV and Markdown: one line a group, then the rows farthest off with what their estimates are made of."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import PurePath

from roofline.report.accuracy import Accuracy, Errors, Group, RowError
from roofline.report.columns import Column, seconds
from roofline.report.csv_view import cell
from roofline.report.markdown import code, table
from roofline.report.shape import encode

ALL = "all"
"""What the group of all regimes is called in tables."""
MOST_SHOWN = 10
"""Rows listed in a table; JSON has them all."""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f} %"


def _factor(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def group_columns(found: Accuracy) -> list[Column]:
    """Errors of bound and estimate of each group."""
    groups = found.groups
    names = _short([g.file for g in groups])

    def cells(show: object, of: str, key: str) -> tuple[str, ...]:
        return tuple(show(getattr(getattr(g, of), key)) for g in groups)  # type: ignore[operator]

    return [
        Column("table", names, right=False),
        Column("operator", tuple(g.operator for g in groups), right=False, priority=2),
        Column("regime", tuple(g.regime or ALL for g in groups), right=False),
        Column("rows", tuple(str(g.rows) for g in groups)),
        Column("estimate", cells(_percent, "estimate", "mape")),
        Column("median", cells(_percent, "estimate", "median_ape"), priority=1),
        Column("90 %", cells(_percent, "estimate", "p90_ape"), priority=1),
        Column("bias", cells(_factor, "estimate", "bias")),
        Column("in band", cells(_percent, "estimate", "in_band")),
        Column("bound", cells(_percent, "bound", "mape")),
        Column("bound bias", cells(_factor, "bound", "bias"), priority=3),
        Column("faster", tuple(str(g.bound.faster_than_bound) for g in groups), priority=4),
    ]


def _short(paths: Sequence[str]) -> tuple[str, ...]:
    """File names alone where they tell the files apart, else with the folder."""
    stems = {path: PurePath(path).stem for path in paths}
    unique = len(set(stems.values())) == len(stems)
    return tuple(stems[path] if unique else f"{PurePath(path).parent.name}/{stems[path]}" for path in paths)


def row_columns(rows: Sequence[RowError]) -> list[Column]:
    """Single rows: what was measured, what was predicted, and of what that consists."""
    shown = rows[:MOST_SHOWN]
    return [
        Column("row", tuple(f"{PurePath(r.file).name}:{r.line}" for r in shown), right=False),
        Column("case", tuple(_case(r) for r in shown), right=False, priority=1),
        Column("measured", tuple(seconds(r.measured_s) for r in shown)),
        Column("bound", tuple(seconds(r.bound_s) for r in shown), priority=2),
        Column("estimate", tuple(seconds(r.estimated_s) for r in shown)),
        Column("ratio", tuple(_factor(r.ratio) for r in shown)),
        Column("terms", tuple(", ".join(f"{n} {seconds(t)}" for n, t in r.terms.items() if t > 0) for r in shown), right=False, priority=3),
        Column("parameters", tuple(", ".join(u.name for u in r.parameters) for r in shown), right=False, priority=4),
    ]


def _case(row: RowError) -> str:
    return " ".join(f"{name}={value}" for name, value in row.fields.items())


def sentences(found: Accuracy) -> list[str]:
    """What a reader must know beside the tables: rows left out, rows without an estimate, rows faster than the bound."""
    skipped = [f"{f.file}: {f.skipped} of {f.rows + f.skipped} rows have no time and were left out" for f in found.files if f.skipped]
    whole = [g for g in found.groups if g.regime is None]
    reasons = [f"{g.file}: no estimate for {g.estimate.reason}" for g in whole if g.estimate.reason]
    unbound = [f"{g.file}: no bound for {g.bound.reason}" for g in whole if g.bound.reason]
    faster = sum(g.bound.faster_than_bound for g in whole)
    said = [f"{faster} rows are faster than their bound, which means that the count or the profile is wrong"] if faster else []
    skipped += [f"only the {found.part} rows"] if found.part else []
    return [*skipped, *reasons, *unbound, *said, f"regimes: {found.regimes}"]


def to_markdown(found: Accuracy) -> str:
    """The groups, the worst rows, and what to know beside them."""
    parts = [f"### Accuracy on {code(found.hardware)}\n", table(group_columns(found))]
    if found.worst:
        parts += ["Rows farthest off:\n", table(row_columns(found.worst))]
    if found.faster_than_bound:
        parts += ["Rows faster than their bound:\n", table(row_columns(found.faster_than_bound))]
    return "\n".join(parts) + "\n" + "\n".join(f"- {line}" for line in sentences(found)) + "\n"


def to_csv(found: Accuracy) -> str:
    """One line a group, full precision."""
    rows = [_flat(g) for g in found.groups]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: cell(value) for name, value in row.items()})
    return stream.getvalue()


def _flat(group: Group) -> dict[str, object]:
    of = {name: getattr(group, name) for name in ("file", "operator", "regime", "rows")}
    return {**of, **_prefixed("estimate", group.estimate), **_prefixed("bound", group.bound)}


def _prefixed(prefix: str, errors: Errors) -> dict[str, object]:
    return {f"{prefix}_{name}": value for name, value in encode(errors).items()}
