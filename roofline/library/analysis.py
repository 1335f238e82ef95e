"""Counting, bounding, comparing: `analyze`, `estimate`, `amdahl`, `what_if`, `diff`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from roofline.errors import MissingCapabilityError, UsageError
from roofline.hardware.profile import Hardware
from roofline.library.files import Path, hardware_of, load_report, workload_of
from roofline.report.model import EstimateResult, Report
from roofline.spec.words import Overrides, words
from roofline.workload.workload import Workload

if TYPE_CHECKING:
    from roofline.predict.amdahl import Effect
    from roofline.report.diff import Diff
    from roofline.report.whatif import Change


def analyze(workload: Workload | Path, hardware: Hardware | Path | None = None, *, overrides: Overrides = ()) -> Report:
    """What ``roofline analyze`` reports: FLOP and bytes of each step, bound, estimate, what binds.

    Without a device, here and in the workload, the report has the counts alone.

    Raises:
        UsageError: no such name, or a device that lacks a number format or a link that a step needs.
        InputError: all problems in the files, each with its place.

    >>> report = analyze("gpt2_medium", "h100-sxm")
    >>> report.totals.bound.limiter, round(1e3 * report.totals.bound.time_s, 2)
    ('hbm', 18.21)
    """
    from roofline.report.build import analyze as build
    from roofline.report.of_model import noticed
    from roofline.spec.source import read_source

    found, named = workload_of(workload, overrides)
    chosen = hardware if hardware is not None else found.hardware
    device, inputs = (None, ()) if chosen is None else ((given := hardware_of(chosen))[0], (given[1],))
    built = build(found, device, [named, *inputs])
    if isinstance(workload, Workload):
        return built
    return noticed(built, read_source(found.path), words(overrides), device)


def estimate(workload: Workload | Path, hardware: Hardware | Path | None = None, *, overrides: Overrides = ()) -> EstimateResult:
    """What the whole will really take on the device: ``time_s``, and the band ``low_s`` to ``high_s`` of 90 % of runs.

    Raises:
        MissingCapabilityError: there is no estimate, with the reason: no parameters for a kernel, or no device.
        UsageError, InputError: as `analyze`.

    >>> found = estimate("gpt2_medium", "h200-sxm", overrides={"attention.implementation": "flash"})
    >>> found.low_s < found.time_s < found.high_s
    True
    """
    totals = analyze(workload, hardware, overrides=overrides).totals
    if totals.estimate is None:
        raise MissingCapabilityError(f"no estimate: {totals.unavailable.get('estimate', 'no device is named')}")
    return totals.estimate


def amdahl(fraction: float | Sequence[tuple[float, float]], speedup: float | None = None) -> Effect:
    """The whole when parts of it become faster: ``amdahl(0.2, 2)``, or several parts as pairs of share and speedup.

    Shares are of the time before, of parts that run one after the other; ``math.inf`` as a speedup is the limit. Where steps overlap
    `what_if` asks a workload.

    Raises:
        UsageError: a share outside of 0 to 1, a speedup that is not above 0, or shares that exceed 1 together.

    >>> round(amdahl(0.2, 2).speedup, 3)
    1.111
    >>> round(amdahl([(0.2, 2), (0.5, 4)]).time, 3)
    0.525
    """
    from roofline.predict.amdahl import Part
    from roofline.predict.amdahl import amdahl as law

    if isinstance(fraction, (int, float)):
        if speedup is None:
            raise UsageError("one share needs its speedup: amdahl(0.2, 2)")
        return law([Part(fraction, speedup)])
    if speedup is not None:
        raise UsageError("several parts carry their own speedups: amdahl([(0.2, 2), (0.5, 4)])")
    return law([Part(*pair) for pair in fraction])


def what_if(
    workload: Path,
    hardware: Path | None = None,
    *,
    swap: Overrides = (),
    faster: Mapping[str, float] | None = None,
    overrides: Overrides = (),
) -> Change:
    """What a change is worth end to end, by bounds: other fields or params (``swap``), or steps made faster by factors.

    Raises:
        UsageError: neither or both of them, or a step that does not exist.
        InputError: all problems in the files, each with its place.

    >>> change = what_if("gpt2_medium", "h100-sxm", swap={"attention.implementation": "flash"})
    >>> round(change.speedup, 2), change.limiter_after
    (2.72, 'tensor')
    """
    from roofline.report.whatif import faster_steps, swapped

    name, device = os.fspath(workload), None if hardware is None else os.fspath(hardware)
    if bool(faster) == bool(words(swap)):
        raise UsageError("give either swap={'STEP.FIELD': value} or faster={'STEP': factor}")
    if faster:
        return faster_steps(name, device, words(overrides), faster)
    return swapped(name, device, words(overrides), words(swap))


def diff(
    base: Report | Path,
    head: Report | Path,
    *,
    tolerance: float = 0.03,
    fail_on: Sequence[str] = (),
    allow_context_change: bool = False,
) -> Diff:
    """Two reports row by row: what changed and why; measured times better, worse, same or unclear.

    ``tolerance`` is the share by which a measured time may change; ``fail_on`` are rules as on the command line, and ``gates`` of the
    result say which of them held.

    Raises:
        UsageError: reports that are not comparable, or a text that is no rule.
        MissingCapabilityError: no row of one has a partner in the other.
        InputError: a file that is no report.

    >>> flash = analyze("gpt2_medium", "h100-sxm", overrides={"attention.implementation": "flash"})
    >>> found = diff(analyze("gpt2_medium", "h100-sxm"), flash, fail_on=["total.bound.time_s>+2%"])
    >>> round(found.total_time_ratio, 3), [gate.held for gate in found.gates]
    (0.367, [True])
    """
    from dataclasses import replace

    from roofline.report.diff import compare
    from roofline.report.gates import judge

    if not 0 <= tolerance < 1:
        raise UsageError(f"tolerance {tolerance:g} is not a share from 0 to below 1; 3 % is 0.03")
    (first, one), (second, other) = _report(base, "base"), _report(head, "head")
    found = compare(first, second, one, other, allow_context_change=allow_context_change, tolerance=tolerance)
    return replace(found, gates=judge(list(fail_on), found, first, second))


def _report(given: Report | Path, role: str) -> tuple[Report, str]:
    return (given, role) if isinstance(given, Report) else (load_report(given), os.fspath(given))
