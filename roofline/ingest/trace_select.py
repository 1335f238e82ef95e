"""Steps that the profiler marked (``ProfilerStep#7``), which events belong to each, and which steps are wanted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from roofline.errors import UsageError
from roofline.ingest.trace_events import NONE, STEP, Trace
from roofline.ingest.trace_link import Links


@dataclass(frozen=True, slots=True)
class Marked:
    """A step: its number, and when the host began and ended it (microseconds)."""

    number: int
    start: float
    end: float


def marked_steps(trace: Trace) -> list[Marked]:
    """The steps of a trace in order; none where the profiler was not told of any."""
    spans, texts = trace.annotations, trace.words.texts
    found: dict[int, Marked] = {}
    for i in range(len(spans)):
        text = texts[spans.name[i]]
        number = text.removeprefix(STEP)
        if text.startswith(STEP) and number.isascii() and number.isdigit() and len(number) <= 9:
            found.setdefault(int(number), Marked(int(number), spans.start[i], spans.start[i] + spans.length[i]))
    return sorted(found.values(), key=lambda s: s.start)


def steps_of_events(trace: Trace, links: Links, steps: Sequence[Marked]) -> list[int]:
    """For each GPU event the place of the step in which the host launched it, -1 for none."""
    starts = [s.start for s in steps]
    found = []
    for i, call in enumerate(links.launch):
        at = trace.gpu.start[i] if call == NONE else trace.runtime.start[call]
        place = bisect_right(starts, at) - 1
        found.append(place if place >= 0 and at < steps[place].end else NONE)
    return found


def chosen(words: str, known: Sequence[int]) -> set[int]:
    """Step numbers from ``3``, ``2-4`` or ``1,3-5``.

    Raises:
        UsageError: not of that form, or a step that the trace does not have.

    >>> sorted(chosen("1,3-4", [1, 2, 3, 4]))
    [1, 3, 4]
    """
    if not known:
        raise UsageError("--steps: the trace marks no steps; call profiler.step() after each, or leave --steps away")
    found: set[int] = set()
    for word in words.split(","):
        first, dash, last = word.strip().partition("-")
        ends = (first, last if dash else first)
        if not all(e.isascii() and e.isdigit() and len(e) <= 9 for e in ends) or int(ends[0]) > int(ends[1]):
            raise UsageError(f"--steps: '{word.strip()}' is no step number or range of them, such as 3 or 2-4")
        within = {n for n in known if int(ends[0]) <= n <= int(ends[1])}
        if not within:
            raise UsageError(f"--steps: the trace has no step {word.strip()}; it has {_listed(known)}")
        found |= within
    return found


def _listed(known: Sequence[int]) -> str:
    shown = ", ".join(str(n) for n in known[:12])
    return f"{shown}, ... {known[-1]}" if len(known) > 12 else shown
