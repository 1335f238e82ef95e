"""Which operator launched a kernel: by the profiler's ids where it recorded them, else by who was running on the thread.

A kernel carries the correlation number of the call that launched it and, mostly, the external id of the operator around that
call. Kernels of one replayed graph share one call, so that nothing says which operator they belong to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

import numpy as np

from roofline.ingest.trace_events import NONE, OPTIMIZER, Spans, Trace

ROUNDING_US = 0.01
"""By how much the end of a call may lie behind that of the call around it: times are rounded to nanoseconds."""
BACKWARD = "autograd::engine::evaluate_function"
GRAPH_CALL = "graphlaunch"
FORWARD_PHASE, BACKWARD_PHASE, OPTIMIZER_PHASE = "forward", "backward", "optimizer"


@dataclass(frozen=True, slots=True)
class Links:
    """For each operator its parent and phase; for each GPU event its call, its operator, and whether a graph launched it.

    Numbers are places in the columns of the trace, -1 for none. ``forward`` names, for each operator of a backward pass, the
    operator whose gradient it computes, by the sequence number of autograd.
    """

    parent: list[int]
    phase: list[str]
    forward: dict[int, str]
    launch: list[int]
    owner: list[int]
    graph: list[bool]

    def ancestors(self, operator: int) -> list[int]:
        """The operator and those around it, from the inside out."""
        found = []
        while operator != NONE:
            found.append(operator)
            operator = self.parent[operator]
        return found


def link(trace: Trace) -> Links:
    """All links of a trace."""
    order = _order(trace.operators)
    parent = _parents(trace.operators, order)
    launch, graph = _launches(trace)
    phase = _phases(trace, order, parent)
    return Links(
        parent=parent,
        phase=phase,
        forward=_forward_names(trace, order, parent),
        launch=launch,
        owner=_owners(trace, order, parent, launch, graph),
        graph=graph,
    )


def _order(spans: Spans) -> list[int]:
    """By thread and start, the longer first of those that start together."""
    start, length, lane = (np.frombuffer(c, dtype=t) for c, t in ((spans.start, "f8"), (spans.length, "f8"), (spans.lane, "i8")))
    found: list[int] = np.lexsort((-length, start, lane)).tolist() if len(spans) else []
    return found


def _parents(spans: Spans, order: list[int]) -> list[int]:
    parent = [NONE] * len(spans)
    start, length, lane = spans.start, spans.length, spans.lane
    open_: list[tuple[int, float]] = []
    current = NONE
    for i in order:
        if lane[i] != current:
            current = lane[i]
            open_.clear()
        begin = start[i]
        end = begin + length[i]
        while open_ and (open_[-1][1] <= begin or open_[-1][1] < end - ROUNDING_US):
            open_.pop()
        if open_:
            parent[i] = open_[-1][0]
        open_.append((i, end))
    return parent


def _phases(trace: Trace, order: list[int], parent: list[int]) -> list[str]:
    """Backward inside autograd's engine, optimizer inside an optimizer's step, else forward."""
    own = [
        BACKWARD_PHASE if text.startswith(BACKWARD) else OPTIMIZER_PHASE if text.startswith(OPTIMIZER) else "" for text in trace.words.texts
    ]
    phase = [""] * len(parent)
    steps = _optimizer_windows(trace)
    for i in order:
        found = own[trace.operators.name[i]] or (phase[parent[i]] if parent[i] != NONE else "")
        phase[i] = found or (OPTIMIZER_PHASE if _within(steps, trace.operators.start[i]) else FORWARD_PHASE)
    return phase


def _optimizer_windows(trace: Trace) -> tuple[list[float], list[float]]:
    spans = trace.annotations
    found = sorted(
        (spans.start[i], spans.start[i] + spans.length[i])
        for i in range(len(spans))
        if trace.words.texts[spans.name[i]].startswith(OPTIMIZER)
    )
    return [s for s, _ in found], [e for _, e in found]


def _within(windows: tuple[list[float], list[float]], at: float) -> bool:
    place = bisect_right(windows[0], at) - 1
    return place >= 0 and at < windows[1][place]


def _forward_names(trace: Trace, order: list[int], parent: list[int]) -> dict[int, str]:
    """The forward operator of a sequence number is the last that began with it, or the outermost one around that."""
    operators = trace.operators
    last: dict[int, int] = {}
    for i in order:
        sequence = operators.extra[i]
        if sequence >= 0 and (sequence not in last or operators.start[i] >= operators.start[last[sequence]]):
            last[sequence] = i
    names: dict[int, str] = {}
    found: dict[int, str] = {}
    for sequence, i in last.items():
        outer = i
        while parent[outer] != NONE and operators.extra[parent[outer]] == sequence:
            outer = parent[outer]
        names[sequence] = trace.words.texts[operators.name[outer]]
    for i in order:
        sequence = -2 - operators.extra[i]
        if operators.extra[i] <= -2 and sequence in names:
            found[i] = names[sequence]
        elif parent[i] in found:
            found[i] = found[parent[i]]
    return found


def _launches(trace: Trace) -> tuple[list[int], list[bool]]:
    """The call of each GPU event, and whether that call launched a graph."""
    calls = {c: i for i, c in enumerate(trace.runtime.correlation) if c > 0}
    kernels = Counter(c for c, kind in zip(trace.gpu.correlation, trace.gpu_kind, strict=True) if c > 0 and kind == "kernel")
    of_graph = [GRAPH_CALL in text.lower() for text in trace.words.texts]
    launch = [calls.get(c, NONE) for c in trace.gpu.correlation]
    graph = [
        kernels[c] > 1 or (call != NONE and of_graph[trace.runtime.name[call]])
        for c, call in zip(trace.gpu.correlation, launch, strict=True)
    ]
    return launch, graph


def _owners(trace: Trace, order: list[int], parent: list[int], launch: list[int], graph: list[bool]) -> list[int]:
    by_id: dict[int, int] = {}
    for i, number in enumerate(trace.operators.external):
        if number > 0:
            by_id.setdefault(number, i)
    around: _Around | None = None
    owner = []
    for i, number in enumerate(trace.gpu.external):
        call = launch[i]
        found = NONE if graph[i] else by_id.get(number, NONE)
        if found == NONE and not graph[i] and call != NONE:
            around = around or _Around(trace.operators, order, parent)
            found = around.at(trace.runtime.lane[call], trace.runtime.start[call])
        owner.append(found)
    return owner


class _Around:
    """The innermost operator on a thread at a time."""

    def __init__(self, spans: Spans, order: list[int], parent: list[int]) -> None:
        self._spans, self._parent = spans, parent
        self._lanes: dict[int, tuple[list[float], list[int]]] = {}
        for i in order:
            starts, places = self._lanes.setdefault(spans.lane[i], ([], []))
            starts.append(spans.start[i])
            places.append(i)

    def at(self, lane: int, time: float) -> int:
        """Its place, -1 where none runs."""
        if lane not in self._lanes:
            return NONE
        starts, places = self._lanes[lane]
        k = bisect_right(starts, time) - 1
        found = places[k] if k >= 0 else NONE
        while found != NONE and self._spans.start[found] + self._spans.length[found] < time:
            found = self._parent[found]
        return found
