"""JUnit XML, as GitLab, Jenkins and GitHub's test reporters read it: a gate, a budget or a measured step is a test case.

Format: the ``testsuites``/``testsuite``/``testcase`` elements with ``failure``, ``error`` and ``skipped`` that those readers share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from roofline.report.diff import Diff
from roofline.report.model import MeasuredResult, Report, Row


@dataclass(frozen=True, slots=True)
class Case:
    """One test case. ``outcome`` is passed, failure, error or skipped; ``message`` says why it did not pass."""

    name: str
    outcome: str = "passed"
    message: str = ""
    time_s: float | None = None


def of_diff(found: Diff) -> str:
    """Every gate of a comparison; its suite carries what was compared."""
    cases = [Case(g.rule, "passed" if g.held else "failure", "\n".join(g.found)) for g in found.gates]
    return document([(f"roofline diff {found.base} {found.head}", cases)])


def of_report(report: Report) -> str:
    """Every step: passed when its measurement may be believed, skipped where none was made."""
    return document([(f"roofline {report.workload}", [_case(row) for row in report.rows])])


def _case(row: Row) -> Case:
    found = row.measured
    if found is None:
        return Case(row.id, "skipped", row.unavailable.get("measured", "not measured"))
    if found.check is not None and not found.check.passed:
        return Case(row.id, "failure", f"the result is off by {found.check.error:.3g}, more than {found.check.tolerance:.3g}", _time(found))
    if found.faster_than_bound:
        return Case(row.id, "failure", "faster than its bound: the profile or the count of the work is wrong", _time(found))
    if found.status != "ok":
        return Case(row.id, "error", "; ".join([found.status, *found.notes]), _time(found))
    return Case(row.id, time_s=_time(found))


def _time(found: MeasuredResult) -> float | None:
    return found.time_s if found.time_s > 0 else None


def document(suites: Iterable[tuple[str, Sequence[Case]]]) -> str:
    """The whole file from named suites of cases."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for name, cases in suites:
        counts = {what: sum(c.outcome == what for c in cases) for what in ("failure", "error", "skipped")}
        lines.append(
            f'  <testsuite name={_attribute(name)} tests="{len(cases)}" failures="{counts["failure"]}" '
            f'errors="{counts["error"]}" skipped="{counts["skipped"]}">'
        )
        lines += [line for case in cases for line in _element(name, case)]
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _element(suite: str, case: Case) -> list[str]:
    time = "" if case.time_s is None else f' time="{case.time_s:.9f}"'
    opening = f"    <testcase classname={_attribute(suite)} name={_attribute(case.name)}{time}"
    if case.outcome == "passed":
        return [opening + "/>"]
    first = case.message.split("\n", 1)[0]
    inner = f"      <{case.outcome} message={_attribute(first)}>{escape(_clean(case.message))}</{case.outcome}>"
    return [opening + ">", inner, "    </testcase>"]


_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _clean(text: str) -> str:
    """What XML 1.0 can hold of a text; the rest as escapes."""
    return _FORBIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))
