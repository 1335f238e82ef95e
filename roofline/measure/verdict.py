"""What the readings and samples of a measurement say about whether to believe it: the status, and notes for the reader."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from roofline.measure.base import DeviceInfo, Reading
from roofline.measure.events import POWER_CAP, SLOWDOWN, event_names

CLOCK_DROP = 0.05
"""A fall of the clock within a run that is worth a note."""
TIMER_STEPS = 20
"""A sample shorter than so many steps of the timer is rounded by more than 2.5 %."""

Span = tuple[float, float]


def within(readings: Sequence[Reading], spans: Sequence[Span]) -> tuple[Reading, ...]:
    """The readings taken while samples ran: those of pauses show an idle device."""
    return tuple(r for r in readings if any(start <= r.time_s <= end for start, end in spans))


def slowed(readings: Sequence[Reading], span: Span) -> int:
    """The bits of slowdown that any reading of the span has."""
    found = 0
    for reading in within(readings, [span]):
        found |= (reading.event_reasons or 0) & SLOWDOWN
    return found


def ecc_growth(readings: Sequence[Reading]) -> int:
    """Uncorrected memory errors that came up between the first and the last reading that tell."""
    known = [r.ecc_uncorrected for r in readings if r.ecc_uncorrected is not None]
    return max(0, known[-1] - known[0]) if known else 0


def power_cap_note(readings: Sequence[Reading]) -> str | None:
    """How often the power cap held the clock down."""
    told = [r.event_reasons for r in readings if r.event_reasons is not None]
    capped = sum(1 for bits in told if bits & POWER_CAP)
    return f"clock-limited by the power cap in {capped / len(told):.0%} of the readings" if capped else None


def clock_note(readings: Sequence[Reading]) -> str | None:
    """A clock that fell while samples ran."""
    clocks = [r.sm_mhz for r in readings if r.sm_mhz]
    if not clocks or min(clocks) >= (1 - CLOCK_DROP) * max(clocks):
        return None
    return f"the clock moved between {min(clocks):.0f} and {max(clocks):.0f} MHz within the run"


def slowdown_note(bits: int, rounds: int, kept: bool) -> str | None:
    """Which slowdown was seen, in how many rounds, and what became of their samples."""
    if not bits:
        return None
    fate = "kept" if kept else "repeated and left out"
    return f"{', '.join(event_names(bits))} in {rounds} round{'s' if rounds > 1 else ''}: their samples were {fate}"


def timer_note(seconds: Sequence[float], info: DeviceInfo) -> str | None:
    """Samples too short for the timer, by what it claims or by the steps seen."""
    claimed = info.facts.get("timer_resolution_s")
    step = max(float(claimed) if isinstance(claimed, (int, float)) else 0.0, _seen_step(seconds))
    shortest = min(seconds)
    if step <= 0 or shortest >= TIMER_STEPS * step:
        return None
    return (
        f"the shortest sample ({shortest:.3g} s) is only {shortest / step:.1f} steps of the timer ({step:.3g} s): longer samples are needed"
    )


def _seen_step(seconds: Sequence[float]) -> float:
    """The step of a coarse timer: the least distance of values that repeat; 0 where they hardly do, or are but two."""
    values = sorted(set(seconds))
    if len(values) < 3 or len(values) > len(seconds) / 3:
        return 0.0
    return min(b - a for a, b in pairwise(values))
