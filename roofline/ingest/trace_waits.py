"""Why a device did nothing: gaps between its events, and what the host was doing meanwhile."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from roofline.ingest.trace_events import LOADING, NONE, Spans, Trace
from roofline.ingest.trace_link import Links
from roofline.ingest.trace_time import Interval, common

CAUSES = {
    "host": "the host launched the next kernel only after the device had run dry",
    "sync": "the host was waiting for the device until it had run dry, and launched afterwards",
    "data_loading": "the host was waiting for a data loader",
    "launch": "the call that launched the next kernel had begun, and was not yet done, when the device ran dry",
    "device": "the next kernel had been launched before: start-up of a kernel, or a wait for another stream or event",
    "graph": "between kernels of one graph, which the device itself launches",
    "unknown": "the call that launched the next kernel is not in the trace",
}
LOADING_SHARE = 0.5
"""How much of the time before a launch must lie in a data loader, that it is the cause."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A gap (microseconds), its cause, and the GPU event that ended it."""

    start: float
    end: float
    cause: str
    event: int


class Host:
    """What the host did: calls that wait for the device, and data loaders, by thread."""

    def __init__(self, trace: Trace, links: Links) -> None:
        self.trace, self.links = trace, links
        waiting = ["synchronize" in text.lower() for text in trace.words.texts]
        loading = [text.startswith(LOADING) for text in trace.words.texts]
        self._waits = _by_lane(trace.runtime, waiting)
        self._loads = _by_lane(trace.annotations, loading)

    def cause(self, event: int, idle_from: float) -> str:
        """Why a GPU event did not start at ``idle_from``, when the device ran dry."""
        call = self.links.launch[event]
        if call == NONE:
            return "unknown"
        runtime = self.trace.runtime
        lane, start = runtime.lane[call], runtime.start[call]
        if start < idle_from:
            if self.links.graph[event]:
                return "graph"
            return "launch" if start + runtime.length[call] > idle_from else "device"
        before = [(idle_from, start)]
        if common(self._loads.get(lane, []), before) > LOADING_SHARE * (start - idle_from):
            return "data_loading"
        return "sync" if _running(self._waits.get(lane, []), idle_from) else "host"


def _by_lane(spans: Spans, wanted: Sequence[bool]) -> dict[int, list[Interval]]:
    found: dict[int, list[Interval]] = {}
    for i in range(len(spans)):
        if wanted[spans.name[i]]:
            found.setdefault(spans.lane[i], []).append((spans.start[i], spans.start[i] + spans.length[i]))
    return {lane: sorted(intervals) for lane, intervals in found.items()}


def _running(intervals: list[Interval], at: float) -> bool:
    place = bisect_right(intervals, (at, float("inf"))) - 1
    return place >= 0 and intervals[place][0] <= at <= intervals[place][1]


def waits(trace: Trace, host: Host, events: Sequence[int]) -> list[Wait]:
    """The gaps between events of one device, which come in order of their start."""
    found: list[Wait] = []
    end: float | None = None
    for event in events:
        start = trace.gpu.start[event]
        if end is not None and start > end:
            found.append(Wait(end, start, host.cause(event, end), event))
        last = start + trace.gpu.length[event]
        end = last if end is None else max(end, last)
    return found


@dataclass(frozen=True, slots=True)
class Link:
    """An event on the critical path, and how long it is on it: until the next one starts, or until it ends."""

    event: int
    until: float


def chain(trace: Trace, events: Sequence[int]) -> list[Link]:
    """The events of one device on its critical path, the last one first. ``events`` come in order of their start.

    Before each comes the one that it followed: on its own stream the one before it, which may still run when it starts
    (dependent launches), or of all that had ended when it started the one that ended last, whichever lasted longer.
    """
    start, length = trace.gpu.start, trace.gpu.length
    earlier = _before_on_stream(trace, events)
    by_end = sorted(events, key=lambda i: (start[i] + length[i], start[i], i))
    ends = [start[i] + length[i] for i in by_end]
    rank = {event: k for k, event in enumerate(events)}
    found: list[Link] = []
    event = by_end[-1] if by_end else NONE
    until = ends[-1] if ends else 0.0
    while event != NONE:
        found.append(Link(event, until))
        begin = start[event]
        place = bisect_right(ends, begin) - 1
        while place >= 0 and rank[by_end[place]] >= rank[event]:  # events of no length that end where this one starts
            place -= 1
        before, own = by_end[place] if place >= 0 else NONE, earlier[event]
        if own != NONE and (before == NONE or start[own] + length[own] >= start[before] + length[before]):
            before = own
        if before != NONE:
            until = min(start[before] + length[before], begin)
        event = before
    return found


def _before_on_stream(trace: Trace, events: Sequence[int]) -> dict[int, int]:
    """For each event the one before it on its stream, -1 for the first."""
    found: dict[int, int] = {}
    last: dict[int, int] = {}
    for event in events:
        lane = trace.gpu.lane[event]
        found[event] = last.get(lane, NONE)
        last[lane] = event
    return found
