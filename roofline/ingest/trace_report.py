"""From a trace to its report: attribute, count, find what the device waited for, rank what a change would be worth."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from roofline import __version__
from roofline.errors import RooflineError
from roofline.hardware.profile import Hardware, si
from roofline.ingest.trace_events import NONE, Trace, read_trace
from roofline.ingest.trace_link import Links, link
from roofline.ingest.trace_pieces import LINK, Piece, pieces_of
from roofline.ingest.trace_rows import NO_HARDWARE, groups_of, row_of
from roofline.ingest.trace_select import Marked, chosen, marked_steps, steps_of_events
from roofline.ingest.trace_time import common, length, union
from roofline.ingest.trace_waits import CAUSES, Host, Wait, chain, waits
from roofline.predict.amdahl import Part, amdahl
from roofline.report.model import Input, Notice
from roofline.report.trace import (
    TRACE_SCHEMA,
    CriticalPath,
    Gap,
    Idle,
    Overlap,
    Ranked,
    StreamUse,
    TraceReport,
    TraceRow,
    TraceStep,
)
from roofline.spec.find import hardware_names
from roofline.spec.hardware import load_hardware
from roofline.units import Dimension, format_quantity

LONGEST_GAPS = 5
MOST_RANKED = 20
US = 1e-6
MOST_NAMED = 5


OTHER_DEVICE = "W108"
"""Code of the warning that the profile is not of the device that the trace names."""


def ingest_trace(
    path: str,
    hardware: Hardware | None = None,
    *,
    steps: str | None = None,
    link_name: str = "",
    partial: bool = False,
    inputs: Sequence[Input] = (),
) -> TraceReport:
    """The report of a trace file.

    ``hardware`` gives bounds; ``link_name`` is the link that carries collectives; ``steps`` picks marked steps; ``partial`` takes
    what a truncated trace holds; ``inputs`` are further files that the report came from.

    Raises:
        InputError: the file is not a trace that can be read.
        UsageError: steps or a link that do not exist.
    """
    if hardware is not None and link_name:
        hardware.link(link_name)
    trace = read_trace(path, partial=partial)
    own = Input(role="trace", path=path, sha256=trace.sha256)
    return report_of(trace, hardware, steps=steps, link_name=link_name, inputs=(own, *inputs))


def report_of(
    trace: Trace, hardware: Hardware | None = None, *, steps: str | None = None, link_name: str = "", inputs: Sequence[Input] = ()
) -> TraceReport:
    """The report of a trace in memory; see `ingest_trace`."""
    links = link(trace)
    marked = marked_steps(trace)
    step_of = steps_of_events(trace, links, marked)
    wanted = chosen(steps, [s.number for s in marked]) if steps is not None else None
    pieces = pieces_of(trace, links, link_name, _host_link(hardware))
    if wanted is not None:
        pieces = [p for p in pieces if step_of[p.gpu[0]] != NONE and marked[step_of[p.gpu[0]]].number in wanted]
    return _Analysis(trace, links, pieces, hardware).report(marked, step_of, wanted, link_name, inputs)


class _Analysis:
    """Everything about some pieces of a trace."""

    def __init__(self, trace: Trace, links: Links, pieces: list[Piece], hardware: Hardware | None) -> None:
        self.trace, self.pieces, self.hardware = trace, pieces, hardware
        self.piece_of = {i: p for p in pieces for i in p.gpu}
        order = sorted(self.piece_of, key=lambda i: (trace.gpu.start[i], i))
        self.devices: dict[int, list[int]] = {}
        for i in order:
            self.devices.setdefault(trace.lanes[trace.gpu.lane[i]][0], []).append(i)
        host = Host(trace, links)
        self.gaps: list[Wait] = [w for _, events in sorted(self.devices.items()) for w in waits(trace, host, events)]
        longest = max(self.devices.values(), key=self._window, default=[])
        self.path = chain(trace, longest)
        self.path_waits = self._path_waits(host)

    def _path_waits(self, host: Host) -> list[Wait]:
        found = []
        for after, before in zip(self.path, self.path[1:], strict=False):
            start = self.trace.gpu.start[after.event]
            if start > before.until:
                found.append(Wait(before.until, start, host.cause(after.event, before.until), after.event))
        return found

    def _end(self, event: int) -> float:
        return self.trace.gpu.start[event] + self.trace.gpu.length[event]

    def _window(self, events: Sequence[int]) -> float:
        return max(map(self._end, events)) - self.trace.gpu.start[events[0]] if events else 0.0

    def _spans(self, events: Sequence[int]) -> list[tuple[float, float]]:
        return union((self.trace.gpu.start[i], self._end(i)) for i in events)

    def _sum(self, events: Sequence[int]) -> float:
        return math.fsum(self.trace.gpu.length[i] for i in events)

    # ---------------------------------------------------------------- the report
    def report(
        self, marked: Sequence[Marked], step_of: Sequence[int], wanted: set[int] | None, link_name: str, inputs: Sequence[Input]
    ) -> TraceReport:
        """All parts together."""
        trace = self.trace
        events = list(self.piece_of)
        kernels = [i for i in events if trace.gpu_kind[i] == "kernel"]
        known = [i for i in kernels if self.piece_of[i].known.mapped]
        total, known_us = self._sum(kernels), self._sum(known)
        rows = self._rows(self._sum(events))
        busy = sum(length(self._spans(e)) for e in self.devices.values())
        window = sum(self._window(e) for e in self.devices.values())
        worked = [r for r in rows if r.flop is not None]
        warnings, suggested = self._warnings(rows, known_us / total if total else None)
        return TraceReport(
            schema=TRACE_SCHEMA,
            kind="trace",
            tool=f"roofline {__version__}",
            inputs=tuple(inputs),
            coverage=known_us / total if total else None,
            kernels=len(kernels),
            gpu_time_s=total * US,
            known_time_s=known_us * US,
            copies=len(events) - len(kernels),
            copy_time_s=(self._sum(events) - total) * US,
            busy_s=busy * US,
            window_s=window * US,
            events=trace.events,
            partial=trace.partial,
            devices=len(self.devices),
            hardware=self.hardware.name if self.hardware else None,
            suggested_hardware=suggested,
            link=link_name or None,
            by_phase_s=self._phases(),
            known_flop=_summed(worked) if worked else None,
            known_hbm_bytes=math.fsum((r.hbm_bytes or 0.0) * r.calls for r in worked) if worked else None,
            rows=tuple(rows),
            idle=self._idle(window),
            overlap=self._overlap(),
            streams=self._streams(),
            steps=self._steps(marked, step_of, wanted),
            selected_steps=tuple(sorted(wanted)) if wanted is not None else (),
            critical_path=self._critical(),
            ranking=self._ranking(rows),
            warnings=warnings,
            unavailable=_unavailable(bool(kernels), bool(total), bool(worked), self.hardware),
        )

    def _rows(self, total: float) -> list[TraceRow]:
        on_path = {link.event: link.until - self.trace.gpu.start[link.event] for link in self.path}
        found = []
        for group in groups_of(self.pieces):
            path = math.fsum(on_path.get(i, 0.0) for p in group.pieces for i in p.gpu)
            found.append(row_of(group, self.trace, total, path, self.hardware))
        return sorted(found, key=lambda r: (-r.time_s, r.id))

    def _phases(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for piece in self.pieces:
            found[piece.phase] = found.get(piece.phase, 0.0) + self._sum(piece.gpu)
        return {name: found[name] * US for name in sorted(found)}

    def _idle(self, window: float) -> Idle:
        total = math.fsum(w.end - w.start for w in self.gaps)
        causes = _by_cause(self.gaps)
        longest = sorted(self.gaps, key=lambda w: (w.start - w.end, w.start))[:LONGEST_GAPS]
        begin = min((self.trace.gpu.start[e[0]] for e in self.devices.values()), default=0.0)
        return Idle(
            time_s=total * US,
            share=total / window if window else 0.0,
            gaps=len(self.gaps),
            by_cause_s=causes,
            longest=tuple(self._gap(w, begin) for w in longest),
            causes={name: CAUSES[name] for name in causes},
        )

    def _gap(self, wait: Wait, begin: float) -> Gap:
        before = self.piece_of[wait.event].name
        return Gap(start_s=(wait.start - begin) * US, time_s=(wait.end - wait.start) * US, cause=wait.cause, before=before)

    def _overlap(self) -> Overlap:
        sides: list[float] = [0.0, 0.0, 0.0]
        for events in self.devices.values():
            talk = self._spans([i for i in events if self.piece_of[i].lane == LINK])
            work = self._spans([i for i in events if self.piece_of[i].lane != LINK])
            for k, value in enumerate((length(talk), length(work), common(talk, work))):
                sides[k] += value * US
        return Overlap(communication_s=sides[0], compute_s=sides[1], both_s=sides[2], exposed_s=sides[0] - sides[2])

    def _streams(self) -> tuple[StreamUse, ...]:
        by_lane: dict[tuple[int, int], list[int]] = {}
        for i in self.piece_of:
            by_lane.setdefault(self.trace.lanes[self.trace.gpu.lane[i]], []).append(i)
        return tuple(
            StreamUse(device=d, stream=s, events=len(e), sum_s=self._sum(e) * US, busy_s=length(self._spans(e)) * US)
            for (d, s), e in sorted(by_lane.items())
        )

    def _steps(self, marked: Sequence[Marked], step_of: Sequence[int], wanted: set[int] | None) -> tuple[TraceStep, ...]:
        members: dict[int, list[int]] = {}
        for i in sorted(self.piece_of, key=lambda i: self.trace.gpu.start[i]):
            members.setdefault(step_of[i], []).append(i)
        found = []
        for place, step in enumerate(marked):
            if wanted is not None and step.number not in wanted:
                continue
            events = members.get(place, [])
            kernels = sum(self.trace.gpu_kind[i] == "kernel" for i in events)
            times = (self._sum(events) * US, length(self._spans(events)) * US, self._window(events) * US)
            host = (step.end - step.start) * US
            found.append(TraceStep(number=step.number, host_s=host, kernels=kernels, sum_s=times[0], busy_s=times[1], window_s=times[2]))
        return tuple(found)

    def _critical(self) -> CriticalPath:
        gpu = math.fsum(link.until - self.trace.gpu.start[link.event] for link in self.path)
        everything = self._sum(list(self.piece_of))
        waiting = _by_cause(self.path_waits)
        return CriticalPath(
            time_s=(gpu + math.fsum(w.end - w.start for w in self.path_waits)) * US,
            gpu_s=gpu * US,
            waiting_s=waiting,
            off_path_s=max(everything - gpu, 0.0) * US,  # rounding of times of a clock that runs for months
        )

    def _ranking(self, rows: Sequence[TraceRow]) -> tuple[Ranked, ...]:
        total = self._critical().time_s
        if not total:
            return ()
        parts = [(f"waiting: {cause}", "waiting", time, None) for cause, time in self._critical().waiting_s.items()]
        ranked = [*parts, *((r.id, "operator", r.path_s, r.share_of_roof) for r in rows if r.path_s)]
        ranked.sort(key=lambda p: (-p[2], p[0]))
        return tuple(_ranked(*part, total) for part in ranked[:MOST_RANKED])

    def _warnings(self, rows: Sequence[TraceRow], coverage: float | None) -> tuple[tuple[Notice, ...], str | None]:
        found = []
        suggested = None if self.hardware else _suggested(self.trace.devices)
        graph = math.fsum(r.time_s for r in rows if r.unknown and "graph" in r.unknown)
        if self.trace.partial:
            found.append(Notice(code="W101", message=f"only part of the trace was read: {self.trace.partial}"))
        if not any(self.trace.gpu_kind[i] == "kernel" for i in self.piece_of):
            found.append(Notice(code="W102", message="the trace has no GPU kernels: was it recorded with ProfilerActivity.CUDA?"))
        elif coverage is None:
            found.append(Notice(code="W107", message="every kernel of the trace takes 0 s: nothing follows from such durations"))
        if self.hardware and (other := _other_device(self.hardware, self.trace.devices)):
            found.append(Notice(code=OTHER_DEVICE, message=other))
        if graph:
            found.append(
                Notice(code="W103", message="kernels of a replayed graph cannot be told apart by operator; record a run without graphs")
            )
        if rows and all(r.unknown for r in rows if r.lane == "compute") and any(r.unknown == "no shapes are recorded" for r in rows):
            found.append(Notice(code="W104", message="no shapes are recorded; record with profile(record_shapes=True)"))
        return (*found, *_too_fast(rows, self.hardware)), suggested


def _too_fast(rows: Sequence[TraceRow], hardware: Hardware | None) -> list[Notice]:
    """Operators above their roof: those whose operands may have come from L2, and those that nothing explains."""
    cache = si(hardware.levels["l2"].size) if hardware and "l2" in hardware.levels else None
    fast = [r for r in rows if r.share_of_roof is not None and r.share_of_roof > 1]
    kept = [r.id for r in fast if cache is not None and r.limiter == "hbm" and (r.hbm_bytes or 0.0) <= cache]
    odd = [r.id for r in fast if r.id not in kept]
    found = []
    if odd:
        why = "another device than the profile's, a sparse peak, or a count that is wrong"
        found.append(Notice(code="W105", message=f"faster than the bound: {', '.join(odd[:MOST_NAMED])}{_more(odd)}: {why}"))
    if kept and cache is not None:
        why = f"all that a call moves fits in the L2 of {format_quantity(cache, Dimension.BYTES)}, where it may still have been"
        found.append(Notice(code="W106", message=f"faster than HBM: {', '.join(kept[:MOST_NAMED])}{_more(kept)}: {why}"))
    return found


def _host_link(hardware: Hardware | None) -> str:
    """The profile's link to the host, where it states one."""
    found = [name for name, one in hardware.links.items() if one.topology == "host"] if hardware else []
    return found[0] if len(found) == 1 else ""


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""


def _summed(rows: Sequence[TraceRow]) -> dict[str, float]:
    return {engine: math.fsum((r.flop or {})[engine] * r.calls for r in rows) for engine in ("tensor", "vector", "sfu")}


def _by_cause(gaps: Sequence[Wait]) -> dict[str, float]:
    counted: Counter[str] = Counter()
    for wait in gaps:
        counted[wait.cause] += wait.end - wait.start  # type: ignore[assignment]
    return {name: counted[name] * US for name in sorted(counted, key=lambda n: (-counted[n], n))}


def _ranked(part: str, kind: str, path_s: float, share_of_roof: float | None, total: float) -> Ranked:
    fraction = min(path_s / total, 1.0)
    free = amdahl([Part(fraction, math.inf)]).speedup
    reachable = share_of_roof is not None and 0 < share_of_roof < 1
    at_roof = amdahl([Part(fraction, 1 / share_of_roof)]).speedup if share_of_roof and reachable else None
    return Ranked(
        part=part,
        kind=kind,
        path_s=path_s,
        fraction=fraction,
        limit_speedup=free if math.isfinite(free) else None,
        roof_speedup=at_roof,
    )


def _unavailable(kernels: bool, timed: bool, worked: bool, hardware: Hardware | None) -> Mapping[str, str]:
    found = {} if timed else {"coverage": "all kernels take 0 s" if kernels else "no kernels"}
    if not worked:
        found |= dict.fromkeys(("known_flop", "known_hbm_bytes"), "no operator's work is known")
    return found if hardware else {**found, "hardware": NO_HARDWARE}


def _other_device(hardware: Hardware, names: Sequence[str]) -> str | None:
    """What is said where the devices that the trace names are none of the profile's; None where they are, or either says nothing."""
    if not names or not hardware.match or any(re.fullmatch(pattern, name) for pattern in hardware.match for name in names):
        return None
    looks = _suggested(names)
    said = f"which looks like {looks}" if looks else "which no profile is of"
    return f"{hardware.name} is not the device of the trace, {said}: roofs, and what is worth changing, are those of another device"


def _suggested(names: Sequence[str]) -> str | None:
    """The profile whose patterns match the devices of the trace; None where none or several do.

    Only profiles that share a word with a digit in it with the device are read, such as ``h200``.
    """
    if not names:
        return None
    words = {w for w in re.split(r"[^a-z0-9]+", names[0].lower()) if any(c.isdigit() for c in w)}
    found = []
    for name in hardware_names():
        if words.isdisjoint(name.lower().split("-")):
            continue
        try:
            profile = load_hardware(name)
        except RooflineError:
            continue
        if any(re.fullmatch(pattern, names[0]) for pattern in profile.match):
            found.append(name)
    return found[0] if len(found) == 1 else None
