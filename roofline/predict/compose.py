"""Steps to a whole: when each starts and ends, which chain decides the end, what a change is worth.

Steps run in order unless they state what they wait for; then they may overlap across lanes (compute, copy, link), of
which each runs one step at a time in file order. The whole takes as long as its critical path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.records import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """A step to be scheduled: its time, its lane, what it waits for (None: the task before it)."""

    id: str
    time_s: float
    lane: str
    after: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """The outcome: the whole time, the ids of the chain that decides it, and the busy time of each lane."""

    time_s: float
    critical: tuple[str, ...]
    lanes: Mapping[str, float]
    overlapped: bool


def schedule(tasks: Sequence[Task]) -> Schedule:
    """Run the tasks, each as soon as what it waits for and its lane are free."""
    end: dict[str, float] = {}
    cause: dict[str, str | None] = {}
    lane_last: dict[str, str] = {}
    lanes: dict[str, float] = {}
    previous: str | None = None
    for task in tasks:
        waits = list(task.after) if task.after is not None else [previous] if previous else []
        if task.lane in lane_last:
            waits.append(lane_last[task.lane])
        last = max((w for w in waits if w in end), key=lambda w: end[w], default=None)
        end[task.id] = (end[last] if last else 0.0) + task.time_s
        cause[task.id] = last
        lane_last[task.lane] = previous = task.id
        lanes[task.lane] = lanes.get(task.lane, 0.0) + task.time_s
    final = max(end, key=lambda i: end[i], default=None)
    return Schedule(
        time_s=end[final] if final else 0.0,
        critical=_chain(final, cause),
        lanes=lanes,
        overlapped=any(t.after is not None for t in tasks),
    )


def _chain(final: str | None, cause: Mapping[str, str | None]) -> tuple[str, ...]:
    chain: list[str] = []
    while final is not None:
        chain.append(final)
        final = cause[final]
    return tuple(reversed(chain))
