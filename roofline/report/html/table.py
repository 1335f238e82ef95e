"""Columns as an HTML table that the script can sort: the orders are worked out here, not read from what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.report.columns import Column
from roofline.report.plot.svg import clean


def table(name: str, caption: str, found: Sequence[Column], *, total: bool = False, sortable: bool = True) -> str:
    """The table. The first column names its rows; with ``total`` the last cells are the foot."""
    count = (len(found[0].cells) if found else 0) - total
    heads = "".join(_head(c, sortable) for c in found)
    body = "".join(f'<tr data-i="{i}">{_cells(found, i)}</tr>\n' for i in range(count))
    foot = f"<tfoot><tr>{_cells(found, count)}</tr></tfoot>" if total else ""
    return (
        f'<div class="scroll" role="region" aria-label="{clean(caption)}" tabindex="0"><table id="{name}">'
        f"<caption>{clean(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>{foot}</table></div>"
    )


def _head(column: Column, sortable: bool) -> str:
    said = clean(column.heading)
    inner = f'<button type="button">{said}</button>' if sortable else said
    return f'<th scope="col"{_side(column)}>{inner}</th>'


def _cells(found: Sequence[Column], i: int) -> str:
    first, *rest = found
    return f'<th scope="row">{clean(first.cells[i])}</th>' + "".join(f"<td{_side(c)}>{clean(c.cells[i])}</td>" for c in rest)


def _side(column: Column) -> str:
    return ' class="n"' if column.right else ""


def order(keys: Sequence[Any]) -> list[int]:
    """Rows from the smallest key to the largest, equal ones as they stand; rows without one come last.

    >>> order([3, None, 1])
    [2, 0, 1]
    """
    known = sorted((i for i, key in enumerate(keys) if key is not None), key=lambda i: (keys[i], i))
    return known + [i for i, key in enumerate(keys) if key is None]
