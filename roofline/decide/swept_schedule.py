"""`roofline.predict.compose.schedule` for arrays: when each step ends at every point, and which chain decides the end there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roofline.numeric import Number


@dataclass(frozen=True, slots=True)
class SweptTask:
    """A step to be scheduled, as `roofline.predict.compose.Task`."""

    id: str
    time_s: Number
    lane: str
    after: tuple[str, ...] | None


def critical_path(tasks: Sequence[SweptTask]) -> tuple[Number, Mapping[str, Any]]:
    """The whole time, and by task whether it lies on the critical path (an array, or one answer for all points).

    Tasks one after the other all do, those without any time too.
    """
    if all(t.after is None for t in tasks):
        whole: Number = 0.0
        for t in tasks:
            whole = whole + t.time_s
        return whole, dict.fromkeys((t.id for t in tasks), True)
    return _overlapped(tasks)


def _overlapped(tasks: Sequence[SweptTask]) -> tuple[Number, Mapping[str, Any]]:
    """Ends and causes by task; the chain is walked back from whichever ends last."""
    at = {t.id: i for i, t in enumerate(tasks)}
    ends: list[Any] = []
    causes: list[Any] = []
    lane_last: dict[str, int] = {}
    for i, task in enumerate(tasks):
        waits = [at[w] for w in task.after] if task.after is not None else [i - 1] if i else []
        if task.lane in lane_last:
            waits.append(lane_last[task.lane])
        start, cause = _latest([(w, ends[w]) for w in waits])
        ends.append(start + task.time_s)
        causes.append(cause)
        lane_last[task.lane] = i
    whole, last = _latest(list(enumerate(ends)))
    on_path = [last == i for i in range(len(tasks))]
    for i in reversed(range(len(tasks))):
        for w in range(i):
            on_path[w] = on_path[w] | (on_path[i] & (causes[i] == w))
    return whole, {t.id: on_path[i] for t, i in ((t, at[t.id]) for t in tasks)}


def _latest(found: Sequence[tuple[int, Any]]) -> tuple[Any, Any]:
    """The latest end and the number of the task that it belongs to, the first of equals; 0 and -1 of nothing."""
    if not found:
        return np.float64(0.0), np.int64(-1)
    chosen, latest = np.int64(found[0][0]), found[0][1]
    for number, end in found[1:]:
        chosen = np.where(end > latest, number, chosen)
        latest = np.maximum(latest, end)
    return latest, chosen
