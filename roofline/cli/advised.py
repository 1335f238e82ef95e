"""From what a command line names to advice: a workload, a report or a trace, told apart by what the file begins with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline.cli.outcome import settings, warn
from roofline.errors import UsageError

if TYPE_CHECKING:
    from roofline.decide.advise.advise import Asked
    from roofline.decide.advise.measured import Measured
    from roofline.decide.advise.situation import Situation
    from roofline.hardware.profile import Hardware
    from roofline.report.advice import AdviceReport
    from roofline.report.model import Input

LOOKED_AT = 4096
"""Bytes of a file by which a trace, which may be large, is told from a report."""
VENDOR = "vendor"
GZIP = b"\x1f\x8b"
TRACE_KEYS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"displayTimeUnit"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The words of the command line."""

    subject: str
    hardware: str | None
    overrides: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    by: str = "auto"
    least: float = 1.02
    allow: str = "approximate"
    top: int = 10
    link: str = ""
    steps: str | None = None
    partial: bool = False

    def asked(self) -> Asked:
        """What is asked of the advice, checked."""
        from roofline.decide.advise.advise import Asked

        found = Asked(by=self.by, least=self.least, top=self.top, allow=self.allow)
        found.check()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What advice starts from."""

    now: Situation
    measured: Measured | None
    source: str
    inputs: tuple[Input, ...]


def advised(given: Given) -> AdviceReport:
    """The advice.

    Raises:
        RooflineError: an input that cannot be read, or options that cannot be obeyed.
    """
    from roofline.decide.advise.advise import advise

    asked = given.asked()
    start = start_of(given)
    return advise(start.now, asked, measured=start.measured, source=start.source, inputs=start.inputs)


def start_of(given: Given) -> Start:
    """The situation that the input describes."""
    sort = sort_of(given.subject)
    if sort == "workload":
        return _workload(given)
    if given.overrides:
        raise UsageError(f"--set changes a workload, and '{given.subject}' is a {sort}")
    return _report(given) if sort == "report" else _trace(given)


def sort_of(subject: str) -> str:
    """``workload``, ``report`` or ``trace``, by the first bytes of a JSON file; everything that is none is a workload."""
    path = Path(subject)
    if subject == "-" or not subject.endswith((".json", ".gz")) or not path.is_file():
        return "workload"
    with path.open("rb") as stream:
        head = stream.read(LOOKED_AT)
    if head.startswith(GZIP) or head.lstrip().startswith(b"["):
        return "trace"
    if b'"schema"' in head and b'"tool"' in head:
        return "report"
    return "trace" if any(mark in head for mark in TRACE_KEYS) else "workload"


def _profile(name: str) -> tuple[Hardware, Input]:
    from roofline.report.model import Input
    from roofline.spec.hardware import load_hardware

    return load_hardware(name), Input.of_hardware(name)


def _others(given: Given, chosen: Hardware) -> tuple[Hardware, ...]:
    from roofline.spec.find import hardware_names
    from roofline.spec.hardware import load_hardware

    names = [n for word in given.also for n in (hardware_names() if word == VENDOR else (word,))]
    found = [load_hardware(n) for n in dict.fromkeys(names)]
    kept = [h for h in found if h.name in given.also or h.path in given.also or h.vendor == chosen.vendor or VENDOR not in given.also]
    return tuple(h for h in kept if h.name != chosen.name)


def _needed(name: str | None, what: str) -> str:
    name = name or settings.hardware
    if name is None:
        raise UsageError(f"{what} names no device: add -H NAME (roofline hardware list shows them)")
    return name


def _workload(given: Given) -> Start:
    from roofline.decide.advise.workload_source import of_workload
    from roofline.report.model import Input
    from roofline.spec.workload import load_workload

    workload = load_workload(given.subject, given.overrides)
    profile, named = _profile(_needed(given.hardware or workload.hardware, f"'{given.subject}'"))
    now, measured = of_workload(given.subject, given.overrides, workload, profile, _others(given, profile))
    inputs = (Input(role="workload", path=given.subject, sha256=workload.sha256), named)
    return Start(now=now, measured=measured, source="workload", inputs=inputs)


def _report(given: Given) -> Start:
    from roofline.decide.advise.report_source import measured_of_report, workload_of_report
    from roofline.report.load import load
    from roofline.report.model import Input, Report
    from roofline.report.trace import TraceReport
    from roofline.spec.source import read_source

    report = load(given.subject)
    if isinstance(report, TraceReport):
        return _traced(given, report, _profile(_needed(given.hardware or report.hardware, f"'{given.subject}'"))[0])
    if not isinstance(report, Report):
        raise UsageError(f"'{given.subject}' holds no steps to advise on: give a workload, a report of analyze or measure, or a trace")
    device = str(report.hardware["name"]) if report.hardware else None
    profile, named = _profile(_needed(given.hardware or device, f"'{given.subject}'"))
    text = read_source(given.subject, max_bytes=2**26).text
    workload = workload_of_report(report, given.subject)
    now = _situation(given, workload, profile, "a report does not say what grows with the batch; give the workload file")
    inputs = (Input.of_text("report", given.subject, text), named)
    measured = measured_of_report(report) if given.hardware in (None, device) else None
    return Start(now=now, measured=measured, source="report", inputs=inputs)


def _situation(given: Given, workload: Any, profile: Hardware, why: str) -> Situation:
    from roofline.decide.advise.situation import Situation

    return Situation(workload=workload, hardware=profile, settings=None, without_batch=why, others=_others(given, profile))


def _trace(given: Given) -> Start:
    from roofline.ingest.trace_report import OTHER_DEVICE, ingest_trace

    profile, named = _profile(_needed(given.hardware, f"the trace '{given.subject}'"))
    report = ingest_trace(given.subject, profile, link_name=given.link, steps=given.steps, partial=given.partial, inputs=(named,))
    warn(notice for notice in report.warnings if notice.code == OTHER_DEVICE)
    return _traced(given, report, profile)


def _traced(given: Given, report: Any, profile: Hardware) -> Start:
    from roofline.decide.advise.trace_source import measured_of_trace, workload_of_trace
    from roofline.ingest.trace_steps import steps_of

    steps = steps_of(report)
    workload = workload_of_trace(report, steps, Path(given.subject).name)
    now = _situation(given, workload, profile, "a trace does not say what grows with the batch")
    return Start(now=now, measured=measured_of_trace(report, steps), source="trace", inputs=report.inputs)
