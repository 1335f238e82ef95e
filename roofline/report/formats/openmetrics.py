"""OpenMetrics text (as Prometheus, and GitLab's metrics reports read it): gauges with units in their names, ``# EOF`` at the end.

Format: the OpenMetrics specification 1.0, section on the text format. No time stamps: the same report gives the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from roofline.report.diff import Diff
from roofline.report.formats.series import device, points
from roofline.report.model import Report


@dataclass(slots=True)
class Family:
    """One metric: its name without prefix, unit (the name ends in it, or it is empty), help, and labelled values in order."""

    name: str
    unit: str
    help: str
    samples: list[tuple[dict[str, str], float]] = field(default_factory=list)


def of_reports(*reports: Report) -> str:
    """Times, FLOP and bytes of each step and of the whole; a metric may have one value for the same labels, the first."""
    families = _families()
    for report in reports:
        _fill(families, report)
    for family in families.values():
        family.samples = list({tuple(labels.items()): (labels, value) for labels, value in reversed(family.samples)}.values())[::-1]
    return text(families.values())


def _families() -> dict[str, Family]:
    return {
        "bound": Family("bound_seconds", "seconds", "Lower bound of the time, all repetitions."),
        "estimate": Family("estimate_seconds", "seconds", "Estimated time, all repetitions."),
        "estimate_low": Family("estimate_low_seconds", "seconds", "Lower end of the 90 % band of the estimate."),
        "estimate_high": Family("estimate_high_seconds", "seconds", "Upper end of the 90 % band of the estimate."),
        "measured": Family("measured_seconds", "seconds", "Median of the measured time, all repetitions."),
        "measured_low": Family("measured_low_seconds", "seconds", "Lower end of the 95 % interval of the measurement."),
        "measured_high": Family("measured_high_seconds", "seconds", "Upper end of the 95 % interval of the measurement."),
        "flop": Family("work_flop", "flop", "FLOP (2 for a multiply-add) of one execution, by engine."),
        "bytes": Family("moved_bytes", "bytes", "Bytes that one execution moves, by memory level."),
    }


def _fill(families: Mapping[str, Family], report: Report) -> None:
    common = {"workload": report.workload, **({"hardware": str(device(report))} if device(report) else {})}
    for point in points(report):
        labels = {**common, "step": point.subject}
        for suffix, value in (("", point.time_s), ("_low", point.low_s), ("_high", point.high_s)):
            if value is not None:
                families[point.kind + suffix].samples.append((labels, value))
    for row in report.rows:
        _by_key(families["flop"], {**common, "step": row.id}, "engine", row.flop)
        _by_key(families["bytes"], {**common, "step": row.id}, "level", row.bytes)


def _by_key(family: Family, labels: Mapping[str, str], name: str, values: Mapping[str, float]) -> None:
    family.samples += [({**labels, name: key}, value) for key, value in values.items()]


def of_diff(found: Diff) -> str:
    """What a pull request changed: ratios of each row, of the whole, and how many gates failed."""
    rows = Family("time_ratio", "", "Time of the head over that of the base; 1 is no change.")
    rows.samples = [({"step": r.id}, r.time_ratio) for r in found.rows if r.time_ratio is not None]
    if found.total_time_ratio is not None:
        rows.samples.append(({"step": "total"}, found.total_time_ratio))
    counts = Family("compared_rows", "", "Rows of the comparison, by what became of them.")
    changed = sum(r.status == "changed" for r in found.rows)
    for name, value in (
        ("same", found.compared - changed),
        ("changed", changed),
        ("added", len(found.added)),
        ("removed", len(found.removed)),
    ):
        counts.samples.append(({"status": name}, value))
    gates = Family("gate_failed", "", "1 where a gate failed, 0 where it held.")
    gates.samples = [({"rule": g.rule}, float(not g.held)) for g in found.gates]
    return text((rows, counts, gates))


def text(families: Iterable[Family]) -> str:
    """The families that have samples, as OpenMetrics text."""
    return "\n".join([*(line for f in families if f.samples for line in _lines(f)), "# EOF"]) + "\n"


def _lines(family: Family) -> Iterator[str]:
    name = f"roofline_{family.name}"
    yield f"# TYPE {name} gauge"
    if family.unit:
        yield f"# UNIT {name} {family.unit}"
    yield f"# HELP {name} {family.help}"
    for labels, value in family.samples:
        inner = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items())
        yield f"{name}{{{inner}}} {float(value)!r}"


def _escaped(label: str) -> str:
    r"""A label value: backslash, quote and line feed are escaped.

    >>> _escaped('a"b')
    'a\\"b'
    """
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
