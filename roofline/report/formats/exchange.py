"""Names of the formats of other tools, and the text that each gives; a format is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofline.errors import Problem
    from roofline.report.diff import Diff
    from roofline.report.model import Report

REPORT_FORMATS = ("github-benchmark", "bencher", "junit", "openmetrics")
DIFF_FORMATS = ("junit", "openmetrics")
PROBLEM_FORMATS = ("sarif", "github", "gitlab", "junit")


def report_as(report: Report, chosen: str) -> str:
    """The report in one of `REPORT_FORMATS`."""
    if chosen in ("junit", "openmetrics"):
        from roofline.report.formats import junit, openmetrics

        return junit.of_report(report) if chosen == "junit" else openmetrics.of_reports(report)
    from roofline.report.store import to_json

    if chosen == "bencher":
        from roofline.report.formats.bencher import metrics

        return to_json(metrics(report))
    from roofline.report.formats.github_benchmark import entries

    return to_json(entries(report))


def diff_as(found: Diff, chosen: str) -> str:
    """The comparison in one of `DIFF_FORMATS`."""
    from roofline.report.formats import junit, openmetrics

    return junit.of_diff(found) if chosen == "junit" else openmetrics.of_diff(found)


def problems_as(problems: Sequence[Problem], files: Sequence[str], chosen: str) -> str:
    """What is wrong with the files in one of `PROBLEM_FORMATS`; JUnit names the files that have no problem as well."""
    from roofline import __version__
    from roofline.report.formats import junit
    from roofline.report.formats import problems as views

    if chosen == "sarif":
        return views.to_sarif(problems, f"roofline {__version__}")
    if chosen == "gitlab":
        return views.to_gitlab(problems)
    if chosen == "github":
        return views.to_github(problems)
    wrong = {f: "\n".join(p.render() for p in problems if p.path == f) for f in dict.fromkeys([*files, *(p.path for p in problems)])}
    return junit.document([("roofline validate", [junit.Case(f, "failure" if said else "passed", said) for f, said in wrong.items()])])
