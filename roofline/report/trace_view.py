"""A trace's report for people: the coverage first, then where the time went, what the device waited for, what is worth doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from roofline.report.columns import Column, seconds
from roofline.report.csv_view import cell
from roofline.report.model import arithmetic
from roofline.report.sentences import percent
from roofline.report.text import can_encode, print_columns, styled
from roofline.report.trace import TraceReport, TraceRow
from roofline.units import Dimension, format_quantity

MOST_ROWS = 25
"""Rows of the table; the rest is summed up in a line, and ``--all`` shows it."""
MOST_PARTS = 5
LONGEST = 36


def print_trace(report: TraceReport, console: Console, *, every: bool = False) -> None:
    """All of it; ``every`` operator instead of the longest."""
    plain = can_encode(console)

    def shown(text: str) -> str:
        return text if plain else text.replace("µs", "us")

    console.print(styled(shown(coverage_line(report)), "bold"))
    for line in summary_lines(report):
        console.print(styled(shown(line)))
    if report.rows:
        console.print()
        columns = [replace(c, cells=tuple(shown(cell) for cell in c.cells)) for c in row_columns(report, every=every)]
        print_columns(columns, console)
        rest = None if every else rest_line(report)
        if rest:
            console.print(styled(rest))
    console.print()
    for line in [*closing_lines(report), *_profile_lines(report)]:
        console.print(styled(shown(line)))


def _profile_lines(report: TraceReport) -> list[str]:
    if report.hardware or not report.kernels:
        return []
    if report.suggested_hardware:
        return [f"roofs: the trace's device looks like {report.suggested_hardware}; add -H {report.suggested_hardware}"]
    return ["roofs: no profile matches the trace's device; name one with -H (roofline hardware list)"]


def coverage_line(report: TraceReport) -> str:
    """How much of the GPU time is spent in operators whose work is known."""
    if report.coverage is None:
        return f"coverage unknown: {'every kernel of the trace takes 0 s' if report.kernels else 'the trace has no GPU kernels'}"
    return (
        f"coverage {100 * report.coverage:.1f} %: the work of {seconds(report.known_time_s)} of {seconds(report.gpu_time_s)} "
        f"in {report.kernels} kernels is known"
    )


def summary_lines(report: TraceReport) -> list[str]:
    """Busy and idle, and which steps these are."""
    device = f" on {report.hardware}" if report.hardware else ""
    steps = f", steps {', '.join(map(str, report.selected_steps))}" if report.selected_steps else ""
    devices = f" over {report.devices} devices" if report.devices > 1 else ""
    found = [
        f"GPU busy {seconds(report.busy_s)} of {seconds(report.window_s)}{devices}{device}{steps}; kernels add up to "
        f"{seconds(report.gpu_time_s)}, {report.copies} copies and sets to {seconds(report.copy_time_s)}"
    ]
    if len(report.by_phase_s) > 1:
        found.append("by phase: " + ", ".join(f"{name} {seconds(time)}" for name, time in report.by_phase_s.items()))
    return found


def row_columns(report: TraceReport, *, every: bool = False) -> list[Column]:
    """Operators by time."""
    rows = report.rows if every else report.rows[:MOST_ROWS]

    def cells(of: Sequence[str]) -> tuple[str, ...]:
        return tuple(of)

    found = [
        Column("operator", cells([_short(r.name) for r in rows]), right=False),
        Column("phase", cells([r.phase for r in rows]), right=False, priority=6),
        Column("calls", cells([str(r.calls) for r in rows]), priority=4),
        Column("kernels", cells([str(r.kernels) for r in rows]), priority=7),
        Column("time", cells([seconds(r.time_s) for r in rows])),
        Column("share", cells([percent(r.share) for r in rows])),
        Column("work of a call", cells([_work(r) for r in rows]), right=False, priority=5),
        Column("FLOP", cells([_flop(r) for r in rows]), priority=2),
        Column("HBM", cells([_bytes(r) for r in rows]), priority=2),
    ]
    if report.hardware:
        found += [
            Column("of roof", cells(["-" if r.share_of_roof is None else percent(r.share_of_roof) for r in rows]), priority=1),
            Column("binds", cells([r.limiter or "-" for r in rows]), right=False, priority=1),
        ]
    return found


def rest_line(report: TraceReport) -> str | None:
    """What the table leaves out."""
    left = report.rows[MOST_ROWS:]
    if not left:
        return None
    return f"and {len(left)} more operators, {percent(sum(r.share for r in left))} of the time; --all shows them"


def closing_lines(report: TraceReport) -> list[str]:
    """Unknown work, waiting, overlap, and what would help most end to end."""
    work = [*_unknown_lines(report), *_note_lines(report)]
    return [*work, *_idle_lines(report), *_overlap_lines(report), *_step_lines(report), *_worth_lines(report)]


def _unknown_lines(report: TraceReport) -> list[str]:
    times: dict[str, float] = {}
    for row in report.rows:
        if row.unknown:
            times[row.unknown] = times.get(row.unknown, 0.0) + row.time_s
    listed = sorted(times.items(), key=lambda item: (-item[1], item[0]))
    lines = [f"  {seconds(time)}: {reason}" for reason, time in listed[:MOST_PARTS]]
    if len(listed) > MOST_PARTS:
        lines.append(f"  {seconds(sum(t for _, t in listed[MOST_PARTS:]))}: {len(listed) - MOST_PARTS} further reasons (--format json)")
    return ["unknown work:", *lines] if lines else []


def _note_lines(report: TraceReport) -> list[str]:
    """Rows whose work was counted from something else than shapes."""
    noted = [row for row in report.rows if row.note]
    lines = [f"{row.id}: {row.note}" for row in noted[:MOST_PARTS]]
    return [*lines, f"{len(noted) - MOST_PARTS} more rows counted so (--format json)"] if len(noted) > MOST_PARTS else lines


def _idle_lines(report: TraceReport) -> list[str]:
    idle = report.idle
    if not idle.time_s:
        return []
    lines = [f"idle {seconds(idle.time_s)} ({percent(idle.share)}) in {idle.gaps} gaps:"]
    lines += [f"  {seconds(time)} {cause}: {idle.causes[cause]}" for cause, time in idle.by_cause_s.items()]
    first = idle.longest[0]
    return [*lines, f"  the longest, {seconds(first.time_s)} ({first.cause}), was before {_short(first.before)}"]


def _overlap_lines(report: TraceReport) -> list[str]:
    talk = report.overlap
    found = []
    if talk.communication_s:
        found.append(
            f"communication {seconds(talk.communication_s)}, of which {seconds(talk.exposed_s)} "
            f"({percent(talk.exposed_s / talk.communication_s)}) runs beside nothing else"
        )
    if len(report.streams) > 1:
        streams = ", ".join(f"{s.stream} on device {s.device} {seconds(s.busy_s)}" for s in report.streams[:8])
        found.append(f"busy by stream: {streams}{' ...' if len(report.streams) > 8 else ''}")
    return found


def _step_lines(report: TraceReport) -> list[str]:
    if not report.steps:
        return []
    shown = ", ".join(f"{s.number}: {seconds(s.host_s)} with {seconds(s.busy_s)} busy" for s in report.steps[:MOST_PARTS])
    return [f"steps on the host: {shown}{' ...' if len(report.steps) > MOST_PARTS else ''}"]


def _worth_lines(report: TraceReport) -> list[str]:
    path = report.critical_path
    if not report.ranking:
        return []
    lines = [f"critical path {seconds(path.time_s)}: {seconds(path.gpu_s)} in events; {seconds(path.off_path_s)} run beside it"]
    for part in report.ranking[:MOST_PARTS]:
        limit = "all of it" if part.limit_speedup is None else f"{part.limit_speedup:.3g}x end to end were it free"
        roof = f", {part.roof_speedup:.3g}x were it at its roof" if part.roof_speedup is not None else ""
        lines.append(f"  {percent(part.fraction)} {part.part}: {limit}{roof}")
    return lines


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."


def _work(row: TraceRow) -> str:
    if not row.work:
        return "unknown"
    first = row.work[0]
    numbers = {key: value for key, value in first.fields.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    sizes = " ".join(f"{key}={value}" for key, value in numbers.items())
    direction = " backward" if first.direction == "backward" else ""
    more = f" (+{len(row.work) - 1})" if len(row.work) > 1 else ""
    return _cut(f"{first.op}{direction} {sizes}{more}")


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _flop(row: TraceRow) -> str:
    return "-" if row.flop is None else format_quantity(arithmetic(row.flop), Dimension.FLOP)


def _bytes(row: TraceRow) -> str:
    return "-" if row.hbm_bytes is None else format_quantity(row.hbm_bytes, Dimension.BYTES)


def trace_csv(report: TraceReport) -> str:
    """One line an operator, SI units in the headings, full precision."""
    import csv
    import io

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for i, row in enumerate(report.rows):
        flat = _flat(row)
        if i == 0:
            writer.writerow(flat)
        writer.writerow([cell(v) for v in flat.values()])
    return stream.getvalue() or ",".join(FLAT_KEYS) + "\n"


FLAT_KEYS = (
    "id", "name", "lane", "phase", "gradient_of", "calls", "kernels", "time_s", "share", "path_s", "op", "direction", "unknown", "note",
    "tensor_flop", "vector_flop", "sfu_flop", "hbm_bytes", "link_bytes", "intensity_flop_per_byte", "bound_s", "limiter", "share_of_roof",
)  # fmt: skip
"""Headings, the same with and without rows."""


def _flat(row: TraceRow) -> dict[str, object]:
    flop = row.flop or {}
    values: dict[str, object] = {key: getattr(row, key, None) for key in FLAT_KEYS}
    values["op"] = " + ".join(w.op for w in row.work) or None
    values["direction"] = " + ".join(w.direction for w in row.work) or None
    return values | {f"{engine}_flop": flop.get(engine) for engine in ("tensor", "vector", "sfu")}
