"""Assertions of a workload file against its report, for ``analyze --check``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roofline.errors import UsageError
from roofline.report.model import Report
from roofline.report.paths import SHORT, lookup
from roofline.report.rows import NO_HARDWARE
from roofline.spec.limits import limit, not_ordered
from roofline.workload.workload import Expectation

CLOSE = 1e-9
"""Relative difference under which two numbers are equal."""

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether an assertion held, and the sentence that says so."""

    expectation: Expectation
    held: bool
    message: str


def check(report: Report, expectations: tuple[Expectation, ...]) -> tuple[Outcome, ...]:
    """Every assertion against the report.

    Raises:
        UsageError: assertions that name nothing in the report, need a device where none was named, or compare what has no order;
            all of them, with their lines.
    """
    outcomes, refusals = [], []
    for e in expectations:
        try:
            outcomes.append(_outcome(report, e))
        except UsageError as refused:
            refusals.append(f"expect, line {e.line}: {refused}")
    if refusals:
        raise UsageError("\n".join(refusals))
    return tuple(outcomes)


def _outcome(report: Report, e: Expectation) -> Outcome:
    actual = lookup(report, e.path)
    why = _why_none(report, e.path) if actual is None else ""
    if actual is None and report.hardware is None and why in ("", NO_HARDWARE) and str(e.value).strip() != "null":
        raise UsageError(f"{e.path}: {NO_HARDWARE}")
    held = _holds(actual, e)
    shown = f"{actual:.6g}" if isinstance(actual, float) else str(actual).lower() if isinstance(actual, bool) else str(actual)
    verb = "holds" if held else "does not hold"
    return Outcome(e, held, f"{e.path} {e.comparison} {e.value}: {verb} (it is {shown}{f': {why}' if why else ''})")


def _why_none(report: Report, path: str) -> str:
    """The reason that the report gives for a figure that it lacks."""
    name, _, rest = path.partition(".")
    reasons, parts = lookup(report, f"{name}.unavailable"), SHORT.get(rest, rest).split(".")
    return str(next((reasons[part] for part in parts if part in reasons), ""))


def _holds(actual: Any, e: Expectation) -> bool:
    wanted = str(e.value).strip()
    number = None if isinstance(actual, (bool, str)) or actual is None else limit(e.path, wanted)
    if e.comparison in ("==", "!="):
        return _equal(actual, wanted, number) is (e.comparison == "==")
    if actual is None:
        return False
    if number is None or isinstance(actual, (bool, str)):
        raise UsageError(f"{e.path}: {not_ordered(wanted, e.comparison)}")
    return _ORDER[e.comparison](actual, number)


def _equal(actual: Any, wanted: str, number: float | None) -> bool:
    if isinstance(actual, bool):
        return wanted == str(actual).lower()
    if number is not None and isinstance(actual, (int, float)):
        return math.isclose(actual, number, rel_tol=CLOSE)
    return wanted == ("null" if actual is None else str(actual))
