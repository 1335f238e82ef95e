"""A budget for a workload: assertions on its report, and gates against a stored one, as one sentence for each that does not hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from roofline.errors import UsageError
from roofline.library.analysis import analyze, diff
from roofline.library.files import Path, load_workload
from roofline.spec.words import Overrides

if TYPE_CHECKING:
    from roofline.hardware.profile import Hardware
    from roofline.report.model import Report
    from roofline.workload.workload import Expectation

_ASSERTION = re.compile(r"\s*([A-Za-z0-9_./-]+)\s*(<=|>=|==|!=|<|>)\s*(.+?)\s*")


def exceeded(
    workload: Path,
    hardware: Hardware | Path | None = None,
    *expect: str,
    overrides: Overrides = (),
    baseline: Report | Path | None = None,
    fail_on: Sequence[str] = (),
) -> tuple[Report, list[str]]:
    """The report, and what it exceeds: assertions given, those of the workload's own ``expect``, and gates against the baseline.

    Raises:
        UsageError: nothing to check, an assertion that cannot be read, ``fail_on`` without a baseline.
        InputError: all problems in the files, each with its place.

    >>> exceeded("gpt2_medium", "h100-sxm", "total.bound.time_s <= 10 ms")[1]
    ['total.bound.time_s <= 10 ms: does not hold (it is 0.0182144)']
    """
    read = load_workload(workload, overrides)
    wanted = (*read.expect, *(_assertion(text) for text in expect))
    if bool(fail_on) != (baseline is not None):
        raise UsageError("a baseline needs rules, and rules need a baseline: give both baseline= and fail_on=")
    if not wanted and not fail_on:
        raise UsageError(f"{os.fspath(workload)}: nothing was checked; give assertions such as 'total.bound.time_s <= 20 ms'")
    report = analyze(workload, hardware, overrides=overrides)
    return report, [*_broken(report, wanted), *(_failed(baseline, report, fail_on) if baseline is not None else ())]


def _assertion(text: str) -> Expectation:
    from roofline.workload.workload import Expectation

    match = _ASSERTION.fullmatch(text)
    if match is None or "." not in match.group(1):
        raise UsageError(f"'{text}' is no assertion: write STEP.KEY or total.KEY and a comparison, such as 'total.bound.time_s <= 20 ms'")
    path, comparison, value = match.groups()
    return Expectation(path=path, comparison=comparison, value=value)


def _broken(report: Report, wanted: tuple[Expectation, ...]) -> Iterator[str]:
    from roofline.report.expect import check

    yield from (outcome.message for outcome in check(report, wanted) if not outcome.held)


def _failed(baseline: Report | Path, report: Report, rules: Sequence[str]) -> Iterator[str]:
    for gate in diff(baseline, report, fail_on=rules).gates:
        if not gate.held:
            yield f"{gate.rule}: {', '.join(gate.found)}"
