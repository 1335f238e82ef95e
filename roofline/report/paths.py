"""Names for the figures of a report: ``attention.bound.limiter``, ``total.bound.time_s``, ``total.memory.fits``.

The first part is a row's id or ``total``; the rest are keys. ``limiter`` and ``time_s`` alone mean those of the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roofline.errors import UsageError, did_you_mean
from roofline.report.model import Report
from roofline.report.shape import encode

SHORT = {"limiter": "bound.limiter", "next": "bound.next", "time_s": "bound.time_s", "fits": "memory.fits"}
"""Keys that may stand without their parent."""


def subject(report: Report, name: str) -> dict[str, Any]:
    """The row of that id, or the totals, as plain values.

    Raises:
        UsageError: no such row; the message names the nearest.
    """
    if name == "total":
        found: dict[str, Any] = encode(report.totals)
        return found
    row = report.row(name)
    if row is None:
        raise UsageError(f"the report has no row '{name}'; {did_you_mean(name, [*(r.id for r in report.rows), 'total'])}")
    plain: dict[str, Any] = encode(row)
    return plain


def lookup(report: Report, path: str) -> Any:
    """The value at a path; None where it could not be given.

    Raises:
        UsageError: a part of the path names nothing; the message names the nearest.
    """
    name, _, rest = path.partition(".")
    if not rest:
        raise UsageError(f"'{path}' names no figure; write ROW.KEY, such as {name}.bound.time_s")
    return follow(subject(report, name), SHORT.get(rest, rest), path)


def follow(value: Any, rest: str, path: str) -> Any:
    """The value below ``value`` under dotted keys."""
    for key in rest.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping) or key not in value:
            known = list(value) if isinstance(value, Mapping) else []
            raise UsageError(f"'{path}' names nothing: no '{key}' there; {did_you_mean(key, known)}")
        value = value[key]
    return value
