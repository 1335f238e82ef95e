"""Measured configurations as CSV: a heading with ``devices,batch,seq,time_s`` and a line for each."""

from __future__ import annotations

import csv
import io
import math

from roofline.errors import InputError, Problem, did_you_mean
from roofline.spec.source import Mark, read_source

MOST_ROWS = 10_000


def read_configurations(path: str, columns: tuple[str, ...]) -> list[dict[str, float]]:
    """The lines as numbers by column; other columns are ignored.

    Raises:
        InputError: a column that is missing, or cells that are no numbers above 0, all of them.
    """
    source = read_source(path)
    lines = list(csv.reader(io.StringIO(source.text)))
    header = [cell.strip() for cell in lines[0]] if lines else []
    missing = [c for c in columns if c not in header]
    if missing:
        said = "; ".join(f"no column '{c}', {did_you_mean(c, header)}" for c in missing)
        raise InputError([source.problem(Mark(1, 1), f"{said}; wanted are {', '.join(columns)}")])
    rows: list[dict[str, float]] = []
    problems: list[Problem] = []
    for line, cells in enumerate(lines[1 : MOST_ROWS + 1], 2):
        if not any(cell.strip() for cell in cells):
            continue
        row = {}
        for column in columns:
            at = header.index(column)
            value = _number(cells[at]) if at < len(cells) else None
            if value is None:
                place = Mark(line, sum(len(c) + 1 for c in cells[:at]) + 1)
                problems.append(source.problem(place, f"{column} must be a number above 0"))
            else:
                row[column] = value
        rows.append(row)
    if problems:
        raise InputError(problems)
    return rows


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
